//! `ferry trace -- prog args`: what the program's copies did, as a page to look at and a file for other
//! viewers.

use std::{
    ffi::OsString,
    path::PathBuf,
    process::{self, ExitCode},
};

use ferry_terminal::tell;
use ferry_watch::{
    Fact, FactReader, FactSource,
    buffers::Wanted,
    symbols::Symbols,
    trace::{TraceLimits, TraceSummary, Tracer},
};

use crate::{
    machine::Machine,
    watched::{self, Watched, WatchedRun},
};

/// Options of `ferry trace`.
#[derive(clap::Args)]
#[command(override_usage = "ferry trace [OPTIONS] -- PROGRAM [ARGUMENTS]...")]
#[command(
    after_help = "Example: ferry trace -o trace -- ./prog; then open trace/index.html in a browser, or\n\
trace/msprof_*.json in MindStudio Insight, Perfetto or chrome://tracing.\n\n\
Exit code: the program's own, as of ferry run."
)]
pub struct TraceArgs {
    /// The folder that gets the trace [ferry-trace.PID]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// How many ops the trace has at most; what comes later is counted
    #[arg(long, value_name = "N", default_value_t = TraceLimits::default().ops)]
    limit: usize,
    #[command(flatten)]
    machine: Machine,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// The tracer, and what names its addresses.
struct TraceReader {
    tracer: Tracer,
    symbols: Symbols,
}

impl FactReader for TraceReader {
    fn take(&mut self, source: FactSource, fact: &Fact) {
        self.symbols.take(source, fact);
        self.tracer.take(source, fact);
    }
}

/// Runs the program, and writes the trace.
pub fn main(args: &TraceArgs) -> ExitCode {
    let limits = TraceLimits { ops: args.limit, others: args.limit.saturating_mul(2) };
    let mut reader = TraceReader { tracer: Tracer::new(limits), symbols: Symbols::default() };
    let watch = WatchedRun {
        name: "trace",
        machine: &args.machine,
        command: &args.command,
        wanted: Wanted::default(),
        buffer_bytes: watched::BUFFER_BYTES,
    };
    match watch.run(&mut reader) {
        Ok(watched) => ExitCode::from(write(args, reader, &watched)),
        Err((code, error)) => {
            tell(&format!("ferry trace: {error}\n"));
            ExitCode::from(code)
        }
    }
}

/// Writes the trace and says where it is; the exit code stays the program's unless that cannot be done.
fn write(args: &TraceArgs, mut reader: TraceReader, watched: &Watched) -> u8 {
    let folder = args.output.clone();
    let folder = folder.unwrap_or_else(|| PathBuf::from(format!("ferry-trace.{}", process::id())));
    let symbols = &mut reader.symbols;
    let mut name = |process, address| Some(symbols.place(process, address).to_string());
    match reader.tracer.write(&folder, &mut name) {
        Ok(summary) => {
            tell(&told(&summary, watched));
            watched.code
        }
        Err(error) => {
            tell(&format!("ferry trace: {}: {error}\n", folder.display()));
            if watched.code == 0 { 1 } else { watched.code }
        }
    }
}

fn told(summary: &TraceSummary, watched: &Watched) -> String {
    let TraceSummary { page, json, ops, calls, streams, left_out, .. } = summary;
    let mut text = format!(
        "ferry trace: {ops} ops of {streams} streams, {calls} calls: {}, {}\n",
        page.display(),
        json.display()
    );
    if left_out.ops > 0 {
        text += &format!("ferry trace: {} ops came later and are not in it (--limit)\n", left_out.ops);
    }
    if watched.lost > 0 {
        text += &format!("ferry trace: {} facts were lost, because the buffers were full\n", watched.lost);
    }
    text
}
