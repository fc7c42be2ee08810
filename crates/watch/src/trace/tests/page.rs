//! The logic of the page, run by a JavaScript engine: what it says of ops and calls.

use serde_json::{Value, json};

use crate::fact::{
    Awaited, Block, CallSite, Captured, Fact, Passed, Piece, Point, SubmittedOp, TaskId, Work,
};
use crate::testing::{MadeFacts, TO_DEVICE, TO_HOST, busy};
use crate::trace::{TraceLimits, html};

use super::script::Script;
use super::traced;

fn script_of(made: &MadeFacts) -> Script {
    Script::of(traced(&made.facts, TraceLimits::default()).model())
}

/// Ops on two streams that wait for each other in every way. The clock starts at 0 with the trace.
fn waiting() -> MadeFacts {
    let mut made = MadeFacts::new(7);
    let piece = Piece { dst: 0x9000, src: 0x100, len: 4096 };
    let start = made.now;
    let at = |nanos: u64| start + nanos;
    // Op 0 begins after the time that beginning takes; op 1 waits for it, op 2 for an event of op 1.
    let first = made.copy(8, 1, TO_DEVICE, piece);
    let second = made.copy(8, 1, TO_DEVICE, piece);
    let point = Point { stream: 2, ticket: 0 };
    let work = Work::Linear { route: TO_HOST, piece };
    let awaits = vec![Awaited::Point(second)];
    let third = made.submit(8, SubmittedOp { point, awaits, work: work.clone(), ..SubmittedOp::default() });
    // Op 3 has a worker that is busy with op 2, op 4 waits for another process.
    let fourth = made.copy(8, 3, TO_DEVICE, piece);
    let point = Point { stream: 4, ticket: 0 };
    let awaits = vec![Awaited::Outside];
    let fifth = made.submit(8, SubmittedOp { point, awaits, work, ..SubmittedOp::default() });
    made.passed(101, first, at(1000), at(2000));
    made.passed(101, second, at(2000), at(5000));
    made.passed(102, third, at(5000), at(9000));
    made.passed(102, fourth, at(9000), at(9500));
    made.passed(103, fifth, at(20000), at(21000));
    // Ops 5 to 7 are sent as one.
    made.now = at(30000);
    let together: Vec<Point> = (0..3).map(|_| made.copy(8, 5, TO_DEVICE, piece)).collect();
    for point in together {
        let (begin, end) = (at(31500), at(32000));
        made.push(
            104,
            Fact::Passed(Passed { point, begin, end, together: 3, engine: 1, ..Passed::default() }),
        );
    }
    made
}

#[test]
fn every_cause_of_a_wait_is_told() {
    let script = script_of(&waiting());
    let why = |op: u32| {
        let parts = "map(({ cause, nanos, op }) => [cause, nanos, op])";
        script.value(&format!("whyWaited(trace, index, {op}).{parts}"))
    };
    assert_eq!(why(0), json!([["start", 700, -1]]));
    assert_eq!(why(1), json!([["stream", 1400, 0]]));
    assert_eq!(why(2), json!([["event", 4100, 1]]));
    assert_eq!(why(3), json!([["engine", 7800, 2]]));
    assert_eq!(why(4), json!([["event", 18500, -1]]));
    assert_eq!(why(5), json!([["together", 600, -1], ["start", 600, -1]]));
    assert_eq!(why(7), json!([["start", 600, -1]]));
    script.add("const streams = rows.filter((row) => row.stream !== undefined);");
    let rows = "streams.map((row) => row.tracks.map((it) => Array.from(it.count)))";
    assert_eq!(
        script.value(rows),
        json!([[[1, 1]], [[1]], [[1]], [[1]], [[3]]]),
        "sent as one, drawn as one"
    );
}

#[test]
fn a_wait_with_several_causes_has_them_in_the_order_of_time() {
    let mut made = MadeFacts::new(7);
    let piece = Piece { dst: 0x9000, src: 0x100, len: 4096 };
    let early = made.copy(8, 1, TO_DEVICE, piece);
    let late = made.copy(8, 2, TO_DEVICE, piece);
    made.copy(8, 3, TO_DEVICE, piece);
    let (point, awaits) = (Point { stream: 3, ticket: 0 }, vec![Awaited::Point(late), Awaited::Point(early)]);
    let work = Work::Linear { route: TO_HOST, piece };
    let last = made.submit(8, SubmittedOp { point, awaits, work, ..SubmittedOp::default() });
    let now = made.now;
    made.passed(101, early, now, now + 100);
    made.passed(102, late, now, now + 350);
    made.passed(103, Point { ticket: 1, ..last }, now, now + 200);
    made.passed(104, last, now + 400, now + 500);
    let script = script_of(&made);
    let parts = script.value("whyWaited(trace, index, 3).map(({ cause, nanos, op }) => [cause, nanos, op])");
    assert_eq!(parts, json!([["event", 100, 0], ["stream", 100, 2], ["event", 150, 1], ["start", 50, -1]]));
    assert_eq!(script.value("mainCause(whyWaited(trace, index, 3)).op"), json!(1));
}

#[test]
fn parts_of_a_wait_are_all_of_it() {
    let tracer = traced(&busy::facts(7, 600), TraceLimits::default());
    let script = Script::of(tracer.model());
    let wrong = "Array.from({ length: trace.ops.count }, (_, op) => op).filter((op) => {
        const sum = whyWaited(trace, index, op).reduce((sum, part) => sum + part.nanos, 0);
        return sum !== waitOf(trace, op);
    })";
    assert_eq!(script.value(wrong), json!([]));
}

#[test]
fn the_longest_waits_are_the_longest() {
    let tracer = traced(&busy::facts(7, 600), TraceLimits::default());
    let model = tracer.model();
    let script = Script::of(model);
    let mut want: Vec<u64> =
        model.ops.iter().map(|op| op.begin.expect("begun") - op.submitted.expect("submitted")).collect();
    want.sort_unstable_by(|a, b| b.cmp(a));
    assert_eq!(script.value("longestWaits(trace, index, 20).map(({ nanos }) => nanos)"), json!(want[..20]));
    let causes = script.value("longestWaits(trace, index, 20, 'event').map(({ cause }) => cause)");
    assert_eq!(causes, json!(vec!["event"; causes.as_array().map_or(0, Vec::len)]));
    assert_ne!(causes, json!([]));
    let mut blocked: Vec<u64> = model.calls.iter().map(|call| call.blocked).filter(|&it| it > 0).collect();
    blocked.sort_unstable_by(|a, b| b.cmp(a));
    blocked.truncate(5);
    assert_eq!(script.value("longestBlocked(trace, 5).map(({ nanos }) => nanos)"), json!(blocked));
}

#[test]
fn a_search_finds_by_function_size_address_and_line() {
    let mut made = MadeFacts::new(7);
    made.block(Block { base: 0x5000, at: 0x9000, len: 0x1000, device: Some(0), ..Block::default() });
    let piece = |dst, len| Piece { dst, src: 0x70_0000, len };
    made.copy(8, 1, TO_DEVICE, piece(0x9000, 100));
    made.copy(8, 2, TO_HOST, piece(0x70_1000, 1 << 20));
    let point = Point { stream: 1, ticket: 0 };
    let site = made.site("aclrtMemsetAsync");
    let work = Work::Fill { dst: 0x9100, len: 4096, pattern: [0; 4], device: Some(0) };
    made.submit(9, SubmittedOp { point, site, work, ..SubmittedOp::default() });
    let now = made.now;
    for (stream, ticket) in [(1, 1), (1, 2), (2, 1)] {
        made.passed(5, Point { stream, ticket }, now + 10 * ticket, now + 10 * ticket + 5);
    }
    made.synchronize(9, Point { stream: 1, ticket: 2 }, made.now);
    let script = script_of(&made);
    let cases: [(&str, Value); 14] = [
        ("memcpy", json!([0, 1])),
        ("memset", json!([2])),
        ("loop.c:96", json!([2])),
        (">=4KiB", json!([1, 2])),
        ("=100", json!([0])),
        ("1MiB", json!([1])),
        (">100 <1MB", json!([2])),
        ("0x5108", json!([0, 2])),
        ("0x701fff", json!([1])),
        ("0x9000", json!([])),
        ("memcpy \\\"stream 2\\\"", json!([1])),
        ("thread 9", json!([2, "aclrtSynchronizeStream"])),
        ("Synchronize", json!(["aclrtSynchronizeStream"])),
        ("nothing-like-this", json!([])),
    ];
    script.add(
        "const hits = (query) => search(trace, query).hits
            .map(({ op, call }) => op ?? callLabel(trace, call));",
    );
    for (query, want) in cases {
        assert_eq!(script.value(&format!("hits(\"{query}\")")), want, "{query}");
    }
    assert_eq!(script.value("search(trace, ' ')"), Value::Null);
    script.add("const track = rows.find((row) => row.stream === 0).tracks[0];");
    let counted = "Array.from(countHits(track, search(trace, 'memset'), index, true))";
    assert_eq!(script.value(counted), json!([0, 0, 1]));
    script.add("track.hits = countHits(track, search(trace, 'memset'), index, true);");
    assert_eq!(script.value("firstHit(track, 0, 2)"), json!(1));
}

#[test]
fn rows_stand_in_the_order_of_the_work() {
    let mut made = waiting();
    let first = Point { stream: 1, ticket: 1 };
    made.synchronize(8, first, made.now);
    let script = script_of(&made);
    let labels = script.value("rows.map(({ label }) => label)");
    let want = [
        "Calls of threads",
        "thread 8",
        "Work of streams",
        "stream 1",
        "stream 2",
        "stream 3",
        "stream 4",
        "stream 5",
        "Workers and copy engines",
        "thread 101",
        "thread 102",
        "thread 103",
        "device 0 copy engine",
        "Bytes in flight",
        "all work",
        "host memory",
    ];
    assert_eq!(labels, json!(want));
    assert_eq!(
        script
            .value("rows.every((row, at) => at === 0 || row.top === rows[at - 1].top + rows[at - 1].height)"),
        json!(true)
    );
    script.add("const arrows = buildArrows(trace, places);");
    let arrow = "(({ tails, heads }, at) => [tails[at] - trace.ops.end[1], heads[at] - trace.ops.begin[2]])";
    assert_eq!(script.value(&format!("{arrow}(arrows.waits, 0)")), json!([0, 0]));
    assert_eq!(script.value("[arrows.waits.heads.length, arrows.joins.heads.length]"), json!([1, 1]));
    script.add("const ends = [arrows.joins.tailPlaces[0], arrows.joins.headPlaces[0]];");
    let ends = "ends.map((place) => places.tops[place].row.label)";
    assert_eq!(script.value(ends), json!(["stream 1", "thread 8"]));
}

#[test]
fn rows_without_anything_in_view_can_be_left_out() {
    let script = script_of(&waiting());
    script.add(
        "const shown = (t0, t1) => {
            const height = layOut(rows, (row) => hasBoxes(row, t0, t1));
            const all = rows.filter((row) => row.isShown);
            if (all.reduce((sum, row) => sum + row.height, 0) !== height) return 'another height';
            return all.filter((row) => row.type !== 'series').map(({ label }) => label);
         };",
    );
    let all = script.value("shown(0, trace.span).length");
    assert_eq!(all, json!(14), "all but the two series");
    let want = ["Work of streams", "stream 4", "Workers and copy engines", "thread 103", "Bytes in flight"];
    assert_eq!(script.value("shown(20000, 21000)"), json!(want));
    assert_eq!(script.value("shown(25000, 26000)"), json!(["Bytes in flight"]));
}

#[test]
fn each_process_has_its_rows() {
    let mut facts = busy::facts(7, 60);
    facts.extend(busy::facts(900, 40));
    let script = Script::of(traced(&facts, TraceLimits::default()).model());
    let sections = script.value("rows.filter(({ type }) => type === 'section').map(({ label }) => label)");
    let titles =
        ["Calls of threads", "Work of streams", "Workers and copy engines", "Bytes in flight", "Captures"];
    assert_eq!(sections, json!([titles, titles].concat()));
    let processes = script.value("rows.filter(({ type }) => type === 'process').map(({ label }) => label)");
    assert_eq!(processes, json!(["Process 7", "Process 900"]));
    let boxes = "rows.filter((row) => row.stream !== undefined)
        .map(({ tracks }) => tracks.reduce((sum, { count }) => count.reduce((a, b) => a + b, sum), 0))
        .reduce((a, b) => a + b, 0)";
    assert_eq!(script.value(boxes), json!(100), "each op stands in the row of one stream");
}

#[test]
fn a_click_tells_everything_of_an_op() {
    let mut made = MadeFacts::new(7);
    made.block(Block { base: 0x5000, at: 0x9000, len: 0x1000, device: Some(0), ..Block::default() });
    let piece = Piece { dst: 0x9010, src: 0x70_0000, len: 1 << 11 };
    made.copy(8, 3, TO_DEVICE, piece);
    let point = made.copy(8, 3, TO_DEVICE, piece);
    let now = made.now;
    made.passed(9, Point { ticket: 1, ..point }, now + 100, now + 2100);
    made.passed(9, point, now + 2200, now + 4200);
    made.synchronize(8, point, now);
    let script = script_of(&made);
    script.add(
        "const said = describeOp(trace, index, 1);
         const words = (parts) => parts.map(({ text }) => text).join(' ');
         const field = (name) => said.fields.filter(({ label }) => label === name)
            .map(({ parts, lines = [] }) => [words(parts), ...lines.map(words)].filter(Boolean).join('; '))
            .join('|');",
    );
    let cases = [
        ("Size", "2 KiB (2,048 bytes)"),
        ("Route", "host to device 0, page-locked"),
        ("Source", "0x700000"),
        ("Call", "aclrtMemcpyAsync at step at loop.c:16"),
        ("Thread", "thread 8"),
        ("Queue", "stream 3 op 2, 1 op in front of it when it was submitted"),
        ("Took", "2 µs, 1.02 GB/s"),
        ("Done by", "thread 9"),
        ("Outcome", "done"),
    ];
    assert_eq!(script.value("said.title"), json!("Copy host to device 0, page-locked, 2 KiB"));
    for (name, want) in cases {
        assert_eq!(script.value(&format!("field('{name}')")), json!(want), "{name}");
    }
    let destination = script.value("field('Destination')");
    let text = destination.as_str().expect("a text");
    for part in ["0x5010", "allocation 0x5000 + 16", "4 KiB", "device 0", "aclrtMalloc at step at loop.c:48"]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
    let waited = script.value("field('Waited')");
    let want =
        "2.2 µs; 2.1 µs the op before it in its stream ran: stream 3 op 1 until 2.8 µs; 100 ns nothing";
    assert!(waited.as_str().is_some_and(|text| text.starts_with(want)), "{waited}");
    let known = script.value("field('Host joins')");
    assert!(known.as_str().is_some_and(|text| text.starts_with("thread 8 at ")), "{known}");
}

#[test]
fn an_op_of_a_graph_names_both_calls_and_their_stacks() {
    let mut made = MadeFacts::new(7);
    let task = TaskId { graph: 3, task: 5 };
    let (graph, stream) = (task.graph, 1);
    let begin = made.site("aclmdlRIExecuteAsync");
    made.push(8, Fact::CaptureBegun { time: made.now, site: begin, graph, stream });
    let before = Captured { time: made.now, task: TaskId { graph, task: 4 }, ..Captured::default() };
    made.push(8, Fact::Captured(Captured { site: made.site("aclrtMalloc"), ..before }));
    made.wait(100);
    let site = made.site("aclrtMemcpyAsync");
    made.push(8, Fact::Captured(Captured { time: made.now, site, task, ..Captured::default() }));
    made.wait(100);
    let end = made.site("aclmdlRIExecuteAsync");
    made.push(8, Fact::CaptureEnded { time: made.now, site: end, graph, is_graph: true });
    made.wait(100);
    made.push(8, Fact::Stack { number: 4, frames: vec![0x40_0010, 0x40_0999] });
    let site = CallSite { stack: 4, ..made.site("aclmdlRIExecuteAsync") };
    let work = Work::Linear { route: TO_DEVICE, piece: Piece { dst: 0x9000, src: 0x100, len: 8 } };
    let point = Point { stream, ticket: 0 };
    made.submit(8, SubmittedOp { point, site, work, task: Some(task), ..SubmittedOp::default() });
    let script = script_of(&made);
    script.add(
        "const line = (parts) => parts.map(({ text }) => text).join(' ');
         const words = ({ parts, lines = [] }) => [parts, ...lines].map(line);
         const field = (of, name) => of.fields.filter(({ label }) => label === name).flatMap(words);",
    );
    let field = |of: &str, name: &str| script.value(&format!("field({of}, '{name}')"));
    let op = "describeOp(trace, index, 0)";
    let captured = "task 5 of graph 3 captured by aclrtMemcpyAsync at step at loop.c:16";
    assert_eq!(field(op, "Graph"), json!([captured]));
    assert_eq!(field(op, "Call"), json!(["aclmdlRIExecuteAsync at step at loop.c:128"]));
    assert_eq!(field(op, "Stack"), json!(["", "step at loop.c:16", "step at loop.c:2457"]));
    let capture = "describeCapture(trace, 0)";
    assert_eq!(field(capture, "Recorded"), json!(["2 tasks"]));
    assert_eq!(field(capture, "Outcome"), json!(["graph 3"]));
    assert_eq!(field(capture, "Took"), json!(["200 ns"]));
}

#[test]
fn what_is_missing_is_said() {
    let facts = busy::facts(7, 300);
    let whole = Script::of(traced(&facts, TraceLimits::default()).model());
    assert_eq!(whole.value("leftOutText(trace)"), json!(""));
    let mut cut = facts;
    cut.retain(|(_, fact)| !matches!(fact, Fact::Ended { .. }));
    let source = cut[0].0;
    cut.push((source, Fact::Lost { count: 12 }));
    let tracer = traced(&cut, TraceLimits { ops: 100, others: 5000 });
    let text = Script::of(tracer.model()).value("leftOutText(trace)");
    let text = text.as_str().expect("a text");
    for part in ["200 later ops", "first 100", "12 facts were lost", "Process 7 did not end in order"] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn the_whole_page_asks_for_nothing_from_a_network() {
    let mut made = MadeFacts::new(7);
    made.copy(8, 1, TO_DEVICE, Piece { dst: 0x9000, src: 0x100, len: 8 });
    let tracer = traced(&made.facts, TraceLimits::default());
    let text = html::page(tracer.model(), &mut |_, _| Some("</script><img src=x>".to_owned()));
    for way in
        ["http:", "https:", "src=\"", "href=\"h", "<img", "@import", "url(", "fetch(", "XMLHttpRequest"]
    {
        assert!(!text.contains(way), "{way}");
    }
    assert_eq!(text.matches("</script>").count(), 2, "the data and the script end once each");
}

/// Whatever facts were lost, the page is built.
#[test]
fn a_torn_trace_is_shown() {
    let mut facts = busy::facts(7, 400);
    let mut random = 5u64;
    for keep in 1..6u64 {
        facts.retain(|_| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % 6 < 6 - keep / 2
        });
        let script = Script::of(traced(&facts, TraceLimits::default()).model());
        script.add("buildArrows(trace, places); longestWaits(trace, index, 50);");
        script.add("search(trace, 'copy >4k 0x1');");
        script.add("for (let op = 0; op < trace.ops.count; op += 1) describeOp(trace, index, op);");
        script
            .add("for (let call = 0; call < trace.calls.count; call += 1) describeCall(trace, index, call);");
        script.add(
            "trace.captures.forEach((_, capture) => describeCapture(trace, capture)); summaryText(trace);",
        );
    }
    let empty = Script::of(traced(&[], TraceLimits::default()).model());
    assert_eq!(empty.value("rows"), json!([]));
}
