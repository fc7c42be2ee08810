//! Blocks a stream of the library: work submitted behind the function cannot run until a test says so.

use std::ffi::c_void;

use ferry_blocker::Blocker;

use crate::{aclrtLaunchHostFunc, ok};

/// Blocks `stream`, which must belong to the current context, until the blocker is told to let go or dropped.
#[track_caller]
pub fn block(stream: usize) -> Blocker {
    let (blocker, function) = Blocker::new();
    let function: Box<Box<dyn FnOnce()>> = Box::new(Box::new(function));
    ok(aclrtLaunchHostFunc(stream, Some(run), Box::into_raw(function) as usize));
    blocker
}

/// # Safety
/// `function` came from `block` and is handed over once.
unsafe extern "C" fn run(function: *mut c_void) {
    // SAFETY: the stream runs a host function once, with the argument of its launch.
    let function = unsafe { Box::from_raw(function.cast::<Box<dyn FnOnce()>>()) };
    function();
}
