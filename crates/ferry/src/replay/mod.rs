//! Doing again what a recording says, without the program that was recorded.
//!
//! Each recorded host thread has a thread here, which does the same steps in the same order: it makes
//! streams and memory, submits ops, waits where the program waited. Threads keep the order between them that
//! results depend on: that of each stream, and of joins before what was submitted after them
//! ([`flow`](ferry_watch::recording::flow)). A pass can be checked: sources are filled with patterns, and
//! behind each op its stream compares what the op left with what the data flow predicts.
//!
//! `memory` has the allocations, `work` submits ops, `graphs` captures and launches, `checks` compares,
//! `conductor` keeps threads in order, `times` observes when ops ran. Arrows: this folder knows the core and
//! the recordings of the crate of facts, and of this crate options and how an engine is opened.

mod checks;
mod conductor;
mod graphs;
mod memory;
mod times;
mod work;

use crate::{Error, Kind, Options, Result, engine};
use checks::Checks;
use conductor::Conductor;
use ferry_core::{Gate, Graph, JoinKind, QueueOptions, Runtime, Stream, Ticket};
use ferry_watch::{
    fact::{Join, Nanos, StreamPurpose},
    recording::{Launches, RecordedWait, Recording, ReplayLimits, StepAction, flow::Flow},
};
use memory::ReplayMemory;
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use times::OpTimes;

/// A recording that is prepared to be replayed any number of times.
pub struct Replay {
    /// What is replayed.
    pub recording: Recording,
    /// What of it can be.
    pub limits: ReplayLimits,
    /// What its copies deliver.
    pub flow: Flow,
    /// Executions of graphs that are launched as such.
    launches: Launches,
    /// For each step, what other threads must have done before.
    before: Vec<Vec<usize>>,
}

/// How a replay goes.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// The engine.
    pub options: Options,
    /// Whether steps wait until as much time has passed as in the recording; otherwise they are done as fast
    /// as it goes.
    pub is_paced: bool,
    /// Whether contents are written and compared. Takes time of its own, and ops of its own.
    pub is_checked: bool,
}

/// What came of a replay.
#[derive(Clone, Debug, Default)]
pub struct ReplayReport {
    /// From the first step to the last op.
    pub wall: Duration,
    /// How long threads were in calls that submit, all of them together.
    pub submitting: Duration,
    /// How long threads waited for points, all of them together.
    pub blocked: Duration,
    /// For each op, how long it ran, if it was seen.
    pub ran: Vec<Option<Duration>>,
    /// How many bytes were compared.
    pub compared: u64,
    /// The first of the places where bytes were not as predicted.
    pub mismatches: Vec<Mismatch>,
    /// How many places there are.
    pub mismatched: u64,
    /// How many ops left contents that were compared by their recorded hashes.
    pub hashed: u64,
    /// Those whose hash is not the recorded one.
    pub wrong_hashes: Vec<usize>,
    /// What streams said in the end about ops that failed.
    pub failures: Vec<String>,
}

/// Bytes that an op should have left and did not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The op.
    pub op: usize,
    /// The allocation.
    pub allocation: u32,
    /// The offset of the first byte that differs.
    pub offset: u64,
    /// What it should be.
    pub expected: u8,
    /// What it is.
    pub found: u8,
}

impl Replay {
    /// Prepares a recording.
    pub fn new(recording: Recording) -> Replay {
        let limits = ReplayLimits::of(&recording);
        let flow = Flow::predict(&recording, &limits);
        let mut before = ferry_watch::recording::dependencies(&recording);
        for (before, after) in before.iter_mut().zip(&flow.after) {
            before.extend(after);
        }
        let launches = Launches::of(&recording, &limits, &flow.stuck);
        order_launches(&recording, &launches, &mut before);
        Replay { recording, limits, flow, launches, before }
    }

    /// Replays it once.
    pub fn run(self: &Arc<Self>, options: &ReplayOptions) -> Result<ReplayReport> {
        let times = Arc::new(OpTimes::default());
        let mut engine_options = options.options.clone();
        engine_options.observers.push(times.clone());
        let runtime = Arc::new(engine::open(&engine_options)?);
        if runtime.backend().device_count() == 0 {
            return Err(Kind::NoDevice.because("a replay needs a device, and there is none"));
        }
        Pass::new(self, options, runtime, times).run()
    }
}

/// One replay that is under way.
struct Pass<'a> {
    replay: &'a Arc<Replay>,
    options: &'a ReplayOptions,
    runtime: Arc<Runtime>,
    times: Arc<OpTimes>,
    memory: ReplayMemory,
    checks: Arc<Checks>,
    streams: Vec<OnceLock<Arc<Stream>>>,
    /// For each op, the ticket of what stands for it: its check, where it has one. 0 until it is submitted.
    tickets: Vec<AtomicU64>,
    /// For each op, its own ticket.
    own_tickets: Vec<AtomicU64>,
    /// Promises that ops wait for before the op that they are for is submitted.
    gates: HashMap<usize, Arc<Gate>>,
    graphs: Vec<OnceLock<Arc<Graph>>>,
    conductor: Conductor,
    submitting: Mutex<Duration>,
    blocked: Mutex<Duration>,
}

/// The newest of a stream's points that stands for an op.
type ReplayedPoint = (Arc<Stream>, Ticket);

impl<'a> Pass<'a> {
    fn new(
        replay: &'a Arc<Replay>,
        options: &'a ReplayOptions,
        runtime: Arc<Runtime>,
        times: Arc<OpTimes>,
    ) -> Pass<'a> {
        let recording = &replay.recording;
        let zeros = || recording.ops.iter().map(|_| AtomicU64::new(0)).collect();
        Pass {
            memory: ReplayMemory::new(recording, runtime.clone()),
            checks: Arc::new(Checks::new(replay.clone(), runtime.clone())),
            streams: recording.streams.iter().map(|_| OnceLock::new()).collect(),
            tickets: zeros(),
            own_tickets: zeros(),
            gates: gates(recording),
            graphs: recording.graphs.iter().map(|_| OnceLock::new()).collect(),
            conductor: Conductor::new(recording, &replay.before),
            submitting: Mutex::default(),
            blocked: Mutex::default(),
            replay,
            options,
            runtime,
            times,
        }
    }

    fn run(self) -> Result<ReplayReport> {
        self.memory.make_areas();
        if self.options.is_checked {
            let all = 0..self.replay.recording.allocations.len() as u32;
            let pageable = all.filter(|number| self.memory.is_area(*number));
            pageable.into_iter().try_for_each(|number| self.begin_contents(number))?;
        }
        let start = Instant::now();
        let run = |thread: u32| {
            let outcome = self.run_thread(thread, start);
            if outcome.is_err() {
                self.conductor.stop();
            }
            outcome
        };
        let outcomes: Vec<Result<()>> = thread::scope(|scope| {
            let threads = 0..self.replay.recording.threads.len() as u32;
            let threads = threads.filter(|thread| self.conductor.has_steps(*thread));
            let started: Vec<_> = threads.map(|thread| scope.spawn(move || run(thread))).collect();
            let joined = started.into_iter().map(|thread| thread.join());
            joined.map(|outcome| outcome.unwrap_or_else(|_| Err(panicked()))).collect()
        });
        let failures = self.end();
        let wall = start.elapsed();
        outcomes.into_iter().collect::<Result<()>>()?;
        Ok(self.report(wall, failures))
    }

    /// Waits for everything; what streams say about it.
    fn end(&self) -> Vec<String> {
        // An op that nothing binds a promise for any more must not wait for it.
        self.gates.values().for_each(|gate| gate.open());
        let streams = self.streams.iter().enumerate();
        let streams = streams.filter_map(|(number, stream)| Some((number, stream.get()?)));
        // No thread of the program joins here, and observers see none.
        let wait = |stream: &Stream| {
            stream.fence()?.wait(None)?;
            stream.status().take_error().map_or(Ok(()), Err)
        };
        let failed = streams.filter_map(|(number, stream)| Some((number, wait(stream).err()?)));
        failed.map(|(number, error)| format!("stream {number}: {error}")).collect()
    }

    fn report(&self, wall: Duration, failures: Vec<String>) -> ReplayReport {
        let ops = self.replay.recording.ops.iter().zip(&self.own_tickets);
        let ran = ops.map(|(op, ticket)| {
            let stream = self.streams[op.point.stream as usize].get()?;
            self.times.ran(stream.id(), ticket.load(Ordering::Relaxed))
        });
        let total = |all: &Mutex<Duration>| *all.lock().unwrap_or_else(PoisonError::into_inner);
        let (submitting, blocked) = (total(&self.submitting), total(&self.blocked));
        let ran = ran.collect();
        let mut report = ReplayReport { wall, submitting, blocked, ran, failures, ..ReplayReport::default() };
        self.checks.report(&mut report);
        report
    }

    fn run_thread(&self, thread: u32, start: Instant) -> Result<()> {
        let steps = &self.replay.recording.steps;
        let first = steps.iter().map(|step| step.begin.min(step.time)).min().unwrap_or(0);
        for step in self.conductor.steps(thread) {
            if !self.conductor.wait_for_others(*step) {
                return Ok(());
            }
            if self.options.is_paced {
                wait_until(start, steps[*step].begin.saturating_sub(first));
            }
            self.act(*step)?;
            self.conductor.done(thread);
        }
        Ok(())
    }

    fn act(&self, step: usize) -> Result<()> {
        let recording = &self.replay.recording;
        match &recording.steps[step].action {
            StepAction::MakeStream(stream) => self.make_stream(*stream),
            StepAction::Allocate(allocation) => {
                self.memory.allocate(*allocation)?;
                if self.options.is_checked { self.begin_contents(*allocation) } else { Ok(()) }
            }
            StepAction::Free(allocation) => self.memory.free(*allocation),
            StepAction::Submit(op) if !self.replay.flow.stuck[*op] => {
                let began = Instant::now();
                let submitted = match self.replay.launches.of_op[*op].map(|at| &self.replay.launches.all[at])
                {
                    Some(launch) if launch.ops[0] == *op => self.launch(launch),
                    Some(_) => Ok(()),
                    None => self.submit(*op),
                };
                *self.submitting.lock().unwrap_or_else(PoisonError::into_inner) += began.elapsed();
                submitted
            }
            StepAction::Join { point, how } if !self.replay.flow.unexplained.contains(&step) => {
                match recording.op_at(*point).and_then(|op| self.point_of(op)) {
                    Some(point) => self.join(point, *how),
                    None => Ok(()),
                }
            }
            StepAction::EndCapture { graph } => self.recapture(*graph),
            // Streams that are dropped take nothing with them that the end does not need.
            _ => Ok(()),
        }
    }

    fn make_stream(&self, number: u32) -> Result<()> {
        let stream = &self.replay.recording.streams[number as usize];
        let options = QueueOptions { waited: stream.purpose == StreamPurpose::Synchronous };
        let made = self.runtime.stream(self.memory.device(stream.device), options)?;
        let _ = self.streams[number as usize].set(made);
        Ok(())
    }

    /// What stands for an op, if it was submitted.
    fn point_of(&self, op: usize) -> Option<ReplayedPoint> {
        let ticket = self.tickets[op].load(Ordering::Acquire);
        let stream = self.streams[self.replay.recording.ops[op].point.stream as usize].get()?;
        (ticket > 0).then(|| (stream.clone(), ticket))
    }

    fn join(&self, (stream, ticket): ReplayedPoint, how: Join) -> Result<()> {
        let began = Instant::now();
        let fence = stream.fence_after(ticket);
        fence.wait(None)?;
        let kind = if how == Join::Query { JoinKind::Query } else { JoinKind::Wait };
        self.runtime.joined(&*fence, kind);
        *self.blocked.lock().unwrap_or_else(PoisonError::into_inner) += began.elapsed();
        Ok(())
    }

    /// What an allocation contains before anything writes it.
    fn begin_contents(&self, allocation: u32) -> Result<()> {
        let initial = self.replay.flow.initial.iter().filter(|part| part.allocation == allocation);
        for part in initial {
            let mut bytes = vec![0; part.len as usize];
            self.replay.flow.contents[part.content as usize].write(part.at, &mut bytes);
            self.memory.write_at_once(allocation, part.offset, &bytes)?;
        }
        Ok(())
    }
}

/// The first op of an execution submits all of it, and the end of a capture plans all of its first one: they
/// come after what their ops need.
fn order_launches(recording: &Recording, launches: &Launches, before: &mut [Vec<usize>]) {
    let submits = recording.steps.iter().enumerate().filter_map(|(step, did)| match did.action {
        StepAction::Submit(op) => Some((op, step)),
        _ => None,
    });
    let submits: HashMap<usize, usize> = submits.collect();
    let captures = recording.steps.iter().enumerate().filter_map(|(step, did)| match did.action {
        StepAction::EndCapture { graph } => Some((graph, step)),
        _ => None,
    });
    let captures: HashMap<u32, usize> = captures.collect();
    for launch in &launches.all {
        let steps = launch.ops.iter().filter_map(|op| submits.get(op));
        let needed: Vec<usize> = steps.flat_map(|step| before[*step].clone()).collect();
        for first in [submits.get(&launch.ops[0]), captures.get(&launch.graph)].into_iter().flatten() {
            before[*first].extend(needed.iter().filter(|step| *step < first));
        }
    }
}

/// A gate for each op that some other op waits for and that is submitted later.
fn gates(recording: &Recording) -> HashMap<usize, Arc<Gate>> {
    let promised = recording.ops.iter().flat_map(|op| &op.awaits).filter_map(|awaited| match awaited {
        RecordedWait::Promised(point) => recording.op_at(*point),
        _ => None,
    });
    promised.map(|op| (op, Gate::new())).collect()
}

/// Waits until so much time has passed since `start`.
fn wait_until(start: Instant, nanos: Nanos) {
    let due = start + Duration::from_nanos(nanos);
    let left = due.saturating_duration_since(Instant::now());
    // A sleep ends late by some 50 microseconds.
    if let Some(sleep) = left.checked_sub(Duration::from_micros(100)) {
        thread::sleep(sleep);
    }
    while Instant::now() < due {
        std::hint::spin_loop();
    }
}

#[cold]
fn panicked() -> Error {
    Kind::Device.because("a thread of the replay panicked")
}
