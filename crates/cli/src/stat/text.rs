//! Statistics as a person reads them: a table of what moved, what failed an assertion, advice.
//!
//! All of it goes to standard error: standard output is the program's.

use ferry_terminal::{Colour, Terminal, bytes, figures, time};
use ferry_watch::stat::advice::CopyAdvice;
use ferry_watch::stat::{
    Assertion, Contribution, Counter, Dimension, Failure, Report, TrafficClass, TrafficCounts,
};

/// Calls that are named for one comparison that does not hold.
const NAMED_CALLS: usize = 10;
/// Frames above a call that are shown.
const SHOWN_FRAMES: usize = 4;

/// What moved, and what callers waited for.
pub fn summary(report: &Report) -> Vec<String> {
    let run = &report.run;
    if run.processes == 0 {
        return vec!["the program did not use the library".to_owned()];
    }
    let mut lines = vec![format!(
        "{}, {}, {}",
        counted(run.processes, "process", "processes"),
        counted(run.streams, "stream", "streams"),
        time(run.elapsed())
    )];
    lines.extend(table(report));
    lines.extend(waits(report));
    lines.extend(trouble(report));
    lines
}

fn table(report: &Report) -> Vec<String> {
    let mut rows = report.total.traffic().to_vec();
    rows.sort_by_key(|(class, _)| *class);
    let heads = ["kind", "route", "size", "calls", "bytes", "GB/s", "ran", "blocked"];
    let mut cells = vec![heads.map(str::to_owned)];
    cells.extend(rows.iter().map(|(class, traffic)| row(class, traffic)));
    if rows.len() > 1 {
        let all = figures_of(&report.total.traffic_of(|_| true));
        let [calls, bytes, rate, ran, blocked] = all;
        cells.push(["all".into(), String::new(), String::new(), calls, bytes, rate, ran, blocked]);
    }
    if rows.is_empty() {
        return vec!["nothing moved".to_owned()];
    }
    aligned(&cells)
}

fn row(class: &TrafficClass, traffic: &TrafficCounts) -> [String; 8] {
    let [calls, bytes, rate, ran, blocked] = figures_of(traffic);
    let route = class.route.map_or("", |route| route.title());
    let [kind, route, size] = [class.kind.title(), route, class.size.title()].map(str::to_owned);
    [kind, route, size, calls, bytes, rate, ran, blocked]
}

fn figures_of(traffic: &TrafficCounts) -> [String; 5] {
    let moved = bytes(traffic.bytes as usize);
    let rate = if traffic.time == 0 { "-".to_owned() } else { figures(traffic.rate()) };
    [traffic.calls.to_string(), moved, rate, time(traffic.time), time(traffic.blocked)]
}

/// Columns below each other: words to the left, figures to the right.
fn aligned(cells: &[[String; 8]]) -> Vec<String> {
    const WORDS: usize = 3;
    let width = |column: usize| cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..8).map(width).collect();
    let line = |row: &[String; 8]| {
        let cell = |(column, text): (usize, &String)| match column < WORDS {
            true => format!("{text:<0$}", widths[column]),
            false => format!("{text:>0$}", widths[column]),
        };
        row.iter().enumerate().map(cell).collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    cells.iter().map(line).collect()
}

fn waits(report: &Report) -> Vec<String> {
    let (run, total) = (&report.run, &report.total);
    let syncs = counted(total.counter(Counter::Syncs), "synchronisation", "synchronisations");
    let copies = total.traffic_of(|_| true).blocked;
    vec![
        format!(
            "blocked      {}: {} in {syncs}, {} in copies, {} in other calls",
            time(total.blocked()),
            time(total.counter(Counter::SyncBlocked)),
            time(copies),
            time(total.counter(Counter::OtherBlocked)),
        ),
        format!("queue depth  {} ops on average", figures(run.mean_queue_depth)),
        format!(
            "overlap      {} % of the {} in which bytes moved",
            figures(run.overlap() * 100.0),
            time(run.busy.any)
        ),
    ]
}

/// What did not go as it should, if anything did.
fn trouble(report: &Report) -> Vec<String> {
    let of = |counter: Counter, one: &str, many: &str| {
        let count = report.total.counter(counter);
        (count > 0).then(|| counted(count, one, many))
    };
    let ops = [
        of(Counter::Failed, "op failed", "ops failed"),
        of(Counter::Dropped, "op was dropped", "ops were dropped"),
        of(Counter::Unfinished, "op was not seen to pass", "ops were not seen to pass"),
        of(Counter::Refused, "op was refused", "ops were refused"),
        of(Counter::FailedCalls, "call answered with an error", "calls answered with an error"),
    ];
    let ops: Vec<String> = ops.into_iter().flatten().collect();
    let mut lines = Vec::new();
    if !ops.is_empty() {
        lines.push(format!("trouble      {}", ops.join(", ")));
    }
    if report.run.lost > 0 {
        lines.push(format!("lost         {} facts: the figures above are too low", report.run.lost));
    }
    lines
}

/// What to know about assertions if facts were lost.
pub fn uncertain(report: &Report) -> Option<String> {
    let text = "assertions were checked on figures that are too low; add `lost_facts == 0` to fail then";
    (report.run.lost > 0).then(|| text.to_owned())
}

/// Why an assertion does not hold.
pub fn failed(assertion: &Assertion, failures: &[Failure], terminal: &Terminal) -> Vec<String> {
    let head = terminal.paint(Colour::Bad, "assertion failed");
    let mut lines = vec![format!("{head}: {}", assertion.text())];
    for failure in failures {
        let is = |(name, value, of): &(String, f64, Dimension)| format!("{name} is {}", shown(*value, *of));
        let mut values: Vec<String> = failure.values.iter().map(is).collect();
        values.extend(failure.trouble.clone());
        lines.push(format!("  {}: {}", failure.text, values.join(", ")));
        lines.extend(failure.calls.iter().take(NAMED_CALLS).flat_map(call));
        let more = failure.calls.len().saturating_sub(NAMED_CALLS);
        if more > 0 {
            lines.push(format!("    and {}", counted(more as u64, "call more", "calls more")));
        }
    }
    lines
}

fn call(call: &Contribution) -> Vec<String> {
    let part = |(name, value, of): &(String, f64, Dimension)| format!("{name} {}", shown(*value, *of));
    let parts: Vec<String> = call.parts.iter().map(part).collect();
    let mut lines = vec![format!("    {}: {}", near(&call.site.name.text()), parts.join(", "))];
    let frames = call.site.name.frames.iter().take(SHOWN_FRAMES);
    lines.extend(frames.map(|frame| format!("      from {}", near(&frame.to_string()))));
    lines
}

/// What would save time.
pub fn advice(all: &[CopyAdvice], terminal: &Terminal) -> Vec<String> {
    if all.is_empty() {
        return vec![format!("{}: none of the patterns that cost time was seen", heading(terminal))];
    }
    all.iter().flat_map(|advice| one_advice(advice, terminal)).collect()
}

fn one_advice(advice: &CopyAdvice, terminal: &Terminal) -> Vec<String> {
    let stakes = [counted(advice.copies, "copy", "copies"), bytes(advice.bytes as usize), time(advice.time)];
    let mut lines = vec![
        format!("{}: {} [{}]", heading(terminal), advice.rule.title(), advice.rule.id()),
        format!("  {}", near(&advice.call.text())),
    ];
    lines.extend(advice.other.as_ref().map(|other| format!("  with {}", near(&other.text()))));
    let frames = advice.call.frames.iter().take(SHOWN_FRAMES);
    lines.extend(frames.map(|frame| format!("    from {}", near(&frame.to_string()))));
    lines.push(format!("  at stake: {}", stakes.join(", ")));
    if !advice.detail.is_empty() {
        lines.push(format!("  {}", advice.detail));
    }
    lines.push(format!("  {}", advice.rule.remedy()));
    lines
}

fn heading(terminal: &Terminal) -> String {
    terminal.paint(Colour::Unsure, "advice")
}

/// A place, with the path of its file from here on if it lies below.
fn near(text: &str) -> String {
    let here = std::env::current_dir().ok();
    let here = here.as_ref().and_then(|here| here.to_str()).filter(|here| *here != "/");
    let below = here.and_then(|here| text.strip_prefix(here)?.strip_prefix('/'));
    below.unwrap_or(text).to_owned()
}

fn shown(value: f64, of: Dimension) -> String {
    match of {
        Dimension::BYTES if value >= 1000.0 => format!("{} ({value} bytes)", bytes(value as usize)),
        Dimension::BYTES => format!("{value} bytes"),
        Dimension::TIME => time(value as u64),
        Dimension::RATE => format!("{} GB/s", figures(value)),
        _ if value.fract() == 0.0 => format!("{value}"),
        _ => figures(value),
    }
}

fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_below_each_other() {
        let row = |kind: &str, calls: &str| {
            let mut row: [String; 8] = Default::default();
            (row[0], row[3]) = (kind.to_owned(), calls.to_owned());
            row
        };
        let lines = aligned(&[row("kind", "calls"), row("fill", "7"), row("host to device", "1234567")]);
        let ends: Vec<usize> = lines.iter().map(|line| line.chars().count()).collect();
        assert!(ends.iter().all(|end| *end == ends[0]), "{lines:#?}");
        assert!(lines.iter().all(|line| !line.starts_with(' ')), "{lines:#?}");
    }

    #[test]
    fn values_have_the_units_that_assertions_take() {
        for (value, of, want) in [
            (0.0, Dimension::BYTES, "0 bytes"),
            (7168.0, Dimension::BYTES, "7.00 KiB (7168 bytes)"),
            (1.5e6, Dimension::TIME, "1.50 ms"),
            (12.25, Dimension::RATE, "12.2 GB/s"),
            (2.0, Dimension::NUMBER, "2"),
            (0.254, Dimension::NUMBER, "0.25"),
        ] {
            assert_eq!(shown(value, of), want);
        }
    }

    #[test]
    fn a_run_without_copies_is_told_in_a_few_lines() {
        let mut report = Report::default();
        assert_eq!(summary(&report), ["the program did not use the library"]);
        report.run.processes = 1;
        let lines = summary(&report);
        assert!(lines.contains(&"nothing moved".to_owned()), "{lines:#?}");
        assert!(!lines.iter().any(|line| line.contains("trouble") || line.contains("lost")), "{lines:#?}");
        assert_eq!(uncertain(&report), None);
        report.run.lost = 5;
        assert!(summary(&report).iter().any(|line| line.contains("5 facts")));
        assert!(uncertain(&report).is_some());
    }
}
