//! `ferry`: shows that the library works, what it runs on, and puts it in front of other programs.
//!
//! What shows the library (`tour`, `devices`, `bench`, `run`) knows nothing of the engine. It loads
//! libascendcl.so and calls the C functions, as a user's program does, so what it shows is what a program
//! gets. What copies memory for its own sake (`copy`, `replay`), and what only lists devices without using
//! them (`npu-smi`), uses the crate `ferry`, as a Rust program does. No process does both.

mod bench;
mod check;
mod copy;
mod devices;
mod diff;
mod doctor;
mod explain;
mod machine;
mod output;
mod pages;
mod prefix;
mod record;
mod replay;
mod run;
mod seeds;
mod smi;
mod stat;
mod tour;
mod trace;
mod watched;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use ferry_terminal::{self as terminal, tell};

/// Where the library is looked for.
const LIBRARY: &str = "\
The library is looked for in $FERRY_LIBRARY, then beside this command: deps/libascendcl.so,
libascendcl.so, ../lib64/libascendcl.so, ../lib/libascendcl.so.";

/// The variables of the library, in a line each.
const ENVIRONMENT: &str = "\
Environment of programs that use the library (share/doc/ferry/ENVIRONMENT.md has all, with values):
  FERRY_BACKEND        host or cuda: where devices come from
  FERRY_DEVICES        how many devices there are
  FERRY_DEVICE_MEMORY  memory of each device
  FERRY_DEVICE_SHARED  1: processes of one user share the memory of devices
  FERRY_SOC, FERRY_FORM, FERRY_CANN_VERSION
                       the product, its form, and the version that is told
  FERRY_STRICT         1: only what the documents say
  FERRY_QUIRKS         what real cards do against the documents: ids such as F1,F6, or all
  FERRY_SCHEDULE       late, early or shuffle: when work runs; FERRY_SEED for random choices
  FERRY_FAULT          what fails: rules such as copy#3=507013
  FERRY_BATCH_LIMIT, FERRY_LIMIT_STREAMS, FERRY_LIMIT_HOST_BYTES, FERRY_LIMIT_REGISTER_ALIGN
                       limits of batches, streams, page-locked memory and its alignment
  FERRY_TASK_GROUPS    copies: task groups of captured graphs take copies and fills
  FERRY_CUDA_BLOCKS, FERRY_CUDA_PLAN, FERRY_CUDA_STAGERS
                       how the cuda backend copies
  FERRY_VERBOSE, FERRY_FAULT_NOTE, FERRY_TORCH, FERRY_TRACE, FERRY_WATCH, FERRY_CHECK_SOCKET,
  FERRY_LIBRARY
                       what is printed, and which library this command uses
`ferry devices` shows what is set, `ferry doctor` what is wrong with it.";

/// Asynchronous memory copies of AscendCL on machines without an NPU.
///
/// Ferry is an independent implementation of AscendCL's copy runtime: a libascendcl.so that programs
/// link or load, and this command. Its devices are made of ordinary memory and threads, or are GPUs.
#[derive(Parser)]
#[command(verbatim_doc_comment, name = "ferry", version, arg_required_else_help = true)]
#[command(after_help = LIBRARY, after_long_help = format!("{LIBRARY}\n\n{ENVIRONMENT}"))]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Do everything the founding documents describe, and check every byte
    Tour(tour::TourArgs),
    /// Show the library, its backend and its devices
    Devices(devices::DevicesArgs),
    /// Answer as npu-smi does: devices, memory and processes, for programs that ask it
    #[command(name = "npu-smi")]
    NpuSmi(smi::SmiArgs),
    /// Send a file through device memory and back, and compare every byte
    Copy(copy::CopyArgs),
    /// Measure every kind of copy beside what else would move the bytes
    Bench(bench::BenchArgs),
    /// Say what a program will find here, what is in its way, and what helps
    Doctor(doctor::DoctorArgs),
    /// Say what an error code means, what causes it and what helps
    Explain(explain::ExplainArgs),
    /// Run a program with our library in front of any other libascendcl.so
    Run(run::RunArgs),
    /// Run a program and show what its copies did: a page, and a file for other viewers
    Trace(trace::TraceArgs),
    /// Run a program and print what its copies moved; fail if an assertion about that does not hold
    Stat(stat::StatArgs),
    /// Run a program and find memory that is touched while a copy in flight uses it
    Check(check::CheckArgs),
    /// Run a program and record what its copies do, in a file that can be replayed
    Record(record::RecordArgs),
    /// Do again what a recording says, and check what every copy delivers
    Replay(replay::ReplayArgs),
    /// Say what changed in the pattern of copies between two recordings
    Diff(diff::DiffArgs),
    /// A second process of the tour, which starts it
    #[command(hide = true)]
    Role(tour::RoleArgs),
    /// Write man pages and shell completions, for packages
    #[command(hide = true)]
    Pages(pages::PagesArgs),
}

fn main() -> ExitCode {
    let code = command();
    if let Some(why) = terminal::lost() {
        tell(&format!("ferry: what was printed is lost: standard output cannot be written: {why}\n"));
        return ExitCode::FAILURE;
    }
    code
}

fn command() -> ExitCode {
    if let Some(arguments) = smi::by_name() {
        return smi::run(&arguments);
    }
    let outcome = match parse() {
        Err(code) => return code,
        Ok(command) => run_command(command),
    };
    outcome.unwrap_or_else(|error| {
        tell(&format!("ferry: {error}\n"));
        ExitCode::FAILURE
    })
}

/// What is asked for; help and versions are printed here, and so is what makes no sense.
fn parse() -> Result<Command, ExitCode> {
    Cli::try_parse().map(|cli| cli.command).map_err(|text| {
        if text.use_stderr() {
            let _ = text.print();
        } else {
            terminal::put_by(|_| text.print());
        }
        ExitCode::from(text.exit_code() as u8)
    })
}

fn run_command(command: Command) -> ferry_abi::Result<ExitCode> {
    match command {
        Command::Tour(args) => tour::main(&args),
        Command::Devices(args) => devices::main(&args),
        Command::NpuSmi(args) => Ok(smi::main(&args)),
        Command::Copy(args) => copy::main(&args),
        Command::Bench(args) => bench::main(&args),
        Command::Doctor(args) => doctor::main(&args),
        Command::Explain(args) => explain::main(&args),
        Command::Run(args) => Ok(run::main(&args)),
        Command::Trace(args) => Ok(trace::main(&args)),
        Command::Stat(args) => Ok(stat::main(&args)),
        Command::Check(args) => Ok(check::main(&args)),
        Command::Record(args) => Ok(record::main(&args)),
        Command::Replay(args) => replay::main(&args),
        Command::Diff(args) => diff::main(&args),
        Command::Role(args) => tour::role(&args),
        Command::Pages(args) => pages::main(&args),
    }
}
