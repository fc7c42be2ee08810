//! Waits that a signal may end.
//!
//! An interpreter such as Python's handles signals in its main thread, between two of its instructions: a
//! wait inside the library would keep Ctrl-C from it. A thread that gives a [`Check`] has its waits cut into
//! slices of 50 ms, and the check is asked between two of them, while no lock is held; if it says so, the
//! wait ends with `INTERRUPTED`. Threads without one, which are all threads of a C program, wait in one go.
//!
//! An interrupted call leaves no copy behind that still touches the caller's memory (`rules/target.rs`).

use crate::{
    Result,
    constants::{ACL_ERROR_RT_CONTEXT_NULL, ACL_ERROR_RT_STREAM_SYNC_TIMEOUT},
    fork::{FORKED, is_forked},
    state::{Check, Here, with_here},
};
use ferry_core::{Kind, RECLAIM_TIMEOUT, Rows};
use std::time::{Duration, Instant};

/// How long a wait goes on until signals are handled.
pub(crate) const SLICE: Duration = Duration::from_millis(50);

/// The most that is copied until signals are handled.
const MAX_PIECE: usize = 256 << 20;

/// What an interrupted wait fails with. The caller that gave the check knows the cause and does not show
/// this.
const INTERRUPTED: Kind = Kind::Native(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);

/// Has the waits of this thread ask `check`. Returns the one before.
///
/// # Safety
/// The function may be called on this thread whenever it waits inside the library.
pub unsafe fn watch(check: Option<Check>) -> Option<Check> {
    with_here(|here| Ok(here.check.replace(check))).unwrap_or(None)
}

impl Here {
    /// Whether a signal may end the waits of this thread.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.check.get().is_some()
    }
}

/// Has signals handled, if this thread has a check. Fails if one of them ends the call.
pub(crate) fn ask(here: &Here) -> ferry_core::Result<()> {
    // SAFETY: the promise to `watch`.
    match here.check.get().map_or(0, |check| unsafe { check() }) {
        // A handler may have forked; in the child nothing comes to an end.
        0 if is_forked() => Err(Kind::Native(ACL_ERROR_RT_CONTEXT_NULL).because(FORKED.to_string_lossy())),
        0 => Ok(()),
        _ => Err(INTERRUPTED.because("a signal ended the wait")),
    }
}

/// Whether a wait failed because a signal ended it.
pub(crate) fn is_interrupted(error: &ferry_core::Error) -> bool {
    error.kind == INTERRUPTED
}

/// Waits up to `limit` by `wait`, which can do that as often as it likes; `Kind::Timeout` if it was too
/// short.
pub(crate) fn wait(
    here: &Here,
    limit: Option<Duration>,
    mut wait: impl FnMut(Option<Duration>) -> ferry_core::Result<()>,
) -> ferry_core::Result<()> {
    if !here.is_watched() {
        return wait(limit);
    }
    let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        match wait(Some(left.map_or(SLICE, |left| left.min(SLICE)))) {
            Err(error) if error.kind == Kind::Timeout => {
                ask(here)?;
                if left.is_some_and(|left| left <= SLICE) {
                    return Err(error);
                }
            }
            other => return other,
        }
    }
}

/// Allocates by `make`, which waits for freed memory as long as it is told.
pub(crate) fn find_room<T>(
    here: &Here,
    make: impl Fn(Duration) -> ferry_core::Result<T>,
) -> ferry_core::Result<T> {
    if !here.is_watched() {
        return make(RECLAIM_TIMEOUT);
    }
    let end = Instant::now() + RECLAIM_TIMEOUT;
    loop {
        let begin = Instant::now();
        match make(SLICE) {
            // If it came back at once, there is nothing to wait for.
            Err(error) if error.kind == Kind::OutOfMemory && begin.elapsed() >= SLICE && begin < end => {
                ask(here)?
            }
            other => return other,
        }
    }
}

/// A rectangle in pieces after which signals can be handled: of whole rows, or parts of the one there is.
pub(crate) fn pieces(rows: Rows) -> impl Iterator<Item = Rows> {
    let (count, most) = match rows.height {
        1 => (rows.width, MAX_PIECE),
        _ => (rows.height, (MAX_PIECE / rows.width.max(1)).max(1)),
    };
    (0..count).step_by(most).map(move |done| {
        let next = most.min(count - done);
        match rows.height {
            1 => Rows::linear(rows.dst + done, rows.src + done, next),
            _ => Rows {
                dst: rows.dst + done * rows.dst_pitch,
                src: rows.src + done * rows.src_pitch,
                height: next,
                ..rows
            },
        }
    })
}

/// Whether a copy is worth being cut.
pub(crate) fn is_large(rows: &Rows) -> bool {
    rows.width.saturating_mul(rows.height) > MAX_PIECE
}

/// Waits for what is about to end, where a signal may end the wait: afterwards nothing is left to wait for
/// while it is being ended.
pub(crate) fn before<T>(
    here: &Here,
    ending: impl FnOnce() -> Vec<T>,
    wait: impl Fn(&T) -> Result<()>,
) -> Result<()> {
    if here.is_watched() { ending().iter().try_for_each(wait) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_the_whole_in_order() {
        let linear = Rows::linear(0x10, 0x20, MAX_PIECE + 5);
        let cut: Vec<_> = pieces(linear).collect();
        assert_eq!(
            cut,
            [Rows::linear(0x10, 0x20, MAX_PIECE), Rows::linear(0x10 + MAX_PIECE, 0x20 + MAX_PIECE, 5)]
        );
        assert_eq!(pieces(Rows::linear(1, 2, 3)).collect::<Vec<_>>(), [Rows::linear(1, 2, 3)]);
        let rows =
            Rows { dst: 0, dst_pitch: 200 << 20, src: 7, src_pitch: 100 << 20, width: 100 << 20, height: 5 };
        let cut: Vec<_> = pieces(rows).map(|rows| (rows.dst >> 20, rows.src >> 20, rows.height)).collect();
        assert_eq!(cut, [(0, 0, 2), (400, 200, 2), (800, 400, 1)]);
    }
}
