//! Allocation: sizes are rounded as documented, so that the documented padding may be used and no more.

use crate::{
    Result,
    call::{not_null, refuse},
    constants::*,
    error::fail,
    explain::explaining,
    settings::Settings,
    state::{engine, with_here},
};
use ferry_core::{Access, Block, Home, Kind, Place, Request};

const NORMAL_PAGE: usize = 4 << 10;
const HUGE_PAGE: usize = 2 << 20;
const GIANT_PAGE: usize = 1 << 30;

/// aclrtMalloc on the current device. Documented: what prefers huge pages takes normal ones where those run short.
pub fn malloc(size: usize, policy: i32) -> Result<usize> {
    let engine = engine()?;
    let device = with_here(|here| Ok(here.context()?.device))?;
    let (page, len) = shape(size, policy, engine.settings)?;
    let alloc = |page| engine.runtime.alloc(&Request { home: Home::Device(device), len, page });
    let falls_back =
        page == HUGE_PAGE && !matches!(policy, ACL_MEM_MALLOC_HUGE_ONLY | ACL_MEM_MALLOC_HUGE_ONLY_P2P);
    let block = alloc(page).or_else(|error| match error.kind {
        Kind::OutOfMemory if falls_back => alloc(NORMAL_PAGE),
        _ => Err(error),
    })?;
    Ok(block.base)
}

/// The page and the usable length of an allocation. Documented: rounded up to 32 and 32 more, except in 1 GiB pages, which
/// are taken whole. An unknown policy takes huge pages from 2 MiB on.
fn shape(size: usize, policy: i32, settings: &Settings) -> Result<(usize, usize)> {
    let page = match policy {
        ACL_MEM_MALLOC_HUGE_FIRST | ACL_MEM_MALLOC_HUGE_FIRST_P2P if size > 1 << 20 => HUGE_PAGE,
        ACL_MEM_MALLOC_HUGE_ONLY | ACL_MEM_MALLOC_HUGE_ONLY_P2P => HUGE_PAGE,
        ACL_MEM_MALLOC_HUGE1G_ONLY | ACL_MEM_MALLOC_HUGE1G_ONLY_P2P => GIANT_PAGE,
        ACL_MEM_MALLOC_HUGE_FIRST..=ACL_MEM_MALLOC_NORMAL_ONLY_P2P => NORMAL_PAGE,
        _ if size >= HUGE_PAGE => HUGE_PAGE,
        _ => NORMAL_PAGE,
    };
    if page == GIANT_PAGE && !settings.product.has_giant_pages {
        return Err(fail(
            ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
            format!("{} has no pages of 1 GiB", settings.soc),
        ));
    }
    let pad = if settings.product.pads_allocations { 32 } else { 0 };
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
pub fn malloc_host(size: usize) -> Result<usize> {
    let engine = engine()?;
    with_here(|here| here.context().map(drop))?;
    if size == 0 {
        return Err(refuse("size is 0"));
    }
    Ok(engine.runtime.alloc(&Request { home: Home::Host, len: size, page: NORMAL_PAGE })?.base)
}

/// aclrtFree: returns at once.
pub fn free(ptr: usize) -> Result<()> {
    explaining([("devPtr", ptr)], || {
        not_null("devPtr", ptr)?;
        release(ptr, |block| match block.home {
            Home::Device(_) => Ok(()),
            Home::Host => {
                Err(Kind::BadAddress.because("this is page-locked memory: free it with aclrtFreeHost"))
            }
        })
    })
}

/// aclrtFreeHost: returns at once; NULL is fine.
pub fn free_host(ptr: usize) -> Result<()> {
    if ptr == 0 {
        return Ok(());
    }
    explaining([("hostPtr", ptr)], || {
        release(ptr, |block| match block.home {
            Home::Host => Ok(()),
            Home::Device(_) => Err(Kind::BadAddress.because("this is device memory: free it with aclrtFree")),
        })
    })
}

fn release(ptr: usize, fits: impl FnOnce(&Block) -> ferry_core::Result<()>) -> Result<()> {
    let engine = engine()?;
    let block = engine.runtime.free(ptr, fits)?;
    with_here(|here| {
        engine.graves.dig(block, here);
        Ok(())
    })
}

/// What aclrtPointerGetAttributes says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// aclrtMemLocationType.
    pub location: i32,
    /// Device id, for device memory.
    pub id: u32,
    /// Bytes of a page.
    pub page_size: u32,
}

/// aclrtPointerGetAttributes. Memory that acl does not know succeeds too.
pub fn attributes(ptr: usize) -> Result<Attributes> {
    let memory = engine()?.runtime.memory();
    let known = memory.table().find(ptr).filter(|block| block.translate(ptr, 1).is_some());
    let place = known.map(Place::Known).or_else(|| memory.place(ptr, 0, Access::Read).ok());
    let unregistered =
        Attributes { location: ACL_MEM_LOCATION_TYPE_UNREGISTERED, id: 0, page_size: NORMAL_PAGE as u32 };
    Ok(match place {
        Some(Place::Known(block)) => match block.home {
            Home::Host => {
                Attributes { location: ACL_MEM_LOCATION_TYPE_HOST, id: 0, page_size: block.page as u32 }
            }
            Home::Device(id) => {
                Attributes { location: ACL_MEM_LOCATION_TYPE_DEVICE, id, page_size: block.page as u32 }
            }
        },
        _ => unregistered,
    })
}
