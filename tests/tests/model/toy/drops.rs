//! What the stand-in refuses, and what it drops.

use super::{State, Task, Toy};
use crate::fault::Fault;
use crate::layout::Layout;
use crate::program::{Act, CELLS, STREAMS, Span};

impl Toy<'_> {
    /// A call that must be refused: it is if it reaches into a hole, or gives up addresses where something is
    /// mapped.
    pub(super) fn refuse(&self, state: &mut State, act: &Act) -> Result<(), String> {
        let hole = state.layout.real(self.program, act).is_none();
        let mut streams = self.program.streams(act).into_iter();
        if streams.any(|s| state.stopped[STREAMS[s]]) {
            return if self.has(Fault::HaltTakesMore) { Err("was accepted".into()) } else { Ok(()) };
        }
        if self.has(Fault::TakesHoles) && hole {
            return Err("was accepted".into());
        }
        if self.has(Fault::RefusesLate) {
            let layout = state.layout.clone();
            for (dst, src) in act.moves() {
                let len = [dst, src].map(|span| layout.until_hole(self.program, span));
                let len = len[0].min(len[1]);
                let first =
                    Act::RunDesc { desc: 0, dst: Span { len, ..dst }, src: Span { len, ..src }, stream: 0 };
                let moves = layout.real(self.program, &first).unwrap_or_default().moves;
                self.copy(state, &moves);
            }
        }
        let in_use = matches!(act, Act::Free { buffer } if state.layout.cells(*buffer) != [None; CELLS]);
        let across = Layout::is_mapped_across(self.program, act);
        if hole || in_use || across { Ok(()) } else { Err("was accepted".into()) }
    }

    /// Drops what a stream has not done. A copy may have been begun.
    pub(super) fn abort(&self, state: &mut State, stream: usize) {
        let queue = &mut state.streams[stream];
        let mut tasks = std::mem::take(&mut queue.tasks);
        queue.done = queue.submitted;
        queue.drops_next = self.has(Fault::AbortDropsNext);
        match tasks.front() {
            Some(Task::Move(moves)) if state.random >> 12 & 1 == 0 => {
                let half = moves.len().div_ceil(2);
                self.copy(state, &moves.clone()[..half]);
            }
            Some(Task::Put(parts)) if self.has(Fault::AbortTears) => {
                parts
                    .clone()
                    .iter()
                    .for_each(|(dst, bytes)| self.store(state, *dst, &vec![0x5a; bytes.len()]));
            }
            _ => {}
        }
        let copy = |task: &Task| matches!(task, Task::Move(_) | Task::Put(_));
        if self.has(Fault::AbortKeepsOne)
            && let Some(kept) = tasks.iter().rposition(copy)
        {
            state.streams[stream].tasks.extend(tasks.remove(kept));
            state.streams[stream].done -= 1;
        }
        if self.has(Fault::AbortsNeighbour) {
            let next = (0..STREAMS.len()).find(|s| *s != stream && STREAMS[*s] == STREAMS[stream]);
            let other = &mut state.streams[next.expect("two streams on each device")];
            other.tasks.clear();
            other.done = other.submitted;
        }
        self.changed.notify_all();
    }

    /// Drops queued copies of a buffer's bytes.
    pub(super) fn drop_copies(&self, state: &mut State, buffer: usize) {
        let keep = |(d, s): &(Span, Span)| d.buffer != buffer && s.buffer != buffer;
        for task in state.streams.iter_mut().flat_map(|stream| &mut stream.tasks) {
            if let Task::Move(moves) = task {
                moves.retain(keep);
            }
        }
    }
}
