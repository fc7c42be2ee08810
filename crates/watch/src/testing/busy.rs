//! The facts of a busy program of any size that never ran: a little model of queues and workers decides when
//! each op begins and ends, so that the facts hang together as those of a real program do.

use crate::fact::{
    Awaited, Block, Call, CallSite, Captured, Fact, FactSource, Join, Joined, Nanos, Origin, Outcome, Passed,
    Piece, Point, Route, Rows, StreamMade, StreamPurpose, SubmittedOp, TaskId, Work,
};

use super::{FUNCTIONS, MadeFacts};

const THREADS: u32 = 4;
const STREAMS: u32 = 12;
const WORKERS: u32 = 4;
const DEVICES: u32 = 2;
/// Where device memory is for the program and for the engine.
const DEVICE_BASE: u64 = 0x1200_0000_0000;
const DEVICE_AT: u64 = 0x7f00_0000_0000;
const HOST_BASE: u64 = 0x7e00_0000_0000;
const BLOCK_LEN: u64 = 64 << 20;
const SIZES: [u64; 8] = [64, 4096, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20];

/// The facts of a program with this many ops, in the order of their times.
pub fn facts(process: u32, ops: usize) -> Vec<(FactSource, Fact)> {
    let mut program = BusyProgram::new(process);
    for _ in 0..ops {
        program.step();
    }
    program.end()
}

/// A stream, and when its last op ends.
struct BusyStream {
    ticket: u64,
    free: Nanos,
}

struct BusyProgram {
    made: MadeFacts,
    process: u32,
    random: u64,
    /// When each thread makes its next call.
    threads: Vec<Nanos>,
    queues: Vec<BusyStream>,
    workers: Vec<Nanos>,
}

impl BusyProgram {
    fn new(process: u32) -> BusyProgram {
        let mut made = MadeFacts::new(process);
        for thread in 0..THREADS {
            let name = if thread == 0 { "main".into() } else { format!("loader-{thread}") };
            made.push(process + thread, Fact::Thread(name));
        }
        for worker in 0..WORKERS {
            made.push(process + 100 + worker, Fact::Thread(format!("ferry-worker-{worker}")));
        }
        for stream in 0..STREAMS {
            let purpose = if stream < DEVICES { StreamPurpose::Default } else { StreamPurpose::User };
            let handle = if stream < DEVICES { 0 } else { 0x1000 + u64::from(stream) };
            let device = stream % DEVICES;
            made.push(
                process,
                Fact::StreamMade(StreamMade { time: made.now, stream, device, purpose, handle }),
            );
        }
        for index in 0..8 {
            let device = (index < 6).then_some(index as u32 % DEVICES);
            let base = if device.is_some() { DEVICE_BASE } else { HOST_BASE } + index * 2 * BLOCK_LEN;
            let at = if device.is_some() { DEVICE_AT + index * 2 * BLOCK_LEN } else { base };
            made.block(Block { base, at, len: BLOCK_LEN, padding: 0, device, origin: Origin::Allocated });
        }
        let start = made.now + 10_000;
        let queue = |_| BusyStream { ticket: 0, free: start };
        BusyProgram {
            made,
            process,
            random: 0x9e37_79b9_7f4a_7c15,
            threads: (0..THREADS).map(|thread| start + u64::from(thread) * 700).collect(),
            queues: (0..STREAMS).map(queue).collect(),
            workers: vec![start; WORKERS as usize],
        }
    }

    /// A number below `bound`.
    fn below(&mut self, bound: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 33) % bound
    }

    /// The thread that is first to do something submits an op; now and then it synchronises afterwards.
    fn step(&mut self) {
        let thread = (0..THREADS).min_by_key(|&thread| self.threads[thread as usize]).unwrap_or(0);
        let stream = thread + THREADS * self.below(u64::from(STREAMS / THREADS)) as u32;
        let begin = self.threads[thread as usize];
        let (function, work) = self.work(stream);
        let awaits = if self.below(12) == 0 { self.other_point(stream) } else { None };
        let site = site(function, begin);
        let time = begin + 250 + self.below(400);
        self.queues[stream as usize].ticket += 1;
        let point = self.point(stream);
        let task = (function == 8).then_some(TaskId { graph: 1, task: point.ticket as u32 % 7 });
        let awaited: Vec<Awaited> = awaits.iter().map(|&(point, _)| Awaited::Point(point)).collect();
        let op = SubmittedOp { time, point, site, awaits: awaited, work, task };
        let ready = awaits.map_or(0, |(_, end)| end).max(time);
        self.run(&op, ready);
        self.made.push(self.process + thread, Fact::Submitted(op));
        self.threads[thread as usize] = time + self.below(3000);
        if self.below(40) == 0 {
            self.synchronize(thread, stream);
        }
    }

    fn point(&self, stream: u32) -> Point {
        Point { stream, ticket: self.queues[stream as usize].ticket }
    }

    /// The last op of another stream and its end.
    fn other_point(&mut self, stream: u32) -> Option<(Point, Nanos)> {
        let other = self.below(u64::from(STREAMS)) as u32;
        let queue = &self.queues[other as usize];
        (other != stream && queue.ticket > 0).then(|| (self.point(other), queue.free))
    }

    /// The index of a function and work for it.
    fn work(&mut self, stream: u32) -> (u16, Work) {
        let device = stream % DEVICES;
        let len = SIZES[self.below(SIZES.len() as u64) as usize];
        let host = HOST_BASE + (6 + self.below(2)) * 2 * BLOCK_LEN + self.below(BLOCK_LEN - len);
        let on_device = |index: u64| DEVICE_AT + (u64::from(device) + index * 2) * 2 * BLOCK_LEN;
        let here = on_device(self.below(3)) + self.below(BLOCK_LEN - len);
        let there = on_device(self.below(3));
        let down = Route { src: None, dst: Some(device), is_pageable: self.below(9) == 0 };
        let up = Route { src: Some(device), dst: None, is_pageable: self.below(15) == 0 };
        let within = Route { src: Some(device), dst: Some(device), is_pageable: false };
        match self.below(20) {
            0..8 => (1, Work::Linear { route: down, piece: Piece { dst: here, src: host, len } }),
            8..13 => (1, Work::Linear { route: up, piece: Piece { dst: host, src: here, len } }),
            13..15 => (1, Work::Linear { route: within, piece: Piece { dst: here, src: there, len } }),
            15 => (6, Work::Fill { dst: here, len, pattern: [0; 4], device: Some(device) }),
            16 => {
                let pieces = vec![Piece { dst: here, src: host, len: 64 }; 3];
                (7, Work::Batch { route: down, count: 100, bytes: 6400, pieces })
            }
            17 => {
                let (width, height) = (len.min(256), (len / 256).max(1));
                let rows = Rows { dst: here, dst_pitch: 256, src: host, src_pitch: 512, width, height };
                (1, Work::Rows { route: down, rows })
            }
            18 => (4, Work::Mark),
            _ => (8, Work::Linear { route: within, piece: Piece { dst: there, src: here, len } }),
        }
    }

    /// Decides when an op begins and ends, and says so.
    fn run(&mut self, op: &SubmittedOp, ready: Nanos) {
        let queue = &self.queues[op.point.stream as usize];
        let worker = (0..WORKERS).min_by_key(|&worker| self.workers[worker as usize]).unwrap_or(0);
        let free = self.workers[worker as usize];
        let begin = ready.max(queue.free).max(free) + 200 + self.below(600);
        // Between 8 and 40 GB/s, and no op takes less than 150 ns.
        let end = begin + 150 + op.work.bytes() / (8 + self.below(32));
        let outcome = if self.below(5000) == 0 { Outcome::Failed } else { Outcome::Done };
        let (engine, source) = match op.point.stream % 4 {
            3 => (1, self.process + 100),
            _ => (0, self.process + 100 + worker),
        };
        if engine == 0 {
            self.workers[worker as usize] = end;
        }
        self.queues[op.point.stream as usize].free = end;
        let together = if op.work.bytes() <= 4096 && engine == 1 { 4 } else { 1 };
        let passed = Passed { point: op.point, begin, end, outcome, together, engine };
        self.made.push(source, Fact::Passed(passed));
    }

    fn synchronize(&mut self, thread: u32, stream: u32) {
        let begin = self.threads[thread as usize];
        let end = self.queues[stream as usize].free.max(begin) + 900;
        let site = site(2, begin);
        let joined = Joined { time: end - 100, point: self.point(stream), site, how: Join::Wait };
        self.made.push(self.process + thread, Fact::Joined(joined));
        let blocked = (end - begin).saturating_sub(1200);
        self.made.push(self.process + thread, Fact::Call(Call { site, end, blocked, code: 0 }));
        self.threads[thread as usize] = end + 400;
    }

    /// A capture, the end of the process, and all facts by time.
    fn end(mut self) -> Vec<(FactSource, Fact)> {
        let begin = self.threads[0];
        let (process, stream, graph) = (self.process, 4, 1);
        self.made.push(process, Fact::CaptureBegun { time: begin, site: site(8, begin), graph, stream });
        for task in 0..7 {
            let (time, task) = (begin + 500 * (u64::from(task) + 1), TaskId { graph, task });
            let site = site(1, time - 300);
            let (_, work) = self.work(stream);
            self.made.push(process, Fact::Captured(Captured { time, site, task, branch: 0, work }));
        }
        let time = begin + 6000;
        self.made.push(process, Fact::CaptureEnded { time, site: site(8, time), graph, is_graph: true });
        let ends = self.queues.iter().map(|queue| queue.free).chain(self.threads.iter().copied());
        let time = ends.max().unwrap_or(time).max(time) + 5000;
        self.made.push(process, Fact::Ended { time });
        let mut facts = self.made.facts;
        facts.sort_by_key(|(_, fact)| fact.time().unwrap_or(0));
        facts
    }
}

/// A call of the function with this index, from one of three places of the program.
fn site(function: u16, begin: Nanos) -> CallSite {
    assert!(usize::from(function) <= FUNCTIONS.len(), "a function of the list");
    let caller = 0x40_0000 + u64::from(function) * 64 + begin % 3 * 16;
    CallSite { function, caller, begin, stack: 0 }
}
