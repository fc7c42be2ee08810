//! Freed memory that work in flight may still use.
//!
//! Two generations, so that the cost of a free does not grow with how much is in flight: what is freed joins the young ones; when
//! the old ones are gone the young become old, together with a hold of every line that is busy then. A hold taken later than the
//! free is only more careful.

use crate::{
    Block, Fence, Home, Origin, Result,
    line::{Hold, Lines},
    sync::Arc,
};
use std::time::Duration;

/// How long an allocation that finds no room waits for freed memory to come back.
pub const PATIENCE: Duration = Duration::from_millis(750);
/// How long it waits before it looks again.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(5);

#[derive(Default)]
pub(crate) struct Limbo {
    young: Vec<Block>,
    old: Vec<Block>,
    until: Vec<Hold>,
}

impl Limbo {
    pub(crate) fn add(&mut self, block: Block) {
        self.young.push(block);
    }

    /// The blocks that nothing in flight can use any more.
    pub(crate) fn due(&mut self, lines: &Lines) -> Result<Vec<Block>> {
        let mut due = Vec::new();
        loop {
            while self.until.last().is_some_and(Hold::is_over) {
                self.until.pop();
            }
            if !self.until.is_empty() {
                return Ok(due);
            }
            due.append(&mut self.old);
            if self.young.is_empty() {
                return Ok(due);
            }
            match lines.busy() {
                Ok(until) => (self.until, self.old) = (until, std::mem::take(&mut self.young)),
                Err(error) if due.is_empty() => return Err(error),
                Err(_) => return Ok(due),
            }
        }
    }

    /// What holds the old ones up, if memory of this home is among all that waits.
    pub(crate) fn held_by(&self, home: Home) -> Option<Arc<dyn Fence>> {
        let mut waiting = self.young.iter().chain(&self.old);
        self.until.last().filter(|_| waiting.any(|block| block.home == home)).map(|hold| hold.fence.clone())
    }

    /// Allocated bytes of this home among all that waits.
    pub(crate) fn bytes(&self, home: Home) -> usize {
        let all = self.young.iter().chain(&self.old);
        all.filter(|block| (block.home, block.origin) == (home, Origin::Allocated))
            .map(|block| block.len)
            .sum()
    }
}
