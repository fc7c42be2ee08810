//! Memory that the driver makes, locks, recognises and shares: blocks and their pool, the quota of each device, registered
//! ranges, memory of other libraries, memory of other processes.

pub mod blocks;
pub mod foreign;
pub mod ipc;
pub mod pieces;
pub mod pool;
pub mod quota;
pub mod registered;
