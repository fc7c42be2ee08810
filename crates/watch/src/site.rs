//! Call sites: in which call of the program a thread is, and where that returns to.
//!
//! The layer that is called notes it here when a call begins ([`enter`]), and whatever writes facts below it
//! reads it ([`current`]). Without a watcher it costs one branch: [`is_on`].

use crate::{
    clock::ticks,
    fact::{CallSite, Line, TaskId},
    local::local,
    modules, stacks,
    writer::FactWriter,
};
use std::sync::atomic::{AtomicBool, Ordering};

static IS_ON: AtomicBool = AtomicBool::new(false);

const NOWHERE: CallSite = CallSite { function: 0, caller: 0, begin: 0, stack: 0 };

/// Whether calls are to be noted.
#[inline(always)]
pub fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

/// From here on calls are noted, for the rest of the process.
pub fn switch_on() {
    IS_ON.store(true, Ordering::Relaxed);
}

/// This thread is in a call of `function` from here on. It comes from the line that was set for it, or from
/// its return address. Its time is not taken yet: see [`begin`].
#[inline]
pub fn enter(writer: &FactWriter, function: u16, return_address: impl FnOnce() -> u64) {
    local(|local| {
        let caller = match local.line.get() {
            0 => {
                let address = return_address();
                modules::tell(local, writer, address);
                address
            }
            number => {
                local.line.set(0);
                Line::ADDRESS | u64::from(number)
            }
        };
        let stack = match writer.wanted().stacks {
            _ if caller & Line::ADDRESS != 0 => local.line_stack.get(),
            true => stacks::number(local, writer, function, caller),
            false => 0,
        };
        local.site.set(CallSite { function, caller, begin: 0, stack });
        local.waited.set(0);
        local.asked.set(0);
    });
}

/// The call takes more than a moment: it has begun now.
#[cold]
#[inline(never)]
pub fn begin() {
    local(|local| local.site.set(CallSite { begin: ticks(), ..local.site.get() }));
}

/// The call is over. Says which it was, and for how many ticks it was blocked.
pub fn leave() -> (CallSite, u64) {
    local(|local| {
        let site = local.site.replace(NOWHERE);
        (site, local.waited.get().saturating_sub(site.begin))
    })
}

/// The call that this thread is in.
#[inline]
pub fn current() -> CallSite {
    local(|local| local.site.get())
}

/// The call has waited until `time`, in ticks.
pub fn note_wait(time: u64) {
    local(|local| local.waited.set(time));
}

/// The call asks for so much memory; what it gets may be more.
pub fn note_asked(bytes: u64) {
    local(|local| local.asked.set(bytes));
}

/// The bytes that the call has asked for, once; 0 if nobody said.
pub fn take_asked() -> u64 {
    local(|local| local.asked.take())
}

/// What this thread submits from here on is this task of a graph; with `None`, what it asks for itself.
pub fn set_task(task: Option<TaskId>) {
    local(|local| local.task.set(task));
}

/// The task of a graph that this thread submits.
pub fn task() -> Option<TaskId> {
    local(|local| local.task.get())
}

/// The next call of this thread comes from the first of these lines of an interpreted program, which the
/// others have called, by their numbers.
pub fn set_lines(writer: &FactWriter, numbers: &[u32]) {
    let frames = || numbers.iter().map(|number| Line::ADDRESS | u64::from(*number)).collect();
    let stack = if writer.wanted().stacks { stacks::tell(writer, frames()) } else { 0 };
    local(|local| {
        local.line.set(numbers.first().copied().unwrap_or_default());
        local.line_stack.set(stack);
    });
}
