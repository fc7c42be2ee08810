//! Functions below AscendCL that transfer engines look up by name: `ferry_rt.h`.

use crate::{
    enter::{Out, array, enter},
    ipc::key_text,
};
use ferry_acl::{
    arguments::{not_null, refuse},
    constants::ACL_MEMCPY_DEFAULT,
    functions,
    rules::{
        copy::Async,
        export_key::{self, KEY_LEN},
        ids, info, rt,
    },
};
use std::ffi::{c_char, c_void};

/// The process id by which other processes' white lists know this one.
///
/// # Safety
/// `pid` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtDeviceGetBareTgid(pid: *mut u32) -> i32 {
    enter(&functions::rtDeviceGetBareTgid, |_| {
        Out::new("pid", pid)?.set(info::bare_tgid() as u32);
        Ok(())
    })
}

/// A number of a device.
///
/// # Safety
/// `value` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtGetDeviceInfo(
    deviceId: u32,
    moduleType: i32,
    infoType: i32,
    value: *mut i64,
) -> i32 {
    enter(&functions::rtGetDeviceInfo, |_| {
        let out = Out::new("value", value)?;
        out.set(rt::device_info(deviceId, moduleType, infoType)?);
        Ok(())
    })
}

/// Lets listed processes import device memory, and says under which name.
///
/// # Safety
/// `name` is NULL or valid for `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtIpcSetMemoryName(
    ptr: *const c_void,
    size: u64,
    name: *mut c_char,
    len: u32,
) -> i32 {
    enter(&functions::rtIpcSetMemoryName, |here| {
        not_null("ptr", ptr as usize)?;
        let out = Out::new("name", name.cast::<[u8; KEY_LEN]>())?;
        out.set(export_key::export_key(here, ptr as usize, size as usize, len as usize, 0)?);
        Ok(())
    })
}

/// Adds processes to those that may import a name.
///
/// # Safety
/// `name` is NULL or a C string, `pid` is NULL or valid for `num` elements; neither changes during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtSetIpcMemorySuperPodPid(
    name: *const c_char,
    sdid: u32,
    pid: *mut i32,
    num: i32,
) -> i32 {
    let _ = sdid;
    enter(&functions::rtSetIpcMemorySuperPodPid, |_| {
        let count = usize::try_from(num).map_err(|_| refuse(format!("num is {num}: it must be positive")))?;
        // SAFETY: the C contract: the string and the array stay as they are during the call.
        let (key, pids) = unsafe { (key_text("name", name)?, array("pid", pid.cast_const(), count)?) };
        export_key::set_import_pids(&key, &pids)
    })
}

/// Makes memory that another process exported known here.
///
/// # Safety
/// `ptr` is NULL or valid; `name` is NULL or a C string that does not change during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtIpcOpenMemory(ptr: *mut *mut c_void, name: *const c_char) -> i32 {
    enter(&functions::rtIpcOpenMemory, |here| {
        let out = Out::new("ptr", ptr)?;
        // SAFETY: the C contract: the string stays as it is during the call.
        let key = unsafe { key_text("name", name)? };
        out.set(export_key::import_by_key(here, &key, 0)? as *mut c_void);
        Ok(())
    })
}

/// Ends one import, by its address.
#[unsafe(no_mangle)]
pub extern "C" fn rtIpcCloseMemory(ptr: *const c_void) -> i32 {
    enter(&functions::rtIpcCloseMemory, |here| {
        not_null("ptr", ptr as usize)?;
        rt::close(here, ptr as usize)
    })
}

/// Ends an export.
///
/// # Safety
/// `name` is NULL or a C string that does not change during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtIpcDestroyMemoryName(name: *const c_char) -> i32 {
    enter(&functions::rtIpcDestroyMemoryName, |_| {
        // SAFETY: the C contract: the string stays as it is during the call.
        export_key::withdraw(&unsafe { key_text("name", name)? })
    })
}

/// Lets two devices reach each other's memory.
#[unsafe(no_mangle)]
pub extern "C" fn rtEnableP2P(devIdDes: u32, phyIdSrc: u32, flag: u32) -> i32 {
    enter(&functions::rtEnableP2P, |_| rt::set_peers(devIdDes, phyIdSrc, flag, true))
}

/// Undoes rtEnableP2P.
#[unsafe(no_mangle)]
pub extern "C" fn rtDisableP2P(devIdDes: u32, phyIdSrc: u32) -> i32 {
    enter(&functions::rtDisableP2P, |_| rt::set_peers(devIdDes, phyIdSrc, 0, false))
}

/// The driver's number of a device.
///
/// # Safety
/// `logicDevId` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtGetLogicDevIdByUserDevId(userDevId: i32, logicDevId: *mut i32) -> i32 {
    enter(&functions::rtGetLogicDevIdByUserDevId, |_| {
        let out = Out::new("logicDevId", logicDevId)?;
        out.set(ids::of_user(userDevId)?);
        Ok(())
    })
}

/// Copies in a stream; which way is told by the addresses alone.
///
/// # Safety
/// Both ranges stay valid until the stream has passed the copy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtMemcpyAsyncWithoutCheckKind(
    dst: *mut c_void,
    destMax: u64,
    src: *const c_void,
    count: u64,
    kind: u32,
    stream: *mut c_void,
) -> i32 {
    let _ = kind;
    enter(&functions::rtMemcpyAsyncWithoutCheckKind, |here| {
        let (dst, src, stream) = (dst as usize, src as usize, stream as usize);
        let (dest_max, count) = (destMax as usize, count as usize);
        let copy = Async { dst, dest_max, src, count, kind: ACL_MEMCPY_DEFAULT, stream };
        // SAFETY: the C contract.
        unsafe { copy.submit(here) }
    })
}
