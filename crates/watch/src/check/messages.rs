//! What findings say: each from what was seen, with call sites in place of names.

use std::rc::Rc;

use super::accesses::Clash;
use super::finding::FindingId;
use super::memory::{ForgottenBlock, LeakedMemory};
use super::names::CheckNames;
use super::op::CheckedOp;
use super::raw::{RawFinding, RawNote, RawPlace, RawWork};
use super::tasks::CapturingCall;
use super::written::UnwrittenRead;
use crate::fact::{CallSite, HostAccess, Nanos, TouchedBytes};

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

/// One of two ops that race.
pub struct RaceSide<'a> {
    /// The op.
    pub op: &'a Rc<CheckedOp>,
    /// Whether it writes; else it reads.
    pub is_write: bool,
    /// The call that captured it, if it is a task of a graph.
    pub captured: Option<CapturingCall>,
}

impl RaceSide<'_> {
    /// Whether it was submitted before the other one. The tasks of one execution of a graph are all submitted
    /// by one call: they come in the order in which they were captured.
    pub fn is_before(&self, other: &RaceSide) -> bool {
        match self.captured.zip(other.captured) {
            Some((one, other)) if one.task.graph == other.task.graph => one.task <= other.task,
            _ => self.op.time <= other.op.time,
        }
    }

    fn verb(&self) -> &'static str {
        if self.is_write { "writes" } else { "reads" }
    }
}

/// Two ops race, the second of which was submitted later.
pub fn stream_race(names: &CheckNames, first: &RaceSide, second: &RaceSide, bytes: (u64, u64)) -> RawFinding {
    match first.captured.zip(second.captured) {
        // Executions of one graph follow each other: it is one of them.
        Some((earlier, later)) if earlier.task.graph == later.task.graph => {
            race_in_graph(names, (first, earlier), (second, later), bytes)
        }
        _ => race_of_calls(names, first, second, bytes),
    }
}

/// Two tasks of one graph race.
fn race_in_graph(
    names: &CheckNames,
    (first, earlier): (&RaceSide, CapturingCall),
    (second, later): (&RaceSide, CapturingCall),
    bytes: (u64, u64),
) -> RawFinding {
    let (time, access) = (second.op.time, RawPlace::Call(later.site));
    let mut raw = RawFinding::new(FindingId::StreamRace, time, access, String::new());
    let place = place(names, &mut raw, bytes);
    raw.message = format!(
        "A {} {} {place}, which an earlier {} on another branch of the same graph {}: nothing orders the \
         two.",
        later.kind.unwrap_or(second.op.kind),
        second.verb(),
        earlier.kind.unwrap_or(first.op.kind),
        first.verb(),
    );
    raw.remedy = GRAPH_RACE_REMEDY;
    raw.op = Some(second.op.point);
    raw.work = Some(RawWork { site: earlier.site, ..RawWork::of(first.op) });
    let call = Some(names.function(second.op.site)).filter(|name| !name.is_empty());
    let text = format!("Both run when {} executes the graph,", call.unwrap_or("a call"));
    raw.notes.push(RawNote { text, site: second.op.site, process: None });
    raw
}

/// What to change about two tasks of one graph.
const GRAPH_RACE_REMEDY: &str = "Record an event behind the earlier call and let the later stream wait for \
                                 it (aclrtStreamWaitEvent), both while they are captured.";

/// The same, where the earlier one is of another process.
pub fn process_race(
    names: &CheckNames,
    (process, first): (u32, &RaceSide),
    second: &RaceSide,
    bytes: (u64, u64),
) -> RawFinding {
    let mut raw = race_of_calls(names, first, second, bytes);
    raw.message.push_str(&format!(" The earlier one is of process {process}."));
    raw.work.iter_mut().for_each(|work| work.process = Some(process));
    if first.captured.is_some() {
        raw.notes.last_mut().into_iter().for_each(|note| note.process = Some(process));
    }
    raw
}

/// Two ops race that were submitted by two calls.
fn race_of_calls(names: &CheckNames, first: &RaceSide, second: &RaceSide, bytes: (u64, u64)) -> RawFinding {
    let (one, other) = (first.op, second.op);
    let mut raw =
        RawFinding::new(FindingId::StreamRace, other.time, RawPlace::Call(other.site), String::new());
    let place = place(names, &mut raw, bytes);
    raw.message = format!(
        "A {} in stream {} {} {place}, which an earlier {} in stream {} {}: nothing orders the two.",
        other.kind,
        other.point.stream,
        second.verb(),
        one.kind,
        one.point.stream,
        first.verb(),
    );
    raw.op = Some(other.point);
    raw.work = Some(RawWork::of(one));
    let captured = [("The later one", second.captured), ("The earlier one", first.captured)];
    let captured = captured.into_iter().filter_map(|(what, captured)| Some((what, captured?.site)));
    raw.notes.extend(captured.map(|(what, call)| RawNote::captured(what, call)));
    raw
}

/// Two copies of a batch touch the same bytes.
pub fn batch_race(
    names: &CheckNames,
    op: &Rc<CheckedOp>,
    clash: Clash,
    captured: Option<CapturingCall>,
) -> RawFinding {
    let call = captured.map_or(op.site, |captured| captured.site);
    let mut raw = RawFinding::new(FindingId::BatchRace, op.time, RawPlace::Call(call), String::new());
    let place = place(names, &mut raw, (clash.start, clash.end));
    // The op of a task may have the copies of other calls as well.
    let which = match captured {
        Some(captured) => format!("Two copies of a {}", captured.kind.unwrap_or(op.kind)),
        None => format!("The copies {} and {} of a {}", clash.first, clash.second, op.kind),
    };
    raw.message = format!("{which} touch the same {place}, and one of them writes: a batch has no order.");
    raw.op = Some(op.point);
    raw.work = Some(RawWork { site: call, ..RawWork::of(op) });
    raw
}

/// An op copies bytes to the host that nobody wrote.
pub fn uninitialised(names: &CheckNames, op: &Rc<CheckedOp>, read: &UnwrittenRead) -> RawFinding {
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

/// The CPU accesses bytes of an op in flight.
pub fn host_access(access: &HostAccess, op: &Rc<CheckedOp>) -> RawFinding {
    let id = access_id(access);
    let verb = match id {
        FindingId::Free => "unmaps registered memory at",
        FindingId::HostWrite => "writes",
        _ => "reads",
    };
    let uses = if access.is_destination { "writes" } else { "reads" };
    let by = if access.is_system_call { "A system call of thread" } else { "Thread" };
    let message = format!(
        "{by} {} {verb} {:#x}, which a {} {} in stream {} {uses}: nobody has waited for it.",
        access.thread,
        access.address,
        op.kind,
        op.extent(),
        op.point.stream
    );
    let mut raw = RawFinding::new(id, access.time, in_program(access), message);
    raw.work = Some(RawWork::of(op));
    raw.bytes = Some((access.address, access.len));
    raw.is_program_address = true;
    raw.speak_for(op);
    raw
}

/// What the CPU did to bytes of an op, where only that is known and not the line.
pub fn host_touch(touched: &TouchedBytes, op: Option<&Rc<CheckedOp>>) -> RawFinding {
    let id = if touched.is_write { FindingId::HostWrite } else { FindingId::HostRead };
    let verb = if touched.is_write { "changed" } else { "touched" };
    let uses = if touched.is_destination { "writes" } else { "reads" };
    let what = op.map_or_else(|| "copy".to_owned(), |op| format!("{} {}", op.kind, op.extent()));
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
    op.into_iter().for_each(|op| raw.speak_for(op));
    raw
}

/// The same, of an op that was never told of.
pub fn unknown_work(access: &HostAccess) -> RawFinding {
    let id = access_id(access);
    let message = format!(
        "Thread {} touches {:#x}, which a copy in stream {} uses that nobody has waited for.",
        access.thread, access.address, access.point.stream
    );
    let mut raw = RawFinding::new(id, access.time, in_program(access), message);
    raw.bytes = Some((access.address, access.len));
    raw.is_program_address = true;
    raw
}

/// The CPU accesses an address of a device.
pub fn device_pointer(place: RawPlace, time: Nanos, address: u64, is_write: bool) -> RawFinding {
    let verb = if is_write { "writes" } else { "reads" };
    let message = format!("The CPU {verb} {address:#x}, which is memory of a device: it cannot reach that.");
    let mut raw = RawFinding::new(FindingId::DevicePointer, time, place, message);
    raw.bytes = Some((address, 1));
    raw.is_program_address = true;
    raw
}

/// Work that nobody waited for ends, or ended, in this way.
pub fn lost(last: &Rc<CheckedOp>, count: usize, how: &str) -> RawFinding {
    let what = match count {
        1 => format!("a {} {} was", last.kind, last.extent()),
        _ => format!("{count} operations, the last a {} {}, were", last.kind, last.extent()),
    };
    let message =
        format!("{how} while {what} in flight in stream {}: nobody has waited for that.", last.point.stream);
    let mut raw = RawFinding::new(FindingId::Lost, last.time, RawPlace::Call(last.site), message);
    raw.op = Some(last.point);
    raw.work = Some(RawWork::of(last));
    raw
}

/// Memory that was still allocated in the end.
pub fn leak(leak: &LeakedMemory) -> RawFinding {
    let (what, remedy) = match leak.has_handle {
        None => ("bytes were allocated and never freed", FindingId::Leak.remedy()),
        Some(true) => (
            "bytes of physical memory were allocated, and their handle was never freed",
            "Free the handle (aclrtFreePhysical) before the program ends, and unmap the memory \
             (aclrtUnmapMem) where it is mapped.",
        ),
        Some(false) => (
            "bytes of physical memory were allocated and never unmapped: freeing the handle alone keeps what \
             is mapped",
            "Unmap the memory (aclrtUnmapMem) before the program ends.",
        ),
    };
    let message = format!("{} {what}.", leak.len);
    let mut raw = RawFinding::new(FindingId::Leak, 0, RawPlace::Call(leak.site), message);
    raw.bytes = leak.base.map(|base| (base, leak.len));
    raw.allocation = Some(leak.site);
    raw.remedy = remedy;
    raw
}

/// Memory was freed that work of this call was to use, which found that when it ran.
pub fn freed_in_flight(work: CallSite, freed: &ForgottenBlock) -> RawFinding {
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

/// A call uses or frees memory that was freed.
pub fn after_free(
    names: &CheckNames,
    (time, site): (Nanos, CallSite),
    address: u64,
    freed: &ForgottenBlock,
) -> RawFinding {
    let block = freed.owned.block;
    let name = names.function(site);
    let (id, verb) = match names.frees(site) {
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
