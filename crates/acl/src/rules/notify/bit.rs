//! The state of a notify: one bit, and the streams that wait for it in the order in which they came.
//!
//! A record counts when its stream reaches it, and a wait takes the bit when its stream reaches it. So both
//! are told here by work of streams, never by the calls that submit that work.

use ferry_core::{Error, Fence, Gate, Stream, Ticket, sync::lock};
use std::{
    collections::VecDeque,
    mem,
    sync::{Arc, Mutex},
};

/// The bit and its waits.
#[derive(Default)]
pub struct NotifyBit {
    state: Mutex<BitState>,
}

#[derive(Default)]
struct BitState {
    /// Whether a record came that no wait has used up.
    is_set: bool,
    /// Streams that have reached a wait, the first one first.
    waits: VecDeque<NotifyWait>,
    /// What waits fail with, once the notify is destroyed.
    ended: Option<Error>,
}

/// A wait of a stream: its op `ticket`, which passes when the gate is opened.
pub struct NotifyWait {
    /// Opened when the wait is over.
    pub gate: Arc<Gate>,
    /// The stream that waits.
    pub stream: Arc<Stream>,
    /// The number of the wait in its stream.
    pub ticket: Ticket,
}

impl NotifyWait {
    /// Whether nothing waits for the gate any more: the stream was aborted, or the time was up.
    fn is_over(&self) -> bool {
        self.stream.status().is_dropped(self.ticket) || self.gate.is_done()
    }

    /// Ends the wait with a failure of the stream.
    fn fail(self, error: Error) {
        self.stream.status().fail_at(self.ticket, error);
        self.gate.open();
    }
}

impl NotifyBit {
    /// A record: releases the first wait, or sets the bit if there is none.
    pub fn record(&self) {
        let released = lock(&self.state).record();
        if let Some(wait) = released {
            wait.gate.open();
        }
    }

    /// A stream has reached a wait: it uses the bit up, or waits for the next record.
    pub fn arrive(&self, wait: NotifyWait) {
        let mut state = lock(&self.state);
        if wait.is_over() {
            return;
        }
        if let Some(error) = state.ended.clone() {
            drop(state);
            return wait.fail(error);
        }
        if mem::take(&mut state.is_set) {
            drop(state);
            return wait.gate.open();
        }
        state.waits.retain(|wait| !wait.is_over());
        state.waits.push_back(wait);
    }

    /// Takes back the wait of this gate, if it waits. False if it was released.
    pub fn withdraw(&self, gate: &Arc<Gate>) -> bool {
        let mut state = lock(&self.state);
        let found = state.waits.iter().position(|wait| Arc::ptr_eq(&wait.gate, gate));
        found.and_then(|index| state.waits.remove(index)).is_some()
    }

    /// Clears the bit.
    pub fn reset(&self) {
        lock(&self.state).is_set = false;
    }

    /// The notify is destroyed: waits fail, those that are still to come too.
    pub fn end(&self, error: Error) {
        let mut state = lock(&self.state);
        state.ended = Some(error.clone());
        let waits = mem::take(&mut state.waits);
        drop(state);
        waits.into_iter().filter(|wait| !wait.is_over()).for_each(|wait| wait.fail(error.clone()));
    }
}

impl BitState {
    /// The wait that a record releases; if there is none, the bit is set.
    fn record(&mut self) -> Option<NotifyWait> {
        while let Some(wait) = self.waits.pop_front() {
            if !wait.is_over() {
                return Some(wait);
            }
        }
        self.is_set = true;
        None
    }
}
