//! The host's part of the work of a lane: users' functions, copies of pageable memory, waits for somebody else's fence. The lane
//! is held until it is done.

use crate::cuda::{
    coalesce::sending::Work,
    driver::{self, Code, StreamCallback},
    order::backlog::Part,
    order::fence::{Wait, of_cuda},
    order::queue::{Lane, Next},
};
use crate::pool::{Job, ThreadReservation};
use ferry_core::{
    Fence, Kind, Op, Result, Ticket,
    fence::survives,
    sync::{Arc, Mutex, lock},
};

impl Lane {
    /// Runs `work` on a thread of its own at once; it puts its own part into the stream.
    pub fn aside(
        self: &Arc<Self>,
        ticket: Ticket,
        work: impl FnOnce(&Arc<Lane>) -> Result<()> + Send + 'static,
    ) -> Result<Next> {
        let lane = self.clone();
        self.device.workers.run(Box::new(move || {
            if lane.begin(ticket) {
                let done = lane.device.enter().and_then(|_here| work(&lane));
                lane.note(ticket, done);
            }
            lane.resume(ticket);
        }))?;
        Ok(Next::IsHeld(Part::Bytes))
    }

    /// Has the host move bytes when the stream gets here: whoever submits, if he waits at once, else a thread of its own.
    pub fn by_host(
        self: &Arc<Self>,
        ticket: Ticket,
        work: impl FnOnce() -> Result<()> + Send + 'static,
    ) -> Result<Next> {
        if !self.waited {
            let lane = self.clone();
            return self.when_reached(ticket, Part::Bytes, move || lane.note(ticket, work()));
        }
        self.current().synchronize(self.stream, "the GPU's work")?;
        work().map(|()| Next::Follows)
    }

    /// Runs `work` on a thread of its own when the stream gets here.
    pub fn when_reached(
        self: &Arc<Self>,
        ticket: Ticket,
        part: Part,
        work: impl FnOnce() + Send + 'static,
    ) -> Result<Next> {
        let work = Box::new(work);
        // Reserved here, where a refusal can be reported: the driver's callback could only end the process.
        let thread = match self.device.workers.reserve() {
            Ok(thread) => thread,
            Err(error) => {
                self.discard(Op::Call(work));
                return Err(error);
            }
        };
        let visit = Box::new(Visit { lane: self.clone(), ticket, part, work, thread });
        if self.status.passed() + 1 >= ticket || self.is_empty() == Ok(true) {
            visit.start(driver::SUCCESS);
            return Ok(Next::IsHeld(part));
        }
        match self.current().call_back(self.stream, visit) {
            Ok(()) => Ok(Next::IsHeld(part)),
            Err((why, visit)) => {
                self.discard(Op::Call(visit.work));
                Err(why)
            }
        }
    }

    /// Lets the stream wait for the fences, one after the other, and then do the op if there is one.
    pub fn wait_for(
        self: &Arc<Self>,
        ticket: Ticket,
        mut fences: Vec<Arc<dyn Fence>>,
        then: Option<Op>,
    ) -> Result<Next> {
        let Some(fence) = fences.pop() else {
            return then.map_or(Ok(Next::Follows), |op| self.try_launch(ticket, op));
        };
        // Whoever goes on takes what is left to do: this call, or the job that looks again.
        let left = Arc::new(Mutex::new(Some((fences, then))));
        let take = |left: &Mutex<Option<_>>| lock(left).take().expect("taken once");
        let (lane, later, same) = (self.clone(), left.clone(), fence.clone());
        let again = move || {
            let thread = lane.device.workers.reserve()?;
            let look_again = move || {
                let (mut fences, then): (Vec<_>, _) = take(&later);
                fences.push(same);
                lane.wait_again(ticket, fences, then);
            };
            Ok(Box::new(move || thread.run(Box::new(look_again))) as Job)
        };
        match of_cuda(&*fence).map_or(Ok(Wait::UntilDone), |point| point.wait_in_stream(again))? {
            Wait::Passed => {}
            Wait::For(event) => {
                event.hold(self.stream)?;
                self.crowd.comes_behind(event);
            }
            Wait::Later => return Ok(Next::IsHeld(Part::Wait)),
            Wait::UntilDone => {
                let (lane, thread) = (self.clone(), self.device.workers.reserve()?);
                let (fences, then) = take(&left);
                fence.when_done(Box::new(move || {
                    thread.run(Box::new(move || lane.wait_again(ticket, fences, then)));
                }));
                return Ok(Next::IsHeld(Part::Wait));
            }
        }
        let (fences, then) = take(&left);
        self.wait_for(ticket, fences, then)
    }

    /// What held the lane is done, or has come into its stream: goes on with what is left.
    fn wait_again(self: Arc<Self>, ticket: Ticket, mut fences: Vec<Arc<dyn Fence>>, then: Option<Op>) {
        let mut state = lock(&self.state);
        if !state.backlog.is_held_by(ticket) {
            return;
        }
        let next = match (fences.len(), then) {
            (_, Some(op)) => Some(Op::After(Box::new((fences, op)))),
            (0, None) => None,
            (_, None) => fences.pop().map(Op::Wait),
        };
        if let Some(op) = next {
            state.backlog.again(ticket, Work::Op(op));
        }
        drop(state);
        self.resume(ticket);
    }
}

/// Work for the host that a stream comes upon.
struct Visit {
    lane: Arc<Lane>,
    ticket: Ticket,
    part: Part,
    work: Job,
    /// Does the work.
    thread: ThreadReservation,
}

impl StreamCallback for Visit {
    fn reached(self: Box<Self>, code: Code) {
        self.start(code);
    }
}

impl Visit {
    fn start(self, code: Code) {
        let Visit { lane, ticket, part, work, thread } = self;
        thread.run(Box::new(move || Visit::run(&lane, ticket, part, work, code)));
    }

    fn run(lane: &Arc<Lane>, ticket: Ticket, part: Part, work: Job, code: Code) {
        lane.note(ticket, lane.device.check("the GPU's work", code));
        // Said before the part begins: from then on there is no other way to know.
        lane.settle(ticket - 1);
        let is_wanted = lane.begin(ticket);
        let run = move || {
            if is_wanted {
                work()
            }
        };
        if !survives(run) {
            lane.fail(ticket, Kind::Device.because("a function of the user's panicked"));
        }
        if part == Part::Call {
            // Nothing of it is in the stream, so the next one need not ask there.
            lane.settle(ticket);
        }
        lane.resume(ticket);
    }
}
