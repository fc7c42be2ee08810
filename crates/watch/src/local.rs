//! What a thread of a watched process keeps for itself: the buffer that it fills, the call that it is in, and
//! the op that it works on.
//!
//! All of it is one thread-local without a destructor, so that finding it is one call of the loader's, and it
//! can still be used while the thread ends.

use crate::{
    buffers::BufferHead,
    fact::{CallSite, TaskId},
};
use std::{cell::Cell, ptr};

/// What a thread keeps. Times are ticks.
pub(crate) struct Local {
    /// The number of the writer that the buffer was claimed for; 0 without a buffer.
    pub(crate) writer: Cell<u64>,
    /// The words of the buffer.
    pub(crate) words: Cell<*mut u64>,
    /// The head of the buffer.
    pub(crate) head: Cell<*const BufferHead>,
    /// How many of the words are used.
    pub(crate) used: Cell<usize>,
    /// The system's number of the thread, once it is known.
    pub(crate) thread: Cell<u32>,
    /// The call that the thread is in.
    pub(crate) site: Cell<CallSite>,
    /// When the call has last waited; 0 if it has not.
    pub(crate) waited: Cell<u64>,
    /// The line of an interpreted program that makes the next call; 0 if it is not known.
    pub(crate) line: Cell<u32>,
    /// The number of the stack of interpreted lines that ends with that one; 0 if it is not known.
    pub(crate) line_stack: Cell<u32>,
    /// The bytes that the program asks for in the call that the thread is in; 0 if nobody said.
    pub(crate) asked: Cell<u64>,
    /// The task of a graph that the thread submits.
    pub(crate) task: Cell<Option<TaskId>>,
    /// The op that has begun on this thread and was not told of, and when it began.
    pub(crate) begun: Cell<(OpId, u64)>,
    /// The last op that passed on this thread, and when it ended.
    pub(crate) ended: Cell<(OpId, u64)>,
    /// The part of a file that the last caller's address was in.
    pub(crate) module: Cell<(u64, u64)>,
}

/// An op, or nothing if the ticket is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OpId {
    pub(crate) stream: u32,
    pub(crate) ticket: u64,
}

impl OpId {
    pub(crate) const NONE: OpId = OpId { stream: 0, ticket: 0 };
}

thread_local! {
    static LOCAL: Local = const {
        Local {
            writer: Cell::new(0),
            words: Cell::new(ptr::null_mut()),
            head: Cell::new(ptr::null()),
            used: Cell::new(0),
            thread: Cell::new(0),
            site: Cell::new(CallSite { function: 0, caller: 0, begin: 0, stack: 0 }),
            waited: Cell::new(0),
            line: Cell::new(0),
            line_stack: Cell::new(0),
            asked: Cell::new(0),
            task: Cell::new(None),
            begun: Cell::new((OpId::NONE, 0)),
            ended: Cell::new((OpId::NONE, 0)),
            module: Cell::new((0, 0)),
        }
    };
}

/// What this thread keeps.
#[inline(always)]
pub(crate) fn local<T>(body: impl FnOnce(&Local) -> T) -> T {
    LOCAL.with(body)
}
