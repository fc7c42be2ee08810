//! Shareable handles: physical memory between processes. Documented: in one process a handle and a shareable
//! handle belong to each other, one to one, and the process that exports does not import. So to import again
//! gives the same handle, which is freed as often as it was imported.

use super::{
    export_key::{add_pids, physical, without_list},
    virtual_memory::physical as memory,
};
use crate::{
    Result,
    arguments::refuse,
    constants::*,
    error::fail,
    ipc::{
        self,
        ask::{ANSWER_LIMIT, ask},
        exports::ExportedMemory,
        imports,
        wire::{Answer, ExportKind, Name},
    },
    state::{Here, engine},
};
use ferry_core::Home;

/// aclrtMemExportToShareableHandle.
pub fn export(here: &Here, handle: usize, handle_type: i32, flags: u64) -> Result<u64> {
    here.need_context()?;
    if handle_type != ACL_MEM_HANDLE_TYPE_NONE {
        let note = format!("handleType is {handle_type}: only ACL_MEM_HANDLE_TYPE_NONE (0) is supported");
        let known = handle_type == ACL_MEM_HANDLE_TYPE_POSIX;
        return Err(fail(
            if known { ACL_ERROR_RT_FEATURE_NOT_SUPPORT } else { ACL_ERROR_RT_PARAM_INVALID },
            note,
        ));
    }
    share(handle, flags)
}

/// aclrtMemExportToShareableHandleV2.
pub fn export_v2(here: &Here, handle: usize, flags: u64, share_type: i32) -> Result<u64> {
    here.need_context()?;
    local(share_type)?;
    share(handle, flags)
}

fn share(handle: usize, flags: u64) -> Result<u64> {
    let engine = engine()?;
    let entry = memory::find(handle)?;
    let open_to_all = without_list(flags)?;
    let source = (ExportKind::Physical, handle);
    if imports::name_of(source).is_some() {
        return Err(refuse("handle was itself imported: only the process that made the memory exports it"));
    }
    let Home::Device(device) = entry.physical.home() else {
        let note = "handle is of memory of the host: only memory of a device is shared by a handle";
        return Err(fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, note));
    };
    entry.physical.share()?;
    let device = physical(engine, device);
    let share = move || {
        let memory = memory::find(handle).map_err(|_| Answer::Freed)?.physical.clone();
        let shared = memory.share().map_err(|_| Answer::Full)?;
        Ok(ExportedMemory { shared, device, keep: Box::new(memory) })
    };
    let name = ipc::served_exports()?.export_once(source, Box::new(share), open_to_all)?;
    let twice = || refuse("handle is exported already: it has one shareable handle, until it is freed");
    let name = name.ok_or_else(twice)?;
    if let Err(error) = memory::find(handle) {
        ipc::served_exports()?.withdraw(&name); // the free came before the export was there to end
        return Err(error);
    }
    Ok(name.to_handle())
}

/// aclrtMemSetPidToShareableHandle.
pub fn set_pids(shareable: u64, pids: &[i32]) -> Result<()> {
    let name = parse(shareable)?;
    let more = "shareableHandle is what aclrtMemExportToShareableHandle gave to this process";
    add_pids(&name, pids).map_err(|error| error.and(more))
}

/// aclrtMemSetPidToShareableHandleV2.
pub fn set_pids_v2(shareable: u64, share_type: i32, pids: &[i32]) -> Result<()> {
    local(share_type)?;
    set_pids(shareable, pids)
}

/// aclrtMemImportFromShareableHandle: a handle for the exporter's memory, to be mapped as memory of device
/// `id`.
pub fn import(here: &Here, shareable: u64, id: i32) -> Result<usize> {
    let engine = engine()?;
    here.need_context()?;
    let device = engine.known_device(id)?;
    let name = parse(shareable)?;
    if ipc::exports().is_some_and(|exports| exports.knows(&name)) {
        return Err(refuse("shareableHandle was exported by this process: it is for others to import"));
    }
    let handle = imports::begin(here, name, || {
        let found = ask(here, &name, ANSWER_LIMIT)?;
        let physical = engine.runtime.import_physical(&found.shared, device, Box::new(found.lease))?;
        Ok(memory::adopt(physical))
    })?;
    match memory::find(handle)?.physical.home() {
        Home::Device(other) if other != device => {
            memory::free_physical(handle)?;
            let note = format!("this process has imported it already, as memory of device {other}");
            Err(refuse(format!("deviceId is {device}: {note}")))
        }
        _ => Ok(handle),
    }
}

/// aclrtMemImportFromShareableHandleV2: as memory of the current device.
pub fn import_v2(here: &Here, shareable: u64, share_type: i32, flags: u64) -> Result<usize> {
    let current = here.device()?;
    local(share_type)?;
    if flags != 0 {
        return Err(refuse(format!("flags is {flags}: it must be 0")));
    }
    import(here, shareable, current as i32)
}

fn parse(shareable: u64) -> Result<Name> {
    let note = "is not a shareable handle: both its halves hold something";
    Name::from_handle(shareable).ok_or_else(|| refuse(format!("shareableHandle {shareable:#x} {note}")))
}

fn local(share_type: i32) -> Result<()> {
    match share_type {
        ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT => Ok(()),
        ACL_MEM_SHARE_HANDLE_TYPE_FABRIC => Err(fail(
            ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
            "shareType is ACL_MEM_SHARE_HANDLE_TYPE_FABRIC: memory is shared inside one machine only",
        )),
        other => {
            let note = "give ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT (1)";
            Err(refuse(format!("shareType is {other}: {note}")))
        }
    }
}
