use super::{
    super::{
        gather::{Taken, Then},
        planner::Way,
        ring::Entry,
        workers::Workers,
    },
    *,
};
use std::sync::mpsc;

const US: Duration = Duration::from_micros(1);

#[test]
fn a_window_is_sent_when_there_is_enough_or_after_a_while() {
    let (start, pace) = (Instant::now(), Pace { age: 10 * US, near: 50 * US });
    let mut watched = Watched::new(Arc::new(()));
    let mut at = |us: u32, glance| watched.ask(glance, start + us * US, pace);
    assert_eq!(at(0, Glance::Holds(1, false)), Ask::Nothing);
    assert_eq!(at(9, Glance::Holds(1, false)), Ask::Nothing);
    assert_eq!(at(10, Glance::Holds(1, false)), Ask::Send);
    assert_eq!(at(11, Glance::Holds(1, false)), Ask::Send, "somebody was at the stream");
    assert_eq!(at(12, Glance::Holds(40, false)), Ask::Nothing, "others by now");
    assert_eq!(at(13, Glance::Holds(40, true)), Ask::Send);
    assert_eq!(at(14, Glance::Empty), Ask::Nothing);
    assert_eq!(at(63, Glance::Empty), Ask::Nothing, "near, in case there is more");
    assert_eq!(at(64, Glance::Empty), Ask::Leave);
    assert_eq!(at(65, Glance::Holds(200, false)), Ask::Nothing);
    assert_eq!(at(75, Glance::Holds(200, false)), Ask::Send);
}

#[test]
fn a_window_that_was_empty_all_the_time_is_left_alone() {
    let (start, mut watched) = (Instant::now(), Watched::new(Arc::new(())));
    assert_eq!(watched.ask(Glance::Empty, start, PACE), Ask::Nothing);
    assert_eq!(watched.ask(Glance::Empty, start + PACE.near, PACE), Ask::Leave);
}

struct Fake {
    gather: Gather,
    sent: mpsc::Sender<usize>,
}

impl Gathers for Fake {
    fn gather(&self) -> &Gather {
        &self.gather
    }

    fn try_send(&self) {
        if let Ok(run) = self.gather.take(Vec::new()) {
            self.sent.send(run.count()).expect("counted below");
        }
    }
}

#[test]
fn copies_are_sent_though_nobody_asks_for_it() {
    let (sender, workers) = (Arc::new(Sender::<Fake>::default()), Arc::new(Workers::default()));
    let (sent, count) = mpsc::channel();
    let lanes: Vec<_> =
        (0..3).map(|_| Arc::new(Fake { gather: Gather::default(), sent: sent.clone() })).collect();
    for lane in &lanes {
        lane.gather.set_open(true);
        lane.gather.count();
    }
    let mut gathered = 0;
    for round in 0..200 {
        for lane in &lanes[..1 + round % 3] {
            let copy = Entry { dst: 0x1000 * round as u64, src: 1 << 40, len: 8 };
            match lane.gather.offer(Way::In, copy, 0) {
                Taken::Yes(_, Then::Watch) if sender.watch(lane.clone()) => {
                    let sender = sender.clone();
                    workers.run(Box::new(move || sender.serve()));
                }
                Taken::Yes(..) => {}
                other => panic!("{other:?}"),
            }
            gathered += 1;
        }
        if round % 20 == 0 {
            while gathered > 0 {
                gathered -= count.recv_timeout(Duration::from_secs(60)).expect("sent");
            }
        }
    }
}
