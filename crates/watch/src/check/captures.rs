//! Captures that are under way, and the calls that break them.

use std::collections::BTreeMap;

use super::finding::FindingId;
use crate::fact::CallSite;

/// The codes of calls that a capture refuses: a wait without its record, a stream not joined back, a stream
/// or event that is captured, a call that the mode does not allow, the default stream, two captures that
/// meet, the wrong thread, and copies of pageable memory.
const BREAKING: [i32; 9] = [107_024, 107_025, 107_027, 107_028, 107_030, 107_031, 107_032, 107_038, 107_041];

/// `ACL_ERROR_RT_STREAM_UNJOINED`: a stream of the capture has work that does not lead back.
const UNJOINED: i32 = 107_025;
/// `ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT`: only the mode of the capture does not allow the call.
const NOT_IN_MODE: i32 = 107_030;
/// `ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC`: a copy of pageable memory.
const PAGEABLE: i32 = 107_041;

/// What to change about a call that was refused with this code.
pub fn remedy(code: i32) -> &'static str {
    match code {
        UNJOINED => {
            "Record an event behind the work of the other stream and let the stream whose capture began \
             wait for it, before the capture ends."
        }
        NOT_IN_MODE => "Move the call out of the capture, or let the capture use the relaxed mode.",
        PAGEABLE => "Let the copy use page-locked memory, or move it out of the capture.",
        _ => FindingId::Capture.remedy(),
    }
}

/// What to change about a call that the mode of the capture allows.
pub const LINT_REMEDY: &str = "Move the call out of the capture, so that it can use any mode.";

/// A capture that has begun.
#[derive(Clone, Copy, Debug)]
pub struct BegunCapture {
    /// The thread that began it.
    pub thread: u32,
    /// The call.
    pub site: CallSite,
}

/// The captures of a process.
#[derive(Default)]
pub struct Captures {
    active: BTreeMap<u32, BegunCapture>,
    /// Captures whose end is told, by the threads that are in the calls which end them.
    ending: BTreeMap<u32, BegunCapture>,
}

impl Captures {
    /// A capture begins.
    pub fn begin(&mut self, graph: u32, thread: u32, site: CallSite) {
        self.active.insert(graph, BegunCapture { thread, site });
    }

    /// A capture ends, by a call that this thread is in.
    pub fn end(&mut self, graph: u32, thread: u32) {
        self.ending.extend(self.active.remove(&graph).map(|begun| (thread, begun)));
    }

    /// The thread's call has returned.
    pub fn returned(&mut self, thread: u32) {
        self.ending.remove(&thread);
    }

    /// A capture that is under way: the newest.
    pub fn active(&self) -> Option<BegunCapture> {
        self.active.values().next_back().copied()
    }

    /// The call that began the capture which the thread's call breaks, if its code says that it does.
    pub fn broken_by(&self, thread: u32, code: i32) -> Option<CallSite> {
        if !BREAKING.contains(&code) {
            return None;
        }
        // A failed end has ended the capture before it was told that it failed.
        let ending = self.ending.get(&thread).copied();
        let of_thread = self.active.values().rev().find(|begun| begun.thread == thread).copied();
        ending.or(of_thread).or(self.active()).map(|begun| begun.site)
    }
}
