//! Where bytes came from: copies that repeat others, and bytes that return from the host.
//!
//! Everything here is in the order of submission. Copies of streams that nothing orders may run in another
//! order; then what they leave behind is not decided by the program, and neither is the advice.

use crate::fact::{Piece, Route, Work};

use super::super::generations::{FastMap, Generations};
use super::SiteIndex;
use super::writes::Writes;

/// Transfers, and ranges that were written, that are remembered; past this number all are forgotten.
const REMEMBERED: usize = 1 << 16;

/// Processes whose memory is followed; past this number all are forgotten.
const PROCESSES: usize = 1 << 12;

/// Copies by address, and what was written since.
pub(super) struct Transfers {
    /// The number of the last op: ops are counted.
    clock: u64,
    writes: FastMap<u32, Writes>,
    sent: FastMap<(u32, Piece), u64>,
    fetched: FastMap<(u32, u64), Fetch>,
    /// The clock when a thread of a process last learnt that work had passed.
    joined: FastMap<u32, u64>,
    /// Hashes of sources by the number of the copy.
    hashes: Generations<u64, u64>,
}

/// A copy to the host.
struct Fetch {
    number: u64,
    len: u64,
    site: SiteIndex,
}

/// What is known of one copy when it is submitted.
#[derive(Clone, Debug)]
pub(super) struct Transfer {
    number: u64,
    /// The copy with the same ends before it, if nothing was written to the destination since.
    before: Option<u64>,
    /// Whether it is known that the source did not change since: no host memory is read.
    pub(super) is_repeated: bool,
    /// The copy that brought these bytes to the host, if nothing on the host could have read them since.
    pub(super) round_trip: Option<SiteIndex>,
}

impl Default for Transfers {
    fn default() -> Transfers {
        Transfers {
            clock: 0,
            writes: FastMap::default(),
            sent: FastMap::default(),
            fetched: FastMap::default(),
            joined: FastMap::default(),
            hashes: Generations::new(REMEMBERED),
        }
    }
}

impl Transfers {
    /// Takes what an op does; the answer is for copies in one piece.
    pub(super) fn submitted(&mut self, process: u32, site: SiteIndex, work: &Work) -> Option<Transfer> {
        self.clock += 1;
        if self.sent.len() + self.fetched.len() >= REMEMBERED || self.writes.len() > PROCESSES {
            self.forget_all();
        }
        match work {
            Work::Linear { route, piece } => Some(self.transfer(process, site, *route, *piece)),
            Work::Rows { rows, .. } => {
                let len =
                    rows.dst_pitch.saturating_mul(rows.height.saturating_sub(1)).saturating_add(rows.width);
                self.written(process, rows.dst, len);
                None
            }
            Work::Batch { pieces, count, .. } if pieces.len() as u64 == *count => {
                pieces.iter().for_each(|piece| self.written(process, piece.dst, piece.len));
                None
            }
            Work::Fill { dst, len, .. } => self.only_written(process, *dst, *len),
            Work::Reduce { piece, .. } => self.only_written(process, piece.dst, piece.len),
            // It is not known what these write.
            Work::Batch { .. } | Work::Through { .. } => {
                self.forget_all();
                None
            }
            Work::Nothing | Work::Mark | Work::Function => None,
        }
    }

    fn only_written(&mut self, process: u32, dst: u64, len: u64) -> Option<Transfer> {
        self.written(process, dst, len);
        None
    }

    /// Something was written, or is other memory than it was.
    pub(super) fn written(&mut self, process: u32, dst: u64, len: u64) {
        let writes = self.writes.entry(process).or_default();
        writes.write(dst, len, self.clock);
        if writes.len() >= REMEMBERED {
            self.forget_all();
        }
    }

    /// A thread of the process has learnt that work has passed: it may read what that wrote.
    pub(super) fn joined(&mut self, process: u32) {
        self.joined.insert(process, self.clock);
    }

    /// The source of a copy had this hash. Whether the copy with the same ends before it had the same one.
    pub(super) fn is_same_as_before(&mut self, transfer: &Transfer, hash: u64) -> bool {
        self.hashes.insert(transfer.number, hash);
        let before = transfer.before.and_then(|before| self.hashes.get_mut(&before).copied());
        before == Some(hash)
    }

    fn transfer(&mut self, process: u32, site: SiteIndex, route: Route, piece: Piece) -> Transfer {
        let number = self.clock;
        let writes = self.writes.entry(process).or_default();
        let before = self.sent.get(&(process, piece)).copied();
        let before = before.filter(|before| writes.newest(piece.dst, piece.len) == Some(*before));
        let is_source_same = before
            .is_some_and(|before| writes.newest(piece.src, piece.len).is_none_or(|written| written < before));
        let round_trip = self.round_trip(process, route, &piece);
        self.written(process, piece.dst, piece.len);
        self.sent.insert((process, piece), number);
        if route.src.is_some() && route.dst.is_none() {
            self.fetched.insert((process, piece.dst), Fetch { number, len: piece.len, site });
        }
        Transfer { number, before, is_repeated: is_source_same && route.src.is_some(), round_trip }
    }

    fn round_trip(&self, process: u32, route: Route, piece: &Piece) -> Option<SiteIndex> {
        if route.src.is_some() || route.dst.is_none() {
            return None;
        }
        let fetch = self.fetched.get(&(process, piece.src)).filter(|fetch| fetch.len >= piece.len)?;
        let is_newest = self.writes.get(&process)?.newest(piece.src, piece.len) == Some(fetch.number);
        let was_read = self.joined.get(&process).is_some_and(|joined| *joined >= fetch.number);
        (is_newest && !was_read).then_some(fetch.site)
    }

    fn forget_all(&mut self) {
        self.writes.clear();
        self.sent.clear();
        self.fetched.clear();
        self.joined.clear();
    }
}
