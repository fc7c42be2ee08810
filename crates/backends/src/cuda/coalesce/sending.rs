//! Small copies of a lane: gathered when they are submitted, and put into the stream together.
//!
//! Whoever submits one takes the lock of the window alone. Whoever puts anything into the stream holds the lane's state, and sends
//! what was gathered first; meanwhile the window fills again.

use crate::bytes::overlap::is_overlapping;
use crate::cuda::{
    coalesce::gather::{Gather, Run, Sort, Taken},
    coalesce::sender::Gathers,
    descriptors::sealed::SealedOp,
    order::backlog::{Backlog, Span},
    order::fence::StreamPoint,
    order::queue::{Lane, State},
    stream::planner::Way,
    stream::ring::Entry,
};
use ferry_core::{
    Indirect, Op, Pieces, Plan, Result, Route, Rows, Segment, Ticket,
    sync::{Arc, MutexGuard, lock, spin_loop},
};
use std::{mem, sync::TryLockError};

/// How often a lock is tried before the thread sleeps: a launch takes some microseconds, and to be woken takes more.
const TRIES: u32 = 200;

/// What waits in the backlog of a lane.
pub enum Work {
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

    fn try_send(self: &Arc<Self>) -> usize {
        self.try_state().map_or(0, |mut state| self.let_go(&mut state))
    }
}

impl Lane {
    /// The way a copy of this route goes, as seen from this lane's device.
    pub fn way(&self, route: Route) -> Way {
        match route {
            Route::HostToDevice { to } if to == self.id => Way::In,
            Route::DeviceToHost { from } if from == self.id => Way::Out,
            Route::DeviceToDevice { from, to } if from == self.id && to == self.id => Way::Within,
            _ => Way::Across,
        }
    }

    /// The way of all pieces, if it is one that kernels can go.
    pub fn way_of_all(&self, plan: &Plan) -> Option<Way> {
        Some(self.way(plan.route())).filter(|way| *way != Way::Across && plan.has_one_route())
    }

    /// A copy that may be gathered: one small row between memory that is known and within reach, with ends that do not overlap.
    #[inline(always)]
    pub fn small(&self, op: &Op) -> Option<(Way, Entry)> {
        let Op::Copy(plan) = op else { return None };
        one_row(plan).filter(|_| !plan.is_plain()).and_then(|line| self.small_segment(line, plan.route()))
    }

    /// The same for one row between memory that is known.
    #[inline(always)]
    pub fn small_segment(&self, Segment { dst, src, len }: Segment, route: Route) -> Option<(Way, Entry)> {
        let way = self.way(route);
        let fits =
            len <= self.device.constants.gather_most && way != Way::Across && !is_overlapping(dst, src, len);
        fits.then_some((way, Entry { dst: dst as u64, src: src as u64, len: len as u64 }))
    }

    /// Submits a small copy: gathers it if there is something to wait for. It is sent soon, whatever its submitter does next.
    #[inline(always)]
    pub fn push_small(self: &Arc<Self>, way: Way, copy: Entry, op: impl FnOnce() -> Op) -> Ticket {
        let offer = || {
            self.gather.offer(
                Sort::Copies(way),
                || self.status.passed(),
                |run, ticket| run.add(ticket, way, copy),
            )
        };
        self.gathered(offer).unwrap_or_else(|| self.push_behind(op(), Some((way, copy))))
    }

    /// Submits a copy through a descriptor, in the same way.
    pub fn push_sealed(self: &Arc<Self>, at: usize, through: Box<Indirect>) -> Ticket {
        let mut left = Some(through);
        let take = |left: &mut Option<Box<Indirect>>| left.take().expect("it is added once");
        let offer = || {
            // Expected before anybody can send it.
            let mut ledger = lock(&self.ledger);
            self.gather.offer(
                Sort::Sealed,
                || self.status.passed(),
                |run, ticket| {
                    let through = take(&mut left);
                    run.add_sealed(SealedOp { ticket, at, key: through.resolver.seal_key() });
                    ledger.expect(ticket, at, through);
                },
            )
        };
        let gathered = self.gathered(offer);
        gathered.unwrap_or_else(|| self.push_behind(Op::CopyThrough(take(&mut left)), None))
    }

    #[inline(always)]
    fn gathered(self: &Arc<Self>, mut offer: impl FnMut() -> Taken) -> Option<Ticket> {
        loop {
            match offer() {
                Taken::Yes(ticket, sends) => {
                    if sends {
                        self.try_send();
                    }
                    return Some(ticket);
                }
                Taken::Full => self.flush(),
                Taken::No(asks) => {
                    if asks {
                        self.ask_sender();
                    }
                    return None;
                }
            }
        }
    }

    /// Many copies seem to be in the stream; but nobody may have asked lately how far it is.
    #[cold]
    fn ask_sender(self: &Arc<Self>) {
        if self.is_idle() || !self.device.sender.watch(&self.device.workers, self.clone()) {
            self.gather.leave();
        }
    }

    /// Sends what was gathered.
    pub fn flush(self: &Arc<Self>) {
        self.let_go(&mut self.state());
    }

    /// The lane's state, for somebody who cares how long it takes.
    pub fn state(&self) -> MutexGuard<'_, State> {
        for _ in 0..TRIES {
            if let Some(state) = self.try_state() {
                return state;
            }
            spin_loop();
        }
        lock(&self.state)
    }

    pub fn try_state(&self) -> Option<MutexGuard<'_, State>> {
        match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Takes copies into the window if nothing holds the lane, and nobody waits for each of them or shares the stream.
    pub fn open_or_close(&self, backlog: &Backlog<Work, Arc<StreamPoint>>) {
        let is_alone = !self.waited && !self.is_shared;
        self.gather.set_open(is_alone && !backlog.is_held());
    }

    /// Puts what was gathered into the stream, or into the backlog of a lane that is held, and says how many bytes these are. Everybody
    /// who puts something else there does this first.
    pub fn let_go(self: &Arc<Self>, state: &mut State) -> usize {
        match self.gather.take(mem::take(&mut state.spare)) {
            Ok(run) => {
                let bytes = run.bytes();
                state.backlog.reach(run.last());
                if state.backlog.is_held() {
                    state.backlog.keep(Work::Copies(run));
                } else {
                    self.send_run(state, run);
                }
                bytes
            }
            Err(spare) => {
                state.spare = spare;
                0
            }
        }
    }

    /// Drops what was gathered, and says which was the newest op of it.
    pub fn drop_gathered(&self, state: &mut State) -> Option<Ticket> {
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

    /// Puts copies into the stream. If that takes no more of them the lane is held, and the others wait in front of the backlog: false.
    pub fn send_run(self: &Arc<Self>, state: &mut State, mut run: Run) -> bool {
        self.pin_ends(state);
        self.keep_up(state, run.first() - 1);
        let is_wanted = !self.status.is_halted();
        let sent =
            if is_wanted { self.device.enter().map(|_here| self.send_some(&mut run)) } else { Ok(true) };
        let is_sent = sent.unwrap_or_else(|error| {
            self.fail(run.first(), error);
            true
        });
        if is_sent {
            state.spare = run.into_list();
        } else {
            self.hold_up(state, run.first());
            state.backlog.again(run.first(), Work::Copies(run));
        }
        is_sent
    }

    /// Sends copies, one portion after the other, until the stream takes no more. Whether these were all; else the others are left.
    fn send_some(&self, run: &mut Run) -> bool {
        match run.sort() {
            Some(Sort::Copies(way)) => {
                let portions = run.portions().take_while(|_| !self.is_full());
                let sent = portions.map(|portion| {
                    self.note(run.first(), self.send_portion(portion, way));
                    portion.len()
                });
                let sent = sent.sum();
                run.leave_out(sent)
            }
            Some(Sort::Sealed) if self.is_full() => false,
            Some(Sort::Sealed) => {
                self.note(run.first(), self.send_sealed(run.sealed()));
                true
            }
            None => true,
        }
    }

    /// One alone goes to a copy engine.
    fn send_portion(&self, portion: &[Entry], way: Way) -> Result<()> {
        match portion {
            [copy] => self.copy_alone(*copy, way),
            _ => self.send(portion, way),
        }
    }

    /// Keeps the newest op in the backlog. What can be gathered is, with its neighbours if there are any.
    pub fn keep(&self, state: &mut State, op: Op, small: Option<(Way, Entry)>) {
        let ticket = state.backlog.last();
        match (op, small) {
            (_, Some((way, copy))) => {
                Lane::run_for(state, Sort::Copies(way), |run| run.add(ticket, way, copy));
            }
            (Op::CopyThrough(through), None) => match self.sealed_at(&through) {
                Some(at) => {
                    let op = self.expect_sealed(ticket, at, through);
                    Lane::run_for(state, Sort::Sealed, |run| run.add_sealed(op));
                }
                None => state.backlog.keep(Work::Op(Op::CopyThrough(through))),
            },
            (op, None) => state.backlog.keep(Work::Op(op)),
        }
    }

    /// Adds the newest op to the run at the end of the backlog, or to a new one there.
    fn run_for(state: &mut State, sort: Sort, add: impl FnOnce(&mut Run)) {
        match state.backlog.newest() {
            Some(Work::Copies(run)) if run.has_room(sort) => add(run),
            _ => {
                let mut run = Run::default();
                add(&mut run);
                state.backlog.keep(Work::Copies(run));
            }
        }
    }

    /// While a run of descriptors waited it may have become the host's to read them: then they are ops of their own again, in front
    /// of the backlog. False if not.
    pub fn take_apart(&self, state: &mut State, run: &Run) -> bool {
        let mut ledger = lock(&self.ledger);
        let mut is_any = false;
        for op in run.sealed().iter().rev() {
            let Some(through) = ledger.take_back(op.ticket, |through| self.sealed_at(through).is_none())
            else {
                break;
            };
            state.backlog.again(op.ticket, Work::Op(Op::CopyThrough(through)));
            is_any = true;
        }
        is_any
    }
}

/// The one row that a plan is.
#[inline]
fn one_row(plan: &Plan) -> Option<Segment> {
    match plan.pieces() {
        Pieces::Rows([Rows { dst, src, width: len, height: 1, .. }]) => {
            Some(Segment { dst: *dst, src: *src, len: *len })
        }
        Pieces::Segments([line]) => Some(*line),
        _ => None,
    }
}
