//! The order of one queue: the backlog of work that the host holds back, tickets, fences, marks, host work, failures.

pub mod backlog;
pub mod crowd;
pub mod fence;
pub mod ledger;
pub mod points;
pub mod queue;
pub mod visits;
