//! `ferry tour` and `ferry role`, by which it starts itself again: the crate ferry-tour on the machine that
//! the options say.

use std::process::ExitCode;

use ferry_abi::Result;

use crate::machine::Machine;

/// Options of `ferry tour`.
#[derive(clap::Args)]
#[command(after_help = "Exit code: 0 when every part is ok, 1 when one is not.\n\
The R, N and X numbers are those of docs/requirements.md.")]
pub struct TourArgs {
    #[command(flatten)]
    machine: Machine,
    #[command(flatten)]
    options: ferry_tour::TourOptions,
}

/// Runs the tour and prints its table.
pub fn main(args: &TourArgs) -> Result<ExitCode> {
    // SAFETY: the command has started no thread yet.
    unsafe { args.machine.export() };
    ferry_tour::main(&args.options)
}

/// Options of `ferry role`, which is not for people.
#[derive(clap::Args)]
pub struct RoleArgs {
    /// Which role
    role: String,
}

/// Plays a role, on the machine that the tour's environment says.
pub fn role(args: &RoleArgs) -> Result<ExitCode> {
    ferry_tour::play(&args.role)
}
