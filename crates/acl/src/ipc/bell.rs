//! Waits for what other processes write into a shared table: one thread for each table that is waited at,
//! asleep until the table's bell rings.
//!
//! It also wakes from time to time without a bell: a process that dies rings none.

use crate::{Result, ipc::exports::no_service};
use ferry::engine::{shared_table::SharedTable, threads};
use std::{sync::Arc, time::Duration};

/// How long a process may be dead before those who wait for it find out.
const LIFE_CHECK: Duration = Duration::from_millis(50);
/// Bytes of the thread's stack.
const STACK: usize = 256 << 10;

/// Has a thread run `is_over` now, whenever the bell rings, and from time to time, until it says yes.
pub fn watch(table: Arc<SharedTable>, mut is_over: impl FnMut() -> bool + Send + 'static) -> Result<()> {
    let body = move || {
        loop {
            let seen = table.bell();
            if is_over() {
                return;
            }
            table.wait(seen, LIFE_CHECK);
        }
    };
    threads::end::spawn_staying("ferry-bell".into(), STACK, body).map_err(|why| no_service("a thread", &why))
}
