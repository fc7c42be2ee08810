//! Launches that queue up in a stream behind an event of another stream that is not reached yet.
//!
//! A stream takes some thousand launches. Then the driver blocks the thread that brings one more, holding a
//! lock of its own: on an H200 the other streams of the process stand still meanwhile, and for good if the
//! event is behind one of them. So a lane is blocked before its stream is full: later ops wait in its backlog
//! until the stream has passed what is in it.

use crate::cuda::stream::events::Event;
use ferry_core::{
    Ticket,
    sync::{Arc, Mutex, lock},
};

/// Launches that may queue up behind an event. A fraction of what a stream takes: several streams may share a
/// hardware channel.
const LAUNCHES_MAX: u32 = 128;
/// Events that are remembered; the oldest are kept, for the stream waits for them first.
const EVENTS_MAX: usize = 16;

/// What a stream waits for.
#[derive(Default)]
pub struct Congestion(Mutex<Ahead>);

#[derive(Default)]
struct Ahead {
    /// Events of other streams and the waits for them, until those are known to be over.
    events: Vec<(Ticket, Arc<Event>)>,
    /// Launches behind the first of them.
    launches: u32,
}

impl Ahead {
    /// Removes the events of waits that the stream has passed, as far as that is known.
    fn forget(&mut self, passed: Ticket) {
        self.events.retain(|(wait, _)| *wait > passed);
    }

    /// Removes events that are reached, and those of a device that has failed.
    fn poll(&mut self) {
        self.events.retain(|(_, event)| matches!(event.is_reached(), Ok(false)));
    }
}

impl Congestion {
    /// A stream that has passed `passed` waits for this event, too, as its op `wait`.
    pub fn add(&self, wait: Ticket, event: Arc<Event>, passed: Ticket) {
        let mut ahead = lock(&self.0);
        ahead.forget(passed);
        if ahead.events.len() == EVENTS_MAX {
            ahead.poll();
        }
        if ahead.events.is_empty() {
            ahead.launches = 0;
        }
        if ahead.events.len() < EVENTS_MAX {
            ahead.events.push((wait, event));
        }
    }

    /// Counts a launch that is about to be put into the stream. True if it must not be: too many wait there
    /// already.
    pub fn is_full(&self) -> bool {
        let mut ahead = lock(&self.0);
        if ahead.events.is_empty() {
            return false;
        }
        ahead.launches += 1;
        if ahead.launches > LAUNCHES_MAX {
            ahead.poll();
        }
        ahead.launches > LAUNCHES_MAX && !ahead.events.is_empty()
    }
}
