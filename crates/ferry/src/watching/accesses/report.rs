//! From accesses that hit something in flight to facts, each place in the program once for an op.

use super::{Flight, lines};
use ferry_backends::os::trap::{TrappedAccess, kept_files, numbers, place::ThreadPlace, read_for_monitor};
use ferry_watch::{
    Fact,
    clock::ticks,
    fact, stacks,
    unwind::{self, StoppedAt},
    writer::FactWriter,
};
use std::{
    collections::{HashMap, HashSet},
    ops::Range,
};

/// How often a stack is taken at one instruction for one op: other places may lead there.
const MOST_AT_ONE_PLACE: u32 = 16;
/// After so many accesses to one op at one depth of the stack these are a sweep, such as one memcpy: its
/// pages are not armed again. A step for each of its accesses would take minutes.
const LONGEST_STEPPED: u32 = 1024;
/// Bytes of a stack that are kept until they are walked.
const STACK_BYTES: usize = 64 << 10;
/// Places that are remembered; then all are forgotten, and may be told again.
const MOST_PLACES: usize = 1 << 16;

/// Where an access was: the op, the instruction, the stack pointer.
type AccessPlace = (fact::Point, u64, u64);

/// Writes facts of accesses.
#[derive(Default)]
pub(super) struct AccessReporter {
    /// What the access collides with that is about to happen.
    expected: Option<Flight>,
    /// A copy of the stack of the thread that accesses, which waits.
    stack: Vec<u8>,
    places: HashMap<AccessPlace, u32>,
    /// Accesses by op and stack pointer.
    sweeps: HashMap<(fact::Point, u64), u32>,
    /// The access that is about to happen goes on with a sweep that was told of.
    goes_on: bool,
    /// Stacks that were told of, with their ops.
    told: HashSet<(fact::Point, bool, u32)>,
    /// How often pages stayed open.
    opened: u64,
    /// Whether it was told that the kernel hides where threads are.
    is_hidden_told: bool,
}

impl AccessReporter {
    /// The access is about to happen, and collides with this. Says whether its stack is wanted.
    pub(super) fn expect(&mut self, access: &TrappedAccess, hit: Flight) -> bool {
        if self.places.len() >= MOST_PLACES {
            self.places.clear();
            self.sweeps.clear();
            self.told.clear();
        }
        let count = self.places.entry((hit.point, access.place.pc, access.place.sp)).or_default();
        *count += 1;
        let is_wanted = *count <= MOST_AT_ONE_PLACE;
        self.expected = is_wanted.then_some(hit);
        if is_wanted {
            self.copy_stack(access.place);
        }
        is_wanted
    }

    /// Whether the access is one of many to the same op: then it need not be stepped over.
    pub(super) fn is_sweep(&mut self, access: &TrappedAccess, op: Option<fact::Point>) -> bool {
        let count = op.map_or(0, |op| {
            let count = self.sweeps.entry((op, access.place.sp)).or_default();
            *count += 1;
            *count
        });
        self.goes_on = count > LONGEST_STEPPED + 1;
        count > LONGEST_STEPPED
    }

    /// Whether the access turned out not to reach what it was expected to collide with.
    pub(super) fn is_beside(&self, access: &TrappedAccess) -> bool {
        let bytes = access.address..access.address + access.len;
        let is_beside = |hit: &Flight| bytes.end <= hit.user.start || bytes.start >= hit.user.end;
        self.expected.as_ref().is_some_and(|hit| bytes.is_empty() || is_beside(hit))
    }

    /// The access that was expected to collide does so with this, or with nothing.
    pub(super) fn expects_instead(&mut self, access: &TrappedAccess, hit: Option<Flight>) {
        if let Some(expected) = self.expected.take()
            && let Some(count) = self.places.get_mut(&(expected.point, access.place.pc, access.place.sp))
        {
            *count -= 1;
        }
        self.expected = hit;
    }

    /// The access that was told of last did not happen in the end.
    pub(super) fn expects_nothing(&mut self) {
        self.expected = None;
    }

    fn copy_stack(&mut self, place: ThreadPlace) {
        self.stack.resize(STACK_BYTES, 0);
        let got = read_for_monitor(place.sp, &mut self.stack);
        self.stack.truncate(got);
    }

    /// A thread waits in a system call that has unmapped bytes of this op.
    pub(super) fn unmapping(
        &mut self,
        writer: &FactWriter,
        range: &Range<usize>,
        hit: &Flight,
        (thread, place): (i32, ThreadPlace),
    ) {
        self.copy_stack(place);
        lines::dump_of(thread);
        let stack = stacks::tell(writer, lines::put_into(self.frames_at(place), writer));
        if !self.told.insert((hit.point, true, stack)) {
            return;
        }
        let start = range.start.max(hit.user.start);
        writer.write(&Fact::Access(fact::HostAccess {
            time: ticks(),
            thread: number(thread),
            address: start as u64,
            len: range.end.min(hit.user.end).saturating_sub(start) as u64,
            is_write: true,
            point: hit.point,
            is_destination: hit.is_written,
            stack,
            is_system_call: true,
            is_unmapped: true,
        }));
    }

    /// An address of a device is about to be accessed.
    pub(super) fn pointer(&mut self, writer: &FactWriter, access: &TrappedAccess, frames: Option<Vec<u64>>) {
        let frames = frames.unwrap_or_else(|| {
            self.copy_stack(access.place);
            lines::dump_of(access.thread);
            self.frames_at(access.place)
        });
        let stack = stacks::tell(writer, lines::put_into(frames, writer));
        let (time, thread, address) = (ticks(), number(access.thread), access.address as u64);
        writer.write(&Fact::DevicePointer { time, thread, address, is_write: access.is_write, stack });
    }

    /// The access happens.
    pub(super) fn happens(
        &mut self,
        writer: &FactWriter,
        access: &TrappedAccess,
        frames: Option<Vec<u64>>,
        is_open: bool,
    ) {
        if let Some(hit) = self.expected.take() {
            let frames = frames.unwrap_or_else(|| {
                lines::dump_of(access.thread);
                self.frames_at(access.place)
            });
            let frames = lines::put_into(frames, writer);
            self.tell(writer, access, &hit, frames);
        } else if frames.is_some() {
            lines::discard();
        }
        if is_open && !self.goes_on {
            self.left_open(writer);
        }
    }

    /// A page stays open.
    pub(super) fn left_open(&mut self, writer: &FactWriter) {
        self.opened += 1;
        writer.write(&Fact::Opened { time: ticks(), count: self.opened });
        if kept_files::is_hidden() && !std::mem::replace(&mut self.is_hidden_told, true) {
            let reason = "the lines of some accesses of the CPU: the program has changed its user, and the \
                          kernel hides where threads are that were made since then";
            writer.write(&Fact::Unseen { reason: reason.into() });
        }
    }

    fn tell(&mut self, writer: &FactWriter, access: &TrappedAccess, hit: &Flight, frames: Vec<u64>) {
        let stack = stacks::tell(writer, frames);
        if !self.told.insert((hit.point, access.is_write, stack)) {
            return;
        }
        let start = access.address.max(hit.user.start);
        let end = (access.address + access.len).min(hit.user.end);
        writer.write(&Fact::Access(fact::HostAccess {
            time: ticks(),
            thread: number(access.thread),
            address: start as u64,
            len: end.saturating_sub(start).max(1) as u64,
            is_write: access.is_write,
            point: hit.point,
            is_destination: hit.is_written,
            stack,
            is_system_call: access.place.system_call.is_some(),
            is_unmapped: false,
        }));
    }

    /// The stack of a thread that did not say it.
    fn frames_at(&self, place: ThreadPlace) -> Vec<u64> {
        let ThreadPlace { pc, sp, system_call } = place;
        if pc == 0 {
            return Vec::new();
        }
        unwind::walk(StoppedAt { pc, sp, is_behind: system_call.is_some() }, &self.stack)
    }
}

/// What facts call a thread.
fn number(thread: i32) -> u32 {
    numbers::in_proc(thread).unwrap_or(thread) as u32
}
