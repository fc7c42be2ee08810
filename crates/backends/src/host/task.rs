//! One piece of a lane's work. Small: work is written by one CPU and read by another, and what travels
//! between them is what a submission costs.

use super::{
    engine::{Engine, OwnedTeam},
    team::{Team, TeamWork},
};
use crate::bytes::{
    copy::{self, Cursor},
    reduce,
};
use crate::pool::Job;
use ferry_core::{
    Fence, Fill, Indirect, Op, Pieces, Plan, Reduction, Result, Rows, Segment, Status,
    indirect::{DESCRIPTOR_LEN, DESCRIPTOR_WORDS, Through},
    sync::Arc,
};
use std::{cell::Cell, mem, ops::Range, slice};

/// What is moved before the thread that moves it looks up: a timeout or an abort waits no longer than this.
pub const SLICE: usize = 1 << 20;
/// Copies and fills of no more than this are done in microseconds.
pub const QUICK_BYTES: usize = 64 << 10;
/// What a thread copies in less time than it takes to hand a copy over and to interrupt another processor.
const SHORT_BYTES: usize = 256 << 10;

/// An op of a queue, or a mark, and how far it has come.
pub enum Task {
    /// Bytes in one piece.
    Linear { dst: usize, src: usize, len: usize, done: usize },
    /// Rows, or the pieces of a batch.
    Rows(Box<(Plan, Cursor)>),
    /// A large copy or fill that others help with.
    Team(OwnedTeam),
    /// A copy whose addresses are read when its turn comes.
    Through(Box<Indirect>),
    /// The same through a descriptor, at the engine's and the user's address. What such copies of a lane have
    /// in common is with the lane: [`LateBinding`].
    Descriptor { at: usize, user: usize },
    /// A pattern.
    Fill { dst: usize, len: usize, done: usize, pattern: [u8; 4] },
    /// Memory combined with other memory.
    Reduce { reduction: Box<Reduction>, done: usize },
    /// Nothing, until the fence is done.
    Wait(Arc<dyn Fence>),
    /// The other work, when the fences are done.
    After(Box<(Vec<Arc<dyn Fence>>, Task)>),
    /// A function of the user's.
    Call(Job),
    /// A fence that remembers when it was reached.
    Mark(Arc<dyn Milestone>),
    /// Nothing: what is left of a task that became another one or was handed on.
    Nothing,
}

/// A mark of a lane: it remembers when it was reached, and whether the stream had failed by then.
pub trait Milestone: Send + Sync {
    /// The lane has come to it.
    fn reach(&self, status: &Status);
}

/// What came of one slice of work.
pub enum StepOutcome {
    /// The work is complete.
    Done,
    /// There is more of it.
    More,
    /// It is a function to be called where it may block.
    Call(Job),
}

/// What the descriptor copies of a lane have in common. Its owner takes a copy along: each op would count a
/// reference otherwise, and give memory back that another CPU has allocated.
#[derive(Default)]
pub struct LateBinding(Option<Indirect>);

impl LateBinding {
    /// A copy of what the lane has.
    pub fn load(&mut self, common: impl FnOnce() -> Option<Indirect>) {
        if self.0.is_none() {
            self.0 = common();
        }
    }

    /// The lane has no more such copies for now.
    pub fn clear(&mut self) {
        self.0 = None;
    }

    /// The copy through this descriptor; `None` before it was loaded.
    fn of(&mut self, at: usize, user: usize) -> Option<&Indirect> {
        let late = self.0.as_mut()?;
        late.through = Through::Descriptor { at, user };
        Some(late)
    }
}

impl From<Op> for Task {
    #[inline]
    fn from(op: Op) -> Task {
        match op {
            Op::Copy(plan) => Task::from(plan),
            Op::CopyThrough(through) => Task::Through(through),
            Op::Fill(Fill { dst, len, pattern, .. }) => Task::Fill { dst, len, done: 0, pattern },
            Op::Reduce(reduction) => Task::Reduce { reduction, done: 0 },
            Op::Wait(fence) => Task::Wait(fence),
            Op::After(after) => {
                let (fences, op) = *after;
                Task::After(Box::new((fences, Task::from(op))))
            }
            Op::Call(function) => Task::Call(function),
        }
    }
}

impl From<Plan> for Task {
    #[inline(always)]
    fn from(plan: Plan) -> Task {
        if let Some(Segment { dst, src, len }) = plan.lone_segment() {
            mem::forget(plan);
            return Task::Linear { dst, src, len, done: 0 };
        }
        match plan.pieces().one_row() {
            Some(Segment { dst, src, len }) => Task::Linear { dst, src, len, done: 0 },
            None => Task::Rows(Box::new((plan, Cursor::default()))),
        }
    }
}

impl Task {
    /// Does about a slice of the work, whose fences are done, unless it is to be called elsewhere.
    pub fn step(
        &mut self,
        status: &Status,
        engine: &Arc<Engine>,
        lane: usize,
        late: &mut LateBinding,
    ) -> StepOutcome {
        if let Task::Call(_) = self {
            let Task::Call(function) = mem::replace(self, Task::Nothing) else { unreachable!("just seen") };
            return StepOutcome::Call(function);
        }
        let is_late_bound = self.is_late_bound();
        let moved = self.bind(status, late).and_then(|()| {
            if is_late_bound && !self.is_quick() {
                return Ok(false); // only now is it known how long it takes
            }
            self.form_team(engine, lane);
            self.advance(status)
        });
        match moved {
            Ok(true) => StepOutcome::Done,
            Ok(false) => StepOutcome::More,
            Err(error) => {
                status.fail(error);
                StepOutcome::Done
            }
        }
    }

    /// Whether a step of it takes no longer than some microseconds, and does all of it or says that there is
    /// more.
    #[inline]
    pub fn is_quick(&self) -> bool {
        match self {
            Task::Linear { len, .. } | Task::Fill { len, .. } => *len <= QUICK_BYTES,
            _ => self.is_late_bound(),
        }
    }

    /// Whether its addresses are read when its turn comes.
    #[inline]
    pub fn is_late_bound(&self) -> bool {
        matches!(self, Task::Through(_) | Task::Descriptor { .. })
    }

    /// Whether it is a small copy that has not begun, or one whose addresses are not known yet.
    #[inline]
    pub fn is_small_copy(&self) -> bool {
        match self {
            Task::Linear { len, done: 0, .. } => *len <= QUICK_BYTES,
            _ => self.is_late_bound(),
        }
    }

    /// Whether it is a copy that the thread which submits it may do.
    pub fn is_short_copy(&self) -> bool {
        matches!(self, Task::Linear { len, .. } if *len <= SHORT_BYTES)
    }

    /// What a small copy moves, as its cells say now; `None` if it is none, or would fail.
    pub fn segment(&self, late: &mut LateBinding) -> Option<Segment> {
        let segment = match self {
            Task::Linear { dst, src, len, done: 0 } => Segment { dst: *dst, src: *src, len: *len },
            Task::Through(through) => resolve(through).ok()?.pieces().one_row()?,
            Task::Descriptor { at, user } => resolve(late.of(*at, *user)?).ok()?.pieces().one_row()?,
            _ => return None,
        };
        Some(segment).filter(|segment| segment.len <= QUICK_BYTES)
    }

    /// Where the addresses of a copy are read, if they are read when it runs.
    pub fn cells(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let cells = match self {
            Task::Through(through) => match through.through {
                Through::Descriptor { at, .. } => [at..at + DESCRIPTOR_LEN, 0..0],
                Through::Cells { dst, src, .. } => {
                    [dst.at..dst.at + size_of::<u64>(), src.at..src.at + size_of::<u64>()]
                }
            },
            Task::Descriptor { at, .. } => [*at..*at + DESCRIPTOR_LEN, 0..0],
            _ => [0..0, 0..0],
        };
        cells.into_iter()
    }

    /// Whether it may have to wait for fences.
    #[inline]
    pub fn has_fences(&self) -> bool {
        matches!(self, Task::Wait(_) | Task::After(_))
    }

    /// A fence that must be done before this work, if there is one. Work whose fences are done takes their
    /// place.
    #[inline]
    pub fn unmet_fence(&mut self) -> Option<Arc<dyn Fence>> {
        while let Task::After(after) = self {
            match after.0.pop() {
                Some(fence) if fence.is_done() => {}
                Some(fence) => {
                    after.0.push(fence.clone());
                    return Some(fence);
                }
                None => *self = mem::replace(&mut after.1, Task::Nothing),
            }
        }
        match self {
            Task::Wait(fence) if !fence.is_done() => Some(fence.clone()),
            _ => None,
        }
    }

    /// A copy whose addresses are read when its turn comes becomes one of known addresses.
    #[inline]
    fn bind(&mut self, status: &Status, late: &mut LateBinding) -> Result<()> {
        let plan = match self {
            Task::Through(through) => resolve(through)?,
            Task::Descriptor { at, user } => {
                resolve(late.of(*at, *user).expect("loaded, as long as a lane has such copies"))?
            }
            _ => return Ok(()),
        };
        if status.is_observed() {
            status.tell_resolved(status.passed() + 1, &plan);
        }
        *self = Task::from(plan);
        Ok(())
    }

    /// Does about a slice of the work, and says whether that was all. The addresses in it are valid: the
    /// submitter keeps them so until the task has passed.
    #[inline]
    fn advance(&mut self, status: &Status) -> Result<bool> {
        match self {
            Task::Team(team) => team.step(),
            Task::Linear { dst, src, len, done } => {
                let segment = [Segment { dst: *dst, src: *src, len: *len }];
                let mut cursor = Cursor::after(*done);
                // SAFETY: see above.
                let moved = unsafe { copy::advance(Pieces::Segments(&segment), &mut cursor, SLICE) };
                *done = cursor.bytes();
                moved.map_err(|fault| fault.of_copy(Pieces::Segments(&segment)))
            }
            Task::Rows(rows) => {
                let (plan, cursor) = &mut **rows;
                // SAFETY: see above.
                let moved = unsafe { copy::advance(plan.pieces(), cursor, SLICE) };
                moved.map_err(|fault| fault.of_copy(plan.pieces()))
            }
            Task::Fill { dst, len, done, pattern } => {
                let mut cursor = Cursor::after(*done);
                let fill = Fill { dst: *dst, len: *len, pattern: *pattern, device: None };
                // SAFETY: see above.
                let moved = unsafe { copy::fill(&fill, &mut cursor, SLICE) };
                *done = cursor.bytes();
                moved.map_err(|fault| fault.of_fill(&fill))
            }
            Task::Reduce { reduction, done } => {
                // SAFETY: see above.
                let moved = unsafe { reduce::advance(reduction, done, SLICE) };
                moved.map_err(|fault| fault.of_reduction(reduction))
            }
            Task::Mark(mark) => {
                mark.reach(status);
                Ok(true)
            }
            Task::Wait(_) | Task::Nothing => Ok(true),
            Task::Through(_) | Task::Descriptor { .. } | Task::After(_) | Task::Call(_) => {
                unreachable!("handled before")
            }
        }
    }

    /// Prefetches the memory of work whose turn comes soon.
    #[inline]
    pub fn prefetch(&self, late: &mut LateBinding) {
        match self {
            Task::Linear { dst, src, .. } => copy::prefetch(*dst, *src),
            Task::Descriptor { at, user } => {
                if let Some((dst, src)) = late.of(*at, *user).and_then(peek) {
                    copy::prefetch(dst, src);
                }
            }
            _ => {}
        }
    }

    /// Prefetches what says where the memory of later work is.
    #[inline]
    pub fn prefetch_cells(&self) {
        if let Task::Descriptor { at, .. } = self {
            copy::prefetch(*at, at + DESCRIPTOR_LEN - 1);
        }
    }

    /// Asks others to help with a large copy or fill that has not begun.
    fn form_team(&mut self, engine: &Arc<Engine>, lane: usize) {
        let cpus = engine.cpus();
        let (whole, portions) = match self {
            Task::Linear { dst, src, len, done: 0 } if *len >= engine.min_team => {
                let rows = Rows::linear(*dst, *src, *len);
                let Some(portions) = engine.cut(Pieces::Rows(slice::from_ref(&rows))) else { return };
                (TeamWork::One(rows), portions)
            }
            Task::Rows(rows) if rows.1 == Cursor::default() && !rows.0.is_ordered() => {
                let Some(portions) = engine.cut(rows.0.pieces()) else { return };
                let Task::Rows(rows) = mem::replace(self, Task::Nothing) else { unreachable!("just seen") };
                (TeamWork::Plan(rows.0), portions)
            }
            Task::Fill { dst, len, done: 0, pattern } if *len >= engine.min_team => {
                let Some(portions) = engine.cut_fill(*len) else { return };
                (TeamWork::Fill(Fill { dst: *dst, len: *len, pattern: *pattern, device: None }), portions)
            }
            _ => return,
        };
        *self = Task::Team(engine.open_team(Team::new(whole, portions, lane, cpus)));
    }

    /// Whether it runs a function of the user's, at once or when fences are done.
    pub fn is_function(&self) -> bool {
        match self {
            Task::Call(_) => true,
            Task::After(after) => after.1.is_function(),
            _ => false,
        }
    }

    /// Whether it may hold something of the user's, with destructors that do what they like.
    pub fn is_users(&self) -> bool {
        matches!(self, Task::Call(_) | Task::After(_))
    }

    /// Ends the work where it is, if it has begun; returns when no byte of it moves any more.
    pub fn stop(&mut self) {
        if let Task::Team(team) = self {
            team.close();
        }
    }
}

/// Where the copy begins at both ends, in the engine's addresses, as its descriptor says now: it may say
/// something else when its turn comes.
fn peek(through: &Indirect) -> Option<(usize, usize)> {
    let Through::Descriptor { at, .. } = through.through else { return None };
    // SAFETY: the descriptor lies in known memory, which stays until the op has passed.
    let [_, src, dst] = unsafe { copy::words::<3>(at) }.ok()?;
    let at = |addr: u64| through.resolver.engine_address(addr as usize);
    Some((at(dst)?, at(src)?))
}

/// Reads the addresses of a copy and plans it.
fn resolve(through: &Indirect) -> Result<Plan> {
    let met = Cell::new(None);
    let failed = |fault| {
        met.set(Some(fault));
        0
    };
    let plan = match through.through {
        Through::Descriptor { at, .. } => {
            // SAFETY: the descriptor lies in known memory, which stays until the op has passed.
            let words = unsafe { copy::words::<DESCRIPTOR_WORDS>(at) };
            through.resolve(|addr| match &words {
                Ok(words) => words[(addr - at) / size_of::<u64>()],
                Err(fault) => failed(*fault),
            })
        }
        Through::Cells { .. } => through.resolve(|addr| {
            // SAFETY: as above, of a cell.
            unsafe { copy::words::<1>(addr) }.map_or_else(failed, |[word]| word)
        }),
    };
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
        assert!(size_of::<Task>() <= 40, "{} bytes", size_of::<Task>());
    }
}
