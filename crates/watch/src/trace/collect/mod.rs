//! Makes the trace model of facts, one at a time, and keeps no more of them than it is allowed to.
//!
//! Facts come late, twice or never. An entry is made when a thing is first mentioned, and what is never told
//! of it stays unknown. When the first op is left out, nothing new is kept any more but the rest of what is
//! known. `ops` is the part about ops, `findings` that about what a checker has found in the same facts.
//!
//! It reads nothing but these and writes nothing but the model. Arrows: `ops`, `findings` -> this file ->
//! `model`.

mod findings;
mod ops;

use std::collections::HashMap;

use crate::blocks::BlockMap;
use crate::fact::{
    Block, Call, CallSite, Captured, Fact, FactReader, FactSource, Joined, Nanos, Started, StreamMade,
};

use super::model::{
    TraceModel, TracedBlock, TracedCall, TracedCapture, TracedJoin, TracedProcess, TracedStack, TracedStream,
    TracedTask, TracedThread,
};

/// How much a trace keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceLimits {
    /// As many ops are kept; calls that begin after the first op that was left out are left out too.
    pub ops: usize,
    /// As many entries are kept in each other table: calls, waits, joins, blocks, tasks, stacks.
    pub others: usize,
}

impl Default for TraceLimits {
    /// What a browser shows without effort.
    fn default() -> TraceLimits {
        TraceLimits { ops: 200_000, others: 400_000 }
    }
}

/// So many of a thread's last calls are looked at to find the one that a fact belongs to: calls nest, for a
/// function of the program's may call the library again.
const OPEN_CALLS: usize = 4;

/// As many nanoseconds the begin of a call may differ from fact to fact.
const CLOCK_SLACK: u64 = 10_000;

/// As many nanoseconds two facts about one call have in common at least, if its begin differs.
const SHARED_TIME: u64 = 1000;

/// Reads facts and keeps a bounded model of what happened.
#[derive(Default)]
pub struct Tracer {
    limits: TraceLimits,
    model: TraceModel,
    /// When the first op was left out.
    cut: Option<Nanos>,
    processes: HashMap<u32, u32>,
    threads: HashMap<FactSource, u32>,
    /// The last calls of each thread.
    open_calls: Vec<OpenCalls>,
    streams: HashMap<(u32, u32), u32>,
    ops: HashMap<(u32, u64), u32>,
    /// The memory of all processes by the engine's addresses. It counts blocks from 1 as the model's table
    /// does from 0.
    blocks: BlockMap,
    /// The entries of live blocks, by process and the program's address.
    live_blocks: HashMap<(u32, u64), u32>,
    stacks: HashMap<(u32, u32), u32>,
    captures: HashMap<(u32, u32), u32>,
    /// What was promised to waits, by process and number.
    promises: HashMap<(u32, u64), Promise>,
    refused: u64,
}

/// The calls of a thread that its next facts may belong to.
#[derive(Debug, Default)]
struct OpenCalls {
    /// Their indices, the latest last.
    kept: Vec<u32>,
    /// When the last one began that was left out, so that it is counted once.
    left_out: Nanos,
}

/// What a wait of kind [`Awaited::Later`](crate::fact::Awaited::Later) is for.
#[derive(Debug, Default)]
struct Promise {
    /// Waits that do not know it yet, by index.
    waits: Vec<u32>,
    /// What it was bound to: the index of a stream and a ticket.
    bound: Option<(u32, u64)>,
}

impl FactReader for Tracer {
    fn take(&mut self, source: FactSource, fact: &Fact) {
        if let Fact::Started(_) = fact {
            self.replace(source);
        }
        let process = self.process(source.process);
        self.blocks.take(source, fact);
        match fact {
            Fact::Started(started) => self.started(process, started),
            Fact::Functions(names) => {
                self.model.processes[process as usize].functions = names.lines().map(str::to_owned).collect();
            }
            Fact::Thread(name) => {
                if let Some(thread) = self.thread(source) {
                    self.model.threads[thread as usize].name.clone_from(name);
                }
            }
            Fact::Stack { number, frames } => self.stack(process, *number, frames),
            Fact::Ended { time } => self.model.processes[process as usize].ended = Some(*time),
            Fact::Call(call) => self.call(source, call),
            Fact::StreamMade(made) => self.stream_made(process, made),
            Fact::StreamGone { time, stream } => {
                if let Some(stream) = self.stream(process, *stream) {
                    self.model.streams[stream as usize].gone = Some(*time);
                }
            }
            Fact::Known { time, site, block } => self.known(source, *time, site, block),
            Fact::Forgotten { time, site, base } => self.forgotten(source, *time, site, *base),
            Fact::Submitted(op) => self.submitted(source, op),
            Fact::Refused { time, site, .. } => {
                self.refused += 1;
                if let Some(call) = self.call_of(source, site, *time) {
                    self.model.calls[call as usize].is_refused = true;
                }
            }
            Fact::Begun { time, point } => self.begun(process, *time, *point),
            Fact::Passed(passed) => self.passed(source, passed),
            Fact::Resolved { time, point, piece } => self.resolved(source, *time, *point, piece),
            Fact::Bound { promise, point, .. } => self.bound(process, *promise, *point),
            Fact::Joined(joined) => self.joined(source, joined),
            Fact::CaptureBegun { time, site, graph, stream } => {
                self.capture_begun(source, *time, site, *graph, *stream);
            }
            Fact::Captured(captured) => self.captured(source, captured),
            Fact::CaptureEnded { time, graph, is_graph, .. } => {
                self.capture_ended(process, *time, *graph, *is_graph);
            }
            Fact::Lost { count } => self.model.left_out.facts += count,
            _ => {}
        }
    }
}

impl Tracer {
    /// One that keeps so much.
    pub fn new(limits: TraceLimits) -> Tracer {
        Tracer { limits, ..Tracer::default() }
    }

    /// What was kept so far.
    pub fn model(&self) -> &TraceModel {
        &self.model
    }

    /// How many ops were refused by their stream.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    fn process(&mut self, number: u32) -> u32 {
        *self.processes.entry(number).or_insert_with(|| {
            push(&mut self.model.processes, TracedProcess { number, ..TracedProcess::default() })
        })
    }

    /// A number of a process that has started starts again: from here on it is another program, whose streams
    /// and ops have the numbers of the one before. What this thread is called may have been told.
    fn replace(&mut self, source: FactSource) {
        let process = self.process(source.process) as usize;
        if self.model.processes[process].started == 0 {
            return;
        }
        self.model.processes[process].is_replaced = true;
        let named = self.threads.get(&source).map(|thread| self.model.threads[*thread as usize].name.clone());
        self.processes.remove(&source.process);
        self.threads.retain(|other, _| other.process != source.process);
        if let Some(name) = named.filter(|name| !name.is_empty())
            && let Some(thread) = self.thread(source)
        {
            self.model.threads[thread as usize].name = name;
        }
    }

    /// The entry of a thread, made if there is none and there is room.
    fn thread(&mut self, source: FactSource) -> Option<u32> {
        if let Some(&thread) = self.threads.get(&source) {
            return Some(thread);
        }
        if self.cut.is_some() || !self.has_room(self.model.threads.len()) {
            return None;
        }
        let (process, number) = (self.process(source.process), source.thread);
        let entry = TracedThread { process, number, ..TracedThread::default() };
        let thread = push(&mut self.model.threads, entry);
        self.threads.insert(source, thread);
        self.open_calls.push(OpenCalls::default());
        Some(thread)
    }

    /// The entry of a stream, made if there is none and there is room.
    fn stream(&mut self, process: u32, number: u32) -> Option<u32> {
        if let Some(&stream) = self.streams.get(&(process, number)) {
            return Some(stream);
        }
        if self.cut.is_some() || !self.has_room(self.model.streams.len()) {
            return None;
        }
        let entry = TracedStream { process, number, ..TracedStream::default() };
        let stream = push(&mut self.model.streams, entry);
        self.streams.insert((process, number), stream);
        Some(stream)
    }

    fn started(&mut self, process: u32, started: &Started) {
        let entry = &mut self.model.processes[process as usize];
        entry.started = started.time;
        entry.epoch = started.epoch;
        entry.parent = started.parent;
        entry.devices = started.devices;
        entry.backend.clone_from(&started.backend);
        entry.command.clone_from(&started.command);
    }

    fn stream_made(&mut self, process: u32, made: &StreamMade) {
        let Some(stream) = self.stream(process, made.stream) else { return };
        let entry = &mut self.model.streams[stream as usize];
        entry.device = made.device;
        entry.purpose = made.purpose;
        entry.handle = made.handle;
    }

    fn stack(&mut self, process: u32, number: u32, frames: &[u64]) {
        if !self.has_room(self.model.stacks.len()) {
            return;
        }
        let stack = push(&mut self.model.stacks, TracedStack { process, frames: frames.to_vec() });
        self.stacks.insert((process, number), stack);
    }

    /// Whether one more entry fits into a table that is not that of ops; counts it if not.
    fn has_room(&mut self, len: usize) -> bool {
        let fits = len < self.limits.others;
        self.model.left_out.others += u64::from(!fits);
        fits
    }

    fn call(&mut self, source: FactSource, call: &Call) {
        if let Some(index) = self.call_of(source, &call.site, call.end) {
            let entry = &mut self.model.calls[index as usize];
            entry.end = entry.end.max(call.end);
            entry.blocked = call.blocked;
            entry.code = call.code;
        }
    }

    /// The entry of the call that a fact names, made if there is none and there is room.
    fn call_of(&mut self, source: FactSource, site: &CallSite, end: Nanos) -> Option<u32> {
        let Some(thread) = self.thread(source) else {
            self.model.left_out.calls += 1;
            return None;
        };
        if let Some(call) = self.open_call(thread, site, end) {
            let entry = &mut self.model.calls[call as usize];
            entry.end = entry.end.max(end);
            return Some(call);
        }
        if site.function == 0 && site.begin == 0 {
            return None;
        }
        let is_late = self.cut.is_some_and(|cut| site.begin > cut);
        if is_late || self.model.calls.len() >= self.limits.others {
            let before = std::mem::replace(&mut self.open_calls[thread as usize].left_out, site.begin);
            self.model.left_out.calls += u64::from(before != site.begin);
            return None;
        }
        let process = self.model.threads[thread as usize].process;
        let entry = TracedCall {
            thread,
            function: site.function,
            caller: site.caller,
            stack: self.stacks.get(&(process, site.stack)).copied(),
            begin: site.begin,
            end: end.max(site.begin),
            ..TracedCall::default()
        };
        let call = push(&mut self.model.calls, entry);
        let open = &mut self.open_calls[thread as usize].kept;
        if open.len() == OPEN_CALLS {
            open.remove(0);
        }
        open.push(call);
        Some(call)
    }

    /// The call of a thread that a fact at `end` names: the one that began at the same moment, or nearly so
    /// and shares time with it. The clock of facts is calibrated while they are read: one moment may differ a
    /// little from fact to fact. Short calls in a row share no time.
    fn open_call(&self, thread: u32, site: &CallSite, end: Nanos) -> Option<u32> {
        let mut open = self.open_calls[thread as usize].kept.iter().rev().copied();
        open.find(|&call| {
            let entry = &self.model.calls[call as usize];
            let shared = entry.end.min(end).saturating_sub(entry.begin.max(site.begin));
            let is_near = entry.begin.abs_diff(site.begin) <= CLOCK_SLACK
                && shared >= SHARED_TIME
                && (entry.function, entry.caller) == (site.function, site.caller);
            entry.begin == site.begin || is_near
        })
    }

    fn known(&mut self, source: FactSource, time: Nanos, site: &CallSite, block: &Block) {
        let process = self.process(source.process);
        let call = self.call_of(source, site, time);
        let fits = self.has_room(self.model.blocks.len());
        let entry = TracedBlock { process, block: *block, call, known: time, forgotten: None };
        self.live_blocks.remove(&(process, block.base));
        if fits {
            self.live_blocks.insert((process, block.base), push(&mut self.model.blocks, entry));
        }
    }

    fn forgotten(&mut self, source: FactSource, time: Nanos, site: &CallSite, base: u64) {
        let process = self.process(source.process);
        self.call_of(source, site, time);
        if let Some(index) = self.live_blocks.remove(&(process, base)) {
            self.model.blocks[index as usize].forgotten = Some(time);
        }
    }

    fn joined(&mut self, source: FactSource, joined: &Joined) {
        let process = self.process(source.process);
        let (thread, stream) = (self.thread(source), self.stream(process, joined.point.stream));
        let (Some(thread), Some(stream)) = (thread, stream) else { return };
        let point = self.point(stream, joined.point.ticket);
        let is_late = point.op.is_none() && self.cut.is_some_and(|cut| joined.time > cut);
        let call = self.call_of(source, &joined.site, joined.time);
        if is_late || !self.has_room(self.model.joins.len()) {
            return;
        }
        self.model.joins.push(TracedJoin { thread, time: joined.time, point, call });
    }

    fn capture_begun(&mut self, source: FactSource, begin: Nanos, site: &CallSite, graph: u32, stream: u32) {
        let process = self.process(source.process);
        let Some(stream) = self.stream(process, stream) else { return };
        let call = self.call_of(source, site, begin);
        if self.has_room(self.model.captures.len()) {
            let entry = TracedCapture { process, graph, stream, call, begin, ..TracedCapture::default() };
            let capture = push(&mut self.model.captures, entry);
            self.captures.insert((process, graph), capture);
        }
    }

    fn captured(&mut self, source: FactSource, captured: &Captured) {
        let process = self.process(source.process);
        let call = self.call_of(source, &captured.site, captured.time);
        if let Some(&capture) = self.captures.get(&(process, captured.task.graph)) {
            self.model.captures[capture as usize].tasks += 1;
        }
        if self.has_room(self.model.tasks.len()) {
            self.model.tasks.push(TracedTask { process, task: captured.task, call, time: captured.time });
        }
    }

    fn capture_ended(&mut self, process: u32, time: Nanos, graph: u32, is_graph: bool) {
        if let Some(&capture) = self.captures.get(&(process, graph)) {
            let entry = &mut self.model.captures[capture as usize];
            entry.end = Some(time);
            entry.is_graph = is_graph;
        }
    }

    /// Ties points to ops that became known after them, and puts times in order. To be called before the
    /// model is read.
    pub fn finish(&mut self) -> &TraceModel {
        self.order_times();
        let ops = &self.ops;
        let waits = self.model.waits.iter_mut().filter_map(|wait| wait.awaited.as_mut());
        for point in waits.chain(self.model.joins.iter_mut().map(|join| &mut join.point)) {
            point.op = ops.get(&(point.stream, point.ticket)).copied();
        }
        &self.model
    }
}

/// Appends to a table and says where.
fn push<T>(table: &mut Vec<T>, entry: T) -> u32 {
    let index = u32::try_from(table.len()).expect("tables are bounded far below this");
    table.push(entry);
    index
}
