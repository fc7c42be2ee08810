//! Contents on their way through a recording.

use super::super::limits::ReplayLimits;
use super::super::model::{RecordedOp, RecordedWork, Recording};
use super::hazards::{ByteSpan, Races, outlines, spans};
use super::order::Happening;
use super::{Content, Flow};
use crate::ContentHasher;
use crate::span_map::{Sliced, SpanMap};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// Bytes that have a known content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The allocation.
    pub allocation: u32,
    /// The offset of the first byte in it.
    pub offset: u64,
    /// How many bytes.
    pub len: u64,
    /// The content, an index of [`Flow::contents`].
    pub content: u32,
    /// Where in that content these bytes begin.
    pub at: u64,
}

/// Bytes that an allocation has from the beginning.
pub type InitialContent = Expected;

/// Reductions over more bytes than this are not predicted.
const LONGEST_REDUCTION: u64 = 64 << 20;

/// An op that finds more parts of different contents than this, besides those that it copies one by one, is
/// not predicted.
const MOST_PARTS: usize = 1 << 12;

/// What bytes are: a part of a content, or unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Value {
    content: Option<u32>,
    at: u64,
}

const UNKNOWN: Value = Value { content: None, at: 0 };

impl Sliced for Value {
    fn behind(&self, skipped: u64) -> Value {
        Value { at: self.at.wrapping_add(skipped), ..*self }
    }
}

/// Moves contents as ops do.
pub fn follow(recording: &Recording, limits: &ReplayLimits, hazards: Races) -> Flow {
    let ops = recording.ops.len();
    let mut follower = Follower {
        recording,
        hazards: &hazards,
        memory: vec![SpanMap::default(); recording.allocations.len()],
        patterns: HashMap::new(),
        fills: HashMap::new(),
        sources: HashMap::new(),
        flow: Flow {
            host_writes: vec![Vec::new(); ops],
            injected: vec![Vec::new(); ops],
            expected: vec![Vec::new(); ops],
            ..Flow::default()
        },
    };
    for happening in &hazards.order.happenings {
        match *happening {
            Happening::Submitted { op, .. } if hazards.is_written_by_host[op] => {
                follower.flow.host_writes[op] = follower.write_source(op);
            }
            Happening::Ran { op } if limits.is_replayed[op] => follower.run(op),
            _ => {}
        }
    }
    let mut flow = follower.flow;
    (flow.after, flow.unexplained) = (hazards.after, hazards.order.unexplained);
    flow.stuck = vec![false; ops];
    hazards.order.stuck.iter().for_each(|op| flow.stuck[*op] = true);
    flow
}

/// What ops leave, of which later ones overwrite earlier ones.
pub fn left_by(recording: &Recording, expected: &[Vec<Expected>], ops: &[usize]) -> Vec<Expected> {
    let mut memory: BTreeMap<u32, SpanMap<Value>> = BTreeMap::new();
    for op in ops {
        for span in outlines(&recording.ops[*op].work).0 {
            memory.entry(span.allocation).or_default().insert(span.start, span.end, UNKNOWN);
        }
        for part in &expected[*op] {
            let value = Value { content: Some(part.content), at: part.at };
            let end = part.offset + part.len;
            memory.entry(part.allocation).or_default().insert(part.offset, end, value);
        }
    }
    let mut left = Vec::new();
    for (allocation, memory) in memory {
        for (offset, end, value) in memory.within(0, u64::MAX) {
            let (len, at) = (end - offset, value.at);
            left.extend(value.content.map(|content| Expected { allocation, offset, len, content, at }));
        }
    }
    left
}

struct Follower<'a> {
    recording: &'a Recording,
    hazards: &'a Races,
    memory: Vec<SpanMap<Value>>,
    /// The indices of contents that were made before.
    patterns: HashMap<u64, u32>,
    fills: HashMap<[u8; 4], u32>,
    /// Of recorded bytes, by hash.
    sources: HashMap<u64, u32>,
    flow: Flow,
}

impl Follower<'_> {
    fn add(&mut self, content: Content) -> u32 {
        self.flow.contents.push(content);
        self.flow.contents.len() as u32 - 1
    }

    fn pattern(&mut self, number: u64) -> u32 {
        if let Some(known) = self.patterns.get(&number) {
            return *known;
        }
        let added = self.add(Content::Pattern(number));
        self.patterns.insert(number, added);
        added
    }

    fn fill(&mut self, pattern: [u8; 4]) -> u32 {
        if let Some(known) = self.fills.get(&pattern) {
            return *known;
        }
        let added = self.add(Content::Repeat(pattern));
        self.fills.insert(pattern, added);
        added
    }

    /// The content that the source of an op had: the recorded bytes, or a pattern in their place.
    fn source(&mut self, op: &RecordedOp) -> Option<u32> {
        let hash = op.hashes.source?;
        let Some(bytes) = op.source.as_ref().filter(|bytes| bytes.len() as u64 == op.work.bytes()) else {
            return Some(self.pattern(hash));
        };
        if let Some(known) = self.sources.get(&hash) {
            return Some(*known);
        }
        let added = self.add(Content::Bytes(Arc::new(bytes.clone())));
        self.sources.insert(hash, added);
        Some(added)
    }

    /// The source of an op gets the recorded content. Says what is written.
    fn write_source(&mut self, number: usize) -> Vec<Expected> {
        let op = &self.recording.ops[number];
        let Some(content) = self.source(op) else { return Vec::new() };
        let (mut at, mut written) = (0, Vec::new());
        for span in spans(&op.work).1 {
            let len = span.end - span.start;
            let value = Value { content: Some(content), at };
            self.memory[span.allocation as usize].insert(span.start, span.end, value);
            written.push(Expected { allocation: span.allocation, offset: span.start, len, content, at });
            at += len;
        }
        written
    }

    fn run(&mut self, number: usize) {
        let op = &self.recording.ops[number];
        self.flow.written = self.flow.written.saturating_add(op.work.bytes());
        if self.hazards.is_coarse[number] {
            for span in outlines(&op.work).0 {
                self.memory[span.allocation as usize].insert(span.start, span.end, UNKNOWN);
            }
            return;
        }
        let (written, read) = spans(&op.work);
        let moved = match &op.work {
            RecordedWork::Fill { pattern, len, .. } => {
                let content = Some(self.fill(*pattern));
                vec![(*len, Value { content, at: 0 })]
            }
            RecordedWork::Reduce { .. } => self.reduce(number, &written, &read),
            _ => {
                self.inject(number, &read);
                self.read(number, &read)
            }
        };
        self.write(number, &written, moved);
    }

    /// Recorded bytes that are not those which the op would find go into its source, if it is in device
    /// memory.
    fn inject(&mut self, number: usize, read: &[ByteSpan]) {
        let op = &self.recording.ops[number];
        let is_device =
            |span: &ByteSpan| self.recording.allocations[span.allocation as usize].device.is_some();
        let (Some(hash), true) = (op.hashes.source, op.source.is_some()) else { return };
        if !read.iter().all(is_device) || !self.hazards.unknown_reads[number].is_empty() {
            return;
        }
        let values = self.read(number, read);
        let is_known = values.iter().all(|(_, value)| value.content.is_some());
        if is_known && ContentHasher::hash(&self.bytes(&values)) != hash {
            self.flow.injected[number] = self.write_source(number);
        }
    }

    /// The values of what an op reads, with their lengths, in order.
    fn read(&mut self, number: usize, read: &[ByteSpan]) -> Vec<(u64, Value)> {
        let mut values = Vec::new();
        let mut unknown: HashMap<u32, SpanMap<Value>> = HashMap::new();
        for hole in &self.hazards.unknown_reads[number] {
            unknown.entry(hole.allocation).or_default().insert(hole.start, hole.end, UNKNOWN);
        }
        let mut at = 0;
        for span in read {
            self.begin_with(number, *span, at);
            at += span.end - span.start;
            let mut seen = SpanMap::default();
            for (start, end, value) in self.memory[span.allocation as usize].within(span.start, span.end) {
                seen.insert(start, end, value);
            }
            let holes = unknown.get(&span.allocation).into_iter();
            for (start, end, value) in holes.flat_map(|holes| holes.within(span.start, span.end)) {
                seen.insert(start, end, value);
            }
            values.extend(seen.within(span.start, span.end).map(|(start, end, value)| (end - start, value)));
            if values.len() > MOST_PARTS + read.len() {
                return vec![(self.recording.ops[number].work.bytes(), UNKNOWN)];
            }
        }
        values
    }

    /// Bytes that nothing wrote before an op reads them have a content from the beginning.
    fn begin_with(&mut self, number: usize, span: ByteSpan, at: u64) {
        let op = &self.recording.ops[number];
        let mut missing = Vec::new();
        let mut reached = span.start;
        for (start, end, _) in self.memory[span.allocation as usize].within(span.start, span.end) {
            missing.push((reached, start));
            reached = end;
        }
        missing.push((reached, span.end));
        for (start, end) in missing.into_iter().filter(|(start, end)| start < end) {
            let content = match self.source(op) {
                Some(content) if op.source.is_some() => {
                    Value { content: Some(content), at: at + start - span.start }
                }
                _ => Value { content: Some(self.pattern(!u64::from(span.allocation))), at: start },
            };
            self.memory[span.allocation as usize].insert(start, end, content);
            self.flow.initial.push(Expected {
                allocation: span.allocation,
                offset: start,
                len: end - start,
                content: content.content.unwrap_or_default(),
                at: content.at,
            });
        }
    }

    fn write(&mut self, number: usize, written: &[ByteSpan], moved: Vec<(u64, Value)>) {
        let mut moved = moved.into_iter();
        let mut current = moved.next();
        for span in written {
            let mut start = span.start;
            while start < span.end {
                let Some((len, value)) = current.as_mut() else { break };
                let taken = (*len).min(span.end - start);
                self.memory[span.allocation as usize].insert(start, start + taken, *value);
                start += taken;
                (*len, *value) = (*len - taken, value.behind(taken));
                if *len == 0 {
                    current = moved.next();
                }
            }
        }
        for unknown in &self.hazards.unknown_writes[number] {
            self.memory[unknown.allocation as usize].insert(unknown.start, unknown.end, UNKNOWN);
        }
        for span in written {
            let parts = self.memory[span.allocation as usize].within(span.start, span.end);
            let known = parts.filter_map(|(start, end, value)| {
                let (allocation, len, at) = (span.allocation, end - start, value.at);
                value.content.map(|content| Expected { allocation, offset: start, len, content, at })
            });
            self.flow.expected[number].extend(known);
        }
    }

    /// The values of a reduction. Sums of floats depend on how a device rounds, and are unknown.
    fn reduce(&mut self, number: usize, written: &[ByteSpan], read: &[ByteSpan]) -> Vec<(u64, Value)> {
        let op = &self.recording.ops[number];
        let len = op.work.bytes();
        let RecordedWork::Reduce { combine, element, .. } = op.work else { return Vec::new() };
        let (old, new) = (self.read(number, written), self.read(number, read));
        let are_known = old.iter().chain(&new).all(|(_, value)| value.content.is_some());
        if !are_known || len > LONGEST_REDUCTION || element > 3 {
            return vec![(len, UNKNOWN)];
        }
        let mut dst = self.bytes(&old);
        reduce_integers(&mut dst, &self.bytes(&new), combine, element);
        let content = Some(self.add(Content::Bytes(Arc::new(dst))));
        vec![(len, Value { content, at: 0 })]
    }

    /// The bytes of values that are known.
    fn bytes(&self, values: &[(u64, Value)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (len, value) in values {
            let from = bytes.len();
            bytes.resize(from + *len as usize, 0);
            if let Some(content) = value.content {
                self.flow.contents[content as usize].write(value.at, &mut bytes[from..]);
            }
        }
        bytes
    }
}

/// Combines integers, which wrap: 0 sum, 1 maximum, 2 minimum; 0 i8, 1 i16, 2 i32, 3 u32.
fn reduce_integers(dst: &mut [u8], src: &[u8], combine: u8, element: u8) {
    let size = [1, 2, 4, 4][usize::from(element.min(3))];
    let read = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..size].copy_from_slice(bytes);
        let value = i64::from_le_bytes(word);
        let shift = 64 - 8 * size as u32;
        if element == 3 { value } else { value << shift >> shift }
    };
    for (one, other) in dst.chunks_exact_mut(size).zip(src.chunks_exact(size)) {
        let (left, right) = (read(one), read(other));
        let result = match combine {
            0 => left.wrapping_add(right),
            1 => left.max(right),
            _ => left.min(right),
        };
        one.copy_from_slice(&result.to_le_bytes()[..size]);
    }
}
