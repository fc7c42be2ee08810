//! Export keys: allocations of device memory between processes. Physical memory goes by handles:
//! `shareable.rs`.

use crate::{
    Error, Result,
    arguments::refuse,
    constants::*,
    error::fail,
    explain::{remember_freed, with_addresses},
    ipc::{
        self,
        ask::{ANSWER_LIMIT, ask},
        exports::ExportedMemory,
        imports::{self, Ended},
        wire::{Answer, ExportKind, KEY_TEXT, Name},
    },
    state::{Here, OpenedEngine, engine},
    watched,
};
use ferry_core::{Home, Kind, Origin, sync::lock};

/// Bytes of an export key, with its NUL.
pub const KEY_LEN: usize = KEY_TEXT + 1;

const NO_LIST: u64 = ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION as u64;
const ENABLE_PEER: u64 = ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS as u64;
const _: () = assert!(NO_LIST == ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION as u64);

/// aclrtIpcMemGetExportKey: lets other processes import the first `size` bytes of an allocation.
pub fn export_key(here: &Here, ptr: usize, size: usize, len: usize, flags: u64) -> Result<[u8; KEY_LEN]> {
    let engine = engine()?;
    here.need_context()?;
    if len != KEY_LEN {
        return Err(refuse(format!("len is {len}: a key takes {KEY_LEN} bytes, no more and no less")));
    }
    let open_to_all = without_list(flags)?;
    let export = move || engine.runtime.export(ptr, size);
    let (kept, _) = export().map_err(|error| with_addresses(here, error.into(), &[("devPtr", ptr)]))?;
    let device = physical(engine, device_of(here, engine, ptr)?);
    let share = move || {
        let _ = &kept; // while it is exported, no other allocation can be at this address
        let (keep, shared) = export().map_err(|error| refusal(&error))?;
        Ok(ExportedMemory { shared, device, keep: Box::new(keep) })
    };
    let name = ipc::served_exports()?.export((ExportKind::Allocation, ptr), Box::new(share), open_to_all)?;
    if let Err(error) = device_of(here, engine, ptr) {
        ipc::served_exports()?.withdraw(&name); // the free came before the export was there to end
        return Err(error);
    }
    watched::lent(ptr, &name.to_key());
    let mut key = [0; KEY_LEN];
    key[..KEY_TEXT].copy_from_slice(name.to_key().as_bytes());
    Ok(key)
}

/// aclrtIpcMemSetImportPid: adds processes to the white list of a key that this process exported.
pub fn set_import_pids(key: &str, pids: &[i32]) -> Result<()> {
    let name = parse(key)?;
    if engine()?.settings.quirks.ipc_white_lists_fail() {
        let note = "white lists do not work: F4 of FERRY_QUIRKS is on; export with \
                    ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION (1)";
        return Err(fail(ACL_ERROR_RT_DRV_INTERNAL_ERROR, note));
    }
    add_pids(&name, pids)
        .map_err(|error| error.and("key is what aclrtIpcMemGetExportKey gave to this process"))
}

/// aclrtIpcMemImportByKey: the exporter's memory, at an address of this process, which is the same for every
/// import of a key.
pub fn import_by_key(here: &Here, key: &str, flags: u64) -> Result<usize> {
    let engine = engine()?;
    let current = here.device()?;
    let enable_peer = match flags {
        0 => false,
        ENABLE_PEER => true,
        other => return Err(refuse(format!("flags is {other}: give 0, or 1 to enable peer access too"))),
    };
    let name = parse(key)?;
    let base = imports::begin(here, name, || {
        let memory = ask(here, &name, ANSWER_LIMIT).map_err(|error| not_listed(engine, error))?;
        let owner = visible(engine, memory.device);
        let origin = match memory.device == physical(engine, current) {
            true => Origin::Imported,
            false => Origin::ImportedFar,
        };
        // Memory of a device that this process does not see is reached as if it were the current device's.
        let device = owner.unwrap_or(current);
        Ok(engine.runtime.import(&memory.shared, device, origin, Box::new(memory.lease))?.base)
    })?;
    if enable_peer {
        let device = device_of(here, engine, base)?;
        // From a device to itself there is nothing to enable.
        lock(&engine.peers).extend((device != current).then_some((current, device)));
    }
    watched::lent(base, &name.to_key());
    Ok(base)
}

/// The error of an import, as the quirk F4 has it where the process is not on the white list.
fn not_listed(engine: &OpenedEngine, error: Error) -> Error {
    if error.code == ACL_ERROR_RT_NO_PERMISSION && engine.settings.quirks.ipc_white_lists_fail() {
        return fail(ACL_ERROR_RT_DRV_INTERNAL_ERROR, format!("{}; F4 of FERRY_QUIRKS is on", error.note));
    }
    error
}

/// aclrtIpcMemClose: an importer undoes one import, the last of which ends its lease, and returns at once; an
/// exporter ends the export.
pub fn close(here: &Here, key: &str) -> Result<()> {
    let name = parse(key)?;
    if end_import(here, &name)? || end_export(&name) {
        return Ok(());
    }
    Err(refuse("key is neither exported nor imported by this process, or was closed before"))
}

/// Undoes one import; false if there is none under this name.
fn end_import(here: &Here, name: &Name) -> Result<bool> {
    match imports::end(name) {
        Ended::Last(base) => {
            let block = engine()?.runtime.end_import(base)?;
            remember_freed(here, block);
            Ok(true)
        }
        Ended::OneOfMany => Ok(true),
        Ended::None => Ok(false),
    }
}

/// Undoes one import of the memory at this address.
pub(crate) fn close_at(here: &Here, base: usize) -> Result<()> {
    let name = imports::name_of((ExportKind::Allocation, base));
    match name.map(|name| end_import(here, &name)).transpose()? {
        Some(true) => Ok(()),
        _ => Err(refuse(format!(
            "{base:#x} is not the start of memory that this process imported, or not any more"
        ))),
    }
}

/// Ends an export: not an import, as [`close`] may.
pub fn withdraw(key: &str) -> Result<()> {
    let name = parse(key)?;
    if end_export(&name) {
        return Ok(());
    }
    Err(refuse("name is not exported by this process, or was ended before"))
}

fn end_export(name: &Name) -> bool {
    ipc::exports().is_some_and(|exports| exports.withdraw(name))
}

fn parse(key: &str) -> Result<Name> {
    Name::from_key(ExportKind::Allocation, key).ok_or_else(|| {
        let note =
            "key is not one that aclrtIpcMemGetExportKey gave: those are 64 characters of their own form";
        refuse(format!("{note}, and this has {}", key.chars().count()))
    })
}

/// Whether an export has no white list: every process that knows its name may import it.
pub(super) fn without_list(flags: u64) -> Result<bool> {
    match flags {
        0 => Ok(false),
        NO_LIST => Ok(true),
        other => Err(refuse(format!("flags is {other}: give 0, or 1 to have no white list"))),
    }
}

/// Adds processes to the white list of an export.
pub(super) fn add_pids(name: &Name, pids: &[i32]) -> Result<()> {
    if pids.is_empty() {
        return Err(refuse("the number of processes is 0"));
    }
    if let Some((index, pid)) = pids.iter().enumerate().find(|(_, pid)| **pid <= 0) {
        return Err(refuse(format!("pid[{index}] is {pid}: the number of a process is positive")));
    }
    if ipc::exports().is_some_and(|exports| exports.allow(name, pids)) {
        return Ok(());
    }
    Err(refuse("nothing is exported by this process under this name, or not any more"))
}

/// What an importer is told: the memory is not there any more, or it could not be shared.
fn refusal(error: &ferry_core::Error) -> Answer {
    match error.kind {
        Kind::BadAddress => Answer::Freed,
        _ => Answer::Full,
    }
}

fn device_of(here: &Here, engine: &OpenedEngine, ptr: usize) -> Result<u32> {
    match engine.runtime.memory().table().find(ptr).map(|block| block.home) {
        Some(Home::Device(device)) => Ok(device),
        _ => Err(with_addresses(here, refuse("another thread frees this"), &[("devPtr", ptr)])),
    }
}

/// The number that all processes have for a device of this one.
pub(super) fn physical(engine: &OpenedEngine, device: u32) -> u32 {
    engine.physical[device as usize]
}

/// The device of this process that all processes know under a number.
pub(super) fn visible(engine: &OpenedEngine, physical: u32) -> Option<u32> {
    engine.physical.iter().position(|number| *number == physical).map(|device| device as u32)
}
