//! Call sites: in which call of the program a thread is, and where that returns to.
//!
//! The layer that is called notes it here when a call begins ([`enter`]), and whatever writes facts below it
//! reads it ([`current`]). Without a watcher it costs one branch: [`is_on`].

use crate::{clock::ticks, fact::CallSite};
use std::{
    cell::Cell,
    sync::atomic::{AtomicBool, Ordering},
};

static IS_ON: AtomicBool = AtomicBool::new(false);

thread_local! {
    static CURRENT: Cell<CallSite> = const { Cell::new(NOWHERE) };
    /// When the thread was last blocked in the current call, in ticks; 0 if it was not.
    static JOINED: Cell<u64> = const { Cell::new(0) };
}

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

/// This thread is in a call of `function` now, which returns to `caller`. Times are ticks.
#[inline]
pub fn enter(function: u16, caller: u64) -> CallSite {
    let site = CallSite { function, caller, begin: ticks(), stack: 0 };
    // A thread whose storage is gone, since it ends, has no site.
    let _ = CURRENT.try_with(|current| current.set(site));
    let _ = JOINED.try_with(|joined| joined.set(0));
    site
}

/// The call is over. Says for how many ticks it was blocked.
#[inline]
pub fn leave(site: &CallSite) -> u64 {
    let _ = CURRENT.try_with(|current| current.set(NOWHERE));
    let joined = JOINED.try_with(Cell::get).unwrap_or_default();
    joined.saturating_sub(site.begin)
}

/// The call that this thread is in.
#[inline]
pub fn current() -> CallSite {
    CURRENT.try_with(Cell::get).unwrap_or(NOWHERE)
}

/// The call has waited until now.
pub fn note_wait() {
    let _ = JOINED.try_with(|joined| joined.set(ticks()));
}
