use super::*;
use crate::cuda::{
    order::window::{Offered, RunKind},
    stream::planner::Direction,
};
use crate::pool::Pool;
use ferry_core::Segment;
use std::sync::mpsc;

const US: Duration = Duration::from_micros(1);

const PACE: Pace = Pace {
    send_after: US.saturating_mul(3),
    send_by: US.saturating_mul(12),
    stop_polling_after: US.saturating_mul(50),
    step: US,
    start_latency: US.saturating_mul(5),
    launch_cost: US.saturating_mul(4),
    bytes_per_us: 1000,
};

#[test]
fn a_window_is_sent_when_the_gpu_needs_work_or_there_is_much_or_after_a_while() {
    let (start, mut watched) = (Instant::now(), WatchedLane::new(Arc::new(())));
    let mut at = |us: u32, view| {
        let action = watched.action(view, start + us * US, &PACE);
        if action == Action::Send {
            watched.sent(20_000, start + us * US, &PACE);
        }
        action
    };
    assert_eq!(at(0, WindowView::Waiting { first: 1, is_due: false }), Action::Nothing, "there may be more");
    assert_eq!(at(2, WindowView::Waiting { first: 1, is_due: false }), Action::Nothing);
    assert_eq!(
        at(3, WindowView::Waiting { first: 1, is_due: false }),
        Action::Send,
        "the GPU has nothing to do until 8, and then until 32"
    );
    assert_eq!(at(16, WindowView::Waiting { first: 40, is_due: false }), Action::Nothing);
    assert_eq!(
        at(26, WindowView::Waiting { first: 40, is_due: false }),
        Action::Nothing,
        "it has enough to do"
    );
    assert_eq!(at(27, WindowView::Waiting { first: 40, is_due: false }), Action::Send, "and then until 56");
    assert_eq!(at(28, WindowView::Waiting { first: 50, is_due: false }), Action::Nothing);
    assert_eq!(
        at(29, WindowView::Waiting { first: 50, is_due: true }),
        Action::Send,
        "so much, and then until 80"
    );
    assert_eq!(at(30, WindowView::Waiting { first: 60, is_due: false }), Action::Nothing);
    assert_eq!(at(41, WindowView::Waiting { first: 60, is_due: false }), Action::Nothing);
    assert_eq!(
        at(42, WindowView::Waiting { first: 60, is_due: false }),
        Action::Send,
        "long enough, whatever it has to do"
    );
}

#[test]
fn a_window_that_stays_empty_is_left_alone() {
    let (start, mut watched) = (Instant::now(), WatchedLane::new(Arc::new(())));
    let mut at = |us: u32, view| watched.action(view, start + us * US, &PACE);
    assert_eq!(at(0, WindowView::Empty), Action::Nothing);
    assert_eq!(at(49, WindowView::Empty), Action::Nothing, "near, in case there is more");
    assert_eq!(at(50, WindowView::Empty), Action::StopPolling);
    assert_eq!(at(51, WindowView::Waiting { first: 9, is_due: false }), Action::Nothing);
    assert_eq!(at(54, WindowView::Waiting { first: 9, is_due: false }), Action::Send);
    assert_eq!(at(55, WindowView::Empty), Action::Nothing);
    assert_eq!(at(104, WindowView::Empty), Action::Nothing);
    assert_eq!(at(105, WindowView::Empty), Action::StopPolling);
}

/// A lane without a stream.
struct Fake {
    window: Window,
    sent: mpsc::Sender<usize>,
    /// The driver blocks the sending thread until this is set.
    room: Mutex<Option<mpsc::Receiver<()>>>,
    /// The thread that has sent last.
    sender: Mutex<Option<thread::ThreadId>>,
}

impl Fake {
    fn busy(sent: &mpsc::Sender<usize>) -> Arc<Fake> {
        let (window, sent) = (Window::default(), sent.clone());
        let lane = Fake { window, sent, room: Mutex::default(), sender: Mutex::default() };
        lane.window.set_open(true);
        lane.window.count();
        Arc::new(lane)
    }

    /// Submits a copy. Says whether it was coalesced.
    fn submit(self: &Arc<Self>, to: usize, sender: &Arc<Sender<Fake>>, workers: &Arc<Pool>) -> bool {
        let copy = Segment { dst: to, src: 1 << 40, len: 8 };
        match self.window.offer(
            RunKind::Copies(Direction::In),
            || 0,
            |run, ticket| run.add(ticket, Direction::In, copy),
        ) {
            Offered::Yes { .. } => return true,
            Offered::No { asks_sender: true } => assert!(sender.watch(workers, self.clone())),
            Offered::No { asks_sender: false } => {}
            Offered::Full => panic!("the others would have been sent"),
        }
        self.window.count();
        false
    }
}

impl Coalesces for Fake {
    fn window(&self) -> &Window {
        &self.window
    }

    fn try_send(self: &Arc<Self>) -> usize {
        let Some(run) = self.window.take() else { return 0 };
        if let Some(room) = lock(&self.room).take() {
            room.recv().expect("there is room at last");
        }
        *lock(&self.sender) = Some(thread::current().id());
        self.sent.send(run.count()).expect("counted below");
        run.bytes()
    }
}

const LONG: Duration = Duration::from_secs(60);

#[test]
fn copies_are_sent_though_nobody_asks_for_it() {
    let (sender, workers) = (Arc::new(Sender::<Fake>::default()), Pool::new("ferry-test"));
    let (sent, count) = mpsc::channel();
    let lanes: Vec<_> = (0..3).map(|_| Fake::busy(&sent)).collect();
    let mut coalesced = 0;
    for round in 0..2000 {
        for lane in &lanes[..1 + round % 3] {
            coalesced += usize::from(lane.submit(0x1000 * round, &sender, &workers));
        }
        if round % 20 == 0 {
            while coalesced > 0 {
                coalesced -= count.recv_timeout(LONG).expect("sent");
            }
        }
    }
}

#[test]
fn streams_without_room_hold_up_no_other() {
    let pace = Pace { stop_polling_after: LONG, ..super::PACE };
    let (sender, workers) = (Arc::new(Sender::<Fake>::new(pace, true)), Pool::new("ferry-test"));
    let (sent, count) = mpsc::channel();
    let lanes: Vec<_> = (0..4).map(|_| Fake::busy(&sent)).collect();
    let is_coalesced = |lane: &Arc<Fake>| lane.submit(8, &sender, &workers);
    for lane in &lanes {
        while !is_coalesced(lane) {}
        assert_eq!(count.recv_timeout(LONG), Ok(1), "it is polled from now on");
    }
    for _ in 0..3 {
        let mut doors = Vec::new();
        for lane in &lanes[1..] {
            let (open, room) = mpsc::channel();
            *lock(&lane.room) = Some(room);
            assert!(is_coalesced(lane));
            doors.push(open);
        }
        assert!(is_coalesced(&lanes[0]));
        assert_eq!(count.recv_timeout(LONG), Ok(1), "what the others may wait for");
        assert_eq!(count.try_recv(), Err(mpsc::TryRecvError::Empty));
        for open in doors {
            open.send(()).expect("it waits for that");
            assert_eq!(count.recv_timeout(LONG), Ok(1));
        }
    }
}

#[test]
fn a_job_that_gets_no_thread_of_its_own_runs_though_windows_are_polled() {
    let pace = Pace { stop_polling_after: 10 * LONG, ..super::PACE };
    let (sender, workers) = (Arc::new(Sender::<Fake>::new(pace, true)), Pool::new("ferry-test"));
    let (sent, count) = mpsc::channel();
    let lane = Fake::busy(&sent);
    while !lane.submit(8, &sender, &workers) {}
    assert_eq!(count.recv_timeout(LONG), Ok(1), "it is polled from now on");
    workers.refuse_threads();
    let serving = lock(&lane.sender).expect("it has sent");
    let (done, ran) = mpsc::channel();
    let (_open, gate) = mpsc::channel::<()>();
    let gate = Arc::new(Mutex::new(gate));
    // Threads that have nothing to do take some of them, and are blocked.
    for _ in 0..4 {
        let (done, gate) = (done.clone(), gate.clone());
        let job = move || match thread::current().id() == serving {
            true => done.send(()).expect("read below"),
            false => drop(lock(&gate).recv()),
        };
        assert!(workers.run(Box::new(job)).is_ok());
    }
    assert_eq!(ran.recv_timeout(LONG), Ok(()), "the serving thread makes way");
    assert!(lane.submit(8, &sender, &workers));
    assert_eq!(count.recv_timeout(LONG), Ok(1), "and goes on");
}
