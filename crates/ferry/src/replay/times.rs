//! When ops of a replay ran.

use ferry_core::{DeviceTime, Fate, Observer, Point, Ticket};
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Streams share this many locks.
const SHARDS: usize = 16;

/// Observes how long each op runs.
#[derive(Default)]
pub(super) struct OpTimes {
    shards: [Mutex<HashMap<Point, OpTime>>; SHARDS],
}

#[derive(Clone, Copy)]
enum OpTime {
    Since(Instant),
    For(Duration),
}

impl OpTimes {
    fn shard(&self, stream: u64) -> MutexGuard<'_, HashMap<Point, OpTime>> {
        self.shards[stream as usize % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long an op ran, if it was seen.
    pub(super) fn ran(&self, stream: u64, ticket: Ticket) -> Option<Duration> {
        match self.shard(stream).get(&Point { stream, ticket }) {
            Some(OpTime::For(time)) => Some(*time),
            _ => None,
        }
    }
}

impl Observer for OpTimes {
    fn begun(&self, op: Point, _at_once: bool) {
        self.shard(op.stream).insert(op, OpTime::Since(Instant::now()));
    }

    fn passed(&self, op: Point, fate: Fate, when: Option<DeviceTime>) {
        if fate != Fate::Done {
            return;
        }
        let mut shard = self.shard(op.stream);
        let ran = match (when, shard.get(&op)) {
            (Some(DeviceTime { begin_ns, end_ns, .. }), _) => {
                Duration::from_nanos(end_ns.saturating_sub(begin_ns))
            }
            (None, Some(OpTime::Since(begin))) => begin.elapsed(),
            _ => return,
        };
        shard.insert(op, OpTime::For(ran));
    }
}
