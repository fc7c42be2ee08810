//! An order of submission for graphs whose branches were filled independently: a branch may have been given
//! its tasks before another one that is to start it.

use super::task::{Branch, Edge, Task, Work};
use std::collections::{HashMap, HashSet, VecDeque};

/// The tasks in an order in which every wait comes behind its record. A branch starts with the graph if it is
/// among `heads`, or behind the record of `starts`. Tasks that nothing leads to are left out.
pub(super) fn in_order(
    tasks: Vec<Task>,
    branches: usize,
    heads: &[Branch],
    starts: &HashMap<Branch, Edge>,
) -> Vec<Task> {
    let mut waiting: Vec<VecDeque<Task>> = (0..branches).map(|_| VecDeque::new()).collect();
    tasks.into_iter().for_each(|task| waiting[task.branch].push_back(task));
    for (branch, edge) in starts {
        // The wait has no place of its own in the capture: it counts as the first task behind it.
        let number = waiting[*branch].front().map_or(0, |task| task.number);
        waiting[*branch].push_front(Task { number, branch: *branch, work: Work::Wait(*edge) });
    }
    let mut recorded: HashSet<Edge> = HashSet::new();
    let mut ordered = Vec::new();
    loop {
        let before = ordered.len();
        for (branch, queue) in waiting.iter_mut().enumerate() {
            let starts_here = heads.contains(&branch) || starts.contains_key(&branch);
            while let Some(task) = queue.front().filter(|_| starts_here) {
                match task.work {
                    Work::Wait(edge) if !recorded.contains(&edge) => break,
                    Work::Record(edge) => drop(recorded.insert(edge)),
                    _ => {}
                }
                ordered.extend(queue.pop_front());
            }
        }
        if ordered.len() == before {
            return ordered;
        }
    }
}
