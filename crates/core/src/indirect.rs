//! Copies whose addresses are read when they run: through a descriptor in device memory, or through two pointer cells.
//!
//! A descriptor is plain bytes with no address of its own inside: it may be copied like any other bytes and an earlier op of
//! the stream may write it. A keyed seal over its fields tells a descriptor from bytes that nobody sealed.

use crate::{Block, DeviceId, Ends, Home, Kind, Memory, Place, Plan, Result, Rows, sync::Arc, uses::Touched};
use std::fmt;

/// 64-bit words of a descriptor: mark, source, destination, length, the stamps of source and destination, seal.
pub const DESCRIPTOR_WORDS: usize = 7;
/// Bytes that a descriptor takes.
pub const DESCRIPTOR_LEN: usize = 8 * DESCRIPTOR_WORDS;
/// The first word of every descriptor.
pub const MARK: u64 = u64::from_le_bytes(*b"ferrydsc");

/// A late-bound copy inside one device.
#[derive(Clone)]
pub struct Indirect {
    /// The call that asked for it, for the message when it fails.
    pub call: &'static str,
    /// The device in which both ends must lie.
    pub device: DeviceId,
    /// Where the addresses are read.
    pub through: Through,
    /// The memory in which the addresses are looked up when they are known.
    pub memory: Arc<Memory>,
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
fn seal(key: u64, src: u64, dst: u64, len: u64, stamps: [u64; 2]) -> [u64; DESCRIPTOR_WORDS] {
    let [from, to] = stamps;
    [MARK, src, dst, len, from, to, digest(key, [src, dst, len, from, to])]
}

/// The destination, source and length in a descriptor, if it was sealed with this key.
pub fn open(key: u64, words: [u64; DESCRIPTOR_WORDS]) -> Option<(usize, usize, usize)> {
    let [mark, src, dst, len, from, to, check] = words;
    let is_sealed = mark == MARK && check == digest(key, [src, dst, len, from, to]);
    is_sealed.then_some((dst as usize, src as usize, len as usize))
}

/// Mixes the fields with the key. Device kernels compute the same.
fn digest(key: u64, fields: [u64; DESCRIPTOR_WORDS - 2]) -> u64 {
    fields.iter().fold(key, |sum, word| {
        let mixed = (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ mixed >> 32
    })
}

impl Memory {
    /// The words of a descriptor of this copy, in the user's addresses. Whoever calls has checked that it could run now.
    pub fn seal(&self, dst: usize, src: usize, len: usize) -> Result<[u64; DESCRIPTOR_WORDS]> {
        let stamps = match len {
            0 => [0; 2],
            _ => [self.stamp(src)?, self.stamp(dst)?],
        };
        Ok(seal(self.seal_key(), src as u64, dst as u64, len as u64, stamps))
    }

    /// What the backend calls the block around `addr`. Nobody says when memory of other libraries goes, so that has no name.
    fn stamp(&self, addr: usize) -> Result<u64> {
        let Some(block) = self.table().find(addr) else { return Ok(0) };
        let Some(watch) = self.backend().block_watch() else { return Ok(0) };
        let stamp = watch.stamp(&block)?;
        // Freed meanwhile, and the backend may have been told of that before it was asked for the stamp: it is told again. Where a
        // block begins at the same address again the stamp is that one's, and goes with it.
        if self.table().find(addr).is_none_or(|now| now.base != block.base) {
            watch.forgotten(&block);
        }
        Ok(stamp)
    }
}

impl Indirect {
    /// Reads the addresses, through `word` which reads 64 bits at an engine address, and plans the copy as it stands now.
    pub fn resolve(&self, word: impl Fn(usize) -> u64) -> Result<Plan> {
        let (dst, src, len) = match self.through {
            Through::Descriptor { at, user } => {
                let words = std::array::from_fn(|index| word(at + 8 * index));
                open(self.memory.seal_key(), words).ok_or_else(|| {
                    Kind::BadDescriptor.because(format!(
                        "{}: the descriptor at {user:#x} was never set or has been overwritten: set it \
                         before the copy runs",
                        self.call
                    ))
                })?
            }
            Through::Cells { dst, src, len } => {
                let end = |cell: Cell| (word(cell.at) as usize).wrapping_add(cell.offset);
                (end(dst), end(src), len)
            }
        };
        Plan::new([Rows::linear(dst, src, len)], &self.memory, |_, ends| self.inside(ends)).map_err(
            |misfit| {
                let why = misfit.error;
                Kind::BadDescriptor.because(format!(
                    "{}: {len} bytes from {src:#x} to {dst:#x}, as read from {} when the copy ran: {why}",
                    self.call, self.through
                ))
            },
        )
    }

    /// Which registered memory it uses. Its ends lie in a device; where that is the host, too, nobody knows yet.
    pub(crate) fn touched(&self) -> Touched {
        if self.memory.is_unified() {
            return Touched::Unknown;
        }
        let at = |addr| Touched::of(self.memory.table().find(addr));
        match self.through {
            Through::Descriptor { user, .. } => at(user),
            Through::Cells { dst, src, .. } => {
                let mut both = at(dst.user);
                both.join(at(src.user));
                both
            }
        }
    }

    fn inside(&self, ends: &Ends) -> Result<()> {
        let fits = |place: &Place| match place {
            Place::Known(Block { home: Home::Host, .. }) => self.memory.is_unified(),
            other => other.device() == Some(self.device),
        };
        if fits(&ends.dst) && fits(&ends.src) {
            return Ok(());
        }
        Err(Kind::BadRoute.because(format!(
            "both ends must lie in device {}; the destination is {}, the source is {}",
            self.device, ends.dst, ends.src
        )))
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

impl fmt::Debug for Indirect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Indirect")
            .field("call", &self.call)
            .field("through", &self.through)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_sealed_with_the_key_opens() {
        let words = seal(7, 0x1000, 0x2000, 64, [1 << 32 | 5, 0]);
        assert_eq!(open(7, words), Some((0x2000, 0x1000, 64)));
        assert_eq!(open(8, words), None, "another key");
        assert_eq!(open(7, [0; DESCRIPTOR_WORDS]), None, "never set");
        for index in 0..DESCRIPTOR_WORDS {
            let mut bent = words;
            bent[index] ^= 1 << 40;
            assert_eq!(open(7, bent), None, "word {index} changed");
        }
    }
}
