//! Streams.
#![allow(non_snake_case)] // arguments have the names that the documents have

use crate::{
    call::{Address, Int, enter, functions, take},
    dicts,
};
use pyo3::{prelude::*, types::PyDict};

/// Adds the functions of this file.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    add_list_to(module)?;
    module.add_function(wrap_pyfunction!(set_stream_attribute, module)?)?;
    module.add_function(wrap_pyfunction!(get_stream_attribute, module)?)?;
    module.add_function(wrap_pyfunction!(create_stream_with_config, module)?)
}

functions! { "acl.rt":
    /// Makes a stream of the current context.
    ///
    /// Its work runs in order, and beside that of other streams (X1).
    ///
    /// Returns (stream, ret): ret is 207005 if there are too many. C: aclrtCreateStream.
    fn create_stream() -> (stream: Address)
        = aclrtCreateStream(stream);

    /// Waits for the work of a stream and ends it.
    ///
    /// Returns ret: 0, or 107017 if it is none. C: aclrtDestroyStream.
    fn destroy_stream(stream: Address)
        = aclrtDestroyStream(stream);

    /// Drops the work of a stream and ends it.
    ///
    /// Returns ret: 0, or 107017 if it is none. C: aclrtDestroyStreamForce.
    fn destroy_stream_force(stream: Address)
        = aclrtDestroyStreamForce(stream);

    /// Waits for all work that was handed to a stream so far.
    ///
    /// stream: 0 is the default stream.
    ///
    /// Returns ret: 0, or the first error of that work. C: aclrtSynchronizeStream.
    fn synchronize_stream(stream: Address)
        = aclrtSynchronizeStream(stream);

    /// Waits for a stream, for some time at most.
    ///
    /// stream: 0 is the default stream. timeout: milliseconds, more than 0, or -1 for as long as it takes.
    ///
    /// Returns ret: 0, 507046 if the time was up, or the first error of that work. C:
    /// aclrtSynchronizeStreamWithTimeout.
    fn synchronize_stream_with_timeout(stream: Address, timeout: i32)
        = aclrtSynchronizeStreamWithTimeout(stream, timeout);

    /// Tells whether a stream has done its work. It does not wait.
    ///
    /// Returns (status, ret): 0 complete, 1 not ready; ret is the first error of that work. C:
    /// aclrtStreamQuery.
    fn stream_query(stream: Address) -> (status: i32)
        = aclrtStreamQuery(stream, status);

    /// Drops the work of a stream, which can be used again. Whoever waits for it is told so: 107023.
    ///
    /// Returns ret: 0, or an error code. C: aclrtStreamAbort.
    fn stream_abort(stream: Address)
        = aclrtStreamAbort(stream);

    /// Has a stream wait for an event: what is handed to it from here on comes after what was recorded. The
    /// call does not wait.
    ///
    /// The stream comes first here, and second in acl.rt.record_event.
    ///
    /// Returns ret: 0, or 107000 if the event was made without the flag for it (0x1), or another error code.
    /// C: aclrtStreamWaitEvent.
    fn stream_wait_event(stream: Address, event: Address)
        = aclrtStreamWaitEvent(stream, event);

    /// Keeps whether a stream is to look for overflows. Nothing overflows here.
    ///
    /// stream: 0 is the default stream. flag: 0 or 1.
    ///
    /// Returns ret: 0, or 107000 for another flag. C: aclrtSetStreamOverflowSwitch.
    fn set_stream_overflow_switch(stream: Address, flag: u32)
        = aclrtSetStreamOverflowSwitch(stream, flag);

    /// Tells what set_stream_overflow_switch kept. As set_stream_overflow_switch.
    ///
    /// Returns (flag, ret): 0 or 1. C: aclrtGetStreamOverflowSwitch.
    fn get_stream_overflow_switch(stream: Address) -> (flag: u32)
        = aclrtGetStreamOverflowSwitch(stream, flag);

    /// Writes an overflow status to device memory, in stream order: zeros, since nothing overflows here.
    ///
    /// outputAddr: device memory. outputSize: its bytes, which are 64. stream: 0 is the default stream.
    ///
    /// Returns ret: 0, or 107000 for another size or memory. C: aclrtGetOverflowStatus.
    fn get_overflow_status(outputAddr: Address, outputSize: usize, stream: Address)
        = aclrtGetOverflowStatus(outputAddr, outputSize, stream);

    /// Forgets overflows, of which there are none.
    ///
    /// stream: 0 is the default stream.
    ///
    /// Returns ret: 0, or 107017 if it is none. C: aclrtResetOverflowStatus.
    fn reset_overflow_status(stream: Address)
        = aclrtResetOverflowStatus(stream);

    /// Gives a cache a hint, in stream order. There is no cache here: the arguments are looked at, and
    /// nothing else happens.
    ///
    /// src, size: memory of the stream's device. cmo_type: 0 prefetch. stream: 0 is the default stream.
    ///
    /// Returns ret: 0, 207000 for another cmo_type, or another error code. C: aclrtCmoAsync.
    fn cmo_async(src: Address, size: usize, cmo_type: i32, stream: Address)
        = aclrtCmoAsync(src, size, cmo_type, stream);

    /// Writes 64 bits of device memory, in stream order.
    ///
    /// dev_addr: memory of the stream's device, a multiple of 8. value: 64 bits. flag: 0. stream: 0 is the
    /// default stream.
    ///
    /// Returns ret: 0, or an error code. C: aclrtValueWrite.
    fn value_write(dev_addr: Address, value: u64, flag: u32, stream: Address)
        = aclrtValueWrite(dev_addr, value, flag, stream);

    /// Has a stream wait until 64 bits of device memory, whoever writes them, are as wanted. The call does
    /// not wait.
    ///
    /// devAddr: memory of the stream's device, a multiple of 8. value: 64 bits. flag: 0 waits until *devAddr
    /// - value is not negative (as a signed number), 1 until both are equal, 2 until *devAddr & value is not
    /// 0, 3 until ~(*devAddr | value) is not 0. stream: 0 is the default stream.
    ///
    /// Returns ret: 0, or an error code. C: aclrtValueWait.
    fn value_wait(devAddr: Address, value: u64, flag: u32, stream: Address)
        = aclrtValueWait(devAddr, value, flag, stream);
}

/// Makes a stream with a priority and flags.
///
/// priority: 0, the highest, to 7; what lies outside is taken as the nearest. It changes nothing here. flag:
/// or-ed, 0 for none: 0x1 fast launch, 0x2 fast synchronise, 0x4 persistent, 0x8 huge, 0x10 of the CPU's
/// scheduler, 0x20 for devices only. With 0x4, 0x10 or 0x20 acl.rt.synchronize_stream returns at once.
///
/// Returns (stream, ret). C: aclrtCreateStreamWithConfig.
#[pyfunction]
#[pyo3(signature = (priority, flag, /))]
fn create_stream_with_config(py: Python<'_>, priority: Int<u32>, flag: Int<u32>) -> PyResult<(Address, i32)> {
    let priority = match priority {
        Int::Outside { negative, .. } => Int::Fits(if negative { 0 } else { 7 }),
        other => other,
    };
    take!(py, "acl.rt.create_stream_with_config", [priority, flag], |code| (0, code));
    enter(py, |library| {
        let mut stream = std::ptr::null_mut();
        // SAFETY: `stream` is writable for the time of the call.
        let code =
            unsafe { (library.functions.aclrtCreateStreamWithConfig)(&mut stream, priority.min(7), flag) };
        (stream as Address, code)
    })
}

/// Sets an attribute of a stream.
///
/// stream: 0 is the default stream. stm_attr_type: 1 failure mode, 2 overflow check, 3 tag, 4 caching of
/// operators' information, 5 priority. value: a dict with failureMode, overflowSwitch, userCustomTag,
/// cacheOpInfoSwitch or streamPriority, whichever it is.
///
/// Returns ret: 0, 107000 for a value that makes no sense, or another error code. C: aclrtSetStreamAttribute.
#[pyfunction]
#[pyo3(signature = (stream, stm_attr_type, value, /))]
fn set_stream_attribute(
    py: Python<'_>,
    stream: Int<Address>,
    stm_attr_type: Int<i32>,
    value: &Bound<'_, PyAny>,
) -> PyResult<i32> {
    let key = match stm_attr_type {
        Int::Fits(attribute) => dicts::stream_attribute(attribute),
        _ => None,
    };
    let value = dicts::StreamAttributes::read(value, key)?;
    take!(py, "acl.rt.set_stream_attribute", [stream, stm_attr_type, value], |code| code);
    enter(py, |library| {
        let mut value = value;
        // SAFETY: `value` is readable for the time of the call.
        unsafe { (library.functions.aclrtSetStreamAttribute)(stream as _, stm_attr_type, &mut value) }
    })
}

/// Tells an attribute of a stream.
///
/// As set_stream_attribute.
///
/// Returns (value, ret): a dict with the one key of the attribute. C: aclrtGetStreamAttribute.
#[pyfunction]
#[pyo3(signature = (stream, stm_attr_type, /))]
fn get_stream_attribute(
    py: Python<'_>,
    stream: Int<Address>,
    stm_attr_type: Int<i32>,
) -> PyResult<(Bound<'_, PyDict>, i32)> {
    let found = PyDict::new(py);
    take!(py, "acl.rt.get_stream_attribute", [stream, stm_attr_type], |code| (found, code));
    let (value, code) = enter(py, |library| {
        let mut value = ferry_abi::StreamAttribute::default();
        let function = library.functions.aclrtGetStreamAttribute;
        // SAFETY: `value` is writable for the time of the call.
        let code = unsafe { function(stream as _, stm_attr_type, &mut value) };
        (value.value, code)
    })?;
    if let Some(key) = dicts::stream_attribute(stm_attr_type).filter(|_| code == 0) {
        found.set_item(key, value)?;
    }
    Ok((found, code))
}
