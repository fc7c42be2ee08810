//! What an op touches and awaits, as both ways to see accesses need it.

use crate::watching::translate;
use ferry_core::{Fence, Gate, Op, Point, Seen, indirect::Through};
use ferry_watch::fact::{self, Awaited};
use std::{cell::RefCell, sync::Arc};

thread_local! {
    /// What the ops of this thread come after and do not wait for.
    static OVER: RefCell<Vec<Awaited>> = const { RefCell::new(Vec::new()) };
}

/// The streams of one engine, which facts count from this number on.
#[derive(Clone, Copy)]
pub(super) struct StreamNumbers(pub(super) u32);

impl StreamNumbers {
    pub(super) fn point(self, point: Point) -> fact::Point {
        fact::Point { stream: self.0 + point.stream as u32, ticket: point.ticket }
    }

    /// What passes before an op, besides the op before it in its stream.
    pub(super) fn awaits(self, what: Seen<'_>) -> Vec<Awaited> {
        let mut all = OVER.try_with(|over| over.borrow().clone()).unwrap_or_default();
        all.extend(fences(what).filter_map(|fence| self.awaited(fence)));
        all
    }

    fn awaited(self, fence: &Arc<dyn Fence>) -> Option<Awaited> {
        let gate = || fence.native().downcast_ref::<Gate>();
        let known = fence.point().or_else(|| gate()?.stands_for());
        known
            .map(|point| Awaited::Point(self.point(point)))
            .or_else(|| Some(Awaited::Later(gate()?.number())))
    }

    /// What this thread submits next comes after these.
    pub(super) fn follow(self, over: &[Point]) {
        let points = over.iter().map(|point| Awaited::Point(self.point(*point)));
        let _ = OVER.try_with(|over| *over.borrow_mut() = points.collect());
    }
}

/// What the op waits for, besides the op before it in its stream.
fn fences(what: Seen<'_>) -> impl Iterator<Item = &Arc<dyn Fence>> {
    let first = if let Seen::Op(op) = what { Some(op) } else { None };
    let ops =
        std::iter::successors(first, |op| if let Op::After(after) = op { Some(&after.1) } else { None });
    ops.flat_map(|op| match op {
        Op::Wait(fence) => std::slice::from_ref(fence),
        Op::After(after) => &after.0,
        _ => &[],
    })
}

/// Whether the op waits for something that is still to come, which may be the end of a callback.
pub(super) fn is_wait_for_gate(what: Seen<'_>) -> bool {
    fences(what).any(|fence| fence.point().is_none() && fence.native().is::<Gate>())
}

/// Calls `end` with each range of memory that an op reads or writes: the engine's address, the length, and
/// whether it is written.
pub(super) fn ends(what: Seen<'_>, end: &mut impl FnMut(usize, usize, bool)) {
    match what {
        Seen::Linear(copy) => {
            let segment = copy.segment();
            end(segment.src, segment.len, false);
            end(segment.dst, segment.len, true);
        }
        Seen::Op(op) => ends_of(op, end),
        Seen::Mark | Seen::Other => {}
    }
}

fn ends_of(op: &Op, end: &mut impl FnMut(usize, usize, bool)) {
    match op {
        Op::Copy(plan) => {
            for piece in plan.pieces().iter().flat_map(translate::lines) {
                end(piece.src as usize, piece.len as usize, false);
                end(piece.dst as usize, piece.len as usize, true);
            }
        }
        Op::Fill(fill) => end(fill.dst, fill.len, true),
        // Where its addresses are read; what they are is not known yet, and it is memory of a device.
        Op::CopyThrough(late) => {
            if let Through::Cells { dst, src, .. } = late.through {
                [dst, src].iter().for_each(|cell| end(cell.at, size_of::<u64>(), false));
            }
        }
        Op::After(after) => ends_of(&after.1, end),
        _ => {}
    }
}

/// Whether the op runs a function on the host.
pub(super) fn is_function(what: Seen<'_>) -> bool {
    matches!(innermost(what), Some(Op::Call(_)))
}

/// Whether the op reads its addresses when it runs.
pub(super) fn is_late_bound(what: Seen<'_>) -> bool {
    matches!(innermost(what), Some(Op::CopyThrough(_)))
}

fn innermost(what: Seen<'_>) -> Option<&Op> {
    let mut op = if let Seen::Op(op) = what { Some(op) } else { None };
    while let Some(Op::After(after)) = op {
        op = Some(&after.1);
    }
    op
}
