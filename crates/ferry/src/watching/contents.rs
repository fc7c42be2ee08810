//! What ops read and write, for a recorder: hashes of the bytes, or the bytes.
//!
//! The source of an op is read when the op begins, and its destination when it has passed. That needs an
//! engine that does its work in memory of this process: with a device of its own only the host's ends are
//! read, the source when the op is submitted. Memory that is gone is left out, and never touched: the bytes
//! are read by a system call, which fails where a load would fault.

use super::translate::{lines, piece};
use ferry_backends::os::page::read_up_to;
use ferry_core::{Op, Seen};
use ferry_watch::{
    ContentHasher, Fact,
    fact::{End, Outcome, Piece, Point},
    writer::FactWriter,
};
use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

/// How many bytes are read at once.
const CHUNK: usize = 64 << 10;

/// Reads what ops read and write, if a recorder wants it.
pub(super) struct ContentReader {
    writer: &'static FactWriter,
    is_host: bool,
    /// The pieces of ops that have not passed.
    ops: Mutex<HashMap<Point, Vec<Piece>>>,
}

impl ContentReader {
    pub(super) fn new(writer: &'static FactWriter, is_host: bool) -> ContentReader {
        ContentReader { writer, is_host, ops: Mutex::default() }
    }

    /// Whether a recorder wants it.
    pub(super) fn is_wanted(&self) -> bool {
        let wanted = self.writer.wanted();
        self.is_host && (wanted.hashes || wanted.bytes)
    }

    fn ops(&self) -> std::sync::MutexGuard<'_, HashMap<Point, Vec<Piece>>> {
        self.ops.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An op is about to be submitted.
    pub(super) fn made(&self, op: Point, what: Seen<'_>) {
        if !self.is_wanted() {
            return;
        }
        let pieces = match what {
            Seen::Linear(copy) => {
                let segment = copy.segment();
                vec![piece(segment.dst, segment.src, segment.len)]
            }
            Seen::Op(op) => pieces(op),
            Seen::Mark | Seen::Other => return,
        };
        if !pieces.is_empty() {
            self.ops().insert(op, pieces);
        }
    }

    /// An op was not taken.
    pub(super) fn forget(&self, op: Point) {
        if self.is_wanted() {
            self.ops().remove(&op);
        }
    }

    /// The addresses of a late-bound copy are known, as it begins.
    pub(super) fn resolved(&self, op: Point, piece: Piece) {
        if self.is_wanted() {
            self.ops().entry(op).or_default().push(piece);
            self.begun(op);
        }
    }

    /// The op begins.
    pub(super) fn begun(&self, op: Point) {
        if self.is_wanted()
            && let Some(pieces) = self.ops().get(&op).cloned()
        {
            self.tell(op, End::Source, pieces.iter().map(|piece| (piece.src, piece.len)));
        }
    }

    /// The op has passed.
    pub(super) fn passed(&self, op: Point, outcome: Outcome) {
        if !self.is_wanted() {
            return;
        }
        let pieces = self.ops().remove(&op).unwrap_or_default();
        if outcome == Outcome::Done && !pieces.is_empty() {
            self.tell(op, End::Destination, pieces.iter().map(|piece| (piece.dst, piece.len)));
        }
    }

    fn tell(&self, op: Point, end: End, ranges: impl Iterator<Item = (u64, u64)>) {
        let keeps_bytes = self.writer.wanted().bytes && end == End::Source;
        let (mut hasher, mut buffer, mut offset) = (ContentHasher::default(), vec![0; CHUNK], 0);
        for (start, len) in ranges {
            for at in (start..start + len).step_by(CHUNK) {
                let part = &mut buffer[..(start + len - at).min(CHUNK as u64) as usize];
                if !read(at, part) {
                    return;
                }
                hasher.add(part);
                if keeps_bytes {
                    self.writer.write_bytes(op, end, offset, part);
                }
                offset += part.len() as u64;
            }
        }
        self.writer.write(&Fact::Contents { point: op, end, hash: hasher.finish() });
    }
}

/// What an op copies; fills and reductions have no source that is copied.
fn pieces(op: &Op) -> Vec<Piece> {
    match op {
        Op::Copy(plan) => plan.pieces().iter().flat_map(lines).collect(),
        Op::After(after) => pieces(&after.1),
        _ => Vec::new(),
    }
}

/// Reads memory of this process that may be gone.
fn read(at: u64, to: &mut [u8]) -> bool {
    read_up_to(at, to) == to.len()
}
