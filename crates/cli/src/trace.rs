//! `ferry trace -- prog args`: what the program's copies did, as a page to look at and a file for other
//! viewers.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::{self, ExitCode},
};

use ferry::watching::alone::{self, TraceReader};
use ferry_terminal::tell;
use ferry_watch::{
    buffers::Wanted,
    trace::{TraceLimits, TraceSummary},
};

use crate::{
    machine::ProgramMachine,
    output::OutputFolder,
    run,
    watched::{Watched, WatchedRun},
};

/// Options of `ferry trace`.
#[derive(clap::Args)]
#[command(override_usage = "ferry trace [OPTIONS] -- PROGRAM [ARGUMENTS]...")]
#[command(
    after_help = "Example: ferry trace -o trace -- ./prog; then open trace/index.html in a browser, or\n\
trace/msprof_*.json in MindStudio Insight, Perfetto or chrome://tracing.\n\n\
Exit code: the program's own, as of ferry run; 1 when it succeeded and the trace cannot be written."
)]
pub struct TraceArgs {
    /// The folder that gets the trace [ferry-trace.PID]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// How many ops the trace has at most; what comes later is counted
    #[arg(long, value_name = "N", default_value_t = TraceLimits::default().ops)]
    limit: usize,
    /// Keep the whole stack of every call, which costs the program about a microsecond for each
    #[arg(long)]
    stacks: bool,
    /// Make the trace of a file of facts, which a program left that was traced by FERRY_TRACE and killed
    #[arg(long, value_name = "FACTS", conflicts_with = "command")]
    from: Option<PathBuf>,
    #[command(flatten)]
    machine: ProgramMachine,
    /// The program and its arguments
    #[arg(required_unless_present = "from", trailing_var_arg = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// Runs the program, and writes the trace.
pub fn main(args: &TraceArgs) -> ExitCode {
    let limits = TraceLimits { ops: args.limit, others: args.limit.saturating_mul(2) };
    if let Some(facts) = &args.from {
        return of_file(args, facts, limits);
    }
    let path = args.output.clone();
    let path = path.unwrap_or_else(|| PathBuf::from(format!("ferry-trace.{}", process::id())));
    let folder = match OutputFolder::open(&path) {
        Ok(folder) => folder,
        Err(error) => return run::not_started("trace", run::unwritable(&path, &error)),
    };
    let mut reader = TraceReader::new(limits);
    let watch = WatchedRun {
        name: "trace",
        machine: &args.machine,
        command: &args.command,
        wanted: Wanted { stacks: args.stacks, ..Wanted::default() },
        more: &[],
    };
    match watch.run(&mut reader) {
        Ok(watched) => ExitCode::from(write(&path, reader, &watched)),
        Err(failure) => {
            folder.give_up();
            run::not_started("trace", failure)
        }
    }
}

/// Makes the trace of facts that are in a file.
fn of_file(args: &TraceArgs, facts: &Path, limits: TraceLimits) -> ExitCode {
    let here = facts.parent().map(Path::to_owned).unwrap_or_default();
    match alone::trace(facts, args.output.as_ref().unwrap_or(&here), limits) {
        Ok(summary) => {
            tell(&told(&summary, 0));
            ExitCode::SUCCESS
        }
        Err(error) => {
            tell(&format!("ferry trace: {}: {error}\n", facts.display()));
            ExitCode::FAILURE
        }
    }
}

/// Writes the trace and says where it is; the exit code stays the program's unless that cannot be done.
fn write(folder: &Path, reader: TraceReader, watched: &Watched) -> u8 {
    match reader.write(folder) {
        Ok(summary) => {
            tell(&told(&summary, watched.lost));
            watched.code
        }
        Err(error) => {
            tell(&format!("ferry trace: {}: {error}\n", folder.display()));
            if watched.code == 0 { 1 } else { watched.code }
        }
    }
}

fn told(summary: &TraceSummary, lost: u64) -> String {
    let TraceSummary { page, json, ops, calls, streams, left_out, .. } = summary;
    let mut text = format!(
        "ferry trace: {ops} ops of {streams} streams, {calls} calls: {}, {}\n",
        page.display(),
        json.display()
    );
    if left_out.ops > 0 {
        text += &format!("ferry trace: {} ops came later and are not in it (--limit)\n", left_out.ops);
    }
    let lost = lost.max(left_out.facts);
    if lost > 0 {
        text += &format!("ferry trace: {lost} facts were lost, because the buffers were full\n");
    }
    text
}
