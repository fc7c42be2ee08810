//! `ferry diff A B`: what changed in the pattern of copies between two recordings.

use std::{path::PathBuf, process::ExitCode};

use ferry_abi::Result;
use ferry_terminal::put;
use ferry_watch::recording::diff;

use crate::replay::load;

/// Options of `ferry diff`.
#[derive(clap::Args)]
#[command(after_help = "Example: ferry diff before.rec after.rec\n\n\
Compared are counts and bytes by kind, memory, size and call site, and the order of ops in each stream;\n\
times, contents and the interleaving of streams and threads are not.\n\
Exit code: 0 when the patterns are the same, 1 when not, or when a file cannot be read.")]
pub struct DiffArgs {
    /// The recording to compare with
    before: PathBuf,
    /// The recording that may have changed
    after: PathBuf,
    /// Do not compare from where something was called, as for another build of the program
    #[arg(long)]
    no_sites: bool,
}

/// Compares, and prints what changed.
pub fn main(args: &DiffArgs) -> Result<ExitCode> {
    let (before, is_cut) = load(&args.before)?;
    let (after, is_also_cut) = load(&args.after)?;
    let changes = diff(&before, &after, !args.no_sites);
    changes.iter().for_each(|change| put(&format!("{change}\n")));
    let is_same = changes.is_empty() && !is_cut && !is_also_cut;
    Ok(if is_same { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
