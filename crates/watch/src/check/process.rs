//! The facts of one process, and what is wrong in them.
//!
//! Facts go to the parts that know about order, races, memory, unwritten bytes and captures; what these
//! find becomes a [`RawFinding`], with call sites in place of names.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use super::accesses::{self, ByteAccess, Resolution};
use super::captures::{self, Captures};
use super::finding::{FindingId, FindingSeverity};
use super::frees::{FreedMemory, LateFrees};
use super::memory::OwnedMemory;
use super::messages::{self, RaceSide};
use super::names::CheckNames;
use super::op::{CheckedOp, OpKind};
use super::order::{OpOrder, OrderedOp};
use super::races::{OpRaces, Race};
use super::raw::{Mended, RawFinding, RawNote, RawPlace, RawWork};
use super::recent::RecentOps;
use super::shared::SharedAccess;
use super::tasks::{CapturedTasks, CapturingCall};
use super::uses::{FailedCall, FreedUses};
use super::written::WrittenBytes;
use crate::fact::{
    self as host, CallSite, Fact, FactSource, HostAccess, Nanos, Origin, Piece, Point, StreamPurpose,
    SubmittedOp, TouchedBytes, Work,
};

/// Ops of one stream that are kept although nobody joined them.
const KEPT_IN_FLIGHT: usize = 1 << 20;
/// `ACL_ERROR_RT_PARAM_INVALID`: how calls answer that are given an unknown address.
const INVALID_PARAMETER: i32 = 107_000;

/// Accesses that are kept until their ops are told.
const KEPT_EARLY: usize = 1 << 12;
/// Failures that are kept until their ops are told.
const KEPT_FAILURES: usize = 1 << 8;
/// Ops that only another process has waited for, and that are kept.
const KEPT_ELSEWHERE: usize = 1 << 12;

/// A call that has submitted an op.
#[derive(Clone, Copy)]
struct OpCall {
    site: CallSite,
    /// Whether the op is a copy that reads its addresses when it runs.
    is_late_bound: bool,
}

/// The work of an op has failed.
struct FailedWork {
    time: Nanos,
    point: Point,
    message: String,
}

/// Memory that processes share, in the engine's addresses.
struct LentRange {
    start: u64,
    end: u64,
    key: u64,
}

/// How a process has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessEnd {
    /// By itself: it has returned from main, exited or become another program.
    Itself,
    /// By a signal: it has aborted, crashed or was killed.
    Killed,
    /// Nobody knows, or whoever started it wanted it to end: what it left undone is no mistake of its own.
    Unknown,
}

/// What is known of one process.
#[derive(Default)]
pub struct ProcessCheck {
    order: OpOrder,
    races: OpRaces,
    memory: OwnedMemory,
    written: WrittenBytes,
    captures: Captures,
    late_frees: LateFrees,
    /// The streams of synchronous calls.
    synchronous: HashSet<u32>,
    /// Ops that touch memory and that the host has not joined, by stream and ticket.
    in_flight: HashMap<u32, BTreeMap<u64, Rc<CheckedOp>>>,
    /// Ops that only another process has waited for, in a process that shares memory.
    joined_elsewhere: Vec<Rc<CheckedOp>>,
    captured: CapturedTasks,
    /// Accesses of the CPU to ops whose submission was not told yet.
    early_accesses: Vec<HostAccess>,
    /// Bytes that the CPU touched, of ops whose submission was not told yet.
    early_touches: Vec<TouchedBytes>,
    /// The ops that were told last, by their points: an access or a failure may be told after a join.
    recent: RecentOps<Rc<CheckedOp>>,
    /// The calls that submitted ops last.
    recent_calls: RecentOps<OpCall>,
    /// Failures of ops whose submission was not told yet.
    early_failures: Vec<FailedWork>,
    freed_uses: FreedUses,
    /// Memory that is shared with other processes.
    lent: Vec<LentRange>,
    /// What was done with it since somebody asked.
    pub shared: Vec<SharedAccess>,
    ready: Vec<OrderedOp>,
    is_host_backend: bool,
    /// The thread that has accessed an address of a device, and made no call since.
    touches_device: Option<u32>,
    /// Whether the process said that it ends.
    pub has_ended: bool,
}

impl ProcessCheck {
    /// How much is kept.
    #[cfg(test)]
    pub fn kept(&self) -> usize {
        let noted = [
            self.in_flight.values().map(BTreeMap::len).sum(),
            self.in_flight.len(),
            self.synchronous.len(),
            self.captured.len(),
            self.early_accesses.len() + self.early_touches.len(),
            self.recent.len() + self.recent_calls.len(),
            self.freed_uses.len() + self.early_failures.len(),
            self.lent.len() + self.shared.len(),
            self.late_frees.len() + self.joined_elsewhere.len(),
        ];
        let parts = [self.order.kept(), self.races.len(), self.memory.len(), self.written.len()];
        noted.iter().chain(&parts).sum()
    }

    /// One fact more, in the order of calls; `resolved` is what a late-bound copy has copied. What is wrong
    /// goes to `found`. What a join is for comes behind these findings, by [`joined`](Self::joined).
    pub fn take(
        &mut self,
        names: &CheckNames,
        (source, fact): (FactSource, &Fact),
        resolved: Resolution,
        found: &mut Vec<RawFinding>,
    ) {
        // It has survived that, by a handler of its own.
        self.touches_device.take_if(|thread| *thread == source.thread);
        let mut ready = std::mem::take(&mut self.ready);
        self.order.pass_time(fact.time().unwrap_or_default());
        match fact {
            Fact::Submitted(op) => {
                let is_late_bound = matches!(op.work, Work::Through { .. }) && op.task.is_none();
                self.recent_calls.insert(op.point, OpCall { site: op.site, is_late_bound });
                // A thread of the library may have told of its end before.
                let early = self.early_failures.extract_if(.., |failed| failed.point == op.point);
                early
                    .collect::<Vec<_>>()
                    .into_iter()
                    .for_each(|failed| self.work_failed(names, failed, found));
                self.order.submit(op.clone(), resolved, &mut ready);
            }
            Fact::Bound { promise, point, .. } => self.order.bind(*promise, *point, &mut ready),
            Fact::Passed(passed) => {
                self.order.pass(passed.point, &mut ready);
            }
            Fact::Joined(joined) => self.order.reach(joined.point, &mut ready),
            _ => self.take_other(names, source, fact, found),
        }
        ready.drain(..).for_each(|op| self.run(names, op, found));
        self.ready = ready;
    }

    /// The host has joined a point: all that came out for that is in the report.
    pub fn joined(&mut self, names: &CheckNames, joined: &host::Joined, found: &mut Vec<RawFinding>) {
        self.aborted(names, joined, found);
        self.join(joined.point, joined.how);
    }

    /// A finding is in the report: what it is about counts as mended. Or it is left out, and others of the
    /// same mistake stand for themselves.
    pub fn told(&mut self, raw: &RawFinding, is_left_out: bool) {
        match &raw.mended {
            Mended::Order(earlier, later) if !is_left_out => {
                self.order.mend(earlier.point, &earlier.clock, later.point.stream);
                [earlier, later].iter().for_each(|op| op.is_raced.set(true));
            }
            Mended::Process(earlier) if !is_left_out => earlier.is_raced.set(true),
            Mended::Bytes(unwritten) if is_left_out => self.written.forget(unwritten),
            _ => {}
        }
        if is_left_out {
            raw.speaks_for.iter().for_each(|op| op.is_reported.set(false));
        }
    }

    fn take_other(
        &mut self,
        names: &CheckNames,
        source: FactSource,
        fact: &Fact,
        found: &mut Vec<RawFinding>,
    ) {
        match fact {
            Fact::Started(started) => self.is_host_backend = started.backend == "host",
            Fact::StreamMade(made) if made.purpose == StreamPurpose::Synchronous => {
                self.synchronous.insert(made.stream);
            }
            Fact::StreamGone { stream, .. } => {
                self.synchronous.remove(stream);
                self.order.forget(*stream);
            }
            Fact::Known { site, block, .. } => {
                self.memory.know(*block, *site);
                // The host backend has bytes elsewhere than the program's addresses, unless host and device
                // memory are one.
                let is_reachable = self.is_host_backend && block.base == block.at;
                self.written.know(block, is_reachable);
                if block.origin == Origin::Allocated {
                    self.races.forget(block.at, block.at + block.len);
                }
            }
            Fact::Forgotten { time, site, base } => self.freed(names, (*time, *site), *base, found),
            Fact::PhysicalNamed { site, at, len, .. } => self.memory.name_physical((*at, *len), *site),
            Fact::PhysicalFreed { at, .. } => self.memory.free_physical(*at),
            Fact::Lent { base, key, .. } => {
                if let Some(known) = names.blocks.named(names.process, *base) {
                    let (start, end) = (known.block.at, known.block.at + known.block.len);
                    self.written.write(start, end);
                    self.lent.retain(|lent| (lent.start, lent.key) != (start, *key));
                    self.lent.push(LentRange { start, end, key: *key });
                }
            }
            Fact::JoinedOutside { .. } => self.order.join_outside(),
            Fact::Failure { time, site, code, message } => {
                self.failed(names, source, (*time, *site, *code), message, found);
            }
            Fact::WorkFailed { time, point, message } => {
                let failed = FailedWork { time: *time, point: *point, message: message.clone() };
                self.work_failed(names, failed, found);
            }
            Fact::CaptureBegun { site, graph, .. } => self.captures.begin(*graph, source.thread, *site),
            Fact::Call(_) => self.captures.returned(source.thread),
            Fact::CaptureEnded { graph, is_graph, .. } => {
                self.captures.end(*graph, source.thread);
                if !is_graph {
                    self.captured.forget(*graph);
                }
            }
            Fact::Captured(captured) => self.captured.add(captured),
            Fact::Access(access) => self.accessed(names, access, found),
            Fact::Touched(touched) => self.touched(names, touched, found),
            Fact::DevicePointer { time, thread, address, is_write, stack } => {
                let place = RawPlace::Program { thread: *thread, stack: *stack };
                self.touches_device = Some(*thread);
                found.push(messages::device_pointer(place, *time, *address, *is_write));
            }
            _ => {}
        }
    }

    /// The process is over: what waited until more is known of its order is judged without that.
    pub fn end(&mut self, names: &CheckNames, found: &mut Vec<RawFinding>) {
        let mut ready = Vec::new();
        self.order.finish(&mut ready);
        ready.into_iter().for_each(|op| self.run(names, op, found));
    }

    /// All that it did is judged. What it left undone is wrong, unless nobody knows how it ended.
    pub fn finish(&mut self, names: &CheckNames, end: ProcessEnd, found: &mut Vec<RawFinding>) {
        std::mem::take(&mut self.early_accesses)
            .iter()
            .for_each(|access| found.push(messages::unknown_work(access)));
        found.extend(
            std::mem::take(&mut self.early_touches).iter().map(|touched| messages::host_touch(touched, None)),
        );
        // A program that dies of a device address has its finding; what it was about to join is not lost by
        // another mistake.
        let is_explained = end == ProcessEnd::Killed && self.touches_device.is_some();
        if end == ProcessEnd::Unknown || is_explained {
            return;
        }
        let streams: BTreeMap<_, _> = self.in_flight.iter().collect();
        for ops in streams.values() {
            let is_lost = |op: &&Rc<CheckedOp>| {
                is_loss(names, op) && !(end == ProcessEnd::Killed && op.has_finding.get())
            };
            let lost: Vec<_> = ops.values().filter(is_lost).collect();
            if let Some(last) = lost.last() {
                let how = if end == ProcessEnd::Killed {
                    "A signal ended the process"
                } else {
                    "The process ended"
                };
                found.push(self.lost(last, lost.len(), how));
            }
        }
        if names.options.leaks && end == ProcessEnd::Itself {
            found.extend(self.memory.leaks().iter().map(messages::leak));
        }
    }

    /// An op whose order is known does its work.
    fn run(&mut self, names: &CheckNames, ordered: OrderedOp, found: &mut Vec<RawFinding>) {
        let OrderedOp { op, clock, view, resolved } = ordered;
        let SubmittedOp { point, time, site, work, task, .. } = op;
        let Some(kind) = OpKind::of(&work) else { return };
        let (is_told, resolved) = match resolved {
            Resolution::Copied(pieces) => (true, pieces),
            Resolution::Dropped => (false, Vec::new()),
            Resolution::Unknown => {
                // Whatever it is going to write.
                self.written.give_up();
                (false, Vec::new())
            }
        };
        let pieces = accesses::pieces(&work, resolved);
        let bytes = Some(work.bytes()).filter(|bytes| *bytes > 0);
        let bytes = bytes.or(is_told.then(|| pieces.iter().map(|piece| piece.len).sum()));
        let is_joined = self.order.joined().has(point);
        let joined_by = Cell::new(self.order.joined_by(point));
        let op = Rc::new(CheckedOp {
            point,
            time,
            site,
            task,
            kind,
            bytes,
            clock,
            view,
            joined_by,
            is_joined_elsewhere: Cell::default(),
            is_reported: Cell::default(),
            is_raced: Cell::default(),
            has_finding: Cell::default(),
        });
        self.lint(names, &op, found);
        if let Some(raw) = self.batch_race(names, &op, &pieces) {
            op.has_finding.set(true);
            found.push(raw);
        }
        if let Some(read) = self.written.run(&work, &pieces) {
            op.has_finding.set(true);
            let mut raw = messages::uninitialised(names, &op, &read);
            raw.mended = Mended::Bytes(read.all);
            found.push(self.noted(raw, &op, (read.start, read.end)));
        }
        let all = accesses::of(&work, &pieces);
        // Waits for values are looked after by a thread of the library, which reads what others write: that
        // is what they are for.
        let is_by_library = names.is_by_library(op.site) && op.task.is_none();
        let mut races = if is_by_library { Vec::new() } else { self.races.add(&op, &all) };
        // The newest first: what waits for that comes behind what it follows as well.
        races.sort_by_key(|race| Reverse(race.earlier.time));
        races.iter().for_each(|race| self.raced(names, race, &op, found));
        self.share(&op, &all);
        if !is_joined {
            let freed = self.late_frees.found(&op, &all);
            found.extend(freed.map(|(raw, bytes)| self.noted(raw, &op, bytes)));
            self.keep(op.clone());
        }
        // An access may be told after the join that came behind it, and both before the op.
        self.recent.insert(point, op);
        let early: Vec<HostAccess> =
            self.early_accesses.extract_if(.., |access| access.point == point).collect();
        early.iter().for_each(|access| self.accessed(names, access, found));
        let early: Vec<TouchedBytes> =
            self.early_touches.extract_if(.., |touched| touched.point == point).collect();
        early.iter().for_each(|touched| self.touched(names, touched, found));
    }

    /// Two pieces of a batch touch the same bytes.
    fn batch_race(&self, names: &CheckNames, op: &Rc<CheckedOp>, pieces: &[Piece]) -> Option<RawFinding> {
        // A copy over several mapped pieces is cut into some, too, and moves bytes as one.
        if pieces.len() < 2 || op.task.is_none() && !names.is_batch(op.site) {
            return None;
        }
        let clash = accesses::clash(pieces)?;
        let captured = self.captured_at(op, (clash.start, clash.end));
        let call = captured.map_or(op.site, |captured| captured.site);
        names.is_batch(call).then(|| messages::batch_race(names, op, clash, captured))
    }

    /// The call that captured what an op does to these bytes, if it is a task of a graph.
    fn captured_at(&self, op: &CheckedOp, bytes: (u64, u64)) -> Option<CapturingCall> {
        self.captured.find(op.task?, bytes)
    }

    /// A finding that also says where its op was captured, if it is a task of a graph.
    fn noted(&self, mut raw: RawFinding, op: &CheckedOp, bytes: (u64, u64)) -> RawFinding {
        let captured = self.captured_at(op, bytes);
        raw.notes.extend(captured.map(|call| RawNote::captured("It", call.site)));
        raw
    }

    /// The same for a byte as the program calls it.
    fn noted_at(&self, names: &CheckNames, raw: RawFinding, op: &CheckedOp, address: u64) -> RawFinding {
        if op.task.is_none() {
            return raw;
        }
        let known = names.blocks.named(names.process, address).map(|known| known.block);
        let at = known.map_or(address, |block| address.wrapping_sub(block.base).wrapping_add(block.at));
        self.noted(raw, op, (at, at.saturating_add(1)))
    }

    fn lost(&self, last: &Rc<CheckedOp>, count: usize, how: &str) -> RawFinding {
        self.noted(messages::lost(last, count, how), last, (0, u64::MAX))
    }

    /// Notes what an op does with memory that processes share.
    fn share(&mut self, op: &Rc<CheckedOp>, all: &[ByteAccess]) {
        for LentRange { start, end, key } in &self.lent {
            for access in all.iter().filter(|access| access.start < *end && access.end > *start) {
                let (from, to) = (access.start.max(*start), access.end.min(*end));
                self.shared.push(SharedAccess {
                    key: *key,
                    range: (from - start, to - start),
                    at: from,
                    is_write: access.is_write,
                    captured: self.captured_at(op, (from, to)),
                    op: op.clone(),
                });
            }
        }
    }

    fn keep(&mut self, op: Rc<CheckedOp>) {
        let ops = self.in_flight.entry(op.point.stream).or_default();
        ops.insert(op.point.ticket, op);
        // Who never joins anything is told of his newest ops.
        if ops.len() > KEPT_IN_FLIGHT
            && let Some((_, oldest)) = ops.pop_first()
        {
            oldest.joined_by.set(Some(self.order.view().join));
        }
    }

    /// The host joins a point, or another process has waited for it.
    fn join(&mut self, point: Point, how: host::Join) {
        let is_elsewhere = how == host::Join::Elsewhere;
        if !is_elsewhere && !self.joined_elsewhere.is_empty() {
            self.join_here(point);
        }
        let is_abort = how == host::Join::Abort;
        let (join, raised) = if is_abort { self.order.abort(point) } else { self.order.join(point) };
        for Point { stream, ticket } in raised {
            let Some(ops) = self.in_flight.get_mut(&stream) else { continue };
            let left = ops.split_off(&(ticket + 1));
            let joined = std::mem::replace(ops, left);
            joined.values().for_each(|op| op.joined_by.set(Some(join)));
            if is_elsewhere && !self.lent.is_empty() {
                joined.values().for_each(|op| op.is_joined_elsewhere.set(true));
                self.joined_elsewhere.extend(joined.into_values());
            }
            if ops.is_empty() {
                self.in_flight.remove(&stream);
            }
        }
        let too_many = self.joined_elsewhere.len().saturating_sub(KEPT_ELSEWHERE);
        self.joined_elsewhere.drain(..too_many);
    }

    /// What another process has waited for is joined by this one as well.
    fn join_here(&mut self, point: Point) {
        let before = self.order.before(point);
        self.joined_elsewhere.retain(|op| {
            let Point { stream, ticket } = op.point;
            let reached = if stream == point.stream { Some(&point.ticket) } else { before.get(&stream) };
            let is_joined = reached.is_some_and(|reached| ticket <= *reached);
            op.is_joined_elsewhere.set(!is_joined);
            !is_joined
        });
    }

    fn raced(&self, names: &CheckNames, race: &Race, op: &Rc<CheckedOp>, found: &mut Vec<RawFinding>) {
        let earlier = &race.earlier;
        let side = |op, is_write| RaceSide { op, is_write, captured: self.captured_at(op, race.bytes) };
        let (one, other) = (side(earlier, race.is_write.0), side(op, race.is_write.1));
        let (first, second) = if one.is_before(&other) { (one, other) } else { (other, one) };
        let mut raw = messages::stream_race(names, &first, &second, race.bytes);
        // From here on the two count as ordered: one missing wait is one finding.
        raw.mended = Mended::Order(earlier.clone(), op.clone());
        found.push(raw);
    }

    fn accessed(&mut self, names: &CheckNames, access: &HostAccess, found: &mut Vec<RawFinding>) {
        match self.op_at(access.point) {
            Some(op) => {
                let raw = messages::host_access(access, &op);
                found.push(self.noted_at(names, raw, &op, access.address));
            }
            None if self.early_accesses.len() < KEPT_EARLY => self.early_accesses.push(*access),
            None => found.push(messages::unknown_work(access)),
        }
    }

    fn touched(&mut self, names: &CheckNames, touched: &TouchedBytes, found: &mut Vec<RawFinding>) {
        match self.op_at(touched.point) {
            Some(op) => {
                let raw = messages::host_touch(touched, Some(&op));
                found.push(self.noted_at(names, raw, &op, touched.address));
            }
            None if self.early_touches.len() < KEPT_EARLY => self.early_touches.push(*touched),
            None => found.push(messages::host_touch(touched, None)),
        }
    }

    /// Memory was freed: is a copy in flight on it?
    fn freed(
        &mut self,
        names: &CheckNames,
        (time, site): (Nanos, CallSite),
        base: u64,
        found: &mut Vec<RawFinding>,
    ) {
        let Some(owned) = self.memory.free(base, site) else { return };
        let memory = base..base.saturating_add(owned.block.len);
        found.extend(self.freed_uses.freed((names, &self.memory), &memory, &(site.begin..=time)));
        let (at, len) = (owned.block.at, owned.block.len);
        self.lent.retain(|lent| lent.start != at);
        if owned.block.origin == Origin::Allocated {
            self.written.write(at, at + len);
        }
        // No function allocates and frees for the program: what it frees it has allocated for its own work.
        // Without a call the memory is freed by its Rust owner, which keeps it until no op uses it.
        if site.function == owned.site.function || site.function == 0 {
            return;
        }
        let freed = FreedMemory { time, site, owned };
        if let Some(raw) = freed.found(self.races.in_flight(at, at + len)) {
            found.push(match raw.speaks_for.last().cloned() {
                Some(last) => self.noted(raw, &last, (at, at + len)),
                None => raw,
            });
        }
        self.late_frees.add(freed, self.order.is_all_known());
    }

    fn work_failed(&mut self, names: &CheckNames, failed: FailedWork, found: &mut Vec<RawFinding>) {
        let Some(OpCall { site, is_late_bound }) = self.recent_calls.get(failed.point).copied() else {
            self.early_failures.push(failed);
            let too_many = self.early_failures.len().saturating_sub(KEPT_FAILURES);
            self.early_failures.drain(..too_many);
            return;
        };
        let call = FailedCall { time: failed.time, site, is_late_bound };
        found.extend(self.freed_uses.work_failed((names, &self.memory), call, failed.message));
    }

    /// A call ends the work of a stream in place of waiting for it: what nobody had joined is lost.
    fn aborted(&self, names: &CheckNames, joined: &host::Joined, found: &mut Vec<RawFinding>) {
        let name = names.function(joined.site);
        let ops = self.in_flight.get(&joined.point.stream).filter(|_| joined.how == host::Join::Abort);
        let Some(ops) = ops else { return };
        let lost = ops.range(..=joined.point.ticket).map(|(_, op)| op).filter(|op| is_loss(names, op));
        let lost: Vec<&Rc<CheckedOp>> = lost.collect();
        if let Some(last) = lost.last() {
            let how = if name.is_empty() { "The process ended".into() } else { format!("{name} was called") };
            let mut raw = self.lost(last, lost.len(), &how);
            if !name.is_empty() {
                raw.notes.push(RawNote { text: format!("{name} is"), site: joined.site, process: None });
            }
            found.push(raw);
            lost.iter().for_each(|op| op.is_reported.set(true));
        }
    }

    fn op_at(&self, point: Point) -> Option<Rc<CheckedOp>> {
        let in_flight = self.in_flight.get(&point.stream).and_then(|ops| ops.get(&point.ticket));
        in_flight.or_else(|| self.recent.get(point)).cloned()
    }

    fn failed(
        &mut self,
        names: &CheckNames,
        source: FactSource,
        (time, site, code): (Nanos, CallSite, i32),
        message: &str,
        found: &mut Vec<RawFinding>,
    ) {
        if let Some(begun) = self.captures.broken_by(source.thread, code) {
            let access = RawPlace::Call(site);
            let mut raw = RawFinding::new(FindingId::Capture, time, access, message.to_owned());
            raw.work = Some(RawWork { site: begun, op: None, process: None });
            raw.remedy = captures::remedy(code);
            return found.push(raw);
        }
        if code == INVALID_PARAMETER {
            let call = FailedCall { time, site, is_late_bound: false };
            found.extend(self.freed_uses.call_failed((names, &self.memory), call, message));
        }
    }

    /// Calls that would break a capture in another mode.
    fn lint(&self, names: &CheckNames, op: &CheckedOp, found: &mut Vec<RawFinding>) {
        if !names.options.capture_lint || op.task.is_some() {
            return;
        }
        let is_synchronous = self.is_synchronous(op);
        let is_pageable = op.kind.route().is_some_and(|route| route.is_pageable);
        let Some(begun) = self.captures.active().filter(|_| is_synchronous || is_pageable) else { return };
        let what = if is_synchronous { "A synchronous" } else { "An asynchronous" };
        let why = if is_synchronous { "" } else { " on pageable memory" };
        let message = format!(
            "{what} {}{why} was made while thread {} captures: in the global mode it breaks that capture.",
            op.kind, begun.thread
        );
        let mut raw = RawFinding::new(FindingId::Capture, op.time, RawPlace::Call(op.site), message);
        raw.severity = FindingSeverity::Warning;
        raw.remedy = captures::LINT_REMEDY;
        raw.op = Some(op.point);
        raw.work = Some(RawWork { site: begun.site, op: None, process: None });
        found.push(raw);
    }

    fn is_synchronous(&self, op: &CheckedOp) -> bool {
        self.synchronous.contains(&op.point.stream)
    }
}

/// Whether something is lost with the op that nobody was told of, and that the program has asked for.
fn is_loss(names: &CheckNames, op: &CheckedOp) -> bool {
    !op.is_reported.get() && !op.is_raced.get() && op.bytes != Some(0) && !names.is_by_library(op.site)
}
