//! Virtual memory: addresses are reserved, and physical memory is mapped there.
//!
//! Physical memory by handle is `physical.rs`; what is mapped where, and which places were given access to
//! it, is `mapped.rs`. Here are the functions that take both, and those of reservations, which the engine
//! knows by itself. Copies treat mapped memory like any other: nothing of theirs is here.
//!
//! Arrows: `physical` <- `mapped` <- this file.

pub mod mapped;
pub mod physical;

use self::mapped::MAPPED;
use super::memory::{GIANT_PAGE, HUGE_PAGE};
use crate::{
    Result,
    arguments::{not_null, refuse},
    constants::*,
    error::fail,
    explain::{explaining, remember_freed},
    state::{Here, engine},
};
use ferry_core::{Purpose, sync::lock};

/// aclrtReserveMemAddress. `flags` 1 asks for huge pages, which physical memory decides here.
pub fn reserve(here: &Here, size: usize, alignment: usize, expected: usize, flags: u64) -> Result<usize> {
    let engine = engine()?;
    here.need_context()?;
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

/// aclrtReserveMemAddressNoUCMemory: the very addresses that are asked for, or none. Documented for A3;
/// public callers pass `flags` 1.
pub fn reserve_exactly(
    here: &Here,
    size: usize,
    alignment: usize,
    expected: usize,
    flags: u64,
) -> Result<usize> {
    here.need_context()?;
    if size == 0 || !size.is_multiple_of(GIANT_PAGE) {
        return Err(refuse(format!("size is {size}: it must be a multiple of {GIANT_PAGE} (1 GiB)")));
    }
    if expected == 0 {
        return Err(refuse(
            "expectPtr is NULL: it names the address to reserve, from 40 to 224 TiB as documented",
        ));
    }
    let base = reserve(here, size, alignment, expected, flags)?;
    if base == expected {
        return Ok(base);
    }
    release(here, base)?;
    let note = format!(
        "expectPtr is {expected:#x}: {size} bytes there are in use, or are not addresses that this machine \
         has"
    );
    Err(fail(ACL_ERROR_RT_MEMORY_ALLOCATION, note))
}

/// aclrtReleaseMemAddress: nothing is mapped there any more.
pub fn release(here: &Here, base: usize) -> Result<()> {
    not_null("virPtr", base)?;
    let engine = engine()?;
    explaining(here, [("virPtr", base)], || Ok(engine.runtime.release(base, Purpose::Mappings)?))
}

/// aclrtMapMem.
pub fn map(here: &Here, base: usize, size: usize, offset: usize, handle: usize, flags: u64) -> Result<()> {
    not_null("virPtr", base)?;
    not_null("handle", handle)?;
    let engine = engine()?;
    here.need_context()?;
    let entry = physical::find(handle)?;
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
    explaining(here, [("virPtr", base)], || {
        let mut mapped = lock(&MAPPED);
        engine.runtime.map(base, physical)?;
        mapped.add(base, &entry);
        Ok(())
    })
}

/// aclrtUnmapMem: returns at once.
pub fn unmap(here: &Here, base: usize) -> Result<()> {
    not_null("virPtr", base)?;
    let engine = engine()?;
    explaining(here, [("virPtr", base)], || {
        let mut mapped = lock(&MAPPED);
        let block = engine.runtime.unmap(base)?;
        let entry = mapped.remove(base);
        drop(mapped);
        drop(entry);
        remember_freed(here, block);
        Ok(())
    })
}
