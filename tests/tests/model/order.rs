//! What happens before what: a graph of points, of which each thread and each stream is a chain.
//!
//! A call is a point of its thread; a task is a point of its stream, after its call and after the tasks
//! submitted to the stream before (as far as this thread knows: two threads that submit at the same time are
//! in no order). Synchronising calls, events, gates and barriers add the edges between chains. An edge the
//! documents do not promise is left out, so "not ordered" may mean "not known to be".
//!
//! When an abort returns, every task of its stream has run or will never run. It waited for nothing else:
//! what a dropped task would have waited for is no longer known to lie before what comes after the task.

use std::collections::HashMap;

use crate::api::Lent;
use crate::program::{Act, EVENTS, Program, STREAMS, Step, THREADS, Timing, streams_of, streams_of_model};

pub type Point = usize;

/// A set of points.
#[derive(Clone, Default)]
pub struct Points(Vec<u64>);

impl Points {
    pub fn has(&self, p: Point) -> bool {
        self.0.get(p / 64).is_some_and(|w| w >> (p % 64) & 1 == 1)
    }

    /// Returns whether `p` is new.
    pub fn insert(&mut self, p: Point) -> bool {
        if self.0.len() <= p / 64 {
            self.0.resize(p / 64 + 1, 0);
        }
        let fresh = !self.has(p);
        self.0[p / 64] |= 1 << (p % 64);
        fresh
    }

    pub fn insert_all(&mut self, others: &Points) {
        self.0.resize(self.0.len().max(others.0.len()), 0);
        self.0.iter_mut().zip(&others.0).for_each(|(word, more)| *word |= more);
    }
}

/// A held stream. Until it is released, the release lies after whatever its owner calls.
#[derive(Clone)]
struct Blocker {
    owner: usize,
    task: Point,
    release: Option<Point>,
}

/// Where a step is: the points of its call and of its task.
#[derive(Clone, Copy, Debug)]
pub struct Placed {
    pub call: Point,
    /// The same as `call` where the step makes no task.
    pub task: Point,
}

#[derive(Clone, Default)]
pub struct Order {
    /// Edges by the point they lead to, all of them in one list.
    before: Vec<Point>,
    starts: Vec<usize>,
    last: [Option<Point>; THREADS],
    /// For each stream, the tasks each thread knows to be its latest.
    tails: [[Vec<Point>; THREADS]; STREAMS.len()],
    records: [Option<Point>; EVENTS.len()],
    /// After a reset, the waits for the next record.
    resets: [Option<Vec<Point>>; EVENTS.len()],
    gates: Vec<Blocker>,
    /// Edges by which tasks wait for other streams.
    across: HashMap<Point, Vec<Point>>,
    /// The tasks of each stream since it was last aborted.
    tasks: [Vec<Point>; STREAMS.len()],
    /// Tasks that may have been dropped, and among them those that certainly were.
    dropped: Points,
    void: Points,
    /// The page-locked buffers that copies of a program in Rust have.
    pub lent: Lent,
}

impl Order {
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    fn point(&mut self, before: impl IntoIterator<Item = Point>) -> Point {
        self.starts.push(self.before.len());
        self.before.extend(before);
        self.starts.len() - 1
    }

    fn call(&mut self, thread: usize, also: impl IntoIterator<Item = Point>) -> Point {
        let last = self.last[thread];
        let point = self.point(last.into_iter().chain(also));
        self.last[thread] = Some(point);
        point
    }

    fn task(&mut self, thread: usize, stream: usize, across: impl IntoIterator<Item = Point>) -> Placed {
        let call = self.call(thread, []);
        let tail = std::mem::take(&mut self.tails[stream][thread]);
        let task = self.point([call].into_iter().chain(tail));
        self.across.insert(task, across.into_iter().collect());
        self.tails[stream][thread] = vec![task];
        self.tasks[stream].push(task);
        Placed { call, task }
    }

    /// Later tasks of one stream come after the earlier ones of another.
    fn link(&mut self, thread: usize, from: usize, to: usize) -> Placed {
        let last = self.task(thread, from, None);
        let next = self.task(thread, to, [last.task]);
        Placed { call: last.call, task: next.task }
    }

    /// Drops what the stream has not done. Nobody else uses the stream at the time.
    fn abort(&mut self, thread: usize, stream: usize) -> Placed {
        let call = self.call(thread, []);
        self.drop_tasks(call, stream);
        let tail = self.tails[stream][thread].clone();
        let back = self.call(thread, tail);
        self.tails[stream].fill(vec![back]);
        Placed { call, task: call }
    }

    /// Everything in the stream runs until the work that fails; the other streams of its device drop what
    /// they have not done.
    fn halt(&mut self, thread: usize, stream: usize) -> Placed {
        let call = self.call(thread, self.tails[stream][thread].clone());
        let all = streams_of(STREAMS[stream]);
        all.iter().for_each(|s| self.drop_tasks(call, *s));
        let tails: Vec<_> = all.iter().flat_map(|s| self.tails[*s][thread].clone()).collect();
        let back = self.call(thread, tails);
        all.iter().for_each(|s| self.tails[*s].fill(vec![back]));
        Placed { call, task: call }
    }

    /// The tasks of the stream that are not over at `call` may be dropped.
    fn drop_tasks(&mut self, call: Point, stream: usize) {
        let past = self.past(call);
        let tasks = std::mem::take(&mut self.tasks[stream]);
        let open: Vec<_> = tasks.into_iter().filter(|task| !past.has(*task)).collect();
        for task in &open {
            // Behind a gate, for example, that is opened later.
            if self.past(*task).has(call) {
                self.void.insert(*task);
            }
        }
        open.iter().for_each(|task| {
            self.dropped.insert(*task);
        });
    }

    pub fn is_recorded(&self, event: usize) -> bool {
        self.records[event].is_some()
    }

    /// Whether the task may have been dropped by an abort.
    pub fn is_dropped(&self, task: Point) -> bool {
        self.dropped.has(task)
    }

    /// Whether the task was certainly dropped.
    pub fn is_void(&self, task: Point) -> bool {
        self.void.has(task)
    }

    fn barrier(&mut self) -> Point {
        let both = self.point(self.last.into_iter().flatten());
        self.last = [Some(both); THREADS];
        for tails in &mut self.tails {
            let mut all = tails.concat();
            all.sort_unstable();
            all.dedup();
            tails.fill(all);
        }
        both
    }

    /// Takes the next step of the program and returns its points.
    pub fn step(&mut self, program: &Program, step: &Step) -> Placed {
        let thread = step.thread;
        let at = |p: Point| Placed { call: p, task: p };
        self.lent.step(&step.act);
        match step.act {
            Act::Record { event, stream } => {
                let points = self.task(thread, stream, None);
                self.records[event] = Some(points.task);
                let waits = self.resets[event].take().into_iter().flatten();
                waits.for_each(|wait| self.across.entry(wait).or_default().push(points.task));
                points
            }
            Act::Reset { event, stream } => {
                self.resets[event].get_or_insert_default();
                self.task(thread, stream, None)
            }
            Act::Wait { stream, event } if self.resets[event].is_some() => {
                let points = self.task(thread, stream, None);
                self.resets[event].get_or_insert_default().push(points.task);
                points
            }
            Act::Wait { stream, event } => self.task(thread, stream, self.records[event]),
            Act::SyncEvent { event } => at(self.call(thread, self.records[event])),
            Act::Launch { model, stream, .. } => self.link(thread, stream, streams_of_model(model)[0]),
            Act::Link { from, to } => self.link(thread, from, to),
            Act::Done { model, stream } => self.link(thread, streams_of_model(model)[0], stream),
            Act::Stale { stream, .. } | Act::SyncStream { stream } => {
                at(self.call(thread, self.tails[stream][thread].clone()))
            }
            Act::SyncDevice { device } => {
                let streams = (0..STREAMS.len()).filter(|s| STREAMS[*s] == device);
                let tails: Vec<_> = streams.flat_map(|s| self.tails[s][thread].clone()).collect();
                at(self.call(thread, tails))
            }
            Act::Hold { gate, stream } => {
                let points = self.task(thread, stream, None);
                debug_assert_eq!(gate, self.gates.len(), "gates are numbered in order");
                self.gates.push(Blocker { owner: thread, task: points.task, release: None });
                points
            }
            Act::Release { gate } => {
                let release = self.call(thread, []);
                self.gates[gate].release = Some(release);
                at(release)
            }
            Act::Abort { stream } | Act::Renew { stream } => self.abort(thread, stream),
            Act::Halt { stream } => self.halt(thread, stream),
            Act::Barrier => at(self.barrier()),
            Act::Land { ref buffers } => {
                let landed = self.lent.land(buffers[0]);
                at(self.call(thread, landed))
            }
            _ => match program.timing(&step.act).expect("all other steps move bytes") {
                Timing::Call => at(self.call(thread, [])),
                Timing::Staged { stream } => self.task(thread, stream, None),
                Timing::Task { stream, waits } => {
                    let taken = self.lent.taken(program, &step.act);
                    let points = self.task(thread, stream, self.lent.copies(&taken).to_vec());
                    self.lent.launch(&taken, points.task);
                    if waits {
                        let landed = taken.first().map_or(vec![], |buffer| self.lent.land(*buffer));
                        self.call(thread, landed.into_iter().chain([points.task]));
                    }
                    points
                }
            },
        }
    }

    /// Adds to the order that `later` comes after `earlier`.
    pub fn also_after(&mut self, later: Point, earlier: Point) {
        self.across.entry(later).or_default().push(earlier);
    }

    /// Everything that happens before `point`, and `point` itself.
    pub fn past(&self, point: Point) -> Points {
        let (mut past, mut open) = (Points::default(), vec![point]);
        while let Some(p) = open.pop() {
            if past.insert(p) {
                open.extend(self.edges_into(p, !self.dropped.has(p)));
            }
        }
        past
    }

    /// The points with an edge to `p`, those across streams only if asked for; a gate that is still closed
    /// opens after its owner's latest call.
    pub fn edges_into(&self, p: Point, across: bool) -> impl Iterator<Item = Point> + '_ {
        let end = self.starts.get(p + 1).copied().unwrap_or(self.before.len());
        let gate = self.gates.iter().find(|g| g.task == p);
        let opener = gate.and_then(|g| g.release.or(self.last[g.owner]));
        let others = self.across.get(&p).into_iter().flatten().copied().chain(opener).filter(move |_| across);
        self.before[self.starts[p]..end].iter().copied().chain(others)
    }

    /// All points, each after everything that happens before it.
    pub fn schedule(&self) -> Vec<Point> {
        fn visit(order: &Order, p: Point, seen: &mut Points, done: &mut Vec<Point>) {
            if seen.insert(p) {
                order.edges_into(p, !order.void.has(p)).for_each(|q| visit(order, q, seen, done));
                done.push(p);
            }
        }
        let (mut seen, mut done) = (Points::default(), vec![]);
        (0..self.len()).for_each(|p| visit(self, p, &mut seen, &mut done));
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Buffer, Pattern, Span, Way};

    const DEVICE_BUFFER: usize = 0;
    const HEAP_BUFFER: usize = 1;

    fn fill(way: Way) -> Act {
        Act::Fill { dst: Span { buffer: DEVICE_BUFFER, at: 0, len: 1 }, with: Pattern::Byte(0), way }
    }

    /// A copy of malloc memory: the call waits for it.
    fn pageable(stream: usize) -> Act {
        let span = |buffer| Span { buffer, at: 0, len: 1 };
        let (dst, src, kind) = (span(DEVICE_BUFFER), span(HEAP_BUFFER), crate::program::Kind::HOST_TO_DEVICE);
        Act::Copy { dst, src, kind, way: Way::Awaited(stream), with_condition: false }
    }

    fn on(stream: usize) -> Act {
        fill(Way::On(stream))
    }

    /// Which of the two marked steps does its work first, as far as is known.
    #[test]
    fn only_what_the_documents_promise_is_ordered() {
        const A: bool = true;
        const O: bool = false;
        let now = || fill(Way::Now);
        let record = |event, stream| Act::Record { event, stream };
        let wait = |stream, event| Act::Wait { stream, event };
        let reset = |event, stream| Act::Reset { event, stream };
        let sync = |stream| Act::SyncStream { stream };
        let sync_event = |event| Act::SyncEvent { event };
        let sync_device = |device| Act::SyncDevice { device };
        let hold = |gate, stream| Act::Hold { gate, stream };
        let release = |gate| Act::Release { gate };
        let abort = |stream| Act::Abort { stream };
        let barrier = || Act::Barrier;
        #[rustfmt::skip]
        let table = [
            ("->", vec![(A, 0, on(0)), (A, 0, on(0))]),
            ("||", vec![(A, 0, on(0)), (A, 0, on(1))]),
            ("->", vec![(A, 0, now()), (A, 0, on(1))]),
            ("||", vec![(A, 0, on(0)), (A, 0, now())]),
            // synchronising
            ("->", vec![(A, 0, on(0)), (O, 0, sync(0)), (A, 0, now())]),
            ("||", vec![(A, 0, on(0)), (O, 0, sync(1)), (A, 0, now())]),
            ("->", vec![(A, 0, on(1)), (O, 0, sync_device(0)), (A, 0, now())]),
            ("||", vec![(A, 0, on(1)), (O, 0, sync_device(1)), (A, 0, now())]),
            ("->", vec![(A, 0, on(0)), (O, 0, sync(0)), (A, 0, on(3))]),
            // events
            ("->", vec![(A, 0, on(0)), (O, 0, record(0, 0)), (O, 0, wait(1, 0)), (A, 0, on(1))]),
            ("||", vec![(A, 0, on(0)), (O, 0, wait(1, 0)), (A, 0, on(1))]),
            ("||", vec![(O, 0, record(0, 0)), (A, 0, on(0)), (O, 0, wait(1, 0)), (A, 0, on(1))]),
            ("||", vec![(A, 0, on(0)), (O, 0, record(0, 0)), (A, 0, on(1)), (O, 0, wait(1, 0))]),
            ("||", vec![(A, 0, on(0)), (O, 0, record(0, 0)), (O, 0, record(0, 2)), (O, 0, wait(1, 0)),
                (A, 0, on(1))]),
            ("->", vec![(A, 0, on(0)), (O, 0, record(0, 0)), (O, 0, wait(1, 0)), (O, 0, record(0, 2)),
                (A, 0, on(1))]),
            ("->", vec![(A, 0, on(0)), (O, 0, record(0, 0)), (O, 0, sync_event(0)), (A, 0, now())]),
            ("||", vec![(O, 0, record(0, 0)), (A, 0, on(0)), (O, 0, sync_event(0)), (A, 0, now())]),
            // a copy of malloc memory is waited for, in its place in the stream
            ("->", vec![(A, 0, pageable(0)), (A, 0, now())]),
            ("->", vec![(A, 0, on(0)), (O, 0, pageable(0)), (A, 0, now())]),
            ("||", vec![(A, 0, on(0)), (O, 0, pageable(1)), (A, 0, now())]),
            // two threads
            ("||", vec![(A, 0, now()), (A, 1, now())]),
            ("||", vec![(A, 0, on(0)), (A, 1, on(0))]),
            ("->", vec![(A, 0, now()), (O, 0, barrier()), (A, 1, now())]),
            ("->", vec![(A, 0, on(0)), (O, 0, barrier()), (A, 1, on(0))]),
            ("||", vec![(A, 0, on(0)), (O, 0, barrier()), (A, 1, now())]),
            ("->", vec![(A, 0, on(0)), (O, 0, barrier()), (O, 1, sync(0)), (A, 1, now())]),
            ("||", vec![(A, 0, on(0)), (O, 1, sync(0)), (A, 1, now())]),
            ("->", vec![(A, 0, on(0)), (O, 1, on(0)), (O, 0, barrier()), (A, 1, on(0))]),
            ("->", vec![(O, 0, on(0)), (A, 1, on(0)), (O, 0, barrier()), (A, 0, on(0))]),
            // a held stream waits for what its owner calls before letting go
            ("<-", vec![(O, 0, hold(0, 0)), (A, 0, on(0)), (A, 0, now())]),
            ("<-", vec![(O, 0, hold(0, 0)), (A, 0, on(0)), (A, 0, now()), (O, 0, release(0))]),
            ("||", vec![(O, 0, hold(0, 0)), (A, 0, on(0)), (O, 0, release(0)), (A, 0, now())]),
            ("||", vec![(A, 0, on(0)), (O, 0, hold(0, 0)), (A, 0, now()), (O, 0, release(0))]),
            ("||", vec![(O, 0, hold(0, 0)), (A, 0, on(0)), (A, 1, now()), (O, 0, release(0))]),
            ("||", vec![(O, 0, hold(0, 0)), (A, 0, on(0)), (A, 0, on(1)), (O, 0, release(0))]),
            ("<-", vec![(O, 0, hold(0, 0)), (O, 0, record(0, 0)), (O, 0, wait(1, 0)), (A, 0, on(1)),
                (A, 0, now())]),
            // after a reset, waits are for the next record
            ("->", vec![(O, 0, record(0, 0)), (O, 0, reset(0, 1)), (O, 0, wait(1, 0)), (A, 0, on(2)),
                (O, 0, record(0, 2)), (A, 0, on(1))]),
            ("||", vec![(A, 0, on(0)), (O, 0, record(0, 0)), (O, 0, reset(0, 1)), (O, 0, wait(1, 0)),
                (O, 0, record(0, 2)), (A, 0, on(1))]),
            // an abort: what was dropped will not run, what it waited for may
            ("->", vec![(A, 0, on(0)), (O, 0, abort(0)), (A, 0, now())]),
            ("||", vec![(A, 0, on(0)), (O, 0, abort(1)), (A, 0, now())]),
            ("->", vec![(O, 0, hold(0, 0)), (A, 0, on(0)), (O, 0, abort(0)), (A, 0, on(0))]),
            ("||", vec![(A, 0, on(0)), (O, 0, record(0, 0)), (O, 0, wait(1, 0)), (O, 0, abort(1)),
                (A, 0, on(1))]),
            ("->", vec![(A, 0, on(0)), (O, 0, record(0, 0)), (O, 0, wait(1, 0)), (O, 0, abort(0)),
                (A, 0, on(1))]),
        ];
        let buffers = [0, 10].map(|slot| Buffer { slot, life: 0, len: 1, guard: 0 }).to_vec();
        let program = Program { buffers, ..Program::default() };
        for (want, steps) in table {
            let mut order = Order::default();
            let mut marked = vec![];
            for (mark, thread, act) in &steps {
                let placed = order.step(&program, &Step { thread: *thread, act: act.clone() });
                marked.extend(mark.then_some(placed.task));
            }
            let [a, b] = marked[..] else { panic!("two steps are marked") };
            let got = match (order.past(b).has(a), order.past(a).has(b)) {
                (true, false) => "->",
                (false, true) => "<-",
                (false, false) => "||",
                (true, true) => "a circle",
            };
            assert_eq!(got, want, "{steps:?}");
        }
    }
}
