//! The hand-over between threads that submit and the thread that sends, under the model checker.

use super::*;
use crate::cuda::{
    order::window::{MISSES_BEFORE_SENDER, Offered, RunKind},
    stream::planner::Direction,
};
use ferry_core::{
    Segment,
    sync::{AtomicUsize, Ordering},
};

#[derive(Default)]
struct Fake {
    window: Window,
    /// Copies that came into the window. The model checker need not know of it: one thread submits.
    coalesced: std::sync::atomic::AtomicUsize,
    sent: AtomicUsize,
}

impl Fake {
    fn busy() -> Arc<Fake> {
        let lane = Arc::new(Fake::default());
        lane.window.set_open(true);
        lane.window.count();
        lane
    }

    /// Submits copies until one is in the window, or the sender is asked for the next: it may come and go
    /// between two calls. The others go straight into the stream.
    fn submit(self: &Arc<Self>, sender: &Sender<Fake>) {
        let copy = Segment { dst: 0, src: 100, len: 1 };
        for _ in 0..=MISSES_BEFORE_SENDER {
            match self.window.offer(
                RunKind::Copies(Direction::In),
                || 0,
                |run, ticket| run.add(ticket, Direction::In, copy),
            ) {
                Offered::Yes { .. } => {
                    self.coalesced.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                Offered::Full => unreachable!("few copies"),
                Offered::No { asks_sender } => {
                    self.window.count();
                    if asks_sender {
                        return add(sender, self.clone());
                    }
                }
            }
        }
    }

    /// How many copies came into the window and were not sent.
    fn lost(&self) -> usize {
        self.coalesced.load(Ordering::Acquire) - self.sent.load(Ordering::Acquire)
    }
}

impl Coalesces for Fake {
    fn window(&self) -> &Window {
        &self.window
    }

    fn try_send(self: &Arc<Self>) -> usize {
        let sent = self.window.take().map_or(0, |run| run.count());
        self.sent.fetch_add(sent, Ordering::AcqRel);
        sent
    }
}

/// As [`Sender::watch`], and a thread serves already.
fn add(sender: &Sender<Fake>, lane: Arc<Fake>) {
    sender.put(&mut lock(&sender.state), WatchedLane::new(lane));
}

/// As [`Sender::serve`], but goes on until nothing is looked at and `end` was, so what it has lost sight of
/// is never sent.
fn serve_up_to(sender: &Sender<Fake>, end: &Arc<Fake>) {
    let mut goes_on = true;
    while goes_on || !lock(&sender.state).lanes.is_empty() {
        assert!(sender.wait());
        let turn = lock(&sender.state).poll(Instant::now(), &sender.pace);
        let Some(turn) = turn else { continue };
        goes_on &= !Arc::ptr_eq(&turn.lane.lane, end);
        if !sender.take(turn, Instant::now()) {
            return;
        }
    }
}

/// A sender that waits for nothing: what it does must not depend on how long anything takes.
fn sender() -> Arc<Sender<Fake>> {
    let at_once = Duration::ZERO;
    let pace =
        Pace { send_after: at_once, send_by: at_once, stop_polling_after: at_once, step: at_once, ..PACE };
    let sender = Sender::new(pace, false);
    lock(&sender.state).serves = true;
    Arc::new(sender)
}

fn check(what: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(what);
}

/// Submits copies beside a sender, and something happens behind each but the last.
fn all_are_sent(between: impl Fn(&Arc<Fake>) + Send + Sync + 'static) {
    check(move || {
        let (sender, lane, end) = (sender(), Fake::busy(), Fake::busy());
        let (its_sender, its_end) = (sender.clone(), end.clone());
        let thread = loom::thread::spawn(move || serve_up_to(&its_sender, &its_end));
        for _ in 0..2 {
            lane.submit(&sender);
            between(&lane);
        }
        lane.submit(&sender);
        add(&sender, end);
        thread.join().expect("it ends");
        assert_eq!(lane.lost(), 0);
    });
}

#[test]
fn every_copy_is_sent_though_the_sender_comes_and_goes() {
    all_are_sent(|_| ());
}

#[test]
fn the_last_copy_is_sent_though_others_sent_those_before() {
    all_are_sent(|lane| {
        lane.try_send();
    });
}

#[test]
fn no_lane_is_lost_when_the_sender_is_relieved() {
    check(|| {
        let (sender, end) = (sender(), Fake::busy());
        let lanes = [Fake::busy(), Fake::busy()];
        for lane in &lanes {
            lane.submit(&sender);
            lane.window.start_polling();
            lane.submit(&sender);
        }
        let serve = || {
            let (sender, end) = (sender.clone(), end.clone());
            loom::thread::spawn(move || serve_up_to(&sender, &end))
        };
        let mut serves = serve();
        if sender.guarded().is_some_and(|turn| sender.relieve(turn)) {
            let first = mem::replace(&mut serves, serve());
            lanes[0].submit(&sender);
            first.join().expect("it goes");
        } else {
            lanes[0].submit(&sender);
        }
        add(&sender, end.clone());
        serves.join().expect("it ends");
        assert_eq!(lanes.each_ref().map(|lane| lane.lost()), [0, 0]);
        assert_eq!(lock(&sender.state).being_served, 0);
    });
}
