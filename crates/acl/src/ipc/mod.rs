//! Memory between processes: export keys for allocations here, handles for physical memory in `shareable.rs`.
//!
//! The exporter's service thread (`service.rs`) checks who asks (`ask.rs`) and sends the descriptor of the file behind the memory;
//! the connection stays open and is the lease. `docs/IPC.md` has the picture.

mod ask;
mod imports;
mod service;
pub mod shareable;
mod socket;
mod wire;

#[cfg(test)]
mod tests;

use crate::{
    Result,
    call::refuse,
    constants::*,
    explain::with_addresses,
    state::{Engine, current_device, engine, lock, need_context, with_here},
};
use ask::{PATIENCE, ask};
use ferry_core::{Block, Home, Kind, Origin};
use imports::Ended;
use service::{Grant, Held, Refusal, Service};
use std::sync::{Arc, PoisonError, RwLock};
use wire::{KEY_TEXT, Lent, Name};

/// Bytes of an export key, with its NUL.
pub const KEY_LEN: usize = KEY_TEXT + 1;

const NO_LIST: u64 = ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION as u64;
const ENABLE_PEER: u64 = ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS as u64;
const _: () = assert!(NO_LIST == ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION as u64);

/// aclrtIpcMemGetExportKey: lets other processes import the first `size` bytes of an allocation.
pub fn export_key(ptr: usize, size: usize, len: usize, flags: u64) -> Result<[u8; KEY_LEN]> {
    let engine = engine()?;
    need_context()?;
    if len != KEY_LEN {
        return Err(refuse(format!("len is {len}: a key takes {KEY_LEN} bytes, no more and no less")));
    }
    let open_to_all = without_list(flags)?;
    let lend = move || engine.runtime.export(ptr, size);
    let (loan, _) = lend().map_err(|error| with_addresses(error.into(), &[("devPtr", ptr)]))?;
    let device = physical(engine, device_of(engine, ptr)?);
    let offer = move || {
        let _ = &loan; // while the offer stands, no other allocation can be at this address
        let (loan, shared) = lend().map_err(|error| refusal(&error))?;
        Ok(Grant { shared, device, keep: Box::new(loan) })
    };
    let name = service()?.export((Lent::Allocation, ptr), Box::new(offer), open_to_all)?;
    if let Err(error) = device_of(engine, ptr) {
        service()?.withdraw(&name); // the free came before the export was there to end
        return Err(error);
    }
    let mut key = [0; KEY_LEN];
    key[..KEY_TEXT].copy_from_slice(name.to_key().as_bytes());
    Ok(key)
}

/// aclrtIpcMemSetImportPid: adds processes to the white list of a key that this process exported.
pub fn set_import_pids(key: &str, pids: &[i32]) -> Result<()> {
    let name = parse(key)?;
    add_pids(&name, pids)
        .map_err(|error| error.and("key is what aclrtIpcMemGetExportKey gave to this process"))
}

/// aclrtIpcMemImportByKey: the exporter's memory, at an address of this process, which is the same for every import of a key.
pub fn import_by_key(key: &str, flags: u64) -> Result<usize> {
    let engine = engine()?;
    let current = current_device()?;
    let enable_peer = match flags {
        0 => false,
        ENABLE_PEER => true,
        other => return Err(refuse(format!("flags is {other}: give 0, or 1 to enable peer access too"))),
    };
    let name = parse(key)?;
    let base = imports::begin(name, || {
        let loaned = ask(&name, PATIENCE)?;
        let owner = visible(engine, loaned.device);
        let origin = match loaned.device == physical(engine, current) {
            true => Origin::Imported,
            false => Origin::ImportedFar,
        };
        // Memory of a device that this process does not see is reached as if it were the current device's.
        let device = owner.unwrap_or(current);
        Ok(engine.runtime.import(&loaned.shared, device, origin, Box::new(loaned.lease))?.base)
    })?;
    if enable_peer {
        let device = device_of(engine, base)?;
        // From a device to itself there is nothing to enable.
        lock(&engine.peers).extend((device != current).then_some((current, device)));
    }
    Ok(base)
}

/// aclrtIpcMemClose: an importer undoes one import, gives the memory back with the last, and returns at once; an exporter lends it
/// no more.
pub fn close(key: &str) -> Result<()> {
    let name = parse(key)?;
    if end_import(&name)? || running().is_some_and(|service| service.withdraw(&name)) {
        return Ok(());
    }
    Err(refuse("key is neither exported nor imported by this process, or was closed before"))
}

/// Undoes one import; false if there is none under this name.
fn end_import(name: &Name) -> Result<bool> {
    match imports::end(name) {
        Ended::Last(base) => {
            let engine = engine()?;
            let block = engine.runtime.end_import(base)?;
            with_here(|here| {
                engine.graves.dig(block, here);
                Ok(true)
            })
        }
        Ended::OneOfMany => Ok(true),
        Ended::None => Ok(false),
    }
}

/// Undoes one import of the memory at this address.
pub(crate) fn close_at(base: usize) -> Result<()> {
    let name = imports::name_of((Lent::Allocation, base));
    match name.map(|name| end_import(&name)).transpose()? {
        Some(true) => Ok(()),
        _ => Err(refuse(format!(
            "{base:#x} is not the start of memory that this process imported, or not any more"
        ))),
    }
}

/// Ends an export, which no import is.
pub fn withdraw(key: &str) -> Result<()> {
    let name = parse(key)?;
    if running().is_some_and(|service| service.withdraw(&name)) {
        return Ok(());
    }
    Err(refuse("name is not exported by this process, or was ended before"))
}

/// An allocation was just freed: nobody else can import it. Those who have keep its bytes.
pub(crate) fn freed(block: &Block) {
    if let (Home::Device(_), Some(service)) = (block.home, running()) {
        service.freed((Lent::Allocation, block.base));
    }
}

fn parse(key: &str) -> Result<Name> {
    Name::from_key(key).ok_or_else(|| {
        let note =
            "key is not one that aclrtIpcMemGetExportKey gave: those are 64 characters of their own form";
        refuse(format!("{note}, and this has {}", key.chars().count()))
    })
}

/// Whether an export is for everybody who knows its name.
fn without_list(flags: u64) -> Result<bool> {
    match flags {
        0 => Ok(false),
        NO_LIST => Ok(true),
        other => Err(refuse(format!("flags is {other}: give 0, or 1 to have no white list"))),
    }
}

fn add_pids(name: &Name, pids: &[i32]) -> Result<()> {
    if pids.is_empty() {
        return Err(refuse("the number of processes is 0"));
    }
    if let Some((index, pid)) = pids.iter().enumerate().find(|(_, pid)| **pid <= 0) {
        return Err(refuse(format!("pid[{index}] is {pid}: the number of a process is positive")));
    }
    if running().is_some_and(|service| service.list(name, pids)) {
        return Ok(());
    }
    Err(refuse("nothing is exported by this process under this name, or not any more"))
}

/// What an importer is told: the memory is not there any more, or it could not be lent.
fn refusal(error: &ferry_core::Error) -> Refusal {
    match error.kind {
        Kind::BadAddress => Refusal::Freed,
        _ => Refusal::Short,
    }
}

fn device_of(engine: &Engine, ptr: usize) -> Result<u32> {
    match engine.runtime.memory().table().find(ptr).map(|block| block.home) {
        Some(Home::Device(device)) => Ok(device),
        _ => Err(with_addresses(refuse("another thread frees this"), &[("devPtr", ptr)])),
    }
}

/// The number that all processes have for a device of this one.
fn physical(engine: &Engine, device: u32) -> u32 {
    engine.physical[device as usize]
}

/// The device of this process that all processes know under a number.
fn visible(engine: &Engine, physical: u32) -> Option<u32> {
    engine.physical.iter().position(|number| *number == physical).map(|device| device as u32)
}

static SERVICE: RwLock<Option<Arc<Service>>> = RwLock::new(None);

/// The service of this process, if it ever exported anything.
fn running() -> Option<Arc<Service>> {
    SERVICE.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// The service of this process, started if it is not there yet or has ended.
fn service() -> Result<Held> {
    loop {
        if let Some(service) = running().and_then(|service| service.hold()) {
            return Ok(service);
        }
        let mut slot = SERVICE.write().unwrap_or_else(PoisonError::into_inner);
        if slot.as_ref().is_none_or(|service| service.hold().is_none()) {
            *slot = Some(Service::start()?);
        }
    }
}
