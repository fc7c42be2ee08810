//! Reserved addresses with physical memory mapped at them, piece by piece.

use crate::{
    Home, Memory, aclrtFreePhysical, aclrtMallocPhysical, aclrtMapMem, aclrtPhysicalMemProp,
    aclrtReleaseMemAddress, aclrtReserveMemAddress, aclrtUnmapMem, location, ok,
};

/// aclrtMemAttr of pages of 4 KiB, which make borders cheap.
pub const NORMAL_PAGES: i32 = 12;

/// Pieces of physical memory, mapped next to each other.
pub struct Mapped {
    /// The whole range.
    pub all: Memory,
    /// Where each piece starts in the range, and how long it is.
    pub pieces: Vec<(usize, usize)>,
    /// The pieces' handles.
    pub handles: Vec<usize>,
}

/// The properties of physical memory of `device`, of the pages that `attribute` says.
pub fn properties(attribute: i32, device: u32) -> aclrtPhysicalMemProp {
    aclrtPhysicalMemProp { memAttr: attribute, location: location(1, device), ..Default::default() }
}

/// Physical memory of device 0 in pages of 4 KiB.
#[track_caller]
pub fn physical(len: usize) -> usize {
    let mut handle = 0;
    ok(aclrtMallocPhysical(&mut handle, len, &properties(NORMAL_PAGES, 0), 0));
    handle
}

/// Reserved addresses.
#[track_caller]
pub fn reserve(len: usize) -> usize {
    let mut base = 0;
    ok(aclrtReserveMemAddress(&mut base, len, 0, 0, 0));
    base
}

impl Mapped {
    /// Maps pieces of these lengths next to each other. Their physical memory is not adjacent: it is made
    /// from the last piece to the first, with other memory between any two that stays.
    #[track_caller]
    pub fn scattered(lens: &[usize]) -> Mapped {
        let base = reserve(lens.iter().sum());
        let mut pieces = Vec::new();
        for len in lens {
            let start = pieces.last().map_or(0, |(start, len)| start + len);
            pieces.push((start, *len));
        }
        let mut handles: Vec<usize> = lens
            .iter()
            .rev()
            .map(|len| {
                let handle = physical(*len);
                physical(4096);
                handle
            })
            .collect();
        handles.reverse();
        for ((start, len), handle) in pieces.iter().zip(&handles) {
            ok(aclrtMapMem(base + start, *len, 0, *handle, 0));
        }
        let all = Memory { addr: base, len: lens.iter().sum(), home: Home::Device };
        Mapped { all, pieces, handles }
    }

    /// Gives everything back.
    #[track_caller]
    pub fn undo(self) {
        for ((start, _), handle) in self.pieces.iter().zip(&self.handles) {
            ok(aclrtUnmapMem(self.all.addr + start));
            ok(aclrtFreePhysical(*handle));
        }
        ok(aclrtReleaseMemAddress(self.all.addr));
    }
}
