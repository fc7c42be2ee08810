use super::*;
use crate::fact::{
    Awaited, Block, HostAccess, Join, Joined, Line, Origin, Outcome, Passed, Piece, Point, SubmittedOp,
};
use crate::testing::{MadeFacts, TO_DEVICE, TO_HOST};

mod bounds;

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
        checker.finish(|_| ProcessEnd::Itself);
    }
    assert_eq!(found(&checker), [(FindingId::Leak, None, 1), (FindingId::HostWrite, Some(10), 2)]);
}

#[test]
fn messages_name_the_bytes_that_the_program_asked_for() {
    let mut checker = Checker::new(CheckOptions { leaks: true, ..CheckOptions::default() });
    let mut made = MadeFacts::new(7);
    made.block(Block { base: 0x1000, len: 4128, padding: 38, ..Block::default() });
    made.feed(&mut checker);
    checker.finish(|_| ProcessEnd::Itself);
    let finding = &checker.findings()[0];
    assert_eq!(finding.bytes, Some((0x1000, 4090)));
    assert!(finding.message.starts_with("4090 bytes"), "{}", finding.message);
}

#[test]
fn physical_memory_is_allocated_while_it_has_a_handle_or_is_mapped() {
    let (named, freed) = (
        |at, site| Fact::PhysicalNamed { time: 0, site, at, len: 4096 },
        |at| Fact::PhysicalFreed { time: 0, at },
    );
    // At two addresses, which are unmapped one after the other.
    let steps: [(&str, u32, Option<&str>); 6] = [
        ("named", 0, Some("handle was never freed")),
        ("mapped", 0x1000, Some("handle was never freed")),
        ("mapped", 0x3000, Some("handle was never freed")),
        ("freed", 0, Some("never unmapped")),
        ("unmapped", 0x1000, Some("never unmapped")),
        ("unmapped", 0x3000, None),
    ];
    for count in 1..=steps.len() {
        let mut made = MadeFacts::new(7);
        let site = made.site("aclrtMalloc");
        for (step, base, _) in &steps[..count] {
            let (base, at) = (u64::from(*base), 0x9000);
            let block = Block { base, at, len: 4096, origin: Origin::Mapped, ..Block::default() };
            match *step {
                "named" => made.push(7, named(at, site)),
                "mapped" => made.block(block),
                "freed" => made.push(7, freed(at)),
                _ => free(&mut made, base),
            }
        }
        let mut checker = Checker::new(CheckOptions { leaks: true, ..CheckOptions::default() });
        made.feed(&mut checker);
        checker.finish(|_| ProcessEnd::Itself);
        let told: Vec<&str> = checker.findings().iter().map(|finding| finding.message.as_str()).collect();
        let (step, base, expected) = steps[count - 1];
        assert_eq!(told.len(), usize::from(expected.is_some()), "{step} {base:#x}: {told:?}");
        assert!(expected.is_none_or(|words| told[0].contains(words)), "{step} {base:#x}: {told:?}");
    }
}

#[test]
fn a_process_that_becomes_another_program_has_other_stacks_with_the_same_numbers() {
    let mut checker = Checker::new(CheckOptions::default());
    for line in [10, 20] {
        process(7, line).feed(&mut checker);
    }
    checker.finish(|_| ProcessEnd::Itself);
    assert_eq!(found(&checker), [(FindingId::HostWrite, Some(10), 1), (FindingId::HostWrite, Some(20), 1)]);
}

#[test]
fn a_copy_of_unwritten_bytes_is_in_flight_as_any_other() {
    let (mut checker, mut made) = (Checker::new(CheckOptions::default()), MadeFacts::new(7));
    made.stream(1, 0);
    let (device, origin) = (Some(0), Origin::Allocated);
    made.block(Block { base: 0x5000, at: 0x9000, len: 64, padding: 0, device, origin });
    let point = made.copy(7, 1, TO_HOST, Piece { dst: 0x1000, src: 0x9000, len: 64 });
    let (time, address) = (made.wait(500).now, 0x1008);
    let access = HostAccess { time, point, address, is_destination: true, ..HostAccess::default() };
    made.push(7, Fact::Access(access));
    made.feed(&mut checker);
    checker.finish(|_| ProcessEnd::Itself);
    assert_eq!(found(&checker), [(FindingId::Uninitialised, None, 1), (FindingId::HostRead, None, 1)]);
}

#[test]
fn a_process_that_is_killed_loses_what_has_no_finding_yet() {
    let to_device = Piece { dst: 0x9000, src: 0x1000, len: 64 };
    let to_host = Piece { dst: 0x1000, src: 0x9000, len: 64 };
    let copied = |route, piece, more: &dyn Fn(Point, u64) -> Option<Fact>| {
        let mut made = MadeFacts::new(7);
        made.stream(1, 0);
        let (device, origin) = (Some(0), Origin::Allocated);
        made.block(Block { base: 0x5000, at: 0x9000, len: 64, padding: 0, device, origin });
        let point = made.copy(7, 1, route, piece);
        let time = made.wait(500).now;
        more(point, time).into_iter().for_each(|fact| made.push(7, fact));
        made
    };
    let access =
        |point, time| HostAccess { time, point, address: 0x1008, is_write: true, ..HostAccess::default() };
    let device = |time| Fact::DevicePointer { time, thread: 7, address: 0x5000, is_write: false, stack: 0 };
    let plain = copied(TO_DEVICE, to_device, &|_, _| None);
    let written = copied(TO_DEVICE, to_device, &|point, time| Some(Fact::Access(access(point, time))));
    let crashed = copied(TO_DEVICE, to_device, &|_, time| Some(device(time)));
    let mut survived = copied(TO_DEVICE, to_device, &|_, time| Some(device(time)));
    survived.stream(2, 0);
    let unwritten = copied(TO_HOST, to_host, &|_, _| None);
    use FindingId::{DevicePointer, HostWrite, Lost, Uninitialised};
    use ProcessEnd::{Itself, Killed, Unknown};
    for (made, end, expected) in [
        (&plain, Itself, vec![Lost]),
        (&plain, Killed, vec![Lost]),
        (&plain, Unknown, vec![]),
        (&written, Killed, vec![HostWrite]),
        (&crashed, Killed, vec![DevicePointer]),
        (&crashed, Itself, vec![Lost, DevicePointer]),
        (&survived, Killed, vec![Lost, DevicePointer]),
        (&unwritten, Killed, vec![Uninitialised]),
    ] {
        let mut checker = Checker::new(CheckOptions::default());
        made.feed(&mut checker);
        checker.finish(|_| end);
        let ids: Vec<FindingId> = checker.findings().iter().map(|finding| finding.id).collect();
        assert_eq!(ids, expected, "{end:?}");
    }
}

#[test]
fn a_failed_end_of_a_capture_is_told_however_its_times_are_read() {
    let mut made = MadeFacts::new(7);
    made.stream(1, 0);
    let (begin, end) = (made.site("aclrtMalloc"), made.site("aclrtFree"));
    let failure = |made: &MadeFacts, site| Fact::Failure {
        time: made.now,
        site,
        code: 107_025,
        message: "not joined back".into(),
    };
    made.push(7, Fact::CaptureBegun { time: made.now, site: begin, graph: 1, stream: 1 });
    let time = made.wait(1_000_000).now;
    made.push(7, Fact::CaptureEnded { time, site: end, graph: 1, is_graph: false });
    // The same call: two facts of it may be read by different clocks.
    let again = CallSite { begin: end.begin + 5_000, ..end };
    made.push(7, failure(&made, again));
    made.push(7, Fact::Call(crate::fact::Call { site: again, end: made.now, blocked: 0, code: 107_025 }));
    // Another call, when no capture is under way.
    made.push(7, failure(&made, made.site("aclrtMemcpyAsync")));
    let mut checker = Checker::new(CheckOptions::default());
    made.feed(&mut checker);
    checker.finish(|_| ProcessEnd::Itself);
    assert_eq!(found(&checker), [(FindingId::Capture, None, 1)]);
}

/// Two blocks, and streams: the first is what frees are about.
fn two_blocks() -> MadeFacts {
    let mut made = MadeFacts::new(7);
    (1..=4).for_each(|stream| made.stream(stream, 0));
    for base in [0x1000, 0x2000] {
        made.block(Block {
            base,
            at: base,
            len: 0x1000,
            padding: 0,
            device: None,
            origin: Origin::Allocated,
        });
    }
    made
}

fn free(made: &mut MadeFacts, base: u64) {
    let site = made.site("aclrtFree");
    let time = made.wait(100).now;
    made.push(7, Fact::Forgotten { time, site, base });
}

fn at(stream: u32) -> SubmittedOp {
    SubmittedOp { point: Point { stream, ticket: 0 }, ..SubmittedOp::default() }
}

/// The program's own facts with those of a worker put in at every place from `earliest` on: the findings are
/// the same, and these.
fn expect_whenever(made: &MadeFacts, earliest: usize, worker: &[(FactSource, Fact)], expected: &[FindingId]) {
    for place in earliest..=made.facts.len() {
        let mut checker = Checker::new(CheckOptions::default());
        let (before, behind) = made.facts.split_at(place);
        for (source, fact) in before.iter().chain(worker).chain(behind) {
            checker.take(*source, fact);
        }
        checker.finish(|_| ProcessEnd::Unknown);
        let all = checker.findings().iter().map(|finding| (finding.id, finding.count));
        let expected: Vec<_> = expected.iter().map(|id| (*id, 1)).collect();
        assert_eq!(all.collect::<Vec<_>>(), expected, "told by the worker behind {} facts", place - earliest);
    }
}

const THROUGH: Work = Work::Through { device: 0, cells: [0; 2], len: 0 };
const WORKER: FactSource = FactSource { process: 7, thread: 99 };

fn passed(point: Point) -> Fact {
    Fact::Passed(crate::fact::Passed { point, ..Default::default() })
}

#[test]
fn a_host_that_does_not_wait_is_reported_beside_a_race_of_the_same_copy() {
    let mut made = two_blocks();
    made.copy(7, 1, TO_DEVICE, Piece { dst: 0xa000, src: 0x2000, len: 64 });
    let point = made.copy(7, 2, TO_HOST, Piece { dst: 0x1000, src: 0xa000, len: 64 });
    let access = HostAccess { time: made.now, point, address: 0x1008, ..HostAccess::default() };
    made.push(7, Fact::Access(access));
    free(&mut made, 0x1000);
    let mut checker = Checker::new(CheckOptions::default());
    made.feed(&mut checker);
    checker.finish(|_| ProcessEnd::Itself);
    // The free, too, is of memory that nobody waited for: one mistake with the read. Nothing more is lost.
    let ids: Vec<FindingId> = checker.findings().iter().map(|finding| finding.id).collect();
    assert_eq!(ids, [FindingId::StreamRace, FindingId::HostRead]);
}

#[test]
fn what_comes_behind_a_finding_that_is_left_out_is_found() {
    use FindingId::{Free, HostRead, HostWrite, Lost};
    for (left_out, expected) in [
        (&[][..], &[HostRead][..]),
        (&[HostRead], &[HostRead, HostWrite]),
        (&[HostRead, HostWrite], &[HostRead, HostWrite, Free]),
        (&[HostRead, HostWrite, Free], &[HostRead, HostWrite, Lost, Free]),
    ] {
        let mut made = two_blocks();
        let point = made.copy(7, 1, TO_HOST, Piece { dst: 0x1000, src: 0xa000, len: 64 });
        for (is_write, stack) in [(false, 1), (true, 2), (false, 1)] {
            let access = HostAccess { time: made.now, point, address: 0x1008, ..HostAccess::default() };
            made.push(7, Fact::Access(HostAccess { is_write, stack, ..access }));
        }
        free(&mut made, 0x1000);
        let is_left_out = move |finding: &CheckFinding| left_out.contains(&finding.id);
        let mut checker = Checker::new(CheckOptions::default()).leaving_out(is_left_out);
        made.feed(&mut checker);
        checker.finish(|_| ProcessEnd::Itself);
        let ids: Vec<FindingId> = checker.findings().iter().map(|finding| finding.id).collect();
        assert_eq!(ids, expected, "without {left_out:?}");
    }
}

#[test]
fn a_race_that_is_left_out_orders_nothing() {
    for (is_left_out, expected) in [(false, 1), (true, 2)] {
        let mut made = two_blocks();
        let (known, other) = (0xa000, 0xb000);
        let up = |dst| Piece { dst, src: 0x1000, len: 64 };
        made.copy(7, 1, TO_DEVICE, up(other));
        made.copy(7, 1, TO_DEVICE, up(known));
        // One missing wait is one finding, unless that one is left out.
        let reads = [known, other].map(|src| {
            made.copy(7, 2, TO_HOST, Piece { dst: 0x2000, src, len: 64 });
            made.now
        });
        let checker = Checker::new(CheckOptions::default());
        let is_known = move |finding: &CheckFinding| is_left_out && finding.time <= reads[0];
        let mut checker = checker.leaving_out(is_known);
        made.feed(&mut checker);
        checker.finish(|_| ProcessEnd::Unknown);
        let races = checker.findings().iter().filter(|finding| finding.id == FindingId::StreamRace);
        assert_eq!(races.map(|race| race.count).sum::<u64>(), expected, "left out: {is_left_out}");
    }
}

#[test]
fn a_race_that_is_left_out_hides_no_other_of_its_bytes() {
    for (is_left_out, expected) in [(false, 1), (true, 2)] {
        let mut made = two_blocks();
        let up = Piece { dst: 0xa000, src: 0x1000, len: 64 };
        made.copy(7, 1, TO_DEVICE, up);
        let second = made.copy(7, 2, TO_DEVICE, up);
        let known = made.now;
        // Behind the second copy, and not behind the first one.
        made.submit(7, SubmittedOp { awaits: vec![Awaited::Point(second)], ..at(3) });
        made.copy(7, 3, TO_HOST, Piece { dst: 0x2000, src: 0xa000, len: 64 });
        let checker = Checker::new(CheckOptions::default());
        let mut checker = checker.leaving_out(move |finding| is_left_out && finding.time <= known);
        made.feed(&mut checker);
        checker.finish(|_| ProcessEnd::Unknown);
        let races = checker.findings().iter().filter(|finding| finding.id == FindingId::StreamRace);
        assert_eq!(races.map(|race| race.count).sum::<u64>(), expected, "left out: {is_left_out}");
    }
}

#[test]
fn unwritten_bytes_that_are_left_out_are_told_of_again() {
    for (is_left_out, expected) in [(false, 1), (true, 2)] {
        let mut made = two_blocks();
        let (device, origin) = (Some(0), Origin::Allocated);
        made.block(Block { base: 0x5000, at: 0x9000, len: 64, padding: 0, device, origin });
        (0..2).for_each(|_| {
            made.copy(7, 1, TO_HOST, Piece { dst: 0x1000, src: 0x9000, len: 64 });
        });
        let mut checker = Checker::new(CheckOptions::default()).leaving_out(move |_| is_left_out);
        made.feed(&mut checker);
        checker.finish(|_| ProcessEnd::Unknown);
        let count = checker.findings().iter().map(|finding| finding.count).sum::<u64>();
        assert_eq!(count, expected, "left out: {is_left_out}");
    }
}

#[test]
fn a_late_bound_copy_is_lost_whether_or_not_it_has_run() {
    let mut made = two_blocks();
    let late = made.submit(7, SubmittedOp { work: THROUGH, ..at(1) });
    let piece = Piece { dst: 0xa000, src: 0xb000, len: 64 };
    let ran = [Fact::Resolved { time: 0, point: late, piece }, passed(late)];
    for facts in [&ran[..], &[]] {
        let mut checker = Checker::new(CheckOptions::default());
        made.feed(&mut checker);
        facts.iter().for_each(|fact| checker.take(WORKER, fact));
        checker.finish(|_| ProcessEnd::Itself);
        assert_eq!(found(&checker), [(FindingId::Lost, None, 1)], "{} facts of its run", facts.len());
    }
}

#[test]
fn two_threads_that_end_captures_at_once_are_both_told() {
    let mut made = MadeFacts::new(7);
    let ends: Vec<CallSite> = (1..=2)
        .map(|graph| {
            made.stream(graph, 0);
            let (begin, end) = (made.site("aclrtMalloc"), made.site("aclrtFree"));
            made.push(graph, Fact::CaptureBegun { time: made.now, site: begin, graph, stream: graph });
            end
        })
        .collect();
    for (graph, site) in (1..).zip(&ends) {
        made.push(graph, Fact::CaptureEnded { time: made.now, site: *site, graph, is_graph: false });
    }
    for (thread, site) in (1..).zip(&ends) {
        let (code, message) = (107_025, "not joined back".into());
        made.push(thread, Fact::Failure { time: made.now, site: *site, code, message });
    }
    let mut checker = Checker::new(CheckOptions::default());
    made.feed(&mut checker);
    checker.finish(|_| ProcessEnd::Itself);
    let told = checker.findings().iter().map(|finding| (finding.id, finding.count)).collect::<Vec<_>>();
    assert_eq!(told.iter().map(|(_, count)| count).sum::<u64>(), 2, "{told:?}");
}

#[test]
fn a_copy_that_is_told_after_its_join_races_with_what_was_submitted_before_that() {
    for (is_before, expected) in [(true, &[FindingId::StreamRace][..]), (false, &[])] {
        let mut made = two_blocks();
        let piece = Piece { dst: 0xa000, src: 0x1000, len: 64 };
        if is_before {
            made.copy(7, 2, TO_DEVICE, piece);
        }
        let late = made.copy(8, 1, TO_DEVICE, piece);
        let told_late = made.facts.pop().expect("its submission");
        made.synchronize(7, late, made.now);
        if !is_before {
            made.copy(7, 2, TO_DEVICE, piece);
        }
        let other = made.copy(7, 3, TO_DEVICE, Piece { dst: 0xb000, ..piece });
        made.synchronize(7, other, made.now);
        made.facts.push(told_late);
        let mut checker = Checker::new(CheckOptions::default());
        made.feed(&mut checker);
        checker.finish(|_| ProcessEnd::Unknown);
        let ids: Vec<FindingId> = checker.findings().iter().map(|finding| finding.id).collect();
        assert_eq!(ids, expected, "submitted before the join: {is_before}");
    }
}

#[test]
fn an_access_is_told_with_its_copy_however_late_that_is_told() {
    let mut made = two_blocks();
    let point = made.copy(8, 1, TO_DEVICE, Piece { dst: 0xa000, src: 0x1000, len: 64 });
    let submission = made.facts.pop().expect("told");
    let earliest = made.facts.len();
    let access =
        HostAccess { time: made.now, point, address: 0x1008, is_write: true, ..HostAccess::default() };
    made.push(7, Fact::Access(access));
    made.synchronize(7, point, made.now);
    for place in earliest..=made.facts.len() {
        let mut checker = Checker::new(CheckOptions::default());
        let (before, behind) = made.facts.split_at(place);
        for (source, fact) in before.iter().chain([&submission]).chain(behind) {
            checker.take(*source, fact);
        }
        checker.finish(|_| ProcessEnd::Itself);
        let [finding] = checker.findings() else { panic!("{:?}", found(&checker)) };
        let work = finding.work.as_ref().map(|work| work.stream.is_some());
        assert_eq!((finding.id, work), (FindingId::HostWrite, Some(true)), "{place} facts before");
    }
}

#[test]
fn what_an_aborted_stream_waited_for_is_in_flight() {
    use FindingId::{Free, StreamRace};
    let table: [(Join, bool, &[FindingId]); 4] = [
        (Join::Abort, true, &[StreamRace]),
        (Join::Abort, false, &[Free]),
        (Join::Wait, true, &[]),
        (Join::Wait, false, &[]),
    ];
    for (how, is_written_again, expected) in table {
        let mut made = two_blocks();
        let first = made.copy(7, 1, TO_DEVICE, Piece { dst: 0xa000, src: 0x1000, len: 64 });
        let point = made.submit(7, SubmittedOp { awaits: vec![Awaited::Point(first)], ..at(2) });
        let site = made.site("aclrtSynchronizeStream");
        made.push(7, Fact::Joined(Joined { time: made.now, point, site, how }));
        if is_written_again {
            made.copy(7, 3, TO_DEVICE, Piece { dst: 0xa000, src: 0x2000, len: 64 });
        } else {
            free(&mut made, 0x1000);
        }
        let mut checker = Checker::new(CheckOptions::default());
        made.feed(&mut checker);
        checker.finish(|_| ProcessEnd::Unknown);
        let ids: Vec<FindingId> = checker.findings().iter().map(|finding| finding.id).collect();
        assert_eq!(ids, expected, "{how:?}");
    }
}

/// The work of `point` has failed, since the memory at `address` is gone.
fn work_failed(made: &MadeFacts, point: Point, address: u64) -> Fact {
    Fact::WorkFailed { time: made.now, point, message: format!("{address:#x} is no memory") }
}

#[test]
fn work_that_fails_is_found_whenever_it_and_its_submission_are_told() {
    let mut made = two_blocks();
    let point = made.submit(7, SubmittedOp { work: THROUGH, ..at(1) });
    let submission = made.facts.pop().expect("told");
    let earliest = made.facts.len();
    free(&mut made, 0x1000);
    let failure = (WORKER, work_failed(&made, point, 0x1008));
    made.synchronize(7, point, made.now);
    for told_at in earliest..=made.facts.len() {
        for failed_at in earliest..=made.facts.len() {
            let mut made = made.clone();
            let is_first = failed_at <= told_at;
            made.facts.insert(told_at, submission.clone());
            made.facts.insert(failed_at + usize::from(!is_first), failure.clone());
            let mut checker = Checker::new(CheckOptions::default());
            made.feed(&mut checker);
            checker.finish(|_| ProcessEnd::Unknown);
            assert_eq!(found(&checker), [(FindingId::Free, None, 1)], "at {told_at} and {failed_at}");
        }
    }
}

#[test]
fn each_use_of_freed_memory_is_told_with_its_own_call_and_not_with_the_call_that_waits() {
    let mut made = two_blocks();
    for base in [0x1000, 0x2000] {
        free(&mut made, base);
    }
    for (stream, address, caller) in [(1, 0x1008, 0x40_1000), (1, 0x2008, 0x40_2000), (2, 0x1010, 0x40_3000)]
    {
        let site = CallSite { caller, ..made.site("aclrtMemcpyAsync") };
        let point = made.submit(7, SubmittedOp { work: THROUGH, site, ..at(stream) });
        // Twice, as of an execution of a graph and its task.
        for _ in 0..2 {
            made.push(99, work_failed(&made, point, address));
        }
    }
    // The second stream first, whose wait runs out of time, then the first one's. Its second failure nobody
    // is told of.
    for (name, code, message) in [
        ("aclrtSynchronizeStream", 107_020, "timed out"),
        ("aclrtMemcpyAsync", 107_000, "the stream: 0x1010 is no memory"),
        ("aclrtSynchronizeStream", 107_000, "0x1008 is no memory"),
    ] {
        let (time, site) = (made.wait(100).now, made.site(name));
        made.push(7, Fact::Failure { time, site, code, message: message.into() });
    }
    let mut checker = Checker::new(CheckOptions::default());
    made.feed(&mut checker);
    checker.finish(|_| ProcessEnd::Unknown);
    let caller = |finding: &CheckFinding| finding.spot.call.map(|call| call.caller);
    let told = checker.findings().iter().map(|finding| (finding.id, caller(finding), finding.count));
    let expected = [0x40_1000, 0x40_2000, 0x40_3000].map(|it| (FindingId::UseAfterFree, Some(it), 1));
    assert_eq!(told.collect::<Vec<_>>(), expected);
}

#[test]
fn what_came_before_aborted_work_is_kept_behind_that() {
    use FindingId::{Free, StreamRace};
    let piece = Piece { dst: 0xa000, src: 0x1000, len: 64 };
    for (is_read, is_freed, expected) in
        [(true, true, Free), (false, true, Free), (true, false, StreamRace), (false, false, StreamRace)]
    {
        let mut made = two_blocks();
        // A read and a write of the first block, or two reads, in streams that are in order.
        let first = made.copy(7, 1, TO_DEVICE, piece);
        let other = if is_read { piece } else { Piece { dst: 0x1000, src: 0xb000, len: 64 } };
        let work = Work::Linear { route: TO_DEVICE, piece: other };
        let awaits = vec![Awaited::Point(first)];
        let point = made.submit(7, SubmittedOp { work, awaits, ..at(2) });
        let site = made.site("aclrtSynchronizeStream");
        made.push(7, Fact::Joined(Joined { time: made.now, point, site, how: Join::Abort }));
        if is_freed {
            free(&mut made, 0x1000);
        } else {
            made.copy(7, 3, TO_DEVICE, Piece { dst: 0x1000, src: 0xc000, len: 64 });
        }
        let mut checker = Checker::new(CheckOptions::default());
        made.feed(&mut checker);
        checker.finish(|_| ProcessEnd::Unknown);
        // What the abort drops is lost.
        let mut ids: Vec<FindingId> = checker.findings().iter().map(|finding| finding.id).collect();
        ids.retain(|id| *id != FindingId::Lost);
        assert_eq!(ids, [expected], "{is_read} {is_freed}");
    }
}

#[test]
fn a_late_bound_copy_that_was_dropped_has_written_nothing() {
    for (outcome, expected) in [(Outcome::Dropped, 1), (Outcome::Done, 1)] {
        let mut made = two_blocks();
        let device = Some(0);
        let (len, origin) = (0x1000, Origin::Allocated);
        made.block(Block { base: 0x5000, at: 0x9000, len, padding: 0, device, origin });
        let late = made.submit(7, SubmittedOp { work: THROUGH, ..at(1) });
        if outcome == Outcome::Done {
            let piece = Piece { dst: 0x9800, src: 0x9900, len: 64 };
            made.push(99, Fact::Resolved { time: made.now, point: late, piece });
        }
        made.push(99, Fact::Passed(Passed { point: late, outcome, ..Passed::default() }));
        made.copy(7, 1, TO_HOST, Piece { dst: 0x1000, src: 0x9000, len: 64 });
        let mut checker = Checker::new(CheckOptions::default());
        made.feed(&mut checker);
        checker.finish(|_| ProcessEnd::Unknown);
        let unwritten = checker.findings().iter().filter(|it| it.id == FindingId::Uninitialised);
        assert_eq!(unwritten.count(), expected, "{outcome:?}");
    }
}

#[test]
fn one_missing_wait_is_one_finding_however_many_ops_it_would_have_ordered() {
    for (left_out, expected) in [(None, 1), (Some(64..128), 2)] {
        let mut made = two_blocks();
        for part in [0, 64] {
            made.copy(7, 1, TO_DEVICE, Piece { dst: 0xa000 + part, src: 0x1000 + part, len: 64 });
        }
        made.copy(7, 2, TO_HOST, Piece { dst: 0x2000, src: 0xa000, len: 128 });
        let bytes = |finding: &CheckFinding| {
            let (start, len) = finding.bytes.expect("a race is about bytes");
            start - 0xa000..start - 0xa000 + len
        };
        let mut checker = Checker::new(CheckOptions::default())
            .leaving_out(move |finding| left_out.as_ref().is_some_and(|range| *range == bytes(finding)));
        made.feed(&mut checker);
        checker.finish(|_| ProcessEnd::Unknown);
        // Of the newest. The other one has the same calls, and is counted there.
        let told: Vec<_> = checker.findings().iter().map(|it| (bytes(it), it.count)).collect();
        assert_eq!(told, [(64..128, expected)]);
    }
}

#[test]
fn a_free_is_reported_whenever_a_copy_that_races_is_resolved() {
    let mut made = two_blocks();
    let late = made.submit(7, SubmittedOp { work: THROUGH, ..at(1) });
    let earliest = made.facts.len();
    // Of the second stream, one copy uses the memory that is freed, and another one races with the late one.
    made.copy(7, 2, TO_DEVICE, Piece { dst: 0x9000, src: 0x1000, len: 64 });
    made.copy(7, 2, TO_DEVICE, Piece { dst: 0xa000, src: 0x2000, len: 64 });
    let last = made.submit(7, at(1));
    made.synchronize(7, last, made.now);
    free(&mut made, 0x1000);
    let piece = Piece { dst: 0xa000, src: 0xb000, len: 64 };
    let worker = [Fact::Resolved { time: 0, point: late, piece }, passed(late)].map(|fact| (WORKER, fact));
    expect_whenever(&made, earliest, &worker, &[FindingId::StreamRace, FindingId::Free]);
}

#[test]
fn a_free_is_reported_whenever_a_notify_is_recorded() {
    for (waits_for_first, expected) in [(true, &[][..]), (false, &[FindingId::Free])] {
        let mut made = two_blocks();
        let first = made.copy(7, 1, TO_DEVICE, Piece { dst: 0x9000, src: 0x1000, len: 64 });
        let second = made.submit(7, at(3));
        let waiting = made.submit(7, SubmittedOp { awaits: vec![Awaited::Later(5)], ..at(2) });
        let earliest = made.facts.len();
        made.copy(7, 2, TO_DEVICE, Piece { dst: 0xa000, src: 0x2000, len: 64 });
        let last = made.submit(7, at(2));
        let point = Some(if waits_for_first { first } else { second });
        let worker = [Fact::Bound { time: 0, promise: 5, point }, passed(waiting)];
        made.synchronize(7, last, made.now);
        free(&mut made, 0x1000);
        expect_whenever(&made, earliest, &worker.map(|fact| (WORKER, fact)), expected);
    }
}

#[test]
fn the_number_of_a_promise_is_used_again() {
    let mut made = two_blocks();
    let first = made.copy(7, 1, TO_DEVICE, Piece { dst: 0x9000, src: 0x1000, len: 64 });
    let late = made.submit(7, SubmittedOp { work: THROUGH, ..at(4) });
    let earliest = made.facts.len();
    for point in [first, late] {
        made.submit(7, SubmittedOp { awaits: vec![Awaited::Later(5)], ..at(2) });
        let bound = Fact::Bound { time: made.now, promise: 5, point: Some(point) };
        made.push(99, bound);
    }
    made.copy(7, 2, TO_DEVICE, Piece { dst: 0x9000, src: 0x2000, len: 64 });
    expect_whenever(&made, earliest, &[(WORKER, passed(late))], &[]);
}

#[test]
fn tasks_belong_to_the_call_that_launched_them_whenever_they_are_submitted() {
    let mut made = two_blocks();
    // The tasks read what this one writes.
    let before = made.copy(7, 1, TO_HOST, Piece { dst: 0x1000, src: 0xc000, len: 64 });
    let site = made.site("aclmdlRIExecuteAsync");
    let function = made.submit(7, SubmittedOp { work: Work::Function, site, ..at(1) });
    made.submit(7, SubmittedOp { awaits: vec![Awaited::Later(5)], site, ..at(1) });
    let earliest = made.facts.len();
    // Joined behind the launch: that does not come before the tasks.
    let other = made.copy(7, 2, TO_DEVICE, Piece { dst: 0x9000, src: 0x2000, len: 64 });
    made.synchronize(7, other, made.now);
    free(&mut made, 0x1000);
    let joined = Joined { point: before, how: Join::Function, ..Joined::default() };
    let task = Some(crate::fact::TaskId { graph: 1, task: 1 });
    let work = Work::Linear { route: TO_DEVICE, piece: Piece { dst: 0x9000, src: 0x1000, len: 64 } };
    let point = Point { stream: 3, ticket: 1 };
    let submitted = SubmittedOp { time: made.now, point, task, work, ..SubmittedOp::default() };
    let worker = [
        Fact::Joined(joined),
        Fact::Submitted(submitted),
        Fact::Bound { time: 0, promise: 5, point: Some(point) },
        passed(function),
    ];
    let worker = worker.map(|fact| (WORKER, fact));
    expect_whenever(&made, earliest, &worker, &[FindingId::StreamRace]);
}
