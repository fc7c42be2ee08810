//! A stream that waits for an event of another one and gets more and more work meanwhile.
//!
//! A stream takes some thousand launches; then the driver keeps whoever brings one more, with a lock of its own in hand: on an H200
//! other streams of the process stand still then, and if the event is behind one of them, for good. So the lane is held before its
//! stream is full. Later ops wait in the backlog, and go on when the stream has passed what is in it.

use crate::cuda::{
    order::backlog::Part,
    order::fence::StreamPoint,
    order::queue::{Lane, State},
    stream::events::Event,
};
use crate::pool::ThreadReservation;
use ferry_core::{
    Ticket,
    sync::{Arc, Mutex, lock},
};
use std::{thread, time::Duration};

/// Launches behind an event that is not reached. A fraction of what a stream takes: several streams may share a way into the GPU.
const MANY: u32 = 128;
/// Events that are remembered. Of many the oldest: they hold the stream first.
const MOST: usize = 16;

/// How often a thread is asked for where there must be one soon.
const RETRY_EVERY: Duration = Duration::from_millis(1);

/// What a stream waits for.
#[derive(Default)]
pub struct Crowd(Mutex<Behind>);

#[derive(Default)]
struct Behind {
    /// Events of other streams, until they are seen to be reached.
    events: Vec<Arc<Event>>,
    /// Launches behind the first of them.
    launches: u32,
}

impl Behind {
    /// Forgets events that are reached, and those of a device that has failed.
    fn look(&mut self) {
        self.events.retain(|event| matches!(event.is_reached(), Ok(false)));
    }
}

impl Crowd {
    /// The stream waits for this event, too.
    pub fn comes_behind(&self, event: Arc<Event>) {
        let mut behind = lock(&self.0);
        if behind.events.len() == MOST {
            behind.look();
        }
        if behind.events.is_empty() {
            behind.launches = 0;
        }
        if behind.events.len() < MOST {
            behind.events.push(event);
        }
    }

    /// Somebody is about to put a launch into the stream: whether he must not, since many stand there and wait.
    pub fn is_dense(&self) -> bool {
        let mut behind = lock(&self.0);
        if behind.events.is_empty() {
            return false;
        }
        behind.launches += 1;
        if behind.launches > MANY {
            behind.look();
        }
        behind.launches > MANY && !behind.events.is_empty()
    }
}

impl Lane {
    /// Whether the stream takes the next launch. One that other libraries use takes all: nothing may be held back there.
    pub fn is_full(&self) -> bool {
        // Without a thread that goes on later nothing may be held back either.
        !self.is_shared && self.crowd.is_dense() && self.device.workers.reserve().is_ok()
    }

    /// Holds the lane before the op `ticket`, until the stream has passed everything that is in it.
    pub fn hold_up(self: &Arc<Self>, state: &mut State, ticket: Ticket) {
        state.backlog.hold(ticket, Part::Wait);
        self.open_or_close(&state.backlog);
        let point = StreamPoint::new(self.clone(), ticket - 1, false);
        let recorded = self.record(state, ticket - 1, &point);
        self.note(ticket - 1, recorded);
        let (lane, thread) = (self.clone(), self.reserve_thread());
        let resume = move || thread.run(Box::new(move || lane.resume(ticket)));
        self.device.watcher.add(&self.device.workers, point, Box::new(resume));
    }

    /// A thread that was to be had when `is_full` asked for one. If the last one has just ended, and its place was taken by
    /// another process, there is one when that goes.
    fn reserve_thread(&self) -> ThreadReservation {
        loop {
            match self.device.workers.reserve() {
                Ok(thread) => return thread,
                Err(_) => thread::sleep(RETRY_EVERY),
            }
        }
    }
}
