//! Reads and writes of a range of bytes that a later one may race with.

use crate::span_map::Sliced;

/// Accesses of one stream that are kept before those that cannot race any more are dropped.
const KEPT_ACCESSES: usize = 32;

/// How far each stream has come.
pub type ClockView<'a> = &'a [u64];

/// A read or a write by an op; or by the host, which writes the source of an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowAccess {
    /// The stream, or the number behind all streams for the host.
    pub stream: u32,
    /// The number of the op in it.
    pub ticket: u64,
    /// The op.
    pub op: usize,
    /// Whether it writes.
    pub is_write: bool,
}

/// All accesses to a range.
#[derive(Clone, Debug, Default)]
pub struct Accesses {
    streams: Vec<StreamAccesses>,
    last_writer: Option<FlowAccess>,
}

/// The accesses of one stream, in order.
#[derive(Clone, Debug)]
struct StreamAccesses {
    stream: u32,
    list: Vec<FlowAccess>,
    /// The newest ticket, and that of the newest write; they stay when the list is shortened.
    newest: u64,
    newest_write: u64,
}

impl Sliced for Accesses {
    fn behind(&self, _skipped: u64) -> Accesses {
        self.clone()
    }
}

impl Accesses {
    /// One access more, which comes after what it is ordered after.
    pub fn add(&mut self, access: FlowAccess) {
        let index = self.streams.iter().position(|own| own.stream == access.stream);
        let index = index.unwrap_or_else(|| {
            let FlowAccess { stream, .. } = access;
            self.streams.push(StreamAccesses { stream, list: Vec::new(), newest: 0, newest_write: 0 });
            self.streams.len() - 1
        });
        let own = &mut self.streams[index];
        own.list.push(access);
        own.newest = own.newest.max(access.ticket);
        if access.is_write {
            own.newest_write = own.newest_write.max(access.ticket);
            self.last_writer = Some(access);
        }
    }

    /// The last access that wrote here.
    pub fn last_writer(&self) -> Option<FlowAccess> {
        self.last_writer
    }

    /// Those of other streams that `access`, a write with this clock, is not ordered after. They are unknown
    /// from here on, which is to be told once: they are forgotten.
    pub fn take_racing(&mut self, access: &FlowAccess, clock: ClockView) -> Vec<FlowAccess> {
        let mut racing = Vec::new();
        for own in self.streams.iter_mut().filter(|own| own.stream != access.stream) {
            let ordered = own.list.partition_point(|other| other.ticket <= clock[own.stream as usize]);
            racing.extend(own.list.drain(ordered..));
        }
        racing
    }

    /// Whether a write of another stream races with `access`.
    pub fn races_with_write(&self, access: &FlowAccess, clock: ClockView) -> bool {
        let others = self.streams.iter().filter(|own| own.stream != access.stream);
        others.into_iter().any(|own| own.newest_write > clock[own.stream as usize])
    }

    /// Takes up what is known of other bytes: of both together only what holds for all of them.
    pub fn join(&mut self, other: Accesses) {
        for theirs in other.streams {
            match self.streams.iter_mut().find(|own| own.stream == theirs.stream) {
                Some(own) => {
                    own.list.extend(theirs.list);
                    own.list.sort_unstable_by_key(|access| (access.ticket, access.op, access.is_write));
                    own.list.dedup();
                    own.newest = own.newest.max(theirs.newest);
                    own.newest_write = own.newest_write.max(theirs.newest_write);
                }
                None => self.streams.push(theirs),
            }
        }
        if self.last_writer != other.last_writer {
            self.last_writer = None;
        }
    }

    /// For each other stream, how far it must have come before `access`.
    pub fn conflicts(&self, access: &FlowAccess) -> impl Iterator<Item = (u32, u64)> {
        let (stream, is_write) = (access.stream, access.is_write);
        let others = self.streams.iter().filter(move |own| own.stream != stream);
        let conflicts =
            others.map(move |own| (own.stream, if is_write { own.newest } else { own.newest_write }));
        conflicts.filter(|(_, ticket)| *ticket > 0)
    }

    /// Whether a clock has passed all of them.
    pub fn are_over(&self, clock: ClockView) -> bool {
        self.streams.iter().all(|own| clock[own.stream as usize] >= own.newest)
    }

    /// Forgets those that every later access is ordered after.
    pub fn prune(&mut self, clock: ClockView) {
        for own in self.streams.iter_mut().filter(|own| own.list.len() >= KEPT_ACCESSES) {
            let passed = clock[own.stream as usize];
            own.list.retain(|access| access.ticket > passed);
        }
    }
}
