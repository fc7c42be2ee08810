//! `ferry record -o FILE -- prog args`: what the program's copies did, in a file that can be replayed.

use std::{
    ffi::OsString,
    io::{self, BufWriter},
    path::PathBuf,
    process::ExitCode,
};

use ferry_terminal::{bytes, tell};
use ferry_watch::{buffers::Wanted, recording::Recorder};

use crate::{
    machine::ProgramMachine,
    output::OutputFile,
    run,
    watched::{Watched, WatchedRun},
};

/// Options of `ferry record`.
#[derive(clap::Args)]
#[command(override_usage = "ferry record -o FILE [OPTIONS] -- PROGRAM [ARGUMENTS]...")]
#[command(
    after_help = "Example: ferry record -o step.rec -- python train.py; ferry replay step.rec does its \
copies\n\
again, without the program. The file has no addresses, and no data unless --contents is given.\n\n\
Exit code: the program's own, as of ferry run; 1 when it succeeded and the file cannot be written."
)]
pub struct RecordArgs {
    /// The file that gets the recording
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Keep the bytes that are copied, and not only hashes of them
    #[arg(long)]
    contents: bool,
    #[command(flatten)]
    machine: ProgramMachine,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// Runs the program, and writes the recording.
pub fn main(args: &RecordArgs) -> ExitCode {
    let unwritable = |error: io::Error| {
        tell(&format!("ferry record: {}: {error}\n", args.output.display()));
        ExitCode::FAILURE
    };
    let file = OutputFile::open(&args.output).and_then(|file| Recorder::new(BufWriter::new(file)));
    let mut recorder = match file {
        Ok(recorder) => recorder,
        Err(error) => return run::not_started("record", run::unwritable(&args.output, &error)),
    };
    let watch = WatchedRun {
        name: "record",
        machine: &args.machine,
        command: &args.command,
        wanted: Wanted { pieces: true, hashes: true, bytes: args.contents, ..Wanted::default() },
        more: &[],
    };
    let watched = watch.run(&mut recorder);
    if let Err(failure) = watched {
        // Nothing has left the buffer.
        recorder.give_up().into_iter().for_each(|file| file.into_parts().0.give_up());
        return run::not_started("record", failure);
    }
    let written = recorder.finish().and_then(|file| file.into_inner()?.len());
    match (watched, written) {
        (Err(failure), _) => run::not_started("record", failure),
        (Ok(Watched { code: 0, .. }), Err(error)) => unwritable(error),
        (Ok(Watched { code, .. }), Err(error)) => {
            unwritable(error);
            ExitCode::from(code)
        }
        (Ok(Watched { code, lost, .. }), Ok(len)) => {
            tell(&format!("ferry record: {}: {}\n", args.output.display(), bytes(len as usize)));
            if lost > 0 {
                tell(&format!("ferry record: {lost} facts were lost, because the buffers were full\n"));
            }
            ExitCode::from(code)
        }
    }
}
