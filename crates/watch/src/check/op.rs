//! An op as the checker keeps it.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;

use super::frontiers::HostView;
use super::order::StreamClock;
use crate::fact::{CallSite, Nanos, Point, Route, TaskId, Work};

/// What an op does with memory, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpKind {
    /// A copy.
    Copy(Route),
    /// A copy of a rectangle.
    Rectangle(Route),
    /// So many copies in one.
    Batch(Route, u64),
    /// A copy by descriptor or with offsets, inside this device.
    LateBound(u32),
    /// A fill.
    Fill,
    /// A reduction.
    Reduction,
}

impl OpKind {
    /// What `work` does; `None` if it touches no memory.
    pub fn of(work: &Work) -> Option<OpKind> {
        Some(match work {
            Work::Linear { route, .. } => OpKind::Copy(*route),
            Work::Rows { route, .. } => OpKind::Rectangle(*route),
            Work::Batch { route, count, .. } => OpKind::Batch(*route, *count),
            Work::Through { device, .. } => OpKind::LateBound(*device),
            Work::Fill { .. } => OpKind::Fill,
            Work::Reduce { .. } => OpKind::Reduction,
            Work::Nothing | Work::Mark | Work::Function => return None,
        })
    }
}

impl OpKind {
    /// Between which memory it copies, if it is a copy whose ends are known.
    pub fn route(&self) -> Option<Route> {
        match self {
            OpKind::Copy(route) | OpKind::Rectangle(route) | OpKind::Batch(route, _) => Some(*route),
            OpKind::LateBound(_) | OpKind::Fill | OpKind::Reduction => None,
        }
    }
}

impl fmt::Display for OpKind {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let (what, route) = match self {
            OpKind::Copy(route) => ("copy", route),
            OpKind::Rectangle(route) => ("2-D copy", route),
            OpKind::Batch(route, count) => return write!(f, "batch of {count} copies {}", between(route)),
            OpKind::LateBound(device) => return write!(f, "late-bound copy inside device {device}"),
            OpKind::Fill => return f.write_str("fill"),
            OpKind::Reduction => return f.write_str("reduction"),
        };
        write!(f, "{what} {}", between(route))
    }
}

fn between(route: &Route) -> String {
    let place = |device: Option<u32>| device.map_or("host".into(), |device| format!("device {device}"));
    format!("from {} to {}", place(route.src), place(route.dst))
}

/// An op that reads or writes memory.
pub struct CheckedOp {
    /// Which.
    pub point: Point,
    /// When it was submitted.
    pub time: Nanos,
    /// The call that submitted it.
    pub site: CallSite,
    /// The task of a graph that it is.
    pub task: Option<TaskId>,
    /// What it does.
    pub kind: OpKind,
    /// How many bytes it moves; `None` if its addresses are read when it runs, and were not.
    pub bytes: Option<u64>,
    /// What comes before it in other streams.
    pub clock: Rc<StreamClock>,
    /// What the host knew before it.
    pub view: HostView,
    /// The number of the join by which the host knows that it has passed.
    pub joined_by: Cell<Option<u64>>,
    /// Only another process has waited for it, as far as is known: that orders nothing of third ones.
    pub is_joined_elsewhere: Cell<bool>,
    /// A finding says that the host did not wait for it: that needs no other.
    pub is_reported: Cell<bool>,
    /// A finding says that another op races with it: another mistake, which may be why it is lost.
    pub is_raced: Cell<bool>,
    /// A finding is about what it does, which has nothing to do with waiting for it.
    pub has_finding: Cell<bool>,
}

impl CheckedOp {
    /// How much it moves, for people.
    pub fn extent(&self) -> String {
        self.bytes.map_or("whose addresses were not read yet".to_owned(), |bytes| format!("of {bytes} bytes"))
    }

    /// Whether this op has always passed when `later` begins.
    pub fn comes_before(&self, later: &CheckedOp) -> bool {
        if self.point.stream == later.point.stream {
            return self.point.ticket <= later.point.ticket;
        }
        let before = later.clock.get(&self.point.stream);
        before.is_some_and(|ticket| self.point.ticket <= *ticket)
            || self.joined_by.get().is_some_and(|join| join <= later.view.join)
    }

    /// Whether this op has passed wherever `later` counts as passed, also if that is aborted.
    pub fn is_covered_by(&self, later: &CheckedOp) -> bool {
        self.comes_before(later) && (self.point.stream == later.point.stream || self.is_joined())
    }

    /// The same as [`comes_before`](Self::comes_before), and not the other way round: an op is not strictly
    /// before itself.
    pub fn is_strictly_before(&self, later: &CheckedOp) -> bool {
        self.comes_before(later) && !later.comes_before(self)
    }

    /// Whether one of the two has always passed when the other begins, whichever was launched first: an
    /// execution of a graph that was deferred comes with its call, and later in the streams of the graph.
    pub fn is_ordered_with(&self, other: &CheckedOp) -> bool {
        self.comes_before(other) || other.comes_before(self)
    }

    /// Whether the host has joined it.
    pub fn is_joined(&self) -> bool {
        self.joined_by.get().is_some()
    }

    /// Whether this process has joined it itself.
    pub fn is_joined_here(&self) -> bool {
        self.is_joined() && !self.is_joined_elsewhere.get()
    }
}
