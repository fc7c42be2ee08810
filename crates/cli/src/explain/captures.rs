//! Causes of the error codes of graph capture and ways out, a row for each.

use super::advice::{Advice, MESSAGE, ours};

/// The rows of codes that captures answer.
pub const CAPTURES: &[Advice] = &[
    ours(
        &[107024..=107024],
        &["a captured stream waits for an event that was not recorded in its capture"],
        &[
            "record the event on a captured stream first, or wait for it before aclmdlRICaptureBegin",
            "an event of ACL_EVENT_EXTERNAL is waited for at each execution",
        ],
    ),
    ours(
        &[107025..=107025],
        &[
            "a stream that joined the capture has tasks that do not lead back to the stream that began it",
            "a task was submitted to a joined stream after the record that leads back",
        ],
        &[
            "record an event as the last task of each joined stream, and have the capturing stream wait for \
             it, before aclmdlRICaptureEnd",
            "the message names the stream",
        ],
    ),
    ours(
        &[107026..=107026],
        &["a model was executed, printed or destroyed while it was still captured or built"],
        &["call aclmdlRICaptureEnd or aclmdlRIBuildEnd first"],
    ),
    ours(
        &[107027..=107027],
        &[
            "a captured stream, or its device or context, was synchronised, queried, aborted or destroyed",
            "aclmdlRICaptureBegin on a stream that is captured already",
            "aclmdlRIExecuteAsync, or another call that is no task of a graph, on a captured stream",
        ],
        &["do it before aclmdlRICaptureBegin or after aclmdlRICaptureEnd, or on a stream that is not \
             captured"],
    ),
    ours(
        &[107028..=107028],
        &["an event that was recorded in a capture was queried, synchronised or recorded outside of it"],
        &["use another event outside, or wait until aclmdlRICaptureEnd"],
    ),
    ours(
        &[107029..=107029],
        &["a task group, or flag 1 of an event, on a stream that is not captured"],
        &["call it between aclmdlRICaptureBegin and aclmdlRICaptureEnd"],
    ),
    ours(
        &[107030..=107030],
        &["a synchronous copy or fill (aclrtMemcpy, aclrtMemset) while a stream of its context is \
             captured: in the capturing thread, or, in mode GLOBAL, in any thread"],
        &[
            "use the asynchronous form on a captured stream, or call it before the capture",
            "in another thread: capture in mode THREAD_LOCAL or RELAXED",
            "aclmdlRICaptureThreadExchangeMode with RELAXED frees the calling thread, which must not touch \
             what the graph uses",
            "F1 of FERRY_QUIRKS leaves the capture alive, as was seen on cards",
        ],
    ),
    ours(
        &[107031..=107031],
        &["the default stream (NULL) was captured, drawn into a capture, or given work while a stream of \
             its context is captured"],
        &["use streams of aclrtCreateStream"],
    ),
    ours(
        &[107032..=107032],
        &["an event or stream of one capture, or of one model that is built, was used in another"],
        &["give each capture events of its own"],
    ),
    ours(
        &[107033..=107033],
        &["task groups that nest, are ended without a beginning, or are open at aclmdlRICaptureEnd"],
        &["pair aclmdlRICaptureTaskGrpBegin and aclmdlRICaptureTaskGrpEnd on one stream"],
    ),
    ours(
        &[107034..=107034],
        &["another stream of the capture submitted a task while a task group was open"],
        &["end the group first"],
    ),
    ours(
        &[107036..=107036],
        &[
            "aclmdlRICaptureEnd on a stream that is not captured, or whose capture another thread has ended",
            "aclmdlRICaptureEnd on a stream that joined: the capture ends on the stream that it began on",
        ],
        &["aclmdlRICaptureGetInfo tells whether a stream is captured"],
    ),
    ours(
        &[107038..=107038],
        &["aclmdlRICaptureEnd in another thread than aclmdlRICaptureBegin, in mode GLOBAL or THREAD_LOCAL"],
        &[
            "end the capture in the thread that began it, or capture in mode RELAXED",
            "when that thread has ended, any other one may end the capture",
        ],
    ),
    ours(
        &[107041..=107041],
        &["an asynchronous copy or fill of host memory that is not page-locked, on a captured stream or, \
             as the mode says, beside it"],
        &[
            "allocate the memory with aclrtMallocHost, or register it with aclrtHostRegisterV2 and \
             ACL_HOST_REG_PINNED",
            "on a stream that is not captured: mode RELAXED",
        ],
    ),
    ours(
        &[507903..=507903],
        &["a refused call has broken the capture: the codes 107024 to 107032 and 107041 do that"],
        &[
            "look for the first call that failed: the message of this one names it, with its thread",
            "call aclmdlRICaptureEnd, which makes the streams usable again, and capture without that call",
            MESSAGE,
        ],
    ),
];
