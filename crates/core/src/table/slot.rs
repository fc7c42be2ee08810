//! Where the address table keeps a block: a sequence lock, read without waiting.

use crate::{Block, DeviceId, Home, Origin};
use std::{
    ops::Range,
    sync::atomic::{AtomicU32, AtomicUsize, Ordering, fence},
};

/// One block, or none while `len` is 0. A sequence lock: `turn` is odd while a writer changes the rest. Half
/// a cache line, so that a lookup costs one miss and many blocks take little of a cache.
#[derive(Default)]
#[repr(align(32))]
pub(super) struct BlockSlot {
    turn: AtomicU32,
    /// Home, page size and origin.
    class: AtomicU32,
    base: AtomicUsize,
    len: AtomicUsize,
    at: AtomicUsize,
}

/// The result of a lookup, packed: what a copy needs to know of a block.
#[derive(Clone, Copy, Default)]
pub(crate) struct Lookup {
    base: usize,
    len: usize,
    /// From the user's address to the engine's.
    shift: usize,
    /// Home, page size and origin.
    class: u32,
}

impl From<&Block> for Lookup {
    fn from(block: &Block) -> Lookup {
        Lookup::new(block.base, block.len, block.at, encode(block))
    }
}

impl From<Lookup> for Block {
    #[inline(always)]
    fn from(part: Lookup) -> Block {
        Block {
            base: part.base,
            len: part.len,
            home: decode_home(part.class),
            at: part.engine_address(part.base),
            page: decode_page(part.class),
            origin: decode_origin(part.class),
        }
    }
}

impl Lookup {
    #[inline(always)]
    fn new(base: usize, len: usize, at: usize, class: u32) -> Lookup {
        Lookup::shifted(base, len, at.wrapping_sub(base), class)
    }

    /// Stands for plain host memory, which is like no block.
    pub(crate) fn plain(range: &Range<usize>) -> Lookup {
        Lookup { base: range.start, len: range.len(), shift: 0, class: u32::MAX }
    }

    #[inline(always)]
    pub(super) fn shifted(base: usize, len: usize, shift: usize, class: u32) -> Lookup {
        Lookup { base, len, shift, class }
    }

    /// Whether the user's `addr` and `len` bytes from there lie in the block.
    #[inline(always)]
    pub(crate) fn contains(&self, addr: usize, len: usize) -> bool {
        let offset = addr.wrapping_sub(self.base);
        offset < self.len && len <= self.len - offset
    }

    /// As [`contains`](Self::contains), and there is at least one byte.
    #[inline(always)]
    pub(crate) fn holds_all(&self, addr: usize, len: usize) -> bool {
        (len.wrapping_sub(1) < self.len) & (addr.wrapping_sub(self.base) <= self.len.wrapping_sub(len))
    }

    /// The sign bit is clear only if [`holds_all`](Self::holds_all); blocks of 2^63 bytes or more may have it
    /// set all the same. Differences only, no comparisons: vector units have few unsigned ones.
    #[inline(always)]
    pub(crate) fn signs(&self, addr: usize, len: usize) -> usize {
        let (offset, most) = (addr.wrapping_sub(self.base), self.len.wrapping_sub(len));
        offset | most | most.wrapping_sub(offset) | len.wrapping_sub(1)
    }

    /// The engine's address of the user's `addr`, which lies in the block.
    #[inline(always)]
    pub(crate) fn engine_address(&self, addr: usize) -> usize {
        addr.wrapping_add(self.shift)
    }

    /// Where the block starts.
    #[inline(always)]
    pub(crate) fn base(&self) -> usize {
        self.base
    }

    /// Whether it is registered memory.
    #[inline(always)]
    pub(crate) fn is_registered(&self) -> bool {
        self.class & ORIGIN == Origin::Registered as u32
    }

    /// Whether this is the default, which stands for no block.
    pub(crate) fn is_nothing(&self) -> bool {
        self.len == 0
    }

    /// Whether the two blocks have the same home, page size and origin. False if `other` stands for no block.
    #[inline(always)]
    pub(crate) fn is_like(&self, other: &Lookup) -> bool {
        self.class == other.class && other.len > 0
    }
}

impl BlockSlot {
    #[inline]
    pub(super) fn read(&self) -> Option<Block> {
        loop {
            if let Some(block) = self.glance() {
                return (block.len > 0).then_some(block);
            }
            std::hint::spin_loop();
        }
    }

    /// The block, and the turn it was written in: no other block of this slot has had the same.
    pub(super) fn read_instance(&self) -> Option<(Block, u32)> {
        loop {
            let turn = self.turn.load(Ordering::Acquire);
            if let Some(block) = self.glance()
                && self.turn.load(Ordering::Relaxed) == turn
            {
                return (block.len > 0).then_some((block, turn));
            }
            std::hint::spin_loop();
        }
    }

    /// One attempt to read the block, whose `len` is 0 if there is none. `None` if a writer interfered.
    #[inline(always)]
    pub(super) fn glance(&self) -> Option<Block> {
        let turn = self.turn.load(Ordering::Acquire);
        let class = self.class.load(Ordering::Relaxed);
        let block = Block {
            base: self.base.load(Ordering::Relaxed),
            len: self.len.load(Ordering::Relaxed),
            home: decode_home(class),
            at: self.at.load(Ordering::Relaxed),
            page: decode_page(class),
            origin: decode_origin(class),
        };
        fence(Ordering::Acquire);
        (turn.is_multiple_of(2) && self.turn.load(Ordering::Relaxed) == turn).then_some(block)
    }

    /// As [`glance`](Self::glance), packed.
    #[inline(always)]
    pub(super) fn glance_packed(&self) -> Option<Lookup> {
        let turn = self.turn.load(Ordering::Acquire);
        let [base, len, at] = [&self.base, &self.len, &self.at].map(|word| word.load(Ordering::Relaxed));
        let part = Lookup::new(base, len, at, self.class.load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        (turn.is_multiple_of(2) && self.turn.load(Ordering::Relaxed) == turn).then_some(part)
    }

    pub(super) fn write(&self, block: &Block) {
        self.turn.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::Release);
        self.base.store(block.base, Ordering::Relaxed);
        self.len.store(block.len, Ordering::Relaxed);
        self.class.store(encode(block), Ordering::Relaxed);
        self.at.store(block.at, Ordering::Relaxed);
        self.turn.fetch_add(1, Ordering::Release);
    }

    pub(super) fn clear(&self) {
        let origin = Origin::Allocated;
        self.write(&Block { base: 0, len: 0, home: Home::Host, at: 0, page: 0, origin });
    }
}

/// Where the origin is in that word.
const ORIGIN: u32 = 7;

/// Home, page size and origin in one word. Pages are powers of two.
#[inline(always)]
pub(super) fn encode(block: &Block) -> u32 {
    let home = match block.home {
        Home::Host => 0,
        Home::Device(device) => device + 1,
    };
    home << 8 | block.page.max(1).trailing_zeros() << 3 | block.origin as u32
}

#[inline(always)]
fn decode_page(word: u32) -> usize {
    1 << (word >> 3 & 31)
}

#[inline(always)]
fn decode_home(word: u32) -> Home {
    match (word >> 8).checked_sub(1) {
        None => Home::Host,
        Some(device) => Home::Device(device as DeviceId),
    }
}

#[inline(always)]
fn decode_origin(word: u32) -> Origin {
    match word & ORIGIN {
        1 => Origin::Registered,
        2 => Origin::Mapped,
        3 => Origin::Imported,
        4 => Origin::ImportedFar,
        _ => Origin::Allocated,
    }
}
