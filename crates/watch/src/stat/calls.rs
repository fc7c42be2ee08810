//! The call that each thread is in: facts of one call are known by the moment it began.

use std::collections::HashMap;

use crate::fact::{CallSite, FactSource, Nanos};

use super::traffic::TrafficClass;

/// Threads that are told apart; past this number all are forgotten.
const THREADS: usize = 1 << 14;

/// What a call does, as far as its facts have told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum CallRole {
    /// Nothing that is counted.
    #[default]
    Other,
    /// It submitted work that moves bytes.
    Traffic(TrafficClass),
    /// It waits for work that other calls submitted.
    Sync,
}

/// The latest call of one thread.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CurrentCall {
    begin: Nanos,
    /// Up to this moment its time has been counted.
    counted: Nanos,
    pub(super) role: CallRole,
    /// How many nanoseconds it has been counted as blocked.
    pub(super) blocked: u64,
}

/// The latest call of each thread.
#[derive(Default)]
pub(super) struct Calls {
    threads: HashMap<FactSource, CurrentCall>,
}

impl Calls {
    /// The call that a fact belongs to, and how much of its time was not counted up to now: all of it if the
    /// fact is the first of its call.
    pub(super) fn at(&mut self, source: FactSource, site: &CallSite, now: Nanos) -> (&mut CurrentCall, u64) {
        if self.threads.len() >= THREADS && !self.threads.contains_key(&source) {
            self.threads.clear();
        }
        let call = self.threads.entry(source).or_default();
        if site.begin == 0 || call.begin != site.begin {
            let begin = if site.begin == 0 { now } else { site.begin };
            *call = CurrentCall { begin, counted: begin, ..CurrentCall::default() };
        }
        let more = now.saturating_sub(call.counted);
        call.counted = call.counted.max(now);
        (call, more)
    }
}
