//! What aclrtProcessReport is at in a thread: which callback runs, and what is left to be run.

use super::{Letter, Mailbox};
use crate::{
    callback::{DEPTH, Ready},
    state::with_here,
};
use ferry::engine::{probe, threads::cancel::Cancelling};
use std::{
    cell::{Cell, RefCell},
    hint::black_box,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

/// Where on its thread's stack a call is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    at: usize,
    /// Not on a stack that the program has made itself: only then two frames tell which of them called the other.
    is_threads: bool,
}

impl Frame {
    /// The frame that `local` lies in.
    pub fn of<T>(local: &T) -> Frame {
        let at = std::ptr::from_ref(local).addr();
        Frame { at, is_threads: probe::is_on_stack(at, 1) }
    }

    /// Whether a callback that this frame runs cannot have called `other`, since it would be below it: callbacks run this deep.
    fn is_left_by(self, other: Frame) -> bool {
        self.is_threads && other.is_threads && other.at > self.at - DEPTH
    }
}

/// The turns of a thread; more than one if a callback calls aclrtProcessReport.
#[derive(Default)]
pub struct Turns {
    all: RefCell<Vec<Turn>>,
    /// How many there are, for every call to see.
    count: Cell<usize>,
}

struct Turn {
    frame: Frame,
    mailbox: Arc<Mailbox>,
    /// What is to run next.
    ready: Option<Ready>,
    /// The letter of what runs. Its stream may go on when this is dropped.
    letter: Option<Letter>,
    /// How many more may run, once the first has.
    left: Option<usize>,
}

impl Turns {
    pub(super) fn push(&self, frame: Frame, mailbox: Arc<Mailbox>, letter: Letter, ready: Ready) {
        let turn = Turn { frame, mailbox, ready: Some(ready), letter: Some(letter), left: None };
        self.change(|all| all.push(turn));
    }

    fn change<T>(&self, change: impl FnOnce(&mut Vec<Turn>) -> T) -> T {
        let mut all = self.all.borrow_mut();
        let changed = change(&mut all);
        self.count.set(all.len());
        changed
    }

    /// Ends the turns whose callbacks have left by longjmp: the call that is made now is not one of theirs.
    #[inline(always)]
    pub fn end_those_left(&self) {
        if self.count.get() > 0 {
            self.end_left();
        }
    }

    #[cold]
    fn end_left(&self) {
        let local = black_box(0_u8);
        let frame = Frame::of(&local);
        let is_left = |turn: &mut Turn| turn.frame.is_left_by(frame);
        while let Some(turn) = self.change(|all| all.pop_if(is_left)) {
            drop(turn); // without the borrow: opens a gate
        }
    }

    /// The turn of `frame` goes on: those above it were left, and what ran in it has returned. Says what to run next.
    fn next(&self, frame: Frame) -> Option<Ready> {
        while let Some(turn) = self.change(|all| all.pop_if(|turn| turn.frame != frame)) {
            drop(turn);
        }
        let first = self.change(|all| all.last_mut()?.ready.take());
        if first.is_some() {
            return first;
        }
        drop(self.change(|all| all.last_mut()?.letter.take()));
        let next = self.another();
        if next.is_none() {
            drop(self.change(Vec::pop));
        }
        next
    }

    /// As many as there were when the first had run: somebody who keeps launching does not keep the call from returning.
    fn another(&self) -> Option<Ready> {
        loop {
            let mailbox = self.change(|all| {
                let turn = all.last_mut()?;
                let left = turn.left.get_or_insert_with(|| turn.mailbox.len());
                *left = left.checked_sub(1)?;
                Some(turn.mailbox.clone())
            })?;
            let mut letter = mailbox.take(Letter::is_due)?;
            if let Some(ready) = letter.open() {
                self.change(|all| all.last_mut()?.letter.replace(letter));
                return Some(ready);
            }
        }
    }
}

/// The second part of aclrtProcessReport, which is at `frame`: runs the callback that was waited for, and those that are due. Nothing in
/// this frame has a destructor while a callback runs.
pub fn run(frame: Frame) {
    while let Some(ready) = next(frame) {
        ready.run_deep();
    }
}

/// Between two callbacks the thread cannot be cancelled.
fn next(frame: Frame) -> Option<Ready> {
    let cancelling = Cancelling::off();
    let next = catch_unwind(AssertUnwindSafe(|| with_here(|here| Ok(here.turns.next(frame)))));
    cancelling.back_unseen();
    next.ok()?.ok()?
}
