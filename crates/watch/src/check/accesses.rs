//! Which bytes an op reads and writes, in the engine's addresses.

use crate::fact::{DESCRIPTOR_BYTES, Piece, Rows, Work};

/// Bytes in a row that an op reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteAccess {
    /// The first byte.
    pub start: u64,
    /// The first byte behind.
    pub end: u64,
    /// Whether it writes them; else it reads them.
    pub is_write: bool,
}

/// What is known of the addresses that an op reads when it runs.
#[derive(Clone, Debug)]
pub enum Resolution {
    /// It copied these pieces: several where memory is mapped so, none if it is no late-bound copy.
    Copied(Vec<Piece>),
    /// It was dropped before it read them, and has copied nothing.
    Dropped,
    /// They were never told.
    Unknown,
}

impl Resolution {
    /// All is known of an op that is no late-bound copy.
    pub const NOT_LATE: Resolution = Resolution::Copied(Vec::new());
}

/// The pieces that an op copies; `resolved` is what a late-bound copy turned out to be.
pub fn pieces(work: &Work, resolved: Vec<Piece>) -> Vec<Piece> {
    match work {
        Work::Linear { piece, .. } | Work::Reduce { piece, .. } => vec![*piece],
        Work::Rows { rows, .. } => lines(rows).collect(),
        Work::Batch { pieces, .. } => pieces.clone(),
        Work::Through { .. } => resolved,
        Work::Nothing | Work::Mark | Work::Fill { .. } | Work::Function => Vec::new(),
    }
}

/// All that an op reads and writes: neighbours of one kind are one.
pub fn of(work: &Work, pieces: &[Piece]) -> Vec<ByteAccess> {
    let mut all: Vec<ByteAccess> = Vec::with_capacity(2 * pieces.len() + 1);
    let access = |start: u64, len: u64, is_write| ByteAccess { start, end: start + len, is_write };
    for piece in pieces {
        all.push(access(piece.src, piece.len, false));
        all.push(access(piece.dst, piece.len, true));
    }
    match work {
        Work::Fill { dst, len, .. } => all.push(access(*dst, *len, true)),
        // It reads where to copy when it runs.
        Work::Through { cells: [descriptor, _], len: 0, .. } => {
            all.push(access(*descriptor, DESCRIPTOR_BYTES, false));
        }
        Work::Through { cells, .. } => {
            all.extend(cells.map(|cell| access(cell, size_of::<u64>() as u64, false)));
        }
        _ => {}
    }
    all.retain(|access| access.start < access.end);
    merge(all)
}

fn merge(mut all: Vec<ByteAccess>) -> Vec<ByteAccess> {
    all.sort_unstable_by_key(|access| (access.is_write, access.start, access.end));
    let mut merged: Vec<ByteAccess> = Vec::with_capacity(all.len());
    for access in all {
        match merged.last_mut() {
            Some(last) if last.is_write == access.is_write && access.start <= last.end => {
                last.end = last.end.max(access.end);
            }
            _ => merged.push(access),
        }
    }
    merged
}

/// The rows of a rectangle, or one piece if they lie behind each other on both sides.
fn lines(rows: &Rows) -> impl Iterator<Item = Piece> + use<> {
    let rows = *rows;
    let is_one = rows.dst_pitch == rows.width && rows.src_pitch == rows.width;
    let (count, width) = if is_one { (1, rows.width * rows.height) } else { (rows.height, rows.width) };
    (0..count).map(move |row| Piece {
        dst: rows.dst + row * rows.dst_pitch,
        src: rows.src + row * rows.src_pitch,
        len: width,
    })
}

/// Two pieces of a batch that touch the same bytes, one of them writing: the second one is the later in the
/// batch.
pub fn clash(pieces: &[Piece]) -> Option<Clash> {
    let mut all: Vec<(u64, u64, bool, usize)> = Vec::with_capacity(2 * pieces.len());
    for (index, piece) in pieces.iter().enumerate().filter(|(_, piece)| piece.len > 0) {
        all.push((piece.src, piece.src + piece.len, false, index));
        all.push((piece.dst, piece.dst + piece.len, true, index));
    }
    all.sort_unstable();
    // The range that reaches furthest so far, of writes and of all, each of two different pieces.
    let mut open: Vec<(u64, u64, bool, usize)> = Vec::new();
    for range in all {
        open.retain(|other| other.1 > range.0);
        let other = open.iter().find(|other| other.3 != range.3 && (other.2 || range.2));
        if let Some(other) = other {
            let (first, second) = (other.3.min(range.3), other.3.max(range.3));
            return Some(Clash { first, second, start: range.0, end: range.1.min(other.1) });
        }
        open.push(range);
        // Reads of the same bytes do not clash: of many, the two that reach furthest are enough.
        if open.len() > 16 {
            keep_furthest_reads(&mut open);
        }
    }
    None
}

fn keep_furthest_reads(open: &mut Vec<(u64, u64, bool, usize)>) {
    open.sort_unstable_by_key(|range| (!range.2, std::cmp::Reverse(range.1)));
    let writes = open.iter().filter(|range| range.2).count();
    open.truncate(writes + 2);
}

/// Two pieces of a batch that touch the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clash {
    /// The index of the first.
    pub first: usize,
    /// The index of the second.
    pub second: usize,
    /// The first byte.
    pub start: u64,
    /// The first byte behind.
    pub end: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(dst: u64, src: u64, len: u64) -> Piece {
        Piece { dst, src, len }
    }

    #[test]
    fn pieces_of_a_batch_clash_if_one_writes_what_another_touches() {
        let cases = [
            (vec![piece(0, 1000, 10), piece(10, 1010, 10)], None),
            (vec![piece(0, 1000, 10), piece(9, 1010, 10)], Some((0, 1, 9, 10))),
            (vec![piece(0, 1000, 10), piece(20, 1000, 10)], None),
            (vec![piece(0, 1000, 10), piece(1005, 2000, 10)], Some((0, 1, 1005, 1010))),
            (vec![piece(1005, 2000, 1), piece(0, 1000, 10)], Some((0, 1, 1005, 1006))),
            // A piece whose own ends overlap is a move.
            (vec![piece(0, 5, 10), piece(100, 200, 10)], None),
            (vec![piece(0, 1000, 0), piece(0, 1000, 10)], None),
        ];
        for (pieces, expected) in cases {
            let clash = clash(&pieces).map(|clash| (clash.first, clash.second, clash.start, clash.end));
            assert_eq!(clash, expected, "{pieces:?}");
        }
        let mut many: Vec<Piece> = (0..100).map(|index| piece(index * 10, 5000, 10)).collect();
        assert_eq!(clash(&many), None);
        many.push(piece(5009, 9000, 1));
        assert_eq!(clash(&many).map(|clash| (clash.start, clash.end)), Some((5009, 5010)));
    }

    #[test]
    fn a_late_bound_copy_reads_its_cells() {
        let found = |cells, len| {
            let work = Work::Through { device: 0, cells, len };
            let all = of(&work, &pieces(&work, vec![piece(0, 1000, 10)]));
            all.iter().map(|access| (access.start, access.end, access.is_write)).collect::<Vec<_>>()
        };
        let copy = [(1000, 1010, false), (0, 10, true)];
        assert_eq!(found([500, 508], 10), [&[(500, 516, false)], &copy[..]].concat());
        assert_eq!(found([500, 0], 0), [&[(500, 556, false)], &copy[..]].concat(), "a descriptor");
    }

    #[test]
    fn rows_are_told_one_by_one_unless_they_touch() {
        let rows = Rows { dst: 0, dst_pitch: 16, src: 1000, src_pitch: 8, width: 8, height: 3 };
        let work = Work::Rows { route: Default::default(), rows };
        let all = of(&work, &pieces(&work, vec![]));
        let access = |start, end, is_write| ByteAccess { start, end, is_write };
        assert_eq!(
            all,
            [access(1000, 1024, false), access(0, 8, true), access(16, 24, true), access(32, 40, true)]
        );
    }
}
