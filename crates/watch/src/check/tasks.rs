//! The tasks of graphs as they were captured: which call of the program an op of an execution comes from.
//!
//! Copies of a branch that follow each other may be one op in an execution, which names the first of them as
//! its task. Which of them it was is seen by the bytes.

use std::collections::BTreeMap;

use super::accesses;
use super::op::OpKind;
use crate::fact::{CallSite, Captured, TaskId, Work};

/// Tasks that are kept.
const KEPT: usize = 1 << 14;

/// The captured tasks of a process; of many, the newest.
#[derive(Default)]
pub struct CapturedTasks(BTreeMap<TaskId, KeptTask>);

struct KeptTask {
    site: CallSite,
    branch: u32,
    work: Work,
}

/// A call that captured work.
#[derive(Clone, Copy, Debug)]
pub struct CapturingCall {
    /// The task that came of it.
    pub task: TaskId,
    /// The call.
    pub site: CallSite,
    /// What it does with memory.
    pub kind: Option<OpKind>,
}

impl KeptTask {
    fn call(&self, task: TaskId) -> CapturingCall {
        CapturingCall { task, site: self.site, kind: OpKind::of(&self.work) }
    }

    /// Whether it touches the bytes, as far as that is known.
    fn may_touch(&self, (start, end): (u64, u64)) -> bool {
        let pieces = accesses::pieces(&self.work, Vec::new());
        // Of a batch only the first pieces are told.
        let is_partly_known =
            matches!(&self.work, Work::Batch { count, pieces, .. } if *count > pieces.len() as u64);
        let all = accesses::of(&self.work, &pieces);
        is_partly_known || all.iter().any(|access| access.start < end && access.end > start)
    }
}

impl CapturedTasks {
    /// How many are kept.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// A task was captured.
    pub fn add(&mut self, captured: &Captured) {
        let Captured { site, task, branch, work, .. } = captured.clone();
        self.0.insert(task, KeptTask { site, branch, work });
        // The tasks of one graph are kept however many there are.
        let is_other = |oldest: &TaskId| oldest.graph != task.graph;
        if self.0.len() > KEPT && self.0.keys().next().is_some_and(is_other) {
            self.0.pop_first();
        }
    }

    /// The capture of a graph has failed.
    pub fn forget(&mut self, graph: u32) {
        self.0.retain(|task, _| task.graph != graph);
    }

    /// The call that captured what an op with this task does to the bytes.
    pub fn find(&self, task: TaskId, bytes: (u64, u64)) -> Option<CapturingCall> {
        let first = self.0.get(&task)?;
        let mut of_graph = self.0.range(task..=TaskId { task: u32::MAX, ..task });
        let touching = of_graph.find(|(_, other)| other.branch == first.branch && other.may_touch(bytes));
        Some(touching.map_or(first.call(task), |(number, other)| other.call(*number)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::{Piece, Route};

    #[test]
    fn an_op_of_several_copies_comes_from_the_one_that_touches_the_bytes() {
        let mut tasks = CapturedTasks::default();
        let copy =
            |dst| Work::Linear { route: Route::default(), piece: Piece { dst, src: dst + 50, len: 10 } };
        let batch = |count, dst| {
            let pieces = vec![Piece { dst, src: dst + 50, len: 10 }];
            Work::Batch { route: Route::default(), count, bytes: 10 * count, pieces }
        };
        let works = [(0, copy(100)), (1, copy(300)), (0, copy(200)), (0, copy(300)), (0, batch(2, 400))];
        for (number, (branch, work)) in works.into_iter().enumerate() {
            let (site, task) = (CallSite { caller: number as u64, ..CallSite::default() }, number as u32);
            let task = TaskId { graph: 1, task };
            tasks.add(&Captured { time: 0, site, task, branch, work });
        }
        for (task, bytes, want) in [
            (0, (100, 101), 0),
            (0, (205, 300), 2),
            (0, (250, 251), 2),
            (0, (300, 301), 3),
            (1, (300, 301), 1),
            (0, (900, 901), 4),
            (1, (900, 901), 1),
        ] {
            let found =
                tasks.find(TaskId { graph: 1, task }, bytes).map(|call| (call.task.task, call.site.caller));
            assert_eq!(found, Some((want, u64::from(want))), "task {task} at {bytes:?}");
        }
        assert!(tasks.find(TaskId { graph: 2, task: 0 }, (100, 101)).is_none());
        tasks.forget(1);
        assert_eq!(tasks.len(), 0);
    }
}
