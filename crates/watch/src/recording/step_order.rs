//! The order of steps that a recording implies, besides that of each thread, and an order of time that keeps
//! to it.

use super::model::{RecordedOp, RecordedWait, RecordedWork, Recording, StepAction};
use crate::fact::Point;
use std::{
    cmp::Reverse,
    collections::{BTreeSet, BinaryHeap, HashMap},
};

/// For each step, the steps that must be done before it because it uses what they make, or takes away what
/// they use: streams, memory, ops that are waited for, and the order of each stream. The order of a thread's
/// own steps is not among them.
pub fn dependencies(recording: &Recording) -> Vec<Vec<usize>> {
    let mut finder = Finder::new(recording);
    let found = (0..recording.steps.len()).map(|step| finder.before(step));
    found.collect()
}

/// The allocations that an op uses.
pub fn used_allocations(op: &RecordedOp) -> BTreeSet<u32> {
    let fill = match &op.work {
        RecordedWork::Fill { dst, .. } => Some(dst.allocation),
        _ => None,
    };
    let ends = op.work.rects().iter().flat_map(|rect| [rect.dst.allocation, rect.src.allocation]);
    ends.chain(fill).collect()
}

/// Puts the steps of a recording in the order of their times, as far as the order of threads and what steps
/// make and use allows.
pub fn sort_steps(recording: &mut Recording) {
    let mut waiting: Vec<usize> = vec![0; recording.steps.len()];
    let mut followers: Vec<Vec<usize>> = vec![Vec::new(); recording.steps.len()];
    let mut newest: HashMap<u32, usize> = HashMap::new();
    for (step, mut before) in dependencies(recording).into_iter().enumerate() {
        before.extend(newest.insert(recording.steps[step].thread, step));
        before.iter().for_each(|earlier| followers[*earlier].push(step));
        waiting[step] = before.len();
    }
    let time = |step: usize| Reverse((recording.steps[step].time, step));
    let mut ready: BinaryHeap<_> = (0..waiting.len()).filter(|step| waiting[*step] == 0).map(time).collect();
    let mut order = Vec::with_capacity(waiting.len());
    let mut is_done = vec![false; waiting.len()];
    let mut stuck = 0;
    while order.len() < waiting.len() {
        let Some(Reverse((_, step))) = ready.pop() else {
            // Only a file that contradicts itself has a circle: it is opened at the first step that is left.
            while is_done[stuck] {
                stuck += 1;
            }
            ready.push(time(stuck));
            continue;
        };
        if std::mem::replace(&mut is_done[step], true) {
            continue;
        }
        order.push(step);
        for next in &followers[step] {
            waiting[*next] = waiting[*next].saturating_sub(1);
            if waiting[*next] == 0 && !is_done[*next] {
                ready.push(time(*next));
            }
        }
    }
    let mut steps: Vec<_> = recording.steps.drain(..).map(Some).collect();
    recording.steps = order.into_iter().filter_map(|step| steps[step].take()).collect();
}

/// Where in the list of steps things are.
struct Finder<'a> {
    recording: &'a Recording,
    streams: HashMap<u32, usize>,
    allocations: HashMap<u32, usize>,
    /// The step that submitted each op.
    submits: Vec<Option<usize>>,
    /// The step that submitted the op before, in the stream of each op.
    before_in_stream: HashMap<Point, usize>,
    /// The steps that use each allocation.
    users: HashMap<u32, Vec<usize>>,
    /// The steps that submit to each stream.
    submitters: HashMap<u32, Vec<usize>>,
    captures: HashMap<u32, usize>,
}

impl<'a> Finder<'a> {
    fn new(recording: &'a Recording) -> Finder<'a> {
        let mut finder = Finder {
            recording,
            streams: HashMap::new(),
            allocations: HashMap::new(),
            submits: vec![None; recording.ops.len()],
            before_in_stream: HashMap::new(),
            users: HashMap::new(),
            submitters: HashMap::new(),
            captures: HashMap::new(),
        };
        let mut points: Vec<(Point, usize)> = Vec::new();
        for (step, did) in recording.steps.iter().enumerate() {
            match &did.action {
                StepAction::MakeStream(stream) => drop(finder.streams.insert(*stream, step)),
                StepAction::Allocate(allocation) => drop(finder.allocations.insert(*allocation, step)),
                StepAction::EndCapture { graph } => drop(finder.captures.insert(*graph, step)),
                StepAction::Submit(op) => {
                    finder.submits[*op] = Some(step);
                    let op = &recording.ops[*op];
                    points.push((op.point, step));
                    finder.submitters.entry(op.point.stream).or_default().push(step);
                    for allocation in used_allocations(op) {
                        finder.users.entry(allocation).or_default().push(step);
                    }
                }
                _ => {}
            }
        }
        points.sort_unstable();
        for pair in points.windows(2) {
            let [(before, step), (point, _)] = pair else { continue };
            if before.stream == point.stream && before.ticket < point.ticket {
                finder.before_in_stream.insert(*point, *step);
            }
        }
        finder
    }

    fn submit_of(&self, point: Point) -> Option<usize> {
        self.recording.op_at(point).and_then(|op| self.submits[op])
    }

    fn before(&mut self, step: usize) -> Vec<usize> {
        let mut before = BTreeSet::new();
        match &self.recording.steps[step].action {
            StepAction::Submit(op) => {
                let op = &self.recording.ops[*op];
                before.extend(self.streams.get(&op.point.stream));
                before.extend(self.before_in_stream.get(&op.point));
                let allocations = used_allocations(op);
                before.extend(allocations.iter().filter_map(|allocation| self.allocations.get(allocation)));
                before.extend(op.awaits.iter().filter_map(|awaited| match awaited {
                    RecordedWait::Point(point) => self.submit_of(*point),
                    RecordedWait::Promised(_) | RecordedWait::Never | RecordedWait::Outside => None,
                }));
            }
            StepAction::Join { point, .. } => before.extend(self.submit_of(*point)),
            StepAction::Free(allocation) => {
                before.extend(self.allocations.get(allocation));
                before.extend(self.users.remove(allocation).unwrap_or_default());
            }
            StepAction::DropStream(stream) => {
                before.extend(self.streams.get(stream));
                before.extend(self.submitters.remove(stream).unwrap_or_default());
            }
            StepAction::Launch { graph, point } => {
                before.extend(self.captures.get(graph));
                before.extend(self.submit_of(*point));
            }
            _ => {}
        }
        before.remove(&step);
        before.into_iter().collect()
    }
}
