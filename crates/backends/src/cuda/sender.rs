//! Sends what was gathered soon, whether or not anybody synchronises, and takes the driver's calls off whoever submits: one thread
//! per device, which looks at the windows of busy lanes again and again, and sleeps when there are none.

use super::gather::{Gather, Glance};
use ferry_core::{
    Ticket,
    sync::{Arc, Condvar, Mutex, lock, spin_loop},
};
use std::{
    mem, thread,
    time::{Duration, Instant},
};

/// With no more processors than this the thread naps between two looks: it would take the time of those it works for.
const FEW_PROCESSORS: usize = 2;
const NAP: Duration = Duration::from_micros(10);
/// Between two looks otherwise. Each look takes a cache line from whoever submits.
const STEP: Duration = Duration::from_micros(1);
/// The thread ends when it has slept so long.
const IDLE: Duration = Duration::from_secs(5);

/// A lane that gathers copies.
pub trait Gathers {
    /// Its window.
    fn gather(&self) -> &Gather;

    /// Sends what is in the window, unless somebody is at its stream now. Says how many bytes these were.
    fn try_send(&self) -> usize;
}

/// How long is waited for more.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Nothing is sent before this time: whoever submits may be about to synchronise, and sends it then.
    pub least: Duration,
    /// What is in a window is sent after this time, whatever the GPU has to do.
    pub most: Duration,
    /// A window that was empty for so long is not looked at any more.
    pub near: Duration,
    /// From sending to the first byte that moves.
    pub start: Duration,
    /// What a launch takes of the GPU besides its bytes.
    pub launch: Duration,
    /// Bytes that the GPU moves in a microsecond.
    pub speed: usize,
}

/// As measured on an H200. Where they are wrong there are a few launches more or less.
const PACE: Pace = Pace {
    least: Duration::from_micros(3),
    most: Duration::from_micros(12),
    near: Duration::from_micros(100),
    start: Duration::from_micros(6),
    launch: Duration::from_micros(4),
    speed: 50_000,
};

/// What the thread and those who need it share.
pub struct Sender<L> {
    inbox: Mutex<Inbox<L>>,
    wake: Condvar,
    pace: Pace,
    naps: bool,
}

struct Inbox<L> {
    /// Lanes whose windows are to be looked at from now on.
    lanes: Vec<Arc<L>>,
    serves: bool,
    sleeps: bool,
    /// The processor of whoever asked last.
    asker: i32,
}

impl<L> Default for Sender<L> {
    fn default() -> Self {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        Sender::new(PACE, processors <= FEW_PROCESSORS)
    }
}

impl<L> Sender<L> {
    fn new(pace: Pace, naps: bool) -> Self {
        let inbox = Mutex::new(Inbox { lanes: Vec::new(), serves: false, sleeps: false, asker: -1 });
        Sender { inbox, wake: Condvar::new(), pace, naps }
    }

    /// Looks at the window of `lane` from now on. True if the caller has to run [`serve`](Self::serve) on a thread of its own, since
    /// nobody does.
    #[must_use]
    pub fn watch(&self, lane: Arc<L>) -> bool {
        let mut inbox = lock(&self.inbox);
        inbox.lanes.push(lane);
        inbox.asker = processor();
        if mem::replace(&mut inbox.sleeps, false) {
            self.wake.notify_one();
        }
        !mem::replace(&mut inbox.serves, true)
    }

    /// Takes up the lanes that came in, and sleeps if there are none at all. False at the end of a long sleep.
    fn fetch(&self, watched: &mut Vec<Watched<L>>) -> bool {
        let mut inbox = lock(&self.inbox);
        let begins = watched.is_empty();
        while watched.is_empty() && inbox.lanes.is_empty() {
            inbox.sleeps = true;
            let (guard, time) =
                self.wake.wait_timeout(inbox, IDLE).unwrap_or_else(|poisoned| poisoned.into_inner());
            inbox = guard;
            if time.timed_out() && inbox.lanes.is_empty() {
                (inbox.serves, inbox.sleeps) = (false, false);
                return false;
            }
        }
        watched.extend(inbox.lanes.drain(..).map(Watched::new));
        let asker = inbox.asker;
        drop(inbox);
        if begins {
            step_away(asker);
        }
        true
    }

    fn pause(&self, now: Instant) {
        if self.naps {
            return thread::sleep(NAP);
        }
        while now.elapsed() < STEP {
            // A processor may have another thread to run meanwhile, the submitter's perhaps.
            (0..8).for_each(|_| spin_loop());
        }
    }
}

impl<L: Gathers> Sender<L> {
    /// Serves the lanes until there has been nothing to do for a while.
    pub fn serve(&self) {
        let mut watched = Vec::new();
        let _slack = self.naps.then(Slack::less);
        while self.fetch(&mut watched) {
            let now = Instant::now();
            watched.retain_mut(|lane| lane.look(now, &self.pace));
            if !watched.is_empty() {
                self.pause(now);
            }
        }
    }
}

/// A lane, and what was last seen in its window.
struct Watched<L> {
    lane: Arc<L>,
    /// The first copy of the window, if there was one.
    first: Option<Ticket>,
    /// Since when.
    since: Option<Instant>,
    /// Until when the GPU has enough to do with what was sent, as far as can be told.
    busy: Option<Instant>,
}

/// What is to be done about a window.
#[derive(Debug, PartialEq, Eq)]
enum Ask {
    Nothing,
    Send,
    Leave,
}

impl<L> Watched<L> {
    fn new(lane: Arc<L>) -> Self {
        Watched { lane, first: None, since: None, busy: None }
    }

    fn ask(&mut self, glance: Glance, now: Instant, pace: &Pace) -> Ask {
        let (first, due) = match glance {
            Glance::Empty => (None, false),
            Glance::Holds(first, due) => (Some(first), due),
        };
        if self.first != first {
            (self.first, self.since) = (first, Some(now));
        }
        let age = now.duration_since(*self.since.get_or_insert(now));
        // Sent now, it starts when the GPU is done with what it has: the longer it can wait, the fewer launches there are.
        let is_time = age >= pace.least && self.busy.is_none_or(|until| now + pace.start >= until);
        match first {
            None if age >= pace.near => Ask::Leave,
            Some(_) if due || is_time || age >= pace.most => Ask::Send,
            _ => Ask::Nothing,
        }
    }

    /// So many bytes were sent.
    fn sent(&mut self, bytes: usize, now: Instant, pace: &Pace) {
        let (starts, takes) = (now + pace.start, Duration::from_micros((bytes / pace.speed) as u64));
        self.busy = Some(self.busy.map_or(starts, |until| until.max(starts)) + pace.launch + takes);
    }
}

impl<L: Gathers> Watched<L> {
    /// Looks at the window, and says whether to look again.
    fn look(&mut self, now: Instant, pace: &Pace) -> bool {
        if self.since.is_none() {
            self.lane.gather().attend();
        }
        match self.ask(self.lane.gather().glance(), now, pace) {
            Ask::Nothing => {}
            Ask::Send => match self.lane.try_send() {
                0 => {}
                bytes => self.sent(bytes, now, pace),
            },
            Ask::Leave => return !self.lane.gather().leave(),
        }
        true
    }
}

/// The processor that the calling thread runs on now.
fn processor() -> i32 {
    // SAFETY: takes nothing and changes nothing.
    unsafe { libc::sched_getcpu() }
}

/// Two processors of one core share what it can do, and in a virtual machine the system may not know: a thread that is woken tends to
/// be put next to its waker, and there it would slow it down by half. Moves the calling thread if it is there, once.
fn step_away(from: i32) {
    if from < 0 || processor() ^ from != 1 {
        return;
    }
    let size = size_of::<libc::cpu_set_t>();
    // SAFETY: plain bits, all of which may be zero.
    let mut all: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: 0 is the calling thread, and `all` receives as many bits as it has.
    if unsafe { libc::sched_getaffinity(0, size, &mut all) } != 0 {
        return;
    }
    let mut others = all;
    // SAFETY: both numbers are of processors here, which fit; the masks are whole. An empty one is refused, and nothing happens.
    unsafe {
        libc::CPU_CLR(from as usize, &mut others);
        libc::CPU_CLR((from ^ 1) as usize, &mut others);
        libc::sched_setaffinity(0, size, &others);
        libc::sched_setaffinity(0, size, &all);
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
