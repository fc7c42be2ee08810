//! Predictions against an oracle: a machine that runs the recording byte by byte, in random orders that the
//! rules of a replay allow. Whatever it does, an op leaves what was predicted.

use super::deeds::{BLOCKS, any_address, any_deed, begin, linear, write_down};
use super::program::{Program, file_of};
use ferry_watch::{
    Fact,
    fact::{Awaited, End, Origin, Point, Work},
    recording::{
        Location, RecordedWait, RecordedWork, Recording, Rect, ReplayLimits, StepAction, dependencies,
        flow::{Expected, Flow},
        read,
    },
};
use proptest::prelude::*;
use std::collections::HashSet;

/// A random generator of our own: orders must not depend on how a program was made.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) as usize % limit.max(1)
    }
}

/// Runs a recording as a replay would, in some order.
struct Machine<'a> {
    recording: &'a Recording,
    limits: &'a ReplayLimits,
    flow: &'a Flow,
    dice: Dice,
    memory: Vec<Vec<u8>>,
    /// For each stream, what is queued.
    queues: Vec<Vec<usize>>,
    /// For each op, the rows that are still to be copied.
    parts: Vec<Option<Vec<(Location, Location, u64)>>>,
    has_run: Vec<bool>,
    is_done: Vec<bool>,
}

impl Machine<'_> {
    fn content(&self, part: &Expected) -> Vec<u8> {
        let mut bytes = vec![0; part.len as usize];
        self.flow.contents[part.content as usize].write(part.at, &mut bytes);
        bytes
    }

    fn place(&mut self, part: &Expected) -> &mut [u8] {
        let offset = part.offset as usize;
        &mut self.memory[part.allocation as usize][offset..offset + part.len as usize]
    }

    fn run(&mut self, before: &[Vec<usize>]) {
        for part in &self.flow.initial {
            let bytes = self.content(part);
            self.place(part).copy_from_slice(&bytes);
        }
        loop {
            let steps = self.possible_steps(before);
            let streams = self.possible_streams();
            match self.dice.below(steps.len() + streams.len()) {
                _ if steps.is_empty() && streams.is_empty() => break,
                choice if choice < steps.len() => self.step(steps[choice]),
                choice => self.advance(streams[choice - steps.len()]),
            }
        }
        assert!(self.is_done.iter().all(|is_done| *is_done), "a replay comes to its end");
        assert!(self.has_run.iter().all(|has_run| *has_run), "all ops run");
    }

    fn possible_steps(&self, before: &[Vec<usize>]) -> Vec<usize> {
        let mut busy = HashSet::new();
        let steps = self.recording.steps.iter().enumerate().filter(|(step, _)| !self.is_done[*step]);
        let next = steps.filter(|(_, did)| busy.insert(did.thread));
        let possible = next.filter(|(step, did)| {
            let passed = match &did.action {
                StepAction::Join { point, .. } if !self.flow.unexplained.contains(step) => {
                    self.recording.op_at(*point).is_none_or(|op| self.has_run[op])
                }
                _ => true,
            };
            let mut earlier = before[*step].iter().chain(&self.flow.after[*step]);
            passed && earlier.all(|earlier| self.is_done[*earlier])
        });
        possible.map(|(step, _)| step).collect()
    }

    fn possible_streams(&self) -> Vec<usize> {
        let is_met = |awaited: &RecordedWait| match awaited {
            RecordedWait::Point(point) | RecordedWait::Promised(point) => {
                self.recording.op_at(*point).is_none_or(|op| self.has_run[op])
            }
            _ => true,
        };
        let fronts =
            self.queues.iter().enumerate().filter_map(|(stream, queue)| Some((stream, *queue.first()?)));
        fronts
            .filter(|(_, op)| self.recording.ops[*op].awaits.iter().all(is_met))
            .map(|(stream, _)| stream)
            .collect()
    }

    fn step(&mut self, step: usize) {
        self.is_done[step] = true;
        if let StepAction::Submit(op) = &self.recording.steps[step].action {
            for part in &self.flow.host_writes[*op] {
                let bytes = self.content(part);
                self.place(part).copy_from_slice(&bytes);
            }
            self.queues[self.recording.ops[*op].point.stream as usize].push(*op);
        }
    }

    /// Does a part of the first op of a stream.
    fn advance(&mut self, stream: usize) {
        let op = self.queues[stream][0];
        let mut parts = self.parts[op].take().unwrap_or_else(|| self.parts_of(op));
        if !parts.is_empty() {
            let chosen = self.dice.below(parts.len());
            let (dst, src, len) = parts.remove(chosen);
            self.copy(op, dst, src, len);
        }
        if !parts.is_empty() {
            self.parts[op] = Some(parts);
            return;
        }
        self.queues[stream].remove(0);
        self.has_run[op] = true;
        for part in &self.flow.expected[op] {
            let (bytes, op) = (self.content(part), &self.recording.ops[op]);
            assert_eq!(self.place(part), bytes, "{part:?} of {op:?}");
        }
    }

    /// An op in parts that may be done in any order; one copy in one piece is done at once, since its ends
    /// may overlap.
    fn parts_of(&self, op: usize) -> Vec<(Location, Location, u64)> {
        if !self.limits.is_replayed[op] {
            return Vec::new();
        }
        match &self.recording.ops[op].work {
            RecordedWork::Fill { dst, len, .. } => vec![(*dst, *dst, *len)],
            work => {
                let row = |at: Location, pitch: u64, row: u64| Location {
                    offset: at.offset + (pitch * row) as i64,
                    ..at
                };
                let rows = |rect: &Rect| {
                    let rect = *rect;
                    (0..rect.height)
                        .map(move |number| {
                            (
                                row(rect.dst, rect.dst_pitch, number),
                                row(rect.src, rect.src_pitch, number),
                                rect.width,
                            )
                        })
                        .collect::<Vec<_>>()
                };
                work.rects().iter().flat_map(rows).collect()
            }
        }
    }

    fn copy(&mut self, op: usize, dst: Location, src: Location, len: u64) {
        let at = |at: Location| at.offset as usize..at.offset as usize + len as usize;
        let bytes = self.memory[src.allocation as usize][at(src)].to_vec();
        let out = &mut self.memory[dst.allocation as usize][at(dst)];
        match &self.recording.ops[op].work {
            RecordedWork::Fill { pattern, .. } => {
                (0..out.len()).for_each(|index| out[index] = pattern[index % 4]);
            }
            RecordedWork::Reduce { combine, .. } => {
                for (one, other) in out.iter_mut().zip(bytes) {
                    *one = match combine {
                        0 => one.wrapping_add(other),
                        1 => (*one as i8).max(other as i8) as u8,
                        _ => (*one as i8).min(other as i8) as u8,
                    };
                }
            }
            _ => out.copy_from_slice(&bytes),
        }
    }
}

/// Runs a program in some orders; says how many bytes were checked, and how many were written.
fn check(program: &Program, orders: u64) -> (u64, u64) {
    check_within(program, orders, u64::MAX)
}

/// As `check`, with a bound on the effort of the prediction.
fn check_within(program: &Program, orders: u64, afforded: u64) -> (u64, u64) {
    let recording = program.recording();
    let limits = ReplayLimits::of(&recording);
    let flow = Flow::predict_within(&recording, &limits, afforded);
    let before = dependencies(&recording);
    for seed in 0..orders {
        let mut machine = Machine {
            recording: &recording,
            limits: &limits,
            flow: &flow,
            dice: Dice(seed),
            memory: recording.allocations.iter().map(|all| vec![0xcd; all.len as usize]).collect(),
            queues: vec![Vec::new(); recording.streams.len()],
            parts: vec![None; recording.ops.len()],
            has_run: vec![false; recording.ops.len()],
            is_done: vec![false; recording.steps.len()],
        };
        machine.run(&before);
    }
    (flow.checked(), flow.written)
}

const DEVICE: u64 = BLOCKS[0].0;
const OTHER_DEVICE: u64 = BLOCKS[1].0;
const PINNED: u64 = BLOCKS[2].0;
const BACK: u64 = BLOCKS[3].0;

#[test]
fn a_chain_in_one_stream_is_checked_to_the_last_byte() {
    let mut program = begin();
    let up = program.copy(0, DEVICE, PINNED, 32);
    program.pass(up, 5, 5);
    let across = program.copy(0, OTHER_DEVICE + 8, DEVICE, 16);
    program.pass(across, 6, 6);
    let down = program.copy(0, BACK, OTHER_DEVICE, 32);
    program.pass(down, 7, 7);
    assert_eq!(check(&program, 20), (80, 80));
}

#[test]
fn what_nothing_orders_is_not_checked() {
    let mut program = begin();
    let up = program.copy(0, DEVICE, PINNED, 32);
    program.pass(up, 5, 5);
    // The first half is overwritten by another stream at any time.
    let work = Work::Fill { dst: DEVICE, len: 16, pattern: [1, 2, 3, 4], device: Some(0) };
    program.submit(0, 1, Vec::new(), work.clone());
    assert_eq!(check(&program, 20), (16, 48));
    let mut ordered = begin();
    let up = ordered.copy(0, DEVICE, PINNED, 32);
    ordered.pass(up, 5, 5);
    ordered.submit(0, 1, vec![Awaited::Point(up)], work);
    assert_eq!(check(&ordered, 20), (48, 48));
}

#[test]
fn an_order_through_a_third_stream_counts() {
    let mut program = begin();
    program.copy(0, DEVICE, PINNED, 32);
    let first = program.submit(0, 0, Vec::new(), Work::Mark);
    let second = program.submit(0, 1, vec![Awaited::Point(first)], Work::Mark);
    program.submit(0, 2, vec![Awaited::Point(second)], linear(BACK, DEVICE, 32));
    assert_eq!(check(&program, 20), (64, 64));
}

#[test]
fn a_join_of_another_thread_orders_what_is_submitted_after_it() {
    let mut program = begin();
    let down = program.copy(0, PINNED, DEVICE, 32);
    program.pass(down, 5, 5);
    program.join(1, down);
    // The program wrote the memory in between: the hash says so.
    let up = program.submit(2, 1, Vec::new(), linear(DEVICE, PINNED, 32));
    program.pass(up, 6, 6);
    assert_eq!(check(&program, 50), (64, 64));
    let recording = program.recording();
    let flow = Flow::predict(&recording, &ReplayLimits::of(&recording));
    assert_eq!(flow.host_writes.iter().map(Vec::len).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn a_source_that_is_as_a_copy_left_it_is_not_written_again() {
    let mut program = begin();
    let down = program.copy(0, PINNED, DEVICE, 32);
    program.pass(down, 5, 5);
    program.join(0, down);
    let up = program.copy(0, OTHER_DEVICE, PINNED, 32);
    program.pass(up, 5, 5);
    let recording = program.recording();
    let flow = Flow::predict(&recording, &ReplayLimits::of(&recording));
    assert_eq!(flow.host_writes.iter().map(Vec::len).collect::<Vec<_>>(), [0, 0]);
    assert_eq!(flow.expected[0][0].content, flow.expected[1][0].content, "the same bytes came through");
    check(&program, 20);
}

#[test]
fn streams_may_read_one_source_at_once() {
    let mut program = begin();
    for (stream, dst) in [(0, DEVICE), (1, OTHER_DEVICE)] {
        let up = program.copy(stream, dst, PINNED, 32);
        program.pass(up, 5, 5);
    }
    assert_eq!(check(&program, 20), (64, 64));
}

#[test]
fn recorded_bytes_are_what_a_source_has() {
    let mut program = begin();
    let up = program.copy(0, DEVICE, PINNED, 4);
    program.pass(up, 5, 5);
    program.write(0, Fact::Bytes { point: up, end: End::Source, offset: 0, bytes: b"ab".to_vec() });
    program.write(0, Fact::Bytes { point: up, end: End::Source, offset: 2, bytes: b"cd".to_vec() });
    let recording = program.recording();
    let flow = Flow::predict(&recording, &ReplayLimits::of(&recording));
    let mut bytes = [0; 4];
    flow.contents[flow.expected[0][0].content as usize].write(0, &mut bytes);
    assert_eq!(&bytes, b"abcd");
}

#[test]
fn ops_that_wait_for_each_other_are_left_out() {
    let mut program = begin();
    program.submit(0, 0, vec![Awaited::Later(1)], Work::Mark);
    let other = program.submit(0, 1, vec![Awaited::Point(Point { stream: 0, ticket: 1 })], Work::Mark);
    program.write(0, Fact::Bound { time: 5_000, promise: 1, point: Some(other) });
    program.join(0, other);
    let recording = program.recording();
    let flow = Flow::predict(&recording, &ReplayLimits::of(&recording));
    assert_eq!(flow.stuck, [true, true]);
    assert_eq!(flow.unexplained.len(), 1);
}

#[test]
fn what_cannot_be_replayed_is_named() {
    let mut program = begin();
    program.copy(0, DEVICE + 8, PINNED, 32);
    program.submit(0, 0, vec![Awaited::Outside, Awaited::Later(9)], Work::Function);
    program.submit(0, 0, Vec::new(), Work::Through { device: 0, cells: [DEVICE; 2], len: 0 });
    let limits = ReplayLimits::of(&program.recording());
    assert_eq!(limits.is_replayed, [false, true, false]);
    assert_eq!(limits.remarks.len(), 5, "{:?}", limits.remarks);
}

/// Whether all ops can run: those that wait for each other have a test of their own.
fn is_sound(program: &Program) -> bool {
    let recording = program.recording();
    !Flow::predict(&recording, &ReplayLimits::of(&recording)).stuck.contains(&true)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn predictions_hold_in_every_order(deeds in proptest::collection::vec((0..3_u32, any_deed()), 0..20)) {
        let program = write_down(&deeds);
        prop_assume!(is_sound(&program));
        let (checked, written) = check(&program, 8);
        let (coarsely, _) = check_within(&program, 3, 12);
        prop_assert!(coarsely <= checked && checked <= written);
    }

    /// In one stream and one thread nothing races, except pieces of one op with each other.
    #[test]
    fn one_stream_is_known_to_the_last_byte(
        ends in proptest::collection::vec((any_address(), any_address(), 0..3_u64), 0..15)
    ) {
        let mut program = begin();
        for (dst, src, hash) in ends {
            let point = program.copy(0, dst, src, 15);
            program.pass(point, hash, hash);
        }
        let (checked, written) = check(&program, 3);
        prop_assert_eq!(checked, written);
    }
}

/// Many racing ops and long columns: predicted in a moment, and less of it.
#[test]
fn a_prediction_is_bounded() {
    let facts = ferry_watch::testing::busy::facts(7, 400);
    let recording = read(&file_of(&facts)).expect("a recording").recording;
    let limits = ReplayLimits::of(&recording);
    let parts = |flow: &Flow| flow.expected.iter().map(Vec::len).sum::<usize>();
    let flow = Flow::predict_within(&recording, &limits, 20_000);
    assert!(parts(&flow) > 0 && parts(&flow) < 100_000, "{}", parts(&flow));
    assert!(flow.checked() < flow.written);
}

#[test]
fn registered_memory_is_pageable_again_when_it_is_unregistered() {
    let mut program = begin();
    let block = ferry_watch::fact::Block {
        base: 0x9000,
        at: 0x9000,
        len: 64,
        padding: 0,
        device: None,
        origin: Origin::Registered,
    };
    program.write(0, Fact::Known { time: 1_500, site: Default::default(), block });
    program.copy(0, DEVICE, 0x9000, 8);
    program.write(0, Fact::Forgotten { time: 3_000, site: Default::default(), base: 0x9000 });
    program.copy(0, DEVICE, 0x9000, 8);
    let recording = program.recording();
    let origins: Vec<_> = recording
        .ops
        .iter()
        .map(|op| recording.allocations[op.work.rects()[0].src.allocation as usize].origin)
        .collect();
    assert_eq!(origins, [Some(Origin::Registered), None]);
}
