//! One piece of a lane's work. Small: work is written by one CPU and read by another, and what travels
//! between them is what a submission costs.

use super::{
    engine::{Engine, OwnedTeam, RunQueue},
    team::TeamWork,
};
use crate::bytes::{
    copy::{self, Cursor},
    reduce,
};
use crate::{os::fault::Fault, pool::Job};
use ferry_core::{
    DeviceId, Fence, Fill, Indirect, Op, Pieces, Plan, Recent, Reduction, Resolver, Result, Rows, Segment,
    Status,
    indirect::{self, DESCRIPTOR_LEN, DESCRIPTOR_WORDS, Through},
    sync::Arc,
};
use std::{mem, ops::Range, slice};

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
    /// The same through a descriptor, at the engine's and the user's address.
    Descriptor { at: usize, user: usize, call: &'static str, device: DeviceId },
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

/// What plans the late-bound copies of a lane. Its owner keeps it for as long as there is work: each op would
/// count a reference otherwise.
#[derive(Default)]
pub struct LateBinding {
    resolver: Option<Arc<dyn Resolver>>,
    /// What descriptors are sealed with.
    key: u64,
    /// Between which memory the last one was.
    recent: Recent,
}

impl LateBinding {
    /// What the lane's status has.
    pub fn load(&mut self, status: &Status) {
        if self.resolver.is_none() {
            self.resolver = status.resolver();
            self.key = self.resolver.as_ref().map_or(0, |resolver| resolver.seal_key());
        }
    }

    /// The lane has no more work for now.
    pub fn clear(&mut self) {
        self.resolver = None;
    }

    /// Plans the copy, as its addresses are now.
    fn plan(&self, copy: &Indirect) -> Result<Plan> {
        let words = words_of(copy).map_err(|fault| {
            fault.of(&format!("{}: the addresses read when the copy ran", copy.call), "read")
        })?;
        copy.resolve(self.resolver.as_deref(), words)
    }

    /// What a copy through a descriptor in `device` moves, if that is told in less time than
    /// [`plan`](Self::plan) takes.
    #[inline]
    fn segment(&mut self, at: usize, device: DeviceId) -> Option<Segment> {
        // SAFETY: the descriptor lies in known memory, which stays until the op has passed.
        let words = unsafe { copy::words(at) }.ok()?;
        let ends = indirect::open(self.key, &words)?;
        self.resolver.as_deref()?.plan_linear(ends, device, &mut self.recent)
    }

    /// Where the copy through the descriptor at `at` begins at both ends, in the engine's addresses, as it is
    /// now: it may say something else when its turn comes.
    fn peek(&self, at: usize) -> Option<(usize, usize)> {
        // SAFETY: the descriptor lies in known memory, which stays until the op has passed.
        let [_, src, dst] = unsafe { copy::words::<3>(at) }.ok()?;
        let at = |addr: u64| self.resolver.as_deref()?.engine_address(addr as usize);
        Some((at(dst)?, at(src)?))
    }
}

impl From<Indirect> for Task {
    #[inline]
    fn from(late: Indirect) -> Task {
        match late.through {
            Through::Descriptor { at, user } => {
                Task::Descriptor { at, user, call: late.call, device: late.device }
            }
            Through::Cells { .. } => Task::Through(Box::new(late)),
        }
    }
}

impl From<Op> for Task {
    #[inline]
    fn from(op: Op) -> Task {
        match op {
            Op::Copy(plan) => Task::from(plan),
            Op::CopyThrough(late) => Task::from(late),
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
        queue: &dyn RunQueue,
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
            self.form_team(engine, queue);
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

    /// The copy, if its addresses are read when its turn comes.
    #[inline]
    fn late_bound(&self) -> Option<Indirect> {
        match self {
            Task::Through(late) => Some(**late),
            Task::Descriptor { at, user, call, device } => {
                let through = Through::Descriptor { at: *at, user: *user };
                Some(Indirect { call, device: *device, through })
            }
            _ => None,
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
            Task::Descriptor { at, device, .. } => late.segment(*at, *device)?,
            Task::Through(copy) => late.plan(copy).ok()?.pieces().one_row()?,
            _ => return None,
        };
        Some(segment).filter(|segment| segment.len <= QUICK_BYTES)
    }

    /// Where the addresses of a copy are read, if they are read when it runs.
    pub fn cells(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let cells = match self {
            Task::Through(late) => match late.through {
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
        let Some(copy) = self.late_bound() else { return Ok(()) };
        late.load(status);
        if let (Task::Descriptor { at, device, .. }, false) = (&self, status.is_observed())
            && let Some(Segment { dst, src, len }) = late.segment(*at, *device)
        {
            *self = Task::Linear { dst, src, len, done: 0 };
            return Ok(());
        }
        let plan = late.plan(&copy)?;
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
    pub fn prefetch(&self, late: &LateBinding) {
        match self {
            Task::Linear { dst, src, .. } => copy::prefetch(*dst, *src),
            Task::Descriptor { at, .. } => {
                if let Some((dst, src)) = late.peek(*at) {
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
    fn form_team(&mut self, engine: &Arc<Engine>, queue: &dyn RunQueue) {
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
        *self = Task::Team(engine.open_team(whole, portions, queue));
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

/// What gives the words in which a late-bound copy finds its addresses, by their addresses: read now.
#[inline]
fn words_of(copy: &Indirect) -> Result<impl Fn(usize) -> u64, Fault> {
    let through = copy.through;
    let mut words = [0; DESCRIPTOR_WORDS];
    // SAFETY: the descriptor, or a cell, lies in known memory, which stays until the op has passed.
    unsafe {
        match through {
            Through::Descriptor { at, .. } => words = copy::words(at)?,
            Through::Cells { dst, src, .. } => {
                [words[0]] = copy::words(dst.at)?;
                [words[1]] = copy::words(src.at)?;
            }
        }
    }
    Ok(move |addr| match through {
        Through::Descriptor { at, .. } => words[(addr - at) / size_of::<u64>()],
        Through::Cells { dst, .. } => words[usize::from(addr != dst.at)],
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_piece_of_work_is_smaller_than_a_cache_line() {
        assert!(size_of::<Task>() <= 40, "{} bytes", size_of::<Task>());
    }
}
