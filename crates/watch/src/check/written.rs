//! Device memory that nobody wrote: byte by byte, carried along by copies inside devices.
//!
//! Memory that is allocated begins as unwritten. Copies, fills and reductions write it; a copy of unwritten
//! bytes leaves unwritten bytes. Memory that came otherwise (imported, registered, mapped, lent to another
//! process) or that the CPU reaches counts as written, since others may write it unseen.

use crate::fact::{Block, Origin, Piece, Work};
use crate::span_map::{Sliced, SpanMap};

/// Marks bytes that nobody wrote.
#[derive(Clone, Copy)]
struct Unwritten;

impl Sliced for Unwritten {
    fn behind(&self, _: u64) -> Unwritten {
        Unwritten
    }
}

/// The unwritten bytes of the devices, in the engine's addresses.
#[derive(Default)]
pub struct WrittenBytes {
    unwritten: SpanMap<Unwritten>,
}

/// Unwritten bytes that went to the host.
pub struct UnwrittenRead {
    /// The first of them.
    pub start: u64,
    /// The first byte behind those in a row with it.
    pub end: u64,
    /// How many there are in all.
    pub bytes: u64,
    /// All of them.
    pub all: Vec<(u64, u64)>,
}

impl WrittenBytes {
    /// Memory became known; `is_reachable` if the CPU can touch it.
    pub fn know(&mut self, block: &Block, is_reachable: bool) {
        let (start, end) = (block.at, block.at + block.len);
        if block.device.is_some() && block.origin == Origin::Allocated && !is_reachable {
            self.unwritten.insert(start, end, Unwritten);
        } else {
            self.unwritten.remove(start, end);
        }
    }

    /// How many ranges are kept.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.unwritten.len()
    }

    /// These bytes count as written.
    pub fn write(&mut self, start: u64, end: u64) {
        self.unwritten.remove(start, end);
    }

    /// These bytes do not count as written, though they were told of.
    pub fn forget(&mut self, told: &[(u64, u64)]) {
        told.iter().for_each(|(start, end)| self.unwritten.insert(*start, *end, Unwritten));
    }

    /// Somebody may have written anything.
    pub fn give_up(&mut self) {
        self.unwritten = SpanMap::default();
    }

    /// An op did its work: what it copied to the host that nobody wrote.
    pub fn run(&mut self, work: &Work, pieces: &[Piece]) -> Option<UnwrittenRead> {
        if self.unwritten.len() == 0 {
            return None;
        }
        match work {
            Work::Fill { dst, len, .. } => self.write(*dst, dst + len),
            Work::Reduce { .. } => pieces.iter().for_each(|piece| self.combine(piece)),
            _ if work.route().is_some_and(|route| route.src.is_none()) => {
                pieces.iter().for_each(|piece| self.write(piece.dst, piece.dst + piece.len));
            }
            _ if work.route().is_some_and(|route| route.dst.is_none()) => return self.read(pieces),
            _ => pieces.iter().for_each(|piece| self.carry(piece)),
        }
        None
    }

    fn unwritten_source(&self, piece: &Piece) -> Vec<(u64, u64)> {
        let to_dst = |at: u64| at - piece.src + piece.dst;
        let within = self.unwritten.within(piece.src, piece.src + piece.len);
        within.map(|(from, to, _)| (to_dst(from), to_dst(to))).collect()
    }

    fn carry(&mut self, piece: &Piece) {
        let unwritten = self.unwritten_source(piece);
        self.write(piece.dst, piece.dst + piece.len);
        unwritten.iter().for_each(|(from, to)| self.unwritten.insert(*from, *to, Unwritten));
    }

    /// The result of a reduction is as unwritten as either of its sides.
    fn combine(&mut self, piece: &Piece) {
        let unwritten = self.unwritten_source(piece);
        unwritten.iter().for_each(|(from, to)| self.unwritten.insert(*from, *to, Unwritten));
    }

    /// Bytes go to the host. What was told once counts as written.
    fn read(&mut self, pieces: &[Piece]) -> Option<UnwrittenRead> {
        let mut found: Option<UnwrittenRead> = None;
        for piece in pieces {
            for (start, end, _) in self.unwritten.within(piece.src, piece.src + piece.len) {
                let new = || UnwrittenRead { start, end: start, bytes: 0, all: Vec::new() };
                let read = found.get_or_insert_with(new);
                read.all.push((start, end));
                read.bytes += end - start;
                if read.end == start {
                    read.end = end;
                }
            }
        }
        let told = found.iter().flat_map(|read| &read.all);
        told.for_each(|(start, end)| self.unwritten.remove(*start, *end));
        found
    }
}
