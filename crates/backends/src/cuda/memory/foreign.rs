//! Memory of other libraries in the process: what the driver says an address is.
//!
//! Device memory, that of pools and managed memory among it, and page-locked memory are allocations with a
//! start and a length. Where memory was mapped (cuMemMap, as PyTorch's expandable segments do) the driver
//! calls all addresses that were set aside the allocation, though most of them may have nothing behind them:
//! there a block is what was mapped at once, and a range may go on into the next one.

use crate::cuda::driver::{Allocation, Contexts, Current};
use ferry_core::{Block, Home, Kind, Origin, Result, table::GRANULE};

/// A block of another library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Foreign {
    block: Block,
    /// Mapped piece by piece: what comes next may belong to it.
    is_mapped: bool,
}

impl Foreign {
    /// The block around `addr`, if it is memory of a device or page-locked. Devices are the driver's.
    fn around(current: &Current<'_>, addr: usize) -> Result<Option<Foreign>> {
        let Some(Allocation { base, len, gpu, has_context }) = current.allocation(addr)? else {
            return Ok(None);
        };
        let mapping = if has_context { None } else { current.mapping(addr) };
        let ((base, len), is_mapped) = (mapping.unwrap_or((base, len)), mapping.is_some());
        let home = gpu.map_or(Home::Host, Home::Device);
        let block = Block { base, len, home, at: base, page: GRANULE, origin: Origin::Allocated };
        Ok(Some(Foreign { block, is_mapped }))
    }

    /// The block joined with those that `next` finds behind it, until it reaches `end`, if they are mapped to
    /// the same home.
    fn up_to(self, end: usize, mut next: impl FnMut(usize) -> Result<Option<Foreign>>) -> Result<Block> {
        let mut block = self.block;
        while self.is_mapped && block.base + block.len < end {
            match next(block.base + block.len)? {
                Some(more) if more.is_mapped && more.block.home == block.home => block.len += more.block.len,
                _ => break,
            }
        }
        Ok(block)
    }
}

/// Memory of another library around `addr`, as far as `len` bytes from there need.
pub fn locate(contexts: &Contexts, addr: usize, len: usize) -> Result<Option<Block>> {
    let current = contexts.any()?.enter()?;
    let Some(found) = Foreign::around(&current, addr)? else { return Ok(None) };
    let block = found.up_to(addr.saturating_add(len), |next| Foreign::around(&current, next))?;
    as_seen_here(contexts, block).map(Some)
}

/// Another library's block, with its GPU by our number.
fn as_seen_here(contexts: &Contexts, block: Block) -> Result<Block> {
    let Home::Device(gpu) = block.home else { return Ok(block) };
    match contexts.device_on(gpu) {
        Some(id) => Ok(Block { home: Home::Device(id), ..block }),
        None => {
            let note = format!("{:#x} is memory of GPU {gpu}, which is not visible here", block.base);
            Err(Kind::BadAddress.because(note))
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A block of 16 bytes that starts at this multiple of 16.
    fn block(number: usize, device: u32, is_mapped: bool) -> Foreign {
        let (base, home) = (16 * number, Home::Device(device));
        let block = Block { base, len: 16, home, at: base, page: GRANULE, origin: Origin::Allocated };
        Foreign { block, is_mapped }
    }

    #[test]
    fn a_range_goes_on_through_what_is_mapped_on_one_device() {
        let all =
            [block(1, 0, true), block(2, 0, true), block(3, 0, true), block(4, 1, true), block(6, 0, false)];
        let next = |addr| Ok(all.iter().copied().find(|foreign| foreign.block.base == addr));
        for (start, end, want) in [(1, 32, 16), (1, 33, 32), (2, 64, 32), (1, 100, 48), (4, 100, 16)] {
            let from = next(16 * start).unwrap().unwrap();
            assert_eq!(from.up_to(end, next).map(|block| block.len), Ok(want), "{start} to {end}");
        }
        let alone = block(5, 0, false).up_to(100, next).map(|block| block.len);
        assert_eq!(alone, Ok(16), "an allocation ends where it ends, whatever is behind it");
    }
}
