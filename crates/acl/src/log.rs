//! Logs, where and how the ASCEND_ variables want them.
//!
//! A line below the wanted level costs a comparison; one that cannot be written is lost, and no call fails
//! because of it. Nothing is logged for a call that succeeds, but for the start, the end and the choice of a
//! device. `settings.rs` reads the variables, `files.rs` writes and rotates the files, `time.rs` is the clock
//! of the lines. Nothing here knows the engine or the state of a thread: a forked child logs as well.

mod files;
mod settings;
mod time;

use ferry::engine::fork::ForkMark;
use ferry_core::sync::lock;
pub(crate) use files::print;
use settings::{EVENT, LogSettings};
use std::{
    panic::Location,
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicPtr, Ordering},
    },
};

/// How much a line matters; the numbers are documented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Details for developers.
    Debug = 0,
    /// Normal progress.
    Info = 1,
    /// Something unexpected that was dealt with.
    Warning = 2,
    /// A failure.
    Error = 3,
}

/// The source of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Module {
    /// The rules of the C functions.
    Ascendcl = 0,
    /// The engine below them.
    Runtime = 1,
    /// The program, by aclAppLog.
    App = 2,
}

impl Level {
    /// The level of this number.
    pub fn of(number: i32) -> Option<Level> {
        [Level::Debug, Level::Info, Level::Warning, Level::Error]
            .into_iter()
            .find(|level| *level as i32 == number)
    }

    fn name(self) -> &'static str {
        ["DEBUG", "INFO", "WARNING", "ERROR"][self as usize]
    }
}

impl Module {
    fn name(self) -> &'static str {
        ["ASCENDCL", "RUNTIME", "APP"][self as usize]
    }
}

/// Where a line was written.
#[derive(Clone, Copy)]
pub struct SourceLine<'a> {
    /// The source file.
    pub file: &'a str,
    /// The line in it.
    pub line: u32,
}

/// Whether lines like this are written.
pub fn enabled(module: Module, level: Level) -> bool {
    level as u8 >= log().levels[module as usize]
}

/// Writes what `text` returns, if such lines are written.
#[track_caller]
pub(crate) fn write(module: Module, level: Level, text: impl FnOnce() -> String) {
    if enabled(module, level) {
        write_from(module, level, here(), &text());
    }
}

/// Writes a line of another source; the caller has asked whether such lines are written.
pub fn write_from(module: Module, level: Level, place: SourceLine, text: &str) {
    put(LogFolder::Debug, level.name(), module, place, text);
}

/// Writes a line about the life of the process to the other folder of logs.
#[track_caller]
pub(crate) fn event(text: impl FnOnce() -> String) {
    if log().events {
        put(LogFolder::Run, EVENT, Module::Ascendcl, here(), &text());
    }
}

#[track_caller]
fn here() -> SourceLine<'static> {
    let caller = Location::caller();
    SourceLine { file: caller.file().rsplit('/').next().unwrap_or_default(), line: caller.line() }
}

/// The two kinds of logs, each with a folder and files of its own.
#[derive(Clone, Copy)]
enum LogFolder {
    Debug = 0,
    Run = 1,
}

/// The files of each kind. In a forked child a thread that does not exist there may have locked them, so the
/// child starts with none.
static FILES: [AtomicPtr<Mutex<files::Files>>; 2] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 2];
/// Set in the process whose files these are.
static OWNER: ForkMark = ForkMark::new();

fn log() -> &'static LogSettings {
    static LOG: OnceLock<LogSettings> = OnceLock::new();
    LOG.get_or_init(|| {
        // Without it a child writes into its parent's file, and that is all.
        let _ = OWNER.set();
        LogSettings::read(|name| std::env::var_os(name))
    })
}

/// Documented: `[level] module(pid,name):time [file:line]text`, and the thread's number comes before the
/// text.
fn put(kind: LogFolder, level: &str, module: Module, place: SourceLine, text: &str) {
    let log = log();
    let (name, pid) = (&log.process, std::process::id());
    // SAFETY: takes nothing and cannot fail.
    let thread = unsafe { libc::gettid() };
    let (module, SourceLine { file, line }, text) = (module.name(), place, text.trim_end());
    let line = format!(
        "[{level}] {module}({pid},{name}):{} [{file}:{line}]{thread} {text}",
        log.clock.now().for_lines()
    );
    // One line whatever the program gives, also as its own name or a file's: no other line can be forged.
    let line = line.replace(['\n', '\r'], " ") + "\n";
    if log.to_stdout {
        return print(libc::STDOUT_FILENO, line.as_bytes());
    }
    let Some(folder) = &log.folder else { return };
    let folder = folder.join(["debug", "run"][kind as usize]).join("plog");
    lock(files_of(kind)).append(&folder, log, line.as_bytes());
}

fn files_of(kind: LogFolder) -> &'static Mutex<files::Files> {
    if OWNER.is_child() {
        FILES.iter().for_each(|files| files.store(std::ptr::null_mut(), Ordering::Relaxed));
        let _ = OWNER.set();
    }
    let slot = &FILES[kind as usize];
    if slot.load(Ordering::Acquire).is_null() {
        let fresh = Box::into_raw(Box::default());
        if slot.compare_exchange(std::ptr::null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: made above, and stored nowhere.
            drop(unsafe { Box::from_raw(fresh) });
        }
    }
    // SAFETY: never null after the exchange, and what was stored is never freed: a fork only forgets it.
    unsafe { &*slot.load(Ordering::Acquire) }
}
