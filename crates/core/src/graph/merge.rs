//! Coalescing of the copies of a graph: copies that follow each other on a branch, and of which none touches
//! what another one writes, become one plan. An execution then submits one op in place of thousands, and the
//! backend moves them as it moves a batch.
//!
//! The pieces of a plan are moved in any order, and a stream's copies are not: a program may copy data and
//! then a flag behind it, and poll the flag. So copies that are as short as a flag are coalesced with each
//! other only.

use super::task::{RepeatedOp, Task, Work};
use crate::Plan;
use std::collections::{BTreeMap, HashMap};

/// How many pieces one plan may have: longer ones gain nothing.
const MAX_PIECES: usize = 1 << 16;

/// A copy of so many bytes may be a flag that tells others of the copies before it.
const LONGEST_FLAG: usize = 64;

/// The tasks, with copies coalesced. A plan of several stands where the first of them stood.
pub(super) fn merge_copies(tasks: Vec<Task>) -> Vec<Task> {
    let mut merged: Vec<Task> = Vec::with_capacity(tasks.len());
    // The newest task of each branch that more copies may be added to.
    let mut open: HashMap<usize, (usize, Hazards)> = HashMap::new();
    for Task { number, branch, work } in tasks {
        let Work::Op(RepeatedOp::Copy(plan)) = work else {
            open.remove(&branch);
            merged.push(Task { number, branch, work });
            continue;
        };
        if let Some((place, hazards)) = open.get_mut(&branch)
            && let Work::Op(RepeatedOp::Copy(first)) = &mut merged[*place].work
            && can_join(first, &plan)
            && hazards.add(&plan)
        {
            first.join(plan);
            continue;
        }
        let mut hazards = Hazards::default();
        if hazards.add(&plan) {
            open.insert(branch, (merged.len(), hazards));
        } else {
            open.remove(&branch);
        }
        merged.push(Task { number, branch, work: Work::Op(RepeatedOp::Copy(plan)) });
    }
    for task in &mut merged {
        if let Work::Op(op) = &mut task.work {
            op.compact();
        }
    }
    merged
}

/// Whether the two plans can be one, if nothing speaks against it in the memory that they touch.
fn can_join(first: &Plan, second: &Plan) -> bool {
    let are_plain = !first.is_ordered() && !second.is_ordered();
    if is_flag(first) != is_flag(second) {
        return false;
    }
    let is_short = first.pieces().len() + second.pieces().len() <= MAX_PIECES;
    are_plain
        && is_short
        && first.has_one_route()
        && second.has_one_route()
        && first.route() == second.route()
}

/// Whether no piece of the plan is longer than a flag.
fn is_flag(plan: &Plan) -> bool {
    plan.sizes().longest <= LONGEST_FLAG
}

/// The memory that some copies touch, as ranges by where they begin, each with its end.
#[derive(Default)]
struct Hazards {
    read: BTreeMap<usize, usize>,
    written: BTreeMap<usize, usize>,
}

impl Hazards {
    /// Adds the ranges of a plan, unless it writes what another plan touches or reads what another one
    /// writes.
    fn add(&mut self, plan: &Plan) -> bool {
        let ranges = plan.pieces().iter().map(|rows| (rows.read(), rows.written()));
        let (reads, writes): (Vec<_>, Vec<_>) = ranges.unzip();
        let is_free = writes.iter().all(|write| !meets(&self.read, *write) && !meets(&self.written, *write))
            && reads.iter().all(|read| !meets(&self.written, *read));
        if is_free {
            reads.into_iter().for_each(|read| insert(&mut self.read, read));
            writes.into_iter().for_each(|write| insert(&mut self.written, write));
        }
        is_free
    }
}

/// Whether a range has a byte in common with one of `ranges`, which have none in common with each other.
fn meets(ranges: &BTreeMap<usize, usize>, (start, end): (usize, usize)) -> bool {
    ranges.range(..end).next_back().is_some_and(|(_, last)| *last > start)
}

/// Adds a range, joined with those that it meets.
fn insert(ranges: &mut BTreeMap<usize, usize>, (mut start, mut end): (usize, usize)) {
    while let Some((&first, &last)) = ranges.range(..=end).next_back()
        && last >= start
    {
        ranges.remove(&first);
        (start, end) = (start.min(first), end.max(last));
    }
    ranges.insert(start, end);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_meet_are_joined() {
        let mut ranges = BTreeMap::new();
        [(10, 20), (40, 50), (20, 30), (45, 60), (0, 5)]
            .into_iter()
            .for_each(|range| insert(&mut ranges, range));
        assert_eq!(ranges.clone().into_iter().collect::<Vec<_>>(), [(0, 5), (10, 30), (40, 60)]);
        for (range, want) in
            [((5, 10), false), ((30, 40), false), ((29, 31), true), ((0, 1), true), ((60, 70), false)]
        {
            assert_eq!(meets(&ranges, range), want, "{range:?}");
        }
        insert(&mut ranges, (3, 55));
        assert_eq!(ranges.into_iter().collect::<Vec<_>>(), [(0, 60)]);
    }
}
