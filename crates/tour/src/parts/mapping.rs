//! Reserved address ranges, and physical memory mapped there.

use std::ffi::c_void;

use ferry_abi::memory::BlockPart;
use ferry_abi::{Handle, Library, Location, PhysicalProperties, Result, call};

/// `aclrtPhysicalMemProp` for a device's memory in normal pages.
pub fn properties(device: u32) -> PhysicalProperties {
    const NORMAL: i32 = 12;
    const DEVICE: i32 = 1;
    let location = Location { id: device, kind: DEVICE };
    PhysicalProperties { handle_type: 0, allocation_type: 0, attribute: NORMAL, location, reserve: 0 }
}

/// aclrtMemGetAllocationGranularity.
pub fn granularity(library: &Library, device: u32) -> Result<usize> {
    const RECOMMENDED: i32 = 1;
    let mut size = 0;
    // SAFETY: both are ours and writable for the time of the call.
    unsafe {
        call!(library, aclrtMemGetAllocationGranularity(&mut properties(device), RECOMMENDED, &mut size))
    }?;
    Ok(size)
}

/// Physical memory, freed on drop.
pub struct Physical {
    library: &'static Library,
    pub handle: Handle,
    pub len: usize,
}

impl Physical {
    /// aclrtMallocPhysical.
    pub fn new(library: &'static Library, device: u32, len: usize) -> Result<Physical> {
        let mut handle: Handle = std::ptr::null_mut();
        // SAFETY: `handle` is writable for the time of the call.
        unsafe { call!(library, aclrtMallocPhysical(&mut handle, len, &properties(device), 0)) }?;
        Ok(Physical { library, handle, len })
    }

    /// A handle that an import made.
    pub fn imported(library: &'static Library, handle: Handle, len: usize) -> Physical {
        Physical { library, handle, len }
    }

    /// aclrtFreePhysical.
    pub fn free(self) -> Result<()> {
        // SAFETY: takes a handle, which the library looks up.
        let outcome = unsafe { call!(self.library, aclrtFreePhysical(self.handle)) };
        std::mem::forget(self);
        outcome
    }
}

impl Drop for Physical {
    fn drop(&mut self) {
        // SAFETY: takes a handle, which the library looks up.
        unsafe { (self.library.functions.aclrtFreePhysical)(self.handle) };
    }
}

/// A reserved address range; on drop what is mapped there is unmapped, and the range is released.
pub struct AddressRange {
    library: &'static Library,
    at: *mut c_void,
    len: usize,
    mapped: Vec<usize>,
}

impl AddressRange {
    /// aclrtReserveMemAddress.
    pub fn new(library: &'static Library, len: usize) -> Result<AddressRange> {
        let mut at = std::ptr::null_mut();
        // SAFETY: `at` is writable for the time of the call.
        unsafe { call!(library, aclrtReserveMemAddress(&mut at, len, 0, std::ptr::null_mut(), 0)) }?;
        Ok(AddressRange { library, at, len, mapped: Vec::new() })
    }

    /// Physical memory of `device`, `lens` long, side by side over all of a new range.
    pub fn over(library: &'static Library, device: u32, lens: &[usize]) -> Result<AddressRange> {
        let mut range = AddressRange::new(library, lens.iter().sum())?;
        let mut offset = 0;
        for len in lens {
            // The mapping keeps the memory when the handle is freed.
            range.map(offset, &Physical::new(library, device, *len)?)?;
            offset += len;
        }
        Ok(range)
    }

    /// aclrtMapMem.
    pub fn map(&mut self, offset: usize, physical: &Physical) -> Result<()> {
        let (library, at) = (self.library, self.at.wrapping_byte_add(offset));
        // SAFETY: takes addresses and a handle, all of which the library looks up.
        unsafe { call!(library, aclrtMapMem(at, physical.len, 0, physical.handle, 0)) }?;
        self.mapped.push(offset);
        Ok(())
    }

    /// aclrtUnmapMem.
    pub fn unmap(&mut self, offset: usize) -> Result<()> {
        let (library, at) = (self.library, self.at.wrapping_byte_add(offset));
        // SAFETY: takes an address, which the library looks up.
        unsafe { call!(library, aclrtUnmapMem(at)) }?;
        self.mapped.retain(|mapped| *mapped != offset);
        Ok(())
    }

    /// aclrtReleaseMemAddress, which the library refuses while something is mapped there.
    pub fn release(&self) -> Result<()> {
        // SAFETY: takes an address, which the library looks up.
        unsafe { call!(self.library, aclrtReleaseMemAddress(self.at)) }
    }

    /// The whole range.
    pub fn all(&self) -> BlockPart<'_> {
        // SAFETY: the library made the addresses, and only the library is given the part.
        unsafe { BlockPart::of(self, self.at, self.len) }
    }
}

impl Drop for AddressRange {
    fn drop(&mut self) {
        for offset in std::mem::take(&mut self.mapped) {
            // A part that fails drops this on the way out, and its own error is the one to show.
            let _ = self.unmap(offset);
        }
        let _ = self.release();
    }
}
