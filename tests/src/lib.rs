//! What the conformance tests stand on: the C functions under their C names, with addresses and handles as
//! plain numbers, and a few helpers that make memory, hold streams and prove whether a call sleeps.
//!
//! The helpers give nothing back by themselves: a test that fails must leave everything as it was for whoever
//! looks at it, and a handle that a test has already destroyed must not be destroyed again behind its back.
//! The one exception is [`Blocker`], which lets go when dropped, because a failing test must not hang the
//! ones that run beside it.

mod batch;
pub mod blocked;
mod blocker;
mod calls;
pub mod children;
pub mod fuzz;
pub mod headers;
mod mapped;
mod memory;
pub mod products;
mod wild;

use std::time::{Duration, Instant};

pub use ascendcl::{
    aclCANNPackageVersion, aclrtErrorInfo, aclrtErrorInfoDetail, aclrtExceptionInfo,
    aclrtExceptionInfoCallback, aclrtHostFunc, aclrtIpcEventHandle, aclrtMallocAttrValue,
    aclrtMallocAttribute, aclrtMallocConfig, aclrtMemAccessDesc, aclrtMemLocation, aclrtMemUceInfo,
    aclrtMemUsageInfo, aclrtMemcpyBatchAttr, aclrtPhysicalMemProp, aclrtPtrAttributes, aclrtStreamAttrValue,
    aclrtUtilizationInfo, aclrtUuid,
};
pub use batch::{Arg, Batch, BatchForm, DEVICE_TO_HOST, HOST_TO_DEVICE, location};
pub use blocker::block;
pub use calls::*;
pub use ferry_blocker::Blocker;
pub use mapped::{Mapped, NORMAL_PAGES, physical, properties, reserve};
pub use memory::{Home, Memory, pattern};
pub use wild::{Wild, page_size};

/// The aclError codes that the tests expect, by what they mean.
#[allow(missing_docs)]
pub mod code {
    pub const SUCCESS: i32 = 0;
    pub const INVALID_PARAM: i32 = 100000;
    pub const REPEAT_INITIALIZE: i32 = 100002;
    pub const INVALID_FILE: i32 = 100003;
    pub const INVALID_FILE_SIZE: i32 = 100005;
    pub const PARSE_FILE: i32 = 100006;
    pub const FILE_ATTR_INVALID: i32 = 100008;
    pub const REPEAT_SUBSCRIBE: i32 = 100033;
    pub const REPEAT_FINALIZE: i32 = 100037;
    pub const RT_PARAM_INVALID: i32 = 107000;
    pub const INVALID_DEVICEID: i32 = 107001;
    pub const CONTEXT_NULL: i32 = 107002;
    pub const STREAM_CONTEXT: i32 = 107003;
    pub const TIMESTAMP_INVALID: i32 = 107006;
    pub const TIMESTAMP_REVERSAL: i32 = 107007;
    pub const STREAM_SUBSCRIBE: i32 = 107011;
    pub const THREAD_SUBSCRIBE: i32 = 107012;
    pub const STREAM_NO_CB_REG: i32 = 107015;
    pub const ADDR_UNALIGNED: i32 = 107008;
    pub const INVALID_HANDLE: i32 = 107017;
    pub const WAIT_TIMEOUT: i32 = 107019;
    pub const PARAM_NOT_SET: i32 = 107021;
    pub const STREAM_ABORT: i32 = 107023;
    pub const CAPTURE_DEPENDENCY: i32 = 107024;
    pub const STREAM_UNJOINED: i32 = 107025;
    pub const MODEL_CAPTURED: i32 = 107026;
    pub const STREAM_CAPTURED: i32 = 107027;
    pub const EVENT_CAPTURED: i32 = 107028;
    pub const STREAM_NOT_CAPTURED: i32 = 107029;
    pub const CAPTURE_MODE_NOT_SUPPORT: i32 = 107030;
    pub const CAPTURE_IMPLICIT: i32 = 107031;
    pub const CAPTURE_CONFLICT: i32 = 107032;
    pub const TASK_GROUP_STATUS: i32 = 107033;
    pub const TASK_GROUP_INTR: i32 = 107034;
    pub const CAPTURE_UNMATCHED: i32 = 107036;
    pub const MODEL_RUNNING: i32 = 107037;
    pub const CAPTURE_WRONG_THREAD: i32 = 107038;
    pub const MODEL_UPDATE_FAILED: i32 = 107040;
    pub const CAPTURE_BLOCK_ASYNC: i32 = 107041;
    pub const TASK_TYPE_NOT_SUPPORT: i32 = 507009;
    pub const CAPTURE_INVALIDATED: i32 = 507903;
    pub const FEATURE_NOT_SUPPORT: i32 = 207000;
    pub const MEMORY_ALLOCATION: i32 = 207001;
    pub const RESOURCE_ALLOC_FAIL: i32 = 207005;
    pub const NO_EVENT_RESOURCE: i32 = 207007;
    pub const NO_STREAM_RESOURCE: i32 = 207008;
    pub const EVENT_NOT_COMPLETE: i32 = 507006;
    pub const REPORT_TIMEOUT: i32 = 507012;
    pub const NO_PERMISSION: i32 = 207006;
    pub const IPC_ERROR: i32 = 507022;
    pub const STREAM_SYNC_TIMEOUT: i32 = 507046;
    pub const EVENT_SYNC_TIMEOUT: i32 = 507047;
    pub const DRV_INTERNAL_ERROR: i32 = 507899;
    pub const ALREADY_REGISTERED: i32 = 507910;
    pub const NOT_REGISTERED: i32 = 507911;
}

/// aclrtMemcpyKind, 0 to 7 in order.
#[allow(missing_docs)]
pub mod kind {
    pub const H2H: i32 = 0;
    pub const H2D: i32 = 1;
    pub const D2H: i32 = 2;
    pub const D2D: i32 = 3;
    pub const DEFAULT: i32 = 4;
    pub const BUFFERED: i32 = 5;
    pub const INNER: i32 = 6;
    pub const INTER: i32 = 7;
}

/// aclrtStreamStatus: a stream with nothing left to do, and one that still has work.
pub const STREAM_COMPLETE: i32 = 0;
/// See [`STREAM_COMPLETE`].
pub const STREAM_NOT_READY: i32 = 1;
/// aclrtEventRecordedStatus, whose numbers are the other way round.
pub const EVENT_NOT_READY: i32 = 0;
/// See [`EVENT_NOT_READY`].
pub const EVENT_COMPLETE: i32 = 1;

/// Asserts success and shows the library's own message if there was none.
#[track_caller]
pub fn ok(code: i32) {
    assert_eq!(code, 0, "refused: {}", message().unwrap_or_default());
}

/// Asserts that `code` is the one expected, and names the case.
#[track_caller]
pub fn expect(what: &str, code: i32, want: i32) {
    let said = message().unwrap_or_default();
    assert_eq!(code, want, "{what}: {said}");
}

/// Asserts the code, and that the message says all of `words`.
#[track_caller]
pub fn refused(what: &str, code: i32, want: i32, words: &[&str]) {
    let said = message().unwrap_or_default();
    assert_eq!(code, want, "{what}: {said}");
    for word in words {
        assert!(said.contains(word), "{what}: `{word}` is not in: {said}");
    }
}

/// Whether the tests run on devices of memory and threads, and on no GPU: what only those can do or tell is
/// asked for there only.
pub fn on_host() -> bool {
    std::env::var_os("FERRY_BACKEND").is_none_or(|name| name == "host")
}

/// Whether the tests run under this schedule (FERRY_SCHEDULE): then work may be done before the call that
/// submits it returns, or only when it is asked for.
pub fn is_scheduled(order: &str) -> bool {
    std::env::var_os("FERRY_SCHEDULE").is_some_and(|set| set == order)
}

/// Makes device 0 current in this thread.
#[track_caller]
pub fn use_device() {
    ok(aclrtSetDevice(0));
}

/// A new stream of the current context.
#[track_caller]
pub fn stream() -> usize {
    let mut stream = 0;
    ok(aclrtCreateStream(&mut stream));
    stream
}

/// A new event that streams may wait for.
#[track_caller]
pub fn event() -> usize {
    let mut event = 0;
    ok(aclrtCreateEvent(&mut event));
    event
}

/// Waits for everything in `stream` and asserts that it went well.
#[track_caller]
pub fn finish(stream: usize) {
    ok(aclrtSynchronizeStream(stream));
}

/// Whether `stream` has work left.
#[track_caller]
pub fn stream_status(stream: usize) -> i32 {
    let mut status = -1;
    ok(aclrtStreamQuery(stream, &mut status));
    status
}

/// Whether what `event` captured is done.
#[track_caller]
pub fn event_status(event: usize) -> i32 {
    let mut status = -1;
    ok(aclrtQueryEventStatus(event, &mut status));
    status
}

/// Asks again and again until `done` says yes. The limit only turns a hang into a failure; no result depends
/// on it.
#[track_caller]
pub fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let limit = Instant::now() + Duration::from_secs(120);
    while !done() {
        assert!(Instant::now() < limit, "this never came true: {what}");
        std::thread::sleep(Duration::from_micros(50));
    }
}

/// Runs `f` on a thread that has no context, as every new thread of a C program.
pub fn in_new_thread<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> T {
    std::thread::spawn(f).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
