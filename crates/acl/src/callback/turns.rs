//! The calls of aclrtProcessReport that are under way in a thread: which callback runs, and what is left to
//! be run.
//!
//! A callback may end its thread, or leave by longjmp. So this lies with the thread and not on its stack, and
//! the next call of the thread finds out by the addresses of stack frames which turns were left.

use super::{
    DEPTH, ReadyCallback,
    mailbox::{CallbackPlace, Mailbox, PendingCallback},
};
use ferry::engine::probe;
use std::{
    cell::{Cell, RefCell},
    hint::black_box,
    sync::Arc,
};

/// The position of a call on its thread's stack.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// The address of one of its locals.
    at: usize,
    /// Whether it lies on the stack that the system made for the thread, and not on one of the program's:
    /// only then two frames tell which of them called the other.
    is_threads: bool,
}

impl Frame {
    /// The frame that `local` lies in.
    pub fn of<T>(local: &T) -> Frame {
        let at = std::ptr::from_ref(local).addr();
        Frame { at, is_threads: probe::is_on_stack(at, 1) }
    }

    /// Whether a callback that this frame runs cannot have called `other`, since it would be below it:
    /// callbacks run this deep.
    fn is_left_by(self, other: Frame) -> bool {
        self.is_threads && other.is_threads && other.at > self.at - DEPTH
    }
}

/// The turns of a thread; more than one if a callback calls aclrtProcessReport.
#[derive(Default)]
pub struct ReportTurns {
    all: RefCell<Vec<ReportTurn>>,
    /// How many there are, for every call to see.
    count: Cell<usize>,
}

struct ReportTurn {
    frame: Frame,
    mailbox: Arc<Mailbox>,
    /// What is to run next.
    ready: Option<ReadyCallback>,
    /// What runs now. Its stream may go on when this is dropped.
    running: Option<PendingCallback>,
    /// How many more may run, once the first has.
    left: Option<usize>,
}

impl ReportTurns {
    pub(crate) fn push(
        &self,
        frame: Frame,
        mailbox: Arc<Mailbox>,
        running: PendingCallback,
        ready: ReadyCallback,
    ) {
        let turn = ReportTurn { frame, mailbox, ready: Some(ready), running: Some(running), left: None };
        self.change(|all| all.push(turn));
    }

    fn change<T>(&self, change: impl FnOnce(&mut Vec<ReportTurn>) -> T) -> T {
        let mut all = self.all.borrow_mut();
        let changed = change(&mut all);
        self.count.set(all.len());
        changed
    }

    /// Ends the turns whose callbacks have left by longjmp: the call that is made now is not one of theirs.
    /// `returned` is told what ran.
    #[inline(always)]
    pub(crate) fn end_those_left(&self, returned: impl Fn(CallbackPlace)) {
        if self.count.get() > 0 {
            self.end_left(&returned);
        }
    }

    #[cold]
    fn end_left(&self, returned: &dyn Fn(CallbackPlace)) {
        let local = black_box(0_u8);
        let frame = Frame::of(&local);
        self.end_while(|turn| turn.frame.is_left_by(frame), returned);
    }

    /// Ends the newest turns as long as `is_left` says so.
    fn end_while(&self, is_left: impl Fn(&ReportTurn) -> bool, returned: &dyn Fn(CallbackPlace)) {
        while let Some(turn) = self.change(|all| all.pop_if(|turn| is_left(turn))) {
            turn.running.iter().for_each(|pending| returned(pending.place()));
            drop(turn); // without the borrow: opens a gate
        }
    }

    /// The turn of `frame` goes on: those above it were left, and what ran in them and in it has `returned`.
    /// Says what to run next, and where in its stream that is, unless it was waited for.
    pub(crate) fn next(
        &self,
        frame: Frame,
        returned: impl Fn(CallbackPlace),
    ) -> Option<(ReadyCallback, Option<CallbackPlace>)> {
        self.end_while(|turn| turn.frame != frame, &returned);
        let first = self.change(|all| all.last_mut()?.ready.take());
        if let Some(first) = first {
            return Some((first, None));
        }
        let running = self.change(|all| all.last_mut()?.running.take());
        running.iter().for_each(|pending| returned(pending.place()));
        drop(running);
        let next = self.another().map(|(next, place)| (next, Some(place)));
        if next.is_none() {
            drop(self.change(Vec::pop));
        }
        next
    }

    /// Another callback, of as many as there were when the first had run: a thread that keeps launching does
    /// not keep this call from returning.
    fn another(&self) -> Option<(ReadyCallback, CallbackPlace)> {
        loop {
            let mailbox = self.change(|all| {
                let turn = all.last_mut()?;
                let left = turn.left.get_or_insert_with(|| turn.mailbox.len());
                *left = left.checked_sub(1)?;
                Some(turn.mailbox.clone())
            })?;
            let mut pending = mailbox.take(PendingCallback::is_due)?;
            if let Some(ready) = pending.open() {
                let place = pending.place();
                self.change(|all| all.last_mut()?.running.replace(pending));
                return Some((ready, place));
            }
        }
    }
}
