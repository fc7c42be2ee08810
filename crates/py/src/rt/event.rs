//! Events.

use crate::call::{Address, functions};
use pyo3::prelude::*;

/// Adds the functions of this file.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    add_list_to(module)
}

functions! { "acl.rt":
    /// Makes an event, for streams to wait for and for times. acl.rt.reset_event refuses it.
    ///
    /// Returns (event, ret). C: aclrtCreateEvent.
    fn create_event() -> (event: Address)
        = aclrtCreateEvent(event);

    /// Makes an event for some uses.
    ///
    /// flag: or-ed, not 0: 0x1 streams wait for it and reset it, 0x2 it follows a stream's progress, 0x8 it
    /// takes the time, 0x10 only devices use it; or alone, 0x20 external or 0x40 between processes. Without
    /// 0x1 acl.rt.stream_wait_event and acl.rt.reset_event refuse it.
    ///
    /// Returns (event, ret). C: aclrtCreateEventWithFlag.
    fn create_event_with_flag(flag: u32) -> (event: Address)
        = aclrtCreateEventWithFlag(event, flag);

    /// Makes an event for some uses, of the newer kind.
    ///
    /// flag: as in create_event_with_flag. Before it is first recorded acl.rt.query_event_status calls it
    /// complete. acl.rt.reset_event, acl.rt.query_event and acl.rt.query_event_wait_status refuse it with
    /// 107000. Recorded again, it is a new event to later waits.
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
    /// The event comes first here, and second in acl.rt.stream_wait_event. stream: 0 is the default stream.
    ///
    /// Returns ret: 0, or an error code. C: aclrtRecordEvent.
    fn record_event(event: Address, stream: Address)
        = aclrtRecordEvent(event, stream);

    /// Has a stream take an event back to not recorded when it gets here: later waits are for the next
    /// record.
    ///
    /// event: one of acl.rt.create_event_with_flag with flag 0x1; any other is refused with 107000. stream: 0
    /// is the default stream.
    ///
    /// Returns ret: 0, or an error code. C: aclrtResetEvent.
    fn reset_event(event: Address, stream: Address)
        = aclrtResetEvent(event, stream);

    /// Tells whether an event is reached, by the old numbers. Deprecated: use query_event_status.
    ///
    /// Returns (status, ret): 0 complete, 1 not ready. C: aclrtQueryEvent.
    fn query_event(event: Address) -> (status: i32)
        = aclrtQueryEvent(event, status);

    /// Tells whether what an event recorded is done. It does not wait.
    ///
    /// Returns (status, ret): 0 not ready, 1 complete; the other way round than acl.rt.query_event. C:
    /// aclrtQueryEventStatus.
    fn query_event_status(event: Address) -> (status: i32)
        = aclrtQueryEventStatus(event, status);

    /// Tells whether the streams that wait for an event have got past it.
    ///
    /// Returns (status, ret): 0 complete, 1 not ready. C: aclrtQueryEventWaitStatus.
    fn query_event_wait_status(event: Address) -> (status: i32)
        = aclrtQueryEventWaitStatus(event, status);

    /// Waits until an event is reached. One that was never recorded is not waited for.
    ///
    /// Returns ret: 0, or an error code. C: aclrtSynchronizeEvent.
    fn synchronize_event(event: Address)
        = aclrtSynchronizeEvent(event);

    /// Waits until an event is reached, for some time at most.
    ///
    /// timeout: milliseconds, more than 0, or -1 for as long as it takes.
    ///
    /// Returns ret: 0, 507047 if the time was up, or an error code. C: aclrtSynchronizeEventWithTimeout.
    fn synchronize_event_with_timeout(event: Address, timeout: i32)
        = aclrtSynchronizeEventWithTimeout(event, timeout);

    /// Tells the time between two events that were reached.
    ///
    /// start, end: events of acl.rt.create_event, or made with flag 0x8.
    ///
    /// Returns (ms, ret): milliseconds, a float; ret is 107006 if one has no time, 107007 if end was
    /// reached before start. C: aclrtEventElapsedTime.
    fn event_elapsed_time(start: Address, end: Address) -> (ms: f32)
        = aclrtEventElapsedTime(ms, start, end);

    /// Tells when an event was reached.
    ///
    /// event: one of acl.rt.create_event, or made with flag 0x8.
    ///
    /// Returns (timestamp, ret): microseconds of the device's clock; ret is 507006 if it is not reached yet.
    /// C: aclrtEventGetTimestamp.
    fn event_get_timestamp(event: Address) -> (timestamp: u64)
        = aclrtEventGetTimestamp(event, timestamp);

    /// Limits how long streams wait for events that they are told to wait for from here on, in the whole
    /// process.
    ///
    /// timeout: seconds; 0 is no limit. What takes longer is 107019 at the next acl.rt.synchronize_stream,
    /// and the stream goes on.
    ///
    /// Returns ret: 0, or an error code. C: aclrtSetOpWaitTimeout.
    fn set_op_wait_timeout(timeout: u32)
        = aclrtSetOpWaitTimeout(timeout);
}
