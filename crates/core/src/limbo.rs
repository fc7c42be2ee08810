//! Freed memory that work in flight may still use.
//!
//! Two generations, so that the cost of a free does not grow with how much is in flight: what is freed joins the young ones; when
//! the old ones are gone the young become old, together with one fence of every line that is busy then. A fence taken later
//! than the free is only more careful.

use crate::{Block, Fence, Result, line::Lines, sync::Arc};
use std::time::Duration;

#[derive(Default)]
pub(crate) struct Limbo {
    young: Vec<Block>,
    old: Vec<Block>,
    until: Vec<Arc<dyn Fence>>,
}

impl Limbo {
    pub(crate) fn add(&mut self, block: Block) {
        self.young.push(block);
    }

    /// The blocks that nothing in flight can use any more.
    pub(crate) fn due(&mut self, lines: &Lines) -> Result<Vec<Block>> {
        let mut due = Vec::new();
        loop {
            while self.until.last().is_some_and(|fence| fence.is_done()) {
                self.until.pop();
            }
            if !self.until.is_empty() {
                return Ok(due);
            }
            due.append(&mut self.old);
            if self.young.is_empty() {
                return Ok(due);
            }
            self.until = lines.busy()?;
            self.old = std::mem::take(&mut self.young);
        }
    }

    /// A fence that holds the old ones up.
    pub(crate) fn held_by(&self) -> Option<Arc<dyn Fence>> {
        self.until.last().cloned()
    }
}

/// How long an allocation that finds no memory waits for freed memory to come back, step by step.
pub(crate) const PATIENCE: [Duration; 6] = {
    let ms = Duration::from_millis;
    [ms(1), ms(10), ms(50), ms(100), ms(200), ms(400)]
};
