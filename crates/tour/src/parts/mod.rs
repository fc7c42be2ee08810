//! The parts of the tour, in groups. A file is a group of parts, or what several groups share.
//!
//! A part sees its setting (`crate::ctx`), computes what memory must hold (`crate::mirror`) and may start a
//! second process (`crate::child`), which then plays a role that stands beside the part. It answers with a
//! proof or an error; nothing here prints or decides what an error means. Shared by groups are `around` and
//! `mapping`; `matrix_limits`, `batch_refused` and `peers` are halves of `matrix`, `batch` and `linear`;
//! `stopping` takes descriptors from `descriptor`. No other file here imports another.

use crate::child::Role;
use crate::part::TourPart;

mod allocations;
mod around;
mod batch;
mod batch_refused;
mod blocking;
mod callbacks;
mod condition;
mod descriptor;
mod events;
mod fill;
mod graphs;
mod linear;
mod mapping;
mod matrix;
mod matrix_limits;
mod order;
mod others;
mod peers;
mod queries;
mod reduce;
mod refusal;
mod registered;
mod shared;
mod stopping;
mod virtual_memory;

/// Groups of parts: the name, the functions that it is about, the parts.
pub const GROUPS: &[(&str, &str, &[TourPart])] = &[
    ("Matrix copies", "aclrtMemcpy2dAsync, aclrtMemcpy2d", matrix::PARTS),
    ("Copies with a condition", "aclrtMemcpyAsyncWithCondition", condition::PARTS),
    ("Batches", "aclrtMemcpyBatchAsync, aclrtMemcpyBatch, and V2 of both", batch::PARTS),
    ("Descriptors", "aclrtMemcpyAsyncWithDesc, aclrtMemcpyAsyncWithOffset", descriptor::PARTS),
    ("Plain copies", "aclrtMemcpyAsync, aclrtMemcpy", linear::PARTS),
    ("What asynchronous means", "the four copies that take a stream", blocking::PARTS),
    ("Fills", "aclrtMemset, aclrtMemsetD32, and Async of both", fill::PARTS),
    ("Reductions", "aclrtReduceAsync", reduce::PARTS),
    ("Order", "streams, events and host functions", order::PARTS),
    ("Graphs", "aclmdlRICaptureBegin, aclmdlRICaptureEnd, aclmdlRIExecuteAsync", graphs::PARTS),
    (
        "Streams that stop",
        "aclrtStreamAbort, aclrtDestroyStreamForce, aclrtSetStreamFailureMode",
        stopping::PARTS,
    ),
    ("Events, notifies", "aclrtResetEvent, aclrtEventGetTimestamp, aclrtRecordNotify", events::PARTS),
    ("Callbacks", "aclrtSubscribeReport, aclrtLaunchCallback, aclrtProcessReport", callbacks::PARTS),
    ("Other allocations", "aclrtMallocWithCfg and others, aclrtFreeWithDevSync", allocations::PARTS),
    ("Registered memory", "aclrtHostRegister, ...V2, aclrtHostGetDevicePointer", registered::PARTS),
    ("Virtual memory", "aclrtReserveMemAddress, aclrtMallocPhysical, aclrtMapMem", virtual_memory::PARTS),
    ("Memory between processes", "aclrtIpcMem..., aclrtMem...ShareableHandle", shared::PARTS),
    ("Questions", "devices, versions, the last error, peers, parameters", queries::PARTS),
    ("Other processes", "visible devices, forms, endings", others::PARTS),
    ("Mistakes", "refused, explained, nothing changed", refusal::PARTS),
];

/// What a second process does in the role of this name.
pub fn role(name: &str) -> Option<Role> {
    shared::ROLES.iter().chain(others::ROLES).find(|(known, _)| *known == name).map(|(_, role)| *role)
}
