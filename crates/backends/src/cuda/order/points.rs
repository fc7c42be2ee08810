//! Points of a lane: where they stand in its stream, and when they need an event.

use crate::cuda::{
    order::backlog::Place,
    order::fence::StreamPoint,
    order::queue::{Lane, State},
    stream::events::Event,
};
use ferry_core::{
    Result, Ticket,
    sync::{Arc, lock},
};

/// After so many ops about which nobody has asked a lane looks by itself how far it is.
const FAR: Ticket = 4096;
/// So many events of a stream are remembered.
const KNOWN: usize = 64;

impl State {
    /// The first event that is known behind the op `ticket`. What another stream has waited for is known to have passed by it,
    /// whatever came into this one later.
    fn first_behind(&self, ticket: Ticket) -> Option<Arc<Event>> {
        let place = self.tail.partition_point(|(behind, _)| *behind < ticket);
        self.tail.get(place).map(|(_, event)| event.clone())
    }
}

impl Lane {
    /// A point behind everything so far.
    pub fn point(self: &Arc<Self>) -> Arc<StreamPoint> {
        let mut state = self.state();
        self.let_go(&mut state);
        let last = state.backlog.last();
        let point = StreamPoint::new(self.clone(), last, false);
        if state.backlog.place(last) == Place::Waits {
            state.backlog.wait(last, point.clone());
        } else if let Some(why) = self.device.lost() {
            // Told every time, and there is nothing to wait for.
            self.fail(last, why.clone());
            self.settle(last);
        } else if self.status.passed() < last {
            self.end_at(&mut state, &point);
        }
        point
    }

    /// The same with a ticket of its own, and it remembers when it was reached.
    pub fn mark(self: &Arc<Self>) -> Result<Arc<StreamPoint>> {
        let mut state = self.state();
        self.let_go(&mut state);
        let last = state.backlog.last();
        let point = StreamPoint::new(self.clone(), last + 1, true);
        if !state.backlog.is_held() && self.is_full() {
            self.hold_up(&mut state, point.ticket());
        }
        if state.backlog.is_held_by(point.ticket()) || state.backlog.place(last) == Place::Waits {
            state.backlog.wait(point.ticket(), point.clone());
        } else {
            self.record(&mut state, point.ticket(), &point)?;
        }
        state.backlog.reach(self.gather.count());
        lock(&self.ledger).mark(&point);
        Ok(point)
    }

    /// A point for work that was submitted before. It waits for nothing that the host has to do later.
    pub fn point_after(self: &Arc<Self>, ticket: Ticket) -> Arc<StreamPoint> {
        let point = StreamPoint::new(self.clone(), ticket, false);
        if self.status.passed() >= ticket {
            return point;
        }
        let mut state = self.state();
        if ticket > state.backlog.last() {
            self.let_go(&mut state);
        }
        match state.backlog.place(ticket) {
            Place::Waits => state.backlog.wait(ticket, point.clone()),
            Place::BeforePart => match &state.before {
                Some(event) => point.put_at(event.clone()),
                None => point.lose(),
            },
            Place::End(_) => self.end_at(&mut state, &point),
        }
        point
    }

    /// Puts a point into the stream, which ends behind the op `at`.
    pub fn record(&self, state: &mut State, at: Ticket, point: &StreamPoint) -> Result<()> {
        point.put(self.event(state, at, point.ticket(), point.is_timed()))
    }

    /// An event behind the op `ticket` in the stream, which ends behind the op `at`: one that is there already if that will do.
    pub fn event(&self, state: &mut State, at: Ticket, ticket: Ticket, timed: bool) -> Result<Arc<Event>> {
        if let Some(event) = state.first_behind(ticket) {
            return Ok(event);
        }
        let _here = self.device.enter()?;
        let event = Event::record(&self.device, self.stream, timed)?;
        let (passed, tail) = (self.status.passed(), &mut state.tail);
        while tail.len() == KNOWN || tail.front().is_some_and(|(ticket, _)| *ticket <= passed) {
            tail.pop_front();
        }
        tail.push_back((at, event.clone()));
        Ok(event)
    }

    /// A point behind everything in the stream, whoever put it there.
    pub fn end(self: &Arc<Self>) -> Result<Arc<StreamPoint>> {
        let state = self.state();
        let last = state.backlog.last();
        if self.is_empty()? {
            self.settle(last);
            return Ok(StreamPoint::new(self.clone(), last, false));
        }
        Ok(StreamPoint::whole(self.clone(), last, self.record_now()?))
    }

    /// The same, and nothing is said of what has passed before somebody asks the point.
    pub fn end_unsettled(self: &Arc<Self>) -> Result<Arc<StreamPoint>> {
        let state = self.state();
        Ok(StreamPoint::whole(self.clone(), state.backlog.last(), self.record_now()?))
    }

    /// Something is about to come into the stream: points at its end need events.
    pub fn pin_ends(&self, state: &mut State) {
        self.bell.ends_with(None);
        // The newest first: its event will do for the others.
        while let Some(point) = state.ends.pop() {
            if let Some(point) = point.upgrade() {
                point.pin(|| self.event(state, point.ticket(), point.ticket(), false));
            }
        }
    }

    /// Puts a point at the end of the stream as it is now. It gets an event when it needs one: most are waited for at once. Where
    /// others put work into the stream it needs one now.
    pub fn end_at(&self, state: &mut State, point: &Arc<StreamPoint>) {
        if let Some(event) = state.first_behind(point.ticket()) {
            return point.put_at(event);
        }
        if self.is_shared {
            let at = state.backlog.last();
            // Refused an event, it is done when the stream is seen to be empty.
            return drop(point.put(self.event(state, at, point.ticket(), false)));
        }
        while state.ends.last().is_some_and(|other| other.strong_count() == 0) {
            state.ends.pop();
        }
        state.ends.push(Arc::downgrade(point));
        point.put_at_end(self.bell.newest());
    }

    /// Whether the lane has nothing left to do, as far as can be told without waiting for anybody.
    pub fn is_idle(&self) -> bool {
        let Some(state) = self.try_state() else { return false };
        let is_idle = !state.backlog.is_held() && matches!(self.is_empty(), Ok(true));
        if is_idle {
            self.settle(state.backlog.last());
        }
        is_idle
    }

    /// The stream ends behind the op `at`. Nobody may ever ask how far it is, and something is kept for every copy through a
    /// descriptor until somebody does: so the lane asks, now and then.
    pub fn keep_up(&self, state: &mut State, at: Ticket) {
        if at >= self.status.passed() + FAR {
            self.look_at_milestone(state, at);
        }
    }

    #[cold]
    fn look_at_milestone(&self, state: &mut State, at: Ticket) {
        if let Some((ticket, event)) = &state.milestone {
            // Not before it is likely.
            if at < ticket + FAR || !matches!(event.is_reached(), Ok(true)) {
                return;
            }
            self.settle(*ticket);
        }
        state.milestone = self.record_now().ok().map(|event| (at, event));
    }

    /// An event at the end of the stream as it is now.
    pub fn record_now(&self) -> Result<Arc<Event>> {
        let _here = self.device.enter()?;
        Event::record(&self.device, self.stream, false)
    }
}
