//! What a recorder makes of facts.

use super::program::{Program, file_of};
use ferry_watch::{
    Fact, FactSource,
    fact::{
        Awaited, Block, Call, CallSite, Captured, End, Join, Joined, Line, LoadedFile, Origin, Outcome,
        Passed, Piece, Point, Route, Rows, Started, StreamMade, StreamPurpose, SubmittedOp, TaskId, Work,
    },
    recording::{Location, RecordedWait, RecordedWork, Rect, Step, StepAction, read},
};
use proptest::prelude::*;

const DEVICE_BLOCK: u64 = 0x70_0000;
const PINNED_BLOCK: u64 = 0x90_0000;

/// Locations in allocations.
fn at(allocation: u32, offset: i64) -> Location {
    Location { allocation, offset }
}

#[test]
fn bytes_are_named_by_allocation_and_offset() {
    let mut program = Program::new();
    let stream = program.stream(1);
    program.block(DEVICE_BLOCK, 4096, Some(1));
    program.block(PINNED_BLOCK, 1024, None);
    let copy = program.copy(stream, DEVICE_BLOCK + 100, PINNED_BLOCK + 24, 1000);
    program.pass(copy, 7, 7);
    program.join(1, copy);
    let recording = program.recording();

    let lens: Vec<_> = recording.allocations.iter().map(|all| (all.len, all.device)).collect();
    assert_eq!(lens, [(4096, Some(1)), (1024, None)]);
    let rect = Rect::linear(at(0, 100), at(1, 24), 1000);
    assert_eq!(recording.ops[0].work, RecordedWork::Linear { route: Route::default(), rect });
    assert_eq!(recording.ops[0].hashes.source, Some(7));
    assert_eq!(recording.ops[0].result.map(|result| result.outcome), Some(Outcome::Done));
    assert_eq!(recording.streams[0].device, 1);
    let last = recording.steps.last().expect("steps");
    assert_eq!((last.thread, &last.action), (1, &StepAction::Join { point: copy, how: Join::Wait }));
    assert_eq!(recording.processes[0].command, "prog x");
}

#[test]
fn a_begin_that_is_told_apart_counts() {
    for is_late in [false, true] {
        let mut program = Program::new();
        let stream = program.stream(0);
        let copy = program.copy(stream, 1 << 40, 2 << 40, 8);
        let passed = Passed { point: copy, begin: 0, end: 9_000, ..Passed::default() };
        let facts = [Fact::Begun { time: 7_000, point: copy }, Fact::Passed(passed)];
        let [first, second] = if is_late { [&facts[1], &facts[0]] } else { [&facts[0], &facts[1]] };
        program.write(3, first.clone());
        program.write(4, second.clone());
        let result = program.recording().ops[0].result.expect("it passed");
        assert_eq!((result.begin, result.end), (7_000, 9_000));
    }
}

#[test]
fn an_address_that_is_used_again_is_another_allocation() {
    let mut program = Program::new();
    let stream = program.stream(0);
    program.block(DEVICE_BLOCK, 4096, Some(0));
    program.copy(stream, DEVICE_BLOCK, DEVICE_BLOCK + 64, 64);
    program.free(DEVICE_BLOCK);
    // Work that was submitted before is seen late.
    program.copy(stream, DEVICE_BLOCK, DEVICE_BLOCK + 64, 64);
    program.block(DEVICE_BLOCK, 128, Some(0));
    program.copy(stream, DEVICE_BLOCK, DEVICE_BLOCK + 64, 64);
    let recording = program.recording();
    let used: Vec<_> = recording.ops.iter().map(|op| op.work.rects()[0].src).collect();
    assert_eq!(used, [at(0, 64), at(0, 64), at(1, 64)]);
    assert!(recording.steps.iter().any(|step| step.action == StepAction::Free(0)));
}

#[test]
fn memory_that_is_mapped_twice_is_one_allocation() {
    let mut program = Program::new();
    let stream = program.stream(0);
    let block = Block {
        base: 1 << 45,
        at: DEVICE_BLOCK,
        len: 64,
        padding: 0,
        device: Some(0),
        origin: Origin::Mapped,
    };
    for base in [1 << 45, 1 << 46] {
        let block = Block { base, ..block };
        program.write(0, Fact::Known { time: 2_000, site: CallSite::default(), block });
    }
    program.write(0, Fact::Forgotten { time: 2_001, site: CallSite::default(), base: 1 << 45 });
    program.copy(stream, DEVICE_BLOCK, DEVICE_BLOCK + 32, 32);
    program.write(0, Fact::Forgotten { time: 9_000, site: CallSite::default(), base: 1 << 46 });
    let recording = program.recording();
    assert_eq!(recording.allocations.len(), 1);
    let freed = recording.steps.iter().filter(|step| matches!(step.action, StepAction::Free(_)));
    assert_eq!(freed.count(), 1, "by its last name");
}

#[test]
fn pageable_memory_is_what_work_uses_of_it() {
    let mut program = Program::new();
    let stream = program.stream(0);
    program.block(DEVICE_BLOCK, 4096, Some(0));
    let heap = 0x5555_0000_0000;
    program.copy(stream, DEVICE_BLOCK, heap, 100);
    program.copy(stream, DEVICE_BLOCK, heap - 1000, 100);
    program.copy(stream, DEVICE_BLOCK, heap + 50, 100);
    program.copy(stream, DEVICE_BLOCK, heap + 150, 10);
    program.copy(stream, DEVICE_BLOCK, 0x7fff_0000_0000, 10);
    let recording = program.recording();
    let sources: Vec<_> = recording.ops.iter().map(|op| op.work.rects()[0].src).collect();
    let lens = |at: Location| recording.allocations[at.allocation as usize].len;
    assert_eq!(
        sources.iter().map(|at| (at.offset, lens(*at))).collect::<Vec<_>>(),
        [(0, 150), (0, 100), (50, 150), (0, 10), (0, 10)]
    );
    assert_eq!(sources[0].allocation, sources[2].allocation, "they overlap");
    let distinct: std::collections::HashSet<_> = sources.iter().map(|at| at.allocation).collect();
    assert_eq!(distinct.len(), 4, "bytes that only touch are apart");
}

#[test]
fn promises_become_points_when_they_are_bound() {
    let mut program = Program::new();
    let (first, second) = (program.stream(0), program.stream(0));
    let waits = |number| vec![Awaited::Later(number)];
    for number in [4, 5, 6] {
        program.submit(0, first, waits(number), Work::Nothing);
    }
    let mark = program.submit(0, second, Vec::new(), Work::Mark);
    program.write(0, Fact::Bound { time: 5_000, promise: 4, point: Some(mark) });
    program.write(0, Fact::Bound { time: 5_000, promise: 5, point: None });
    let awaits: Vec<_> = program.recording().ops.iter().map(|op| op.awaits.clone()).collect();
    assert_eq!(awaits, [vec![RecordedWait::Promised(mark)], vec![], vec![RecordedWait::Never], vec![]]);
}

/// Any fact at all, about few things, so that many of them are about the same.
fn any_fact() -> impl Strategy<Value = Fact> {
    let small = 0..4_u32;
    let time = 1_000..9_000_u64;
    let address = prop_oneof![0..0x2000_u64, 0x7000_0000_0000..0x7000_0000_2000_u64, any::<u64>()].boxed();
    let len = prop_oneof![0..0x800_u64, any::<u64>()];
    let point = (small.clone(), 0..9_u64).prop_map(|(stream, ticket)| Point { stream, ticket }).boxed();
    let site = (0..3_u16, 0..3_u64, time.clone())
        .prop_map(|(function, caller, begin)| CallSite { function, caller, begin, stack: 0 })
        .boxed();
    let piece = (address.clone(), address.clone(), len.clone())
        .prop_map(|(dst, src, len)| Piece { dst, src, len })
        .boxed();
    let device = proptest::option::of(0..2_u32);
    let route = (device.clone(), device.clone(), any::<bool>())
        .prop_map(|(src, dst, is_pageable)| Route { src, dst, is_pageable })
        .boxed();
    let rows = (piece.clone(), len.clone(), len.clone(), 0..5_u64)
        .prop_map(|(Piece { dst, src, len: width }, dst_pitch, src_pitch, height)| Rows {
            dst,
            dst_pitch,
            src,
            src_pitch,
            width,
            height,
        })
        .boxed();
    let pieces = proptest::collection::vec(piece.clone(), 0..4);
    let work = prop_oneof![
        Just(Work::Nothing),
        Just(Work::Mark),
        Just(Work::Function),
        (route.clone(), piece.clone()).prop_map(|(route, piece)| Work::Linear { route, piece }),
        (route.clone(), rows).prop_map(|(route, rows)| Work::Rows { route, rows }),
        (route, pieces.clone(), any::<u64>()).prop_map(|(route, pieces, bytes)| Work::Batch {
            route,
            count: 5,
            bytes,
            pieces
        }),
        (address.clone(), len.clone()).prop_map(|(cell, len)| Work::Through {
            device: 1,
            cells: [cell; 2],
            len
        }),
        (address.clone(), len.clone(), any::<[u8; 4]>(), device.clone())
            .prop_map(|(dst, len, pattern, device)| Work::Fill { dst, len, pattern, device }),
        (piece.clone(), 0..3_u8, 0..7_u8).prop_map(|(piece, combine, element)| Work::Reduce {
            device: 0,
            piece,
            combine,
            element
        }),
    ]
    .boxed();
    let awaited = prop_oneof![
        point.clone().prop_map(Awaited::Point),
        (0..3_u64).prop_map(Awaited::Later),
        Just(Awaited::Outside)
    ]
    .boxed();
    let task = (1..3_u32, 0..4_u32).prop_map(|(graph, task)| TaskId { graph, task });
    let origin = prop_oneof![
        Just(Origin::Allocated),
        Just(Origin::Registered),
        Just(Origin::Mapped),
        Just(Origin::Imported)
    ]
    .boxed();
    let block = (address.clone(), address.clone(), len, device, origin)
        .prop_map(|(base, at, len, device, origin)| Block { base, at, len, padding: 0, device, origin })
        .boxed();
    let end = prop_oneof![Just(End::Source), Just(End::Destination)];
    let outcome = prop_oneof![Just(Outcome::Done), Just(Outcome::Failed), Just(Outcome::Dropped)];
    let purpose = prop_oneof![Just(StreamPurpose::User), Just(StreamPurpose::Graph)];
    let context = prop_oneof![
        Just(Fact::Started(Started { backend: "cuda".into(), ..Started::default() })),
        Just(Fact::Functions("one\ntwo".into())),
        Just(Fact::Module(LoadedFile { base: 1, end: 3, offset: 9, path: "/no/such/file".into() })),
        Just(Fact::Thread("worker".into())),
        Just(Fact::Line(Line { number: 1, line: 4, file: "a.py".into(), function: "f".into() })),
        Just(Fact::Ended { time: 9_000 }),
        (1..9_u64).prop_map(|count| Fact::Lost { count }),
        (time.clone(), small.clone(), purpose).prop_map(|(time, stream, purpose)| Fact::StreamMade(
            StreamMade { time, stream, device: 1, purpose, handle: 3 }
        )),
        (time.clone(), small.clone()).prop_map(|(time, stream)| Fact::StreamGone { time, stream }),
        (time.clone(), site.clone(), block).prop_map(|(time, site, block)| Fact::Known { time, site, block }),
        (time.clone(), site.clone(), address).prop_map(|(time, site, base)| Fact::Forgotten {
            time,
            site,
            base
        }),
    ]
    .boxed();
    let ops =
        prop_oneof![
            (
                time.clone(),
                point.clone(),
                site.clone(),
                proptest::collection::vec(awaited, 0..3),
                work.clone(),
                proptest::option::of(task.clone())
            )
                .prop_map(|(time, point, site, awaits, work, task)| Fact::Submitted(
                    SubmittedOp { time, point, site, awaits, work, task }
                )),
            (point.clone(), pieces).prop_map(|(point, pieces)| Fact::MorePieces { point, pieces }),
            (time.clone(), small.clone(), site.clone(), work.clone())
                .prop_map(|(time, stream, site, work)| Fact::Refused { time, stream, site, work }),
            (point.clone(), time.clone(), time.clone(), outcome).prop_map(|(point, begin, end, outcome)| {
                Fact::Passed(Passed { point, begin, end, outcome, together: 1, engine: 0 })
            }),
            (time.clone(), point.clone(), piece).prop_map(|(time, point, piece)| Fact::Resolved {
                time,
                point,
                piece
            }),
            (time.clone(), 0..3_u64, proptest::option::of(point.clone()))
                .prop_map(|(time, promise, point)| Fact::Bound { time, promise, point }),
            (time.clone(), point.clone(), site.clone())
                .prop_map(|(time, point, site)| Fact::Joined(Joined { time, point, site, how: Join::Query })),
            (site.clone(), time.clone(), any::<i32>()).prop_map(|(site, end, code)| Fact::Call(Call {
                site,
                end,
                blocked: 3,
                code
            })),
            (point.clone(), end.clone(), any::<u64>()).prop_map(|(point, end, hash)| Fact::Contents {
                point,
                end,
                hash
            }),
            (point.clone(), end, 0..3_u64, any::<Vec<u8>>())
                .prop_map(|(point, end, offset, bytes)| Fact::Bytes { point, end, offset, bytes }),
        ]
        .boxed();
    let graphs = prop_oneof![
        (time.clone(), site.clone(), 1..3_u32, small)
            .prop_map(|(time, site, graph, stream)| Fact::CaptureBegun { time, site, graph, stream }),
        (time.clone(), site.clone(), task, work).prop_map(|(time, site, task, work)| Fact::Captured(
            Captured { time, site, task, branch: 0, work }
        )),
        (time.clone(), site.clone(), 1..3_u32).prop_map(|(time, site, graph)| Fact::CaptureEnded {
            time,
            site,
            graph,
            is_graph: true
        }),
        (time, site, 1..3_u32, point).prop_map(|(time, site, graph, point)| Fact::Launched {
            time,
            site,
            graph,
            point
        }),
    ]
    .boxed();
    prop_oneof![2 => context, 4 => ops, 1 => graphs]
}

pub fn any_facts() -> impl Strategy<Value = Vec<(FactSource, Fact)>> {
    let source = (1..3_u32, 1..4_u32).prop_map(|(process, thread)| FactSource { process, thread });
    proptest::collection::vec((source, any_fact()), 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the facts say, the recorder's file is a whole recording, with every op of them.
    #[test]
    fn any_facts_make_a_whole_recording(facts in any_facts()) {
        let loaded = read(&file_of(&facts)).expect("a recording");
        prop_assert_eq!(loaded.damage, None);
        let count = |wanted: fn(&Fact) -> bool| facts.iter().filter(|(_, fact)| wanted(fact)).count();
        prop_assert_eq!(loaded.recording.ops.len(), count(|fact| matches!(fact, Fact::Submitted(_))));
        let is_join = |step: &&Step| matches!(step.action, StepAction::Join { .. });
        let joins = loaded.recording.steps.iter().filter(is_join);
        prop_assert_eq!(joins.count(), count(|fact| matches!(fact, Fact::Joined(_))));
        for op in &loaded.recording.ops {
            for rect in op.work.rects() {
                prop_assert!((rect.dst.allocation as usize) < loaded.recording.allocations.len());
            }
        }
    }
}
