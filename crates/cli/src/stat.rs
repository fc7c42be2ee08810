//! `ferry stat -- prog args`: what the copies of a program came to, and whether that is as it should be.
//!
//! The program runs as under `ferry run` and is watched; its facts are counted while it runs
//! (`ferry_watch::stat`). Assertions are read before it starts, so that a misspelt name costs no run. What is
//! printed goes to standard error, since standard output is the program's.

mod json;
mod text;

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use ferry_terminal::{Colour, Terminal, tell};
use ferry_watch::buffers::Wanted;
use ferry_watch::stat::{Assertion, Failure, Report, Statistics};

use crate::machine::ProgramMachine;
use crate::output::OutputFile;
use crate::run;
use crate::watched::WatchedRun;

/// Options of `ferry stat`.
#[derive(clap::Args)]
#[command(override_usage = "ferry stat [OPTIONS] -- PROGRAM [ARGUMENTS]...")]
#[command(
    after_help = "Example: fail if a program copies from pageable memory, or synchronises more than twice:\n\
\x20 ferry stat --assert 'pageable_bytes == 0 && syncs <= 2' -- python train.py\n\
\n\
Names of statistics: elapsed, busy, overlap, mean_queue_depth, blocked, syncs, sync_blocked, call_time,\n\
batches, rectangles, launches, failed, ..., and [KIND_][ROUTE_][SIZE_]MEASURE, such as h2d_pageable_bytes:\n\
\x20 KIND     copy, h2d, d2h, d2d, h2h, fill, reduce\n\
\x20 ROUTE    pinned, pageable, within_device, between_devices\n\
\x20 SIZE     tiny (below 4 KiB), small (64 KiB), medium (1 MiB), large (16 MiB), huge\n\
\x20 MEASURE  calls, bytes, time, blocked, rate\n\
Units: B, KB, KiB, MB, MiB, GB, GiB, ns, us, ms, s, min, MB/s, GB/s, %.\n\
\n\
Exit code: the program's own, as `ferry run` has it; 1 when the program succeeded and an assertion does not\n\
hold; 2 when an assertion makes no sense, and then the program is not started."
)]
pub struct StatArgs {
    #[command(flatten)]
    machine: ProgramMachine,
    /// A condition on statistics that must hold; may be given several times
    #[arg(long = "assert", value_name = "EXPR", value_parser = Assertion::parse)]
    assertions: Vec<Assertion>,
    /// Also write the statistics to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also say which patterns of copies cost time, and where they are
    #[arg(long)]
    advice: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// Runs the program, prints what it moved, and answers with its exit code or with a failed assertion.
pub fn main(args: &StatArgs) -> ExitCode {
    let mut statistics = if args.advice { Statistics::with_advice() } else { Statistics::new() };
    let run = WatchedRun {
        name: "stat",
        machine: &args.machine,
        command: &args.command,
        // Stacks and hashes cost the program time: only advice needs them.
        wanted: Wanted { stacks: args.advice, hashes: args.advice, ..Wanted::default() },
        more: &[],
    };
    let file = match args.json.as_ref().map(|path| OutputFile::open(path).map_err(|error| (path, error))) {
        Some(Err((path, error))) => return run::not_started("stat", run::unwritable(path, &error)),
        Some(Ok(file)) => Some(file),
        None => None,
    };
    match run.run(&mut statistics) {
        Ok(watched) => {
            let mut report = statistics.report();
            report.run.lost = report.run.lost.max(watched.lost);
            ExitCode::from(finish(args, file, &report, watched.code))
        }
        Err(failure) => {
            file.into_iter().for_each(OutputFile::give_up);
            run::not_started("stat", failure)
        }
    }
}

/// Prints and writes what was counted. The answer is the exit code of the command.
fn finish(args: &StatArgs, file: Option<OutputFile>, report: &Report, code: u8) -> u8 {
    let verdicts: Vec<(&Assertion, Vec<Failure>)> =
        args.assertions.iter().map(|assertion| (assertion, assertion.check(report))).collect();
    print(args, report, &verdicts);
    let holds = verdicts.iter().all(|(_, failures)| failures.is_empty());
    let written = file.is_none_or(|file| write(file, &json::object(report, &verdicts, code)));
    if code == 0 && !(holds && written) { 1 } else { code }
}

fn print(args: &StatArgs, report: &Report, verdicts: &[(&Assertion, Vec<Failure>)]) {
    let terminal = Terminal::stderr();
    let mut summary = text::summary(report).into_iter();
    let first = summary.next().unwrap_or_default();
    terminal.say(&terminal.paint(Colour::Heading, &format!("ferry stat: {first}")));
    summary.for_each(|line| terminal.say(&line));
    if args.advice {
        text::advice(&report.advice, &terminal).iter().for_each(|line| terminal.say(line));
    }
    if !verdicts.is_empty() {
        text::uncertain(report).iter().for_each(|line| terminal.say(line));
    }
    for (assertion, failures) in verdicts.iter().filter(|(_, failures)| !failures.is_empty()) {
        text::failed(assertion, failures, &terminal).iter().for_each(|line| terminal.say(line));
    }
}

/// Whether the file could be written; if not, that has been said.
fn write(mut file: OutputFile, object: &serde_json::Value) -> bool {
    let written = file.write_all(format!("{object:#}\n").as_bytes());
    if let Err(error) = &written {
        tell(&format!("ferry stat: cannot write {}: {error}\n", file.path().display()));
    }
    written.is_ok()
}
