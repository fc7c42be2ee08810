//! Work as plain data, so that it can be run, traced, checked and replayed alike.

use crate::{DeviceId, Fence, Indirect, Plan, Point, Reduction, sync::Arc};
use std::fmt;

/// One piece of work of a queue. All addresses are the engine's.
///
/// ```
/// use ferry_core::Op;
///
/// /// How many bytes an observer sees moving.
/// fn bytes(op: &Op) -> usize {
///     match op {
///         Op::Copy(plan) => plan.bytes(),
///         Op::After(after) => bytes(&after.1),
///         _ => 0,
///     }
/// }
/// # assert_eq!(bytes(&Op::Call(Box::new(|| ()))), 0);
/// ```
pub enum Op {
    /// Move bytes as planned.
    Copy(Plan),
    /// Move bytes between addresses that are read when the work runs.
    CopyThrough(Indirect),
    /// Write a pattern.
    Fill(Fill),
    /// Combine memory of a device with other memory of it.
    Reduce(Box<Reduction>),
    /// Block the queue until the fence is done. The fence says for which work that is: [`Fence::point`].
    Wait(Arc<dyn Fence>),
    /// Do the op when all of the fences are done. One op and not several: an abort drops all of it or
    /// nothing.
    After(Box<(Vec<Arc<dyn Fence>>, Op)>),
    /// Run a function of the user's on a thread where it may block, and block the queue until it returns.
    Call(Box<dyn FnOnce() + Send>),
}

/// `len` bytes at `dst` become a repetition of the four bytes of `pattern`, the first byte first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    /// The engine's address of the first byte.
    pub dst: usize,
    /// How many bytes; need not be a multiple of four.
    pub len: usize,
    /// Four bytes in memory order.
    pub pattern: [u8; 4],
    /// The device whose memory it is; `None` for host memory.
    pub device: Option<DeviceId>,
}

/// What fences stand for.
fn points(fences: &[Arc<dyn Fence>]) -> Vec<Option<Point>> {
    fences.iter().map(|fence| fence.point()).collect()
}

impl fmt::Debug for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Copy(plan) => f.debug_tuple("Copy").field(plan).finish(),
            Op::CopyThrough(through) => f.debug_tuple("CopyThrough").field(through).finish(),
            Op::Fill(fill) => f.debug_tuple("Fill").field(fill).finish(),
            Op::Reduce(reduction) => f.debug_tuple("Reduce").field(reduction).finish(),
            Op::Wait(fence) => f.debug_tuple("Wait").field(&fence.point()).finish(),
            Op::After(after) => f.debug_tuple("After").field(&points(&after.0)).field(&after.1).finish(),
            Op::Call(_) => f.write_str("Call"),
        }
    }
}
