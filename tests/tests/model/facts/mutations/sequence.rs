//! A program whose steps are made one after the other, in the order of the list.
//!
//! Steps keep their numbers: one that is taken out becomes a barrier, which does nothing here. What the
//! checker's order does not have is taken out of every program: work of a second process, tasks that are
//! dropped, calls that are refused.

use std::collections::HashMap;

use super::races::Touches;
use crate::program::{Act, Batching, EVENTS, Program, Span, Step, Way};

pub struct Sequence {
    pub program: Program,
    /// What each check reads of device memory: the bytes that nothing races with in the whole program.
    pub reads: HashMap<usize, Vec<Span>>,
}

impl Sequence {
    pub fn of(program: &Program) -> Sequence {
        let mut program = program.clone();
        for step in &mut program.steps {
            let is_left_out = matches!(step.act, Act::Abroad { .. } | Act::Refused(_) | Act::Stale { .. });
            if is_left_out || step.act.drops() {
                step.act = Act::Barrier;
            }
        }
        let mut sequence = Sequence { program, reads: HashMap::new() };
        sequence.reads = Touches::of(&sequence).settled();
        sequence
    }

    /// The steps that order others and that can be taken out.
    pub fn removable(&self) -> Vec<usize> {
        let mut is_reset = [false; EVENTS.len()];
        let mut found = vec![];
        for (i, step) in self.program.steps.iter().enumerate() {
            match step.act {
                // A wait for the record after a reset would never end without it.
                Act::Record { event, .. } if std::mem::take(&mut is_reset[event]) => continue,
                Act::Reset { event, .. } => is_reset[event] = true,
                Act::Record { .. } | Act::Wait { .. } | Act::Hold { .. } => {}
                Act::SyncEvent { .. } | Act::SyncStream { .. } | Act::SyncDevice { .. } => {}
                _ => continue,
            }
            found.push(i);
        }
        found
    }

    /// The same without a step.
    pub fn without(&self, step: usize) -> Sequence {
        let mut program = self.program.clone();
        program.steps[step].act = Act::Barrier;
        Sequence { program, reads: self.reads.clone() }
    }

    /// The step as the model takes it: of one thread, and a host function holds nothing up.
    pub fn modelled(&self, step: usize) -> Step {
        let act = match &self.program.steps[step].act {
            Act::Release { .. } => Act::Barrier,
            Act::Hold { stream, .. } => nothing_on(*stream),
            other => other.clone(),
        };
        Step { thread: 0, act }
    }
}

/// A task that touches no bytes.
fn nothing_on(stream: usize) -> Act {
    let how = Batching { split: false, unregistered: false, v2: false };
    Act::Batch { items: vec![], how, way: Way::On(stream) }
}
