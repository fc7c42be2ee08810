//! What the checker has found as JSON, for the scripts of the page. What is absent is null.

use crate::check::{CheckFinding, StackFrame};
use crate::fact::Nanos;
use crate::page_style::{json_list, json_object, json_string, json_strings};

use super::model::{TracedFinding, TracedSpot};

/// All findings; times count from `start`.
pub fn json(findings: &[TracedFinding], start: Nanos) -> String {
    json_list(findings.iter().map(|it| finding(it, start)))
}

fn finding(traced: &TracedFinding, start: Nanos) -> String {
    let TracedFinding { finding, access, work } = traced;
    let (address, len) = finding.bytes.map_or((None, None), |(address, len)| (Some(address), Some(len)));
    let told = [("time", finding.time.saturating_sub(start).to_string()), ("stack", stack(&finding.access))];
    let allocation = finding.allocation.as_ref();
    json_object(&[
        ("id", json_string(finding.id.name())),
        ("title", json_string(finding.id.title())),
        ("severity", json_string(finding.severity.name())),
        ("message", json_string(&finding.message)),
        ("remedy", json_string(finding.remedy)),
        ("address", address.map_or(null(), |address| json_string(&format!("{address:#x}")))),
        ("bytes", number(len)),
        ("process", finding.pid.to_string()),
        ("count", finding.count.to_string()),
        ("place", finding.place().map_or(null(), |frame| json_string(&frame.position))),
        ("access", json_object(&[told.as_slice(), &spot(access)].concat())),
        ("work", work_of(finding, work)),
        ("allocation", allocation.map_or(null(), |frames| stack(frames))),
    ])
}

/// The call that a finding collides with, and where its work is.
fn work_of(finding: &CheckFinding, traced: &TracedSpot) -> String {
    let Some(work) = &finding.work else { return null() };
    let place = StackFrame::place(&work.stack);
    let told = [
        ("name", json_string(&work.call)),
        ("place", place.map_or(null(), |frame| json_string(&frame.position))),
        ("stack", stack(&work.stack)),
    ];
    json_object(&[told.as_slice(), &spot(traced)].concat())
}

fn spot(spot: &TracedSpot) -> [(&'static str, String); 3] {
    let index = |index: Option<u32>| number(index.map(u64::from));
    [("thread", index(spot.thread)), ("call", index(spot.call)), ("op", index(spot.op))]
}

fn stack(frames: &[StackFrame]) -> String {
    json_strings(frames.iter().map(|frame| match &frame.function {
        Some(function) => format!("{} in {function}", frame.position),
        None => frame.position.clone(),
    }))
}

fn number(number: Option<u64>) -> String {
    number.map_or(null(), |number| number.to_string())
}

fn null() -> String {
    "null".to_owned()
}
