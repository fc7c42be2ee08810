//! Watchers of a lane that only the test's own thread runs, up to the ticket that it waits for and no
//! further.

use super::*;
use crate::host::team::{Team, TeamWork};
use ferry_core::{Fill, Op, Pieces, Queue, Rows, sync::AtomicUsize};
use std::{sync::mpsc, thread, time::Duration};

/// A lane without workers, with this much work.
fn lane(ops: Ticket) -> Arc<Lane> {
    let lane = Lane::new(Engine::new(Arc::new(()), 1), Arc::new(Status::new(0, None)), true);
    for _ in 0..ops {
        let op = Op::Fill(Fill { dst: 0x1000, len: 0, pattern: [0; 4], device: None });
        // SAFETY: the op touches no memory.
        unsafe { LaneQueue(lane.clone()).submit(op) }.expect("a queue takes work");
    }
    lane
}

/// Counts how often it was told that `ticket` has passed, and sees that it has.
fn told(lane: &Arc<Lane>, ticket: Ticket) -> Arc<AtomicUsize> {
    let count = Arc::new(AtomicUsize::new(0));
    let (told, status) = (count.clone(), lane.status.clone());
    lane.fence_at(ticket).when_done(Box::new(move || {
        // Not an assertion: a watcher's panic goes unheard.
        told.fetch_add(if status.passed() >= ticket { 1 } else { 100 }, Ordering::Relaxed);
    }));
    count
}

#[test]
fn each_watcher_is_told_once_and_when_its_ticket_has_passed() {
    const TICKETS: Ticket = 20;
    for register_after in [0, 10] {
        let lane = lane(TICKETS);
        lane.fence_at(register_after).wait(None).expect("done");
        // Every ticket three times, in disorder.
        let tickets = (0..3 * TICKETS).map(|turn| turn * 7 % TICKETS + 1);
        let watchers: Vec<_> = tickets.map(|ticket| (ticket, told(&lane, ticket))).collect();
        for passed in register_after..=TICKETS {
            lane.fence_at(passed).wait(None).expect("done");
            assert_eq!(lane.status.passed(), passed);
            for (ticket, count) in &watchers {
                assert_eq!(
                    count.load(Ordering::Relaxed),
                    usize::from(*ticket <= passed),
                    "{ticket} at {passed}"
                );
            }
        }
        assert_eq!(lane.signs.wanted.load(Ordering::Relaxed), NONE);
    }
}

#[test]
fn a_watcher_that_panics_takes_neither_others_nor_the_work_with_it() {
    let lane = lane(3);
    let before = told(&lane, 2);
    lane.fence_at(2).when_done(Box::new(|| panic!("a user's waker")));
    let (after, later) = (told(&lane, 2), told(&lane, 3));
    lane.fence_at(3).wait(None).expect("done");
    assert_eq!([before, after, later].map(|count| count.load(Ordering::Relaxed)), [1; 3]);
    assert_eq!((lane.status.passed(), lane.status.take_error()), (3, None));
}

#[test]
fn the_panic_of_a_watcher_that_comes_late_is_its_callers() {
    let lane = lane(1);
    lane.fence_at(1).wait(None).expect("done");
    let late = || lane.fence_at(1).when_done(Box::new(|| panic!("a user's waker")));
    assert!(!survives(late));
}

/// Where the last op of the queue lies.
fn place_of_last(lane: &Lane) -> usize {
    lock(&lane.state).work.back().map_or(0, |work| ptr::from_ref(work).addr())
}

#[test]
fn a_function_that_returns_moves_nothing_of_the_queue_behind_it() {
    let lane = lane(1000);
    lock(&lane.state).phase = Phase::Calling;
    for ticket in 1..100 {
        let before = place_of_last(&lane);
        lane.called(ticket);
        // The thread that has called goes on, and comes to the next function.
        let hand = lane.take(&mut lock(&lane.state));
        lane.put_back(hand);
        assert_eq!((lane.status.passed(), place_of_last(&lane)), (ticket, before), "after function {ticket}");
    }
}

#[test]
fn work_goes_back_in_front_of_what_came_since_and_the_longer_list_stays_where_it_is() {
    let fill = |len| Task::Fill { dst: 0, len, done: 0, pattern: [0; 4] };
    let lens = |work: &VecDeque<Task>| -> Vec<usize> {
        work.iter().map(|work| if let Task::Fill { len, .. } = work { *len } else { 0 }).collect()
    };
    for (taken, came) in [(0, 0), (0, 9), (3, 9), (9, 3), (9, 0), (4, 4)] {
        let mut hand: VecDeque<_> = (0..taken).map(fill).collect();
        let mut state = LaneState { work: (taken..taken + came).map(fill).collect(), ..LaneState::default() };
        hand.reserve(20);
        state.work.reserve(20);
        let longer = if taken < came {
            &state.work[0]
        } else if taken > 0 {
            &hand[0]
        } else {
            &fill(0)
        };
        let stays = ptr::from_ref(longer).addr();
        state.put_in_front(hand);
        assert_eq!(lens(&state.work), (0..taken + came).collect::<Vec<_>>(), "{taken} and {came}");
        let first_of_longer = state.work.get(if taken < came { taken } else { 0 });
        assert!(first_of_longer.is_none_or(|work| ptr::from_ref(work).addr() == stays), "{taken} and {came}");
    }
}

#[test]
fn who_waits_does_what_its_lane_is_blocked_on() {
    // Only threads that wait run these lanes: each is blocked on the one before it.
    let lanes: Vec<_> = (0..4).map(|_| lane(2)).collect();
    for pair in lanes.windows(2) {
        let fence = pair[0].fence_at(pair[0].submitted.load(Ordering::Relaxed));
        // SAFETY: the op touches no memory.
        unsafe { LaneQueue(pair[1].clone()).submit(Op::Wait(fence)) }.expect("a queue takes work");
        pair[1].push(|_| Task::Fill { dst: 0x1000, len: 0, done: 0, pattern: [0; 4] });
    }
    let done = lanes[3].fence_at(4).wait(Some(Duration::from_secs(100)));
    assert_eq!(done, Ok(()));
    let passed: Vec<_> = lanes.iter().map(|lane| lane.status.passed()).collect();
    assert_eq!(passed, [2, 4, 4, 4]);
}

#[test]
fn who_sleeps_until_a_large_copy_is_done_is_woken_to_help_with_it() {
    const LEN: usize = 4 << 20;
    let lane = Lane::new(Engine::new(Arc::new(()), 2), Arc::new(Status::new(0, None)), true);
    let (source, target) = (vec![7_u8; LEN], vec![0_u8; LEN]);
    lane.push(|_| Task::Nothing);
    // This thread is the owner, and does no part of the copy. There are no workers.
    let hand = lane.claim(false).expect("it is ready");
    let waiter = {
        let lane = lane.clone();
        thread::spawn(move || lane.fence_at(1).wait(None))
    };
    until("it sleeps", || lock(&lane.state).waiting.has_sleepers());
    let rows = Rows::linear(target.as_ptr() as usize, source.as_ptr() as usize, LEN);
    let portions = Team::portions(Pieces::Rows(&[rows]), 2).expect("large enough");
    let team = lane.engine.open_team(TeamWork::One(rows), portions, &*lane);
    until("it does the last portion", || byte_at(&target, LEN - 1) == 7);
    drop(team);
    assert!((0..LEN).all(|at| byte_at(&target, at) == 7));
    lane.pass_all(hand.into_iter().collect::<Vec<_>>().into_iter());
    lane.put_back(VecDeque::new());
    assert_eq!(waiter.join().expect("no panic"), Ok(()));
}

/// Waits until it is so.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(100);
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        thread::yield_now();
    }
}

#[test]
fn functions_in_a_row_are_called_by_one_thread() {
    let lane = Lane::new(Engine::new(Arc::new(()), 2), Arc::new(Status::new(0, None)), false);
    let ((go, gate), (tell, told)) = (mpsc::channel::<()>(), mpsc::channel());
    let gate = std::sync::Mutex::new(gate);
    let mut first = Some(move || gate.lock().expect("whole").recv().expect("opened below"));
    for _ in 0..3 {
        let (tell, wait) = (tell.clone(), first.take());
        lane.push(|_| {
            Task::Call(Box::new(move || {
                wait.into_iter().for_each(|wait| wait());
                tell.send(thread::current().id()).expect("read below");
            }))
        });
        lane.push(|_| Task::Fill { dst: 0x1000, len: 0, done: 0, pattern: [0; 4] });
    }
    go.send(()).expect("the first function waits");
    let threads: Vec<_> = told.iter().take(3).collect();
    assert!(threads.iter().all(|thread| *thread == threads[0]), "{threads:?}");
    assert_ne!(threads[0], thread::current().id());
    lane.fence_at(6).wait(None).expect("done");
}

#[test]
fn where_pages_are_watched_a_short_copy_is_done_by_its_submitter_and_in_order() {
    let lane = Lane::new(Engine::watched(Arc::new(()), 2), Arc::new(Status::new(0, None)), false);
    let (source, target) = (vec![7_u8; 2 << 20], vec![0_u8; 2 << 20]);
    let copy =
        |len| Task::Linear { dst: target.as_ptr() as usize, src: source.as_ptr() as usize, len, done: 0 };
    assert_eq!((lane.push(|_| copy(100)), lane.status.passed()), (1, 1), "it is done");
    assert_eq!(byte_at(&target, 99), 7);
    let (go, gate) = mpsc::channel::<()>();
    lane.push(|_| Task::Call(Box::new(move || gate.recv().expect("opened below"))));
    assert_eq!((lane.push(|_| copy(200)), lane.status.passed()), (3, 1), "behind the function");
    assert_eq!(byte_at(&target, 199), 0);
    go.send(()).expect("the function waits");
    lane.fence_at(3).wait(None).expect("done");
    assert_eq!(byte_at(&target, 199), 7);
    lane.push(|_| copy(2 << 20));
    lane.fence_at(4).wait(None).expect("done");
    assert_eq!(byte_at(&target, (2 << 20) - 1), 7, "a long one is left to a worker");
}

#[test]
fn a_submitter_runs_no_watchers() {
    let lane = Lane::new(Engine::watched(Arc::new(()), 2), Arc::new(Status::new(0, None)), false);
    let (source, target) = ([7_u8; 100], vec![0_u8; 100]);
    let copy =
        || Task::Linear { dst: target.as_ptr() as usize, src: source.as_ptr() as usize, len: 100, done: 0 };
    // One whose ticket has not come is as one that has just passed and is about to be called.
    let (tell, told) = mpsc::channel();
    lane.fence_at(2).when_done(Box::new(move || tell.send(thread::current().id()).expect("read below")));
    for _ in 1..=2 {
        lane.push(|_| copy());
    }
    assert_ne!(told.recv(), Ok(thread::current().id()));
}

/// A byte that a copy may just have written.
fn byte_at(bytes: &[u8], at: usize) -> u8 {
    // SAFETY: inside of the slice.
    unsafe { ptr::read_volatile(&bytes[at]) }
}
