//! Recordings are replayed: what the facts of a program say is done again, and checked to the last byte.

#[path = "../../../watch/tests/recording/deeds.rs"]
mod deeds;
#[path = "../../../watch/tests/recording/program.rs"]
mod program;

use deeds::{BLOCKS, any_deed, begin, linear, write_down};
use ferry::{
    BackendName, Options,
    replay::{Replay, ReplayOptions, ReplayReport},
};
use ferry_watch::{
    ContentHasher, Fact,
    fact::{Awaited, CallSite, End, Origin, Piece, Point, Rows, TaskId, Work},
    recording::{Recording, flow::Content},
};
use program::Program;
use proptest::prelude::*;
use std::sync::Arc;

const DEVICE: u64 = BLOCKS[0].0;
const OTHER: u64 = BLOCKS[1].0;
const PINNED: u64 = BLOCKS[2].0;
const BACK: u64 = BLOCKS[3].0;

fn options(is_checked: bool, is_paced: bool) -> ReplayOptions {
    // The suite runs on every backend; without a word it is the host's.
    let mut options = Options::from_env().unwrap_or_default();
    if options.backend == BackendName::Host {
        options = Options { devices: Some(2), device_memory: Some(64 << 20), ..options };
    }
    ReplayOptions { options, is_paced, is_checked }
}

fn replay(recording: Recording) -> (Arc<Replay>, ReplayReport) {
    let replay = Arc::new(Replay::new(recording));
    let report = replay.run(&options(true, false)).expect("a replay");
    (replay, report)
}

/// Replays a program, and says how many bytes were compared and written.
fn check(program: &Program) -> (u64, u64) {
    let (replay, report) = replay(program.recording());
    assert_eq!((report.mismatched, &report.mismatches[..], &report.failures[..]), (0, &[][..], &[][..]));
    assert_eq!(report.compared, replay.flow.checked(), "all that is predicted is compared");
    (report.compared, replay.flow.written)
}

#[test]
fn every_kind_of_work_is_done_and_checked() {
    let mut program = begin();
    let up = program.copy(0, DEVICE, PINNED, 32);
    program.pass(up, 5, 5);
    let rows = Rows { dst: OTHER, dst_pitch: 8, src: DEVICE, src_pitch: 4, width: 3, height: 4 };
    program.submit(0, 0, Vec::new(), Work::Rows { route: Default::default(), rows });
    let pieces = [0, 8, 16].map(|at| Piece { dst: BACK + at, src: DEVICE + 24 - at, len: 5 });
    let batch = Work::Batch { route: Default::default(), count: 3, bytes: 15, pieces: pieces.to_vec() };
    let batch = program.submit(0, 0, Vec::new(), batch);
    let fill = Work::Fill { dst: DEVICE + 4, len: 13, pattern: [1, 2, 3, 4], device: Some(0) };
    program.submit(0, 1, vec![Awaited::Point(batch)], fill);
    for combine in 0..3 {
        let piece = Piece { dst: DEVICE, src: OTHER, len: 12 };
        program.submit(0, 1, Vec::new(), Work::Reduce { device: 0, piece, combine, element: combine + 1 });
    }
    program.submit(0, 1, Vec::new(), Work::Function);
    let mark = program.submit(0, 1, Vec::new(), Work::Mark);
    for len in [0, 16] {
        let through = Work::Through { device: 0, cells: [DEVICE, 0], len };
        let point = program.submit(0, 2, vec![Awaited::Point(mark)], through);
        let piece = Piece { dst: OTHER + len, src: DEVICE + 1, len: 16 };
        program.write(0, Fact::Resolved { time: 5_000, point, piece });
    }
    let down = program.submit(1, 2, Vec::new(), linear(BACK, OTHER, 32));
    program.join(1, down);
    let expected = 32 + 12 + 15 + 13 + 3 * 12 + 2 * 16 + 32;
    assert_eq!(check(&program), (expected, expected));
}

#[test]
fn memory_of_every_kind_takes_part() {
    let mut program = begin();
    let registered = ferry_watch::fact::Block {
        base: 0x9000,
        at: 0x9000,
        len: 64,
        padding: 0,
        device: None,
        origin: Origin::Registered,
    };
    program.write(0, Fact::Known { time: 1_500, site: Default::default(), block: registered });
    for (number, src) in [0x9000, 0x5555_0000_0000, 0x5555_0000_0010].into_iter().enumerate() {
        let point = program.copy(0, DEVICE, src, 32);
        program.pass(point, number as u64 + 1, number as u64 + 1);
        program.join(0, point);
    }
    program.copy(1, DEVICE, OTHER, 32);
    program.free(OTHER);
    program.write(0, Fact::Forgotten { time: 9_000, site: Default::default(), base: 0x9000 });
    assert_eq!(check(&program), (128, 128));
}

#[test]
fn bytes_that_are_not_as_predicted_are_found() {
    let mut program = begin();
    let up = program.copy(0, DEVICE, PINNED, 32);
    program.pass(up, 5, 5);
    program.copy(0, BACK, DEVICE, 32);
    let mut replay = Replay::new(program.recording());
    // What it writes is right, and what it expects in the last place is not.
    let wrong = replay.flow.contents.len() as u32;
    replay.flow.contents.push(Content::Pattern(99));
    replay.flow.expected[1][0].content = wrong;
    let report = Arc::new(replay).run(&options(true, false)).expect("a replay");
    assert_eq!(report.mismatched, 1);
    assert_eq!((report.mismatches[0].op, report.mismatches[0].allocation), (1, 3));
}

/// A copy of bytes that were recorded, with the hash of what it left.
fn copy_recorded(program: &mut Program, dst: u64, src: u64, bytes: &[u8], left: &[u8]) {
    let point = program.copy(0, dst, src, bytes.len() as u64);
    program.pass(point, ContentHasher::hash(bytes), ContentHasher::hash(left));
    program.write(0, Fact::Bytes { point, end: End::Source, offset: 0, bytes: bytes.to_vec() });
}

#[test]
fn recorded_contents_are_checked_by_their_hashes() {
    let mut program = begin();
    copy_recorded(&mut program, DEVICE, PINNED, b"abcdefgh", b"abcdefgh");
    copy_recorded(&mut program, BACK, DEVICE, b"abcdefgh", b"abcdefgh");
    // Something that was not recorded has written device memory.
    copy_recorded(&mut program, BACK + 8, DEVICE + 2, b"xyz", b"xyz");
    copy_recorded(&mut program, BACK + 16, DEVICE, b"abxyzfgh", b"abxyzfgh");
    let (_, report) = replay(program.recording());
    assert_eq!((report.mismatched, report.hashed, &report.wrong_hashes[..]), (0, 4, &[][..]));
    assert_eq!(report.compared, 27);

    // The program got other bytes than its copy had read.
    copy_recorded(&mut program, BACK, DEVICE, b"abxyzfgh", b"abxy?fgh");
    let (_, report) = replay(program.recording());
    assert_eq!((report.mismatched, report.hashed, &report.wrong_hashes[..]), (0, 5, &[4][..]));
}

#[test]
fn threads_wait_for_what_others_do() {
    let mut program = begin();
    for round in 0..50 {
        let up = program.submit(1, 0, Vec::new(), linear(DEVICE, PINNED, 32));
        program.pass(up, round + 1, round + 1);
        program.join(2, up);
        let across = program.submit(2, 1, Vec::new(), linear(OTHER, DEVICE, 32));
        let down = program.submit(0, 2, vec![Awaited::Point(across)], linear(BACK, OTHER, 32));
        program.join(1, down);
    }
    assert_eq!(check(&program), (50 * 96, 50 * 96));
}

#[test]
fn a_wait_for_what_is_submitted_later_ends() {
    let mut program = begin();
    program.submit(0, 0, vec![Awaited::Later(3)], linear(BACK, DEVICE, 32));
    let up = program.submit(1, 1, Vec::new(), linear(DEVICE, PINNED, 32));
    program.write(1, Fact::Bound { time: 5_000, promise: 3, point: Some(up) });
    assert_eq!(check(&program), (64, 64));
}

#[test]
fn what_cannot_run_is_left_out() {
    let mut program = begin();
    program.submit(0, 0, vec![Awaited::Later(1)], Work::Mark);
    let other = program.submit(0, 1, vec![Awaited::Point(Point { stream: 0, ticket: 1 })], Work::Mark);
    program.write(0, Fact::Bound { time: 5_000, promise: 1, point: Some(other) });
    program.join(0, other);
    program.submit(0, 2, vec![Awaited::Outside, Awaited::Later(77)], linear(DEVICE, PINNED, 32));
    program.copy(2, DEVICE, PINNED + 8, 32);
    assert_eq!(check(&program), (32, 32));
}

/// The newest op becomes a task of graph 1.
fn as_task(program: &mut Program, task: u32) {
    let (_, fact) = program.facts.last_mut().expect("an op");
    let Fact::Submitted(op) = fact else { panic!("an op comes last") };
    op.task = Some(TaskId { graph: 1, task });
}

#[test]
fn a_graph_whose_branch_is_not_joined_is_replayed_op_by_op() {
    for is_joined in [true, false] {
        let mut program = begin();
        let (time, site) = (2_000, CallSite::default());
        program.write(0, Fact::CaptureBegun { time, site, graph: 1, stream: 0 });
        program.write(0, Fact::CaptureEnded { time, site, graph: 1, is_graph: true });
        let up = program.copy(0, DEVICE, PINNED, 32);
        as_task(&mut program, 0);
        program.submit(0, 1, vec![Awaited::Point(up)], Work::Nothing);
        as_task(&mut program, 1);
        let mut last = program.copy(1, BACK, DEVICE, 32);
        as_task(&mut program, 2);
        if is_joined {
            last = program.submit(0, 0, vec![Awaited::Point(last)], Work::Nothing);
            as_task(&mut program, 3);
        }
        let point = Point { stream: 0, ..if is_joined { last } else { up } };
        program.write(0, Fact::Launched { time: 3_000, site, graph: 1, point });
        program.join(0, last);
        assert_eq!(check(&program), (64, 64), "{is_joined}");
    }
}

#[test]
fn times_are_reported_at_either_pace() {
    let mut program = begin();
    let up = program.copy(0, DEVICE, PINNED, 32);
    program.join(0, up);
    let replay = Arc::new(Replay::new(program.recording()));
    for is_paced in [false, true] {
        let report = replay.run(&options(false, is_paced)).expect("a replay");
        assert_eq!((report.compared, report.ran.len()), (0, 1));
        assert!(report.ran[0].is_some() && report.wall > report.blocked, "{report:?}");
        if is_paced {
            assert!(report.wall.as_nanos() as u64 >= 100, "as long as the steps of the program were apart");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) })]

    #[test]
    fn random_programs_deliver_what_is_predicted(
        deeds in proptest::collection::vec((0..3_u32, any_deed()), 0..25)
    ) {
        check(&write_down(&deeds));
    }
}
