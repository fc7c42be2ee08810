//! The facts of one process, and what is wrong in them.
//!
//! Facts go to the parts that know about order, races, memory, unwritten bytes and captures; what these
//! find becomes a [`RawFinding`], with call sites in place of names.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::rc::Rc;

use super::accesses::{self, ByteAccess, Clash};
use super::captures::{self, Captures};
use super::finding::{FindingId, FindingSeverity};
use super::frees::{FreedMemory, LateFrees};
use super::memory::{ForgottenBlock, OwnedMemory};
use super::op::{CheckedOp, OpKind};
use super::order::{OpOrder, OrderedOp};
use super::races::{OpRaces, Race};
use super::raw::{RawFinding, RawPlace, RawWork};
use super::recent::RecentOps;
use super::shared::SharedAccess;
use super::written::{UnwrittenRead, WrittenBytes};
use super::{CheckNames, ProcessEnd};
use crate::fact::{
    self as host, CallSite, Fact, FactSource, HostAccess, Nanos, Origin, Outcome, Passed, Piece, Point,
    StreamPurpose, SubmittedOp, TaskId, TouchedBytes, Work,
};

/// Ops of one stream that are kept although nobody joined them.
const KEPT_IN_FLIGHT: usize = 1 << 20;
/// `ACL_ERROR_RT_PARAM_INVALID`: how calls answer that are given an unknown address.
const INVALID_PARAMETER: i32 = 107_000;

/// Accesses that are kept until their ops are told.
const KEPT_EARLY: usize = 1 << 12;
/// Tasks of graphs whose captures are kept.
const KEPT_TASKS: usize = 1 << 14;
/// Refused calls whose addresses are kept.
const KEPT_REFUSED: usize = 1 << 8;
/// Failed work that no synchronisation has told of.
const KEPT_FAILED_CALLS: usize = 1 << 10;
/// Ops that only another process has waited for, and that are kept.
const KEPT_ELSEWHERE: usize = 1 << 12;

/// A call that has submitted an op.
#[derive(Clone, Copy)]
struct OpCall {
    site: CallSite,
    /// Whether the op is a copy that reads its addresses when it runs.
    is_late_bound: bool,
}

/// Memory that processes share, in the engine's addresses.
struct LentRange {
    start: u64,
    end: u64,
    key: u64,
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
    /// The calls that captured the tasks of graphs; of many, those of the newest.
    captured: BTreeMap<TaskId, CallSite>,
    /// Accesses of the CPU to ops whose submission was not told yet.
    early_accesses: Vec<HostAccess>,
    /// Bytes that the CPU touched, of ops whose submission was not told yet.
    early_touches: Vec<TouchedBytes>,
    /// The ops that were told last, by their points: an access or a failure may be told after a join.
    recent: RecentOps<Rc<CheckedOp>>,
    /// The calls that submitted ops last.
    recent_calls: RecentOps<OpCall>,
    /// Calls whose ops have failed, and of which no synchronisation has told yet.
    failed_calls: VecDeque<OpCall>,
    /// Calls that were refused, and the addresses that they were about.
    refused: Vec<(Nanos, CallSite, u64)>,
    /// Memory that is shared with other processes.
    lent: Vec<LentRange>,
    /// What was done with it since somebody asked.
    pub shared: Vec<SharedAccess>,
    ready: Vec<OrderedOp>,
    is_host_backend: bool,
    /// Whether the CPU has accessed an address of a device.
    touches_device: bool,
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
            self.failed_calls.len() + self.refused.len(),
            self.lent.len() + self.shared.len(),
            self.late_frees.len() + self.joined_elsewhere.len(),
        ];
        let parts = [self.order.kept(), self.races.len(), self.memory.len(), self.written.len()];
        noted.iter().chain(&parts).sum()
    }

    /// One fact more, in the order of calls; `resolved` is what a late-bound copy copies. What is wrong goes
    /// to `found`.
    pub fn take(
        &mut self,
        names: &CheckNames,
        (source, fact): (FactSource, &Fact),
        resolved: Vec<Piece>,
        found: &mut Vec<RawFinding>,
    ) {
        let mut ready = std::mem::take(&mut self.ready);
        self.order.pass_time(fact.time().unwrap_or_default());
        match fact {
            Fact::Submitted(op) => {
                let is_late_bound = matches!(op.work, Work::Through { .. }) && op.task.is_none();
                self.recent_calls.insert(op.point, OpCall { site: op.site, is_late_bound });
                self.order.submit(op.clone(), resolved, &mut ready);
            }
            Fact::Bound { promise, point, .. } => self.order.bind(*promise, *point, &mut ready),
            Fact::Passed(passed) => {
                self.order.pass(passed.point, &mut ready);
                self.passed(passed);
            }
            Fact::Joined(joined) => self.order.reach(joined.point, &mut ready),
            _ => self.take_other(names, source, fact, found),
        }
        ready.drain(..).for_each(|op| self.run(names, op, found));
        self.ready = ready;
        if let Fact::Joined(joined) = fact {
            self.aborted(names, joined, found);
            self.join(joined.point, joined.how == host::Join::Elsewhere);
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
            Fact::CaptureBegun { site, graph, .. } => self.captures.begin(*graph, source.thread, *site),
            Fact::CaptureEnded { site, graph, is_graph, .. } => {
                self.captures.end(*graph, *site);
                if !is_graph {
                    self.captured.retain(|task, _| task.graph != *graph);
                }
            }
            Fact::Captured(task) => {
                self.captured.insert(task.task, task.site);
                // The tasks of one graph are kept however many there are.
                let is_other = |oldest: &TaskId| oldest.graph != task.task.graph;
                if self.captured.len() > KEPT_TASKS && self.captured.keys().next().is_some_and(is_other) {
                    self.captured.pop_first();
                }
            }
            Fact::Access(access) => self.accessed(access, found),
            Fact::Touched(touched) => self.touched(touched, found),
            Fact::DevicePointer { time, thread, address, is_write, stack } => {
                let place = RawPlace::Program { thread: *thread, stack: *stack };
                self.touches_device = true;
                found.push(device_pointer(place, *time, *address, *is_write));
            }
            _ => {}
        }
    }

    /// The process is over. What it left undone is wrong, unless nobody knows how it ended.
    pub fn finish(&mut self, names: &CheckNames, end: ProcessEnd, found: &mut Vec<RawFinding>) {
        let mut ready = Vec::new();
        self.order.finish(&mut ready);
        ready.into_iter().for_each(|op| self.run(names, op, found));
        std::mem::take(&mut self.early_accesses).iter().for_each(|access| found.push(unknown_work(access)));
        found.extend(std::mem::take(&mut self.early_touches).iter().map(|touched| host_touch(touched, None)));
        // A program that dies of a device address has its finding; what it was about to join is not lost by
        // another mistake.
        let is_explained = end == ProcessEnd::Killed && self.touches_device;
        if end == ProcessEnd::Unknown || is_explained {
            return;
        }
        for ops in self.in_flight.values() {
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
                found.push(lost_ops(last, lost.len(), how));
            }
        }
        if names.options.leaks && end == ProcessEnd::Itself {
            let leaks = self.memory.leaks();
            found.extend(leaks.iter().map(|leak| {
                let message = format!("{} bytes were allocated and never freed.", leak.block.asked());
                let mut raw = RawFinding::new(FindingId::Leak, 0, RawPlace::Call(leak.site), message);
                raw.bytes = Some((leak.block.base, leak.block.asked()));
                raw.allocation = Some(leak.site);
                raw
            }));
        }
    }

    /// An op whose order is known does its work.
    fn run(&mut self, names: &CheckNames, ordered: OrderedOp, found: &mut Vec<RawFinding>) {
        let OrderedOp { op, clock, view, resolved } = ordered;
        let SubmittedOp { point, time, site, work, task, .. } = op;
        let Some(kind) = OpKind::of(&work) else { return };
        let pieces = accesses::pieces(&work, resolved);
        let bytes = if work.bytes() > 0 { work.bytes() } else { pieces.iter().map(|piece| piece.len).sum() };
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
        // A copy over several mapped pieces is cut into some, too, and moves bytes as one.
        let call = self.capturing_call(op.task).unwrap_or(op.site);
        let name = names.symbols.function(names.process, call.function).unwrap_or_default();
        if name.contains("Batch")
            && let Some(clash) = accesses::clash(&pieces)
        {
            op.has_finding.set(true);
            found.push(batch_race(names, (&op, call), clash));
        }
        if let Some(read) = self.written.run(&work, &pieces) {
            op.has_finding.set(true);
            found.push(uninitialised(names, &op, &read));
        }
        let all = accesses::of(&work, &pieces);
        // Waits for values are looked after by a thread of the library, which reads what others write: that
        // is what they are for.
        let is_by_library = is_by_library(names, op.site) && op.task.is_none();
        let races = if is_by_library { Vec::new() } else { self.races.add(&op, &all) };
        races.iter().for_each(|race| self.raced(names, race, &op, found));
        self.share(&op, &all);
        if !is_joined {
            found.extend(self.late_frees.found(&op, &all));
            self.keep(op, found);
        }
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
                    op: op.clone(),
                });
            }
        }
    }

    fn keep(&mut self, op: Rc<CheckedOp>, found: &mut Vec<RawFinding>) {
        let point = op.point;
        self.recent.insert(point, op.clone());
        let ops = self.in_flight.entry(point.stream).or_default();
        ops.insert(point.ticket, op.clone());
        // Who never joins anything is told of his newest ops.
        if ops.len() > KEPT_IN_FLIGHT
            && let Some((_, oldest)) = ops.pop_first()
        {
            oldest.joined_by.set(Some(self.order.view().join));
        }
        let early: Vec<HostAccess> =
            self.early_accesses.extract_if(.., |access| access.point == point).collect();
        early.iter().for_each(|access| found.extend(host_access(access, &op)));
        let early = self.early_touches.extract_if(.., |touched| touched.point == point);
        found.extend(early.map(|touched| host_touch(&touched, Some(&op))));
    }

    /// The host joins a point, or another process has waited for it.
    fn join(&mut self, point: Point, is_elsewhere: bool) {
        if !is_elsewhere && !self.joined_elsewhere.is_empty() {
            self.join_here(point);
        }
        let (join, raised) = self.order.join(point);
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

    fn raced(&mut self, names: &CheckNames, race: &Race, op: &Rc<CheckedOp>, found: &mut Vec<RawFinding>) {
        let earlier = &race.earlier;
        // From here on the two count as ordered: one missing wait is one finding.
        self.order.mend(earlier.point, &earlier.clock, op.point.stream);
        let (first, second, is_write) = match earlier.time <= op.time {
            true => (earlier, op, race.is_write),
            false => (op, earlier, (race.is_write.1, race.is_write.0)),
        };
        found.push(stream_race(names, (first, second), race.bytes, is_write));
        earlier.is_raced.set(true);
        op.is_raced.set(true);
    }

    fn accessed(&mut self, access: &HostAccess, found: &mut Vec<RawFinding>) {
        match self.op_at(access.point) {
            Some(op) => found.extend(host_access(access, &op)),
            None if self.early_accesses.len() < KEPT_EARLY => self.early_accesses.push(*access),
            None => found.push(unknown_work(access)),
        }
    }

    fn touched(&mut self, touched: &TouchedBytes, found: &mut Vec<RawFinding>) {
        match self.op_at(touched.point) {
            Some(op) => found.push(host_touch(touched, Some(&op))),
            None if self.early_touches.len() < KEPT_EARLY => self.early_touches.push(*touched),
            None => found.push(host_touch(touched, None)),
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
        let is_during = |refused: &&mut (Nanos, CallSite, u64)| {
            refused.2 == base && (site.begin..=time).contains(&refused.0)
        };
        for (time, site, address) in self.refused.extract_if(.., |one| is_during(&one)) {
            if let Some(freed) = self.memory.freed_at(address) {
                found.push(after_free(names, (time, site), address, freed));
            }
        }
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
        found.extend(freed.found(self.races.in_flight(at, at + len)));
        self.late_frees.add(freed, self.order.is_all_known());
    }

    /// Remembers the call of work that failed.
    fn passed(&mut self, passed: &Passed) {
        if passed.outcome == Outcome::Failed {
            self.failed_calls.extend(self.recent_calls.get(passed.point));
            if self.failed_calls.len() > KEPT_FAILED_CALLS {
                self.failed_calls.pop_front();
            }
        }
    }

    /// A call ends the work of a stream in place of waiting for it: what nobody had joined is lost.
    fn aborted(&self, names: &CheckNames, joined: &host::Joined, found: &mut Vec<RawFinding>) {
        let name = names.symbols.function(names.process, joined.site.function).unwrap_or_default();
        let ops = self.in_flight.get(&joined.point.stream).filter(|_| joined.how == host::Join::Abort);
        let Some(ops) = ops else { return };
        let lost = ops.range(..=joined.point.ticket).map(|(_, op)| op).filter(|op| is_loss(names, op));
        let lost: Vec<&Rc<CheckedOp>> = lost.collect();
        if let Some(last) = lost.last() {
            let how = if name.is_empty() { "The process ended".into() } else { format!("{name} was called") };
            let mut raw = lost_ops(last, lost.len(), &how);
            raw.dropped_by = Some(joined.site).filter(|_| !name.is_empty());
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
        if let Some(begun) = self.captures.broken_by(source.thread, site, code) {
            let access = RawPlace::Call(site);
            let mut raw = RawFinding::new(FindingId::Capture, time, access, message.to_owned());
            raw.work = Some(RawWork { site: begun, op: None, process: None });
            raw.remedy = captures::remedy(code);
            return found.push(raw);
        }
        let name = names.symbols.function(names.process, site.function).unwrap_or_default();
        // Failed work is told of by the call that waits for it; what used the memory is the one that
        // submitted.
        let waits = ["Synchronize", "Query"].iter().any(|word| name.contains(word));
        let work = if waits { self.failed_calls.pop_front() } else { None };
        let is_late_bound = work.is_some_and(|work| work.is_late_bound);
        let site = work.map_or(site, |work| work.site);
        // Memory that is not registered any more is still the program's, which may use it.
        let is_gone = |freed: &&ForgottenBlock| {
            freed.owned.block.origin != Origin::Registered || name.contains("Unregister")
        };
        let freed = |address| Some((address, self.memory.freed_at(address).filter(is_gone)?));
        let freed = addresses(message).find_map(freed);
        match freed {
            _ if code != INVALID_PARAMETER => {}
            // The work is older than the free: nobody had waited for it then.
            Some((_, freed)) if is_late_bound && site.begin < freed.freed.begin => {
                found.push(freed_in_flight(site, freed));
            }
            Some((address, freed)) => found.push(after_free(names, (time, site), address, freed)),
            // Another thread may be freeing it at this moment, and tell of that later.
            None => self.refused.extend(addresses(message).map(|address| (time, site, address))),
        }
        if self.refused.len() > KEPT_REFUSED {
            self.refused.drain(..KEPT_REFUSED / 2);
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

    /// The call that captured a task.
    pub fn capturing_call(&self, task: Option<TaskId>) -> Option<CallSite> {
        self.captured.get(&task?).copied()
    }
}

/// Both ends of a range as the program calls them, with its allocation.
fn place(names: &CheckNames, raw: &mut RawFinding, (start, end): (u64, u64)) -> String {
    let found = names.blocks.find(names.process, start, raw.time);
    let (address, note) = match &found {
        None => (start, String::new()),
        Some(place) => {
            raw.allocation = Some(place.block.site);
            (
                place.address(),
                format!(" ({} bytes into an allocation of {})", place.offset, place.block.block.asked()),
            )
        }
    };
    raw.bytes = Some((address, end - start));
    format!("{} bytes at {address:#x}{note}", end - start)
}

pub fn stream_race(
    names: &CheckNames,
    (first, second): (&Rc<CheckedOp>, &Rc<CheckedOp>),
    bytes: (u64, u64),
    is_write: (bool, bool),
) -> RawFinding {
    let verb = |is_write| if is_write { "writes" } else { "reads" };
    let mut raw =
        RawFinding::new(FindingId::StreamRace, second.time, RawPlace::Call(second.site), String::new());
    let place = place(names, &mut raw, bytes);
    raw.message = format!(
        "A {} in stream {} {} {place}, which an earlier {} in stream {} {}: nothing orders the two.",
        second.kind,
        second.point.stream,
        verb(is_write.1),
        first.kind,
        first.point.stream,
        verb(is_write.0),
    );
    raw.op = Some(second.point);
    raw.work = Some(RawWork::of(first));
    raw.task = second.task.or(first.task);
    raw
}

fn batch_race(names: &CheckNames, (op, call): (&Rc<CheckedOp>, CallSite), clash: Clash) -> RawFinding {
    let mut raw = RawFinding::new(FindingId::BatchRace, op.time, RawPlace::Call(call), String::new());
    let place = place(names, &mut raw, (clash.start, clash.end));
    raw.message = format!(
        "The copies {} and {} of a {} touch the same {place}, and one of them writes: a batch has no order.",
        clash.first, clash.second, op.kind
    );
    raw.op = Some(op.point);
    raw.work = Some(RawWork { site: call, ..RawWork::of(op) });
    raw
}

fn uninitialised(names: &CheckNames, op: &Rc<CheckedOp>, read: &UnwrittenRead) -> RawFinding {
    let mut raw = RawFinding::new(FindingId::Uninitialised, op.time, RawPlace::Call(op.site), String::new());
    let place = place(names, &mut raw, (read.start, read.end));
    let all =
        if read.bytes > read.end - read.start { format!(" ({} in all)", read.bytes) } else { String::new() };
    raw.message = format!("A {} reads {place} that nobody has written{all}.", op.kind);
    raw.op = Some(op.point);
    raw.work = Some(RawWork::of(op));
    raw
}

fn in_program(access: &HostAccess) -> RawPlace {
    RawPlace::Program { thread: access.thread, stack: access.stack }
}

fn access_id(access: &HostAccess) -> FindingId {
    match (access.is_unmapped, access.is_write) {
        (true, _) => FindingId::Free,
        (false, true) => FindingId::HostWrite,
        (false, false) => FindingId::HostRead,
    }
}

fn host_access(access: &HostAccess, op: &Rc<CheckedOp>) -> Option<RawFinding> {
    let id = access_id(access);
    let verb = match id {
        FindingId::Free => "unmaps registered memory at",
        FindingId::HostWrite => "writes",
        _ => "reads",
    };
    let uses = if access.is_destination { "writes" } else { "reads" };
    let by = if access.is_system_call { "A system call of thread" } else { "Thread" };
    let message = format!(
        "{by} {} {verb} {:#x}, which a {} of {} bytes in stream {} {uses}: nobody has waited for it.",
        access.thread, access.address, op.kind, op.bytes, op.point.stream
    );
    let mut raw = RawFinding::new(id, access.time, in_program(access), message);
    raw.work = Some(RawWork::of(op));
    raw.bytes = Some((access.address, 1));
    raw.is_program_address = true;
    raw.task = op.task;
    raw.speak_for(op);
    Some(raw)
}

/// What the CPU did to bytes of an op, where only that is known and not the line.
fn host_touch(touched: &TouchedBytes, op: Option<&Rc<CheckedOp>>) -> RawFinding {
    let id = if touched.is_write { FindingId::HostWrite } else { FindingId::HostRead };
    let verb = if touched.is_write { "changed" } else { "touched" };
    let uses = if touched.is_destination { "writes" } else { "reads" };
    let what = op.map_or_else(|| "copy".to_owned(), |op| format!("{} of {} bytes", op.kind, op.bytes));
    let message = format!(
        "The CPU {verb} {} at {:#x}, which a {what} in stream {} {uses}: nobody had waited for it.",
        if touched.len == 1 { "a byte".to_owned() } else { format!("{} bytes", touched.len) },
        touched.address,
        touched.point.stream
    );
    let mut raw = RawFinding::new(id, touched.time, RawPlace::Before(touched.site), message);
    raw.work = op.map(|op| RawWork::of(op));
    raw.bytes = Some((touched.address, touched.len));
    raw.is_program_address = true;
    raw.task = op.and_then(|op| op.task);
    op.into_iter().for_each(|op| raw.speak_for(op));
    raw
}

fn unknown_work(access: &HostAccess) -> RawFinding {
    let id = access_id(access);
    let message = format!(
        "Thread {} touches {:#x}, which a copy in stream {} uses that nobody has waited for.",
        access.thread, access.address, access.point.stream
    );
    let mut raw = RawFinding::new(id, access.time, in_program(access), message);
    raw.bytes = Some((access.address, 1));
    raw.is_program_address = true;
    raw
}

fn device_pointer(place: RawPlace, time: Nanos, address: u64, is_write: bool) -> RawFinding {
    let verb = if is_write { "writes" } else { "reads" };
    let message = format!("The CPU {verb} {address:#x}, which is memory of a device: it cannot reach that.");
    let mut raw = RawFinding::new(FindingId::DevicePointer, time, place, message);
    raw.bytes = Some((address, 1));
    raw.is_program_address = true;
    raw
}

/// Whether something is lost with the op that nobody was told of, and that the program has asked for.
fn is_loss(names: &CheckNames, op: &CheckedOp) -> bool {
    !op.is_reported.get() && !op.is_raced.get() && op.bytes > 0 && !is_by_library(names, op.site)
}

/// Whether the library submitted work of its own accord, in a process that calls it by functions.
fn is_by_library(names: &CheckNames, site: CallSite) -> bool {
    site.function == 0 && names.symbols.function(names.process, 1).is_some()
}

fn lost_ops(last: &Rc<CheckedOp>, count: usize, how: &str) -> RawFinding {
    let what = match count {
        1 => format!("a {} of {} bytes was", last.kind, last.bytes),
        _ => format!("{count} operations, the last a {} of {} bytes, were", last.kind, last.bytes),
    };
    let message =
        format!("{how} while {what} in flight in stream {}: nobody has waited for that.", last.point.stream);
    let mut raw = RawFinding::new(FindingId::Lost, last.time, RawPlace::Call(last.site), message);
    raw.op = Some(last.point);
    raw.work = Some(RawWork::of(last));
    raw.task = last.task;
    raw
}

/// Memory was freed that work of this call was to use, which found that when it ran.
fn freed_in_flight(work: CallSite, freed: &ForgottenBlock) -> RawFinding {
    let block = freed.owned.block;
    let message = format!(
        "{} bytes at {:#x} are freed while a copy that reads its addresses when it runs is in flight on \
         them: nobody has waited for it.",
        block.asked(),
        block.base
    );
    let access = RawPlace::Call(freed.freed);
    let mut raw = RawFinding::new(FindingId::Free, freed.freed.begin, access, message);
    raw.work = Some(RawWork { site: work, op: None, process: None });
    raw.bytes = Some((block.base, block.asked()));
    raw.allocation = Some(freed.owned.site);
    raw
}

fn after_free(
    names: &CheckNames,
    (time, site): (Nanos, CallSite),
    address: u64,
    freed: &ForgottenBlock,
) -> RawFinding {
    let block = freed.owned.block;
    let name = names.symbols.function(names.process, site.function).unwrap_or_default();
    let frees = ["Free", "Unregister", "Unmap"].iter().any(|word| name.contains(word));
    let (id, verb) = match frees {
        true => (FindingId::DoubleFree, "frees"),
        false => (FindingId::UseAfterFree, "uses"),
    };
    let message = format!(
        "{name} {verb} {address:#x}, {} bytes into an allocation of {} that was freed before.",
        address - block.base,
        block.asked()
    );
    let mut raw = RawFinding::new(id, time, RawPlace::Call(site), message);
    raw.work = Some(RawWork { site: freed.freed, op: None, process: None });
    let end = (block.base + block.asked()).max(address + 1);
    raw.bytes = Some((address, end - address));
    raw.allocation = Some(freed.owned.site);
    raw
}

/// The addresses that a message names.
fn addresses(message: &str) -> impl Iterator<Item = u64> {
    message.split("0x").skip(1).filter_map(|rest| {
        let end = rest.find(|digit: char| !digit.is_ascii_hexdigit()).unwrap_or(rest.len());
        u64::from_str_radix(&rest[..end], 16).ok()
    })
}
