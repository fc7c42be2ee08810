//! `ferry bench --checked`: what `ferry check` costs. The command runs itself again, plain and under the
//! checker in turn, so that whatever disturbs the machine disturbs both, and compares the medians.

use std::env;
use std::process::{Command, ExitCode};

use ferry_abi::{Error, Result};
use ferry_terminal::{Terminal, bytes, figures, put};
use serde_json::{Value, json};

use crate::BenchOptions;

/// How often both are run.
const ROUNDS: usize = 9;
/// Over how much memory the pieces of a batch lie: a process that begins with a gigabyte takes long.
const SPREAD: &str = "64M";

/// The cases that it is measured by, unless others are named.
const CASES: [&str; 10] = [
    "h2d/contiguous/4K",
    "h2d/contiguous/64K",
    "h2d/contiguous/256K",
    "h2d/contiguous/1M",
    "h2d/contiguous/16M",
    "h2d/batch/4096x4K",
    "used/write/64K",
    "used/read/64K",
    "used/write/1M",
    "compute",
];

/// What all runs of one kind have told.
#[derive(Default)]
struct RunReports {
    reports: Vec<Value>,
}

impl RunReports {
    /// The median of the runs' medians, in microseconds.
    fn micros(&self, case: &str) -> Option<f64> {
        let rows = self.reports.iter().filter_map(|report| report["rows"].as_array()).flatten();
        let of_case = rows.filter(|row| row["name"] == case);
        median(of_case.filter_map(|row| row["ferry"]["median_us"].as_f64()).collect())
    }

    fn memory(&self, whose: &str) -> Option<f64> {
        median(self.reports.iter().filter_map(|report| report["memory"][whose].as_f64()).collect())
    }
}

/// Measures, and prints as asked.
pub fn main(options: &BenchOptions) -> Result<ExitCode> {
    let cases: Vec<String> = match options.tests.is_empty() {
        true => CASES.map(str::to_owned).to_vec(),
        false => options.tests.clone(),
    };
    let (mut plain, mut checked) = (RunReports::default(), RunReports::default());
    for round in 0..ROUNDS {
        Terminal::stderr().show(&format!("round {} of {ROUNDS}", round + 1));
        plain.reports.push(run(&cases, options, false)?);
        checked.reports.push(run(&cases, options, true)?);
    }
    Terminal::stderr().show("");
    let names = plain.reports[0]["rows"].as_array().into_iter().flatten();
    let rows: Vec<Value> =
        names.filter_map(|row| compared(row["name"].as_str()?, &plain, &checked)).collect();
    let memory = json!({
        "plain": plain.memory("program"),
        "checked": checked.memory("program"),
        "command": checked.memory("command"),
    });
    put(&match options.json {
        true => format!("{:#}\n", json!({ "rounds": ROUNDS, "rows": rows, "memory": memory })),
        false => table(&rows, &memory),
    });
    Ok(ExitCode::SUCCESS)
}

fn compared(name: &str, plain: &RunReports, checked: &RunReports) -> Option<Value> {
    let (plain, checked) = (plain.micros(name)?, checked.micros(name)?);
    let (more, ratio) = (checked - plain, checked / plain.max(1e-6));
    Some(json!({ "name": name, "plain_us": plain, "checked_us": checked, "more_us": more, "ratio": ratio }))
}

fn table(rows: &[Value], memory: &Value) -> String {
    let mut text = format!("{:<24}{:>12}{:>12}{:>12}{:>9}\n", "us", "plain", "checked", "more", "ratio");
    for row in rows {
        let of = |key: &str| row[key].as_f64().unwrap_or_default();
        let [plain, checked] = ["plain_us", "checked_us"].map(|key| figures(of(key)));
        let (name, more) = (row["name"].as_str().unwrap_or_default(), of("more_us"));
        let ratio = of("ratio");
        text += &format!("{name:<24}{plain:>12}{checked:>12}{more:>12.2}{ratio:>8.2}x\n");
    }
    let of = |key: &str| bytes(memory[key].as_f64().unwrap_or_default() as usize);
    let (plain, checked, command) = (of("plain"), of("checked"), of("command"));
    text + &format!("memory: {plain} plain, {checked} checked; ferry check itself {command} at most\n")
}

/// Runs the cases in a process of their own. What they print is JSON.
fn run(cases: &[String], options: &BenchOptions, is_checked: bool) -> Result<Value> {
    let ferry = env::current_exe().map_err(|error| Error::Setup(format!("this program: {error}")))?;
    let mut command = Command::new(&ferry);
    if is_checked {
        command.args(["check", "--"]).arg(&ferry);
    }
    command.args(["bench", "--json", "--no-verify", "--spread", SPREAD]);
    command.args(["-i", &options.samples.to_string()]);
    command.args(cases.iter().flat_map(|case| ["-t", case]));
    let done = command.output().map_err(|error| Error::Setup(format!("{}: {error}", ferry.display())))?;
    let said = || String::from_utf8_lossy(&done.stderr).trim().to_owned();
    match serde_json::from_slice(&done.stdout) {
        Ok(report) if done.status.success() => Ok(report),
        _ => Err(Error::Setup(format!("{command:?} ended with {}: {}", done.status, said()))),
    }
}

fn median(mut all: Vec<f64>) -> Option<f64> {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied()
}

/// The memory of this process, each page once however often it is mapped, and the most that the checker which
/// started it has had.
pub fn memory() -> Value {
    let number = |path: &str, key: &str| {
        let text = std::fs::read_to_string(path).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kib| kib << 10)
    };
    let is_watched = env::var_os("FERRY_WATCH").is_some();
    let parent = std::os::unix::process::parent_id();
    let command = is_watched.then(|| number(&format!("/proc/{parent}/status"), "VmHWM:")).flatten();
    json!({ "program": number("/proc/self/smaps_rollup", "Pss:"), "command": command })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(medians: &[f64]) -> RunReports {
        let failed = || json!({ "name": "b", "failed": "why" });
        let report = |us: &f64| json!({ "rows": [{ "name": "a", "ferry": { "median_us": us } }, failed()] });
        RunReports { reports: medians.iter().map(report).collect() }
    }

    #[test]
    fn medians_of_runs_are_compared_and_what_failed_is_left_out() {
        let (plain, checked) = (runs(&[2.0, 1.0, 9.0]), runs(&[3.0, 8.0, 1.0]));
        let row = compared("a", &plain, &checked).expect("both have it");
        assert_eq!((row["plain_us"].as_f64(), row["checked_us"].as_f64()), (Some(2.0), Some(3.0)));
        assert_eq!((row["more_us"].as_f64(), row["ratio"].as_f64()), (Some(1.0), Some(1.5)));
        assert!(compared("b", &plain, &checked).is_none());
    }
}
