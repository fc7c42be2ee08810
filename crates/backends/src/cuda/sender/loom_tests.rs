//! The hand-over between those who gather and the thread that sends, under the model checker.

use super::{
    super::{
        gather::{Sort, Taken},
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
        match self.gather.offer(Sort::Copies(Way::In), || 0, |run, ticket| run.add(ticket, Way::In, copy)) {
            Taken::Yes(..) => {}
            Taken::Full => unreachable!("two copies"),
            Taken::No(asks) => {
                self.gather.count();
                if asks {
                    let _ = sender.watch(self.clone());
                }
                self.sent.fetch_add(1, Ordering::AcqRel);
            }
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

/// Submits copies beside a sender, and something happens behind each but the last. The sender goes on until there is nothing that
/// it looks at, so what it has lost sight of is never sent.
fn all_are_sent(between: impl Fn(&Fake) + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let pace = Pace { least: Duration::ZERO, most: Duration::ZERO, near: Duration::ZERO, ..PACE };
        let (sender, lane, end) = (Arc::new(Sender::new(pace, false)), Fake::busy(), Fake::busy());
        let (its_sender, its_end) = (sender.clone(), end.clone());
        // The next copy asks for the sender.
        (0..3).for_each(|_| lane.submit(&sender));
        let thread = loom::thread::spawn(move || {
            let mut watched = Vec::new();
            let mut goes_on = true;
            while goes_on || !watched.is_empty() {
                assert!(its_sender.fetch(&mut watched));
                goes_on &= !watched.iter().any(|watched| Arc::ptr_eq(&watched.lane, &its_end));
                watched.retain_mut(|lane| lane.look(Instant::now(), &pace));
            }
        });
        for _ in 0..2 {
            lane.submit(&sender);
            between(&lane);
        }
        lane.submit(&sender);
        let _ = sender.watch(end);
        thread.join().expect("it ends");
        assert_eq!(lane.sent.load(Ordering::Acquire), 6);
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
