//! One piece of a lane's work. Small: work is written by one CPU and read by another, and what travels between them is what a
//! submission costs.

use super::{
    engine::Engine,
    lane::{LaneFence, SLICE, Then},
    team::{LEAST, Opened, Team, Whole},
};
use crate::bytes::{
    copy::{self, Cursor},
    reduce,
};
use ferry_core::{
    Fence, Fill, Indirect, Op, Pieces, Plan, Reduction, Result, Rows, Segment, Status, sync::Arc,
};
use std::{cell::Cell, mem, slice};

/// An op of a queue, or a mark, and how far it has come.
pub enum Work {
    /// Bytes in one piece.
    Linear { dst: usize, src: usize, len: usize, done: usize },
    /// Rows, or the pieces of a batch.
    Rows(Box<(Plan, Cursor)>),
    /// A large copy that others help with.
    Team(Opened),
    /// A copy whose addresses are read when its turn comes.
    Through(Box<Indirect>),
    /// A pattern.
    Fill { dst: usize, len: usize, done: usize, pattern: [u8; 4] },
    /// Memory combined with other memory.
    Reduce { reduction: Box<Reduction>, done: usize },
    /// Nothing, until the fence is done.
    Wait(Arc<dyn Fence>),
    /// The other work, when the fences are done.
    After(Box<(Vec<Arc<dyn Fence>>, Work)>),
    /// A function of the user's.
    Call(Then),
    /// A fence that remembers when it was reached.
    Mark(Arc<LaneFence>),
}

/// What came of one slice of work.
pub enum Step {
    /// The work is complete.
    Done,
    /// There is more of it.
    More,
    /// It cannot go on before the fence is done.
    Blocked(Arc<dyn Fence>),
    /// It is a function to be called where it may block.
    Call(Then),
}

impl From<Op> for Work {
    #[inline]
    fn from(op: Op) -> Work {
        match op {
            Op::Copy(plan) => Work::from(plan),
            Op::CopyThrough(through) => Work::Through(through),
            Op::Fill(Fill { dst, len, pattern, .. }) => Work::Fill { dst, len, done: 0, pattern },
            Op::Reduce(reduction) => Work::Reduce { reduction, done: 0 },
            Op::Wait(fence) => Work::Wait(fence),
            Op::After(after) => {
                let (fences, op) = *after;
                Work::After(Box::new((fences, Work::from(op))))
            }
            Op::Call(function) => Work::Call(function),
        }
    }
}

impl From<Plan> for Work {
    #[inline(always)]
    fn from(plan: Plan) -> Work {
        match plan.pieces() {
            Pieces::Rows([Rows { dst, src, width, height: 1, .. }]) => {
                Work::Linear { dst: *dst, src: *src, len: *width, done: 0 }
            }
            Pieces::Segments([Segment { dst, src, len }]) => {
                Work::Linear { dst: *dst, src: *src, len: *len, done: 0 }
            }
            _ => Work::Rows(Box::new((plan, Cursor::default()))),
        }
    }
}

impl Work {
    /// Does about a slice of the work. The addresses in it are valid: whoever submitted it keeps them so until it has passed.
    pub fn step(&mut self, status: &Status, engine: &Arc<Engine>, lane: usize) -> Step {
        while let Work::After(after) = self {
            match after.0.pop() {
                Some(fence) if fence.is_done() => {}
                Some(fence) => {
                    after.0.push(fence.clone());
                    return Step::Blocked(fence);
                }
                None => *self = mem::replace(&mut after.1, Work::Call(Box::new(|| ()))),
            }
        }
        if let Work::Through(through) = self {
            match resolve(through) {
                Ok(plan) => *self = Work::from(plan),
                Err(error) => {
                    status.fail(error);
                    return Step::Done;
                }
            }
        }
        self.gather(engine, lane);
        let moved = match self {
            Work::Team(team) => team.step(),
            Work::Linear { dst, src, len, done } => {
                let (line, mut cursor) =
                    ([Segment { dst: *dst, src: *src, len: *len }], Cursor::after(*done));
                // SAFETY: see above.
                let moved = unsafe { copy::advance(Pieces::Segments(&line), &mut cursor, SLICE) };
                *done = cursor.bytes();
                moved.map_err(|fault| fault.of_copy(Pieces::Segments(&line)))
            }
            Work::Rows(rows) => {
                let (plan, cursor) = &mut **rows;
                // SAFETY: see above.
                let moved = unsafe { copy::advance(plan.pieces(), cursor, SLICE) };
                moved.map_err(|fault| fault.of_copy(plan.pieces()))
            }
            Work::Fill { dst, len, done, pattern } => {
                let mut cursor = Cursor::after(*done);
                let fill = Fill { dst: *dst, len: *len, pattern: *pattern, device: None };
                // SAFETY: see above.
                let moved = unsafe { copy::fill(&fill, &mut cursor, SLICE) };
                *done = cursor.bytes();
                moved.map_err(|fault| fault.of_fill(&fill))
            }
            Work::Reduce { reduction, done } => {
                // SAFETY: see above.
                let moved = unsafe { reduce::advance(reduction, done, SLICE) };
                moved.map_err(|fault| fault.of_reduction(reduction))
            }
            Work::Wait(fence) if !fence.is_done() => return Step::Blocked(fence.clone()),
            Work::Wait(_) => Ok(true),
            Work::Call(function) => return Step::Call(mem::replace(function, Box::new(|| ()))),
            Work::Mark(mark) => {
                mark.reach(status);
                Ok(true)
            }
            Work::Through(_) | Work::After(_) => unreachable!("resolved above"),
        };
        match moved {
            Ok(true) => Step::Done,
            Ok(false) => Step::More,
            Err(error) => {
                status.fail(error);
                Step::Done
            }
        }
    }

    /// The turn of this work comes soon.
    #[inline]
    pub fn soon(&self) {
        if let Work::Linear { dst, src, .. } = self {
            copy::soon(*dst, *src);
        }
    }

    /// Asks others to help with a large copy that has not begun.
    fn gather(&mut self, engine: &Arc<Engine>, lane: usize) {
        let cpus = engine.cpus();
        let (pieces, portions) = match self {
            Work::Linear { dst, src, len, done: 0 } if *len >= LEAST => {
                let rows = Rows::linear(*dst, *src, *len);
                let Some(portions) = Team::portions(Pieces::Rows(slice::from_ref(&rows)), cpus) else {
                    return;
                };
                (Whole::One(rows), portions)
            }
            Work::Rows(rows) if rows.1 == Cursor::default() && !rows.0.is_ordered() => {
                let Some(portions) = Team::portions(rows.0.pieces(), cpus) else { return };
                let nothing = Work::Fill { dst: 0, len: 0, done: 0, pattern: [0; 4] };
                let Work::Rows(rows) = mem::replace(self, nothing) else { unreachable!("just seen") };
                (Whole::Plan(rows.0), portions)
            }
            _ => return,
        };
        *self = Work::Team(Opened::new(Team::new(pieces, portions, lane, cpus), engine));
    }

    /// Whether it may hold something of the user's, with destructors that do what they like.
    pub fn is_users(&self) -> bool {
        matches!(self, Work::Call(_) | Work::After(_))
    }

    /// Ends the work where it is, if it has begun; returns when no byte of it moves any more.
    pub fn stop(&mut self) {
        if let Work::Team(team) = self {
            team.close();
        }
    }
}

/// Reads the addresses of a copy and plans it.
fn resolve(through: &Indirect) -> Result<Plan> {
    let met = Cell::new(None);
    let word = |addr| {
        // SAFETY: the cells lie in known memory, which stays until the op has passed.
        unsafe { copy::word(addr) }.unwrap_or_else(|fault| {
            met.set(Some(fault));
            0
        })
    };
    let plan = through.resolve(word);
    match met.take() {
        None => plan,
        Some(fault) => {
            Err(fault.of(&format!("{}: the addresses read when the copy ran", through.call), "read"))
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_piece_of_work_is_smaller_than_a_cache_line() {
        assert!(size_of::<Work>() <= 40, "{} bytes", size_of::<Work>());
    }
}
