//! Events.

use crate::call::{Address, functions};
use pyo3::prelude::*;

/// Adds the functions of this file.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    add_list_to(module)
}

functions! { "acl.rt":
    /// Makes an event.
    ///
    /// Returns (event, ret). C: aclrtCreateEvent.
    fn create_event() -> (event: Address)
        = aclrtCreateEvent(event);

    /// Makes an event with flags: what it will be used for.
    ///
    /// Returns (event, ret). C: aclrtCreateEventWithFlag.
    fn create_event_with_flag(flag: u32) -> (event: Address)
        = aclrtCreateEventWithFlag(event, flag);

    /// Makes an event with flags that keeps no state on the device.
    ///
    /// reset_event, query_event and query_event_wait_status refuse it; recorded again, it is a new event to later waits.
    ///
    /// Returns (event, ret). C: aclrtCreateEventExWithFlag.
    fn create_event_ex_with_flag(flag: u32) -> (event: Address)
        = aclrtCreateEventExWithFlag(event, flag);

    /// Ends an event.
    ///
    /// Returns ret: 0, or 107017 if it is none. C: aclrtDestroyEvent.
    fn destroy_event(event: Address)
        = aclrtDestroyEvent(event);

    /// Records an event in a stream: it is reached when all that was handed to the stream before is done.
    ///
    /// Returns ret: 0, or an error code. C: aclrtRecordEvent.
    fn record_event(event: Address, stream: Address)
        = aclrtRecordEvent(event, stream);

    /// Has a stream take an event back to not recorded when it gets here.
    ///
    /// Returns ret: 0, or an error code. C: aclrtResetEvent.
    fn reset_event(event: Address, stream: Address)
        = aclrtResetEvent(event, stream);

    /// Tells whether an event is reached, by the old numbers: 0 complete, 1 not ready. Use query_event_status.
    ///
    /// Returns (status, ret). C: aclrtQueryEvent.
    fn query_event(event: Address) -> (status: i32)
        = aclrtQueryEvent(event, status);

    /// Tells whether what an event recorded is done: 0 not ready, 1 complete.
    ///
    /// Returns (status, ret). C: aclrtQueryEventStatus.
    fn query_event_status(event: Address) -> (status: i32)
        = aclrtQueryEventStatus(event, status);

    /// Tells whether the streams that wait for an event have got past it: 0 complete, 1 not ready.
    ///
    /// Returns (status, ret). C: aclrtQueryEventWaitStatus.
    fn query_event_wait_status(event: Address) -> (status: i32)
        = aclrtQueryEventWaitStatus(event, status);

    /// Waits until an event is reached.
    ///
    /// Returns ret: 0, or an error code. C: aclrtSynchronizeEvent.
    fn synchronize_event(event: Address)
        = aclrtSynchronizeEvent(event);

    /// Waits until an event is reached, for some milliseconds at most; -1 is for ever.
    ///
    /// Returns ret: 0, 507047 if the time was up, or an error code. C: aclrtSynchronizeEventWithTimeout.
    fn synchronize_event_with_timeout(event: Address, timeout: i32)
        = aclrtSynchronizeEventWithTimeout(event, timeout);

    /// Tells the time between two events, which were both made with the flag for it.
    ///
    /// Returns (ms, ret): milliseconds, as a float. C: aclrtEventElapsedTime.
    fn event_elapsed_time(start: Address, end: Address) -> (ms: f32)
        = aclrtEventElapsedTime(ms, start, end);

    /// Tells when an event was reached.
    ///
    /// Returns (timestamp, ret): microseconds of the device's clock. C: aclrtEventGetTimestamp.
    fn event_get_timestamp(event: Address) -> (timestamp: u64)
        = aclrtEventGetTimestamp(event, timestamp);
}
