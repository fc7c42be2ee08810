//! The host's part of the work of a lane: functions of the user's, copies of pageable memory, reads and
//! writes by the CPU. The lane is blocked until it is done, and carries on from the thread that did it.

use crate::cuda::{
    driver::{self, Code, Current, StreamCallback},
    order::backlog::HostPart,
    order::lane::Lane,
    order::task::{LaunchTurn, Next},
    stream::Stream,
};
use crate::pool::{Job, ThreadReservation};
use ferry_core::{Kind, Result, Ticket, fence::survives, sync::Arc};

/// Runs `work` on a thread of the pool when the stream has done all that came before; it puts its own part
/// into the stream.
pub fn at_once(
    turn: &LaunchTurn<'_>,
    work: impl FnOnce(&Arc<Stream>, &Current<'_>) -> Result<()> + Send + 'static,
) -> Result<Next> {
    let (lane, ticket) = (turn.lane.clone(), turn.ticket);
    turn.stream().device().pool.run(Box::new(move || {
        if lane.begin(ticket) {
            lane.progress.status.tell(ticket, |observer, op| observer.begun(op, false));
            lane.progress.status.tell(ticket, |observer, op| observer.suspended(op));
            let done = lane.stream().device().enter().and_then(|current| {
                lane.wait_before(ticket, &current)?;
                work(lane.stream(), &current)
            });
            lane.progress.note(ticket, done);
        }
        lane.resume(ticket);
    }))?;
    Ok(Next::Blocked(HostPart::Bytes))
}

/// Has the CPU move bytes when the stream gets here: the submitting thread if it waits at once anyhow, else
/// one of the pool.
pub fn move_bytes(turn: &LaunchTurn<'_>, work: impl FnOnce() -> Result<()> + Send + 'static) -> Result<Next> {
    if turn.stream().is_waited_for() {
        turn.wait_for_stream()?;
        work()?;
        turn.pass();
        return Ok(Next::Follows);
    }
    let (progress, ticket) = (turn.progress().clone(), turn.ticket);
    when_reached(turn, HostPart::Bytes, move || {
        progress.note(ticket, work());
        if progress.status.is_observed() {
            // It ends now, and not when somebody asks.
            progress.pass(ticket);
        }
    })
}

/// Runs `work` on a thread of the pool when the stream gets here.
pub fn when_reached(
    turn: &LaunchTurn<'_>,
    part: HostPart,
    work: impl FnOnce() + Send + 'static,
) -> Result<Next> {
    let (stream, ticket) = (turn.stream(), turn.ticket);
    // Reserved here, where a refusal can be reported: the driver's callback could only end the process.
    let thread = match stream.device().pool.reserve() {
        Ok(thread) => thread,
        Err(error) => {
            turn.lane.discard(Some(Box::new(work)));
            return Err(error);
        }
    };
    let work = Box::new(HostWork { lane: turn.lane.clone(), ticket, part, work: Box::new(work), thread });
    if turn.lane.is_reached(ticket) || stream.is_idle() == Ok(true) {
        work.reached(driver::SUCCESS);
        return Ok(Next::Blocked(part));
    }
    match stream.call_back(turn.current, work) {
        Ok(()) => Ok(Next::Blocked(part)),
        Err((why, work)) => {
            turn.lane.discard(Some(work.work));
            Err(why)
        }
    }
}

/// Work for the host that a stream comes upon.
struct HostWork {
    lane: Arc<Lane>,
    ticket: Ticket,
    part: HostPart,
    work: Job,
    /// Does the work.
    thread: ThreadReservation,
}

impl StreamCallback for HostWork {
    fn reached(self: Box<Self>, code: Code) {
        let HostWork { lane, ticket, part, work, thread } = *self;
        thread.run(Box::new(move || HostWork::run(&lane, ticket, part, work, code)));
    }
}

impl HostWork {
    fn run(lane: &Arc<Lane>, ticket: Ticket, part: HostPart, work: Job, code: Code) {
        let progress = &lane.progress;
        progress.note(ticket, lane.stream().device().check("the GPU's work", code));
        // Reported before the part begins: from then on there is no other way to know.
        progress.pass(ticket - 1);
        let is_wanted = lane.begin(ticket);
        let status = progress.status.clone();
        let run = move || {
            if is_wanted {
                status.tell(ticket, |observer, op| observer.begun(op, false));
                status.tell(ticket, |observer, op| observer.suspended(op));
                work()
            }
        };
        if !survives(run) {
            progress.fail(ticket, Kind::Device.because("a function of the user's panicked"));
        }
        if part == HostPart::Call {
            // Nothing of it is in the stream, so the next one need not ask there.
            progress.pass(ticket);
        }
        lane.resume(ticket);
    }
}
