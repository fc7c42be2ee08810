//! How much the checker keeps, of programs of any length.

use super::*;

/// How much a checker keeps.
fn kept(checker: &Checker) -> usize {
    let processes = checker.processes.values().map(ProcessCheck::kept).sum::<usize>();
    let found = checker.findings.len() + checker.by_stack.len() + checker.by_path.len();
    processes + checker.calls.kept() + checker.shared.len() + found
}

/// Everything that a program can make and end: a stream, blocks, copies, waits, a capture, shared memory.
fn round(made: &mut MadeFacts, number: u32) {
    let (stream, other) = (2 * number + 1, 2 * number + 2);
    let (host, device) = (u64::from(number) << 16, (1 << 40) + (u64::from(number) << 16));
    made.stream(stream, 0);
    made.stream(other, 0);
    made.block(Block {
        base: host,
        at: host,
        len: 4096,
        device: None,
        origin: Origin::Allocated,
        padding: 0,
    });
    let (base, origin) = (device + (1 << 45), Origin::Allocated);
    made.block(Block { base, at: device, len: 4096, device: Some(0), origin, padding: 0 });
    let time = made.now;
    made.push(7, Fact::Lent { time, base: host, key: u64::from(number) });
    for turn in 0..3 {
        made.copy(7, stream, TO_DEVICE, Piece { dst: device, src: host, len: 64 << turn });
    }
    let late = made.submit(7, SubmittedOp { work: THROUGH, ..at(stream) });
    made.push(99, Fact::Resolved { time, point: late, piece: Piece { dst: device, src: device, len: 8 } });
    made.push(99, passed(late));
    let point = Some(late).filter(|_| number.is_multiple_of(2));
    let waiting = vec![Awaited::Later(u64::from(number)), Awaited::Point(late)];
    let last = made.submit(7, SubmittedOp { awaits: waiting, ..at(other) });
    made.push(99, Fact::Bound { time, promise: u64::from(number), point });
    let site = made.site("aclrtMemcpyAsync");
    made.push(7, Fact::CaptureBegun { time, site, graph: number + 1, stream });
    for task in 0..2 {
        let task = crate::fact::TaskId { graph: number + 1, task };
        made.push(7, Fact::Captured(crate::fact::Captured { task, site, ..Default::default() }));
    }
    made.push(7, Fact::CaptureEnded { time, site, graph: number + 1, is_graph: true });
    made.synchronize(7, last, time);
    free(made, host);
    free(made, base);
    let time = made.now;
    for stream in [stream, other] {
        made.push(7, Fact::StreamGone { time, stream });
    }
}

#[test]
fn what_is_kept_is_bounded_by_what_is_there() {
    let (mut checker, mut made) = (Checker::new(CheckOptions::default()), MadeFacts::new(7));
    let mut most = [0, 0];
    for number in 0..24_000 {
        round(&mut made, number);
        made.facts.drain(..).for_each(|(source, fact)| checker.take(source, &fact));
        let half = usize::from(number >= 12_000);
        if number % 500 == 0 {
            most[half] = kept(&checker).max(most[half]);
        }
    }
    assert_eq!(found(&checker), []);
    // What is swept now and then may be more by half of what one thing of each round would be.
    assert!(most[1] < most[0] + 6_000, "{most:?} kept in the first half and in the second");
}

#[test]
fn what_is_kept_is_bounded_also_while_one_op_waits_for_what_never_comes() {
    let (mut checker, mut made) = (Checker::new(CheckOptions::default()), MadeFacts::new(7));
    made.stream(1 << 20, 0);
    made.submit(7, SubmittedOp { awaits: vec![Awaited::Later(1 << 40)], ..at(1 << 20) });
    let mut most = [0, 0];
    for number in 0..13_000 {
        round(&mut made, number);
        made.facts.drain(..).for_each(|(source, fact)| checker.take(source, &fact));
        let half = usize::from(number >= 6_500);
        if number % 500 == 0 {
            most[half] = kept(&checker).max(most[half]);
        }
    }
    assert_eq!(found(&checker), []);
    assert!(most[1] < most[0] + 6_000, "{most:?} kept in the first half and in the second");
}

#[test]
fn a_stream_that_is_joined_now_and_then_keeps_what_it_has_done_since() {
    let mut most = [0, 0];
    let (mut checker, mut made) = (Checker::new(CheckOptions::default()), MadeFacts::new(7));
    (1..=2).for_each(|stream| made.stream(stream, 0));
    for number in 0..50_000_u64 {
        let dst = 0x9000 + number % 64 * 64;
        let first = made.copy(7, 1, TO_DEVICE, Piece { dst, src: 0x1000, len: 64 });
        let awaits = vec![Awaited::Point(first)];
        let last = made.submit(7, SubmittedOp { awaits, ..at(2) });
        if number % 1_000 == 999 {
            made.synchronize(7, last, made.now);
        }
        made.facts.drain(..).for_each(|(source, fact)| checker.take(source, &fact));
        if number % 500 == 0 {
            let half = usize::from(number >= 25_000);
            most[half] = kept(&checker).max(most[half]);
        }
    }
    assert_eq!(found(&checker), []);
    assert!(most[1] <= most[0], "{most:?} kept in the first half and in the second");
}
