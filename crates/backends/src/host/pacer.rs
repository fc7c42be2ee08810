//! Decides when the work of lanes runs, where a [`Schedule`] was asked for.
//!
//! Under a schedule a lane keeps its work back until it is demanded up to a ticket: by a wait, a query, a
//! watcher, a function of the user's, or by the pacer. The pacer says what a submission and a wait demand:
//! nothing, the work itself, or work of any lane that it draws.
//!
//! `shuffle` is reproducible because nothing runs while a thread of the program draws: a thread that has
//! demanded work waits until the one worker has settled. Such a wait ends without progress, too: it never
//! blocks a program.
//!
//! Arrows: the pacer knows a lane as a [`PacedQueue`] alone.

use super::schedule::{RunOrder, Schedule};
use ferry_core::{
    Ticket,
    sync::{Arc, AtomicU64, AtomicUsize, Condvar, Mutex, Ordering, Weak, lock},
};
use std::{
    cell::Cell,
    time::{Duration, Instant},
};

/// The most ops of a lane that are kept back: a card's queue has an end as well.
const MAX_KEPT: Ticket = 1024;
/// After this time without a step of work, and with no worker that has some to do, work that a thread waits
/// for stands still.
pub const STALLED: Duration = Duration::from_millis(100);
/// After this time without one, a thread that only waits for work to settle goes on: it may be waited for
/// itself. Long, since a worker may have to wait for a CPU, and what runs must not depend on that.
const UNSETTLED: Duration = Duration::from_secs(2);
/// How often it looks.
const LOOK_EVERY: Duration = Duration::from_millis(2);

thread_local! {
    /// This thread runs lanes: what it demands is run later, by itself.
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
}

/// A queue whose work is kept back until it is demanded.
pub trait PacedQueue: Send + Sync {
    /// The newest ticket that has passed or is demanded, and the newest of all.
    fn kept(&self) -> (Ticket, Ticket);

    /// Demands the work up to this ticket.
    fn let_go(self: Arc<Self>, upto: Ticket);
}

/// What lanes under one schedule share. See the module's text.
pub struct Pacer {
    schedule: Schedule,
    /// How many calls go by until one lets something run, by and large. With some seeds work piles up, with
    /// others it is done at once: mistakes show in the one or the other.
    laziness: usize,
    random: Mutex<u64>,
    /// In the order in which they were made.
    lanes: Mutex<Vec<Weak<dyn PacedQueue>>>,
    /// How many lanes wait for something of which no lane is known to bring it about: meanwhile nothing is
    /// kept back.
    open_waits: AtomicUsize,
    /// How many lanes a worker was told of and has not been at yet.
    told: AtomicUsize,
    /// Counts steps of work.
    steps: AtomicU64,
    looks: Mutex<()>,
    settled: Condvar,
}

impl Pacer {
    /// A pacer without lanes.
    pub fn new(schedule: Schedule) -> Arc<Pacer> {
        Arc::new(Pacer {
            schedule,
            laziness: 1 << (scrambled(!schedule.seed) % 6),
            random: Mutex::new(schedule.seed),
            lanes: Mutex::default(),
            open_waits: AtomicUsize::new(0),
            told: AtomicUsize::new(0),
            steps: AtomicU64::new(0),
            looks: Mutex::new(()),
            settled: Condvar::new(),
        })
    }

    /// Whether choices are drawn.
    pub fn shuffles(&self) -> bool {
        self.schedule.order == RunOrder::Shuffle
    }

    /// Whether the calling thread runs lanes.
    pub fn is_worker(&self) -> bool {
        IS_WORKER.get()
    }

    /// A number below `end`, drawn.
    pub fn draw(&self, end: usize) -> usize {
        let mut random = lock(&self.random);
        *random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        (scrambled(*random) % end.max(1) as u64) as usize
    }

    /// Has choices about this lane, too.
    pub fn add(&self, lane: Weak<dyn PacedQueue>) {
        let mut lanes = lock(&self.lanes);
        lanes.retain(|lane| lane.strong_count() > 0);
        lanes.push(lane);
    }

    /// What a lane that was given `ticket` demands of itself, if it keeps work back behind `kept`. A
    /// function of the user's is always due: the program may wait for it in ways of its own.
    pub fn demanded(&self, ticket: Ticket, kept: Ticket, is_function: bool) -> Option<Ticket> {
        let is_open = self.open_waits.load(Ordering::SeqCst) > 0;
        if is_function || is_open || self.schedule.order == RunOrder::Early {
            return Some(ticket);
        }
        (ticket - kept > MAX_KEPT).then(|| ticket - MAX_KEPT / 2)
    }

    /// Lets some work run before a call goes on: under `early` until `is_enough`, under `shuffle` what is
    /// drawn.
    pub fn stir(&self, is_enough: impl Fn() -> bool) {
        match self.schedule.order {
            RunOrder::Late => {}
            RunOrder::Early => self.settle(is_enough),
            RunOrder::Shuffle if IS_WORKER.get() || self.draw(self.laziness) > 0 => {}
            RunOrder::Shuffle => (0..1 + self.draw(3)).for_each(|_| {
                self.let_some_go();
                self.settle(|| false);
            }),
        }
    }

    /// Demands a drawn number of ops of a drawn lane.
    fn let_some_go(&self) {
        let mut lanes: Vec<_> = lock(&self.lanes).iter().filter_map(Weak::upgrade).collect();
        lanes.retain(|lane| lane.kept().0 < lane.kept().1);
        if lanes.is_empty() {
            return;
        }
        let lane = lanes.swap_remove(self.draw(lanes.len()));
        let (from, to) = lane.kept();
        let some = 1 + self.draw(4) as Ticket;
        lane.let_go(if self.draw(4) == 0 { to } else { to.min(from + some) });
    }

    /// A lane waits for something that no lane is known to bring about: everything runs until it is over.
    pub fn open_wait(&self) {
        self.open_waits.fetch_add(1, Ordering::SeqCst);
        self.let_all_go();
    }

    /// That wait is over.
    pub fn close_wait(&self) {
        self.open_waits.fetch_sub(1, Ordering::SeqCst);
    }

    /// Demands all there is.
    pub fn let_all_go(&self) {
        let lanes: Vec<_> = lock(&self.lanes).iter().filter_map(Weak::upgrade).collect();
        lanes.into_iter().for_each(|lane| {
            let (_, newest) = lane.kept();
            lane.let_go(newest);
        });
    }

    /// A worker is told of a lane.
    pub fn tell(&self) {
        self.told.fetch_add(1, Ordering::SeqCst);
    }

    /// A worker runs a lane that it was told of.
    pub fn serve(&self, run: impl FnOnce()) {
        let was = IS_WORKER.replace(true);
        run();
        IS_WORKER.set(was);
        self.told.fetch_sub(1, Ordering::SeqCst);
        drop(lock(&self.looks));
        self.settled.notify_all();
    }

    /// A step of work was done.
    pub fn count_step(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// A worker has done a step of work. Returns whether the lane is to let others have their turn; there may
    /// be one more then.
    pub fn step(&self) -> bool {
        self.count_step();
        let pauses = self.shuffles() && self.draw(4) == 0;
        if pauses && self.draw(2) == 0 {
            self.let_some_go();
        }
        pauses
    }

    /// How many steps of work have been done.
    pub fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    /// Whether work stands still that a thread has waited for so long without a step being done.
    pub fn is_standstill(&self, waited: Duration) -> bool {
        let is_busy = self.told.load(Ordering::SeqCst) > 0;
        waited >= if is_busy { UNSETTLED } else { STALLED }
    }

    /// Waits until the workers have done what they were told of, or `is_enough`, or nothing moves.
    pub fn settle(&self, is_enough: impl Fn() -> bool) {
        let (mut seen, mut since) = (self.steps.load(Ordering::Relaxed), Instant::now());
        let mut looks = lock(&self.looks);
        while self.told.load(Ordering::SeqCst) > 0 && !is_enough() && !IS_WORKER.get() {
            looks = match self.settled.wait_timeout(looks, LOOK_EVERY) {
                Ok((looks, _)) => looks,
                Err(poisoned) => poisoned.into_inner().0,
            };
            let steps = self.steps.load(Ordering::Relaxed);
            if steps != seen {
                (seen, since) = (steps, Instant::now());
            } else if since.elapsed() > UNSETTLED {
                return;
            }
        }
    }
}

/// A bijection whose results look random (the finaliser of SplitMix64).
fn scrambled(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn pacer(order: RunOrder, seed: u64) -> Arc<Pacer> {
        Pacer::new(Schedule { order, seed })
    }

    #[test]
    fn a_submission_demands_itself_when_early_due_or_too_much() {
        use RunOrder::{Early, Late, Shuffle};
        for (order, ticket, kept, is_function, want) in [
            (Late, 5, 4, false, None),
            (Late, 5, 4, true, Some(5)),
            (Early, 5, 4, false, Some(5)),
            (Shuffle, 5, 0, false, None),
            (Late, MAX_KEPT, 0, false, None),
            (Late, MAX_KEPT + 1, 0, false, Some(1 + MAX_KEPT / 2)),
            (Late, MAX_KEPT + 1, 1, false, None),
        ] {
            let got = pacer(order, 0).demanded(ticket, kept, is_function);
            assert_eq!(got, want, "{order} {ticket} {kept} {is_function}");
        }
    }

    #[test]
    fn nothing_is_kept_back_while_a_lane_waits_for_something_unknown() {
        let pacer = pacer(RunOrder::Late, 0);
        pacer.open_wait();
        pacer.open_wait();
        pacer.close_wait();
        assert_eq!(pacer.demanded(5, 4, false), Some(5));
        pacer.close_wait();
        assert_eq!(pacer.demanded(5, 4, false), None);
    }

    #[test]
    fn a_seed_draws_the_same_numbers_each_time_and_another_one_others() {
        let drawn = |seed| {
            let pacer = pacer(RunOrder::Shuffle, seed);
            (0..100).map(|_| pacer.draw(10)).collect::<Vec<_>>()
        };
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
        let mut seen = drawn(3);
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn who_waits_for_work_to_settle_goes_on_when_nothing_moves() {
        let pacer = pacer(RunOrder::Early, 0);
        pacer.settle(|| unreachable!("nobody was told of anything"));
        pacer.tell();
        pacer.settle(|| false);
        pacer.settle(|| true);
    }
}
