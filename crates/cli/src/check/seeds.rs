//! `--seeds N`: the program runs many times, each time in another random order of work.

use std::ffi::OsString;

use ferry_terminal::{Colour, Terminal};
use ferry_watch::check::{CheckFinding, FindingSeverity};

use super::{CheckArgs, CheckReader, run_once, suppressions::Suppressions};
use crate::run::StartFailure;
use crate::watched::Watched;

/// Seeds that are named.
const NAMED: usize = 20;

/// Runs the program with the seeds from 1 to `count`, in shuffled order unless another is asked for. Says
/// which of them failed; the answer is the first run that failed, or the last.
pub(super) fn run_all(
    args: &CheckArgs,
    count: u64,
    suppressions: &Suppressions,
    reader: &mut CheckReader,
) -> Result<Watched, StartFailure> {
    let terminal = Terminal::stderr();
    let mut failed: Vec<u64> = Vec::new();
    let mut first: Option<Watched> = None;
    let mut last = None;
    let (mut lost, mut done) = (0, 0);
    for seed in 1..=count {
        terminal.show(&format!("seed {seed} of {count}, {} failed", failed.len()));
        let before = errors(reader.checker.findings(), suppressions);
        let variable = |name, value: String| (name, OsString::from(value));
        let mut more = vec![variable("FERRY_SEED", seed.to_string())];
        if !args.machine.has_schedule() {
            more.push(variable("FERRY_SCHEDULE", "shuffle".to_owned()));
        }
        let watched = run_once(args, &more, reader)?;
        lost += watched.lost;
        if watched.code != 0 || errors(reader.checker.findings(), suppressions) > before {
            failed.push(seed);
            first = first.or(Some(watched));
        }
        (last, done) = (Some(watched), seed);
        if watched.end.is_asked_to_end {
            break;
        }
    }
    let (colour, line) = match failed.as_slice() {
        [] => (Colour::Good, format!("ferry check: {done} seeds, none failed")),
        _ => (Colour::Bad, told(&failed, done)),
    };
    terminal.say(&terminal.paint(colour, &line));
    if done < count {
        terminal.say(&format!("ferry check: stopped by a signal, {} seeds were not run", count - done));
    }
    let watched = first.or(last).expect("at least one seed");
    Ok(Watched { lost, ..watched })
}

/// How many errors there were so far that are not to be left out.
fn errors(findings: &[CheckFinding], suppressions: &Suppressions) -> u64 {
    let is_error =
        |finding: &&CheckFinding| finding.severity == FindingSeverity::Error && !suppressions.cover(finding);
    findings.iter().filter(is_error).map(|finding| finding.count).sum()
}

fn told(failed: &[u64], count: u64) -> String {
    let named: Vec<String> = failed.iter().take(NAMED).map(u64::to_string).collect();
    let more = if failed.len() > NAMED { ", ..." } else { "" };
    let named = named.join(", ");
    format!("ferry check: {} of {count} seeds failed: {named}{more} (--seed N repeats one)", failed.len())
}
