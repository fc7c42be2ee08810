//! What the tracer keeps of facts that come late, twice, never, or in masses.

use crate::fact::{
    Awaited, Block, Call, CallSite, Fact, Joined, Outcome, Passed, Piece, Point, SubmittedOp, Work,
};
use crate::testing::{MadeFacts, TO_DEVICE, TO_HOST, busy};

use super::super::TraceLimits;
use super::super::model::{OpState, TracedPoint, WorkKind};
use super::traced;

const PIECE: Piece = Piece { dst: 0x9000, src: 0x100, len: 64 };

#[test]
fn an_op_has_its_call_its_times_and_the_programs_addresses() {
    let mut made = MadeFacts::new(7);
    made.block(Block { base: 0x5000, at: 0x9000, len: 0x1000, device: Some(0), ..Block::default() });
    let begin = made.now;
    let point = made.copy(8, 3, TO_DEVICE, Piece { dst: 0x9010, ..PIECE });
    made.passed(9, point, begin + 900, begin + 1000);
    let tracer = traced(&made.facts, TraceLimits::default());
    let model = tracer.model();
    let op = &model.ops[0];
    assert_eq!((op.kind, op.state, op.bytes), (WorkKind::Copy, OpState::Done, 64));
    assert_eq!((op.submitted, op.begin, op.end), (Some(begin + 300), Some(begin + 900), Some(begin + 1000)));
    assert_eq!(op.dst.map(|place| (place.address, place.block)), Some((0x5010, Some(0))));
    assert_eq!(op.src.map(|place| (place.address, place.block)), Some((0x100, None)));
    let call = &model.calls[op.call.expect("a call") as usize];
    assert_eq!((call.begin, call.end, call.blocked), (begin, begin + 300, 0));
    assert_eq!(model.threads[call.thread as usize].number, 8);
    assert_eq!(model.threads[op.worker.expect("a worker") as usize].number, 9);
}

#[test]
fn an_op_that_passed_before_it_was_submitted_is_one_op() {
    let mut made = MadeFacts::new(7);
    let point = made.copy(8, 3, TO_DEVICE, PIECE);
    let now = made.now;
    made.passed(9, point, now - 20, now - 15);
    let last = made.facts.len() - 1;
    made.facts.swap(last - 1, last);
    let tracer = traced(&made.facts, TraceLimits::default());
    let ops = &tracer.model().ops;
    assert_eq!(ops.len(), 1);
    assert_eq!((ops[0].state, ops[0].bytes, ops[0].submitted), (OpState::Done, 64, Some(now - 20)));
}

#[test]
fn a_process_that_calls_exec_is_another_one_afterwards() {
    let (mut before, mut after) = (MadeFacts::new(7), MadeFacts::new(7));
    before.copy(8, 3, TO_DEVICE, PIECE);
    after.copy(8, 3, TO_HOST, PIECE);
    before.facts.append(&mut after.facts);
    let tracer = traced(&before.facts, TraceLimits::default());
    let model = tracer.model();
    let replaced: Vec<_> =
        model.processes.iter().map(|process| (process.number, process.is_replaced)).collect();
    assert_eq!(replaced, [(7, true), (7, false)]);
    assert_eq!((model.ops.len(), model.streams.len(), model.threads.len()), (2, 2, 2));
    let of_process = |call: u32| model.threads[model.calls[call as usize].thread as usize].process;
    assert_eq!(model.ops.iter().map(|op| op.call.map(of_process)).collect::<Vec<_>>(), [Some(0), Some(1)]);
}

#[test]
fn an_op_that_another_thread_saw_begin_has_its_begin() {
    let mut made = MadeFacts::new(7);
    let early = made.copy(8, 3, TO_DEVICE, PIECE);
    let late = made.copy(8, 3, TO_DEVICE, PIECE);
    let never = made.copy(8, 3, TO_DEVICE, PIECE);
    let now = made.now;
    made.push(9, Fact::Begun { time: now + 10, point: early });
    made.passed(10, early, 0, now + 50);
    made.passed(10, late, 0, now + 90);
    made.push(9, Fact::Begun { time: now + 60, point: late });
    made.passed_as(10, never, 0, now + 95, Outcome::Dropped);
    let tracer = traced(&made.facts, TraceLimits::default());
    let times: Vec<_> = tracer.model().ops.iter().map(|op| (op.begin, op.end)).collect();
    let at = |begin, end| (Some(now + begin), Some(now + end));
    assert_eq!(times, [at(10, 50), at(60, 90), at(95, 95)]);
    assert_eq!(tracer.model().ops[1].state, OpState::Done, "a late begin does not undo the end");
}

#[test]
fn what_never_happened_is_not_made_up() {
    let mut made = MadeFacts::new(7);
    made.copy(8, 3, TO_DEVICE, PIECE);
    let begun = made.copy(8, 3, TO_HOST, PIECE);
    made.push(9, Fact::Begun { time: made.now, point: begun });
    let failed = made.copy(8, 4, TO_HOST, PIECE);
    let now = made.now;
    made.passed_as(9, failed, now, now + 1, Outcome::Failed);
    let tracer = traced(&made.facts, TraceLimits::default());
    let states: Vec<_> = tracer.model().ops.iter().map(|op| (op.state, op.end.is_some())).collect();
    assert_eq!(states, [(OpState::Queued, false), (OpState::Running, false), (OpState::Failed, true)]);
}

#[test]
fn a_wait_is_tied_to_its_op_now_or_later() {
    let mut made = MadeFacts::new(7);
    let first = made.copy(8, 3, TO_DEVICE, PIECE);
    let awaits = vec![Awaited::Point(first), Awaited::Later(77), Awaited::Outside];
    let point = Point { stream: 4, ticket: 0 };
    made.submit(8, SubmittedOp { point, awaits, work: Work::Nothing, ..SubmittedOp::default() });
    let later = Point { stream: 5, ticket: 1 };
    made.push(8, Fact::Bound { time: made.now, promise: 77, point: Some(later) });
    made.copy(8, 5, TO_DEVICE, PIECE);
    let tracer = traced(&made.facts, TraceLimits::default());
    let awaited: Vec<_> = tracer.model().waits.iter().map(|wait| (wait.op, wait.awaited)).collect();
    let at = |stream, op| Some(TracedPoint { stream, ticket: 1, op: Some(op) });
    let streams = &tracer.model().streams;
    let stream_of = |number| streams.iter().position(|it| it.number == number).expect("a stream") as u32;
    assert_eq!(awaited, [(1, at(stream_of(3), 0)), (1, at(stream_of(5), 2)), (1, None)]);
    assert_eq!(tracer.model().ops[1].kind, WorkKind::Wait);
}

#[test]
fn a_call_that_submits_much_is_one_call() {
    let mut made = MadeFacts::new(7);
    let site = made.site("aclmdlRIExecuteAsync");
    for _ in 0..3 {
        let op = SubmittedOp { point: Point { stream: 1, ticket: 0 }, site, ..SubmittedOp::default() };
        made.submit(8, op);
    }
    made.synchronize(8, Point { stream: 1, ticket: 3 }, made.now + 10);
    let tracer = traced(&made.facts, TraceLimits::default());
    assert_eq!(tracer.model().calls.len(), 2);
    assert!(tracer.model().ops.iter().all(|op| op.call == Some(0)));
    assert_eq!(tracer.model().joins[0].point.op, Some(2));
}

#[test]
fn a_call_whose_begin_was_told_a_little_differently_is_one_call() {
    let mut made = MadeFacts::new(7);
    let site = made.site("aclrtMemsetAsync");
    made.submit(8, SubmittedOp { point: Point { stream: 1, ticket: 0 }, site, ..SubmittedOp::default() });
    // The clock was calibrated anew in between.
    let later = CallSite { begin: site.begin + 250, ..site };
    let time = site.begin + 8000;
    made.push(8, Fact::Joined(Joined { time, site, ..Joined::default() }));
    made.push(8, Fact::Call(Call { site: later, end: site.begin + 9000, blocked: 400, code: 0 }));
    // The next call of the same place begins when the first one has ended, or seems to begin a little before.
    let next = CallSite { begin: site.begin + 8950, ..site };
    made.push(8, Fact::Call(Call { site: next, end: site.begin + 12000, blocked: 0, code: 0 }));
    let tracer = traced(&made.facts, TraceLimits::default());
    let calls: Vec<_> = tracer.model().calls.iter().map(|it| (it.begin, it.end, it.blocked)).collect();
    let begin = site.begin;
    assert_eq!(calls, [(begin, begin + 9000, 400), (begin + 8950, begin + 12000, 0)]);
}

#[test]
fn ops_of_a_stream_do_not_overlap_by_the_slack_of_the_clock() {
    let mut made = MadeFacts::new(7);
    let points: Vec<Point> = (0..4).map(|_| made.copy(8, 1, TO_DEVICE, PIECE)).collect();
    let now = made.now;
    made.passed(9, points[0], now, now + 1000);
    made.passed(9, points[1], now + 940, now + 2000);
    for &point in &points[2..] {
        let (begin, end) = (now + 1990, now + 3000);
        made.push(9, Fact::Passed(Passed { point, begin, end, together: 2, engine: 1, ..Passed::default() }));
    }
    let tracer = traced(&made.facts, TraceLimits::default());
    let times: Vec<_> = tracer.model().ops.iter().map(|op| (op.begin, op.end)).collect();
    let at = |begin, end| (Some(now + begin), Some(now + end));
    assert_eq!(
        times,
        [at(0, 1000), at(1000, 2000), at(2000, 3000), at(2000, 3000)],
        "sent as one: still one"
    );
}

#[test]
fn what_does_not_fit_is_counted() {
    let facts = busy::facts(7, 1000);
    let whole = traced(&facts, TraceLimits::default());
    assert_eq!(whole.model().left_out, Default::default());
    let tracer = traced(&facts, TraceLimits { ops: 100, others: 50 });
    let model = tracer.model();
    assert_eq!((model.ops.len(), model.left_out.ops), (100, 900));
    assert_eq!(model.calls.len(), 50);
    assert_eq!(
        model.left_out.calls + 50 + 900,
        whole.model().calls.len() as u64,
        "ops left out take their calls"
    );
    assert!(model.waits.len() <= 50 && model.joins.len() <= 50 && model.blocks.len() <= 50);
}

#[test]
fn nothing_is_kept_that_began_after_the_first_op_left_out() {
    let facts = busy::facts(7, 1000);
    let tracer = traced(&facts, TraceLimits { ops: 100, others: 100_000 });
    let model = tracer.model();
    let last = model.ops.iter().filter_map(|op| op.submitted).max().expect("ops");
    let cut = facts.iter().filter_map(|(_, fact)| match fact {
        Fact::Submitted(op) if op.time > last => Some(op.time),
        _ => None,
    });
    let cut = cut.min().expect("an op that was left out");
    assert!(model.calls.iter().all(|call| call.begin <= cut));
    assert!(model.left_out.calls > 0);
}

#[test]
fn a_refused_op_is_seen_in_its_call() {
    let mut made = MadeFacts::new(7);
    let site = made.site("aclrtMemsetAsync");
    made.push(8, Fact::Refused { time: made.now + 5, stream: 1, site, work: Work::Mark });
    made.push(8, Fact::Call(Call { site, end: made.now + 9, blocked: 0, code: 107_000 }));
    let tracer = traced(&made.facts, TraceLimits::default());
    let calls: Vec<_> = tracer.model().calls.iter().map(|it| (it.is_refused, it.code, it.end)).collect();
    assert_eq!(calls, [(true, 107_000, made.now + 9)]);
    assert_eq!((tracer.refused(), tracer.model().ops.len()), (1, 0));
}

#[test]
fn a_late_bound_copy_has_what_it_was_resolved_to() {
    let mut made = MadeFacts::new(7);
    made.block(Block { base: 0x5000, at: 0x9000, len: 0x1000, device: Some(0), ..Block::default() });
    let work = Work::Through { device: 0, cells: [0x9000, 0], len: 0 };
    let point = Point { stream: 1, ticket: 0 };
    let point = made.submit(8, SubmittedOp { point, work, ..SubmittedOp::default() });
    let piece = Piece { dst: 0x9100, src: 0x9200, len: 77 };
    made.push(9, Fact::Resolved { time: made.now, point, piece });
    let tracer = traced(&made.facts, TraceLimits::default());
    let op = &tracer.model().ops[0];
    assert_eq!((op.kind, op.bytes), (WorkKind::LateBound, 77));
    assert_eq!(op.dst.map(|place| place.address), Some(0x5100));
    assert_eq!(op.src.map(|place| place.address), Some(0x5200));
}

#[test]
fn any_order_of_facts_is_survived() {
    let mut facts = busy::facts(7, 500);
    let mut random = 1u64;
    for at in (1..facts.len()).rev() {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        facts.swap(at, (random >> 33) as usize % (at + 1));
    }
    facts.retain(|_| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        random >> 61 != 0
    });
    let mut tracer = traced(&facts, TraceLimits { ops: 300, others: 200 });
    let dir = std::env::temp_dir().join(format!("ferry-trace-shuffled-{}", std::process::id()));
    let summary = tracer.write(&dir, &mut |_, _| None).expect("writes");
    assert_eq!(summary.ops, 300);
    let name = summary.json.file_name().and_then(|name| name.to_str()).expect("a name");
    let digits =
        name.strip_prefix("msprof_").and_then(|rest| rest.strip_suffix(".json")).expect("msprof_*.json");
    let is_known = digits.bytes().all(|digit| digit.is_ascii_digit()) && (1..=15).contains(&digits.len());
    assert!(is_known, "MindStudio Insight finds no {name}");
    assert!(summary.page.ends_with("index.html") && summary.page.exists());
    std::fs::remove_dir_all(&dir).expect("was written");
}
