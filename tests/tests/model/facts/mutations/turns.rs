//! Makes the steps of a program one after the other, each on its thread.

use std::sync::Mutex;
use std::sync::mpsc;

use super::super::Marked;
use super::sequence::Sequence;
use crate::capi::Capi;
use crate::program::{Act, Home, Program};
use crate::run::{Executor, Watch};
use crate::show::Shown;

/// Runs the program; the error names the step that failed.
pub fn run(sequence: &Sequence, capi: &Capi) -> Result<(), String> {
    let turns =
        Turns { sequence, capi, marked: Marked::new(&sequence.program, capi), held: Mutex::default() };
    let steps = &sequence.program.steps;
    let watch = Watch::new(&sequence.program);
    let ran = std::thread::scope(|scope| {
        let ((to, steps_of_other), (answer, answers)) = (mpsc::channel(), mpsc::channel());
        let turns = &turns;
        scope.spawn(move || steps_of_other.iter().try_for_each(|i| answer.send(turns.perform(i))));
        steps.iter().enumerate().try_for_each(|(i, step)| match step.thread {
            0 => turns.perform(i),
            _ => {
                to.send(i).expect("the other thread waits for steps");
                answers.recv().expect("the other thread answers")
            }
        })
    });
    drop(watch);
    ran
}

struct Turns<'a> {
    sequence: &'a Sequence,
    capi: &'a Capi<'a>,
    marked: Marked<'a>,
    /// Gates that were closed and not released.
    held: Mutex<Vec<usize>>,
}

impl Turns<'_> {
    fn perform(&self, i: usize) -> Result<(), String> {
        let program = &self.sequence.program;
        let step = &program.steps[i];
        let mut held = self.held.lock().expect("nobody panics");
        match &step.act {
            Act::Hold { gate, .. } => held.push(*gate),
            Act::Release { gate } => held.retain(|other| other != gate),
            // The thread that would open the gates has its turn only when this is over.
            act if program.waits(act) => {
                held.drain(..).try_for_each(|gate| self.capi.perform(step.thread, &Act::Release { gate }))?;
            }
            _ => {}
        }
        let done = match &step.act {
            Act::Barrier => Ok(()),
            Act::Check { .. } => self.check(i),
            Act::Free { buffer } if is_plain(program, *buffer) => Ok(()),
            act => self.marked.perform(step.thread, act),
        };
        done.map_err(|why| format!("step {i}, {}: {why}", Shown(program, step)))
    }

    /// Reads what the check reads of device memory.
    fn check(&self, i: usize) -> Result<(), String> {
        let thread = self.sequence.program.steps[i].thread;
        self.marked.within(i, || {
            self.sequence
                .reads
                .get(&i)
                .into_iter()
                .flatten()
                .try_for_each(|span| self.capi.read(thread, span.buffer, span.at, &mut vec![0; span.len]))
        })
    }
}

/// Memory of the C library is kept to the end: without some order a copy may still use it.
fn is_plain(program: &Program, buffer: usize) -> bool {
    program.home(buffer) == Home::Heap
}
