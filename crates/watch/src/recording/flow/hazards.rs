//! Races, and the sources that the program wrote between ops.
//!
//! Each op has a vector clock: how far each stream has come for certain when it runs. The clock of the host
//! counts what threads have learnt by joins, and the writes of the host itself, which are those of one more
//! stream. Every range of bytes remembers the accesses that a later one may race with.

use super::super::limits::ReplayLimits;
use super::super::model::{Location, RecordedOp, RecordedWait, RecordedWork, Recording, Rect};
use super::accesses::{Accesses, FlowAccess};
use super::order::{Happening, ReplayOrder, order, target};
use crate::span_map::{Sliced, SpanMap};
use std::{collections::HashMap, rc::Rc};

/// Ops with more rows and pieces than this are not predicted.
const MOST_PARTS: u64 = 1 << 14;

/// A range of bytes of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteSpan {
    /// The allocation.
    pub allocation: u32,
    /// The first byte.
    pub start: u64,
    /// The byte behind the last.
    pub end: u64,
}

impl ByteSpan {
    fn of(at: Location, len: u64) -> ByteSpan {
        ByteSpan {
            allocation: at.allocation,
            start: at.offset as u64,
            end: (at.offset as u64).saturating_add(len),
        }
    }
}

/// What is not as the recorded order alone would have it.
pub struct Races {
    /// What happens, in order.
    pub order: ReplayOrder,
    /// For each op, parts of its source whose bytes are unknown when it reads them.
    pub unknown_reads: Vec<Vec<ByteSpan>>,
    /// For each op, parts of its destination whose bytes are unknown when it has written them.
    pub unknown_writes: Vec<Vec<ByteSpan>>,
    /// For each op, whether only the outlines of its rectangles were looked at.
    pub is_coarse: Vec<bool>,
    /// For each op, whether the submitting thread writes its source before.
    pub is_written_by_host: Vec<bool>,
    /// For each step, joins and host writes of other threads that come before.
    pub after: Vec<Vec<usize>>,
}

/// The parts of the destination, and of the source, in order. Rows that follow each other are one part.
pub fn spans(work: &RecordedWork) -> (Vec<ByteSpan>, Vec<ByteSpan>) {
    let (mut written, mut read) = (Vec::new(), Vec::new());
    for rect in work.rects().iter().filter(|rect| rect.bytes() > 0) {
        written.extend(rows(rect, rect.dst, rect.dst_pitch));
        read.extend(rows(rect, rect.src, rect.src_pitch));
    }
    if let RecordedWork::Fill { dst, len, .. } = work {
        written.push(ByteSpan::of(*dst, *len));
    }
    (written, read)
}

fn rows(rect: &Rect, at: Location, pitch: u64) -> impl Iterator<Item = ByteSpan> {
    let (count, len) = if pitch == rect.width { (1, rect.bytes()) } else { (rect.height, rect.width) };
    (0..count).map(move |row| {
        let offset = at.offset.wrapping_add(pitch.wrapping_mul(row) as i64);
        ByteSpan::of(Location { offset, ..at }, len)
    })
}

/// As [`spans`], with one part for each rectangle, which has what lies between its rows as well.
pub fn outlines(work: &RecordedWork) -> (Vec<ByteSpan>, Vec<ByteSpan>) {
    let rects = work.rects().iter().filter(|rect| rect.bytes() > 0);
    let written = rects.clone().map(|rect| ByteSpan::of(rect.dst, rect.span(rect.dst_pitch)));
    let fill = match work {
        RecordedWork::Fill { dst, len, .. } => Some(ByteSpan::of(*dst, *len)),
        _ => None,
    };
    let read = rects.map(|rect| ByteSpan::of(rect.src, rect.span(rect.src_pitch)));
    (written.chain(fill).collect(), read.collect())
}

/// How many parts [`spans`] would give.
fn count_spans(work: &RecordedWork) -> u64 {
    let rows = |rect: &Rect| if rect.dst_pitch.max(rect.src_pitch) == rect.width { 1 } else { rect.height };
    work.rects().iter().fold(1, |sum, rect| sum.saturating_add(rows(rect)))
}

/// Finds them. When more ranges than `afforded` were visited, those that one op touches become one.
pub fn find(recording: &Recording, limits: &ReplayLimits, afforded: u64) -> Races {
    let order = order(recording);
    let mut tracker = Tracker::new(recording, limits, afforded);
    for happening in &order.happenings {
        match *happening {
            Happening::Submitted { op, step } => tracker.submitted(op, step),
            Happening::Ran { op } => tracker.ran(op),
            Happening::Joined { point, step } => {
                if let Some(op) = recording.op_at(point) {
                    tracker.joined(op, step);
                }
            }
        }
    }
    let Tracker { unknown_reads, unknown_writes, is_coarse, is_written_by_host, mut after, .. } = tracker;
    for steps in &mut after {
        steps.sort_unstable();
        steps.dedup();
    }
    Races { order, unknown_reads, unknown_writes, is_coarse, is_written_by_host, after }
}

/// How far each stream has come; the last one is the host.
type Clock = Rc<Vec<u64>>;

struct Tracker<'a> {
    recording: &'a Recording,
    limits: &'a ReplayLimits,
    host_stream: u32,
    host: Clock,
    /// The steps that brought the host's clock forward, with the ticket it came to, for each stream.
    history: Vec<Vec<(u64, usize)>>,
    /// The clock of each stream's last op.
    streams: Vec<Clock>,
    /// The clock of each op that has run.
    clocks: Vec<Option<Clock>>,
    /// The step and the host's clock of ops that were submitted and have not run.
    pending: HashMap<usize, (usize, Clock)>,
    memory: Vec<SpanMap<Accesses>>,
    unknown_reads: Vec<Vec<ByteSpan>>,
    unknown_writes: Vec<Vec<ByteSpan>>,
    is_written_by_host: Vec<bool>,
    /// For each op, whether a promise was bound to it.
    is_promised: Vec<bool>,
    after: Vec<Vec<usize>>,
    /// For each op, whether its rows are not told apart.
    is_coarse: Vec<bool>,
    /// How many ranges were visited, and how many can be.
    effort: u64,
    afforded: u64,
}

impl<'a> Tracker<'a> {
    fn new(recording: &'a Recording, limits: &'a ReplayLimits, afforded: u64) -> Tracker<'a> {
        let (streams, ops) = (recording.streams.len(), recording.ops.len());
        let clock = Clock::new(vec![0; streams + 1]);
        let mut is_promised = vec![false; ops];
        for awaited in recording.ops.iter().flat_map(|op| &op.awaits) {
            if let RecordedWait::Promised(point) = awaited
                && let Some(op) = recording.op_at(*point)
            {
                is_promised[op] = true;
            }
        }
        Tracker {
            recording,
            limits,
            host_stream: streams as u32,
            host: clock.clone(),
            history: vec![Vec::new(); streams + 1],
            streams: vec![clock; streams],
            clocks: vec![None; ops],
            pending: HashMap::new(),
            memory: vec![SpanMap::default(); recording.allocations.len()],
            unknown_reads: vec![Vec::new(); ops],
            unknown_writes: vec![Vec::new(); ops],
            is_written_by_host: vec![false; ops],
            is_promised,
            after: vec![Vec::new(); recording.steps.len()],
            is_coarse: vec![false; ops],
            effort: 0,
            afforded,
        }
    }

    fn joined(&mut self, op: usize, step: usize) {
        let point = self.recording.ops[op].point;
        let Some(clock) = self.clocks[op].clone() else { return };
        let mut raised = clock.iter().copied().enumerate().collect::<Vec<_>>();
        raised[point.stream as usize].1 = raised[point.stream as usize].1.max(point.ticket);
        raised.retain(|(stream, ticket)| *ticket > self.host[*stream]);
        for (stream, ticket) in raised {
            Rc::make_mut(&mut self.host)[stream] = ticket;
            self.history[stream].push((ticket, step));
        }
    }

    fn submitted(&mut self, op: usize, step: usize) {
        if self.limits.is_replayed[op] && self.is_source_changed(op) {
            self.write_by_host(op, step);
        }
        if self.is_promised[op] {
            // What waits for it was submitted before, and knows by it all that the host knows now.
            let known = self.history.iter().filter_map(|steps| steps.last());
            self.after[step].extend(known.map(|(_, join)| *join).filter(|join| *join < step));
        }
        self.pending.insert(op, (step, self.host.clone()));
    }

    /// Whether the program has changed the source of an op in host memory, and no other op can be at it.
    fn is_source_changed(&self, number: usize) -> bool {
        let op = &self.recording.ops[number];
        if count_spans(&op.work) > MOST_PARTS {
            return false;
        }
        let (_, read) = spans(&op.work);
        let is_host = |span: &ByteSpan| self.recording.allocations[span.allocation as usize].device.is_none();
        let Some(hash) = op.hashes.source else { return false };
        if read.is_empty() || !read.iter().all(is_host) || matches!(op.work, RecordedWork::Reduce { .. }) {
            return false;
        }
        self.is_free(&read) && !self.is_known_to_be(&read, hash)
    }

    /// Whether the host can write these bytes now: all that used them has passed, for all that it knows.
    fn is_free(&self, spans: &[ByteSpan]) -> bool {
        let parts = |span: &ByteSpan| self.memory[span.allocation as usize].within(span.start, span.end);
        let are_over = spans.iter().all(|span| parts(span).all(|(_, _, list)| list.are_over(&self.host)));
        are_over && self.pending.keys().all(|op| !touches(&self.recording.ops[*op], spans))
    }

    /// Whether the last thing that wrote all these bytes, and only these, left a content with this hash.
    fn is_known_to_be(&self, read: &[ByteSpan], hash: u64) -> bool {
        let mut writers = read.iter().flat_map(|span| {
            let parts = self.memory[span.allocation as usize].within(span.start, span.end);
            let covered: u64 = parts.map(|(from, to, _)| to - from).sum();
            let parts = self.memory[span.allocation as usize].within(span.start, span.end);
            let writers = parts.map(|(_, _, list)| list.last_writer());
            let hole = (covered < span.end - span.start).then_some(None);
            writers.chain(hole).collect::<Vec<_>>()
        });
        let Some(Some(first)) = writers.next() else { return false };
        let is_same = |other: Option<FlowAccess>| {
            other.is_some_and(|other| (other.op, other.stream) == (first.op, first.stream))
        };
        if !writers.all(is_same) {
            return false;
        }
        let writer = &self.recording.ops[first.op];
        let (written, source) = spans(&writer.work);
        match first.stream == self.host_stream {
            true => source == read && writer.hashes.source == Some(hash),
            false => written == read && writer.hashes.destination == Some(hash),
        }
    }

    fn write_by_host(&mut self, op: usize, step: usize) {
        let ticket = self.host[self.host_stream as usize] + 1;
        let access = FlowAccess { stream: self.host_stream, ticket, op, is_write: true };
        let (_, read) = spans(&self.recording.ops[op].work);
        for span in read {
            self.touch(span, access, &self.host.clone(), step);
        }
        Rc::make_mut(&mut self.host)[self.host_stream as usize] = ticket;
        self.history[self.host_stream as usize].push((ticket, step));
        self.is_written_by_host[op] = true;
    }

    /// The step comes after the join by which the host knows that a stream has come so far.
    fn order_after_host(&mut self, stream: u32, ticket: u64, step: usize) {
        let known = &self.history[stream as usize];
        let first = known.partition_point(|(reached, _)| *reached < ticket);
        if let Some((_, join)) = known.get(first)
            && *join < step
        {
            self.after[step].push(*join);
        }
    }

    fn ran(&mut self, number: usize) {
        let op = &self.recording.ops[number];
        let Some((step, host)) = self.pending.remove(&number) else { return };
        let clock = self.clock_of(op, &host);
        self.clocks[number] = Some(clock.clone());
        self.streams[op.point.stream as usize] = clock.clone();
        if !self.limits.is_replayed[number] {
            return;
        }
        self.is_coarse[number] = self.effort > self.afforded || count_spans(&op.work) > MOST_PARTS;
        let (written, read) = if self.is_coarse[number] { outlines(&op.work) } else { spans(&op.work) };
        self.race_with_itself(number, &written, &read);
        let (stream, ticket) = (op.point.stream, op.point.ticket);
        for (span, is_write) in with(read, false).chain(with(written, true)) {
            self.touch(span, FlowAccess { stream, ticket, op: number, is_write }, &clock, step);
        }
    }

    fn clock_of(&self, op: &RecordedOp, host: &Clock) -> Clock {
        let mut clock = self.streams[op.point.stream as usize].clone();
        raise(&mut clock, host);
        for target in op.awaits.iter().filter_map(|awaited| target(self.recording, awaited)) {
            let point = self.recording.ops[target].point;
            if let Some(before) = &self.clocks[target] {
                raise(&mut clock, before);
            }
            if clock[point.stream as usize] < point.ticket {
                Rc::make_mut(&mut clock)[point.stream as usize] = point.ticket;
            }
        }
        clock
    }

    /// Pieces of a batch, and rows, are done in no particular order.
    fn race_with_itself(&mut self, number: usize, written: &[ByteSpan], read: &[ByteSpan]) {
        let rects = self.recording.ops[number].work.rects().iter().filter(|rect| rect.bytes() > 0);
        let rows = rects.fold(0, |sum: u64, rect| sum.saturating_add(rect.height));
        if rows < 2 {
            return;
        }
        let mut pieces: PieceMap = HashMap::new();
        for (piece, span) in written.iter().enumerate() {
            let map = pieces.entry(span.allocation).or_default();
            let shared: Vec<_> = map.within(span.start, span.end).collect();
            map.insert(span.start, span.end, PieceIndex(piece));
            for (start, end, _) in shared {
                self.unknown_writes[number].push(ByteSpan { start, end, ..*span });
                map.insert(start, end, SEVERAL);
            }
        }
        for (piece, span) in read.iter().enumerate() {
            let Some(map) = pieces.get(&span.allocation) else { continue };
            // Where rows were put together it is not known which belong to each other.
            let are_apart = [written.len() as u64, read.len() as u64] == [rows; 2];
            let is_own = |writer: PieceIndex| writer.0 == piece && are_apart;
            let others = map.within(span.start, span.end).filter(|(_, _, writer)| !is_own(writer.clone()));
            self.unknown_reads[number].extend(others.map(|(start, end, _)| ByteSpan { start, end, ..*span }));
        }
    }

    /// An access to a range. What it races with is unknown on both sides.
    fn touch(&mut self, span: ByteSpan, access: FlowAccess, clock: &Clock, step: usize) {
        let (mut conflicts, mut racing, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
        let mut touched = 0_u64;
        let (host, is_quiet) = (&self.host, self.pending.is_empty());
        self.memory[span.allocation as usize].update(
            span.start,
            span.end,
            |_| Accesses::default(),
            |start, end, list| {
                let part = ByteSpan { start, end, ..span };
                if list.races_with_write(&access, clock) {
                    unknown.push(part);
                }
                if access.is_write {
                    let others = list.take_racing(&access, clock).into_iter();
                    racing.extend(others.map(|other| (other, part)));
                }
                touched += 1;
                conflicts.extend(list.conflicts(&access));
                if is_quiet {
                    list.prune(host);
                }
                list.add(access);
            },
        );
        for (other, part) in racing {
            let spans = if other.is_write { &mut self.unknown_writes } else { &mut self.unknown_reads };
            push(&mut spans[other.op], part);
        }
        let own = if access.is_write { &mut self.unknown_writes } else { &mut self.unknown_reads };
        unknown.into_iter().for_each(|part| push(&mut own[access.op], part));
        self.effort += touched;
        if self.effort > self.afforded && touched > 1 {
            self.memory[span.allocation as usize].merge(span.start, span.end, Accesses::join);
        }
        conflicts.sort_unstable();
        conflicts.dedup();
        for (stream, ticket) in conflicts {
            self.order_after_host(stream, ticket.min(clock[stream as usize]), step);
        }
    }
}

/// Adds a range, or makes the last one longer.
fn push(spans: &mut Vec<ByteSpan>, span: ByteSpan) {
    match spans.last_mut() {
        Some(last) if last.allocation == span.allocation && last.end == span.start => last.end = span.end,
        _ => spans.push(span),
    }
}

fn with(spans: Vec<ByteSpan>, is_write: bool) -> impl Iterator<Item = (ByteSpan, bool)> {
    spans.into_iter().map(move |span| (span, is_write))
}

/// Which piece of an op writes a byte.
#[derive(Clone)]
struct PieceIndex(usize);

/// Several pieces do.
const SEVERAL: PieceIndex = PieceIndex(usize::MAX);

impl Sliced for PieceIndex {
    fn behind(&self, _skipped: u64) -> PieceIndex {
        self.clone()
    }
}

/// The pieces of one op, by allocation.
type PieceMap = HashMap<u32, SpanMap<PieceIndex>>;

/// Brings a clock at least as far as another one.
fn raise(clock: &mut Clock, other: &Clock) {
    if Rc::ptr_eq(clock, other) || clock.iter().zip(other.iter()).all(|(one, other)| one >= other) {
        return;
    }
    for (one, other) in Rc::make_mut(clock).iter_mut().zip(other.iter()) {
        *one = (*one).max(*other);
    }
}

/// Whether an op may touch some of these ranges: of rows, what lies between them counts as well.
fn touches(op: &RecordedOp, others: &[ByteSpan]) -> bool {
    let (written, read) = outlines(&op.work);
    let overlap = |one: &ByteSpan, other: &ByteSpan| {
        one.allocation == other.allocation && one.start < other.end && other.start < one.end
    };
    written.iter().chain(&read).any(|one| others.iter().any(|other| overlap(one, other)))
}
