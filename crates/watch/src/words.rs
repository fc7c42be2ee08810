//! Facts as 64-bit words: how they lie in a buffer.
//!
//! The first word of a fact has its kind and how many words it takes; everything else follows in the order
//! of the fields. Frequent kinds have a short form. Times are ticks in the words and nanoseconds in a decoded
//! fact. What is no fact, because a buffer was damaged or another version wrote it, is `None` and never a
//! panic.

mod read;
mod write;

pub use read::{read, read_range};
pub use write::{WordSink, write};
pub(crate) use write::{
    call_here as write_call, joined_here as write_joined, linear as write_linear,
    passed_here as write_passed_here, passed_together as write_passed_together,
};

/// The kinds of facts, as their first word has them. A number is never used for something else.
mod kind {
    pub const STARTED: u16 = 1;
    pub const FUNCTIONS: u16 = 2;
    pub const MODULE: u16 = 3;
    pub const THREAD: u16 = 4;
    pub const STACK: u16 = 5;
    pub const LINE: u16 = 6;
    pub const ENDED: u16 = 7;
    pub const CALL: u16 = 8;
    pub const STREAM_MADE: u16 = 9;
    pub const STREAM_GONE: u16 = 10;
    pub const KNOWN: u16 = 11;
    pub const FORGOTTEN: u16 = 12;
    pub const REUSED: u16 = 13;
    pub const SUBMITTED: u16 = 14;
    pub const MORE_PIECES: u16 = 15;
    pub const REFUSED: u16 = 16;
    pub const BEGUN: u16 = 17;
    pub const PASSED: u16 = 18;
    pub const RESOLVED: u16 = 19;
    pub const BOUND: u16 = 20;
    pub const JOINED: u16 = 21;
    pub const CAPTURE_BEGUN: u16 = 22;
    pub const CAPTURED: u16 = 23;
    pub const CAPTURE_ENDED: u16 = 24;
    pub const LAUNCHED: u16 = 25;
    pub const CONTENTS: u16 = 26;
    pub const LOST: u16 = 27;
    pub const BYTES: u16 = 28;
    /// A copy in one piece that was submitted, in eight words: most facts are this one or the next.
    pub const LINEAR: u16 = 29;
    /// An op that has passed on the host, in four words.
    pub const PASSED_HERE: u16 = 30;
    /// A call that has returned, in five words.
    pub const CALL_HERE: u16 = 31;
    /// A thread has learnt that a point has passed, in six words.
    pub const JOINED_HERE: u16 = 32;
    /// Ops of a stream that were sent to a device as one have passed, in six words.
    pub const PASSED_TOGETHER: u16 = 33;
    pub const ACCESS: u16 = 34;
    pub const DEVICE_POINTER: u16 = 35;
    pub const OPENED: u16 = 36;
    pub const UNSEEN: u16 = 37;
    pub const TOUCHED: u16 = 38;
    pub const FAILURE: u16 = 40;
    pub const LENT: u16 = 41;
    pub const JOINED_OUTSIDE: u16 = 42;
    pub const PHYSICAL_NAMED: u16 = 43;
    pub const PHYSICAL_FREED: u16 = 44;
    pub const WORK_FAILED: u16 = 45;
}

/// The first word of a fact: its kind, how many words it takes, and 32 bits of its own.
pub fn head(kind: u16, len: usize, own: u32) -> u64 {
    u64::from(kind) | (len as u64 & 0xffff) << 16 | u64::from(own) << 32
}

/// How many words the fact takes that begins with this one.
pub fn len(head: u64) -> usize {
    (head >> 16 & 0xffff) as usize
}

/// A device or the host as a number: 0 is the host.
fn place(device: Option<u32>) -> u64 {
    device.map_or(0, |device| u64::from(device) + 1)
}

/// The inverse of [`place`].
fn device(place: u64) -> Option<u32> {
    place.checked_sub(1).map(|device| device as u32)
}
