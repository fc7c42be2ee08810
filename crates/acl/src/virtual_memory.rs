//! Virtual memory: reserve addresses, make physical memory, map the one at the other. What is mapped where, and who may touch it:
//! `virtual_memory/mapped.rs`.

pub mod mapped;

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
    state::{Engine, engine, known_device, lock, need_context, with_here},
};
use ferry::engine::nodes;
use ferry_core::{Home, Physical, space::Purpose};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Physical memory by handle.
pub struct PhysicalEntry {
    pub(crate) handle: usize,
    pub(crate) physical: Arc<Physical>,
    properties: Properties,
    /// How often aclrtMemRetainAllocationHandle gave the handle out: as many more calls of aclrtFreePhysical it takes.
    retained: AtomicUsize,
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

    /// Where it is to be.
    fn site(&self, engine: &Engine) -> Result<Site> {
        match self.location {
            ACL_MEM_LOCATION_TYPE_DEVICE => Ok(Site::Device(known_device(engine, self.id as i32)?)),
            ACL_MEM_LOCATION_TYPE_HOST => Ok(Site::Host(None)),
            ACL_MEM_LOCATION_TYPE_HOST_NUMA if nodes::exists(self.id) => Ok(Site::Host(Some(self.id))),
            ACL_MEM_LOCATION_TYPE_HOST_NUMA => Err(refuse(format!(
                "location.id is {}: this machine has no memory node of that number (/sys/devices/system/node/online lists them)",
                self.id
            ))),
            other => Err(refuse(format!(
                "location.type is {other}: give ACL_MEM_LOCATION_TYPE_DEVICE (1), _HOST (0) or _HOST_NUMA (4)"
            ))),
        }
    }

    /// Where it is to be, and in which pages. Documented: pages of 1 GiB are a device's.
    fn shape(&self, engine: &Engine) -> Result<(Site, usize)> {
        let (site, page) = (self.site(engine)?, self.page(engine)?);
        if page == GIANT_PAGE && matches!(site, Site::Host(_)) {
            let note = format!("memAttr is {}: memory of the host has no pages of 1 GiB", self.attribute);
            return Err(fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, note));
        }
        Ok((site, page))
    }

    /// What memory that came without properties, from another process, would have been made with.
    fn of(physical: &Physical) -> Properties {
        let (location, id) = match physical.home() {
            Home::Device(id) => (ACL_MEM_LOCATION_TYPE_DEVICE, id),
            Home::Host => (ACL_MEM_LOCATION_TYPE_HOST, 0),
        };
        let attribute = match physical.page() {
            HUGE_PAGE => ACL_MEM_HUGE,
            GIANT_PAGE => ACL_MEM_HUGE1G,
            _ => ACL_MEM_NORMAL,
        };
        let (handle_type, allocation_type) = (ACL_MEM_HANDLE_TYPE_NONE, ACL_MEM_ALLOCATION_TYPE_PINNED);
        Properties { handle_type, allocation_type, attribute, location, id, reserve: 0 }
    }
}

/// Where physical memory is made.
#[derive(Clone, Copy)]
enum Site {
    Device(u32),
    /// On the host, of a memory node if one is named.
    Host(Option<u32>),
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
    Ok(properties.shape(engine)?.1)
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

/// aclrtReserveMemAddressNoUCMemory: the very addresses that are asked for, or none. Documented for A3; public callers pass `flags` 1.
pub fn reserve_exactly(size: usize, alignment: usize, expected: usize, flags: u64) -> Result<usize> {
    need_context()?;
    if size == 0 || !size.is_multiple_of(GIANT_PAGE) {
        return Err(refuse(format!("size is {size}: it must be a multiple of {GIANT_PAGE} (1 GiB)")));
    }
    if expected == 0 {
        return Err(refuse(
            "expectPtr is NULL: it names the address to reserve, from 40 to 224 TiB as documented",
        ));
    }
    let base = reserve(size, alignment, expected, flags)?;
    if base == expected {
        return Ok(base);
    }
    release(base)?;
    let note = format!(
        "expectPtr is {expected:#x}: {size} bytes there are in use, or are not addresses that this machine has"
    );
    Err(fail(ACL_ERROR_RT_MEMORY_ALLOCATION, note))
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
    let (site, page) = properties.shape(engine)?;
    if size == 0 || !size.is_multiple_of(page) {
        return Err(refuse(format!(
            "size is {size}: it must be a multiple of {page}, the granularity that aclrtMemGetAllocationGranularity tells"
        )));
    }
    let physical = match site {
        Site::Host(node) => engine.runtime.host_physical(size, page, node)?,
        Site::Device(device) => {
            interrupt::find_room(|patience| engine.runtime.physical_within(device, size, page, patience))?
        }
    };
    Ok(name(engine, physical, *properties).handle)
}

/// A handle for physical memory of another process.
pub(crate) fn adopt(engine: &Engine, physical: Arc<Physical>) -> usize {
    let properties = Properties::of(&physical);
    name(engine, physical, properties).handle
}

fn name(engine: &Engine, physical: Arc<Physical>, properties: Properties) -> Arc<PhysicalEntry> {
    let retained = AtomicUsize::new(0);
    engine.physicals.insert(|handle| PhysicalEntry { handle, physical, properties, retained })
}

/// aclrtMemGetAllocationPropertiesFromHandle.
pub fn properties_of(handle: usize) -> Result<Properties> {
    not_null("handle", handle)?;
    Ok(find(engine()?, handle)?.properties)
}

/// The physical memory of a handle.
pub(crate) fn find(engine: &Engine, handle: usize) -> Result<Arc<PhysicalEntry>> {
    engine.physicals.get(handle).ok_or_else(|| unknown(handle))
}

fn unknown(handle: usize) -> Error {
    let note = format!("{handle:#x} is no handle of physical memory, or one that was freed");
    fail(ACL_ERROR_RT_INVALID_HANDLE, note)
}

/// aclrtFreePhysical: what is mapped stays until it is unmapped, and what was imported or retained several times until it was freed
/// as often.
pub fn free_physical(handle: usize) -> Result<()> {
    not_null("handle", handle)?;
    let engine = engine()?;
    let _retaining = lock(&engine.mapped);
    let one_less = |retained: usize| retained.checked_sub(1);
    let retained = &find(engine, handle)?.retained;
    if retained.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok() {
        return Ok(());
    }
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
    let entry = find(engine, handle)?;
    let physical = &entry.physical;
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
    explaining([("virPtr", base)], || {
        let mut mapped = lock(&engine.mapped);
        engine.runtime.map(base, physical)?;
        mapped.add(base, &entry);
        Ok(())
    })
}

/// aclrtUnmapMem: returns at once.
pub fn unmap(base: usize) -> Result<()> {
    not_null("virPtr", base)?;
    let engine = engine()?;
    explaining([("virPtr", base)], || {
        let mut mapped = lock(&engine.mapped);
        let block = engine.runtime.unmap(base)?;
        let entry = mapped.remove(base);
        drop(mapped);
        drop(entry);
        with_here(|here| {
            engine.graves.dig(block, here);
            Ok(())
        })
    })
}
