//! The hand-over between those who gather and the thread that sends, under the model checker.

use super::{
    super::{
        gather::{Taken, Then},
        planner::Way,
        ring::Entry,
    },
    *,
};
use ferry_core::sync::{AtomicUsize, Ordering};

#[derive(Default)]
struct Fake {
    gather: Gather,
    sent: AtomicUsize,
}

impl Fake {
    fn busy() -> Arc<Fake> {
        let lane = Arc::new(Fake::default());
        lane.gather.set_open(true);
        lane.gather.count();
        lane
    }

    fn submit(self: &Arc<Self>, sender: &Sender<Fake>) {
        let copy = Entry { dst: 0, src: 100, len: 1 };
        match self.gather.offer(Way::In, copy, 0) {
            Taken::Yes(_, Then::Watch) => drop(sender.watch(self.clone())),
            taken => assert!(matches!(taken, Taken::Yes(..))),
        }
    }
}

impl Gathers for Fake {
    fn gather(&self) -> &Gather {
        &self.gather
    }

    fn try_send(&self) -> usize {
        let sent = self.gather.take(Vec::new()).map_or(0, |run| run.count());
        self.sent.fetch_add(sent, Ordering::AcqRel);
        sent
    }
}

/// A sender that was told of a copy, or should have been, sleeps for ever if it was not: the checker finds that.
fn all_are_sent(copies: usize, between: impl Fn(&Fake) + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let pace = Pace { least: Duration::ZERO, most: Duration::ZERO, near: Duration::ZERO, ..PACE };
        let (sender, lane) = (Arc::new(Sender::new(pace, false)), Fake::busy());
        let (its_sender, its_lane) = (sender.clone(), lane.clone());
        let thread = loom::thread::spawn(move || {
            let mut watched = Vec::new();
            while its_lane.sent.load(Ordering::Acquire) < copies {
                assert!(its_sender.fetch(&mut watched));
                watched.retain_mut(|lane| lane.look(Instant::now(), &pace));
            }
        });
        for copy in 1..=copies {
            lane.submit(&sender);
            if copy < copies {
                between(&lane);
            }
        }
        thread.join().expect("it ends");
        assert_eq!(lane.sent.load(Ordering::Acquire), copies);
    });
}

#[test]
fn every_copy_is_sent_by_a_thread_that_sleeps_in_between() {
    all_are_sent(2, |_| ());
}

#[test]
fn the_last_copy_is_sent_though_others_sent_those_before() {
    all_are_sent(2, |lane| drop(lane.try_send()));
}
