//! `ferry replay FILE`: does again what a recording says, and checks what every copy delivers.
//!
//! Two passes: one as the program did it, for times, and one with contents and comparisons, which take time
//! of their own. The engine runs in this process, as with `ferry copy`; what it does is in the crate `ferry`.
//! `table` says how it went.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use clap::ValueEnum;
use ferry::{
    Options,
    replay::{Replay, ReplayOptions, ReplayReport},
};
use ferry_abi::{Error, Result};
use ferry_terminal::{Terminal, put, tell};
use ferry_watch::recording::{Recording, read};

use crate::machine::Backend;

use table::{comparison, remarks};

mod table;

/// Options of `ferry replay`.
#[derive(clap::Args)]
#[command(after_help = "Example: ferry replay --backend cuda --pace recorded step.rec\n\n\
Exit code: 0 when every copy delivered what the data flow predicts, 1 when not, or when the file is\n\
damaged: then its good part is replayed.")]
pub struct ReplayArgs {
    /// The recording, which ferry record wrote
    file: PathBuf,
    /// Devices made of memory and threads, or GPUs [FERRY_BACKEND, else host]
    #[arg(long, value_enum, value_name = "host|cuda", hide_possible_values = true)]
    backend: Option<Backend>,
    /// As fast as it goes, or with the pauses of the program
    #[arg(long, value_enum, default_value = "fast", value_name = "fast|recorded")]
    #[arg(hide_possible_values = true)]
    pace: ReplayPace,
    /// Only replay for the times, without contents
    #[arg(long)]
    no_check: bool,
}

/// How fast a replay goes.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ReplayPace {
    /// As fast as it goes
    Fast,
    /// Steps begin when they began in the recording
    Recorded,
}

/// Replays, and tells how it went.
pub fn main(args: &ReplayArgs) -> Result<ExitCode> {
    let (recording, is_damaged) = load(&args.file)?;
    let mut options = Options::from_env().map_err(setup)?;
    options.backend = args.backend.map_or(options.backend, Into::into);
    let devices = recording.processes.iter().map(|process| process.devices as usize).max();
    if options.backend == ferry::BackendName::Host {
        options.devices =
            options.devices.or(used_devices(&recording).max(devices).filter(|count| *count > 0));
    }
    let backend = options.backend;
    let replay = Arc::new(Replay::new(recording));
    let mut pass = ReplayOptions { options, is_paced: args.pace == ReplayPace::Recorded, is_checked: false };
    let timed = replay.run(&pass).map_err(failed)?;
    put(&comparison(&replay, &timed, &backend.to_string()));
    put(&remarks(&replay.limits));
    let mut is_right = tell_failures(&timed);
    if !args.no_check {
        (pass.is_paced, pass.is_checked) = (false, true);
        let checked = replay.run(&pass).map_err(failed)?;
        put(&table::checks(&replay, &checked));
        is_right &= tell_failures(&checked) && checked.mismatched == 0 && checked.wrong_hashes.is_empty();
    }
    Ok(if is_right && !is_damaged { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Reads a recording, and whether its file is damaged, which is told.
pub fn load(file: &Path) -> Result<(Recording, bool)> {
    let unreadable = |why: String| Error::Setup(format!("{}: {why}", file.display()));
    let bytes = fs::read(file).map_err(|error| unreadable(error.to_string()))?;
    let loaded = read(&bytes).map_err(unreadable)?;
    if let Some(damage) = &loaded.damage {
        Terminal::stderr().say(&format!("ferry: {}: {damage}", file.display()));
    }
    Ok((loaded.recording, loaded.damage.is_some()))
}

/// The devices that streams and memory were on.
fn used_devices(recording: &Recording) -> Option<usize> {
    let streams = recording.streams.iter().map(|stream| stream.device);
    let memory = recording.allocations.iter().filter_map(|allocation| allocation.device);
    streams.chain(memory).max().map(|device| device as usize + 1)
}

fn tell_failures(report: &ReplayReport) -> bool {
    report.failures.iter().for_each(|failure| tell(&format!("ferry replay: {failure}\n")));
    report.failures.is_empty()
}

fn setup(error: ferry::Error) -> Error {
    Error::Setup(error.to_string())
}

fn failed(error: ferry::Error) -> Error {
    Error::Setup(format!("the replay ended early: {error}"))
}
