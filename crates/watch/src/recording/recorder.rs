//! Makes a recording of facts, while they come.

use super::encode::RecordEncoder;
use super::frame::{FrameWriter, LONGEST_STRING};
use super::memory_map::MemoryMap;
use super::model::{Allocation, Location, RecordedProcess, RecordedSite, RecordedStream, RecordedWork, Rect};
use super::record::{Record, StepHead};
use crate::fact::{
    Awaited, CallSite, Captured, Fact, FactReader, FactSource, Join, Joined, Nanos, Passed, Piece, Point,
    Rows, SubmittedOp, TaskId, Work,
};
use crate::symbols::Symbols;
use std::{
    collections::HashMap,
    io::{self, Write},
};

/// Writes a recording of the facts that it takes. What it keeps in memory grows with the number of blocks,
/// streams and call sites, and not with the number of ops.
pub struct Recorder<W> {
    /// `None` once the file could not be written.
    frames: Option<FrameWriter<W>>,
    failure: Option<io::Error>,
    encoder: RecordEncoder,
    /// The index of each process, by its number.
    processes: HashMap<u32, usize>,
    watched: Vec<ProcessNumbers>,
    threads: HashMap<FactSource, u32>,
    /// How many of these have numbers.
    streams: u32,
    allocations: u32,
    graphs: u32,
    sites: u32,
    symbols: Symbols,
    /// The newest time of a fact: when something is said to have happened that no fact tells.
    now: Nanos,
}

/// What a process has called what it uses.
#[derive(Default)]
struct ProcessNumbers {
    /// Whether the fact came that says what it is; others may come before.
    is_started: bool,
    memory: MemoryMap,
    streams: HashMap<u32, u32>,
    graphs: HashMap<u32, u32>,
    /// The number of each call site, by function and caller.
    sites: HashMap<(u16, u64), u32>,
}

impl<W: Write> Recorder<W> {
    /// Begins a recording in `file`.
    pub fn new(file: W) -> io::Result<Recorder<W>> {
        Ok(Recorder {
            frames: Some(FrameWriter::new(file)?),
            failure: None,
            encoder: RecordEncoder::default(),
            processes: HashMap::new(),
            watched: Vec::new(),
            threads: HashMap::new(),
            streams: 0,
            allocations: 0,
            graphs: 0,
            sites: 0,
            symbols: Symbols::default(),
            now: 0,
        })
    }

    /// Writes out what is pending, so that it is not lost if this process is killed.
    pub fn flush(&mut self) {
        self.write(FrameWriter::flush);
    }

    /// Gives the file back, if it could be written so far, and writes nothing more.
    pub fn give_up(self) -> Option<W> {
        self.frames.map(FrameWriter::into_file)
    }

    /// Ends the recording; fails if it could not be written.
    pub fn finish(self) -> io::Result<W> {
        match (self.frames, self.failure) {
            (Some(frames), None) => frames.finish(),
            (_, failure) => Err(failure.unwrap_or_else(|| io::Error::other("the recording was not written"))),
        }
    }

    fn write(&mut self, write: impl FnOnce(&mut FrameWriter<W>) -> io::Result<()>) {
        if let Some(Err(failure)) = self.frames.as_mut().map(write) {
            (self.frames, self.failure) = (None, Some(failure));
        }
    }

    fn put(&mut self, record: &Record) {
        if let Some(Err(failure)) =
            self.frames.as_mut().map(|frames| frames.record(self.encoder.encode(record)))
        {
            (self.frames, self.failure) = (None, Some(failure));
        }
    }

    /// The index of a process.
    fn process(&mut self, number: u32) -> usize {
        if let Some(index) = self.processes.get(&number) {
            return *index;
        }
        self.add_process(number)
    }

    fn add_process(&mut self, number: u32) -> usize {
        self.put(&Record::Process);
        self.watched.push(ProcessNumbers::default());
        self.processes.insert(number, self.watched.len() - 1);
        self.watched.len() - 1
    }

    fn thread(&mut self, source: FactSource) -> u32 {
        if let Some(thread) = self.threads.get(&source) {
            return *thread;
        }
        let process = self.process(source.process) as u32;
        self.put(&Record::Thread(process));
        let thread = self.threads.len() as u32;
        self.threads.insert(source, thread);
        thread
    }

    fn head(&mut self, source: FactSource, site: &CallSite, time: Nanos) -> StepHead {
        let begin = if site.begin == 0 { time } else { site.begin };
        StepHead { thread: self.thread(source), site: self.site(source.process, site), begin, time }
    }

    /// The head of something that no call did.
    fn plain_head(&mut self, source: FactSource, time: Nanos) -> StepHead {
        StepHead { thread: self.thread(source), site: 0, begin: time, time }
    }

    /// The head of something that no fact tells: it is said to be done by the first thread, now.
    fn unseen(&self) -> StepHead {
        StepHead { thread: 0, site: 0, begin: self.now, time: self.now }
    }

    fn site(&mut self, number: u32, site: &CallSite) -> u32 {
        let process = self.process(number);
        let key = (site.function, site.caller);
        if key == (0, 0) {
            return 0;
        }
        if let Some(known) = self.watched[process].sites.get(&key) {
            return *known;
        }
        let function = self.symbols.function(number, site.function).unwrap_or_default().to_owned();
        let caller = match site.caller {
            0 => String::new(),
            caller => self.symbols.place(number, caller).position(),
        };
        self.put(&Record::Site(RecordedSite { function, caller }));
        self.sites += 1;
        self.watched[process].sites.insert(key, self.sites);
        self.sites
    }

    fn stream(&mut self, process: usize, number: u32) -> u32 {
        if let Some(stream) = self.watched[process].streams.get(&number) {
            return *stream;
        }
        self.put(&Record::Stream(process as u32));
        self.streams += 1;
        self.watched[process].streams.insert(number, self.streams - 1);
        self.streams - 1
    }

    fn point(&mut self, process: usize, point: Point) -> Point {
        Point { stream: self.stream(process, point.stream), ticket: point.ticket }
    }

    fn graph(&mut self, process: usize, number: u32) -> u32 {
        match self.watched[process].graphs.get(&number) {
            Some(graph) => *graph,
            None => self.add_graph(process, number, self.unseen(), None),
        }
    }

    fn add_graph(&mut self, process: usize, number: u32, head: StepHead, stream: Option<u32>) -> u32 {
        self.put(&Record::CaptureBegun { head, stream });
        self.graphs += 1;
        self.watched[process].graphs.insert(number, self.graphs - 1);
        self.graphs - 1
    }

    fn task(&mut self, process: usize, task: TaskId) -> TaskId {
        TaskId { graph: self.graph(process, task.graph), task: task.task }
    }

    fn location(&mut self, process: usize, device: Option<u32>, address: u64) -> Location {
        if let Some(known) = self.watched[process].memory.find(address) {
            return known;
        }
        let mut added = None;
        let number = self.allocations;
        let location = self.watched[process].memory.pageable(address, || {
            added = Some(Allocation { process: process as u32, len: 0, device, origin: None });
            number
        });
        if let Some(region) = added {
            self.put(&Record::Memory(self.unseen(), region));
            self.allocations += 1;
        }
        location
    }

    fn rect(&mut self, process: usize, piece: &Piece) -> Rect {
        let dst = self.location(process, None, piece.dst);
        Rect::linear(dst, self.location(process, None, piece.src), piece.len)
    }

    fn rows(&mut self, process: usize, rows: &Rows) -> Rect {
        let Rows { dst_pitch, src_pitch, width, height, .. } = *rows;
        let dst = self.location(process, None, rows.dst);
        let src = self.location(process, None, rows.src);
        Rect { dst, dst_pitch, src, src_pitch, width, height }
    }

    fn rects(&mut self, process: usize, pieces: &[Piece]) -> Vec<Rect> {
        pieces.iter().map(|piece| self.rect(process, piece)).collect()
    }

    fn work(&mut self, process: usize, work: &Work) -> RecordedWork {
        match work {
            Work::Nothing => RecordedWork::Nothing,
            Work::Mark => RecordedWork::Mark,
            Work::Linear { route, piece } => {
                RecordedWork::Linear { route: *route, rect: self.rect(process, piece) }
            }
            Work::Rows { route, rows } => {
                RecordedWork::Rows { route: *route, rect: self.rows(process, rows) }
            }
            Work::Batch { route, count, bytes, pieces } => RecordedWork::Batch {
                route: *route,
                count: *count,
                bytes: *bytes,
                rects: self.rects(process, pieces),
            },
            Work::Through { device, len, .. } => {
                RecordedWork::Through { device: *device, is_descriptor: *len == 0, rect: None }
            }
            Work::Fill { dst, len, pattern, device } => RecordedWork::Fill {
                device: *device,
                dst: self.location(process, *device, *dst),
                len: *len,
                pattern: *pattern,
            },
            Work::Reduce { device, piece, combine, element } => RecordedWork::Reduce {
                device: *device,
                rect: self.rect(process, piece),
                combine: *combine,
                element: *element,
            },
            Work::Function => RecordedWork::Function,
        }
    }

    fn submitted(&mut self, source: FactSource, process: usize, op: &SubmittedOp) {
        let head = self.head(source, &op.site, op.time);
        let point = self.point(process, op.point);
        let awaits = op.awaits.iter().map(|awaited| match awaited {
            Awaited::Point(point) => Awaited::Point(self.point(process, *point)),
            other => *other,
        });
        let awaits = awaits.collect();
        let work = self.work(process, &op.work);
        let task = op.task.map(|task| self.task(process, task));
        self.put(&Record::Submitted { head, point, awaits, work, task });
    }

    fn captured(&mut self, source: FactSource, process: usize, captured: &Captured) {
        let head = self.head(source, &captured.site, captured.time);
        let work = self.work(process, &captured.work);
        let task = self.task(process, captured.task);
        self.put(&Record::Captured { head, task, branch: captured.branch, work });
    }

    /// Facts about the process and what its addresses mean.
    fn take_context(&mut self, source: FactSource, process: usize, fact: &Fact) {
        match fact {
            Fact::Thread(name) => {
                let thread = self.thread(source);
                self.put(&Record::ThreadName { thread, name: name.clone() });
            }
            Fact::Ended { .. } => self.put(&Record::Ended(process as u32)),
            Fact::Lost { count } => self.put(&Record::Lost(*count)),
            other => self.symbols.take(source, other),
        }
    }

    /// Facts about streams and memory.
    fn take_resource(&mut self, source: FactSource, process: usize, fact: &Fact) {
        match fact {
            Fact::StreamMade(made) => {
                let head = self.plain_head(source, made.time);
                let (device, purpose) = (made.device, made.purpose);
                let stream = RecordedStream { process: process as u32, device, purpose };
                let number = self.stream(process, made.stream);
                self.put(&Record::StreamMade(head, number, stream));
            }
            Fact::StreamGone { time, stream } => {
                let (head, stream) = (self.plain_head(source, *time), self.stream(process, *stream));
                self.put(&Record::StreamGone(head, stream));
            }
            Fact::Known { time, site, block } => {
                let head = self.head(source, site, *time);
                if self.watched[process].memory.add(block, self.allocations) {
                    let (len, device, origin) = (block.len, block.device, Some(block.origin));
                    self.put(&Record::Memory(
                        head,
                        Allocation { process: process as u32, len, device, origin },
                    ));
                    self.allocations += 1;
                }
            }
            Fact::Forgotten { time, site, base } => {
                let head = self.head(source, site, *time);
                if let Some(allocation) = self.watched[process].memory.remove(*base) {
                    self.put(&Record::Freed(head, allocation));
                }
            }
            _ => {}
        }
    }

    /// Facts about graphs.
    fn take_graph(&mut self, source: FactSource, process: usize, fact: &Fact) {
        match fact {
            Fact::CaptureBegun { time, site, graph, stream } => {
                let (head, stream) = (self.head(source, site, *time), self.stream(process, *stream));
                self.add_graph(process, *graph, head, Some(stream));
            }
            Fact::Captured(captured) => self.captured(source, process, captured),
            Fact::CaptureEnded { time, site, graph, is_graph } => {
                let (head, graph) = (self.head(source, site, *time), self.graph(process, *graph));
                self.put(&Record::CaptureEnded { head, graph, is_graph: *is_graph });
            }
            Fact::Launched { time, site, graph, point } => {
                let (head, graph) = (self.head(source, site, *time), self.graph(process, *graph));
                let point = self.point(process, *point);
                self.put(&Record::Launched { head, graph, point });
            }
            _ => {}
        }
    }

    /// Facts about ops.
    fn take_work(&mut self, source: FactSource, process: usize, fact: &Fact) {
        match fact {
            Fact::Call(call) => {
                let head = self.head(source, &call.site, call.end);
                self.put(&Record::Call { head, blocked: call.blocked, code: call.code });
            }
            Fact::Submitted(op) => self.submitted(source, process, op),
            Fact::MorePieces { point, pieces } => {
                let (point, rects) = (self.point(process, *point), self.rects(process, pieces));
                self.put(&Record::MorePieces { point, rects });
            }
            Fact::Refused { time, stream, site, work } => {
                let (head, stream) = (self.head(source, site, *time), self.stream(process, *stream));
                let work = self.work(process, work);
                self.put(&Record::Refused { head, stream, work });
            }
            Fact::Begun { time, point } => {
                let point = self.point(process, *point);
                self.put(&Record::Begun { point, time: *time });
            }
            Fact::Passed(passed) => {
                let point = self.point(process, passed.point);
                self.put(&Record::Passed(Passed { point, ..*passed }));
            }
            Fact::Resolved { point, piece, .. } => {
                let (point, rect) = (self.point(process, *point), self.rect(process, piece));
                self.put(&Record::Resolved { point, rect });
            }
            Fact::Bound { promise, point, .. } => {
                let point = point.map(|point| self.point(process, point));
                self.put(&Record::Bound { process: process as u32, promise: *promise, point });
            }
            // A replay runs functions of its own behind the work before them, and ends no work before its
            // time: it waits, which is told behind the abort.
            Fact::Joined(Joined { how: Join::Function | Join::Abort, .. }) => {}
            Fact::Joined(Joined { time, point, site, how }) => {
                let (head, point) = (self.head(source, site, *time), self.point(process, *point));
                // A recording has one process.
                let how = if *how == Join::Elsewhere { Join::Query } else { *how };
                self.put(&Record::Joined { head, point, how });
            }
            _ => {}
        }
    }

    /// Facts about contents.
    fn take_contents(&mut self, process: usize, fact: &Fact) {
        match fact {
            Fact::Contents { point, end, hash } => {
                let point = self.point(process, *point);
                self.put(&Record::Contents { point, end: *end, hash: *hash });
            }
            Fact::Bytes { point, end, offset, bytes } => {
                let point = self.point(process, *point);
                for (number, part) in bytes.chunks(LONGEST_STRING).enumerate() {
                    let offset = offset.saturating_add((number * LONGEST_STRING) as u64);
                    self.put(&Record::Bytes { point, end: *end, offset, bytes: part.to_vec() });
                }
            }
            _ => {}
        }
    }
}

impl<W: Write> FactReader for Recorder<W> {
    fn take(&mut self, source: FactSource, fact: &Fact) {
        self.now = self.now.max(fact.time().unwrap_or(0));
        if let Fact::Started(started) = fact {
            let (backend, command) = (started.backend.clone(), started.command.clone());
            let (devices, epoch) = (started.devices, started.epoch);
            let process = match self.processes.get(&source.process) {
                Some(known) if !self.watched[*known].is_started => *known,
                // A number that comes again is another process.
                _ => self.add_process(source.process),
            };
            self.watched[process].is_started = true;
            let started = RecordedProcess { backend, command, devices, epoch, has_ended: false };
            self.put(&Record::Started(process as u32, started));
            return self.symbols.take(source, fact);
        }
        let process = self.process(source.process);
        if self.threads.is_empty() {
            // There has to be one that does what no fact tells.
            self.thread(source);
        }
        match fact {
            Fact::StreamMade(_)
            | Fact::StreamGone { .. }
            | Fact::Known { .. }
            | Fact::Forgotten { .. }
            | Fact::Reused { .. } => self.take_resource(source, process, fact),
            Fact::CaptureBegun { .. }
            | Fact::Captured(_)
            | Fact::CaptureEnded { .. }
            | Fact::Launched { .. } => self.take_graph(source, process, fact),
            Fact::Call(_)
            | Fact::Submitted(_)
            | Fact::MorePieces { .. }
            | Fact::Refused { .. }
            | Fact::Begun { .. }
            | Fact::Passed(_)
            | Fact::Resolved { .. }
            | Fact::Bound { .. }
            | Fact::Joined(_) => self.take_work(source, process, fact),
            Fact::Contents { .. } | Fact::Bytes { .. } => self.take_contents(process, fact),
            _ => self.take_context(source, process, fact),
        }
    }
}
