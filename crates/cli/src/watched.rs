//! Running a program with the library in front, watched: its facts go to a reader while it runs.
//!
//! The command makes a file in memory that has no name, and tells the program where it is
//! (`/proc/PID/fd/N` of the command). The program writes facts into it; a thread here reads them, so that
//! the file stays small however long the program runs. What the program wrote before it was killed is read
//! when it has ended.

use std::{
    ffi::OsString,
    fs::File,
    io,
    os::fd::{AsRawFd, FromRawFd},
    path::Path,
    process, thread,
    time::{Duration, Instant},
};

use ferry::watching;
use ferry_abi::Error;
use ferry_watch::{
    FactReader, FactSource,
    buffers::{Buffers, Wanted},
    collector::Collector,
};

use crate::{
    machine::ProgramMachine,
    run::{self, ProgramEnd, StartFailure},
};

/// Bytes of the file.
const BUFFER_BYTES: usize = 64 << 20;
/// How long facts are kept back so that their order is right; longer for a reader that judges by it.
const DELAY: Duration = Duration::from_millis(20);
const LONG_DELAY: Duration = Duration::from_millis(300);
/// How long the reading thread sleeps between two rounds.
const PAUSE: Duration = Duration::from_millis(3);
/// How often it looks for threads that have ended without a word.
const REVIEW: Duration = Duration::from_secs(1);

/// What to watch, and how.
pub struct WatchedRun<'a> {
    /// The command's own name, for messages.
    pub name: &'a str,
    /// The machine that the program is to find.
    pub machine: &'a ProgramMachine,
    /// The program and its arguments.
    pub command: &'a [OsString],
    /// What the reader wants to have.
    pub wanted: Wanted,
    /// Variables of its environment besides those of the machine.
    pub more: &'a [(&'a str, OsString)],
}

/// A program that was watched and has ended.
#[derive(Clone, Copy)]
pub struct Watched {
    /// Its exit code, or 128 and the signal that killed it.
    pub code: u8,
    /// How many facts were lost, because the buffers were full.
    pub lost: u64,
    /// The number of its process.
    pub process: u32,
    /// How it ended.
    pub end: ProgramEnd,
}

impl WatchedRun<'_> {
    /// Runs the program to its end, and has the reader take its facts. If it could not be run: the code to
    /// exit with, and why.
    pub fn run(&self, reader: &mut impl FactReader) -> Result<Watched, StartFailure> {
        self.run_with(reader, |pause, _, _| thread::sleep(pause))
    }

    /// The same, where `pause` takes the place of the sleep between two rounds of reading.
    pub fn run_with<R: FactReader>(
        &self,
        reader: &mut R,
        pause: impl FnMut(Duration, &mut Collector, &mut R),
    ) -> Result<Watched, StartFailure> {
        let setup = |error: io::Error| (125, Error::Setup(format!("no buffers for facts: {error}")));
        let file = memory_file().map_err(setup)?;
        let buffers = Buffers::create(&file, BUFFER_BYTES, self.wanted).map_err(setup)?;
        let path = format!("/proc/{}/fd/{}", process::id(), file.as_raw_fd());
        let delay = if self.wanted.complete { LONG_DELAY } else { DELAY };
        let mut collector = Collector::new(buffers).with_delay(delay.as_nanos() as u64);
        let mut more = self.more.to_vec();
        more.push((watching::VARIABLE, path.into()));
        let program = run::start(self.machine, self.command, &more)?;
        let process = program.process();
        let end = thread::scope(|scope| {
            // It has the signals blocked that it passes on, as this thread has.
            let waiting = scope.spawn(|| program.wait(self.name));
            read_while(|| !waiting.is_finished(), &mut collector, reader, pause);
            waiting.join().expect("waiting does not panic")
        })?;
        Ok(Watched { code: end.code, lost: collector.lost(), process, end })
    }
}

fn read_while<R: FactReader>(
    is_running: impl Fn() -> bool,
    collector: &mut Collector,
    reader: &mut R,
    mut pause: impl FnMut(Duration, &mut Collector, &mut R),
) {
    let mut reviewed = Instant::now();
    while is_running() {
        collector.poll(reader);
        if reviewed.elapsed() > REVIEW {
            reviewed = Instant::now();
            collector.close_those_of(|source| !lives(source));
        }
        pause(PAUSE, collector, reader);
    }
    collector.finish(reader);
}

/// Whether the thread is still there.
fn lives(FactSource { process, thread }: FactSource) -> bool {
    Path::new(&format!("/proc/{process}/task/{thread}")).exists()
}

/// A file without a name, which is gone when the last process that has it has ended.
fn memory_file() -> io::Result<File> {
    // SAFETY: the name is a C string.
    let file = unsafe { libc::memfd_create(c"ferry-facts".as_ptr(), libc::MFD_CLOEXEC) };
    if file < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor of ours.
    Ok(unsafe { File::from_raw_fd(file) })
}
