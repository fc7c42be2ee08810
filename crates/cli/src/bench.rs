//! `ferry bench`: the crate ferry-bench on the machine that the options say.

use std::process::ExitCode;

use ferry_abi::Result;

use crate::machine::Machine;

/// Options of `ferry bench`.
#[derive(clap::Args)]
#[command(
    after_help = "Example: ferry bench -t h2d --peers --report report.html; then open report.html.\n\n\
Ratios say how many times as fast as the peer ferry was: 2.00x is half the time.\n\
Exit code: 0 when everything was measured and right, 1 when a case failed or a byte differed."
)]
pub struct BenchArgs {
    #[command(flatten)]
    machine: Machine,
    #[command(flatten)]
    options: ferry_bench::BenchOptions,
}

/// Measures, and prints as asked.
pub fn main(args: &BenchArgs) -> Result<ExitCode> {
    // SAFETY: the command has started no thread yet.
    unsafe { args.machine.export() };
    ferry_bench::main(&args.options)
}
