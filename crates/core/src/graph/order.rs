//! An order of submission for graphs whose branches were filled independently: a branch may have been given
//! its tasks before another one that is to start it.

use super::task::{Branch, Edge, Task, Work};
use std::collections::{HashMap, HashSet, VecDeque};

/// A place in the order.
#[derive(Clone, Copy)]
enum OrderPlace {
    /// The task of this index.
    Task(usize),
    /// The start of a branch behind the record of another one. It has no place of its own in the capture, and
    /// counts as the first task behind it, which has this number.
    Start { edge: Edge, number: u32 },
}

/// How the tasks of a graph follow each other.
pub(super) struct TaskOrder {
    places: Vec<(Branch, OrderPlace)>,
    /// A branch that begins and comes to a wait whose record no branch comes to.
    pub(super) stuck: Option<Branch>,
}

impl TaskOrder {
    /// An order in which every wait comes behind its record. A branch starts with the graph if it is among
    /// `heads`, or behind the record of `starts`. Tasks that nothing leads to are left out.
    pub(super) fn new(
        tasks: &[Task],
        branches: usize,
        heads: &[Branch],
        starts: &HashMap<Branch, Edge>,
    ) -> TaskOrder {
        let mut waiting: Vec<VecDeque<OrderPlace>> = vec![VecDeque::new(); branches];
        for (index, task) in tasks.iter().enumerate() {
            waiting[task.branch].push_back(OrderPlace::Task(index));
        }
        for (branch, edge) in starts {
            let number = tasks.iter().find(|task| task.branch == *branch).map_or(0, |task| task.number);
            waiting[*branch].push_front(OrderPlace::Start { edge: *edge, number });
        }
        let mut has_begun: Vec<bool> = (0..branches).map(|branch| heads.contains(&branch)).collect();
        let (mut recorded, mut places): (HashSet<Edge>, _) = Default::default();
        loop {
            let before = Vec::len(&places);
            for (branch, queue) in waiting.iter_mut().enumerate() {
                while let Some(place) = queue.front() {
                    match place {
                        OrderPlace::Start { edge, .. } if !recorded.contains(edge) => break,
                        OrderPlace::Start { .. } => has_begun[branch] = true,
                        OrderPlace::Task(_) if !has_begun[branch] => break,
                        OrderPlace::Task(index) => match &tasks[*index].work {
                            Work::Wait(edge) if !recorded.contains(edge) => break,
                            Work::Record(edge) => drop(recorded.insert(*edge)),
                            _ => {}
                        },
                    }
                    places.extend(queue.pop_front().map(|place| (branch, place)));
                }
            }
            if places.len() == before {
                let is_stuck = |branch: &Branch| has_begun[*branch] && !waiting[*branch].is_empty();
                return TaskOrder { places, stuck: (0..branches).find(is_stuck) };
            }
        }
    }

    /// The tasks in this order, which was made for them.
    pub(super) fn apply(self, tasks: Vec<Task>) -> Vec<Task> {
        let mut tasks: Vec<_> = tasks.into_iter().map(Some).collect();
        let mut put = |(branch, place)| match place {
            OrderPlace::Task(index) => tasks[index].take(),
            OrderPlace::Start { edge, number } => Some(Task { number, branch, work: Work::Wait(edge) }),
        };
        self.places.into_iter().filter_map(&mut put).collect()
    }
}
