//! Each pattern, and its twin that is right.

use super::super::advice::{AdviceRule, CopyAdvice};
use super::*;
use crate::fact::{Block, End};

fn program() -> Program {
    Program::start(Statistics::with_advice())
}

fn found(report: &Report, rule: AdviceRule) -> Vec<&CopyAdvice> {
    report.advice.iter().filter(|advice| advice.rule == rule).collect()
}

fn line(advice: &CopyAdvice) -> Option<u32> {
    advice.call.place.as_ref().and_then(|place| place.line)
}

#[test]
fn pageable_memory_in_asynchronous_calls() {
    let mut program = program();
    for (function, at) in [(ASYNC, 1), (BLOCKING, 2)] {
        let site = program.site(function, at);
        let point = program.submit(site, 0, linear(PAGEABLE_H2D, 0, 0, 1000));
        program.finish(site, point, 44);
    }
    program.copy(3, 0, linear(PINNED_H2D, 0, 0, 1000));
    program.copy(4, 0, linear(Route { src: None, dst: None, is_pageable: true }, 0, 0, 1000));
    let report = program.report();
    let found = found(&report, AdviceRule::PageableAsync);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((line(found[0]), found[0].bytes, found[0].time), (Some(1), 1000, 44));
}

/// A loop of `count` copies of 1000 bytes, `apart` bytes from each other.
fn looped(count: u64, apart: u64, mut between: impl FnMut(&mut Program, Point)) -> Report {
    let mut program = program();
    for number in 0..count {
        let point = program.copy(1, 0, linear(PINNED_H2D, 0x1000 + number * apart, number * apart, 1000));
        between(&mut program, point);
    }
    program.report()
}

#[test]
fn a_loop_of_small_copies_should_be_a_batch() {
    let report = looped(20, 4096, |_, _| {});
    let found = found(&report, AdviceRule::Batch);
    assert_eq!(found.len(), 1);
    // Of 20 calls of 5 ns each, one stays.
    assert_eq!((found[0].copies, found[0].bytes, found[0].time), (20, 20_000, 95));
    assert_eq!(found[0].detail, "20 copies in a row");
    let adjacent = looped(20, 1000, |_, _| {});
    assert!(adjacent.advice.iter().any(|advice| advice.detail.contains("one copy")), "{:?}", adjacent.advice);
}

#[test]
fn copies_with_something_between_them_are_no_loop() {
    let rule = AdviceRule::Batch;
    assert!(found(&looped(7, 4096, |_, _| {}), rule).is_empty(), "too few");
    let marked = looped(20, 4096, |program, _| {
        program.copy(2, 0, Work::Mark);
    });
    assert!(found(&marked, rule).is_empty());
    let synchronised = looped(20, 4096, |program, point| program.wait(SYNC, 3, point));
    assert!(found(&synchronised, rule).is_empty());
    let of_others = looped(20, 4096, |program, _| {
        program.copy(2, 1, Work::Mark);
    });
    assert_eq!(found(&of_others, rule).len(), 1, "a mark in another stream orders nothing here");
}

#[test]
fn a_synchronisation_after_every_copy() {
    let report = looped(10, 4096, |program, point| program.wait(SYNC, 3, point));
    let found = found(&report, AdviceRule::SyncAfterEach);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].copies, found[0].bytes, found[0].time), (10, 10_000, 300));
    assert_eq!(line(found[0]), Some(1));
    let other = found[0].other.as_ref().and_then(|other| other.function.clone());
    assert_eq!(other.as_deref(), Some("aclrtSynchronizeStream"));
}

#[test]
fn a_synchronisation_after_some_copies_is_none() {
    let mut count = 0;
    let report = looped(20, 4096, |program, point| {
        count += 1;
        if count % 2 == 0 {
            program.wait(SYNC, 3, point);
        }
    });
    assert!(found(&report, AdviceRule::SyncAfterEach).is_empty());
    // Of two copies from two places, both have to be done.
    let pairs = looped(10, 4096, |program, _| {
        let point = program.copy(2, 0, linear(PINNED_H2D, 0, 0, 10));
        program.wait(SYNC, 3, point);
    });
    assert!(found(&pairs, AdviceRule::SyncAfterEach).is_empty());
    // Seldom, though often enough.
    let mut count = 0;
    let seldom = looped(30, 4096, |program, point| {
        count += 1;
        if count <= 10 {
            program.wait(SYNC, 3, point);
        }
    });
    assert!(found(&seldom, AdviceRule::SyncAfterEach).is_empty());
    let few = looped(3, 4096, |program, point| program.wait(SYNC, 3, point));
    assert!(found(&few, AdviceRule::SyncAfterEach).is_empty());
}

/// Two copies with the same ends and something in between.
fn twice(route: Route, hashes: Option<[u64; 2]>, between: impl Fn(&mut Program)) -> Report {
    let mut program = program();
    for number in 0..2 {
        let point = program.copy(1, 0, linear(route, 0x8000, 0x4000, 1000));
        if let Some(hashes) = hashes {
            let contents = Fact::Contents { point, end: End::Source, hash: hashes[number] };
            program.take(contents);
        }
        if number == 0 {
            between(&mut program);
        }
    }
    program.report()
}

#[test]
fn host_memory_was_sent_twice_if_its_hash_is_the_same() {
    let rule = AdviceRule::SentTwice;
    let report = twice(PINNED_H2D, Some([5, 5]), |_| {});
    let sent = found(&report, rule);
    assert_eq!(sent.len(), 1);
    assert_eq!((sent[0].copies, sent[0].bytes, sent[0].time), (1, 1000, 100));
    assert!(found(&twice(PINNED_H2D, Some([5, 6]), |_| {}), rule).is_empty(), "the bytes were others");
    assert!(found(&twice(PINNED_H2D, None, |_| {}), rule).is_empty(), "the CPU may have changed them");
    let overwritten = |program: &mut Program| {
        program.copy(2, 0, linear(PINNED_H2D, 0x83e7, 0, 1));
    };
    assert!(found(&twice(PINNED_H2D, Some([5, 5]), overwritten), rule).is_empty());
}

#[test]
fn a_hash_may_be_seen_before_its_copy() {
    let mut program = program();
    for ticket in [1, 2, 3] {
        let point = Point { stream: 0, ticket };
        program.take(Fact::Contents { point, end: End::Source, hash: 5 });
    }
    for _ in 0..3 {
        program.copy(1, 0, linear(PINNED_H2D, 0x8000, 0x4000, 1000));
    }
    let report = program.report();
    let sent = found(&report, AdviceRule::SentTwice);
    assert_eq!(sent.iter().map(|advice| (advice.copies, advice.time)).collect::<Vec<_>>(), [(2, 200)]);
}

#[test]
fn device_memory_was_sent_twice_if_nothing_was_written_in_between() {
    let rule = AdviceRule::SentTwice;
    for route in [WITHIN, PINNED_D2H] {
        assert_eq!(found(&twice(route, None, |_| {}), rule).len(), 1, "{route:?}");
        let beside = |program: &mut Program| {
            program.copy(2, 0, linear(WITHIN, 0x43e8, 0, 10));
        };
        assert_eq!(found(&twice(route, None, beside), rule).len(), 1, "{route:?}");
    }
    let device = Some(0);
    let blocks: [&dyn Fn(&mut Program); 4] = [
        &|program| {
            program.copy(2, 0, linear(WITHIN, 0x43e7, 0, 1));
        },
        &|program| {
            program.copy(2, 0, Work::Fill { dst: 0x8000, len: 1, pattern: [0; 4], device });
        },
        // It is not known where.
        &|program| {
            program.copy(2, 0, Work::Batch { route: WITHIN, count: 2, bytes: 2, pieces: Vec::new() });
        },
        // Other memory at the same address.
        &|program| {
            let block = Block { base: 1, at: 0x4000, len: 64, device, ..Block::default() };
            program.take(Fact::Known { time: program.now, site: CallSite::default(), block });
        },
    ];
    for (case, between) in blocks.iter().enumerate() {
        assert!(found(&twice(WITHIN, None, between), rule).is_empty(), "case {case}");
    }
}

/// Bytes go to the host and back.
fn round_trip(between: impl Fn(&mut Program, Point)) -> Report {
    let mut program = program();
    let point = program.copy(1, 0, linear(PINNED_D2H, 0x8000, 0x4000, 1000));
    between(&mut program, point);
    program.copy(2, 0, linear(PINNED_H2D, 0x4000, 0x8000, 900));
    program.report()
}

#[test]
fn a_round_trip_that_nothing_waited_for() {
    let report = round_trip(|_, _| {});
    let found = found(&report, AdviceRule::RoundTrip);
    assert_eq!(found.len(), 1);
    assert_eq!((line(found[0]), found[0].bytes, found[0].time), (Some(2), 900, 100));
    let from = found[0].other.as_ref().and_then(|name| name.place.as_ref()?.line);
    assert_eq!(from, Some(1));
}

#[test]
fn what_the_host_may_have_read_or_changed_is_no_round_trip() {
    let rule = AdviceRule::RoundTrip;
    assert!(found(&round_trip(|program, point| program.wait(SYNC, 3, point)), rule).is_empty());
    let host = Route { src: None, dst: None, is_pageable: false };
    let changed = |program: &mut Program, _| {
        program.copy(3, 0, linear(host, 0x8000, 0, 5));
    };
    assert!(found(&round_trip(changed), rule).is_empty());
}

#[test]
fn pitches_that_keep_short_rows_apart() {
    let mut program = program();
    let rows = |width, dst_pitch, src_pitch| Work::Rows {
        route: PINNED_H2D,
        rows: Rows { dst: 0, dst_pitch, src: 0, src_pitch, width, height: 10 },
    };
    program.copy(1, 0, rows(1000, 1024, 1000));
    program.copy(2, 0, rows(1000, 1000, 1000));
    program.copy(3, 0, rows(1 << 20, 2 << 20, 1 << 20));
    let report = program.report();
    let found = found(&report, AdviceRule::Pitch);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((line(found[0]), found[0].bytes, found[0].time), (Some(1), 10_000, 100));
    assert!(found[0].detail.contains("1024 apart at the destination"), "{}", found[0].detail);
}

#[test]
fn tasks_of_graphs_are_no_loops() {
    let mut program = program();
    for number in 0..20 {
        let site = program.site(ASYNC, 1);
        let point = Point { stream: 0, ticket: number + 1 };
        let work = linear(PINNED_H2D, number * 4096, number * 4096, 100);
        let task = Some(TaskId { graph: 1, task: number as u32 });
        program.take(Fact::Submitted(SubmittedOp {
            time: site.begin,
            point,
            site,
            work,
            task,
            awaits: vec![],
        }));
    }
    assert!(found(&program.report(), AdviceRule::Batch).is_empty());
}
