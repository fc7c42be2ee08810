//! Fences over CUDA events, and over the end of a stream.
//!
//! A fence that is taken while its queue is blocked has no event yet: it gets one when the queue comes to it.
//! Most fences are taken at the end of a stream and waited for at once: those get an event only when other
//! work comes behind them.

use crate::cuda::{order::progress::StreamProgress, stream::doorbell::Completion, stream::events::Event};
use crate::pool::Job;
use ferry_core::{
    Fence, Kind, Mark, Point, Result, Ticket,
    sync::{Arc, AtomicBool, Condvar, Mutex, Ordering, lock},
};
use std::{
    any::Any,
    hint, mem, thread,
    time::{Duration, Instant},
};

/// How often a thread that waits for the end of a stream asks whether the stream is idle, before it has an
/// event put there: most work is done by then, and the event is saved.
const END_LOOKS: u32 = 32;

/// The fence that the core holds.
pub struct CudaFence(pub Arc<StreamPoint>);

/// "The lane has passed this ticket", and, for a mark, when.
pub struct StreamPoint {
    progress: Arc<StreamProgress>,
    ticket: Ticket,
    timed: bool,
    /// Stands for what other libraries put into the stream as well, which has no tickets: the event alone
    /// decides.
    whole: bool,
    /// Of a mark: set when it is passed with a failure pending.
    failed: Option<Arc<AtomicBool>>,
    position: Mutex<Position>,
    moved: Condvar,
}

/// Where a point is in its CUDA stream.
enum Position {
    /// Behind something that the host has to do first. The jobs run when that is over.
    Backlogged(Vec<Job>),
    /// At the end of the stream, where nothing has come behind it: it is done when the stream is idle, or
    /// when the doorbell has rung, by the last kernel or by a number that the stream writes there.
    AtEnd(Option<Completion>),
    /// In the stream, where this event is.
    Recorded(Arc<Event>),
    /// There is no event, since the driver refused one or the work before it was dropped: the point is done
    /// when the stream is idle, and it is not known since when.
    Lost,
}

/// What a wait for a point has tried already.
#[derive(Default)]
struct Patience {
    /// The driver was asked whether the stream is idle, since it may have been so for long.
    has_asked: bool,
    /// The doorbell did not ring in time, or there is none.
    is_over: bool,
}

/// What another queue has to do to wait for a point.
pub enum WaitBy {
    /// Nothing: it is done.
    Passed,
    /// Let its stream wait for this event.
    Event(Arc<Event>),
    /// Ask again when the job given has run.
    Later,
    /// Poll: there is no event.
    Polling,
}

impl StreamPoint {
    /// A point that is not in its stream yet.
    pub fn new(progress: &Arc<StreamProgress>, ticket: Ticket, timed: bool) -> Arc<StreamPoint> {
        let failed = timed.then(Arc::default);
        Arc::new(StreamPoint {
            timed,
            failed,
            ..StreamPoint::at(progress, ticket, Position::Backlogged(Vec::new()))
        })
    }

    /// A point behind everything in a shared stream, which this event marks.
    pub fn whole(progress: &Arc<StreamProgress>, ticket: Ticket, event: Arc<Event>) -> Arc<StreamPoint> {
        Arc::new(StreamPoint { whole: true, ..StreamPoint::at(progress, ticket, Position::Recorded(event)) })
    }

    fn at(progress: &Arc<StreamProgress>, ticket: Ticket, position: Position) -> StreamPoint {
        StreamPoint {
            progress: progress.clone(),
            ticket,
            timed: false,
            whole: false,
            failed: None,
            position: Mutex::new(position),
            moved: Condvar::new(),
        }
    }

    fn has_passed(&self) -> bool {
        !self.whole && self.progress.passed() >= self.ticket
    }

    /// Whether another stream can wait for it without help of the host. If so that stays true: at the end of
    /// its stream a point may be refused an event, so it gets one now.
    pub fn is_in_stream(&self) -> bool {
        if self.has_passed() {
            return true;
        }
        self.pin(|| self.progress.record());
        matches!(&*lock(&self.position), Position::Recorded(_))
    }

    /// The op it stands behind.
    pub fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// Whether it remembers when it was reached.
    pub fn is_timed(&self) -> bool {
        self.timed
    }

    /// The lane has put the point into its stream, or could not. Called once.
    pub fn put(&self, event: Result<Arc<Event>>) -> Result<()> {
        event.map(|event| self.put_at(event)).inspect_err(|_| self.lose())
    }

    /// The point is where this event is. Called instead of [`put`](Self::put).
    pub fn put_at(&self, event: Arc<Event>) {
        self.move_to(Position::Recorded(event));
    }

    /// The point is at the end of its stream, and the lane will [`pin`](Self::pin) it before anything comes
    /// behind it. Called instead of [`put`](Self::put).
    pub fn put_at_end(&self, completion: Option<Completion>) {
        self.move_to(Position::AtEnd(completion));
    }

    /// Something is about to come behind a point that may be at the end of its stream: from here on it is
    /// where the event is that `record` makes there. A thread may be waiting for the whole stream already,
    /// and waits little longer than needed.
    pub fn pin(&self, record: impl FnOnce() -> Result<Arc<Event>>) {
        let mut position = lock(&self.position);
        if let Position::AtEnd(_) = *position {
            *position = record().map_or(Position::Lost, Position::Recorded);
        }
    }

    /// The work before the point was dropped, or its place cannot be marked. Called instead of
    /// [`put`](Self::put).
    pub fn lose(&self) {
        self.move_to(Position::Lost);
    }

    fn move_to(&self, position: Position) {
        if let Position::Backlogged(jobs) = mem::replace(&mut *lock(&self.position), position) {
            jobs.into_iter().for_each(|job| job());
        }
        self.moved.notify_all();
    }

    /// Has the mark remember whether a failure is pending when it is passed.
    pub fn watch_failures(&self) {
        if let Some(failed) = &self.failed {
            self.progress.mark(self.ticket, failed);
        }
    }

    /// How another queue waits for this point. If it has to ask again it is told by what `job` makes, which
    /// neither blocks nor calls the driver.
    pub fn wait_in_stream(&self, job: impl FnOnce() -> Result<Job>) -> Result<WaitBy> {
        if self.has_passed() {
            return Ok(WaitBy::Passed);
        }
        // Another lane cannot ask this one, which may be asking it: the event may come to stand behind later
        // work of the device.
        self.pin(|| self.progress.record());
        Ok(match &mut *lock(&self.position) {
            Position::Backlogged(jobs) => {
                jobs.push(job()?);
                WaitBy::Later
            }
            Position::Recorded(event) => WaitBy::Event(event.clone()),
            Position::AtEnd(_) | Position::Lost => WaitBy::Polling,
        })
    }

    fn is_done(&self) -> bool {
        if self.has_passed() {
            return true;
        }
        let reached = match &*lock(&self.position) {
            Position::Backlogged(_) => return false,
            Position::Recorded(event) => event.is_reached(),
            Position::AtEnd(Some(kernel)) if kernel.is_done() => Ok(true),
            Position::AtEnd(_) | Position::Lost => self.progress.stream.is_idle(),
        };
        self.is_over(reached)
    }

    /// Tells the lane what came of asking the driver whether the point was reached, and says whether it is
    /// done.
    fn is_over(&self, reached: Result<bool>) -> bool {
        match reached {
            Ok(false) => return false,
            Ok(true) => {}
            Err(error) => {
                self.progress.stream.doubt();
                self.progress.fail(self.ticket, self.progress.about(self.ticket, &error));
            }
        }
        self.progress.pass(self.ticket);
        true
    }

    /// Waits for the doorbell of a point at the end of its stream, but no longer than until the deadline, and
    /// says whether it has rung. Else the driver is to be asked: there may be none, the work may have failed
    /// or take long, and by then there may be more in the stream, and an event before that.
    fn hears(&self, patience: &mut Patience, deadline: Option<Instant>) -> bool {
        let mut position = lock(&self.position);
        let Position::AtEnd(completion) = &mut *position else { return false };
        if completion.is_none() && self.progress.may_be_idle() && !patience.has_asked {
            patience.has_asked = true;
            drop(position);
            return self.is_over(self.progress.stream.is_idle());
        }
        // With the lock held, so that it is there before anything comes behind the point.
        let heard = completion.or_else(|| self.ring());
        *completion = heard;
        drop(position);
        patience.is_over = true;
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let has_rung = heard.is_some_and(|heard| heard.wait(left.unwrap_or(Duration::MAX)));
        has_rung && self.is_over(Ok(true))
    }

    /// Has the stream ring behind all that is in it, if it can.
    fn ring(&self) -> Option<Completion> {
        let stream = &self.progress.stream;
        stream.ring(&stream.device().enter().ok()?)
    }

    /// Waits as long as it takes. The driver says by itself what came of the wait, so it is not asked again.
    fn wait(&self) {
        let (mut turn, mut patience) = (0, Patience::default());
        while !self.has_passed() {
            if !patience.is_over && self.hears(&mut patience, None) {
                return;
            }
            let position = lock(&self.position);
            let reached = match &*position {
                Position::Backlogged(_) => {
                    drop(self.moved.wait(position));
                    continue;
                }
                Position::AtEnd(_) if !patience.is_over => continue,
                Position::AtEnd(Some(_)) => {
                    drop(position);
                    // It goes on listening if the work has not failed.
                    patience.is_over = false;
                    self.progress.stream.is_idle()
                }
                Position::AtEnd(_) if turn < END_LOOKS => {
                    drop(position);
                    turn += 1;
                    self.progress.stream.is_idle()
                }
                Position::AtEnd(_) => {
                    drop(position);
                    // Not the whole stream: before the driver has begun to wait for that, another thread may
                    // have put something into it that never ends.
                    self.pin(|| self.progress.record());
                    continue;
                }
                Position::Recorded(event) => {
                    let event = event.clone();
                    drop(position);
                    event.wait().map(|()| true)
                }
                Position::Lost => {
                    drop(position);
                    pause(&mut turn, None);
                    self.progress.stream.is_idle()
                }
            };
            if self.is_over(reached) {
                return;
            }
        }
    }

    /// Waits some for the point to come nearer, but not beyond the deadline.
    fn wait_some(&self, turn: &mut u32, deadline: Instant) {
        let left = deadline.saturating_duration_since(Instant::now());
        let position = lock(&self.position);
        if let Position::Backlogged(_) = &*position {
            drop(self.moved.wait_timeout(position, left));
            return;
        }
        drop(position);
        pause(turn, Some(left));
    }

    /// Runs `then` once the point is done, on another thread if there is one.
    pub fn when_done(self: &Arc<Self>, then: Job) {
        let StreamProgress { watcher, stream, .. } = &*self.progress;
        let point = self.clone();
        if let Err(then) = watcher.add(&stream.device().pool, move || point.is_done(), then) {
            self.wait();
            then();
        }
    }

    /// The event of a mark that is done. What comes behind it may have been heard of before the driver has
    /// seen the event itself, which is a moment away.
    fn reached_event(&self) -> Option<Arc<Event>> {
        let event = match &*lock(&self.position) {
            Position::Recorded(event) if self.timed => event.clone(),
            _ => return None,
        };
        event.wait().ok().map(|()| event)
    }
}

/// The driver cannot wait up to a limit, so we ask again and again: at once at first, then in longer steps.
fn pause(turn: &mut u32, left: Option<Duration>) {
    *turn += 1;
    match *turn {
        ..200 => hint::spin_loop(),
        200..1000 => thread::yield_now(),
        _ => thread::sleep(Duration::from_micros(100).min(left.unwrap_or(Duration::MAX))),
    }
}

impl Fence for CudaFence {
    fn is_done(&self) -> bool {
        self.0.is_done()
    }

    fn wait(&self, limit: Option<Duration>) -> Result<()> {
        let Some(deadline) = limit.and_then(|limit| Instant::now().checked_add(limit)) else {
            self.0.wait();
            return Ok(());
        };
        let (mut turn, mut patience) = (0, Patience::default());
        loop {
            let has_rung = !patience.is_over && self.0.hears(&mut patience, Some(deadline));
            if has_rung || self.is_done() {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(Kind::Timeout.because("the work was not done in time"));
            }
            self.0.wait_some(&mut turn, deadline);
        }
    }

    fn when_done(&self, then: Box<dyn FnOnce() + Send>) {
        if self.is_done() {
            return then();
        }
        self.0.when_done(then);
    }

    fn point(&self) -> Option<Point> {
        self.0.progress.status.point(self.0.ticket)
    }

    fn native(&self) -> &dyn Any {
        self
    }
}

impl Mark for CudaFence {
    fn failed(&self) -> bool {
        self.0.failed.as_ref().is_some_and(|failed| failed.load(Ordering::Acquire))
    }

    fn reached_us(&self) -> Option<u64> {
        if !self.is_done() {
            return None;
        }
        Some((self.0.reached_event()?.ms()? * 1000.0) as u64)
    }

    fn elapsed_ms(&self, since: &dyn Mark) -> Option<f64> {
        let (end, start) = (&self.0, of_cuda(since)?);
        let one_device = Arc::ptr_eq(end.progress.stream.device(), start.progress.stream.device());
        if !(one_device && end.is_done() && start.is_done()) {
            return None;
        }
        end.reached_event()?.ms_since(&*start.reached_event()?)
    }
}

/// The point behind a fence, if it is one of ours.
pub fn of_cuda(fence: &dyn Fence) -> Option<&Arc<StreamPoint>> {
    fence.native().downcast_ref::<CudaFence>().map(|fence| &fence.0)
}
