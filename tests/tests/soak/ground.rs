//! Device memory that copies land on: an allocation, or pieces of physical memory mapped next to each other.

use ferry_tests::{
    NORMAL_PAGES, aclrtFree, aclrtFreePhysical, aclrtFreeWithDevSync, aclrtMalloc, aclrtMallocPhysical,
    aclrtMapMem, aclrtReleaseMemAddress, aclrtUnmapMem, code, ok, properties, reserve,
};

use crate::random::Random;

/// The pages that physical memory is made of here.
const PAGE: usize = 4096;
/// Policies of aclrtMalloc that take pages as small as can be, for copies between devices and not.
const POLICIES: [i32; 3] = [0, 2, 5];

pub enum Ground {
    Allocated { base: usize, len: usize },
    Mapped(Mapped),
}

/// Physical memory in one half of a reservation; the other half is free for it to move to.
pub struct Mapped {
    reservation: usize,
    len: usize,
    in_second_half: bool,
    pieces: Vec<Piece>,
}

struct Piece {
    len: usize,
    /// `None` once it is freed: the mapping alone keeps the memory.
    handle: Option<usize>,
}

impl Ground {
    pub fn new(device: u32, random: &mut Random) -> Ground {
        if random.one_in(4) {
            return Ground::Mapped(Mapped::new(device, random));
        }
        let (mut base, len) = (0, random.within(2048..24 * 1024));
        ok(aclrtMalloc(&mut base, len, random.pick(&POLICIES)));
        Ground::Allocated { base, len }
    }

    pub fn base(&self) -> usize {
        match self {
            Ground::Allocated { base, .. } => *base,
            Ground::Mapped(mapped) => mapped.base(),
        }
    }

    pub fn len(&self) -> usize {
        match self {
            Ground::Allocated { len, .. } => *len,
            Ground::Mapped(mapped) => mapped.len,
        }
    }

    /// Gives it back at once, whatever is in flight.
    pub fn give_back(self, random: &mut Random) {
        match self {
            Ground::Allocated { base, .. } if random.one_in(50) => ok(with_dev_sync(base)),
            Ground::Allocated { base, .. } => ok(aclrtFree(base)),
            Ground::Mapped(mapped) => mapped.give_back(random),
        }
    }
}

/// Waits for the device, which may be told that some stream was aborted: then nothing is freed yet.
fn with_dev_sync(base: usize) -> i32 {
    match aclrtFreeWithDevSync(base) {
        code::STREAM_ABORT => with_dev_sync(base),
        other => other,
    }
}

impl Mapped {
    fn new(device: u32, random: &mut Random) -> Mapped {
        let pieces: Vec<Piece> = (0..random.within(1..4)).map(|_| Piece::new(device, random)).collect();
        let len = pieces.iter().map(|piece| piece.len).sum();
        let mapped = Mapped { reservation: reserve(2 * len), len, in_second_half: false, pieces };
        mapped.map();
        mapped
    }

    fn base(&self) -> usize {
        self.reservation + if self.in_second_half { self.len } else { 0 }
    }

    fn map(&self) {
        let mut at = self.base();
        for piece in &self.pieces {
            let handle = piece.handle.expect("a piece that is mapped has its handle");
            ok(aclrtMapMem(at, piece.len, 0, handle, 0));
            at += piece.len;
        }
    }

    fn unmap(&self) {
        let mut at = self.base();
        for piece in &self.pieces {
            ok(aclrtUnmapMem(at));
            at += piece.len;
        }
    }

    /// Maps the same physical memory at other addresses, whatever is in flight. Not once handles are freed.
    pub fn remap(&mut self) {
        if self.pieces.iter().all(|piece| piece.handle.is_some()) {
            self.unmap();
            self.in_second_half = !self.in_second_half;
            self.map();
        }
    }

    /// Frees the handles while the memory is mapped.
    pub fn free_handles(&mut self) {
        for handle in self.pieces.iter_mut().filter_map(|piece| piece.handle.take()) {
            ok(aclrtFreePhysical(handle));
        }
    }

    fn give_back(mut self, random: &mut Random) {
        self.unmap();
        let handles_first = random.one_in(2);
        if handles_first {
            self.free_handles();
        }
        ok(aclrtReleaseMemAddress(self.reservation));
        self.free_handles();
    }
}

impl Piece {
    fn new(device: u32, random: &mut Random) -> Piece {
        let len = random.within(1..4) * PAGE;
        let mut handle = 0;
        ok(aclrtMallocPhysical(&mut handle, len, &properties(NORMAL_PAGES, device), 0));
        Piece { len, handle: Some(handle) }
    }
}
