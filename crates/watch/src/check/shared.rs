//! Memory that processes share: ops of two processes, or at two addresses of one, that touch the same bytes.
//!
//! Between processes two things order work: the host has joined the earlier op before the later one was
//! submitted, or the later one has waited for something outside of its process (an event or a notify that is
//! shared) since then. What that was is not known, so it counts for everything before it.

use std::collections::HashMap;
use std::rc::Rc;

use super::messages::{self, RaceSide};
use super::names::CheckNames;
use super::op::CheckedOp;
use super::order::OUTSIDE;
use super::raw::{Mended, RawFinding};
use super::tasks::CapturingCall;

/// Accesses to one shared memory that are kept.
const KEPT: usize = 1 << 12;

/// What an op does with shared memory.
pub struct SharedAccess {
    /// The memory.
    pub key: u64,
    /// The bytes, counted from its first.
    pub range: (u64, u64),
    /// Where the first byte is, for the process of the op.
    pub at: u64,
    /// Whether it writes.
    pub is_write: bool,
    /// The op.
    pub op: Rc<CheckedOp>,
    /// The call that captured it, if it is a task of a graph.
    pub captured: Option<CapturingCall>,
}

impl SharedAccess {
    fn side(&self) -> RaceSide<'_> {
        RaceSide { op: &self.op, is_write: self.is_write, captured: self.captured }
    }
}

/// Shared memories that are kept before those that only joined work has touched are looked for.
const MIN_SWEEP: usize = 1 << 8;

/// The shared memory of all processes.
#[derive(Default)]
pub struct SharedRaces {
    accesses: HashMap<u64, Vec<(u32, SharedAccess)>>,
    sweep_at: usize,
}

impl SharedRaces {
    /// How many accesses are kept, and memories.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.accesses.values().map(|all| 1 + all.len()).sum()
    }

    /// Adds what an op of a process does. Says with what it races.
    pub fn add(&mut self, names: &CheckNames, process: u32, access: SharedAccess) -> Option<RawFinding> {
        self.sweep();
        let all = self.accesses.entry(access.key).or_default();
        all.retain(|(_, earlier)| !earlier.op.is_joined_here());
        let race = all.iter().find(|(other, earlier)| {
            // What one address of one process sees is judged with all other memory of it.
            let is_elsewhere =
                *other != process || earlier.at - earlier.range.0 != access.at - access.range.0;
            is_elsewhere && clash(earlier, &access) && !comes_before((*other, earlier), (process, &access))
        });
        let found = race.map(|(other, earlier)| {
            let (from, to) = (earlier.range.0.max(access.range.0), earlier.range.1.min(access.range.1));
            let base = access.at - access.range.0;
            let bytes = (base + from, base + to);
            let mut raw = match *other == process {
                true => messages::stream_race(names, &earlier.side(), &access.side(), bytes),
                false => messages::process_race(names, (*other, &earlier.side()), &access.side(), bytes),
            };
            raw.mended = Mended::Process(earlier.op.clone());
            raw
        });
        all.push((process, access));
        if all.len() > KEPT {
            all.remove(0);
        }
        found
    }

    fn sweep(&mut self) {
        if self.accesses.len() >= self.sweep_at.max(MIN_SWEEP) {
            self.accesses.retain(|_, all| all.iter().any(|(_, access)| !access.op.is_joined_here()));
            self.sweep_at = 2 * self.accesses.len();
        }
    }
}

fn clash(one: &SharedAccess, other: &SharedAccess) -> bool {
    (one.is_write || other.is_write) && one.range.0 < other.range.1 && other.range.0 < one.range.1
}

fn comes_before(
    (of_earlier, earlier): (u32, &SharedAccess),
    (of_later, later): (u32, &SharedAccess),
) -> bool {
    if of_earlier == of_later && earlier.op.comes_before(&later.op) {
        return true;
    }
    let waited = later.op.clock.get(&OUTSIDE).copied().unwrap_or_default();
    earlier.op.time <= waited.max(later.op.view.outside)
}
