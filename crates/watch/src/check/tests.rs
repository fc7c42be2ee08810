use super::*;
use crate::fact::{Block, HostAccess, Line, Origin, Piece};
use crate::testing::{MadeFacts, TO_DEVICE, TO_HOST};

/// A process that writes, at this line, the source of a copy in flight.
fn process(number: u32, line: u32) -> MadeFacts {
    let mut made = MadeFacts::new(number);
    made.stream(1, 0);
    let (file, function) = ("a.c".into(), "main".into());
    made.push(number, Fact::Line(Line { number: 1, line, file, function }));
    made.push(number, Fact::Stack { number: 1, frames: vec![Line::ADDRESS | 1] });
    let point = made.copy(number, 1, TO_DEVICE, Piece { dst: 0x9000, src: 0x1000, len: 64 });
    let (time, address) = (made.wait(500).now, 0x1008);
    let access = HostAccess { time, point, address, is_write: true, stack: 1, ..HostAccess::default() };
    made.push(number, Fact::Access(access));
    made
}

/// Each finding with its line and how often it was seen.
fn found(checker: &Checker) -> Vec<(FindingId, Option<u32>, u64)> {
    let line = |finding: &CheckFinding| finding.access.first().and_then(|frame| frame.line);
    checker.findings().iter().map(|finding| (finding.id, line(finding), finding.count)).collect()
}

#[test]
fn what_another_run_does_wrong_as_well_is_counted_at_its_own_finding() {
    let mut checker = Checker::new(CheckOptions { leaks: true, ..CheckOptions::default() });
    let mut leaking = process(7, 10);
    leaking.block(Block { base: 0x1000, len: 0x1000, origin: Origin::Allocated, ..Block::default() });
    for run in [leaking, process(8, 10)] {
        run.feed(&mut checker);
        checker.finish(|_| false);
    }
    assert_eq!(found(&checker), [(FindingId::Leak, None, 1), (FindingId::HostWrite, Some(10), 2)]);
}

#[test]
fn a_process_that_becomes_another_program_has_other_stacks_with_the_same_numbers() {
    let mut checker = Checker::new(CheckOptions::default());
    for line in [10, 20] {
        process(7, line).feed(&mut checker);
    }
    checker.finish(|_| false);
    assert_eq!(found(&checker), [(FindingId::HostWrite, Some(10), 1), (FindingId::HostWrite, Some(20), 1)]);
}

#[test]
fn a_copy_of_unwritten_bytes_is_in_flight_as_any_other() {
    let (mut checker, mut made) = (Checker::new(CheckOptions::default()), MadeFacts::new(7));
    made.stream(1, 0);
    let (device, origin) = (Some(0), Origin::Allocated);
    made.block(Block { base: 0x5000, at: 0x9000, len: 64, device, origin });
    let point = made.copy(7, 1, TO_HOST, Piece { dst: 0x1000, src: 0x9000, len: 64 });
    let (time, address) = (made.wait(500).now, 0x1008);
    let access = HostAccess { time, point, address, is_destination: true, ..HostAccess::default() };
    made.push(7, Fact::Access(access));
    made.feed(&mut checker);
    checker.finish(|_| false);
    assert_eq!(found(&checker), [(FindingId::Uninitialised, None, 1), (FindingId::HostRead, None, 1)]);
}
