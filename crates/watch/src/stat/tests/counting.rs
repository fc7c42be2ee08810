//! What is counted, under which name, and that memory stays bounded.

use super::*;

#[test]
fn traffic_is_counted_by_kind_route_and_size() {
    let mut program = Program::start(Statistics::new());
    let between = Route { src: Some(0), dst: Some(1), is_pageable: false };
    let host = Route { src: None, dst: None, is_pageable: true };
    program.copy(1, 0, linear(PINNED_H2D, 0, 0, 4095));
    program.copy(1, 0, linear(PINNED_H2D, 0, 0, 4096));
    program.copy(2, 0, linear(PAGEABLE_H2D, 0, 0, 64 << 10));
    program.copy(3, 0, linear(PINNED_D2H, 0, 0, 1 << 20));
    program.copy(4, 0, linear(WITHIN, 0, 0, 16 << 20));
    program.copy(5, 0, linear(between, 0, 0, 100));
    program.copy(6, 0, linear(host, 0, 0, 100));
    program.copy(7, 0, Work::Fill { dst: 0, len: 50, pattern: [0; 4], device: Some(0) });
    let report = program.report();
    let copied = 4095.0 + 4096.0 + 65536.0 + 1048576.0 + 16777216.0 + 200.0;
    expect(
        &report,
        &[
            ("calls", 8.0),
            ("copy_calls", 7.0),
            ("bytes", copied + 50.0),
            ("copy_bytes", copied),
            ("h2d_calls", 3.0),
            ("h2d_bytes", 4095.0 + 4096.0 + 65536.0),
            ("h2d_pinned_bytes", 4095.0 + 4096.0),
            ("h2d_pageable_bytes", 65536.0),
            ("pageable_bytes", 65536.0 + 100.0),
            ("pageable_calls", 2.0),
            ("d2h_bytes", 1048576.0),
            ("within_device_bytes", 16777216.0),
            ("between_devices_bytes", 100.0),
            ("h2h_calls", 1.0),
            ("fill_bytes", 50.0),
            ("tiny_calls", 4.0),
            ("small_calls", 1.0),
            ("medium_calls", 1.0),
            ("large_calls", 1.0),
            ("huge_calls", 1.0),
            ("h2d_pinned_tiny_bytes", 4095.0),
            ("time", 800.0),
            ("h2d_time", 300.0),
            ("h2d_rate", (4095.0 + 4096.0 + 65536.0) / 300.0),
            ("reduce_rate", 0.0),
            ("unfinished", 0.0),
        ],
    );
}

#[test]
fn batches_rectangles_graphs_and_the_rest_have_counters() {
    let mut program = Program::start(Statistics::new());
    let pieces = vec![Piece::default(); 3];
    program.copy(1, 0, Work::Batch { route: PINNED_H2D, count: 5, bytes: 500, pieces });
    let rows = Rows { dst: 0, dst_pitch: 64, src: 0, src_pitch: 64, width: 10, height: 3 };
    program.copy(2, 0, Work::Rows { route: PINNED_H2D, rows });
    let site = program.site(ASYNC, 3);
    let awaits = vec![Awaited::Outside];
    let task = Some(TaskId { graph: 1, task: 0 });
    let op = SubmittedOp { site, awaits, task, work: Work::Mark, ..SubmittedOp::default() };
    program.take(Fact::Submitted(op));
    program.take(Fact::Launched { time: program.now, site, graph: 1, point: Point::default() });
    program.take(Fact::Refused { time: program.now, stream: 0, site, work: Work::Function });
    program.take(Fact::Call(Call { site, end: program.now, blocked: 0, code: 107000 }));
    program.take(Fact::Lost { count: 12 });
    expect(
        &program.report(),
        &[
            ("batches", 1.0),
            ("pieces", 5.0),
            ("rectangles", 1.0),
            ("bytes", 530.0),
            ("calls", 2.0),
            ("marks", 1.0),
            ("waits", 1.0),
            ("graph_ops", 1.0),
            ("launches", 1.0),
            ("refused", 1.0),
            ("failed_calls", 1.0),
            ("unfinished", 1.0),
            ("lost_facts", 12.0),
        ],
    );
}

#[test]
fn a_copy_by_descriptor_is_counted_when_its_length_is_known() {
    let mut program = Program::start(Statistics::new());
    let site = program.site(ASYNC, 1);
    let point = program.submit(site, 0, Work::Through { device: 0, cells: [1, 0], len: 0 });
    let piece = Piece { dst: 0, src: 0, len: 1 << 20 };
    let (process, begin) = (program.source, program.now);
    program.take(Fact::Resolved { time: begin, point, piece });
    program.pass(point, begin, begin + 64);
    assert_eq!(process, MAIN);
    expect(
        &program.report(),
        &[
            ("late_bound", 1.0),
            ("calls", 1.0),
            ("tiny_calls", 0.0),
            ("large_calls", 1.0),
            ("within_device_bytes", 1048576.0),
            ("rate", 16384.0),
        ],
    );
}

#[test]
fn synchronisations_are_calls_and_not_joins() {
    let mut program = Program::start(Statistics::new());
    let first = program.copy(1, 0, linear(PINNED_H2D, 0, 0, 100));
    let second = program.copy(1, 1, linear(PINNED_H2D, 0, 0, 100));
    // One call that waits for two streams.
    let site = program.site(SYNC, 2);
    program.take(Fact::Joined(Joined { time: program.now + 20, point: first, site, how: Join::Wait }));
    program.now += 20;
    program.finish(site, second, 55);
    // One with nothing to wait for, and one that only asks.
    let site = program.site(SYNC, 3);
    program.take(Fact::Call(Call { site, end: program.now + 3, blocked: 0, code: 0 }));
    let site = program.site(0, 4);
    program.take(Fact::Joined(Joined { time: program.now, point: first, site, how: Join::Query }));
    // Memory that is freed when work has passed.
    program.wait(FREE, 5, second);
    // A copy that waits for itself.
    let site = program.site(BLOCKING, 6);
    let point = program.submit(site, 2, linear(PAGEABLE_H2D, 0, 0, 1000));
    program.finish(site, point, 42);
    expect(
        &program.report(),
        &[
            ("syncs", 2.0),
            ("sync_blocked", 55.0),
            ("other_blocked", 30.0),
            ("pageable_blocked", 42.0),
            ("copy_blocked", 42.0),
            ("blocked", 127.0),
            // 5 + 5 for the submissions, 70, 3, 0, 50, and 5 + 50 for the last.
            ("call_time", 188.0),
        ],
    );
}

#[test]
fn a_wait_without_a_named_function_is_a_synchronisation() {
    let mut program = Program::start(Statistics::new());
    let point = program.copy(1, 0, linear(PINNED_H2D, 0, 0, 100));
    let site = program.site(0, 2);
    program.take(Fact::Joined(Joined { time: site.begin + 25, point, site, how: Join::Wait }));
    expect(&program.report(), &[("syncs", 1.0), ("sync_blocked", 25.0)]);
}

#[test]
fn overlap_and_queue_depth_are_those_of_streams() {
    let mut program = Program::start(Statistics::new());
    let site = program.site(ASYNC, 1);
    let points = [0, 0, 1].map(|stream| program.submit(site, stream, linear(PINNED_H2D, 0, 0, 10)));
    let begin = program.now + 100;
    // Ops that were sent as one share begin and end: their stream works once. The other stream works for a
    // half of that time.
    for (point, together, half) in [(points[0], 2, 0), (points[1], 2, 0), (points[2], 1, 50)] {
        let passed = Passed { point, begin: begin + half, end: begin + 100, together, ..Passed::default() };
        program.take(Fact::Passed(passed));
    }
    let late = program.submit(site, 1, linear(PINNED_H2D, 0, 0, 10));
    let begin = begin + 200;
    program.pass(late, begin, begin + 300);
    let report = program.report();
    expect(
        &report,
        &[
            ("busy", 400.0),
            ("busy_together", 50.0),
            ("overlap", 0.125),
            // A half and a half, one, and the late one.
            ("time", 50.0 + 50.0 + 50.0 + 300.0),
        ],
    );
    assert!(report.run.mean_queue_depth > 1.0 && report.run.mean_queue_depth < 2.0, "{:?}", report.run);
}

#[test]
fn an_op_may_be_seen_to_pass_before_it_is_seen_to_be_submitted() {
    let mut program = Program::start(Statistics::new());
    let point = Point { stream: 0, ticket: 1 };
    program.source.thread = 99;
    program.pass(point, 2000, 2100);
    program.source.thread = 70;
    let site = program.site(ASYNC, 1);
    assert_eq!(program.submit(site, 0, linear(PINNED_H2D, 0, 0, 700)), point);
    expect(&program.report(), &[("unfinished", 0.0), ("time", 100.0), ("rate", 7.0)]);
}

#[test]
fn nothing_of_what_is_seen_too_early_is_lost() {
    let mut program = Program::start(Statistics::new());
    let point = Point { stream: 0, ticket: 1 };
    program.take(Fact::Begun { time: 2000, point });
    program.take(Fact::Resolved { time: 2000, point, piece: Piece { dst: 0, src: 0, len: 5000 } });
    program.pass(point, 0, 2100);
    let site = program.site(ASYNC, 1);
    program.submit(site, 0, Work::Through { device: 0, cells: [0, 0], len: 0 });
    expect(&program.report(), &[("small_bytes", 5000.0), ("small_rate", 50.0), ("unfinished", 0.0)]);
}

#[test]
fn what_failed_or_was_dropped_moved_nothing() {
    let mut program = Program::start(Statistics::new());
    for outcome in [Outcome::Failed, Outcome::Dropped, Outcome::Done] {
        let site = program.site(ASYNC, 1);
        let point = program.submit(site, 0, linear(PINNED_H2D, 0, 0, 600));
        let (begin, end) = (program.now, program.now + 100);
        program.take(Fact::Passed(Passed { point, begin, end, outcome, together: 1, engine: 0 }));
    }
    // One is never seen to pass: the program was killed.
    let site = program.site(ASYNC, 1);
    program.submit(site, 0, linear(PINNED_H2D, 0, 0, 600));
    expect(
        &program.report(),
        &[("failed", 1.0), ("dropped", 1.0), ("unfinished", 1.0), ("bytes", 2400.0), ("rate", 6.0)],
    );
}

#[test]
fn streams_of_processes_are_told_apart() {
    let mut program = Program::start(Statistics::new());
    let site = program.site(ASYNC, 1);
    program.submit(site, 0, linear(PINNED_H2D, 0, 0, 1));
    program.source.process = 8;
    program.take(Fact::Started(Started { time: program.now, ..Started::default() }));
    program.pass(Point { stream: 0, ticket: 1 }, program.now, program.now + 10);
    expect(&program.report(), &[("unfinished", 1.0), ("processes", 2.0), ("time", 0.0)]);
}

#[test]
fn a_process_with_the_number_of_an_old_one_does_not_take_its_names() {
    let mut program = Program::start(Statistics::new());
    program.copy(12, 0, linear(PINNED_H2D, 0, 0, 1));
    program.take(Fact::Started(Started { time: program.now, ..Started::default() }));
    let report = program.report();
    assert_eq!(report.sites[0].name.text(), "train.py:12: aclrtMemcpyAsync in load");
}

#[test]
fn sites_with_one_name_are_one_and_most_bytes_come_first() {
    let mut program = Program::start(Statistics::new());
    program.copy(1, 0, linear(PINNED_H2D, 0, 0, 30));
    program.copy(2, 0, linear(PINNED_H2D, 0, 0, 10));
    // Another process of the same program.
    program.source = FactSource { process: 8, thread: 1 };
    program.take(Fact::Functions(FUNCTIONS.join("\n")));
    program.copy(2, 5, linear(PINNED_H2D, 0, 0, 25));
    let report = program.report();
    let bytes: Vec<_> = report
        .sites
        .iter()
        .map(|site| {
            (site.name.place.as_ref().and_then(|place| place.line), site.counts.traffic_of(|_| true).bytes)
        })
        .collect();
    assert_eq!(bytes, [(Some(2), 35), (Some(1), 30)]);
}

#[test]
fn memory_is_bounded_if_nothing_ever_passes() {
    let mut program = Program::start(Statistics::with_advice());
    let count = 3 * OPS_IN_FLIGHT as u64;
    for number in 0..count {
        let site = CallSite { function: ASYNC, caller: number + 1, begin: program.now, stack: 0 };
        program.submit(site, (number % 100_000) as u32, linear(PINNED_H2D, number * 7, number * 3, 5));
        // And what passes was never submitted.
        program.pass(Point { stream: 1 << 31, ticket: number }, 1, 2);
    }
    assert!(program.statistics.open.values().count() <= OPS_IN_FLIGHT);
    assert!(program.statistics.early.values().count() <= EARLY_OPS);
    assert!(program.statistics.sites.len() <= 4097);
    let report = program.report();
    expect(&report, &[("calls", count as f64), ("bytes", 5.0 * count as f64), ("unfinished", count as f64)]);
    assert!(report.run.untracked > 0);
    let others = report.sites.iter().find(|site| site.name.is_others).expect("others");
    assert_eq!(others.counts.traffic_of(|_| true).calls, count - 4096);
}

#[test]
fn a_report_of_nothing_is_all_zero() {
    let report = Statistics::new().report();
    for (name, statistic) in Statistic::all() {
        assert_eq!(statistic.value(&report.run, &report.total), 0.0, "{name}");
    }
    assert!(report.sites.is_empty() && report.advice.is_empty());
}

#[test]
fn names_are_told_once() {
    let all = Statistic::all();
    let names: HashSet<_> = all.iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(names.len(), all.len());
    assert!(!names.contains("h2d_within_device_bytes") && !names.contains("fill_pinned_bytes"));
}

#[test]
fn an_op_whose_beginning_is_told_apart_or_not_at_all() {
    let mut program = Program::start(Statistics::new());
    let site = program.site(ASYNC, 1);
    let first = program.submit(site, 0, linear(PINNED_H2D, 0, 0, 100));
    program.take(Fact::Begun { time: 5000, point: first });
    program.pass(first, 0, 5100);
    let second = program.submit(site, 0, linear(PINNED_H2D, 0, 0, 100));
    program.pass(second, 0, 9000);
    expect(&program.report(), &[("time", 100.0), ("busy", 100.0), ("unfinished", 0.0)]);
}

#[test]
fn a_stream_that_is_told_twice_is_counted_once() {
    let mut program = Program::start(Statistics::new());
    for (stream, purpose) in [
        (0, StreamPurpose::User),
        (0, StreamPurpose::Default),
        (1, StreamPurpose::User),
        (1, StreamPurpose::Synchronous),
        (2, StreamPurpose::User),
    ] {
        program.take(Fact::StreamMade(StreamMade { stream, purpose, ..StreamMade::default() }));
    }
    expect(&program.report(), &[("streams", 2.0)]);
}
