//! Registration of the user's host memory: mapped for devices, page-locked (pinned), or both.
//!
//! Only page-locking changes how copies treat the memory, so only that reaches the engine. A mapping gives an
//! address that stands for the memory on devices; documented: copies must not use it, so nothing is behind it
//! here.

use crate::{
    Error, Result,
    arguments::{not_null, refuse},
    constants::*,
    error::fail,
    explain::{explaining, remember_freed},
    rules::pinned::{PinnedBytes, within_one_call},
    settings::Settings,
    state::{Here, OpenedEngine, engine},
};
use ferry_core::{Access, Block, Place, Purpose, sync::lock};
use std::{collections::BTreeMap, sync::Mutex};

const PAGE: usize = 4096;

/// What is registered, by its first address.
static REGISTERED: Mutex<BTreeMap<usize, Registration>> = Mutex::new(BTreeMap::new());

struct Registration {
    len: usize,
    pinned: bool,
    /// The address that stands for it on devices.
    view: Option<usize>,
    /// Its part of the page-locked memory of the process. Never read: dropping it ends the count.
    _bytes: PinnedBytes,
}

/// aclrtHostRegister: maps, and gives the address on devices.
pub fn register(here: &Here, ptr: usize, size: usize, kind: i32) -> Result<usize> {
    let flags = match kind {
        ACL_HOST_REGISTER_MAPPED => ACL_HOST_REG_MAPPED,
        ACL_HOST_REGISTER_IOMEMORY | ACL_HOST_REGISTER_READONLY => kind,
        other => {
            here.need_context()?;
            return Err(refuse(format!("type is {other}: give ACL_HOST_REGISTER_MAPPED (0)")));
        }
    };
    explaining(here, [("ptr", ptr)], || add(here, ptr, size, flags))?;
    device_pointer(here, ptr, 0)
}

/// aclrtHostRegisterV2: maps, page-locks, or both.
pub fn register_v2(here: &Here, ptr: usize, size: usize, flags: u32) -> Result<()> {
    let all = ACL_HOST_REG_MAPPED | ACL_HOST_REG_PINNED | ACL_HOST_REG_IOMEMORY | ACL_HOST_REG_READONLY;
    explaining(here, [("ptr", ptr)], || match i32::try_from(flags) {
        Ok(flags) if flags != 0 && flags & !all == 0 => add(here, ptr, size, flags),
        _ => {
            not_null("ptr", ptr)?;
            here.need_context()?;
            Err(refuse(format!(
                "flag is {flags:#x}: give ACL_HOST_REG_MAPPED (0x2), ACL_HOST_REG_PINNED (0x10000000), or \
                 both"
            )))
        }
    })
}

fn add(here: &Here, ptr: usize, size: usize, flags: i32) -> Result<()> {
    let engine = engine()?;
    not_null("ptr", ptr)?;
    here.need_context()?;
    let end = checked_end(engine.settings, ptr, size, flags)?;
    let pinned = flags & ACL_HOST_REG_PINNED != 0;
    let mut all = lock(&REGISTERED);
    if let Some((base, other)) = all.range(..end).next_back()
        && base + other.len > ptr
    {
        let note = format!("{} bytes at {base:#x} are registered already", other.len);
        return Err(fail(ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED, note));
    }
    let bytes = can_register(engine, ptr, size, pinned)?;
    let view = match flags & ACL_HOST_REG_MAPPED {
        0 => None,
        _ => Some(engine.runtime.reserve(size, PAGE, 0, Purpose::ViewOf(ptr))?),
    };
    if pinned && let Err(error) = engine.runtime.register(ptr, size) {
        if let Some(view) = view {
            engine.runtime.release(view, Purpose::ViewOf(ptr))?;
        }
        return Err(error.into());
    }
    all.insert(ptr, Registration { len: size, pinned, view, _bytes: bytes });
    Ok(())
}

/// The end of a range that can be registered with these flags, whatever memory it is.
fn checked_end(settings: &Settings, ptr: usize, size: usize, flags: i32) -> Result<usize> {
    if flags & (ACL_HOST_REG_IOMEMORY | ACL_HOST_REG_READONLY) != 0 {
        let note = "memory of other devices (IOMEMORY) and memory that devices only read (READONLY) are \
                    reserved, not supported";
        return Err(fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, note));
    }
    if size == 0 {
        return Err(refuse("size is 0"));
    }
    within_one_call("size", size, settings.quirks.registration_limit())?;
    let alignment = settings.register_alignment.unwrap_or(PAGE);
    if !ptr.is_multiple_of(alignment) {
        return Err(unaligned(settings, ptr, alignment));
    }
    let wraps = || refuse(format!("{size} bytes at {ptr:#x} wrap round the end of the address space"));
    ptr.checked_add(size).ok_or_else(wraps)
}

#[cold]
fn unaligned(settings: &Settings, ptr: usize, alignment: usize) -> Error {
    let by = if alignment == PAGE { "" } else { ", as FERRY_LIMIT_REGISTER_ALIGN says" };
    let note = format!("ptr is {ptr:#x}: it must be a multiple of {alignment}{by}");
    if settings.quirks.unaligned_registration_is_a_driver_error() {
        return fail(ACL_ERROR_RT_DRV_INTERNAL_ERROR, note + "; F9 of FERRY_QUIRKS is on");
    }
    fail(ACL_ERROR_RT_ADDR_UNALIGNED, note)
}

/// Memory of the user's, or page-locked memory of acl that is not to be page-locked again. Only the former is
/// counted.
fn can_register(engine: &OpenedEngine, ptr: usize, size: usize, pinned: bool) -> Result<PinnedBytes> {
    match engine.runtime.memory().place(ptr, size, Access::Write)? {
        place if place.device().is_some() => Err(refuse("device memory cannot be registered")),
        Place::Known(_) if pinned => Err(refuse("the memory is page-locked already")),
        Place::Known(_) => Ok(PinnedBytes::none()),
        _ => PinnedBytes::reserve(engine.settings, size),
    }
}

/// aclrtHostGetDevicePointer: the address on devices of registered, mapped memory. Copies must not use it.
pub fn device_pointer(here: &Here, host: usize, flag: u32) -> Result<usize> {
    engine()?;
    explaining(here, [("pHost", host)], || {
        not_null("pHost", host)?;
        here.need_context()?;
        match flag {
            0 => Ok(()),
            _ => Err(refuse(format!("flag is {flag}: it must be 0"))),
        }
    })?;
    let all = lock(&REGISTERED);
    let found = all.range(..=host).next_back().filter(|(base, found)| host - *base < found.len);
    let (base, registration) = found.ok_or_else(|| not_registered(host))?;
    let view = registration.view.ok_or_else(|| {
        refuse(format!(
            "the memory at {base:#x} was registered without ACL_HOST_REG_MAPPED: devices have \
             no address of it"
        ))
    })?;
    Ok(view + (host - base))
}

/// aclrtHostUnregister: returns at once. Copies in flight still use the memory, which must stay mapped until
/// they have passed.
pub fn unregister(here: &Here, ptr: usize) -> Result<()> {
    let engine = engine()?;
    not_null("ptr", ptr)?;
    let mut all = lock(&REGISTERED);
    let registration = all.remove(&ptr).ok_or_else(|| not_registered(ptr))?;
    end(here, engine, ptr, &registration)
}

/// Page-locked memory of acl is freed: its registrations go with it.
pub(crate) fn forget_inside(here: &Here, engine: &OpenedEngine, block: &Block) -> Result<()> {
    let mut all = lock(&REGISTERED);
    let inside: Vec<_> = all.range(block.base..block.base + block.len).map(|(base, _)| *base).collect();
    for base in inside {
        all.remove(&base).map_or(Ok(()), |registration| end(here, engine, base, &registration))?;
    }
    Ok(())
}

fn end(here: &Here, engine: &OpenedEngine, base: usize, registration: &Registration) -> Result<()> {
    if let Some(view) = registration.view {
        engine.runtime.release(view, Purpose::ViewOf(base))?;
    }
    if registration.pinned {
        let block = engine.runtime.free(base, |_| Ok(()))?;
        remember_freed(here, block);
    }
    Ok(())
}

fn not_registered(ptr: usize) -> Error {
    fail(ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, format!("no registered memory starts at {ptr:#x}"))
}
