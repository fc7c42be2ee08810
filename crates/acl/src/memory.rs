//! Allocation: sizes are rounded as documented, so that the documented padding may be used and no more.

use crate::{
    Error, Result,
    call::{not_null, refuse},
    constants::*,
    error::fail,
    explain,
    settings::Settings,
    state::{engine, with_here},
};
use ferry_core::{Access, Home, Kind, Place, Request};

const NORMAL_PAGE: usize = 4 << 10;
const HUGE_PAGE: usize = 2 << 20;
const GIANT_PAGE: usize = 1 << 30;

/// aclrtMalloc on the current device.
pub fn malloc(size: usize, policy: i32) -> Result<usize> {
    let engine = engine()?;
    let device = with_here(|here| Ok(here.context()?.device))?;
    let (page, len) = shape(size, policy, engine.settings)?;
    let block = engine.runtime.alloc(&Request { home: Home::Device(device), len, page })?;
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
    not_null("devPtr", ptr)?;
    release(ptr, "aclrtFree", |home| matches!(home, Home::Device(_)))
}

/// aclrtFreeHost: returns at once; NULL is fine.
pub fn free_host(ptr: usize) -> Result<()> {
    if ptr == 0 {
        return Ok(());
    }
    release(ptr, "aclrtFreeHost", |home| home == Home::Host)
}

fn release(ptr: usize, name: &str, right: impl Fn(Home) -> bool) -> Result<()> {
    let engine = engine()?;
    with_here(|here| {
        let fits = |block: &ferry_core::Block| match right(block.home) {
            true => Ok(()),
            false => Err(Kind::BadAddress.because(format!("{name} does not free {block}"))),
        };
        match engine.runtime.free(ptr, fits) {
            Ok(block) => {
                engine.graves.dig(block, here);
                Ok(())
            }
            Err(error) => {
                Err(Error::from(error).and(format!("{ptr:#x} is {}", explain::describe(engine, here, ptr))))
            }
        }
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
