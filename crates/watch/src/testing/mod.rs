//! Facts that are made by hand, for the tests of readers: a program that never ran.
//!
//! Every method adds the facts that a real program's library would write for that step, in the same order,
//! and moves a clock on. What is not offered here is pushed as a plain [`Fact`]. [`busy`] makes a program of
//! any size: several threads, streams, devices and workers, with every kind of work.
//!
//! Arrows: it knows facts and nothing of their readers. No product code imports it.

pub mod busy;

use std::collections::HashMap;

use crate::fact::{
    Block, Call, CallSite, Fact, FactReader, FactSource, Join, Joined, Nanos, Outcome, Passed, Piece, Point,
    Route, Started, StreamMade, SubmittedOp, Work,
};

/// What the made program's functions are called; [`CallSite::function`] counts from 1.
pub const FUNCTIONS: [&str; 9] = [
    "aclrtMemcpyAsync",
    "aclrtSynchronizeStream",
    "aclrtMalloc",
    "aclrtRecordEvent",
    "aclrtStreamWaitEvent",
    "aclrtMemsetAsync",
    "aclrtMemcpyBatchAsync",
    "aclmdlRIExecuteAsync",
    "aclrtFree",
];

/// Page-locked host memory to device 0.
pub const TO_DEVICE: Route = Route { src: None, dst: Some(0), is_pageable: false };
/// Device 0 to page-locked host memory.
pub const TO_HOST: Route = Route { src: Some(0), dst: None, is_pageable: false };

/// The facts of one made process.
#[derive(Clone, Debug)]
pub struct MadeFacts {
    /// The facts so far.
    pub facts: Vec<(FactSource, Fact)>,
    /// The time of the next step.
    pub now: Nanos,
    process: u32,
    tickets: HashMap<u32, u64>,
}

impl MadeFacts {
    /// A process that was started at 1 ms on the host backend with two devices.
    pub fn new(process: u32) -> MadeFacts {
        let mut made = MadeFacts { facts: Vec::new(), now: 1_000_000, process, tickets: HashMap::default() };
        made.push(
            process,
            Fact::Started(Started {
                time: made.now,
                epoch: 1_700_000_000_000_000_000,
                parent: 1,
                devices: 2,
                backend: "host".into(),
                command: "made --by hand".into(),
            }),
        );
        made.push(process, Fact::Functions(FUNCTIONS.join("\n")));
        made
    }

    /// Adds a fact of a thread.
    pub fn push(&mut self, thread: u32, fact: Fact) {
        self.facts.push((FactSource { process: self.process, thread }, fact));
    }

    /// Lets time pass.
    pub fn wait(&mut self, nanos: u64) -> &mut MadeFacts {
        self.now += nanos;
        self
    }

    /// A call of the function with this name that began now, from an address of its own.
    pub fn site(&self, function: &str) -> CallSite {
        let index = FUNCTIONS.iter().position(|name| *name == function).expect("a function of the list");
        let function = index as u16 + 1;
        CallSite { function, caller: 0x40_0000 + u64::from(function) * 16, begin: self.now, stack: 0 }
    }

    /// A stream of a device.
    pub fn stream(&mut self, stream: u32, device: u32) {
        let made = StreamMade { time: self.now, stream, device, ..StreamMade::default() };
        self.push(self.process, Fact::StreamMade(made));
    }

    /// Memory that became known.
    pub fn block(&mut self, block: Block) {
        let site = self.site("aclrtMalloc");
        self.now += 100;
        self.push(self.process, Fact::Known { time: self.now, site, block });
    }

    /// An op that a thread submits; the call takes 300 ns and has no fact of its own.
    pub fn submit(&mut self, thread: u32, op: SubmittedOp) -> Point {
        let ticket = self.tickets.entry(op.point.stream).or_default();
        *ticket += 1;
        let point = Point { stream: op.point.stream, ticket: *ticket };
        let site = if op.site.function == 0 { self.site("aclrtMemcpyAsync") } else { op.site };
        self.now = site.begin + 300;
        self.push(thread, Fact::Submitted(SubmittedOp { time: self.now, point, site, ..op }));
        point
    }

    /// A copy in one piece that a thread submits to a stream.
    pub fn copy(&mut self, thread: u32, stream: u32, route: Route, piece: Piece) -> Point {
        let point = Point { stream, ticket: 0 };
        self.submit(thread, SubmittedOp { point, work: Work::Linear { route, piece }, ..Default::default() })
    }

    /// An op that was done by a worker.
    pub fn passed(&mut self, worker: u32, point: Point, begin: Nanos, end: Nanos) {
        self.push(worker, Fact::Passed(Passed { point, begin, end, together: 1, ..Passed::default() }));
        self.now = self.now.max(end);
    }

    /// An op that came to another end than being done.
    pub fn passed_as(&mut self, worker: u32, point: Point, begin: Nanos, end: Nanos, outcome: Outcome) {
        self.push(worker, Fact::Passed(Passed { point, begin, end, outcome, together: 1, engine: 0 }));
        self.now = self.now.max(end);
    }

    /// A thread that began to wait for a point at `since` and learns now that it has passed.
    pub fn synchronize(&mut self, thread: u32, point: Point, since: Nanos) {
        let site = CallSite { begin: since, ..self.site("aclrtSynchronizeStream") };
        self.push(thread, Fact::Joined(Joined { time: self.now, point, site, how: Join::Wait }));
        let blocked = self.now.saturating_sub(since);
        self.push(thread, Fact::Call(Call { site, end: self.now + 50, blocked, code: 0 }));
        self.now += 50;
    }

    /// Gives all facts to a reader.
    pub fn feed(&self, reader: &mut dyn FactReader) {
        for (source, fact) in &self.facts {
            reader.take(*source, fact);
        }
    }
}
