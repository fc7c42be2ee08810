//! The end of a lane's stream: the events that stand near it, and the points at the very end, which have none
//! yet.
//!
//! An event costs a driver call, and most points are waited for while nothing is behind them. So a point at
//! the end of the stream gets an event only when other work is about to come behind it. What another stream
//! has waited for is known to have passed by its event, whatever came into this stream later: so several
//! events are remembered.

use crate::cuda::{
    order::{fence::StreamPoint, progress::StreamProgress, timing::monotonic_ns},
    stream::events::Event,
};
use ferry_core::{
    Result, Ticket,
    sync::{Arc, Weak},
};
use std::collections::VecDeque;

/// After so many ops about which no fence was asked the lane itself asks how far the stream is.
const MILESTONE_OPS: Ticket = 4096;
/// Events of a stream that are remembered.
const EVENTS_MAX: usize = 64;

/// What stands at the end of one stream.
#[derive(Default)]
pub struct Tail {
    /// Events in the stream, and the ops they stand behind: the newest, and some before it.
    events: VecDeque<(Ticket, Arc<Event>)>,
    /// Points at the end of the stream, which have no events yet.
    ends: Vec<Weak<StreamPoint>>,
    /// An event that the lane put behind this op to see how far the stream is.
    milestone: Option<(Ticket, Arc<Event>)>,
}

impl Tail {
    /// The first event that is known behind the op `ticket`.
    fn first_behind(&self, ticket: Ticket) -> Option<Arc<Event>> {
        let index = self.events.partition_point(|(behind, _)| *behind < ticket);
        self.events.get(index).map(|(_, event)| event.clone())
    }

    /// An event behind the op `ticket` in the stream, which ends behind the op `at`: one that is there
    /// already if that will do.
    pub fn event(
        &mut self,
        progress: &StreamProgress,
        at: Ticket,
        ticket: Ticket,
        timed: bool,
    ) -> Result<Arc<Event>> {
        if let Some(event) = self.first_behind(ticket) {
            return Ok(event);
        }
        let event = progress.stream.record(&progress.stream.device().enter()?, timed)?;
        let passed = progress.passed();
        while self.events.len() == EVENTS_MAX
            || self.events.front().is_some_and(|(ticket, _)| *ticket <= passed)
        {
            self.events.pop_front();
        }
        self.events.push_back((at, event.clone()));
        Ok(event)
    }

    /// Puts a point into the stream, which ends behind the op `at`.
    pub fn record(&mut self, progress: &StreamProgress, at: Ticket, point: &StreamPoint) -> Result<()> {
        let put_ns = if progress.status.is_observed() { monotonic_ns() } else { 0 };
        let event = self.event(progress, at, point.ticket(), point.is_timed());
        if let (true, Ok(event)) = (point.is_timed(), &event) {
            progress.timings.mark(&progress.status, &progress.stream, point.ticket(), event, put_ns);
        }
        point.put(event)
    }

    /// Puts a point at the end of the stream as it is now, behind the op `at`. Where the
    /// stream needs events at once it gets one now, else when something comes behind it.
    pub fn put_at_end(&mut self, progress: &StreamProgress, at: Ticket, point: &Arc<StreamPoint>) {
        if let Some(event) = self.first_behind(point.ticket()) {
            return point.put_at(event);
        }
        if progress.stream.kind().needs_event_at_once() {
            // Refused an event, it is done when the stream is seen to be idle.
            return drop(point.put(self.event(progress, at, point.ticket(), false)));
        }
        while self.ends.last().is_some_and(|other| other.strong_count() == 0) {
            self.ends.pop();
        }
        self.ends.push(Arc::downgrade(point));
        point.put_at_end(progress.stream.last_kernel());
    }

    /// Work is about to come into the stream, which ends behind the op `at`: points at its end get events.
    /// Progress may never be asked for, and something is kept for every copy through a descriptor until
    /// it is: so now and then the lane asks.
    pub fn move_on(&mut self, progress: &StreamProgress, at: Ticket) {
        self.pin(progress);
        if at >= progress.passed() + MILESTONE_OPS {
            self.poll_milestone(progress, at);
        }
    }

    /// Gives events to the points at the end of the stream.
    pub fn pin(&mut self, progress: &StreamProgress) {
        progress.stream.forget_last_kernel();
        // The newest first: its event will do for the others.
        while let Some(point) = self.ends.pop() {
            if let Some(point) = point.upgrade() {
                point.pin(|| self.event(progress, point.ticket(), point.ticket(), false));
            }
        }
    }

    #[cold]
    fn poll_milestone(&mut self, progress: &StreamProgress, at: Ticket) {
        if let Some((ticket, event)) = &self.milestone {
            // Not before it is likely.
            if at < ticket + MILESTONE_OPS || !matches!(event.is_reached(), Ok(true)) {
                return;
            }
            progress.pass(*ticket);
        }
        self.milestone = progress.record().ok().map(|event| (at, event));
    }
}
