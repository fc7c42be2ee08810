//! Comparing what ops of a replay leave with what is predicted, in stream order.
//!
//! Behind an op that left something predictable its stream gets a function that compares. Device memory is
//! copied to page-locked memory before that, by the same stream.

use super::{Mismatch, Replay, ReplayReport, memory::ReplayMemory};
use crate::Result;
use ferry_core::{
    Access, Home, Memory, Op, Plan, Request, Rows, Runtime, Stream, Ticket,
    indirect::{Cell, DESCRIPTOR_LEN, Through},
};
use ferry_watch::{
    ContentHasher,
    recording::{
        Location, Rect,
        flow::{Content, Expected},
    },
};
use std::{
    slice,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// How many mismatches are kept; all are counted.
const KEPT_MISMATCHES: usize = 20;
/// Bytes that are compared at once.
const CHUNK: usize = 16 << 10;
/// Bytes of device memory that may be on their way to be compared.
const SCRATCH_LIMIT: usize = 256 << 20;
/// How long a check waits for memory that other checks have.
const SCRATCH_WAIT: Duration = Duration::from_millis(100);
/// Pages of scratch memory.
const PAGE: usize = 4096;
/// Late-bound copies whose addresses fit into one block of device memory.
const DESCRIPTORS_OF_A_BLOCK: usize = 64;

/// Compares, and keeps what differs.
pub(super) struct Checks {
    replay: Arc<Replay>,
    runtime: Arc<Runtime>,
    state: Mutex<CheckState>,
    /// Scratch memory was given back.
    freed: Condvar,
    /// Device memory for the addresses of late-bound copies: the device, the address, how much is used.
    descriptors: Mutex<Vec<(u32, usize, usize)>>,
}

#[derive(Default)]
struct CheckState {
    compared: u64,
    mismatched: u64,
    mismatches: Vec<Mismatch>,
    scratch: usize,
    /// How many ops left contents whose hash was compared with the recorded one, and those that differ.
    hashed: u64,
    wrong_hashes: Vec<usize>,
}

impl Checks {
    pub(super) fn new(replay: Arc<Replay>, runtime: Arc<Runtime>) -> Checks {
        let descriptors = Mutex::default();
        Checks { replay, runtime, state: Mutex::default(), freed: Condvar::new(), descriptors }
    }

    fn state(&self) -> MutexGuard<'_, CheckState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes what came of the comparisons into a report.
    pub(super) fn report(&self, report: &mut ReplayReport) {
        let state = self.state();
        (report.compared, report.mismatched) = (state.compared, state.mismatched);
        (report.hashed, report.wrong_hashes) = (state.hashed, state.wrong_hashes.clone());
        report.mismatches = state.mismatches.clone();
    }

    /// Submits the check of what an op has left, behind it. `None` if there is nothing to check.
    pub(super) fn submit(
        self: &Arc<Self>,
        op: usize,
        expected: Vec<Expected>,
        stream: &Arc<Stream>,
        memory: &ReplayMemory,
    ) -> Result<Option<Ticket>> {
        if expected.is_empty() {
            return Ok(None);
        }
        // Where each part is to be found; what is in device memory has an offset in the scratch memory.
        let (mut places, mut rows, mut taken) = (Vec::new(), Vec::new(), 0);
        for part in &expected {
            let at = Location { allocation: part.allocation, offset: part.offset as i64 };
            let address = memory.address(at)?;
            match memory.is_host(part.allocation) {
                true => places.push(ComparedPlace::Address(address)),
                false => {
                    places.push(ComparedPlace::Scratch(taken));
                    rows.push((taken, address, part.len as usize));
                    taken += part.len as usize;
                }
            }
        }
        let scratch = if taken > 0 { Some(self.copy_to_scratch(stream, &rows, taken)?) } else { None };
        let checks = self.clone();
        let compare = move || {
            let base = scratch.as_ref().map_or(0, |scratch| scratch.base);
            checks.compare(op, &expected, &places, base);
        };
        stream.call(compare).map(Some)
    }

    /// Has a stream write device memory before what is submitted next.
    pub(super) fn inject(
        self: &Arc<Self>,
        parts: &[Expected],
        stream: &Arc<Stream>,
        memory: &ReplayMemory,
    ) -> Result<()> {
        for part in parts {
            let scratch = self.scratch(part.len as usize)?;
            // SAFETY: memory that was just allocated for this, and that nothing else knows.
            let bytes = unsafe { slice::from_raw_parts_mut(scratch.base as *mut u8, part.len as usize) };
            self.replay.flow.contents[part.content as usize].write(part.at, bytes);
            let dst = memory.address(Location { allocation: part.allocation, offset: part.offset as i64 })?;
            let rows = Rows::linear(dst, scratch.base, part.len as usize);
            let plan = |memory: &Memory| {
                Plan::new([rows], memory, |_, _| Ok(())).map(Op::Copy).map_err(|misfit| misfit.error)
            };
            // SAFETY: all of it is memory that the runtime knows, which stays until the op has passed.
            unsafe { stream.submit(plan) }?;
            stream.call(move || drop(scratch))?;
        }
        Ok(())
    }

    /// Has a stream copy device memory to memory of the host: `(offset there, address, length)`.
    fn copy_to_scratch(
        self: &Arc<Self>,
        stream: &Stream,
        parts: &[(usize, usize, usize)],
        len: usize,
    ) -> Result<Scratch> {
        let scratch = self.scratch(len)?;
        let rows =
            parts.iter().map(|(offset, address, len)| Rows::linear(scratch.base + offset, *address, *len));
        let rows: Vec<Rows> = rows.collect();
        let plan = |memory: &Memory| {
            let plan = Plan::new(rows.iter().copied(), memory, |_, _| Ok(()));
            plan.map(Op::Copy).map_err(|misfit| misfit.error)
        };
        // SAFETY: all of it is memory that the runtime knows, which stays until the op has passed.
        unsafe { stream.submit(plan) }?;
        Ok(scratch)
    }

    fn scratch(self: &Arc<Self>, len: usize) -> Result<Scratch> {
        let mut state = self.state();
        let is_short = |state: &mut CheckState| state.scratch > 0 && state.scratch + len > SCRATCH_LIMIT;
        // Not for ever: a stream may wait for what this thread submits next.
        let waited = self.freed.wait_timeout_while(state, SCRATCH_WAIT, is_short);
        state = waited.unwrap_or_else(PoisonError::into_inner).0;
        state.scratch += len;
        drop(state);
        let block = self.runtime.alloc(&Request { home: Home::Host, len, page: PAGE });
        let base = block.inspect_err(|_| self.give_back(len))?.base;
        Ok(Scratch { base, len, checks: self.clone() })
    }

    fn give_back(&self, len: usize) {
        self.state().scratch -= len;
        self.freed.notify_all();
    }

    fn compare(&self, op: usize, expected: &[Expected], places: &[ComparedPlace], scratch: usize) {
        let mut hasher = ContentHasher::default();
        for (part, place) in expected.iter().zip(places) {
            let address = match place {
                ComparedPlace::Address(address) => *address,
                ComparedPlace::Scratch(offset) => scratch + offset,
            };
            // SAFETY: memory of the replay, or scratch memory that this check owns; the stream has written it
            // and everything that writes it again comes later, or the bytes would not be predicted.
            let found = unsafe { slice::from_raw_parts(address as *const u8, part.len as usize) };
            hasher.add(found);
            let differs = self.first_difference(part, found);
            let mut state = self.state();
            state.compared += part.len;
            let Some((offset, expected, found)) = differs else { continue };
            state.mismatched += 1;
            if state.mismatches.len() < KEPT_MISMATCHES {
                let offset = part.offset + offset as u64;
                state.mismatches.push(Mismatch { op, allocation: part.allocation, offset, expected, found });
            }
        }
        self.compare_hash(op, expected, hasher.finish());
    }

    /// With recorded contents, what an op leaves has the recorded hash.
    fn compare_hash(&self, op: usize, expected: &[Expected], hash: u64) {
        let recorded = &self.replay.recording.ops[op];
        let is_real = |part: &Expected| {
            !matches!(self.replay.flow.contents[part.content as usize], Content::Pattern(_))
        };
        let covered: u64 = expected.iter().map(|part| part.len).sum();
        let is_of_this_op = *expected == self.replay.flow.expected[op] && covered == recorded.work.bytes();
        let Some(wanted) = recorded.hashes.destination.filter(|_| recorded.source.is_some()) else { return };
        if !is_of_this_op || !expected.iter().all(is_real) {
            return;
        }
        let mut state = self.state();
        state.hashed += 1;
        if hash != wanted {
            state.wrong_hashes.push(op);
        }
    }

    /// The first byte that is not as expected: its offset, what it should be, what it is.
    fn first_difference(&self, part: &Expected, found: &[u8]) -> Option<(usize, u8, u8)> {
        let content = &self.replay.flow.contents[part.content as usize];
        let mut buffer = vec![0; CHUNK.min(found.len())];
        for (number, chunk) in found.chunks(CHUNK).enumerate() {
            let expected = &mut buffer[..chunk.len()];
            content.write(part.at + (number * CHUNK) as u64, expected);
            if expected != chunk {
                let index = expected.iter().zip(chunk).position(|(one, other)| one != other)?;
                return Some((number * CHUNK + index, expected[index], chunk[index]));
            }
        }
        None
    }

    /// Writes down the ends of a late-bound copy in device memory of the replay's own.
    pub(super) fn descriptor(
        &self,
        memory: &ReplayMemory,
        recorded: u32,
        is_descriptor: bool,
        rect: &Rect,
    ) -> Result<Through> {
        let device = memory.device(recorded);
        let (dst, src, len) = (memory.address(rect.dst)?, memory.address(rect.src)?, rect.width as usize);
        let user = self.descriptor_memory(device)?;
        let words: Vec<u64> = match is_descriptor {
            true => self.runtime.memory().seal(dst, src, len)?.to_vec(),
            false => vec![dst as u64, src as u64],
        };
        let bytes = size_of_val(&words[..]);
        memory.copy_at_once(recorded, Rows::linear(user, words.as_ptr() as usize, bytes))?;
        let place = self.runtime.memory().place(user, bytes, Access::Read)?;
        let cell = |user: usize| Cell { at: place.engine_address(user), user, offset: 0 };
        Ok(match is_descriptor {
            true => Through::Descriptor { at: place.engine_address(user), user },
            false => Through::Cells { dst: cell(user), src: cell(user + 8), len },
        })
    }

    /// Room for one descriptor, which no other copy uses.
    fn descriptor_memory(&self, device: u32) -> Result<usize> {
        let mut blocks = self.descriptors.lock().unwrap_or_else(PoisonError::into_inner);
        let known = blocks.iter_mut().find(|(on, _, used)| *on == device && *used < DESCRIPTORS_OF_A_BLOCK);
        if let Some((_, base, used)) = known {
            *used += 1;
            return Ok(*base + (*used - 1) * DESCRIPTOR_LEN);
        }
        let len = DESCRIPTORS_OF_A_BLOCK * DESCRIPTOR_LEN;
        let base = self.runtime.alloc(&Request { home: Home::Device(device), len, page: PAGE })?.base;
        blocks.push((device, base, 1));
        Ok(base)
    }
}

/// Where a part is that is compared.
enum ComparedPlace {
    /// At an address of the host.
    Address(usize),
    /// So many bytes into the scratch memory.
    Scratch(usize),
}

/// Page-locked memory that a check owns.
struct Scratch {
    base: usize,
    len: usize,
    checks: Arc<Checks>,
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Its own blocks are freed as any other.
        let _ = self.checks.runtime.free(self.base, |_| Ok(()));
        self.checks.give_back(self.len);
    }
}
