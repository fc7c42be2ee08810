//! What the Python module and the companion libraries call beside the C ABI. These names are in no header and
//! may change with any version: the module asks [`ferryVersion`] first, and works with its own version only;
//! companions are installed with their library.

use crate::{
    enter::{callable, enter},
    types::{aclError, aclrtStream},
};
use ferry_acl::{
    call,
    callback::Callback,
    constants::{ACL_ERROR_INTERNAL_ERROR, ACL_SUCCESS},
    functions,
    interrupt::{self},
    rules::{
        copy::Async,
        operator::{self, OperatorAccess, OperatorRange},
        pyacl, report, stream,
    },
    state::{self, Check},
    watched,
};
use std::{
    ffi::{CStr, c_char, c_void},
    panic::catch_unwind,
};

/// The version of this library.
#[unsafe(no_mangle)]
pub extern "C" fn ferryVersion() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// aclrtMemcpyAsyncWithCondition by the rules of its Python page.
///
/// # Safety
/// Both ranges stay valid until `stream` has passed this copy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferryMemcpyAsyncWithCondition(
    dst: *mut c_void,
    destMax: usize,
    src: *const c_void,
    count: usize,
    kind: i32,
    stream: aclrtStream,
) -> aclError {
    enter(&functions::aclrtMemcpyAsyncWithCondition, |here| {
        let (dst, src, stream) = (dst as usize, src as usize, stream as usize);
        let copy = Async { dst, dest_max: destMax, src, count, kind, stream };
        // SAFETY: the C contract keeps both ranges alive until the copy is done.
        unsafe { pyacl::memcpy_async_with_condition(here, copy) }
    })
}

/// aclrtLaunchCallback for a caller whose data must not leak: either `run` or `forget` is called with it,
/// once, whatever happens; `forget` on any thread.
///
/// # Safety
/// Both functions may be called with `data` until one of them has been.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferryLaunchCallback(
    run: unsafe extern "C" fn(*mut c_void),
    forget: unsafe extern "C" fn(*mut c_void),
    data: *mut c_void,
    blockType: i32,
    stream: aclrtStream,
) -> aclError {
    let launched = callable("run", Some(run)).map(|function| {
        // SAFETY: the caller's promise.
        unsafe { Callback::new("aclrtLaunchCallback", function, data as usize, Some(forget)) }
    });
    enter(&functions::aclrtLaunchCallback, |here| report::launch(here, stream as usize, blockType, launched?))
}

/// Refuses a call for an argument that C cannot be given, with this code, and keeps the message for
/// aclGetRecentErrMsg.
///
/// # Safety
/// Both are C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferryRefuse(function: *const c_char, note: *const c_char, code: i32) -> aclError {
    // SAFETY: the caller's promise.
    let text = |at| unsafe { CStr::from_ptr(at) }.to_string_lossy();
    call::refuse_call(&text(function), code, text(note).into_owned())
}

/// An operator that was to run in `stream` fails with this code and note, and goes on failing: all streams of
/// the stream's context drop what they have, refuse new work with that code, and answer it to every
/// synchronise until the context ends (aclrtResetDevice for a default one). The message is kept for
/// aclGetRecentErrMsg and the code for aclrtPeekAtLastError. A bad handle answers its own code.
///
/// # Safety
/// Both are C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferryOperatorFailed(
    function: *const c_char,
    note: *const c_char,
    code: i32,
    stream: aclrtStream,
) -> aclError {
    // SAFETY: the caller's promise.
    let text = |at| unsafe { CStr::from_ptr(at) }.to_string_lossy();
    call::fail_operator(&text(function), stream as usize, code, text(note).into_owned())
}

/// The CPU is about to run an operator in `stream`: waits for the stream's earlier work, and says where the
/// operator's memory is. The operator runs before this thread's next call.
///
/// A range is four words: the program's address of the first byte; how many bytes; 0 if the operator reads
/// them, 1 if it replaces all of them, 2 if it reads and changes them; and, written here, the address by
/// which the CPU may use them until they are freed, or 0 if there is none.
///
/// # Safety
/// `ranges` has `count` members that may be written, and their memory stays valid during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferryOperator(
    ranges: *mut [usize; 4],
    count: usize,
    stream: aclrtStream,
) -> aclError {
    enter(&functions::ferryOperator, |here| {
        let ranges = match count {
            0 => &mut [],
            // SAFETY: the caller's promise.
            _ => unsafe { std::slice::from_raw_parts_mut(ranges, count) },
        };
        let ranges = ranges.iter_mut().map(|[addr, len, access, at]| {
            let access = OperatorAccess::from(*access);
            (OperatorRange { addr: *addr, len: *len, access }, at)
        });
        operator::run(here, stream as usize, ranges)
    })
}

/// Whether the CPU may read, or also write, these bytes. If not, `note` receives up to `room` bytes of text,
/// with its end.
///
/// # Safety
/// `note` has that room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferryHostRange(
    ptr: *const c_void,
    len: usize,
    write: i32,
    note: *mut c_char,
    room: usize,
) -> aclError {
    match catch_unwind(|| pyacl::host_range(ptr as usize, len, write != 0)) {
        Ok(Ok(())) => ACL_SUCCESS,
        Ok(Err(error)) => {
            let text = error.note.bytes().take(room.saturating_sub(1)).chain([0]).take(room);
            // SAFETY: the caller's promise.
            text.enumerate().for_each(|(index, byte)| unsafe { note.add(index).write(byte as c_char) });
            error.code
        }
        Err(_) => ACL_ERROR_INTERNAL_ERROR,
    }
}

/// Has the waits of this thread ask `check`, every 50 ms and while no lock of the library is held, whether to
/// go on: what is not 0 ends them, and the call fails. NULL takes that back. Returns the one before.
///
/// # Safety
/// `check` may be called on this thread until it is taken back, and does not unwind.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferryCheckWhileWaiting(check: Option<Check>) -> Option<Check> {
    // SAFETY: the caller's promise.
    unsafe { interrupt::watch(check) }
}

/// Drops all work of all streams, and returns when none of it touches memory any more. For a process that is
/// about to end.
#[unsafe(no_mangle)]
pub extern "C" fn ferryStop() -> aclError {
    // Whatever goes wrong here, the process ends.
    let _ = catch_unwind(stream::abort_all);
    ACL_SUCCESS
}

/// Whether this copy of the library has been used: another one in the same process asks.
#[unsafe(no_mangle)]
pub extern "C" fn ferryInUse() -> i32 {
    state::in_use().into()
}

/// Whether facts about this process are written: 1, 2 if they have whole stacks, or 0.
#[unsafe(no_mangle)]
pub extern "C" fn ferryIsWatched() -> i32 {
    watched::is_watched().map_or(0, |has_stacks| 1 + i32::from(has_stacks))
}

/// Gives a line of a Python program a number, for [`ferrySetLines`].
///
/// # Safety
/// Both are C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferryDefineLine(file: *const c_char, function: *const c_char, line: u32) -> u32 {
    // SAFETY: the caller's promise.
    let text = |at| unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned();
    watched::define_line(text(file), text(function), line)
}

/// The next call of this thread comes from the first of the lines with these numbers, which the others have
/// called.
///
/// # Safety
/// There are `count` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferrySetLines(numbers: *const u32, count: usize) {
    // SAFETY: the caller's promise.
    watched::set_lines(unsafe { std::slice::from_raw_parts(numbers, count) });
}
