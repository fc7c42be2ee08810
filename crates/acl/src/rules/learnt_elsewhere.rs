//! Records of this process that another process may have waited for, while somebody watches.
//!
//! A program may learn from another process that its own work has passed: the other one waits for an event
//! that both share, and answers through a pipe or a record of its own. Nobody here has joined the work then,
//! and yet it is right to use its memory. So the table of an event's records says which of them another
//! process has waited for (`ipc/records.rs`), and what comes before such a record counts as joined once it is
//! complete. It is asked before each call of a program that is watched, and before an access is told.

use crate::{
    ipc::records::{EventRecords, RecordId},
    state::engine,
};
use ferry_core::{Fence, JoinKind, sync::lock};
use std::{
    mem,
    sync::{
        Arc, Mutex, TryLockError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

/// Records that are kept; of more, the oldest are forgotten.
const KEPT: usize = 1 << 12;

struct OwnRecord {
    records: Arc<EventRecords>,
    record: RecordId,
    fence: Arc<dyn Fence>,
}

static OWN: Mutex<Vec<OwnRecord>> = Mutex::new(Vec::new());
/// How many there are, so that calls of programs without any cost a load.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// A record of this process, and what is done when the stream has got there.
pub fn add(records: Arc<EventRecords>, record: RecordId, fence: Arc<dyn Fence>) {
    ferry::watching::ask_elsewhere_by(learn);
    let mut own = lock(&OWN);
    if own.len() >= KEPT {
        own.drain(..KEPT / 2);
    }
    own.push(OwnRecord { records, record, fence });
    COUNT.store(own.len(), Relaxed);
}

/// Observers are told of what other processes have waited for.
pub fn learn() {
    if COUNT.load(Relaxed) == 0 {
        return;
    }
    // The thread that looks after accesses must not wait for one that it holds up.
    let mut own = match OWN.try_lock() {
        Ok(own) => own,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => return,
    };
    let (known, unknown): (Vec<_>, Vec<_>) =
        mem::take(&mut *own).into_iter().partition(|own| own.records.is_known_elsewhere(own.record));
    *own = unknown;
    COUNT.store(own.len(), Relaxed);
    drop(own);
    if let Ok(engine) = engine() {
        known.iter().for_each(|own| engine.runtime.joined(&*own.fence, JoinKind::Elsewhere));
    }
}
