//! Memory that is freed, unregistered or unmapped while ops in flight use it.
//!
//! Most ops are known when the memory is freed. An op that waits in the order until all is known of it is
//! seen later: frees are kept as long as there are such ops.

use std::rc::Rc;

use super::accesses::ByteAccess;
use super::finding::FindingId;
use super::memory::OwnedBlock;
use super::op::CheckedOp;
use super::raw::{RawFinding, RawPlace, RawWork};
use crate::fact::{Block, CallSite, Nanos};

/// Frees that are kept for ops that are not known yet.
const KEPT_FREES: usize = 1 << 12;

/// Memory that was freed.
pub struct FreedMemory {
    /// When.
    pub time: Nanos,
    /// The call that freed it.
    pub site: CallSite,
    /// The memory.
    pub owned: OwnedBlock,
}

impl FreedMemory {
    /// The finding that these ops are in flight on it, if any of them has none; the newest is the last.
    pub fn found(&self, mut ops: Vec<Rc<CheckedOp>>) -> Option<RawFinding> {
        ops.retain(|op| !op.is_reported.replace(true));
        let last = ops.last()?;
        let others = if ops.len() > 1 { format!(" (and {} more)", ops.len() - 1) } else { String::new() };
        let (base, len) = (self.owned.block.base, self.owned.block.asked());
        let what = format!("{}{others} on them is in flight: nobody has waited for it", last.kind);
        let message = format!("{len} bytes at {base:#x} are freed while a {what}.");
        let mut raw = RawFinding::new(FindingId::Free, self.time, RawPlace::Call(self.site), message);
        raw.work = Some(RawWork::of(last));
        raw.bytes = Some((base, len));
        raw.allocation = Some(self.owned.site);
        raw.speaks_for = ops;
        Some(raw)
    }

    fn is_used_by(&self, op: &CheckedOp, accesses: &[ByteAccess]) -> bool {
        let (at, end) = (self.owned.block.at, self.owned.block.at + self.owned.block.len);
        op.time < self.time && accesses.iter().any(|access| access.start < end && access.end > at)
    }
}

/// Memory that was freed while not all ops before that were known.
#[derive(Default)]
pub struct LateFrees(Vec<FreedMemory>);

impl LateFrees {
    /// How many are kept.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Some memory was freed; `is_all_known` if every op that was submitted before is.
    pub fn add(&mut self, freed: FreedMemory, is_all_known: bool) {
        if is_all_known || self.0.len() >= KEPT_FREES {
            self.0.clear();
        }
        if !is_all_known {
            self.0.push(freed);
        }
    }

    /// An op has become known that nobody had joined: the first free of memory that it uses, and where that
    /// is.
    pub fn found(&self, op: &Rc<CheckedOp>, accesses: &[ByteAccess]) -> Option<(RawFinding, (u64, u64))> {
        let freed = self.0.iter().find(|freed| freed.is_used_by(op, accesses))?;
        let Block { at, len, .. } = freed.owned.block;
        Some((freed.found(vec![op.clone()])?, (at, at + len)))
    }
}
