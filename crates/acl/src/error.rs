//! An error as AscendCL reports it: a code and a note. The one place that turns the engine's kinds into
//! codes.

use crate::constants as c;
use std::{borrow::Cow, ops::Deref};

/// The result of AscendCL's rules.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A code of the error table and a note for the person who reads it, behind one pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(Box<Details>);

/// What an error says; reached through the error itself: `error.code`, `error.note`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Details {
    /// The aclError.
    pub code: i32,
    /// What happened, with the pointers and values in it.
    pub note: Cow<'static, str>,
}

/// An error with this code: `fail(ACL_ERROR_RT_PARAM_INVALID, format!(..))`.
#[cold]
pub fn fail(code: i32, note: impl Into<Cow<'static, str>>) -> Error {
    Error(Box::new(Details { code, note: note.into() }))
}

impl Deref for Error {
    type Target = Details;
    fn deref(&self) -> &Details {
        &self.0
    }
}

impl From<ferry_core::Error> for Error {
    fn from(error: ferry_core::Error) -> Self {
        use ferry_core::Kind::*;
        let code = match error.kind {
            BadAddress | OutOfBounds | BadShape | BadRoute | BadDescriptor => c::ACL_ERROR_RT_PARAM_INVALID,
            OutOfMemory => c::ACL_ERROR_RT_MEMORY_ALLOCATION,
            LimitReached => c::ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
            NoDevice => c::ACL_ERROR_RT_INVALID_DEVICEID,
            Unsupported => c::ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
            Timeout => c::ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
            Aborted => c::ACL_ERROR_RT_STREAM_ABORT,
            Captured => c::ACL_ERROR_RT_STREAM_CAPTURED,
            BadSetting => c::ACL_ERROR_INVALID_PARAM,
            Fault => c::ACL_ERROR_RT_AICORE_EXCEPTION,
            BadMemory => c::ACL_ERROR_RT_HBM_MULTI_BIT_ECC_ERROR,
            Lost => c::ACL_ERROR_RT_LOST_HEARTBEAT,
            Device => c::ACL_ERROR_RT_DRV_INTERNAL_ERROR,
            Native(code) => code,
        };
        fail(code, error.note.clone())
    }
}

impl Error {
    /// This error with more said about it.
    pub fn and(self, more: impl AsRef<str>) -> Self {
        fail(self.code, format!("{}; {}", self.note, more.as_ref()))
    }
}
