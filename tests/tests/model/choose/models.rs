//! Models: tasks that are captured on streams of their own and launched on the program's.
//!
//! While a capture goes on, the default stream of its context takes no work, and nobody may wait for the
//! device: the other thread stands still meanwhile, between two barriers.

use super::stream_on;
use crate::build::Builder;
use crate::program::*;
use crate::wish::{Repair, Want, Wish};

impl Builder {
    /// Captures a model of these tasks, and launches it so often, on one stream after the other.
    pub fn model(&mut self, wish: &Wish, tasks: Vec<(Want, bool)>, launches: usize, first: Want) {
        let device = STREAMS[wish.stream];
        let mut numbers = (0..MODELS).filter(|model| STREAMS[streams_of_model(*model)[0]] == device);
        let Some(model) = numbers.find(|model| !self.models.contains_key(model)) else { return };
        let streams = streams_of_model(model);
        let chosen = tasks.into_iter().filter_map(|(want, on_side)| {
            let act = self.choose(&Wish { want, stream: streams[usize::from(on_side)], ..wish.clone() })?;
            self.can_be_captured(&act).then_some(act)
        });
        let tasks: Vec<_> = chosen.collect();
        if tasks.is_empty() || !self.stand_still(wish.thread) {
            return;
        }
        // The first execution is queued when the next one is launched.
        let hold = Act::Hold { gate: self.program.gates, stream: wish.stream };
        self.place(wish.thread, hold, wish.repair);
        self.grant(&Wish { want: first, ..wish.clone() });
        self.models.insert(model, tasks);
        for launch in 0..launches {
            let stream = if launch == 0 { wish.stream } else { stream_on(device, wish.stream + launch) };
            self.launch(wish.thread, model, stream, launch == 0);
        }
        self.barrier();
    }

    /// Launches one of the models once more, perhaps after some of its memory was freed: then that fails.
    pub fn again(&mut self, wish: &Wish, any: usize, frees: bool) {
        let Some(model) = self.models.keys().nth(any % self.models.len().max(1)).copied() else { return };
        let first = self.models[&model].first().map(Act::buffers);
        if let Some(buffer) = first.and_then(|buffers| buffers.first().copied()).filter(|_| frees) {
            let slot = self.program.buffers[buffer].slot;
            self.grant(&Wish { want: Want::Free { slot }, ..wish.clone() });
        }
        let tasks = &self.models[&model];
        let stream = stream_on(STREAMS[streams_of_model(model)[0]], wish.stream);
        let is_there = |b: usize| self.slots[self.program.buffers[b].slot] == Some(b);
        if tasks.iter().flat_map(Act::buffers).all(is_there) {
            if self.stand_still(wish.thread) {
                self.launch(wish.thread, model, stream, false);
                self.barrier();
            }
        } else if !self.stopped[STREAMS[stream]] {
            // The other thread may be the one that frees it.
            self.barrier();
            self.place(wish.thread, Act::Stale { model, stream }, Repair::SyncStream);
        }
    }

    /// Both threads meet, and nothing is under way: what a model does races with nothing.
    fn stand_still(&mut self, thread: usize) -> bool {
        if self.stopped != [false; 2] {
            return false;
        }
        self.barrier();
        (0..2).all(|device| self.place(thread, Act::SyncDevice { device }, Repair::SyncStream))
    }

    /// An execution: the tasks that race with none of the others, between the streams of the model. Those of
    /// the first execution are the tasks of the model.
    fn launch(&mut self, thread: usize, model: usize, stream: usize, captures: bool) {
        let [main, side] = streams_of_model(model);
        self.place(thread, Act::Launch { model, stream, captures }, Repair::SyncStream);
        let mut has_side = false;
        let mut placed = vec![];
        for act in self.models[&model].clone() {
            if self.program.streams(&act) == [side] && !has_side {
                has_side = true;
                self.place(thread, Act::Link { from: main, to: side }, Repair::SyncStream);
            }
            if self.place_alone(thread, act.clone()) {
                placed.push(act);
            }
        }
        if has_side {
            self.place(thread, Act::Link { from: side, to: main }, Repair::SyncStream);
        }
        self.place(thread, Act::Done { model, stream }, Repair::SyncStream);
        if captures {
            self.models.insert(model, placed);
        } else {
            assert_eq!(placed.len(), self.models[&model].len(), "one execution comes after the other");
        }
    }

    /// Whether the task can be captured, and its memory is there as long as it is not freed.
    fn can_be_captured(&self, act: &Act) -> bool {
        let is_task = matches!(self.program.timing(act), Some(Timing::Task { waits: false, .. }));
        let is_kept = |b: &usize| self.program.form(*b) == Form::Plain && self.program.home(*b) != Home::Heap;
        // A copy of nothing does not mind what was freed.
        let has_bytes = match act {
            Act::Fill { dst, .. } => dst.len > 0,
            _ => act.moves().iter().all(|(dst, _)| dst.len > 0),
        };
        is_task && has_bytes && act.buffers().iter().all(is_kept)
    }
}
