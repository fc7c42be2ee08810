//! The sender: one thread per device that sends what was coalesced soon, whether or not the program
//! synchronises, and takes the driver's calls off the submitting threads.
//!
//! It polls the windows of busy lanes, and sleeps when there are none. While there are several, another
//! thread stands by, in case the driver does not let go of the first.

use crate::cuda::order::window::{Window, WindowView};
use crate::pool::Pool;
use ferry_core::{
    Ticket,
    sync::{Arc, Condvar, Mutex, lock, spin_loop},
};
use std::{
    mem, thread,
    time::{Duration, Instant},
};

/// With no more processors than this the thread naps between two polls: it would take the time of those it
/// works for.
const FEW_PROCESSORS: usize = 2;
/// Such a nap.
const NAP: Duration = Duration::from_micros(10);
/// After so long a sleep the thread goes back to the pool.
const IDLE: Duration = Duration::from_secs(1);
/// After this time with one lane another thread has the others.
const RELIEVE_AFTER: Duration = Duration::from_millis(1);
/// How often the serving thread asks whether a job waits for it.
const MAKE_WAY_EVERY: Duration = Duration::from_millis(1);

/// A queue that coalesces copies.
pub trait Coalesces {
    /// Its window.
    fn window(&self) -> &Window;

    /// Sends what is in the window, unless another thread has the stream now. How many bytes these were.
    fn try_send(self: &Arc<Self>) -> usize;
}

/// How long is waited for more.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Nothing is sent before this time: the submitter may be about to synchronise, which sends it.
    pub send_after: Duration,
    /// What is in a window is sent after this time, whatever the GPU has to do.
    pub send_by: Duration,
    /// A window that was empty for so long is not polled any more.
    pub stop_polling_after: Duration,
    /// Time between two polls. Each poll takes a cache line from a submitting thread.
    pub step: Duration,
    /// From sending to the first byte that moves.
    pub start_latency: Duration,
    /// What a launch takes of the GPU besides its bytes.
    pub launch_cost: Duration,
    /// Bytes that the GPU moves in a microsecond.
    pub bytes_per_us: usize,
}

/// As measured on an H200: a launch takes 4.3 us of the GPU with its list in the parameters and 5.9 with it
/// in memory, and 6 to 12 us of the thread. Where they are wrong there are a few launches more or less: with
/// `send_after` from 1.5 and `send_by` up to 20 us, 1,000 copies of 4 KiB took as long within 2 %.
const PACE: Pace = Pace {
    send_after: Duration::from_micros(3),
    send_by: Duration::from_micros(12),
    stop_polling_after: Duration::from_micros(100),
    step: Duration::from_micros(1),
    start_latency: Duration::from_micros(6),
    launch_cost: Duration::from_micros(4),
    bytes_per_us: 50_000,
};

/// The windows that are polled, and the state of the thread that polls them.
pub struct Sender<L> {
    state: Mutex<PollState<L>>,
    wake: Condvar,
    pace: Pace,
    naps: bool,
}

/// What the sender and its helpers share: which lanes are polled, and by which thread.
struct PollState<L> {
    /// Lanes whose windows are polled.
    lanes: Vec<WatchedLane<L>>,
    /// How many lanes are not among these since a thread is sending for them.
    being_served: usize,
    /// Changes when the serving thread begins and ends with a lane, or is relieved. Odd in between.
    turn: u64,
    /// Whether there is a serving thread.
    serves: bool,
    /// Whether the serving thread sleeps, since there are no lanes.
    sleeps: bool,
    /// Whether another thread stands by.
    is_guarded: bool,
}

/// The work of the serving thread on one lane, during which another thread may take the other lanes.
struct LaneTurn<L> {
    /// The turn of the [`PollState`] when it began.
    number: u64,
    lane: WatchedLane<L>,
    action: Action,
}

impl<L> Default for Sender<L> {
    fn default() -> Self {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        Sender::new(PACE, processors <= FEW_PROCESSORS)
    }
}

impl<L> Sender<L> {
    fn new(pace: Pace, naps: bool) -> Self {
        Sender { state: Mutex::default(), wake: Condvar::new(), pace, naps }
    }

    /// Has the lane polled. True if the caller must, since no thread serves.
    fn put(&self, state: &mut PollState<L>, lane: WatchedLane<L>) -> bool {
        state.lanes.push(lane);
        if mem::replace(&mut state.sleeps, false) {
            self.wake.notify_one();
        }
        !mem::replace(&mut state.serves, true)
    }

    /// Sleeps if there are no lanes. False at the end of a long sleep.
    fn wait(&self) -> bool {
        let mut state = lock(&self.state);
        while state.lanes.is_empty() {
            state.sleeps = true;
            let (guard, time) =
                self.wake.wait_timeout(state, IDLE).unwrap_or_else(|poisoned| poisoned.into_inner());
            state = guard;
            if time.timed_out() && state.lanes.is_empty() {
                (state.serves, state.sleeps) = (false, false);
                return false;
            }
        }
        true
    }

    fn pause(&self, now: Instant) {
        if self.naps {
            return thread::sleep(NAP);
        }
        while now.elapsed() < self.pace.step {
            // A processor may have another thread to run meanwhile, the submitter's perhaps.
            (0..8).for_each(|_| spin_loop());
        }
    }

    /// The turn that is being taken, if there are lanes that it could delay. No thread stands by any more
    /// otherwise.
    fn guarded(&self) -> Option<u64> {
        let mut state = lock(&self.state);
        state.is_guarded = state.can_be_delayed();
        state.is_guarded.then_some(state.turn)
    }

    /// Relieves the serving thread if it is still at this turn, and other lanes need one. Then another thread
    /// has to serve.
    fn relieve(&self, turn: u64) -> bool {
        let mut state = lock(&self.state);
        let is_stuck = turn % 2 == 1 && state.turn == turn && !state.lanes.is_empty();
        state.turn += u64::from(is_stuck);
        is_stuck
    }
}

impl<L: Coalesces + Send + Sync + 'static> Sender<L> {
    /// Polls the window of `lane` from now on. False if there is no thread that could.
    pub fn watch(self: &Arc<Self>, pool: &Arc<Pool>, lane: Arc<L>) -> bool {
        let Ok(thread) = pool.reserve() else { return false };
        let mut state = lock(&self.state);
        let must_serve = self.put(&mut state, WatchedLane::new(lane));
        let must_guard = state.can_be_delayed() && !mem::replace(&mut state.is_guarded, true);
        drop(state);
        if must_serve {
            let (sender, its_pool) = (self.clone(), pool.clone());
            thread.run(Box::new(move || sender.serve(&its_pool)));
        }
        if must_guard {
            let (sender, its_pool) = (self.clone(), pool.clone());
            // Without another thread none stands by, until the next lane comes.
            let guarded = pool.run(Box::new(move || sender.stand_by(&its_pool)));
            lock(&self.state).is_guarded &= guarded.is_ok();
        }
        true
    }

    /// Serves the lanes until there has been nothing to do for a while, or another thread does. Lanes may
    /// keep it busy for good: it makes way for jobs that the system grants no other thread for.
    fn serve(self: &Arc<Self>, pool: &Arc<Pool>) {
        let _slack = self.naps.then(Slack::less);
        let mut made_way = Instant::now();
        while self.wait() {
            let now = Instant::now();
            if now.duration_since(made_way) >= MAKE_WAY_EVERY {
                let (sender, its_pool) = (self.clone(), pool.clone());
                if pool.make_way(move || sender.serve(&its_pool)) {
                    return;
                }
                made_way = now;
            }
            let Some(turn) = lock(&self.state).poll(now, &self.pace) else {
                self.pause(now);
                continue;
            };
            if !self.take(turn, now) {
                return;
            }
        }
    }

    /// The driver may block the thread that serves for as long as a stream has no room. What other lanes have
    /// coalesced must not wait for that: it may be what makes room. Then another thread serves those.
    fn stand_by(self: &Arc<Self>, pool: &Arc<Pool>) {
        while let Some(turn) = self.guarded() {
            thread::sleep(RELIEVE_AFTER);
            if self.relieve(turn) {
                let (sender, its_pool) = (self.clone(), pool.clone());
                // This is a thread of the pool, so there is one, and below it makes way.
                let _ = pool.run(Box::new(move || sender.serve(&its_pool)));
            }
            let (sender, its_pool) = (self.clone(), pool.clone());
            if pool.make_way(move || sender.stand_by(&its_pool)) {
                return;
            }
        }
    }
}

impl<L: Coalesces> Sender<L> {
    /// Does what is to be done about a lane. False if another thread serves by now.
    fn take(&self, LaneTurn { number, mut lane, action }: LaneTurn<L>, now: Instant) -> bool {
        let left = if action == Action::Send {
            if !lane.send(now, &self.pace) {
                self.pause(now);
            }
            Some(lane)
        } else {
            // Here, since the last to drop it may have to wait for the GPU.
            drop(lane);
            None
        };
        let mut state = lock(&self.state);
        state.being_served -= 1;
        let goes_on = state.turn == number;
        state.turn += u64::from(goes_on);
        let must_serve = left.is_some_and(|lane| self.put(&mut state, lane));
        goes_on || must_serve
    }
}

impl<L> Default for PollState<L> {
    fn default() -> Self {
        PollState {
            lanes: Vec::new(),
            being_served: 0,
            turn: 0,
            serves: false,
            sleeps: false,
            is_guarded: false,
        }
    }
}

impl<L> PollState<L> {
    /// Whether there is a lane besides one that a thread may stay at.
    fn can_be_delayed(&self) -> bool {
        self.lanes.len() + self.being_served > 1
    }
}

impl<L: Coalesces> PollState<L> {
    /// Polls the windows, and takes out the first lane about which there is something to do.
    fn poll(&mut self, now: Instant, pace: &Pace) -> Option<LaneTurn<L>> {
        let actions = self.lanes.iter_mut().map(|lane| lane.poll(now, pace));
        let (place, action) = actions.enumerate().find(|(_, action)| *action != Action::Nothing)?;
        self.being_served += 1;
        self.turn += 1;
        Some(LaneTurn { number: self.turn, lane: self.lanes.remove(place), action })
    }
}

/// A lane, and what was last seen in its window.
struct WatchedLane<L> {
    lane: Arc<L>,
    /// The first copy of the window, if there was one.
    first: Option<Ticket>,
    /// Since when.
    since: Option<Instant>,
    /// Until when the GPU has enough to do with what was sent, as far as can be told.
    busy: Option<Instant>,
}

/// What the serving thread has to do about a window.
#[derive(Debug, PartialEq, Eq)]
enum Action {
    Nothing,
    Send,
    StopPolling,
}

impl<L> WatchedLane<L> {
    fn new(lane: Arc<L>) -> Self {
        WatchedLane { lane, first: None, since: None, busy: None }
    }

    fn action(&mut self, view: WindowView, now: Instant, pace: &Pace) -> Action {
        let (first, is_due) = match view {
            WindowView::Empty => (None, false),
            WindowView::Waiting { first, is_due } => (Some(first), is_due),
        };
        if self.first != first {
            (self.first, self.since) = (first, Some(now));
        }
        let age = now.duration_since(*self.since.get_or_insert(now));
        // Sent now, it starts when the GPU is done with what it has: the longer it can wait, the fewer
        // launches there are.
        let is_time =
            age >= pace.send_after && self.busy.is_none_or(|until| now + pace.start_latency >= until);
        match first {
            None if age >= pace.stop_polling_after => Action::StopPolling,
            Some(_) if is_due || is_time || age >= pace.send_by => Action::Send,
            _ => Action::Nothing,
        }
    }

    /// So many bytes were sent.
    fn sent(&mut self, bytes: usize, now: Instant, pace: &Pace) {
        let (starts, takes) =
            (now + pace.start_latency, Duration::from_micros((bytes / pace.bytes_per_us) as u64));
        self.busy = Some(self.busy.map_or(starts, |until| until.max(starts)) + pace.launch_cost + takes);
    }
}

impl<L: Coalesces> WatchedLane<L> {
    /// Polls the window. If it has been empty for long it is not polled any more.
    fn poll(&mut self, now: Instant, pace: &Pace) -> Action {
        if self.since.is_none() {
            self.lane.window().start_polling();
        }
        match self.action(self.lane.window().view(), now, pace) {
            Action::StopPolling if !self.lane.window().stop_polling() => Action::Nothing,
            action => action,
        }
    }

    /// Sends what is in the window. False if that was nothing, or another thread is at it.
    fn send(&mut self, now: Instant, pace: &Pace) -> bool {
        let bytes = self.lane.try_send();
        if bytes > 0 {
            self.sent(bytes, now, pace);
        }
        bytes > 0
    }
}

/// While this lives, naps of the calling thread are as short as they say: by default Linux adds up to 50 us.
struct Slack;

impl Slack {
    fn less() -> Slack {
        set_slack(1);
        Slack
    }
}

impl Drop for Slack {
    fn drop(&mut self) {
        set_slack(0);
    }
}

/// In nanoseconds; 0 is what the thread began with.
fn set_slack(ns: libc::c_ulong) {
    // SAFETY: changes nothing but the timers of this thread.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, ns, 0, 0, 0) };
}

#[cfg(all(test, loom))]
mod loom_tests;

#[cfg(all(test, not(loom)))]
mod tests;
