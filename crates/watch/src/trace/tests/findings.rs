//! Findings on the page: where their marks stand, what is said of them, and how ops and calls lead to them.

use serde_json::{Value, json};

use crate::check::{CheckOptions, Checker, ProcessEnd};
use crate::fact::{Block, Fact, HostAccess, Piece, Point};
use crate::testing::{MadeFacts, TO_DEVICE, TO_HOST};
use crate::trace::{TraceLimits, html};

use super::script::Script;
use super::traced;

/// A thread that never called anything writes the source of a copy in flight, and two streams race. Times
/// count from the first fact.
fn wrong() -> MadeFacts {
    let mut made = MadeFacts::new(7);
    for stream in [1, 2] {
        made.stream(stream, 0);
    }
    made.block(Block { base: 0x1000, at: 0x1000, len: 0x1000, ..Block::default() });
    made.block(Block { base: 0x5000, at: 0x9000, len: 0x1000, device: Some(0), ..Block::default() });
    let up = made.copy(8, 1, TO_DEVICE, Piece { dst: 0x9000, src: 0x1000, len: 64 });
    made.wait(500);
    made.push(7, Fact::Access(access(made.now, up)));
    made.wait(500);
    let down = made.copy(8, 2, TO_HOST, Piece { dst: 0x1800, src: 0x9020, len: 32 });
    let now = made.now;
    made.passed(101, up, now + 1000, now + 3000);
    made.passed(102, down, now + 2000, now + 4000);
    made.synchronize(8, up, now + 500);
    made.synchronize(8, down, made.now);
    made
}

fn access(time: u64, point: Point) -> HostAccess {
    HostAccess { time, point, address: 0x1008, thread: 99, is_write: true, ..HostAccess::default() }
}

fn script_of(made: &MadeFacts) -> Script {
    let mut checker = Checker::new(CheckOptions::default());
    made.feed(&mut checker);
    checker.finish(|_| ProcessEnd::Unknown);
    let mut tracer = traced(&made.facts, TraceLimits::default());
    tracer.add_findings(&checker.findings().iter().collect::<Vec<_>>());
    let script = Script::of(tracer.model());
    script.add("const marks = buildMarks(trace, places);");
    script.add("const line = (parts) => parts.map(({ text }) => text).join(' ').trim();");
    script.add("const field = (said, name) => said.fields.find(({ label }) => label === name);");
    script
}

#[test]
fn marks_stand_at_the_access_and_on_the_boxes_of_the_ops() {
    let script = script_of(&wrong());
    let ids = script.value("trace.findings.map(({ id, count }) => [id, count])");
    assert_eq!(ids, json!([["FERRY-HOST-WRITE", 1], ["FERRY-STREAM-RACE", 1]]));
    let marks = script.value(
        "marks.map(({ finding, end, time, place }) => [finding, end, time, places.tops[place].row.label])",
    );
    let want = json!([
        [0, "access", 1000, "thread 99"],
        [1, "access", 1800, "thread 8"],
        [0, "work", 2800, "stream 1"],
        [1, "work", 2800, "stream 1"],
        [1, "access", 3800, "stream 2"],
    ]);
    assert_eq!(marks, want);
    assert_eq!(
        script.value("findingSpan(trace, marks, 0)"),
        json!([-47500, 52500]),
        "at least so much is shown"
    );
    script.add("markRows(marks, places);");
    let row = "rows.find(({ label }) => label === 'thread 99')";
    assert_eq!(script.value(&format!("{row}.height > 15 && hasBoxes({row}, 900, 1100)")), json!(true));
    assert_eq!(script.value(&format!("hasBoxes({row}, 1100, 1200)")), json!(false));
}

#[test]
fn a_finding_leads_to_its_ops_and_they_to_it() {
    let script = script_of(&wrong());
    script.add("const said = describeFinding(trace, 0);");
    let title = "FERRY-HOST-WRITE: the CPU writes memory that a copy in flight uses";
    assert_eq!(script.value("[said.title, said.place]"), json!([title, "error in process 7"]));
    assert_eq!(script.value("line(field(said, 'Access').parts)"), json!("thread 99 at 1 µs"));
    assert_eq!(script.value("line(field(said, 'Work').parts)"), json!("aclrtMemcpyAsync stream 1 op 1"));
    assert_eq!(script.value("field(said, 'Work').parts[1].op"), json!(0));
    assert_eq!(script.value("line(field(said, 'Bytes').parts)"), json!("0x1008"));
    let message = script.value("line(field(said, 'What').parts)");
    assert!(message.as_str().is_some_and(|text| text.starts_with("Thread 99 writes 0x1008")), "{message}");
    assert_eq!(script.value("field(said, 'To do').parts[0].text === trace.findings[0].remedy"), json!(true));
    let links =
        |of: &str| script.value(&format!("field({of}, 'Findings').lines.map(([{{ finding }}]) => finding)"));
    assert_eq!(links("describeOp(trace, index, 0)"), json!([0, 1]));
    assert_eq!(links("describeOp(trace, index, 1)"), json!([1]));
    assert_eq!(links("describeCall(trace, index, trace.ops.call[1])"), json!([1]));
    let cells = script.value("findingRows(trace).map(({ cells }) => cells.slice(0, 2))");
    assert_eq!(cells, json!([["error", "FERRY-HOST-WRITE"], ["error", "FERRY-STREAM-RACE"]]));
}

#[test]
fn a_finding_that_the_trace_has_no_place_for_is_listed_without_a_mark() {
    let made = wrong();
    let mut checker = Checker::new(CheckOptions::default());
    made.feed(&mut checker);
    let mut tracer = traced(&[], TraceLimits::default());
    tracer.add_findings(&checker.findings().iter().collect::<Vec<_>>());
    let script = Script::of(tracer.model());
    assert_eq!(script.value("buildMarks(trace, places)"), json!([]));
    assert_eq!(script.value("findingSpan(trace, [], 0)"), Value::Null);
    assert_eq!(script.value("describeFinding(trace, 1).fields.length > 3"), json!(true));
}

#[test]
fn a_trace_that_nobody_checked_says_nothing_of_findings() {
    let tracer = traced(&wrong().facts, TraceLimits::default());
    let page = html::page(tracer.model(), &mut |_, _| None);
    assert!(page.contains("<h1>Ferry trace</h1>") && !page.contains("\"findings\":"));
    let script = Script::of(tracer.model());
    assert_eq!(script.value("[buildMarks(trace, places), findingRows(trace)]"), json!([[], []]));
    assert_eq!(script.value("rows.some(({ label }) => label === 'thread 99')"), json!(false));
}
