//! The tasks of a graph.

use super::group::OpGroup;
use crate::{Fill, Indirect, Linear, Op, Plan, Reduction, Result, Seen, Stream, sync::Arc, uses::Touched};

/// A branch of a graph: the work that one stream was given. The first one is number 0.
pub type Branch = usize;

/// The number of a record in a capture.
pub type Edge = usize;

/// Puts work into a stream. It is called for every execution.
pub type Submit = Arc<dyn Fn(&Arc<Stream>) -> Result<()> + Send + Sync>;

/// One task, and the branch that it belongs to.
pub(super) struct Task {
    /// Its place in the order of the capture; of copies that were coalesced, that of the first.
    pub(super) number: u32,
    pub(super) branch: Branch,
    pub(super) work: Work,
}

/// What a task does at every execution.
pub(super) enum Work {
    /// An op that was planned when it was recorded.
    Op(RepeatedOp),
    /// A function.
    Call(Arc<dyn Fn() + Send + Sync>),
    /// Work that is made anew.
    Each(Submit),
    /// Ops that are read when the branch comes here.
    Group(Arc<OpGroup>),
    /// Nothing: others may wait for the branch to come here.
    Record(Edge),
    /// A wait for a record.
    Wait(Edge),
    /// Nothing: copies on its two sides are not coalesced.
    Barrier,
}

impl Work {
    /// What observers are shown of it.
    pub(super) fn show(&self, to: impl FnOnce(Seen<'_>)) {
        match self {
            Work::Op(op) => to(Seen::Op(&op.op())),
            Work::Call(_) => to(Seen::Op(&Op::Call(Box::new(|| ())))),
            Work::Record(_) => to(Seen::Mark),
            Work::Each(_) | Work::Group(_) | Work::Wait(_) | Work::Barrier => to(Seen::Other),
        }
    }
}

/// An op that can be submitted any number of times.
pub(super) enum RepeatedOp {
    Copy(Plan),
    /// A copy in one piece, and the registered memory that it uses.
    Linear(Linear, Touched),
    CopyThrough(Indirect),
    Fill(Fill),
    Reduce(Box<Reduction>),
}

impl RepeatedOp {
    /// `None` if the op can be submitted once only, or stands for work of other streams.
    pub(super) fn new(op: Op) -> Option<RepeatedOp> {
        Some(match op {
            // A clone has its pieces in memory of our own: a list of the backend's is for one submission.
            Op::Copy(mut plan) => {
                let is_listed = plan.sink().is_some();
                RepeatedOp::Copy(if is_listed { plan.clone() } else { plan })
            }
            Op::CopyThrough(late) => RepeatedOp::CopyThrough(late),
            Op::Fill(fill) => RepeatedOp::Fill(fill),
            Op::Reduce(reduction) => RepeatedOp::Reduce(reduction),
            Op::Wait(_) | Op::After(_) | Op::Call(_) => return None,
        })
    }

    /// Makes it cheap to repeat, when no more copies are added to it.
    pub(super) fn compact(&mut self) {
        let RepeatedOp::Copy(plan) = self else { return };
        match plan.as_linear() {
            Some(copy) => *self = RepeatedOp::Linear(copy, plan.take_touched()),
            None => plan.share_pieces(),
        }
    }

    /// The op, to be submitted once more.
    pub(super) fn op(&self) -> Op {
        match self {
            RepeatedOp::Copy(plan) => Op::Copy(plan.clone()),
            RepeatedOp::Linear(copy, touched) => Op::Copy(Plan::from(*copy).touching(touched.clone())),
            RepeatedOp::CopyThrough(late) => Op::CopyThrough(*late),
            RepeatedOp::Fill(fill) => Op::Fill(*fill),
            RepeatedOp::Reduce(reduction) => Op::Reduce(reduction.clone()),
        }
    }
}
