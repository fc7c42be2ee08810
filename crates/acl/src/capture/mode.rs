//! The modes of captures and threads: to which thread a capture forbids unsafe calls.

use crate::{Result, arguments::refuse, constants::*, state::Here};
use std::fmt;

/// aclmdlRICaptureMode, of a capture and of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CaptureMode {
    /// Unsafe calls are refused to all threads that are as strict.
    #[default]
    Global,
    /// Unsafe calls are refused to the thread that captures.
    ThreadLocal,
    /// Unsafe calls are refused to none.
    Relaxed,
}

impl TryFrom<i32> for CaptureMode {
    type Error = crate::Error;

    fn try_from(mode: i32) -> Result<CaptureMode> {
        Ok(match mode {
            ACL_MODEL_RI_CAPTURE_MODE_GLOBAL => CaptureMode::Global,
            ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL => CaptureMode::ThreadLocal,
            ACL_MODEL_RI_CAPTURE_MODE_RELAXED => CaptureMode::Relaxed,
            other => {
                return Err(refuse(format!(
                    "mode is {other}: give ACL_MODEL_RI_CAPTURE_MODE_GLOBAL (0), _THREAD_LOCAL (1) or \
                     _RELAXED (2)"
                )));
            }
        })
    }
}

impl From<CaptureMode> for i32 {
    fn from(mode: CaptureMode) -> i32 {
        match mode {
            CaptureMode::Global => ACL_MODEL_RI_CAPTURE_MODE_GLOBAL,
            CaptureMode::ThreadLocal => ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL,
            CaptureMode::Relaxed => ACL_MODEL_RI_CAPTURE_MODE_RELAXED,
        }
    }
}

impl fmt::Display for CaptureMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CaptureMode::Global => "GLOBAL",
            CaptureMode::ThreadLocal => "THREAD_LOCAL",
            CaptureMode::Relaxed => "RELAXED",
        })
    }
}

/// Gives the thread another mode, and says which it had.
pub(crate) fn exchange_mode(here: &Here, mode: i32) -> Result<i32> {
    let mode = CaptureMode::try_from(mode)?;
    let before = here.capture_mode.replace(mode.into());
    Ok(before)
}

/// Whether a capture forbids unsafe calls to a thread of this mode.
pub(super) fn forbids(capture: CaptureMode, is_own_thread: bool, thread: CaptureMode) -> bool {
    use CaptureMode::{Global, Relaxed, ThreadLocal};
    match (capture, is_own_thread, thread) {
        (Relaxed, ..) | (_, _, Relaxed) => false,
        (Global | ThreadLocal, true, Global | ThreadLocal) => true,
        (Global, false, Global) => true,
        (Global, false, ThreadLocal) | (ThreadLocal, false, _) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{CaptureMode::*, *};

    /// G15: the table of the documents.
    #[test]
    fn modes_forbid_what_the_table_says() {
        for (capture, own, want) in [
            (Global, true, [true, true, false]),
            (ThreadLocal, true, [true, true, false]),
            (Global, false, [true, false, false]),
            (ThreadLocal, false, [false; 3]),
            (Relaxed, true, [false; 3]),
            (Relaxed, false, [false; 3]),
        ] {
            let got = [Global, ThreadLocal, Relaxed].map(|thread| forbids(capture, own, thread));
            assert_eq!(got, want, "{capture} {own}");
        }
    }
}
