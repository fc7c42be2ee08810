//! A stream: a queue of one device, the lock that orders its submissions, and its status.

use crate::{
    DeviceId, Ends, Error, Fence, Footprint, Gate, Indirect, JoinKind, Linear, Mark, Memory, Observer,
    Observers, Op, Place, Plan, Point, Recorder, Result, Seen, Status, Ticket,
    indirect::{DESCRIPTOR_LEN, Through},
    submissions::{FunctionOf, NestedWork, StreamState, Submitted},
    sync::{Arc, MutexGuard, Weak, lock},
    uses::Touched,
};
use std::time::Duration;

/// What submitting returns in place of a ticket where the work was recorded: every stream has passed it.
pub const RECORDED: Ticket = 0;

/// Runs work in the order it was submitted. Streams run side by side unless an event orders them.
pub struct Stream {
    pub(crate) id: u64,
    pub(crate) device: DeviceId,
    pub(crate) state: Arc<StreamState>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) observers: Option<Arc<Observers>>,
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.tell(|observer| observer.stream_gone(self.id));
    }
}

impl Stream {
    /// The number that observers know this stream by.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The device whose queue this is.
    pub fn device(&self) -> DeviceId {
        self.device
    }

    /// What the stream and its queue share.
    pub fn status(&self) -> &Status {
        &self.state.status
    }

    /// Submits the op that `make` plans, or has it recorded ([`divert`](Self::divert)). If memory was freed
    /// between planning and submitting, `make` is asked once more, so that no op with addresses of freed
    /// memory is ever queued (and a free that comes later waits for this op before the memory is used again).
    ///
    /// # Safety
    /// Plain host memory in the op stays valid until the stream has passed the returned ticket.
    #[inline]
    pub unsafe fn submit<E: From<Error>>(
        &self,
        make: impl FnMut(&Memory) -> Result<Op, E>,
    ) -> Result<Ticket, E> {
        // SAFETY: passed on from the caller.
        unsafe { self.submit_then(make, |_| ()) }
    }

    /// As [`submit`](Self::submit). `then` is told the ticket under the lock that orders submissions: no two
    /// of them run at once, and they run in the order of their tickets.
    ///
    /// # Safety
    /// As `submit`.
    #[inline]
    pub unsafe fn submit_then<E: From<Error>>(
        &self,
        mut make: impl FnMut(&Memory) -> Result<Op, E>,
        then: impl FnOnce(Ticket),
    ) -> Result<Ticket, E> {
        let table = self.memory.table();
        let mut held = None;
        loop {
            let removals = table.removals();
            let mut op = make(&self.memory)?;
            let mut last = match held.take() {
                // Planned under the lock, an op is current: a free of a block found now checks this stream's
                // state after us.
                Some(last) => last,
                None => {
                    let last = lock(&self.state.submitted);
                    if table.removals() != removals {
                        held = Some(last);
                        continue;
                    }
                    last
                }
            };
            if let Some(recorder) = &last.recorder {
                let footprint = Footprint::of(&op, table);
                if table.removals() == removals {
                    recorder.record(op, footprint)?;
                    return Ok(RECORDED);
                }
                held = Some(last);
                continue;
            }
            let touched = take_touched(&mut op, &self.memory);
            // SAFETY: the plan is current under the lock that is taken before memory is given back, so known
            // memory outlives the op; the caller vouches for plain memory.
            let ticket = unsafe { self.hand_over(&mut last, op)? };
            last.other = ticket;
            if touched != Touched::Nothing {
                last.uses.note(touched, ticket, self.status().passed());
            }
            then(ticket);
            return Ok(ticket);
        }
    }

    /// Submits a contiguous copy of `(dst, src, len)`, if one lookup finds both ends in known blocks and
    /// `fits` agrees, which depends on their homes and origins alone: it is not called again while these and
    /// `rule` are unchanged, and takes no lock. `None` if nothing was submitted: [`submit`](Self::submit)
    /// does it then, or says why not. `then` is told the ticket as in [`submit_then`](Self::submit_then).
    ///
    /// # Safety
    /// As `submit`.
    #[inline(always)]
    pub unsafe fn submit_linear(
        &self,
        ends: (usize, usize, usize),
        rule: i32,
        fits: impl FnOnce(&Ends) -> bool,
        then: impl FnOnce(Ticket),
    ) -> Option<Ticket> {
        let mut last = lock(&self.state.submitted);
        let Submitted { recent, uses, linear, .. } = &mut *last;
        let turn = |bases| uses.note_linear(bases, *linear, self.status().passed());
        let copy = recent.find(ends, rule, self.memory.table(), fits, turn)?;
        if last.is_diverted || self.status().is_halted() {
            // SAFETY: the copy is current, as below.
            return unsafe { self.submit_linear_diverted(last, copy, then) };
        }
        // SAFETY: the copy is current, as it was found under the lock that is taken before memory is given
        // back.
        let ticket = unsafe { self.state.queue.submit_linear(copy) }.ok()?;
        debug_assert_eq!(last.ticket + 1, ticket, "queues number ops and marks in order");
        (last.ticket, last.linear) = (ticket, ticket);
        then(ticket);
        Some(ticket)
    }

    /// Submits a copy through the descriptor at `desc`, for `call`, if one lookup finds that in a block to
    /// which `fits` agrees: it is not asked again for the same block. `None` if nothing was submitted:
    /// [`submit`](Self::submit) does it then, or says why not.
    ///
    /// # Safety
    /// As `submit`.
    #[inline]
    pub unsafe fn submit_descriptor(
        &self,
        call: &'static str,
        desc: usize,
        fits: impl FnOnce(&Memory, &Place) -> bool,
    ) -> Option<Ticket> {
        let mut last = lock(&self.state.submitted);
        let is_plain = !last.is_diverted && !self.memory.is_unified() && !self.status().is_halted();
        let fits = |place: &Place| fits(&self.memory, place);
        let at = last.descriptors.find((desc, DESCRIPTOR_LEN), self.memory.table(), fits);
        let through = Through::Descriptor { at: at.filter(|_| is_plain)?, user: desc };
        let op = Op::CopyThrough(Indirect { call, device: self.device, through });
        // SAFETY: as in `submit_linear`; the caller vouches for what the descriptor says.
        let ticket = unsafe { self.state.queue.submit(op) }.ok()?;
        debug_assert_eq!(last.ticket + 1, ticket, "queues number ops and marks in order");
        (last.ticket, last.other) = (ticket, ticket);
        Some(ticket)
    }

    /// Later work of this stream waits until `fence` is done. Returns the ticket of that wait.
    pub fn wait_for(&self, fence: Arc<dyn Fence>) -> Result<Ticket> {
        let mut last = lock(&self.state.submitted);
        // SAFETY: the op has no addresses.
        unsafe { self.hand_over(&mut last, Op::Wait(fence)) }
    }

    /// Runs `function` on a thread where it may block, in stream order.
    pub fn call(&self, function: impl FnOnce() + Send + 'static) -> Result<Ticket> {
        self.call_then(function, |_| ())
    }

    /// As [`call`](Self::call). `then` is told the ticket as in [`submit_then`](Self::submit_then).
    pub fn call_then(
        &self,
        function: impl FnOnce() + Send + 'static,
        then: impl FnOnce(Ticket),
    ) -> Result<Ticket> {
        let mut last = lock(&self.state.submitted);
        // SAFETY: the op has no addresses.
        let ticket = unsafe { self.hand_over(&mut last, Op::Call(Box::new(function)))? };
        then(ticket);
        Ok(ticket)
    }

    /// As [`call`](Self::call), for a function of the library's own: that it runs tells the program nothing.
    /// It is given the point before it.
    pub fn call_internal(&self, function: impl FnOnce(Point) + Send + 'static) -> Result<Ticket> {
        let mut last = lock(&self.state.submitted);
        let behind = Point { stream: self.id, ticket: last.ticket };
        last.function_of = FunctionOf::Library;
        // SAFETY: the op has no addresses.
        let taken = unsafe { self.hand_over(&mut last, Op::Call(Box::new(move || function(behind)))) };
        last.function_of = FunctionOf::Program;
        taken
    }

    /// Observers learn what a wait for `gate` was for. To be called before the gate is opened.
    pub fn tell_bound(&self, gate: &Gate, to: Option<Point>) {
        self.tell(|observer| observer.bound(gate.number(), to));
    }

    /// # Safety
    /// As [`Queue::submit`](crate::Queue::submit).
    #[inline]
    unsafe fn hand_over(&self, last: &mut Submitted, op: Op) -> Result<Ticket> {
        let ticket = last.ticket + 1;
        last.ticket = if last.is_diverted {
            // SAFETY: passed on from the caller.
            unsafe { self.hand_over_diverted(last, op)? }
        } else if let Some(why) = self.status().refusal() {
            return Err(why);
        } else {
            // SAFETY: passed on from the caller.
            unsafe { self.state.queue.submit(op)? }
        };
        debug_assert_eq!(last.ticket, ticket, "queues number ops and marks in order");
        Ok(ticket)
    }

    /// Refuses the op if the stream is being recorded and this op cannot be; otherwise hands it over before
    /// the eyes of observers.
    ///
    /// # Safety
    /// As `hand_over`.
    #[cold]
    unsafe fn hand_over_diverted(&self, last: &Submitted, op: Op) -> Result<Ticket> {
        if let Some(recorder) = &last.recorder {
            return Err(recorder.refusal());
        }
        let next = Point { stream: self.id, ticket: last.ticket + 1 };
        self.tell(|observer| observer.made(next, Seen::Op(&op)));
        let op = self.told_when_called(last.function_of.told(), last.ticket, op);
        // SAFETY: passed on from the caller.
        let submit = || unsafe { self.state.queue.submit(op) };
        self.tell_taken(next, None, self.status().refusal().map_or_else(submit, Err))
    }

    /// The op; if it is a function, its thread learns that the work up to `before` has passed, in this way.
    fn told_when_called(&self, how: Option<JoinKind>, before: Ticket, op: Op) -> Op {
        let behind = Point { stream: self.id, ticket: before };
        match (op, self.observers.clone(), how) {
            (Op::Call(function), Some(observers), Some(how)) => Op::Call(Box::new(move || {
                observers.tell(|observer| observer.joined(behind, how));
                function();
            })),
            (op, ..) => op,
        }
    }

    /// The fast path with observers. `None` while the stream is recorded, if it has stopped for good, or if
    /// the queue refuses the copy.
    ///
    /// # Safety
    /// The copy is current under the lock.
    #[cold]
    #[inline(never)]
    unsafe fn submit_linear_diverted(
        &self,
        mut last: MutexGuard<'_, Submitted>,
        copy: Linear,
        then: impl FnOnce(Ticket),
    ) -> Option<Ticket> {
        if last.recorder.is_some() || self.status().is_halted() {
            return None;
        }
        let next = Point { stream: self.id, ticket: last.ticket + 1 };
        if self.observers.as_ref().is_some_and(|observers| observers.wants_details()) {
            self.tell(|observer| observer.made(next, Seen::Linear(&copy)));
        }
        // SAFETY: passed on from the caller.
        let taken = unsafe { self.state.queue.submit_linear(copy) };
        let ticket = self.tell_taken(next, Some(&copy), taken).ok()?;
        (last.ticket, last.linear) = (ticket, ticket);
        then(ticket);
        Some(ticket)
    }

    /// Tells observers whether the queue has taken the op.
    fn tell_taken(&self, op: Point, copy: Option<&Linear>, taken: Result<Ticket>) -> Result<Ticket> {
        match &taken {
            Ok(_) => self.tell(|observer| observer.submitted(op, copy)),
            Err(why) => self.tell(|observer| observer.refused(op, why)),
        }
        taken
    }

    /// Tells observers, if there are any.
    #[inline]
    pub(crate) fn tell(&self, what: impl Fn(&dyn Observer)) {
        if let Some(observers) = &self.observers {
            observers.tell(what);
        }
    }

    /// The calling thread has learnt that the op `ticket` and all before it have passed: observers are told.
    #[inline]
    pub fn tell_joined(&self, ticket: Ticket, how: JoinKind) {
        self.tell(|observer| observer.joined(Point { stream: self.id, ticket }, how));
    }

    /// From here on `recorder` takes the work that is submitted; with `None` the queue does again. What was
    /// submitted before still runs.
    pub fn divert(&self, recorder: Option<Arc<dyn Recorder>>) {
        let mut last = lock(&self.state.submitted);
        last.is_diverted = recorder.is_some() || self.observers.is_some();
        last.recorder = recorder;
    }

    /// What takes the work of the stream in place of its queue.
    pub fn recorder(&self) -> Option<Arc<dyn Recorder>> {
        lock(&self.state.submitted).recorder.clone()
    }

    /// Submits what `body` does as one: nothing that other threads submit comes between. Returns the newest
    /// ticket. What was submitted before an error of `body` stays.
    pub(crate) fn transact(&self, body: impl FnOnce(&mut Transaction<'_>) -> Result<()>) -> Result<Ticket> {
        let last = lock(&self.state.submitted);
        if let Some(recorder) = &last.recorder {
            return Err(recorder.refusal());
        }
        let mut transaction = Transaction { stream: self, last };
        body(&mut transaction)?;
        Ok(transaction.last.ticket)
    }

    /// A fence after everything submitted so far.
    pub fn fence(&self) -> Result<Arc<dyn Fence>> {
        self.state.queue.fence()
    }

    /// The newest ticket.
    pub fn newest(&self) -> Ticket {
        lock(&self.state.submitted).ticket
    }

    /// A fence for the op `ticket`, which was submitted before.
    pub fn fence_after(&self, ticket: Ticket) -> Arc<dyn Fence> {
        self.state.queue.fence_after(ticket)
    }

    /// Whether the op `ticket` has passed.
    pub fn has_passed(&self, ticket: Ticket) -> bool {
        self.status().passed() >= ticket || self.fence_after(ticket).is_done()
    }

    /// A fence that remembers when it was reached.
    pub fn mark(&self) -> Result<Arc<dyn Mark>> {
        self.put_mark(&mut lock(&self.state.submitted))
    }

    /// A mark, and a wait for the fence that `make` gives for it. Nothing that other threads submit comes
    /// between: the wait has the next ticket.
    pub fn mark_and_wait(&self, make: impl FnOnce(&dyn Mark) -> Arc<dyn Fence>) -> Result<Arc<dyn Mark>> {
        let mut last = lock(&self.state.submitted);
        let mark = self.put_mark(&mut last)?;
        // SAFETY: the op has no addresses.
        unsafe { self.hand_over(&mut last, Op::Wait(make(&*mark)))? };
        Ok(mark)
    }

    fn put_mark(&self, last: &mut Submitted) -> Result<Arc<dyn Mark>> {
        if let Some(recorder) = &last.recorder {
            return Err(recorder.refusal());
        }
        let next = Point { stream: self.id, ticket: last.ticket + 1 };
        self.tell(|observer| observer.made(next, Seen::Mark));
        let marked = self.status().refusal().map_or_else(|| self.state.queue.mark(), Err);
        self.tell_taken(next, None, marked.as_ref().map(|_| next.ticket).map_err(Error::clone))?;
        last.ticket += 1;
        marked
    }

    /// Whether everything submitted so far is done.
    pub fn is_idle(&self) -> Result<bool> {
        let last = lock(&self.state.submitted);
        let (ticket, is_known) = (last.ticket, !last.is_shared && self.status().passed() >= last.ticket);
        drop(last);
        let is_idle = is_known || self.fence()?.is_done();
        if is_idle {
            self.tell_joined(ticket, JoinKind::Query);
            self.state.nested().iter().for_each(|work| work.collect_failures());
        }
        Ok(is_idle)
    }

    /// Shares the stream with other libraries of the process, and says what the backend's driver calls it.
    /// From here on they may put work into it: that comes after what was submitted here before, and nothing
    /// is kept back to be coalesced.
    pub fn share(&self) -> Result<usize> {
        let mut last = lock(&self.state.submitted);
        let native = self.state.queue.share()?;
        last.is_shared = true;
        Ok(native)
    }

    /// The work that was submitted so far, to be waited for.
    pub fn so_far(&self) -> Result<SoFar<'_>> {
        let status = self.status();
        let (behind, fence, nested) = (status.passed(), self.fence()?, self.state.nested());
        Ok(SoFar { behind, status, fence, nested, observers: self.observers.as_deref() })
    }

    /// Waits for everything submitted so far, and reports the first failure that was not reported before.
    pub fn synchronize(&self, limit: Option<Duration>) -> Result<()> {
        self.so_far()?.wait(limit)?;
        self.status().take_error().map_or(Ok(()), Err)
    }

    /// As [`so_far`](Self::so_far), with the op `ticket`, which may have passed: a wait for it fails if that
    /// was dropped.
    pub fn so_far_with(&self, ticket: Ticket) -> Result<SoFar<'_>> {
        Ok(SoFar { behind: ticket.saturating_sub(1), ..self.so_far()? })
    }

    /// Drops all work, and returns when no byte of it moves any more. A function of the user's that runs is
    /// not waited for.
    pub fn abort(&self) {
        // Before anybody is woken: whoever waits learns that this stream has ended, and nothing of what its
        // ops waited for.
        let newest = self.newest();
        self.tell_joined(newest, JoinKind::Abort);
        // What runs on other queues ends first, and this stream is told: otherwise it would pass the op that
        // waits for that work, and its waiters with it, while bytes still move. Told so, it passes what it
        // had to do before that, for which some of that work may wait.
        self.state.nested().iter().for_each(|work| work.mark_dropped_of(&self.state));
        let passed = self.status().passed();
        self.abort_nested(|ticket| {
            let is_unfinished = ticket > passed;
            if is_unfinished {
                self.status().drop_through(ticket);
            }
            is_unfinished
        });
        self.state.nested().iter().for_each(|work| work.tell_ended());
        self.state.queue.abort();
        self.tell_joined(newest, JoinKind::Wait);
        // What came in between was dropped here, and may run there.
        self.abort_nested(|ticket| self.status().is_dropped(ticket));
    }

    /// Aborts the nested work of the ops that are among those.
    fn abort_nested(&self, mut is_meant: impl FnMut(Ticket) -> bool) {
        let mut last = lock(&self.state.submitted);
        let meant: Vec<_> = last.nested.extract_if(.., |(ticket, _)| is_meant(*ticket)).collect();
        // An abort waits for work that may want the lock.
        drop(last);
        meant.iter().filter_map(|(_, work)| work.upgrade()).for_each(|work| work.abort_of(&self.state));
    }
}

/// Several submissions to a stream under its lock.
pub(crate) struct Transaction<'a> {
    stream: &'a Stream,
    last: MutexGuard<'a, Submitted>,
}

impl Transaction<'_> {
    /// Submits an op.
    ///
    /// # Safety
    /// As [`Queue::submit`](crate::Queue::submit). Known memory was found to be there since the transaction
    /// began.
    pub(crate) unsafe fn submit(&mut self, mut op: Op) -> Result<()> {
        let touched = take_touched(&mut op, &self.stream.memory);
        let has_addresses = !matches!(op, Op::Wait(_) | Op::Call(_));
        // SAFETY: passed on from the caller.
        let ticket = unsafe { self.stream.hand_over(&mut self.last, op)? };
        if has_addresses {
            self.last.other = ticket;
        }
        if touched != Touched::Nothing {
            self.last.uses.note(touched, ticket, self.stream.status().passed());
        }
        Ok(())
    }

    /// As [`submit`](Self::submit) for a copy in one piece.
    ///
    /// # Safety
    /// As [`submit`](Self::submit).
    pub(crate) unsafe fn submit_linear(&mut self, copy: Linear, touched: &Touched) -> Result<()> {
        if self.last.is_diverted || self.stream.status().is_halted() {
            // Observers are shown an op.
            // SAFETY: passed on from the caller.
            return unsafe { self.submit(Op::Copy(Plan::from(copy).touching(touched.clone()))) };
        }
        // SAFETY: passed on from the caller.
        let ticket = unsafe { self.stream.state.queue.submit_linear(copy)? };
        (self.last.ticket, self.last.other) = (ticket, ticket);
        if *touched != Touched::Nothing {
            self.last.uses.note(touched.clone(), ticket, self.stream.status().passed());
        }
        Ok(())
    }

    /// Runs a function of the library's own that submits the tasks of a graph.
    pub(crate) fn call_to_launch(&mut self, function: impl FnOnce() + Send + 'static) -> Result<()> {
        self.last.function_of = FunctionOf::Graph;
        // SAFETY: the op has no addresses.
        let taken = unsafe { self.submit(Op::Call(Box::new(function))) };
        self.last.function_of = FunctionOf::Program;
        taken
    }

    /// Later work of the stream waits until `fence` is done.
    pub(crate) fn wait_for(&mut self, fence: Arc<dyn Fence>) -> Result<()> {
        // SAFETY: the op has no addresses.
        unsafe { self.submit(Op::Wait(fence)) }
    }

    /// A fence after everything submitted so far.
    pub(crate) fn fence(&self) -> Result<Arc<dyn Fence>> {
        self.stream.state.queue.fence()
    }

    /// The newest ticket.
    pub(crate) fn newest(&self) -> Ticket {
        self.last.ticket
    }

    /// An abort of this stream aborts `work` as well, unless the newest op so far has passed.
    pub(crate) fn nest(&mut self, work: Weak<dyn NestedWork>) {
        let ticket = self.last.ticket;
        if let Some(known) = self.last.nested.iter_mut().find(|(_, known)| known.ptr_eq(&work)) {
            known.0 = ticket;
            return;
        }
        // Kept when it has passed, too: its failures may not be known yet.
        self.last.nested.retain(|(_, other)| other.strong_count() > 0);
        self.last.nested.push((ticket, work));
    }
}

/// The work of a stream that had been submitted at some moment.
pub struct SoFar<'a> {
    status: &'a Status,
    /// The newest ticket that had passed then.
    behind: Ticket,
    fence: Arc<dyn Fence>,
    /// Work on other queues that ops of the stream wait for.
    nested: Vec<Arc<dyn NestedWork>>,
    observers: Option<&'a Observers>,
}

impl SoFar<'_> {
    /// Waits for it. Every waiter is told of an abort that came before it was done, and of what stopped the
    /// stream for good.
    pub fn wait(&self, limit: Option<Duration>) -> Result<()> {
        let waited = self.fence.wait(limit);
        self.nested.iter().for_each(|work| work.collect_failures());
        if let (Some(observers), Ok(()), Some(point)) = (self.observers, &waited, self.fence.point()) {
            observers.tell(|observer| observer.joined(point, JoinKind::Wait));
        }
        self.status.dropped_behind(self.behind).map_or(waited, Err)
    }
}

/// Which registered memory an op uses. Its plan does not know it any more afterwards.
#[inline]
fn take_touched(op: &mut Op, memory: &Memory) -> Touched {
    match op {
        Op::Copy(plan) => plan.take_touched(),
        Op::After(after) => take_touched(&mut after.1, memory),
        Op::Wait(_) | Op::Call(_) => Touched::Nothing,
        other => look_up_touched(other, memory),
    }
}

#[cold]
fn look_up_touched(op: &mut Op, memory: &Memory) -> Touched {
    let at = |addr| Touched::of(memory.table().find(addr));
    match op {
        // Registered memory has one address, the user's and the engine's.
        Op::Fill(fill) if fill.device.is_none() => at(fill.dst),
        Op::Reduce(reduction) => reduction.take_touched(),
        // Its ends lie in a device: where that is the host, too, they are not known yet.
        Op::CopyThrough(_) if memory.is_unified() => Touched::Unknown,
        Op::CopyThrough(late) => match late.through {
            Through::Descriptor { user, .. } => at(user),
            Through::Cells { dst, src, .. } => {
                let mut both = at(dst.user);
                both.join(at(src.user));
                both
            }
        },
        _ => Touched::Nothing,
    }
}
