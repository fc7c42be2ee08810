//! Fences over CUDA events. One that was taken while its queue is held back has no event yet: it gets one when the queue
//! comes to it.

use crate::cuda::{order::queue::Lane, stream::bell::Ring, stream::events::Event};
use crate::pool::{Job, Pool};
use ferry_core::{
    Fence, Kind, Mark, Point, Result, Ticket, fence,
    sync::{Arc, AtomicBool, Condvar, Mutex, Ordering, lock},
};
use std::{
    any::Any,
    hint, mem, thread,
    time::{Duration, Instant},
};

/// The fence that the core holds.
pub struct CudaFence(pub Arc<StreamPoint>);

/// "The lane has passed this ticket", and, for a mark, when.
pub struct StreamPoint {
    lane: Arc<Lane>,
    ticket: Ticket,
    timed: bool,
    /// Stands for what other libraries put into the stream as well, which has no tickets: the event alone decides.
    whole: bool,
    failed: AtomicBool,
    spot: Mutex<Spot>,
    moved: Condvar,
}

/// Where a point is in its CUDA stream.
enum Spot {
    /// Behind something that the host has to do first; these want to know when it is so no more.
    Held(Vec<Job>),
    /// At the end of the stream, where nothing has come behind it: whoever wants to know asks about the whole stream, or hears what its
    /// last kernel rings.
    AtEnd(Option<Ring>),
    /// In the stream.
    Recorded(Arc<Event>),
    /// There is no event, since the driver refused one or the work before it was dropped: the point is done when nothing is in
    /// the stream, and nobody knows since when.
    Lost,
}

/// What another queue has to do to wait for a point.
pub enum Wait {
    /// Nothing.
    Passed,
    /// Hold its stream by this.
    For(Arc<Event>),
    /// Look again when the job given has run.
    Later,
    /// Ask again and again: there is no event.
    UntilDone,
}

impl StreamPoint {
    /// A point that is not in its stream yet.
    pub fn new(lane: Arc<Lane>, ticket: Ticket, timed: bool) -> Arc<StreamPoint> {
        let (failed, moved) = (AtomicBool::new(false), Condvar::new());
        let spot = Mutex::new(Spot::Held(Vec::new()));
        Arc::new(StreamPoint { lane, ticket, timed, whole: false, failed, spot, moved })
    }

    /// A point behind everything in a shared stream, which this event marks.
    pub fn whole(lane: Arc<Lane>, ticket: Ticket, event: Arc<Event>) -> Arc<StreamPoint> {
        let (failed, moved) = (AtomicBool::new(false), Condvar::new());
        let spot = Mutex::new(Spot::Recorded(event));
        Arc::new(StreamPoint { lane, ticket, timed: false, whole: true, failed, spot, moved })
    }

    fn has_passed(&self) -> bool {
        !self.whole && self.lane.status.passed() >= self.ticket
    }

    /// Whether another stream can wait for it without help of the host. If so that stays true: at the end of its stream a point may
    /// be refused an event, so it gets one now.
    pub fn is_in_stream(&self) -> bool {
        if self.has_passed() {
            return true;
        }
        self.pin(|| self.lane.record_now());
        matches!(&*lock(&self.spot), Spot::Recorded(_))
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
        self.settle_at(Spot::Recorded(event));
    }

    /// The point is at the end of its stream, and the lane will [`pin`](Self::pin) it before anything comes behind it. Called instead
    /// of [`put`](Self::put).
    pub fn put_at_end(&self, ring: Option<Ring>) {
        self.settle_at(Spot::AtEnd(ring));
    }

    /// Something is about to come behind a point that may be at the end of its stream: from here on it is where the event is that
    /// `record` makes there. Somebody may be waiting for the whole stream already, and waits little longer than needed.
    pub fn pin(&self, record: impl FnOnce() -> Result<Arc<Event>>) {
        let mut spot = lock(&self.spot);
        if let Spot::AtEnd(_) = *spot {
            *spot = record().map_or(Spot::Lost, Spot::Recorded);
        }
    }

    /// The work before the point was dropped, or nobody can mark its place. Called instead of [`put`](Self::put).
    pub fn lose(&self) {
        self.settle_at(Spot::Lost);
    }

    fn settle_at(&self, spot: Spot) {
        if let Spot::Held(jobs) = mem::replace(&mut *lock(&self.spot), spot) {
            jobs.into_iter().for_each(|job| job());
        }
        self.moved.notify_all();
    }

    /// Remembers whether a failure waited to be reported when the point was passed.
    pub fn set_failed(&self, failed: bool) {
        self.failed.store(failed, Ordering::Release);
    }

    /// How another queue waits for this point. If it has to look again it is told by what `job` makes, which neither blocks
    /// nor calls the driver.
    pub fn wait_in_stream(&self, job: impl FnOnce() -> Result<Job>) -> Result<Wait> {
        if self.has_passed() {
            return Ok(Wait::Passed);
        }
        // Another lane cannot ask this one, which may be asking it: the event may come to stand behind later work of the device.
        self.pin(|| self.lane.record_now());
        Ok(match &mut *lock(&self.spot) {
            Spot::Held(jobs) => {
                jobs.push(job()?);
                Wait::Later
            }
            Spot::Recorded(event) => Wait::For(event.clone()),
            Spot::AtEnd(_) | Spot::Lost => Wait::UntilDone,
        })
    }

    fn is_done(&self) -> bool {
        if self.has_passed() {
            return true;
        }
        let reached = match &*lock(&self.spot) {
            Spot::Held(_) => return false,
            Spot::Recorded(event) => event.is_reached(),
            Spot::AtEnd(Some(ring)) if ring.is_heard() => Ok(true),
            Spot::AtEnd(_) | Spot::Lost => self.lane.is_empty(),
        };
        self.is_settled(reached)
    }

    /// Tells the lane what came of asking the driver whether the point was reached, and says whether it is done.
    fn is_settled(&self, reached: Result<bool>) -> bool {
        match reached {
            Ok(false) => return false,
            Ok(true) => {}
            Err(error) => self.lane.fail(self.ticket, self.lane.about(self.ticket, &error)),
        }
        self.lane.settle(self.ticket);
        true
    }

    /// Waits as long as it takes. The driver says by itself what came of the wait, so it is not asked again.
    fn wait(&self) {
        let (mut turn, mut is_late) = (0, false);
        while !self.has_passed() {
            let spot = lock(&self.spot);
            let reached = match &*spot {
                Spot::Held(_) => {
                    drop(self.moved.wait(spot));
                    continue;
                }
                Spot::AtEnd(Some(ring)) if !is_late => {
                    let ring = *ring;
                    drop(spot);
                    // If it is late there may be more in the stream by now, and an event before that.
                    is_late = !ring.wait();
                    Ok(!is_late)
                }
                Spot::AtEnd(_) => {
                    drop(spot);
                    self.lane.drain().map(|()| true)
                }
                Spot::Recorded(event) => {
                    let event = event.clone();
                    drop(spot);
                    event.wait().map(|()| true)
                }
                Spot::Lost => {
                    drop(spot);
                    pause(&mut turn, None);
                    self.lane.is_empty()
                }
            };
            if self.is_settled(reached) {
                return;
            }
        }
    }

    /// Waits some for the point to come nearer, but not beyond the deadline.
    fn wait_some(&self, turn: &mut u32, deadline: Instant) {
        let left = deadline.saturating_duration_since(Instant::now());
        let spot = lock(&self.spot);
        if let Spot::Held(_) = &*spot {
            drop(self.moved.wait_timeout(spot, left));
            return;
        }
        drop(spot);
        pause(turn, Some(left));
    }

    fn event(&self) -> Option<Arc<Event>> {
        match &*lock(&self.spot) {
            Spot::Recorded(event) if self.timed => Some(event.clone()),
            _ => None,
        }
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
        let mut turn = 0;
        while !self.is_done() {
            if Instant::now() >= deadline {
                return Err(Kind::Timeout.because("the work was not done in time"));
            }
            self.0.wait_some(&mut turn, deadline);
        }
        Ok(())
    }

    fn when_done(&self, then: Box<dyn FnOnce() + Send>) {
        if self.is_done() {
            return then();
        }
        let device = &self.0.lane.device;
        device.watcher.add(&device.workers, self.0.clone(), then);
    }

    fn point(&self) -> Option<Point> {
        self.0.lane.status.point(self.0.ticket)
    }

    fn native(&self) -> &dyn Any {
        self
    }
}

impl Mark for CudaFence {
    fn failed(&self) -> bool {
        self.0.failed.load(Ordering::Acquire)
    }

    fn reached_us(&self) -> Option<u64> {
        if !self.is_done() {
            return None;
        }
        Some((self.0.event()?.ms()? * 1000.0) as u64)
    }

    fn elapsed_ms(&self, since: &dyn Mark) -> Option<f64> {
        let (end, start) = (&self.0, of_cuda(since)?);
        let one_device = Arc::ptr_eq(&end.lane.device, &start.lane.device);
        if !(one_device && end.is_done() && start.is_done()) {
            return None;
        }
        end.event()?.ms_since(&*start.event()?)
    }
}

/// The point behind a fence, if it is one of ours.
pub fn of_cuda(fence: &dyn Fence) -> Option<&Arc<StreamPoint>> {
    fence.native().downcast_ref::<CudaFence>().map(|fence| &fence.0)
}

/// Tells when points are done: one thread that asks, while anybody wants to know. The driver has nothing better that would
/// not also wait for work submitted after the point.
#[derive(Default)]
pub struct Watcher {
    watched: Mutex<Watched>,
}

#[derive(Default)]
struct Watched {
    points: Vec<(Arc<StreamPoint>, Job)>,
    runs: bool,
}

const WATCH_STEP: Duration = Duration::from_micros(50);

impl Watcher {
    /// Runs `then` once `point` is done.
    pub fn add(self: &Arc<Self>, workers: &Arc<Pool>, point: Arc<StreamPoint>, then: Job) {
        let mut watched = lock(&self.watched);
        if !watched.runs {
            let watcher = self.clone();
            watched.runs = workers.run(Box::new(move || while watcher.look() {})).is_ok();
        }
        if watched.runs {
            return watched.points.push((point, then));
        }
        drop(watched);
        // There is no thread that could wait instead.
        point.wait();
        then();
    }

    /// Looks once, and says whether to look again.
    fn look(&self) -> bool {
        let points = mem::take(&mut lock(&self.watched).points);
        let (done, rest): (Vec<_>, Vec<_>) = points.into_iter().partition(|(point, _)| point.is_done());
        fence::tell(done.into_iter().map(|(_, then)| then));
        let mut watched = lock(&self.watched);
        watched.points.extend(rest);
        watched.runs = !watched.points.is_empty();
        let again = watched.runs;
        drop(watched);
        if again {
            thread::sleep(WATCH_STEP);
        }
        again
    }
}
