//! Physical memory by handle: made, named, freed. `mapped.rs` has what is mapped where.

use crate::{
    Error, Result,
    arguments::{not_null, refuse},
    constants::*,
    error::fail,
    faults,
    handles::{HandleKind, Handles},
    interrupt,
    ipc::{self, wire::ExportKind},
    rules::{
        memory::{GIANT_PAGE, HUGE_PAGE, NORMAL_PAGE},
        pinned::PinnedBytes,
    },
    state::{Here, OpenedEngine, engine},
    watched,
};
use ferry::engine::nodes;
use ferry_core::{Home, Physical, sync::lock};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

/// The physical memory of the process by handle.
static PHYSICALS: Handles<PhysicalEntry> = Handles::new();
/// Locked while a handle is freed or given out once more, so that it is never given out after its last free.
static RETAINING: Mutex<()> = Mutex::new(());

/// Physical memory by handle.
pub struct PhysicalEntry {
    /// Its own handle.
    pub(crate) handle: usize,
    /// The engine's physical memory.
    pub(crate) physical: Arc<Physical>,
    properties: Properties,
    /// How often aclrtMemRetainAllocationHandle gave the handle out: as many more calls of aclrtFreePhysical
    /// it takes.
    retained: AtomicUsize,
    /// Its part of the page-locked memory of the process, for memory of the host.
    bytes: Option<Arc<PinnedBytes>>,
}

impl HandleKind for PhysicalEntry {
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
    fn page(&self, engine: &OpenedEngine) -> Result<usize> {
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
    fn site(&self, engine: &OpenedEngine) -> Result<Site> {
        match self.location {
            ACL_MEM_LOCATION_TYPE_DEVICE => Ok(Site::Device(engine.known_device(self.id as i32)?)),
            ACL_MEM_LOCATION_TYPE_HOST => Ok(Site::Host(None)),
            ACL_MEM_LOCATION_TYPE_HOST_NUMA if nodes::exists(self.id) => Ok(Site::Host(Some(self.id))),
            ACL_MEM_LOCATION_TYPE_HOST_NUMA => Err(refuse(format!(
                "location.id is {}: this machine has no memory node of that number \
                 (/sys/devices/system/node/online lists them)",
                self.id
            ))),
            other => Err(refuse(format!(
                "location.type is {other}: give ACL_MEM_LOCATION_TYPE_DEVICE (1), _HOST (0) or _HOST_NUMA (4)"
            ))),
        }
    }

    /// Where it is to be, and in which pages. Documented: pages of 1 GiB are a device's.
    fn shape(&self, engine: &OpenedEngine) -> Result<(Site, usize)> {
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
pub fn granularity(here: &Here, properties: &Properties, option: i32) -> Result<usize> {
    let engine = engine()?;
    if engine.settings.strict {
        here.need_context()?;
    }
    if !matches!(option, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM | ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED) {
        return Err(refuse(format!("option is {option}: give MINIMUM (0) or RECOMMENDED (1)")));
    }
    Ok(properties.shape(engine)?.1)
}

/// aclrtMallocPhysical.
pub fn malloc_physical(here: &Here, size: usize, properties: &Properties, flags: u64) -> Result<usize> {
    let engine = engine()?;
    here.need_context()?;
    if flags != 0 {
        return Err(refuse(format!("flags is {flags}: it must be 0")));
    }
    let (site, page) = properties.shape(engine)?;
    if size == 0 || !size.is_multiple_of(page) {
        return Err(refuse(format!(
            "size is {size}: it must be a multiple of {page}, the granularity that \
             aclrtMemGetAllocationGranularity tells"
        )));
    }
    faults::alloc(size)?;
    let (physical, bytes) = match site {
        Site::Host(node) => {
            let bytes = PinnedBytes::reserve(engine.settings, size)?;
            (engine.runtime.host_physical(size, page, node)?, Some(Arc::new(bytes)))
        }
        Site::Device(device) => {
            let make = |patience| engine.runtime.physical_within(device, size, page, patience);
            (interrupt::find_room(here, make)?, None)
        }
    };
    watched::physical_named(&physical);
    Ok(name(physical, *properties, bytes).handle)
}

/// A handle for physical memory of another process.
pub(crate) fn adopt(physical: Arc<Physical>) -> usize {
    let properties = Properties::of(&physical);
    name(physical, properties, None).handle
}

fn name(
    physical: Arc<Physical>,
    properties: Properties,
    bytes: Option<Arc<PinnedBytes>>,
) -> Arc<PhysicalEntry> {
    let retained = AtomicUsize::new(0);
    PHYSICALS.insert(|handle| PhysicalEntry { handle, physical, properties, retained, bytes })
}

/// Gives the handle of an entry out once more, to be freed once more. If it was freed meanwhile, a new handle
/// of the same memory.
pub(super) fn retain(entry: &Arc<PhysicalEntry>) -> Arc<PhysicalEntry> {
    let _retaining = lock(&RETAINING);
    if PHYSICALS.get(entry.handle).is_none() {
        watched::physical_named(&entry.physical);
        return name(entry.physical.clone(), entry.properties, entry.bytes.clone());
    }
    entry.retained.fetch_add(1, Ordering::Relaxed);
    entry.clone()
}

/// aclrtMemGetAllocationPropertiesFromHandle.
pub fn properties_of(handle: usize) -> Result<Properties> {
    not_null("handle", handle)?;
    engine()?;
    Ok(find(handle)?.properties)
}

/// The physical memory of a handle.
pub(crate) fn find(handle: usize) -> Result<Arc<PhysicalEntry>> {
    PHYSICALS.get(handle).ok_or_else(|| unknown(handle))
}

fn unknown(handle: usize) -> Error {
    let note = format!("{handle:#x} is no handle of physical memory, or one that was freed");
    fail(ACL_ERROR_RT_INVALID_HANDLE, note)
}

/// aclrtFreePhysical: what is mapped stays until it is unmapped, and what was imported or retained several
/// times until it was freed as often.
pub fn free_physical(handle: usize) -> Result<()> {
    not_null("handle", handle)?;
    engine()?;
    let _retaining = lock(&RETAINING);
    let one_less = |retained: usize| retained.checked_sub(1);
    let retained = &find(handle)?.retained;
    if retained.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok() {
        return Ok(());
    }
    if ipc::imports::stays((ExportKind::Physical, handle)) {
        return Ok(());
    }
    let entry = PHYSICALS.remove(handle).ok_or_else(|| unknown(handle))?;
    watched::physical_freed(&entry.physical);
    // Its shareable handle ends with it.
    ipc::freed((ExportKind::Physical, entry.handle));
    Ok(())
}
