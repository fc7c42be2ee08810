//! The byte mirror: what every byte must be once all work submitted so far is done, and which work is still
//! at it.
//!
//! A byte changes here when its op is submitted. That is right because an op never meets unfinished work that
//! it is not ordered after: whoever submits asks for [`Mirror::conflicts`] first, and either orders the op or
//! gives the bytes up as unknown.

use std::collections::BTreeMap;

use super::clock::Clock;

/// What made an address known to the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Origin {
    Allocated,
    Registered,
    Mapped,
    Imported,
    /// Imported while another device than the owner's was current.
    Far,
    /// Memory of the process's own.
    Plain,
}

/// Some memory: its bytes, as far as they are known.
pub(super) struct Buffer {
    pub(super) device: Option<u32>,
    pub(super) bytes: Vec<u8>,
    pub(super) known: Vec<bool>,
    pending: Vec<Access>,
}

/// An op that may not have run yet.
struct Access {
    from: usize,
    end: usize,
    stream: usize,
    number: u64,
    writes: bool,
}

/// Addresses that lead to a part of a buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    pub(super) base: usize,
    pub(super) len: usize,
    pub(super) buffer: usize,
    /// Where in the buffer it begins.
    pub(super) at: usize,
    pub(super) origin: Origin,
}

/// Pages of the process with a hole behind them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Island {
    pub(super) base: usize,
    pub(super) len: usize,
    pub(super) buffer: usize,
    pub(super) writable: bool,
}

/// A part of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) buffer: usize,
    pub(super) at: usize,
    pub(super) len: usize,
}

/// What a range of addresses is.
#[derive(Clone, Debug)]
pub(super) struct Spot {
    pub(super) pieces: Vec<Piece>,
    pub(super) device: Option<u32>,
    pub(super) origin: Origin,
    pub(super) writable: bool,
}

impl Spot {
    pub(super) fn is_plain(&self) -> bool {
        self.origin == Origin::Plain
    }

    /// Whether two ranges share a byte.
    pub(super) fn meets(&self, other: &Spot) -> bool {
        let meet = |a: &Piece, b: &Piece| a.buffer == b.buffer && a.at < b.at + b.len && b.at < a.at + a.len;
        self.pieces.iter().any(|a| other.pieces.iter().any(|b| meet(a, b)))
    }

    /// The part of this range that begins at `start`.
    pub(super) fn part(&self, start: usize, len: usize) -> Spot {
        let (mut skip, mut left, mut pieces) = (start, len, vec![]);
        for piece in &self.pieces {
            let skipped = skip.min(piece.len);
            let taken = left.min(piece.len - skipped);
            if taken > 0 {
                pieces.push(Piece { buffer: piece.buffer, at: piece.at + skipped, len: taken });
            }
            (skip, left) = (skip - skipped, left - taken);
        }
        Spot { pieces, ..self.clone() }
    }
}

/// Bytes, and which of them are known.
pub(super) type Bytes = (Vec<u8>, Vec<bool>);

/// Unfinished work that an op is not ordered after.
#[derive(Default)]
pub(super) struct Conflict {
    pub(super) streams: Vec<usize>,
    /// The op would change what unfinished work reads: then what that wrote would be unknown, and what was
    /// made of it.
    pub(super) spoils: bool,
}

#[derive(Default)]
pub(super) struct Mirror {
    buffers: Vec<Option<Buffer>>,
    pub(super) views: BTreeMap<usize, View>,
    pub(super) islands: Vec<Island>,
}

impl Mirror {
    /// A buffer of which nothing is known.
    pub(super) fn add(&mut self, device: Option<u32>, len: usize) -> usize {
        let buffer = Buffer { device, bytes: vec![0; len], known: vec![false; len], pending: vec![] };
        self.buffers.push(Some(buffer));
        self.buffers.len() - 1
    }

    pub(super) fn forget(&mut self, buffer: usize) {
        self.buffers[buffer] = None;
    }

    pub(super) fn buffer(&self, buffer: usize) -> &Buffer {
        self.buffers[buffer].as_ref().expect("a view's buffer is there")
    }

    fn buffer_mut(&mut self, buffer: usize) -> &mut Buffer {
        self.buffers[buffer].as_mut().expect("a view's buffer is there")
    }

    /// Makes addresses known.
    pub(super) fn view(&mut self, base: usize, (buffer, at, len): (usize, usize, usize), origin: Origin) {
        self.views.insert(base, View { base, len, buffer, at, origin });
    }

    /// All views in an order that has nothing to do with their addresses: those differ from process to
    /// process, and a run must not.
    pub(super) fn views_by_age(&self) -> Vec<View> {
        let mut all: Vec<_> = self.views.values().copied().collect();
        all.sort_by_key(|view| (view.buffer, view.at, view.origin));
        all
    }

    /// The view around an address.
    pub(super) fn around(&self, addr: usize) -> Option<View> {
        let (_, view) = self.views.range(..=addr).next_back()?;
        (addr - view.base < view.len).then_some(*view)
    }

    /// What `len` bytes at `addr` are, if all of them may be used; `len` is not 0.
    pub(super) fn resolve(&self, addr: usize, len: usize) -> Option<Spot> {
        let end = addr.checked_add(len)?;
        match self.around(addr) {
            Some(view) if view.origin != Origin::Registered => self.walk(view, addr, end),
            Some(view) if end <= view.base + view.len => self.walk(view, addr, end),
            _ => self.plain(addr, end),
        }
    }

    fn walk(&self, first: View, addr: usize, end: usize) -> Option<Spot> {
        let (device, origin) = (self.buffer(first.buffer).device, first.origin);
        let (mut view, mut at, mut pieces) = (first, addr, vec![]);
        loop {
            let until = end.min(view.base + view.len);
            pieces.push(Piece { buffer: view.buffer, at: at - view.base + view.at, len: until - at });
            if until == end {
                return Some(Spot { pieces, device, origin, writable: true });
            }
            // Only what is mapped goes on behind its end.
            let next = self.views.get(&until).filter(|next| next.origin == Origin::Mapped)?;
            if origin != Origin::Mapped || self.buffer(next.buffer).device != device {
                return None;
            }
            (view, at) = (*next, until);
        }
    }

    fn plain(&self, addr: usize, end: usize) -> Option<Spot> {
        let island = self.islands.iter().find(|i| i.base <= addr && end <= i.base + i.len)?;
        let piece = Piece { buffer: island.buffer, at: addr - island.base, len: end - addr };
        Some(Spot { pieces: vec![piece], device: None, origin: Origin::Plain, writable: island.writable })
    }

    pub(super) fn read(&self, spot: &Spot) -> Bytes {
        let (mut bytes, mut known) = (vec![], vec![]);
        for piece in &spot.pieces {
            let buffer = self.buffer(piece.buffer);
            bytes.extend_from_slice(&buffer.bytes[piece.at..piece.at + piece.len]);
            known.extend_from_slice(&buffer.known[piece.at..piece.at + piece.len]);
        }
        (bytes, known)
    }

    pub(super) fn write(&mut self, spot: &Spot, (bytes, known): &Bytes) {
        let mut from = 0;
        for piece in &spot.pieces {
            let buffer = self.buffer_mut(piece.buffer);
            let part = from..from + piece.len;
            buffer.bytes[piece.at..piece.at + piece.len].copy_from_slice(&bytes[part.clone()]);
            buffer.known[piece.at..piece.at + piece.len].copy_from_slice(&known[part]);
            from += piece.len;
        }
    }

    /// Gives the bytes up.
    pub(super) fn lose(&mut self, spot: &Spot) {
        for piece in &spot.pieces {
            self.buffer_mut(piece.buffer).known[piece.at..piece.at + piece.len].fill(false);
        }
    }

    /// Unfinished work that an op with this clock meets there.
    pub(super) fn conflicts(&self, spot: &Spot, writes: bool, clock: &Clock, all: &mut Conflict) {
        for piece in &spot.pieces {
            for old in &self.buffer(piece.buffer).pending {
                let meets = old.from < piece.at + piece.len && piece.at < old.end;
                if meets && (writes || old.writes) && old.number > clock.of(old.stream) {
                    all.spoils |= writes && !old.writes;
                    if !all.streams.contains(&old.stream) {
                        all.streams.push(old.stream);
                    }
                }
            }
        }
    }

    /// An op of a stream uses the range from now on; what the host has seen done is forgotten on the way.
    pub(super) fn touch(&mut self, spot: &Spot, writes: bool, (stream, number): (usize, u64), host: &Clock) {
        for piece in &spot.pieces {
            let pending = &mut self.buffer_mut(piece.buffer).pending;
            if pending.len() >= 32 {
                pending.retain(|old| old.number > host.of(old.stream));
            }
            pending.push(Access { from: piece.at, end: piece.at + piece.len, stream, number, writes });
        }
    }

    /// Gives up what unfinished work writes: it may be dropped, or lose its order.
    pub(super) fn lose_unfinished(&mut self, host: &Clock) {
        for buffer in self.buffers.iter_mut().flatten() {
            for old in buffer.pending.iter().filter(|old| old.writes && old.number > host.of(old.stream)) {
                buffer.known[old.from..old.end].fill(false);
            }
        }
    }
}
