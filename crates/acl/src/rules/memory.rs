//! Allocation: sizes are rounded as documented, so that the documented padding may be used and no more.

use super::{
    pinned::{self, PinnedBytes},
    register,
};
use crate::{
    Result,
    arguments::{not_null, refuse},
    constants::*,
    error::fail,
    explain::{explaining, remember_freed},
    faults, interrupt,
    ipc::{self, wire::ExportKind},
    state::{Here, OpenedEngine, engine},
};
use ferry::Options;
use ferry_core::{Access, Block, Home, JoinKind, Kind, Origin, Place, Purpose, Request};
use ferry_watch::site;

pub(crate) const NORMAL_PAGE: usize = 4 << 10;
pub(crate) const HUGE_PAGE: usize = 2 << 20;
pub(crate) const GIANT_PAGE: usize = 1 << 30;

/// How much larger than asked for an allocation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    /// Rounded up to 32 bytes, and 32 more where the product adds them.
    Usual,
    /// Rounded up to 32 bytes.
    Align32,
}

/// One entry of aclrtMallocConfig.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MallocAttribute {
    /// aclrtMallocAttrType.
    pub attr: i32,
    /// The value; the smaller members of the union read its low bytes.
    pub value: u32,
}

/// aclrtMallocCached: as aclrtMalloc, with fewer policies.
pub fn malloc_cached(here: &Here, size: usize, policy: i32) -> Result<usize> {
    here.need_context()?;
    match policy {
        ACL_MEM_MALLOC_HUGE_FIRST
        | ACL_MEM_MALLOC_HUGE_ONLY
        | ACL_MEM_MALLOC_NORMAL_ONLY
        | ACL_MEM_MALLOC_HUGE1G_ONLY => malloc(here, size, policy, Padding::Usual),
        other => Err(refuse(format!(
            "policy is {other}: cached memory takes HUGE_FIRST (0), HUGE_ONLY (1), NORMAL_ONLY (2) or \
             HUGE1G_ONLY (6)"
        ))),
    }
}

/// aclrtMallocWithCfg and aclrtMallocForTaskScheduler: the policy may carry one flag of each further group.
pub fn malloc_with(here: &Here, size: usize, policy: i32, config: &[MallocAttribute]) -> Result<usize> {
    const BANDWIDTH: i32 = ACL_MEM_TYPE_LOW_BAND_WIDTH | ACL_MEM_TYPE_HIGH_BAND_WIDTH;
    let device = here.device()?;
    if policy & BANDWIDTH == BANDWIDTH {
        return Err(refuse(format!("policy is {policy:#x}: low and high bandwidth exclude each other")));
    }
    check_config(config, device, false)?;
    malloc(here, size, policy & !(BANDWIDTH | ACL_MEM_ACCESS_USER_SPACE_READONLY), Padding::Usual)
}

/// aclrtMallocHostWithCfg.
pub fn malloc_host_with(here: &Here, size: usize, config: &[MallocAttribute]) -> Result<usize> {
    let device = here.device()?;
    check_config(config, device, true)?;
    malloc_host(here, size)
}

/// Module ids are taken as they come; a device must be the current one; the address flag is for host memory
/// of some products.
fn check_config(config: &[MallocAttribute], device: u32, is_host: bool) -> Result<()> {
    let product = engine()?.settings.options.product;
    for (index, MallocAttribute { attr, value }) in config.iter().copied().enumerate() {
        match attr {
            ACL_RT_MEM_ATTR_RSV | ACL_RT_MEM_ATTR_MODULE_ID => {}
            ACL_RT_MEM_ATTR_DEVICE_ID if value == device => {}
            ACL_RT_MEM_ATTR_DEVICE_ID => {
                return Err(refuse(format!(
                    "attrs[{index}] says device {value}, but the current device is {device}"
                )));
            }
            ACL_RT_MEM_ATTR_VA_FLAG if is_host && product.has_va_flag && value <= 1 => {}
            ACL_RT_MEM_ATTR_VA_FLAG if is_host && product.has_va_flag => {
                return Err(refuse(format!("attrs[{index}].value.vaFlag is {value}: give 0 or 1")));
            }
            ACL_RT_MEM_ATTR_VA_FLAG => {
                let note =
                    format!("attrs[{index}]: ACL_RT_MEM_ATTR_VA_FLAG is for host memory on A2 and A3 only");
                return Err(fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, note));
            }
            other => {
                return Err(refuse(format!(
                    "attrs[{index}].attr is {other}: not a member of aclrtMallocAttrType (0 to 3)"
                )));
            }
        }
    }
    Ok(())
}

/// aclrtMalloc on the current device. Documented: what prefers huge pages takes normal ones where those run
/// short.
pub fn malloc(here: &Here, size: usize, policy: i32, padding: Padding) -> Result<usize> {
    let engine = engine()?;
    let device = here.device()?;
    let (page, len) = shape(size, policy, padding, &engine.settings.options)?;
    faults::alloc(size)?;
    if site::is_on() {
        site::note_asked(size as u64);
    }
    let alloc = |page| {
        let request = Request { home: Home::Device(device), len, page };
        interrupt::find_room(here, |patience| engine.runtime.alloc_within(&request, patience))
    };
    let falls_back =
        page == HUGE_PAGE && !matches!(policy, ACL_MEM_MALLOC_HUGE_ONLY | ACL_MEM_MALLOC_HUGE_ONLY_P2P);
    let block = alloc(page).or_else(|error| match error.kind {
        Kind::OutOfMemory if falls_back => alloc(NORMAL_PAGE),
        _ => Err(error),
    })?;
    Ok(block.base)
}

/// The page and the usable length of an allocation. Documented: rounded up to 32 and 32 more, except in 1 GiB
/// pages, which are taken whole. An unknown policy takes huge pages from 2 MiB on.
fn shape(size: usize, policy: i32, padding: Padding, options: &Options) -> Result<(usize, usize)> {
    let page = match policy {
        ACL_MEM_MALLOC_HUGE_FIRST | ACL_MEM_MALLOC_HUGE_FIRST_P2P if size > 1 << 20 => HUGE_PAGE,
        ACL_MEM_MALLOC_HUGE_ONLY | ACL_MEM_MALLOC_HUGE_ONLY_P2P => HUGE_PAGE,
        ACL_MEM_MALLOC_HUGE1G_ONLY | ACL_MEM_MALLOC_HUGE1G_ONLY_P2P => GIANT_PAGE,
        ACL_MEM_MALLOC_HUGE_FIRST..=ACL_MEM_MALLOC_NORMAL_ONLY_P2P => NORMAL_PAGE,
        _ if size >= HUGE_PAGE => HUGE_PAGE,
        _ => NORMAL_PAGE,
    };
    if page == GIANT_PAGE && !options.product.has_giant_pages {
        return Err(fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, format!("{} has no pages of 1 GiB", options.soc)));
    }
    if (ACL_MEM_MALLOC_HUGE_FIRST_P2P..=ACL_MEM_MALLOC_NORMAL_ONLY_P2P).contains(&policy)
        && !options.product.has_p2p_memory
    {
        let note = format!("policy is {policy}: {} has no memory for copies between devices", options.soc);
        return Err(fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, note));
    }
    let pad = if options.product.pads_allocations && padding == Padding::Usual { 32 } else { 0 };
    let len = match (size, page) {
        (0, _) => return Err(refuse("size is 0")),
        (_, GIANT_PAGE) => size.checked_next_multiple_of(GIANT_PAGE),
        _ => size.checked_next_multiple_of(32).and_then(|rounded| rounded.checked_add(pad)),
    };
    let too_much =
        || fail(ACL_ERROR_RT_MEMORY_ALLOCATION, format!("{size} bytes are more than any device has"));
    Ok((page, len.ok_or_else(too_much)?))
}

/// aclrtMallocHost: page-locked memory, exactly as much as asked for.
pub fn malloc_host(here: &Here, size: usize) -> Result<usize> {
    let engine = engine()?;
    here.need_context()?;
    if size == 0 {
        return Err(refuse("size is 0"));
    }
    pinned::within_one_call("size", size, engine.settings.quirks.host_allocation_limit())?;
    faults::alloc(size)?;
    let bytes = PinnedBytes::reserve(engine.settings, size)?;
    let request = Request { home: Home::Host, len: size, page: NORMAL_PAGE };
    let block = interrupt::find_room(here, |patience| engine.runtime.alloc_within(&request, patience))?;
    bytes.keep();
    Ok(block.base)
}

/// aclrtFree: returns at once.
pub fn free(here: &Here, ptr: usize) -> Result<()> {
    explaining(here, [("devPtr", ptr)], || {
        not_null("devPtr", ptr)?;
        release(here, ptr, device_memory)
    })
}

/// aclrtFreeWithDevSync: waits for all work of the memory's device first.
pub fn free_with_sync(here: &Here, ptr: usize) -> Result<()> {
    explaining(here, [("devPtr", ptr)], || {
        not_null("devPtr", ptr)?;
        let engine = engine()?;
        if let Some(Block { home: Home::Device(device), .. }) = engine.runtime.memory().table().find(ptr) {
            wait_for_device(here, engine, device)?;
        }
        release(here, ptr, device_memory)
    })
}

/// aclrtFreeHostWithDevSync: waits for all work of the current device first.
pub fn free_host_with_sync(here: &Here, ptr: usize) -> Result<()> {
    if ptr != 0 {
        let device = here.device()?;
        wait_for_device(here, engine()?, device)?;
    }
    free_host(here, ptr)
}

/// Waits for everything submitted to a device; failures stay with their streams, whose next synchronise
/// reports them.
fn wait_for_device(here: &Here, engine: &OpenedEngine, device: u32) -> Result<()> {
    let streams = engine.streams.all();
    let fences = streams.iter().filter(|entry| entry.device == device).map(|entry| entry.stream.fence());
    let fences: Vec<_> = fences.collect::<Result<_, _>>()?;
    for fence in fences {
        interrupt::wait(here, None, |limit| fence.wait(limit))?;
        engine.runtime.joined(&*fence, JoinKind::Wait);
    }
    Ok(())
}

fn device_memory(block: &Block) -> ferry_core::Result<()> {
    match (block.home, block.origin) {
        (Home::Device(_), Origin::Allocated) => Ok(()),
        _ => {
            Err(Kind::BadAddress.because(format!("this is not memory of aclrtMalloc: {}", undone_by(block))))
        }
    }
}

/// How a block is given back.
fn undone_by(block: &Block) -> &'static str {
    match (block.origin, block.home) {
        (Origin::Allocated, Home::Host) => "free it with aclrtFreeHost",
        (Origin::Allocated, Home::Device(_)) => "free it with aclrtFree",
        (Origin::Registered, _) => "undo aclrtHostRegisterV2 with aclrtHostUnregister",
        (Origin::Mapped, _) => "undo aclrtMapMem with aclrtUnmapMem",
        (Origin::Imported | Origin::ImportedFar, _) => "close it with aclrtIpcMemClose",
    }
}

/// aclrtFreeHost: returns at once; NULL is fine.
pub fn free_host(here: &Here, ptr: usize) -> Result<()> {
    if ptr == 0 {
        return Ok(());
    }
    explaining(here, [("hostPtr", ptr)], || {
        release(here, ptr, |block| match (block.home, block.origin) {
            (Home::Host, Origin::Allocated) => Ok(()),
            _ => Err(Kind::BadAddress
                .because(format!("this is not memory of aclrtMallocHost: {}", undone_by(block)))),
        })
    })
}

fn release(here: &Here, ptr: usize, fits: impl FnOnce(&Block) -> ferry_core::Result<()>) -> Result<()> {
    let engine = engine()?;
    let block = engine.runtime.free(ptr, fits)?;
    match block.home {
        Home::Device(_) => ipc::freed((ExportKind::Allocation, block.base)),
        Home::Host => {
            pinned::give_back(block.len);
            register::forget_inside(here, engine, &block)?;
        }
    }
    remember_freed(here, block);
    Ok(())
}

/// What aclrtPointerGetAttributes returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointerAttributes {
    /// aclrtMemLocationType.
    pub location: i32,
    /// Device id, for device memory.
    pub id: u32,
    /// Bytes of a page.
    pub page_size: u32,
}

/// aclrtPointerGetAttributes. Memory that acl does not know is reported as unregistered.
pub fn attributes(ptr: usize) -> Result<PointerAttributes> {
    let engine = engine()?;
    let memory = engine.runtime.memory();
    if let Some(Purpose::ViewOf(host)) = memory.reserved_for(ptr) {
        return Err(refuse(format!(
            "ptr is {ptr:#x}, a device's address of registered host memory at {host:#x}: ask for the host \
             address"
        )));
    }
    let near = memory.table().find(ptr);
    let place = match near.filter(|block| block.translate(ptr, 1).is_some()) {
        Some(block) => Some(Place::Known(block)),
        // What follows registered memory is the user's as well.
        None if near.is_some_and(|block| block.origin == Origin::Registered) => None,
        None => memory.place(ptr, 0, Access::Read).ok(),
    };
    let unregistered = PointerAttributes {
        location: ACL_MEM_LOCATION_TYPE_UNREGISTERED,
        id: 0,
        page_size: NORMAL_PAGE as u32,
    };
    Ok(match place {
        Some(Place::Known(block)) => match block.home {
            Home::Host => PointerAttributes {
                location: ACL_MEM_LOCATION_TYPE_HOST,
                id: 0,
                page_size: block.page as u32,
            },
            Home::Device(id) => {
                PointerAttributes { location: ACL_MEM_LOCATION_TYPE_DEVICE, id, page_size: block.page as u32 }
            }
        },
        _ if engine.settings.quirks.foreign_pointers_have_no_attributes() => {
            return Err(refuse(format!(
                "ptr is {ptr:#x}, which is no memory of acl and has no attributes: F7 of FERRY_QUIRKS is on"
            )));
        }
        _ => unregistered,
    })
}

/// aclrtMemGetAddressRange: start and length of what acl allocated or mapped around `ptr`. Memory of the
/// user's has no such range.
pub fn address_range(here: &Here, ptr: usize) -> Result<(usize, usize)> {
    explaining(here, [("ptr", ptr)], || {
        not_null("ptr", ptr)?;
        let found = engine()?.runtime.memory().table().find(ptr);
        let around =
            found.filter(|block| block.translate(ptr, 1).is_some() && block.origin != Origin::Registered);
        let block = around.ok_or_else(|| {
            refuse(format!(
                "ptr is {ptr:#x}: it lies in nothing that aclrtMalloc, aclrtMallocHost or aclrtMapMem gave"
            ))
        })?;
        Ok((block.base, block.len))
    })
}
