//! Virtual memory: reserve addresses, make physical memory, map the one at the other.

use crate::{
    Error, Result,
    call::{not_null, refuse},
    constants::*,
    error::fail,
    explain::explaining,
    handles::Named,
    interrupt,
    ipc::shareable,
    memory::{GIANT_PAGE, HUGE_PAGE, NORMAL_PAGE},
    state::{Engine, engine, known_device, need_context, with_here},
};
use ferry_core::{Physical, space::Purpose};
use std::sync::Arc;

/// Physical memory by handle.
pub struct PhysicalEntry {
    pub(crate) handle: usize,
    pub(crate) physical: Arc<Physical>,
}

impl Named for PhysicalEntry {
    const TAG: usize = 4;
}

/// aclrtPhysicalMemProp without C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Properties {
    /// aclrtMemHandleType.
    pub handle_type: i32,
    /// aclrtMemAllocationType.
    pub allocation_type: i32,
    /// aclrtMemAttr.
    pub attribute: i32,
    /// aclrtMemLocationType.
    pub location: i32,
    /// The device.
    pub id: u32,
    /// Reserved.
    pub reserve: u64,
}

impl Properties {
    /// The pages that physical memory like this is made of, which is also its granularity.
    fn page(&self, engine: &Engine) -> Result<usize> {
        if self.handle_type != ACL_MEM_HANDLE_TYPE_NONE {
            let note =
                format!("handleType is {}: only ACL_MEM_HANDLE_TYPE_NONE (0) is supported", self.handle_type);
            return Err(fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, note));
        }
        if self.allocation_type != ACL_MEM_ALLOCATION_TYPE_PINNED {
            return Err(refuse(format!(
                "allocationType is {}: give ACL_MEM_ALLOCATION_TYPE_PINNED (0)",
                self.allocation_type
            )));
        }
        if self.reserve != 0 {
            return Err(refuse(format!("reserve is {}: it must be 0", self.reserve)));
        }
        let page = match self.attribute {
            ACL_DDR_MEM_NORMAL
            | ACL_HBM_MEM_NORMAL
            | ACL_DDR_MEM_P2P_NORMAL
            | ACL_HBM_MEM_P2P_NORMAL
            | ACL_MEM_NORMAL
            | ACL_MEM_P2P_NORMAL => NORMAL_PAGE,
            ACL_HBM_MEM_HUGE1G | ACL_HBM_MEM_P2P_HUGE1G | ACL_MEM_HUGE1G | ACL_MEM_P2P_HUGE1G => GIANT_PAGE,
            ACL_DDR_MEM..=ACL_MEM_P2P_HUGE1G => HUGE_PAGE,
            other => {
                return Err(refuse(format!("memAttr is {other}: not a member of aclrtMemAttr (0 to 17)")));
            }
        };
        if page == GIANT_PAGE && !engine.settings.options.product.has_giant_pages {
            let note = format!("{} has no pages of 1 GiB", engine.settings.options.soc);
            return Err(fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, note));
        }
        Ok(page)
    }

    /// The device on which it is to be.
    fn device(&self, engine: &Engine) -> Result<u32> {
        match self.location {
            ACL_MEM_LOCATION_TYPE_DEVICE => known_device(engine, self.id as i32),
            ACL_MEM_LOCATION_TYPE_HOST | ACL_MEM_LOCATION_TYPE_HOST_NUMA => Err(fail(
                ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                "physical memory of the host is not supported: location.type must be ACL_MEM_LOCATION_TYPE_DEVICE (1)",
            )),
            other => Err(refuse(format!("location.type is {other}: give ACL_MEM_LOCATION_TYPE_DEVICE (1)"))),
        }
    }
}

/// aclrtMemGetAllocationGranularity. The properties name the device, so none needs to be set.
pub fn granularity(properties: &Properties, option: i32) -> Result<usize> {
    let engine = engine()?;
    if engine.settings.strict {
        need_context()?;
    }
    if !matches!(option, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM | ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED) {
        return Err(refuse(format!("option is {option}: give MINIMUM (0) or RECOMMENDED (1)")));
    }
    properties.device(engine)?;
    properties.page(engine)
}

/// aclrtReserveMemAddress. `flags` 1 asks for huge pages, which physical memory decides here.
pub fn reserve(size: usize, alignment: usize, expected: usize, flags: u64) -> Result<usize> {
    let engine = engine()?;
    need_context()?;
    if size == 0 {
        return Err(refuse("size is 0"));
    }
    if alignment != 0 {
        return Err(refuse(format!("alignment is {alignment}: it is reserved and must be 0")));
    }
    if flags > 1 {
        return Err(refuse(format!("flags is {flags}: give 0, or 1 for huge pages")));
    }
    let align = if size >= GIANT_PAGE && engine.settings.options.product.has_giant_pages {
        GIANT_PAGE
    } else {
        HUGE_PAGE
    };
    Ok(engine.runtime.reserve(size, align, expected, Purpose::Mappings)?)
}

/// aclrtReleaseMemAddress: nothing is mapped there any more.
pub fn release(base: usize) -> Result<()> {
    not_null("virPtr", base)?;
    let engine = engine()?;
    explaining([("virPtr", base)], || Ok(engine.runtime.release(base, Purpose::Mappings)?))
}

/// aclrtMallocPhysical.
pub fn malloc_physical(size: usize, properties: &Properties, flags: u64) -> Result<usize> {
    let engine = engine()?;
    need_context()?;
    if flags != 0 {
        return Err(refuse(format!("flags is {flags}: it must be 0")));
    }
    let (device, page) = (properties.device(engine)?, properties.page(engine)?);
    if size == 0 || !size.is_multiple_of(page) {
        return Err(refuse(format!(
            "size is {size}: it must be a multiple of {page}, the granularity that aclrtMemGetAllocationGranularity tells"
        )));
    }
    let make = |patience| engine.runtime.physical_within(device, size, page, patience);
    Ok(adopt(engine, interrupt::find_room(make)?))
}

/// A handle for physical memory.
pub(crate) fn adopt(engine: &Engine, physical: Arc<Physical>) -> usize {
    engine.physicals.insert(|handle| PhysicalEntry { handle, physical }).handle
}

/// The physical memory of a handle.
pub(crate) fn find(engine: &Engine, handle: usize) -> Result<Arc<PhysicalEntry>> {
    engine.physicals.get(handle).ok_or_else(|| unknown(handle))
}

fn unknown(handle: usize) -> Error {
    let note = format!("{handle:#x} is no handle of physical memory, or one that was freed");
    fail(ACL_ERROR_RT_INVALID_HANDLE, note)
}

/// aclrtFreePhysical: what is mapped stays until it is unmapped, and what was imported several times until it was freed as often.
pub fn free_physical(handle: usize) -> Result<()> {
    not_null("handle", handle)?;
    let engine = engine()?;
    if shareable::stays(handle) {
        return Ok(());
    }
    let entry = engine.physicals.remove(handle).ok_or_else(|| unknown(handle))?;
    shareable::freed(entry.handle);
    Ok(())
}

/// aclrtMapMem.
pub fn map(base: usize, size: usize, offset: usize, handle: usize, flags: u64) -> Result<()> {
    not_null("virPtr", base)?;
    not_null("handle", handle)?;
    let engine = engine()?;
    need_context()?;
    let physical = &find(engine, handle)?.physical;
    if offset != 0 || flags != 0 {
        return Err(refuse(format!(
            "offset is {offset} and flags is {flags}: both are reserved and must be 0"
        )));
    }
    let (whole, page) = (physical.size(), physical.page());
    if size != whole {
        return Err(refuse(format!(
            "size is {size}: it must be the size of the physical memory, which is {whole}"
        )));
    }
    if !base.is_multiple_of(page) {
        return Err(refuse(format!(
            "virPtr is {base:#x}: it must be a multiple of the granularity, which is {page}"
        )));
    }
    explaining([("virPtr", base)], || Ok(engine.runtime.map(base, physical).map(drop)?))
}

/// aclrtUnmapMem: returns at once.
pub fn unmap(base: usize) -> Result<()> {
    not_null("virPtr", base)?;
    let engine = engine()?;
    explaining([("virPtr", base)], || {
        let block = engine.runtime.unmap(base)?;
        with_here(|here| {
            engine.graves.dig(block, here);
            Ok(())
        })
    })
}
