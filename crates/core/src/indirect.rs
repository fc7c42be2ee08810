//! Copies whose addresses are read when they run: through a descriptor in device memory, or through two
//! pointer cells.
//!
//! A descriptor is plain bytes with no address of its own inside: it may be copied like any other bytes and
//! an earlier op of the stream may write it. A keyed digest over its fields, the seal, tells a descriptor
//! from other bytes.

use crate::{DeviceId, Error, Kind, Plan, Recent, Result, Segment};
use std::fmt;

/// 64-bit words of a descriptor: mark, source, destination, length, the stamps of source and destination,
/// seal.
pub const DESCRIPTOR_WORDS: usize = 7;
/// Bytes that a descriptor takes.
pub const DESCRIPTOR_LEN: usize = 8 * DESCRIPTOR_WORDS;
/// The first word of every descriptor.
pub const MARK: u64 = u64::from_le_bytes(*b"ferrydsc");

/// A late-bound copy inside one device. The status of its queue has what plans it
/// ([`Status::resolver`](crate::Status::resolver)).
#[derive(Clone, Copy, Debug)]
pub struct Indirect {
    /// The call that asked for it, for the message when it fails.
    pub call: &'static str,
    /// The device in which both ends must lie.
    pub device: DeviceId,
    /// Where the addresses are read.
    pub through: Through,
}

/// Where a late-bound copy finds its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Through {
    /// In a sealed descriptor.
    Descriptor {
        /// The engine's address of the descriptor.
        at: usize,
        /// The user's address of it, for messages.
        user: usize,
    },
    /// In two cells that hold one user address each.
    Cells {
        /// The cell that holds the destination's base, and what to add to it.
        dst: Cell,
        /// The cell that holds the source's base, and what to add to it.
        src: Cell,
        /// Bytes to move.
        len: usize,
    },
}

/// A pointer in memory and an offset to add to what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The engine's address of the cell.
    pub at: usize,
    /// The user's address of the cell, for messages.
    pub user: usize,
    /// Added to the address in the cell.
    pub offset: usize,
}

/// The words of a descriptor.
pub(crate) fn seal(key: u64, src: u64, dst: u64, len: u64, stamps: [u64; 2]) -> [u64; DESCRIPTOR_WORDS] {
    let [from, to] = stamps;
    [MARK, src, dst, len, from, to, digest(key, [src, dst, len, from, to])]
}

/// The destination, source and length in a descriptor, if it was sealed with this key.
#[inline]
pub fn open(key: u64, words: &[u64; DESCRIPTOR_WORDS]) -> Option<(usize, usize, usize)> {
    let [mark, src, dst, len, from, to, check] = *words;
    let is_sealed = mark == MARK && check == digest(key, [src, dst, len, from, to]);
    is_sealed.then_some((dst as usize, src as usize, len as usize))
}

/// A keyed digest of the fields. It is part of the format of a descriptor, which a backend may check on its
/// own.
#[inline]
fn digest(key: u64, fields: [u64; DESCRIPTOR_WORDS - 2]) -> u64 {
    fields.iter().fold(key, |sum, word| {
        let mixed = (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ mixed >> 32
    })
}

/// What the core plans a late-bound copy with when its addresses are known. A backend calls upward here:
/// which memory an address belongs to is known only then, and only by the core.
pub trait Resolver: Send + Sync {
    /// Plans the copy of `(dst, src, len)` in the user's addresses, as memory is now. Both ends must lie in
    /// `device`.
    fn plan(&self, ends: (usize, usize, usize), device: DeviceId) -> Result<Plan>;

    /// As `plan`, in less time, for a copy in one piece between memory like that of the last one with this
    /// `recent`. `None` if that cannot be said: `plan` says what is right or wrong.
    fn plan_linear(
        &self,
        ends: (usize, usize, usize),
        device: DeviceId,
        recent: &mut Recent,
    ) -> Option<Segment>;

    /// The key that descriptors are sealed with.
    fn seal_key(&self) -> u64;

    /// The engine's address of a byte in the user's addresses, if it is known; quick, and for hints only.
    fn engine_address(&self, addr: usize) -> Option<usize>;

    /// Whether memory was ever mapped at an address that is not the engine's: until then a device that reads
    /// a descriptor can use the addresses in it as they are.
    fn has_mappings(&self) -> bool;
}

impl Indirect {
    /// Reads the addresses, through `word` which reads 64 bits at an engine address, and has the core plan
    /// the copy: by the `resolver` of the queue's status.
    pub fn resolve(&self, resolver: Option<&dyn Resolver>, word: impl Fn(usize) -> u64) -> Result<Plan> {
        let resolver = resolver.ok_or_else(|| self.has_no_runtime())?;
        let (dst, src, len) = match self.through {
            Through::Descriptor { at, user } => {
                let words = std::array::from_fn(|index| word(at + 8 * index));
                open(resolver.seal_key(), &words).ok_or_else(|| self.is_not_sealed(user))?
            }
            Through::Cells { dst, src, len } => {
                let end = |cell: Cell| (word(cell.at) as usize).wrapping_add(cell.offset);
                (end(dst), end(src), len)
            }
        };
        resolver.plan((dst, src, len), self.device).map_err(|why| {
            Kind::BadDescriptor.because(format!(
                "{}: {len} bytes from {src:#x} to {dst:#x}, as read from {} when the copy ran: {why}",
                self.call, self.through
            ))
        })
    }

    #[cold]
    fn has_no_runtime(&self) -> Error {
        Kind::BadDescriptor.because(format!("{}: the runtime was closed before the copy ran", self.call))
    }

    #[cold]
    fn is_not_sealed(&self, user: usize) -> Error {
        Kind::BadDescriptor.because(format!(
            "{}: the descriptor at {user:#x} was never set or has been overwritten: set it \
             before the copy runs",
            self.call
        ))
    }
}

impl fmt::Display for Through {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Through::Descriptor { user, .. } => write!(f, "the descriptor at {user:#x}"),
            Through::Cells { dst, src, .. } => {
                write!(f, "the pointers at {:#x} (destination) and {:#x} (source)", dst.user, src.user)
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_sealed_with_the_key_opens() {
        let words = seal(7, 0x1000, 0x2000, 64, [1 << 32 | 5, 0]);
        assert_eq!(open(7, &words), Some((0x2000, 0x1000, 64)));
        assert_eq!(open(8, &words), None, "another key");
        assert_eq!(open(7, &[0; DESCRIPTOR_WORDS]), None, "never set");
        for index in 0..DESCRIPTOR_WORDS {
            let mut bent = words;
            bent[index] ^= 1 << 40;
            assert_eq!(open(7, &bent), None, "word {index} changed");
        }
    }
}
