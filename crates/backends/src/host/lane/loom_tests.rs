//! The lane under the model checker: every interleaving of a submitter that waits, a worker, and a third
//! party. `RUSTFLAGS="--cfg loom" cargo test -p ferry-backends --lib --release loom`

use super::*;
use crate::host::team::{Team, TeamWork};
use crate::os::page::SMALLEST_PAGE;
use crate::pool::Job;
use ferry_core::{Fill, Gate, Halt, Op, Pieces, Point, Queue, Result, Rows, sync::AtomicUsize};
use loom::thread;
use std::{any::Any, time::Duration};

fn small_work() -> Op {
    Op::Fill(Fill { dst: 0x1000, len: 0, pattern: [0; 4], device: None })
}

fn submit(lane: &Arc<Lane>, op: Op) {
    // SAFETY: the ops of these tests touch no memory.
    unsafe { LaneQueue(lane.clone()).submit(op) }.expect("a queue takes work");
}

fn fence(lane: &Arc<Lane>) -> Arc<dyn Fence> {
    LaneQueue(lane.clone()).fence().expect("a fence")
}

fn lane(engine: &Arc<Engine>, waited: bool) -> Arc<Lane> {
    Lane::new(engine.clone(), Arc::new(Status::new(0, None)), waited)
}

/// Runs `body` beside one worker, in every order that up to three preemptions allow, and what it returns
/// after the end.
fn beside_a_worker<F: FnOnce()>(body: impl Fn(&Arc<Engine>) -> F + Send + Sync + 'static) {
    beside(false, body);
}

/// Runs `body` beside one worker as above, which ends as soon as it finds nothing to do.
fn beside_a_worker_that_ends<F: FnOnce()>(body: impl Fn(&Arc<Engine>) -> F + Send + Sync + 'static) {
    beside(true, body);
}

fn beside<F: FnOnce()>(ends_at_once: bool, body: impl Fn(&Arc<Engine>) -> F + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let engine = Engine::modelled(ends_at_once);
        let worker = engine.clone();
        let worker = thread::spawn(move || worker.serve());
        let check = body(&engine);
        engine.close();
        worker.join().expect("the worker ends");
        check();
    });
}

#[test]
fn who_waits_is_woken_whoever_does_the_work() {
    beside_a_worker(|engine| {
        let lane = lane(engine, false);
        submit(&lane, small_work());
        fence(&lane).wait(None).expect("the work is done");
        submit(&lane, small_work());
        fence(&lane).wait(None).expect("and done again");
        assert_eq!(lane.status.passed(), 2);
        || ()
    });
}

#[test]
fn a_lane_that_waits_for_another_goes_on() {
    beside_a_worker(|engine| {
        let (first, second) = (lane(engine, false), lane(engine, false));
        submit(&first, small_work());
        submit(&second, Op::Wait(fence(&first)));
        fence(&second).wait(None).expect("the other lane has passed");
        assert_eq!(first.status.passed(), 1);
        || ()
    });
}

#[test]
fn a_watcher_is_told_exactly_once() {
    beside_a_worker(|engine| {
        let (lane, told) = (lane(engine, false), Arc::new(AtomicUsize::new(0)));
        submit(&lane, small_work());
        let count = told.clone();
        fence(&lane).when_done(Box::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
        }));
        submit(&lane, small_work());
        fence(&lane).wait(None).expect("done");
        move || assert_eq!(told.load(Ordering::Relaxed), 1)
    });
}

#[test]
fn watchers_that_come_while_their_tickets_pass_are_told_once_and_in_time() {
    beside_a_worker(|engine| {
        let lane = lane(engine, false);
        (0..2).for_each(|_| submit(&lane, small_work()));
        // The later ticket first: the sign has to go down again while the worker looks at it.
        let told = [2, 1].map(|ticket| {
            let told = Arc::new(AtomicUsize::new(0));
            let (count, status) = (told.clone(), lane.status.clone());
            lane.fence_at(ticket).when_done(Box::new(move || {
                // Not an assertion: a watcher's panic goes unheard.
                count.fetch_add(if status.passed() >= ticket { 1 } else { 100 }, Ordering::Relaxed);
            }));
            told
        });
        // The worker does the work: nobody waits, and it ends only when nothing is left.
        move || {
            assert_eq!(told.map(|count| count.load(Ordering::Relaxed)), [1, 1]);
            assert_eq!(lane.signs.wanted.load(Ordering::Relaxed), NONE);
        }
    });
}

#[test]
fn aborted_work_completes_and_the_lane_lives_on() {
    beside_a_worker(|engine| {
        let lane = lane(engine, false);
        submit(&lane, small_work());
        LaneQueue(lane.clone()).abort();
        fence(&lane).wait(None).expect("dropped or done");
        submit(&lane, small_work());
        fence(&lane).wait(None).expect("later work runs");
        move || {
            assert_eq!(lane.status.passed(), 2);
            assert_eq!(lane.signs.wanted.load(Ordering::Relaxed), NONE);
        }
    });
}

#[test]
fn a_lane_without_workers_is_run_by_those_who_wait() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let lane = lane(&Engine::new(Arc::new(()), 1), true);
        let other = lane.clone();
        let other = thread::spawn(move || {
            submit(&other, small_work());
            fence(&other).wait(None).expect("done");
        });
        submit(&lane, small_work());
        fence(&lane).wait(None).expect("done");
        other.join().expect("the other is done");
        assert_eq!(lane.status.passed(), 2);
    });
}

#[test]
fn who_begins_to_wait_helps_with_a_large_copy_that_begins_then() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        const LEN: usize = 2 * SMALLEST_PAGE;
        let lane = lane(&Engine::modelled_for_teams(), true);
        let (source, target) = (vec![7_u8; LEN], vec![0_u8; LEN]);
        lane.push(|_| Task::Nothing);
        let hand = lane.claim(false).expect("it is ready");
        let other = lane.clone();
        let other = thread::spawn(move || other.fence_at(1).wait(None).expect("done"));
        let rows = Rows::linear(target.as_ptr() as usize, source.as_ptr() as usize, LEN);
        let portions = Team::shuffled(Pieces::Rows(&[rows]), |_| 0).expect("two");
        let team = lane.engine.open_team(TeamWork::One(rows), portions, &*lane);
        while lane.wants_help() {
            thread::yield_now();
        }
        drop(team);
        lane.pass_all(hand.into_iter().collect::<Vec<_>>().into_iter());
        lane.put_back(VecDeque::new());
        other.join().expect("the other is done");
    });
}

/// A fence that nothing will ever complete.
struct Never;

impl Fence for Never {
    fn is_done(&self) -> bool {
        false
    }
    fn wait(&self, _: Option<Duration>) -> Result<()> {
        Ok(())
    }
    fn when_done(&self, _: Job) {}
    fn point(&self) -> Option<Point> {
        None
    }
    fn native(&self) -> &dyn Any {
        self
    }
}

#[test]
fn an_abort_reaches_a_lane_that_is_about_to_block() {
    beside_a_worker(|engine| {
        let lane = lane(engine, false);
        submit(&lane, Op::Wait(Arc::new(Never)));
        LaneQueue(lane.clone()).abort();
        fence(&lane).wait(None).expect("dropped");
        || ()
    });
}

#[test]
fn work_after_an_abort_is_not_dropped() {
    beside_a_worker(|engine| {
        let lane = lane(engine, false);
        submit(&lane, small_work());
        fence(&lane).wait(None).expect("done");
        LaneQueue(lane.clone()).abort();
        submit(&lane, small_work());
        fence(&lane).wait(None).expect("done");
        move || assert_eq!(lane.status.take_error(), None)
    });
}

/// Submits twice and learns of the end without lending a hand: the worker must be told of every op that finds
/// it gone.
fn submit_and_look_on(engine: &Arc<Engine>) {
    let lane = lane(engine, false);
    for _ in 0..2 {
        submit(&lane, small_work());
        let done = Arc::new(loom::sync::Notify::new());
        let told = done.clone();
        fence(&lane).when_done(Box::new(move || told.notify()));
        done.wait();
    }
}

#[test]
fn work_goes_on_though_nobody_helps() {
    beside_a_worker(|engine| {
        submit_and_look_on(engine);
        || ()
    });
}

#[test]
fn work_that_finds_the_worker_gone_or_about_to_end_is_done() {
    beside_a_worker_that_ends(|engine| {
        submit_and_look_on(engine);
        || ()
    });
}

#[test]
fn two_lanes_that_become_ready_while_the_worker_ends_are_both_done() {
    beside_a_worker_that_ends(|engine| {
        let lanes = [0, 1].map(|_| lane(engine, false));
        let [first, second] = lanes.clone();
        let other = thread::spawn(move || submit(&first, small_work()));
        submit(&second, small_work());
        other.join().expect("no panic");
        move || assert_eq!(lanes.map(|lane| lane.status.passed()), [1, 1])
    });
}

#[test]
fn nothing_runs_when_an_abort_has_returned_and_who_waited_goes_on() {
    beside_a_worker(|engine| {
        let lane = lane(engine, false);
        submit(&lane, small_work());
        submit(&lane, Op::Wait(Arc::new(Never)));
        let waited_for = fence(&lane);
        let waiter = thread::spawn(move || waited_for.wait(None));
        LaneQueue(lane.clone()).abort();
        assert_eq!(lane.status.passed(), 2);
        assert_eq!(lane.status.take_error().map(|error| error.kind), Some(Kind::Aborted));
        waiter.join().expect("no panic").expect("dropped work is done");
        || ()
    });
}

#[test]
fn a_halt_reaches_a_lane_that_is_about_to_block() {
    beside_a_worker(|engine| {
        let halt = Halt::new();
        let [failing, stopped] = [0, 1].map(|stream| Status::new(stream, None).under(halt.clone()));
        let lane = Lane::new(engine.clone(), Arc::new(stopped), false);
        submit(&lane, Op::Wait(Arc::new(Never)));
        failing.stop_all_on_failure();
        failing.fail(Kind::Device.because("it failed"));
        lane.resume(); // as the hook of its queue does
        fence(&lane).wait(None).expect("dropped");
        move || assert_eq!(lane.status.take_error().map(|error| error.kind), Some(Kind::Device))
    });
}

#[test]
fn a_gate_lets_go_of_those_who_come_before_and_after_it_was_opened() {
    beside_a_worker(|engine| {
        let (lane, gate) = (lane(engine, false), Gate::new());
        submit(&lane, Op::Wait(gate.clone()));
        let opener = thread::spawn({
            let gate = gate.clone();
            move || gate.open()
        });
        gate.wait(None).expect("opened");
        fence(&lane).wait(None).expect("the lane has seen it too");
        opener.join().expect("no panic");
        || ()
    });
}
