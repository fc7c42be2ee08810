//! Captures that are under way, and the calls that break them.

use std::collections::BTreeMap;

use super::finding::FindingId;
use crate::fact::CallSite;

/// The codes of calls that a capture refuses: a wait without its record, a stream not joined back, a stream
/// or event that is captured, a call that the mode does not allow, the default stream, two captures that
/// meet, the wrong thread, and copies of pageable memory.
const BREAKING: [i32; 9] = [107_024, 107_025, 107_027, 107_028, 107_030, 107_031, 107_032, 107_038, 107_041];

/// `ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT`: only the mode of the capture does not allow the call.
const NOT_IN_MODE: i32 = 107_030;
/// `ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC`: a copy of pageable memory.
const PAGEABLE: i32 = 107_041;

/// Nanoseconds by which the beginning of one call may differ in two facts.
const A_MOMENT: u64 = 1_000;

/// What to change about a call that was refused with this code.
pub fn remedy(code: i32) -> &'static str {
    match code {
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
    /// The capture that ended last, and the call that ended it.
    ended: Option<(BegunCapture, CallSite)>,
}

impl Captures {
    /// A capture begins.
    pub fn begin(&mut self, graph: u32, thread: u32, site: CallSite) {
        self.active.insert(graph, BegunCapture { thread, site });
    }

    /// A capture ends.
    pub fn end(&mut self, graph: u32, site: CallSite) {
        self.ended = self.active.remove(&graph).map(|begun| (begun, site));
    }

    /// A capture that is under way: the newest.
    pub fn active(&self) -> Option<BegunCapture> {
        self.active.values().next_back().copied()
    }

    /// The call that began the capture which the failed call breaks, if its code says that it does.
    pub fn broken_by(&self, thread: u32, site: CallSite, code: i32) -> Option<CallSite> {
        if !BREAKING.contains(&code) {
            return None;
        }
        // A failed end has ended the capture before it was told that it failed. The beginning of a call may
        // be read a little differently in two facts.
        let is_same = |end: &CallSite| end.caller == site.caller && end.begin.abs_diff(site.begin) < A_MOMENT;
        let ended = self.ended.filter(|(_, end)| is_same(end));
        let of_thread = self.active.values().rev().find(|begun| begun.thread == thread).copied();
        ended.map(|(begun, _)| begun).or(of_thread).or(self.active()).map(|begun| begun.site)
    }
}
