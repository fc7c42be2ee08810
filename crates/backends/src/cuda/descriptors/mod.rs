//! Copies through descriptors, which a kernel reads when it runs: their lists, the liveness of the memory they name,
//! the errors that the device reports.

pub mod late;
pub mod live;
pub mod reports;
pub mod sealed;
