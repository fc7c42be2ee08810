//! What facts say of ops: their work, what they wait for, and how far they came.

use crate::blocks::BytePlace;
use crate::fact::{Awaited, FactSource, Nanos, Outcome, Passed, Piece, Point, SubmittedOp, Work};
use crate::trace::model::{OpState, TracedOp, TracedPlace, TracedPoint, TracedWait, WorkKind};

use super::{CLOCK_SLACK, Tracer, push};

impl Tracer {
    /// The entry of an op, made if there is none and there is room.
    fn op(&mut self, process: u32, point: Point) -> Option<u32> {
        let stream = self.stream(process, point.stream)?;
        let key = (stream, point.ticket);
        if let Some(&op) = self.ops.get(&key) {
            return Some(op);
        }
        if self.model.ops.len() >= self.limits.ops {
            return None;
        }
        let entry = TracedOp { stream, ticket: point.ticket, together: 1, ..TracedOp::default() };
        let op = push(&mut self.model.ops, entry);
        self.ops.insert(key, op);
        Some(op)
    }

    pub(super) fn submitted(&mut self, source: FactSource, submitted: &SubmittedOp) {
        let process = self.process(source.process);
        let Some(op) = self.op(process, submitted.point) else {
            self.model.left_out.ops += 1;
            self.cut.get_or_insert(submitted.time);
            return;
        };
        let call = self.call_of(source, &submitted.site, submitted.time);
        let (blocks, number) = (&self.blocks, source.process);
        let kept = self.model.blocks.len();
        let entry = &mut self.model.ops[op as usize];
        entry.submitted = Some(submitted.time);
        entry.call = call;
        entry.task = submitted.task;
        let place = |address| place(blocks.find(number, address, submitted.time), address, kept);
        describe(entry, &submitted.work, &place);
        if entry.kind == WorkKind::Wait && submitted.awaits.is_empty() && submitted.task.is_none() {
            entry.kind = WorkKind::Mark;
        }
        for awaited in &submitted.awaits {
            self.wait(process, op, *awaited);
        }
    }

    fn wait(&mut self, process: u32, op: u32, awaited: Awaited) {
        if !self.has_room(self.model.waits.len()) {
            return;
        }
        let point = match awaited {
            Awaited::Point(point) => self.stream(process, point.stream).map(|stream| (stream, point.ticket)),
            Awaited::Later(number) => {
                let promise = self.promises.entry((process, number)).or_default();
                if promise.bound.is_none() {
                    promise.waits.push(self.model.waits.len() as u32);
                }
                promise.bound
            }
            Awaited::Outside => None,
        };
        let awaited = point.map(|(stream, ticket)| self.point(stream, ticket));
        self.model.waits.push(TracedWait { op, awaited });
    }

    pub(super) fn bound(&mut self, process: u32, number: u64, point: Option<Point>) {
        let point = point.and_then(|it| Some((self.stream(process, it.stream)?, it.ticket)));
        if !self.promises.contains_key(&(process, number)) && self.cut.is_some() {
            return;
        }
        let promise = self.promises.entry((process, number)).or_default();
        promise.bound = point;
        let waits = std::mem::take(&mut promise.waits);
        let awaited = point.map(|(stream, ticket)| self.point(stream, ticket));
        for wait in waits {
            self.model.waits[wait as usize].awaited = awaited;
        }
    }

    /// A point of the trace. Its op may be unknown as yet: [`Tracer::finish`] looks again.
    pub(super) fn point(&self, stream: u32, ticket: u64) -> TracedPoint {
        TracedPoint { stream, ticket, op: self.ops.get(&(stream, ticket)).copied() }
    }

    pub(super) fn begun(&mut self, process: u32, time: Nanos, point: Point) {
        if let Some(op) = self.op(process, point) {
            let entry = &mut self.model.ops[op as usize];
            if entry.state == OpState::Queued {
                entry.state = OpState::Running;
            }
            entry.begin.get_or_insert(time);
        }
    }

    pub(super) fn passed(&mut self, source: FactSource, passed: &Passed) {
        let process = self.process(source.process);
        let Some(op) = self.op(process, passed.point) else { return };
        let worker = if passed.engine == 0 { self.thread(source) } else { None };
        let entry = &mut self.model.ops[op as usize];
        // 0 if its begin was told before, perhaps by another thread, or if it never began.
        entry.begin = Some(passed.begin).filter(|&begin| begin > 0).or(entry.begin);
        entry.end = Some(passed.end);
        entry.state = match passed.outcome {
            Outcome::Done => OpState::Done,
            Outcome::Failed => OpState::Failed,
            Outcome::Dropped => OpState::Dropped,
        };
        entry.together = passed.together.max(1);
        entry.engine = passed.engine;
        entry.worker = worker;
    }

    /// Puts the times of ops in order. An op whose begin is not known begins where it ends. One that seems to
    /// begin before its stream has passed the op before it does so by the slack of the clock. And one whose
    /// submission was told when it had begun already, by a thread that was slower than the worker, was
    /// submitted by then.
    pub(super) fn order_times(&mut self) {
        let ops = &mut self.model.ops;
        let mut order: Vec<usize> = (0..ops.len()).collect();
        order.sort_unstable_by_key(|&at| (ops[at].stream, ops[at].ticket));
        // The stream of the op before, its times as they were told, and as they are.
        let mut before = (u32::MAX, (None, None), (None, None));
        for at in order {
            let op = &mut ops[at];
            let told = (op.begin.or(op.end), op.end);
            let is_behind = before.0 == op.stream;
            (op.begin, op.end) = match (told, before.2) {
                _ if is_behind && op.together > 1 && told == before.1 => before.2,
                ((Some(begin), end), (_, Some(last)))
                    if is_behind && begin < last && last - begin <= CLOCK_SLACK =>
                {
                    (Some(last), end.map(|end| end.max(last)))
                }
                ((begin, end), _) => (begin, end.max(begin.filter(|_| end.is_some()))),
            };
            op.submitted = op.submitted.map(|time| time.min(op.begin.unwrap_or(time)));
            before = (op.stream, told, (op.begin, op.end));
        }
    }

    pub(super) fn resolved(&mut self, source: FactSource, time: Nanos, point: Point, piece: &Piece) {
        let process = self.process(source.process);
        let Some(stream) = self.stream(process, point.stream) else { return };
        let Some(&op) = self.ops.get(&(stream, point.ticket)) else { return };
        let kept = self.model.blocks.len();
        let place = |address| place(self.blocks.find(source.process, address, time), address, kept);
        let (dst, src) = (place(piece.dst), place(piece.src));
        let entry = &mut self.model.ops[op as usize];
        (entry.dst, entry.src, entry.bytes) = (Some(dst), Some(src), piece.len);
    }
}

/// An address of the engine's as the program's, with the index of its block if that is among the `kept`.
fn place(found: Option<BytePlace>, address: u64, kept: usize) -> TracedPlace {
    let index = found.and_then(|found| u32::try_from(found.block.number.checked_sub(1)?).ok());
    let block = index.filter(|&index| (index as usize) < kept);
    TracedPlace { address: found.map_or(address, |found| found.address()), block }
}

/// What an op does, from the work in the fact.
fn describe(op: &mut TracedOp, work: &Work, place: &dyn Fn(u64) -> TracedPlace) {
    let at = |address| Some(place(address));
    op.bytes = op.bytes.max(work.bytes());
    op.route = work.route();
    op.pieces = 1;
    (op.kind, op.dst, op.src) = match work {
        Work::Nothing => (WorkKind::Wait, None, None),
        Work::Mark => (WorkKind::Mark, None, None),
        Work::Function => (WorkKind::Function, None, None),
        Work::Linear { piece, .. } => (WorkKind::Copy, at(piece.dst), at(piece.src)),
        Work::Rows { rows, .. } => {
            op.rectangle = Some(Box::new([rows.width, rows.height, rows.dst_pitch, rows.src_pitch]));
            (WorkKind::Rectangle, at(rows.dst), at(rows.src))
        }
        Work::Batch { pieces, count, .. } => {
            op.pieces = *count;
            let first = pieces.first();
            let (dst, src) = (first.map(|it| it.dst), first.map(|it| it.src));
            (WorkKind::Batch, dst.and_then(at), src.and_then(at))
        }
        Work::Through { .. } => (WorkKind::LateBound, op.dst, op.src),
        Work::Fill { dst, .. } => (WorkKind::Fill, at(*dst), None),
        Work::Reduce { piece, .. } => (WorkKind::Reduce, at(piece.dst), at(piece.src)),
    };
}
