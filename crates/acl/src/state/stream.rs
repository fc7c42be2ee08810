//! A stream as the handle table has it. Making and ending one: `lifecycle.rs`; what C calls do with one:
//! `rules`.

use crate::{arguments::refuse, constants::*, error::Result, handles::HandleKind};
use ferry_core::Stream;
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, Ordering},
};

/// Documented: 0 is the highest priority and 7 the lowest.
pub(crate) const LEAST_PRIORITY: u32 = 7;

/// The flags there are; a stream with others is a plain one.
const ALL_FLAGS: u32 = 0x3f;

/// Limits of cores by aclrtDevResLimitType; 0 where none was set.
pub(crate) type CoreLimits = [AtomicU32; 2];

/// A stream of a context.
pub struct StreamEntry {
    /// Its own handle.
    pub(crate) handle: usize,
    /// The handle of its context.
    pub(crate) context: usize,
    /// The device of its context.
    pub(crate) device: u32,
    /// The engine's stream.
    pub(crate) stream: Arc<Stream>,
    /// The flags it was made with; 0 if there was an unknown one among them.
    pub(crate) flags: u32,
    /// Whether it is the default stream of its context.
    pub(crate) is_default: bool,
    /// Whether it is the library's own: no call is told its handle, and it is not counted.
    pub(super) is_internal: bool,
    /// False once it was taken out of the table.
    pub(super) alive: AtomicBool,
    /// Whether its failure mode was set, which can be done once.
    pub(crate) has_mode: AtomicBool,
    /// What was set of it by aclrtSetStreamAttribute and its relatives.
    pub(crate) settings: StreamSettings,
    /// The system's number of the thread that used the stream last.
    pub(super) user: AtomicU32,
}

/// What was set of a stream.
#[derive(Default)]
pub struct StreamSettings {
    /// From 0, the highest, to 7.
    pub(crate) priority: AtomicU32,
    /// Whether a failure of its work stops all streams of the context.
    pub(crate) stops: AtomicBool,
    /// The overflow switch.
    pub(crate) overflow_check: AtomicU32,
    /// The user's own number.
    pub(crate) custom_tag: AtomicU32,
    /// The switch for cached operator information.
    pub(crate) cache_op_info: AtomicU32,
    /// Limits of cores of this stream.
    pub(crate) limits: CoreLimits,
}

impl HandleKind for StreamEntry {
    const TAG: usize = 2;
}

impl StreamEntry {
    pub(super) fn new(
        handle: usize,
        context: usize,
        stream: Arc<Stream>,
        flags: u32,
        is_default: bool,
    ) -> StreamEntry {
        StreamEntry {
            handle,
            context,
            device: stream.device(),
            stream,
            flags: if flags & !ALL_FLAGS == 0 { flags } else { 0 },
            is_default,
            is_internal: false,
            alive: AtomicBool::new(true),
            has_mode: AtomicBool::new(false),
            settings: StreamSettings::default(),
            user: AtomicU32::new(this_thread()),
        }
    }

    /// Whether the stream is still in the table.
    #[inline(always)]
    pub(crate) fn is_alive(&self) -> bool {
        self.alive.load(Ordering::Acquire)
    }

    /// The system's number of the thread that used the stream last.
    pub(crate) fn user(&self) -> u32 {
        self.user.load(Ordering::Relaxed)
    }

    /// Whether a call in the stream's context that says `handle` means this stream, alive.
    #[inline]
    pub(super) fn is_meant(&self, handle: usize) -> bool {
        (self.handle == handle || handle == 0 && self.is_default) && self.is_alive()
    }

    /// Itself, unless it is a default stream.
    pub(crate) fn not_default(self: Arc<Self>) -> Result<Arc<Self>> {
        if self.is_default {
            return Err(refuse("the default stream of a context cannot be destroyed"));
        }
        Ok(self)
    }

    /// Documented: synchronising such a stream returns at once.
    pub(crate) fn is_never_waited_for(&self) -> bool {
        self.flags & (ACL_STREAM_PERSISTENT | ACL_STREAM_CPU_SCHEDULE | ACL_STREAM_DEVICE_USE_ONLY) as u32
            != 0
    }
}

/// The system's number of the calling thread.
pub(super) fn this_thread() -> u32 {
    // SAFETY: takes no argument and cannot fail.
    unsafe { libc::gettid() as u32 }
}
