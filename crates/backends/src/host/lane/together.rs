//! A lane and the copies that were gathered from its hand: whether any may be, and doing them.

use super::{
    Lane, Quantum, SLICE,
    gather::{Gathering, gather},
};
use crate::bytes::copy::{self, Cursor};
use crate::host::{
    engine::OwnedTeam,
    task::{LateBinding, Task},
};
use ferry_core::{Pieces, Segment};
use std::collections::VecDeque;

impl Lane {
    /// Gathers tasks at the front of the hand, as many as this owner may do.
    pub(super) fn gather(&self, hand: &VecDeque<Task>, turn: &Quantum, late: &mut LateBinding) -> Gathering {
        let most = match turn {
            _ if !self.may_gather() => 0,
            Quantum::Helper { ticket, .. } => ticket.saturating_sub(self.status.passed()) as usize,
            Quantum::Worker { .. } => usize::MAX,
        };
        if hand.front().is_some_and(Task::is_late_bound) {
            late.load(&self.status);
        }
        gather(hand, most, late, &self.engine, self)
    }

    /// Whether nobody is told of each op, and somebody may help. Where a failure stops all, nothing behind an
    /// op that may fail is begun.
    fn may_gather(&self) -> bool {
        let is_told = self.pace.is_some() || self.status.is_observed();
        !is_told && !self.status.stops_all_on_failure() && self.engine.cpus() > 1
    }

    /// Does the work of a team as its owner. Returns whether all of it is done.
    pub(super) fn finish_team(&self, mut team: OwnedTeam, turn: &mut Quantum) -> bool {
        // Which op it was that failed is found out one by one.
        self.finish(turn, || team.step().ok())
    }

    /// Moves what was gathered and is not shared. Returns whether all of it is done.
    pub(super) fn finish_alone(&self, segments: &[Segment], turn: &mut Quantum) -> bool {
        let mut cursor = Cursor::default();
        self.finish(turn, || {
            // SAFETY: the submitter keeps the memory valid until the tasks have passed, and they are in the
            // hand.
            unsafe { copy::advance(Pieces::Segments(segments), &mut cursor, SLICE) }.ok()
        })
    }

    /// Takes steps until one says that it was the last, or that it failed, or until the work is not wanted
    /// any more.
    fn finish(&self, turn: &mut Quantum, mut step: impl FnMut() -> Option<bool>) -> bool {
        while !self.is_aborted() && !self.status.is_halted() && !turn.is_late() {
            match step() {
                Some(false) => turn.count(SLICE),
                done => return done.is_some(),
            }
        }
        false
    }
}
