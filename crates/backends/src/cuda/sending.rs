//! Small copies of a lane: gathered when they are submitted, and put into the stream together.
//!
//! Whoever submits one takes the lock of the window alone. Whoever puts anything into the stream holds the lane's state, and sends
//! what was gathered first; meanwhile the window fills again.

use super::{
    backlog::{Backlog, Span},
    fence::Point,
    gather::{Gather, Run, Taken, Then},
    planner::Way,
    queue::{Lane, State},
    ring::Entry,
    sender::Gathers,
};
use ferry_core::{
    Op, Pieces, Plan, Result, Route, Ticket,
    sync::{Arc, MutexGuard, lock, spin_loop},
};
use std::{mem, sync::TryLockError};

/// How often a lock is tried before the thread sleeps: a launch takes some microseconds, and to be woken takes more.
const TRIES: u32 = 200;

/// What waits in the backlog of a lane.
pub(super) enum Work {
    Op(Op),
    /// Small copies that were submitted one after the other.
    Copies(Run),
}

impl Span for Work {
    fn more(&self) -> Ticket {
        match self {
            Work::Op(_) => 0,
            Work::Copies(run) => run.count() as Ticket - 1,
        }
    }
}

impl Gathers for Lane {
    fn gather(&self) -> &Gather {
        &self.gather
    }

    fn try_send(&self) -> usize {
        self.try_state().map_or(0, |mut state| self.let_go(&mut state))
    }
}

impl Lane {
    /// The way a copy of this route goes, as seen from this lane's device.
    pub(super) fn way(&self, route: Route) -> Way {
        match route {
            Route::HostToDevice { to } if to == self.id => Way::In,
            Route::DeviceToHost { from } if from == self.id => Way::Out,
            Route::DeviceToDevice { from, to } if from == self.id && to == self.id => Way::Within,
            _ => Way::Across,
        }
    }

    /// A copy that may be gathered: one small row between memory that is known and within reach, with ends that do not overlap.
    #[inline]
    pub(super) fn small(&self, op: &Op) -> Option<(Way, Entry)> {
        let Op::Copy(plan) = op else { return None };
        let (dst, src, len) = one_row(plan).filter(|(.., len)| *len <= self.device.constants.gather_most)?;
        let way = self.way(plan.route());
        let fits = way != Way::Across && !plan.is_plain() && dst.abs_diff(src) >= len;
        fits.then_some((way, Entry { dst: dst as u64, src: src as u64, len: len as u64 }))
    }

    /// Gathers a small copy if there is something to wait for. It is sent soon, whatever its submitter does next.
    #[inline]
    pub(super) fn gathered(self: &Arc<Self>, way: Way, copy: Entry) -> Option<Ticket> {
        loop {
            match self.gather.offer(way, copy, self.status.passed()) {
                Taken::Yes(ticket, Then::Rest) => return Some(ticket),
                Taken::Yes(ticket, then) => {
                    self.follow_up(then);
                    return Some(ticket);
                }
                Taken::Full => self.flush(),
                Taken::No => return None,
            }
        }
    }

    #[cold]
    fn follow_up(self: &Arc<Self>, then: Then) {
        if then == Then::Send {
            self.try_send();
        } else if self.device.sender.watch(self.clone()) {
            let sender = self.device.sender.clone();
            self.device.workers.run(Box::new(move || sender.serve()));
        }
    }

    /// Sends what was gathered.
    pub(super) fn flush(&self) {
        self.let_go(&mut self.state());
    }

    /// The lane's state, for somebody who cares how long it takes.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        for _ in 0..TRIES {
            if let Some(state) = self.try_state() {
                return state;
            }
            spin_loop();
        }
        lock(&self.state)
    }

    fn try_state(&self) -> Option<MutexGuard<'_, State>> {
        match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Takes copies into the window if nothing holds the lane, and nobody waits for each of them or shares the stream.
    pub(super) fn open_or_close(&self, backlog: &Backlog<Work, Arc<Point>>) {
        let is_alone = !self.waited && !self.is_shared;
        self.gather.set_open(is_alone && !backlog.is_held());
    }

    /// Puts what was gathered into the stream, and says how many bytes these are. Everybody who puts something else there does this
    /// first.
    pub(super) fn let_go(&self, state: &mut State) -> usize {
        match self.gather.take(mem::take(&mut state.spare)) {
            Ok(run) => {
                let bytes = run.bytes();
                state.backlog.reach(run.last());
                self.send_run(state, run);
                bytes
            }
            Err(spare) => {
                state.spare = spare;
                0
            }
        }
    }

    /// Drops what was gathered, and says which was the newest op of it.
    pub(super) fn drop_gathered(&self, state: &mut State) -> Option<Ticket> {
        match self.gather.take(mem::take(&mut state.spare)) {
            Ok(run) => {
                let newest = run.last();
                state.backlog.reach(newest);
                state.spare = run.into_list();
                Some(newest)
            }
            Err(spare) => {
                state.spare = spare;
                None
            }
        }
    }

    /// Puts copies into the stream, one portion after the other. One alone goes to a copy engine.
    pub(super) fn send_run(&self, state: &mut State, run: Run) {
        self.pin_ends(state);
        if !self.status.is_halted() {
            let sent = self.device.enter().map(|_here| {
                for portion in run.portions() {
                    self.note(run.first(), self.send_portion(portion, run.way()));
                }
            });
            self.note(run.first(), sent);
        }
        state.spare = run.into_list();
    }

    fn send_portion(&self, portion: &[Entry], way: Option<Way>) -> Result<()> {
        match (portion, way) {
            ([copy], _) => self.copy_row(copy.dst as usize, copy.src as usize, copy.len as usize),
            (_, Some(way)) => self.send(portion, way),
            (_, None) => Ok(()),
        }
    }

    /// Keeps a small copy in the backlog, with its neighbours if there are any.
    pub(super) fn keep_small(state: &mut State, way: Way, copy: Entry) {
        let ticket = state.backlog.last();
        if let Some(Work::Copies(run)) = state.backlog.newest()
            && run.add(ticket, way, copy)
        {
            return;
        }
        let mut run = Run::default();
        run.add(ticket, way, copy);
        state.backlog.keep(Work::Copies(run));
    }

    /// Something is about to come into the stream: points at its end need events.
    pub(super) fn pin_ends(&self, state: &mut State) {
        // The newest first: its event will do for the others.
        while let Some(point) = state.ends.pop() {
            if let Some(point) = point.upgrade() {
                point.pin(|| self.event(state, point.ticket(), point.ticket(), false));
            }
        }
    }

    /// Puts a point at the end of the stream as it is now. It gets an event when it needs one: most are waited for at once. Where
    /// others put work into the stream it needs one now.
    pub(super) fn end_at(&self, state: &mut State, point: &Arc<Point>) {
        if let Some((_, event)) = state.tail.as_ref().filter(|(tail, _)| *tail >= point.ticket()) {
            return point.put_at(event.clone());
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
        point.put_at_end();
    }
}

/// The one row that a plan is.
#[inline]
fn one_row(plan: &Plan) -> Option<(usize, usize, usize)> {
    match plan.pieces() {
        Pieces::Rows([rows]) if rows.height == 1 => Some((rows.dst, rows.src, rows.width)),
        Pieces::Lines([line]) => Some((line.dst, line.src, line.len)),
        _ => None,
    }
}
