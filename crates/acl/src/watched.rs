//! Calls of a program that is watched, as facts: which function, from where, since when, what came of it.
//!
//! A process is watched if the environment says so (`ferry::watching`). Then every call notes its function
//! and its return address when it begins, so that the facts that the engine writes meanwhile name it, and
//! has a fact of its own when it ends. Copies on the fast path have none: the fact of their op says all.

use crate::functions::{ALL, ApiFunction, COUNT};
use ferry::watching;
use ferry_core::{Physical, Stream};
use ferry_watch::{
    ContentHasher, Fact,
    caller::{CodePosition, Slot},
    clock::ticks,
    fact::{Call, Line, StreamMade, StreamPurpose},
    site,
};
use std::sync::{
    OnceLock,
    atomic::{AtomicU32, Ordering},
};

/// How each function finds its return address.
static SLOTS: [Slot; COUNT] = [const { Slot::new() }; COUNT];

/// Begins to watch, if the environment says so: once in a process, by the first call of any thread.
pub(crate) fn begin() {
    static BEGUN: OnceLock<()> = OnceLock::new();
    BEGUN.get_or_init(|| {
        let Some(writer) = watching::writer() else { return };
        let names: Vec<&str> = ALL.iter().map(|function| function.name).collect();
        writer.write(&Fact::Functions(names.join("\n")));
    });
}

/// A call begins.
#[cold]
#[inline(never)]
pub(crate) fn enter(function: &ApiFunction, position: CodePosition) {
    if let Some(writer) = watching::writer() {
        let slot = &SLOTS[usize::from(function.index)];
        // Index 0 stands for no function.
        site::enter(writer, function.index + 1, || slot.return_address(position));
    }
}

/// The call ends with this code.
#[cold]
#[inline(never)]
pub(crate) fn leave(code: i32) {
    let (site, blocked) = site::leave();
    if let Some(writer) = watching::writer() {
        writer.returned(&Call { site, end: ticks(), blocked, code });
    }
}

/// The call fails with this code and message.
#[cold]
pub(crate) fn failed(code: i32, message: &str) {
    /// A message that is longer is cut.
    const MAX_MESSAGE: usize = 4096;
    if let Some(writer) = watching::writer() {
        let message = message.chars().take(MAX_MESSAGE).collect();
        writer.write(&Fact::Failure { time: ticks(), site: site::current(), code, message });
    }
}

/// Physical memory of this process has a handle, or one more.
pub(crate) fn physical_named(physical: &Physical) {
    if site::is_on()
        && let Some(writer) = watching::writer()
    {
        let (time, site) = (ticks(), site::current());
        let (at, len) = (physical.at() as u64, physical.size() as u64);
        writer.write(&Fact::PhysicalNamed { time, site, at, len });
    }
}

/// A handle of physical memory was freed.
pub(crate) fn physical_freed(physical: &Physical) {
    if site::is_on()
        && let Some(writer) = watching::writer()
    {
        writer.write(&Fact::PhysicalFreed { time: ticks(), at: physical.at() as u64 });
    }
}

/// Processes share the memory at `base` from here on, by this name.
pub(crate) fn lent(base: usize, name: &str) {
    if site::is_on()
        && let Some(writer) = watching::writer()
    {
        let mut hasher = ContentHasher::default();
        hasher.add(name.as_bytes());
        writer.write(&Fact::Lent { time: ticks(), base: base as u64, key: hasher.finish() });
    }
}

/// The calling thread has learnt that work of another process has passed.
pub(crate) fn joined_outside() {
    if site::is_on()
        && let Some(writer) = watching::writer()
    {
        writer.write(&Fact::JoinedOutside { time: ticks() });
    }
}

/// A stream has a name for the program, or none: what it is for.
pub(crate) fn name_stream(stream: &Stream, purpose: StreamPurpose, handle: usize) {
    if site::is_on()
        && let Some(writer) = watching::writer()
    {
        let (stream, device) = (watching::stream_number(stream), stream.device());
        let made = StreamMade { time: ticks(), stream, device, purpose, handle: handle as u64 };
        writer.write(&Fact::StreamMade(made));
    }
}

/// Whether this process is watched, and whether whole stacks are wanted.
pub fn is_watched() -> Option<bool> {
    watching::writer().map(|writer| writer.wanted().stacks)
}

/// Gives a line of an interpreted program a number, and has readers know it.
pub fn define_line(file: String, function: String, line: u32) -> u32 {
    static LINES: AtomicU32 = AtomicU32::new(1);
    let number = LINES.fetch_add(1, Ordering::Relaxed);
    if let Some(writer) = watching::writer() {
        writer.write(&Fact::Line(Line { number, line, file, function }));
    }
    number
}

/// The next call of this thread comes from the first of the lines with these numbers, which the others have
/// called.
pub fn set_lines(numbers: &[u32]) {
    if let Some(writer) = watching::writer() {
        site::set_lines(writer, numbers);
    }
}
