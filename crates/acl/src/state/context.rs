//! A context as the handle table has it: a device, a default stream and what stops its streams together.

use super::stream::StreamEntry;
use crate::{Result, arguments::refuse, handles::HandleKind};
use ferry_core::Halt;
use std::sync::{
    Arc, Mutex, OnceLock,
    atomic::{AtomicBool, Ordering},
};

/// The values of aclSysParamOpt, by number; `None` where none was set.
pub(crate) type SystemParams = Mutex<[Option<i64>; 3]>;

/// A context of a device.
pub struct Context {
    /// Its own handle.
    pub(crate) handle: usize,
    /// Its device.
    pub(crate) device: u32,
    /// The system parameters set in it.
    pub(crate) params: SystemParams,
    /// Whether aclrtCreateContext made it, and not aclrtSetDevice.
    pub(crate) explicit: bool,
    /// False once it has ended.
    pub(super) alive: AtomicBool,
    /// Stops all streams of the context when one that is to do so fails.
    pub(crate) halt: Arc<Halt>,
    /// The stream that handle 0 means. Set once, right after the context was made: the two refer to each
    /// other.
    pub(super) default_stream: OnceLock<Arc<StreamEntry>>,
}

impl HandleKind for Context {
    const TAG: usize = 1;
}

impl Context {
    pub(super) fn new(handle: usize, device: u32, explicit: bool) -> Context {
        Context {
            handle,
            device,
            params: SystemParams::default(),
            explicit,
            alive: AtomicBool::new(true),
            halt: Halt::new(),
            default_stream: OnceLock::new(),
        }
    }

    /// Whether it has not ended.
    pub(crate) fn is_alive(&self) -> bool {
        self.alive.load(Ordering::Acquire)
    }

    /// The stream that handle 0 means.
    pub(crate) fn default_stream(&self) -> Result<Arc<StreamEntry>> {
        self.default_stream.get().cloned().ok_or_else(|| refuse("the context has no default stream"))
    }
}
