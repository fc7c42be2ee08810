//! What the stand-in does about page-locked buffers that copies own.

use std::sync::MutexGuard;

use super::{State, Task, Toy};
use crate::fault::Fault;
use crate::program::Act;

impl Toy<'_> {
    /// Has a copy, the next task of the stream, take its buffers: it waits for the copies that had them.
    pub(super) fn take(&self, state: &mut State, act: &Act, stream: usize) -> Vec<usize> {
        let taken = state.lent.taken(self.program, act);
        let mut before = state.lent.copies(&taken).to_vec();
        if self.has(Fault::FollowsTheLast) {
            before.drain(..before.len().saturating_sub(1));
        }
        if self.has(Fault::ForgetsToken) {
            before.clear();
        }
        for copy in before {
            let (other, count) = state.marks[copy];
            self.submit(state, stream, Task::Wait(other, count));
        }
        state.lent.launch(&taken, state.marks.len());
        state.marks.push((stream, state.streams[stream].submitted + 1));
        taken
    }

    /// Waits for every copy that has the buffer.
    pub(super) fn land<'s>(&self, mut state: MutexGuard<'s, State>, buffer: usize) -> MutexGuard<'s, State> {
        let mut copies = state.lent.land(buffer);
        if self.has(Fault::LandsEarly) {
            return state;
        }
        if self.has(Fault::LandsByTheLast) {
            copies.drain(..copies.len().saturating_sub(1));
        }
        for copy in copies {
            let (stream, count) = state.marks[copy];
            state = self.reach(state, stream, count);
        }
        state
    }
}
