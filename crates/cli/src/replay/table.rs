//! What a replay says.

use std::{collections::BTreeMap, fmt::Write, time::Duration};

use ferry::replay::{Replay, ReplayReport};
use ferry_terminal::{bytes, time};
use ferry_watch::recording::{RecordedWork, ReplayLimits, StepAction};

/// How many ops with another hash than the recorded one are named.
const SHOWN_HASHES: usize = 20;

/// What ops of one kind took.
#[derive(Default)]
struct OpTotals {
    ops: u64,
    bytes: u64,
    recorded: u64,
    replayed: u64,
}

/// Times of the recording beside those of the replay.
pub fn comparison(replay: &Replay, report: &ReplayReport, backend: &str) -> String {
    let recording = &replay.recording;
    let was = recording.processes.iter().map(|process| process.backend.as_str()).next().unwrap_or("?");
    let mut text = String::new();
    for process in &recording.processes {
        let _ = writeln!(text, "{}", process.command);
    }
    let _ = writeln!(
        text,
        "{} ops of {} streams, {} threads, {} allocations; recorded on {was}, replayed on {backend}",
        recording.ops.len(),
        recording.streams.len(),
        recording.threads.len(),
        recording.allocations.len(),
    );
    let row = |text: &mut String, cells: [&str; 6]| {
        let [kind, route, ops, bytes, recorded, replayed] = cells;
        let line = format!("{kind:<11}{route:<26}{ops:>8}{bytes:>12}{recorded:>12}{replayed:>12}");
        let _ = writeln!(text, "{}", line.trim_end());
    };
    row(&mut text, ["", "", "ops", "bytes", "recorded", "replayed"]);
    for ((kind, route), totals) in totals(replay, report) {
        let (ops, moved) = (totals.ops.to_string(), bytes(totals.bytes as usize));
        row(&mut text, [kind, &route, &ops, &moved, &time(totals.recorded), &time(totals.replayed)]);
    }
    let (submitting, blocked) = recorded_calls(replay);
    let of = |duration: Duration| time(duration.as_nanos() as u64);
    row(&mut text, ["submitting", "", "", "", &time(submitting), &of(report.submitting)]);
    row(&mut text, ["blocked", "", "", "", &time(blocked), &of(report.blocked)]);
    row(&mut text, ["first to", "last", "", "", &time(recording.duration()), &of(report.wall)]);
    text
}

fn totals(replay: &Replay, report: &ReplayReport) -> BTreeMap<(&'static str, String), OpTotals> {
    let mut all: BTreeMap<_, OpTotals> = BTreeMap::new();
    for (op, ran) in replay.recording.ops.iter().zip(&report.ran) {
        if matches!(op.work, RecordedWork::Nothing | RecordedWork::Mark) {
            continue;
        }
        let route = op.work.route().map(|route| route.to_string()).unwrap_or_default();
        let totals = all.entry((op.work.kind(), route)).or_default();
        totals.ops += 1;
        totals.bytes += op.work.bytes();
        totals.recorded += op
            .result
            .filter(|result| result.begin > 0)
            .map_or(0, |result| result.end.saturating_sub(result.begin) / u64::from(result.together.max(1)));
        totals.replayed += ran.map_or(0, |ran| ran.as_nanos() as u64);
    }
    all
}

/// How long the program was in calls that submit, and in calls that wait.
fn recorded_calls(replay: &Replay) -> (u64, u64) {
    let mut sums = (0, 0);
    let mut newest = vec![0; replay.recording.threads.len()];
    for step in &replay.recording.steps {
        // Calls may do several steps.
        let newest = &mut newest[step.thread as usize];
        let took = step.time.saturating_sub(step.begin.max(*newest));
        *newest = step.time.max(*newest);
        match step.action {
            StepAction::Submit(_) => sums.0 += took,
            StepAction::Join { .. } => sums.1 += took,
            _ => {}
        }
    }
    sums
}

/// What a replay does otherwise than the program.
pub fn remarks(limits: &ReplayLimits) -> String {
    let mut text = String::new();
    for (what, count) in &limits.remarks {
        let _ = writeln!(text, "not as in the program: {what} ({count})");
    }
    text
}

/// What came of the comparisons.
pub fn checks(replay: &Replay, report: &ReplayReport) -> String {
    let (compared, written) = (report.compared, replay.flow.written);
    let mut text = format!("checked {compared} of {written} bytes written");
    let _ = match report.mismatched {
        0 => writeln!(text, ": all are as the data flow predicts"),
        count => writeln!(text, ": {count} parts are not as the data flow predicts"),
    };
    if compared < written && report.mismatched == 0 {
        let _ = writeln!(text, "the others depend on races, or on sums of floats, and are not predicted");
    }
    if report.hashed > 0 {
        let wrong = report.wrong_hashes.len();
        let _ = writeln!(text, "{} ops have recorded contents: {wrong} left another hash", report.hashed);
    }
    for op in report.wrong_hashes.iter().take(SHOWN_HASHES) {
        let op = &replay.recording.ops[*op];
        let (ticket, stream, kind) = (op.point.ticket, op.point.stream, op.work.kind());
        let _ = writeln!(text, "  op {ticket} of stream {stream} ({kind}): the program got other bytes");
    }
    for mismatch in &report.mismatches {
        let op = &replay.recording.ops[mismatch.op];
        let _ = writeln!(
            text,
            "  op {} of stream {} ({}): byte {} of allocation {} is {:#04x} and should be {:#04x}",
            op.point.ticket,
            op.point.stream,
            op.work.kind(),
            mismatch.offset,
            mismatch.allocation,
            mismatch.found,
            mismatch.expected
        );
    }
    text
}
