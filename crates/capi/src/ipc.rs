//! Memory between processes.

use crate::{
    enter::{Out, array, enter, text},
    types::{aclError, aclrtDrvMemHandle},
};
use ferry_acl::{
    Result,
    arguments::not_null,
    functions,
    rules::{
        export_key::{self, KEY_LEN},
        shareable,
    },
};
use std::ffi::{c_char, c_void};

/// Lets other processes import device memory, and says under which key.
///
/// # Safety
/// `key` is NULL or valid for `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtIpcMemGetExportKey(
    devPtr: *mut c_void,
    size: usize,
    key: *mut c_char,
    len: usize,
    flags: u64,
) -> aclError {
    enter(&functions::aclrtIpcMemGetExportKey, |here| {
        not_null("devPtr", devPtr as usize)?;
        let out = Out::new("key", key.cast::<[u8; KEY_LEN]>())?;
        out.set(export_key::export_key(here, devPtr as usize, size, len, flags)?);
        Ok(())
    })
}

/// Adds processes to those that may import a key.
///
/// # Safety
/// `key` is NULL or a C string, `pid` is NULL or valid for `num` elements; neither changes during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtIpcMemSetImportPid(key: *const c_char, pid: *mut i32, num: usize) -> aclError {
    enter(&functions::aclrtIpcMemSetImportPid, |_| {
        // SAFETY: the C contract: the string and the array stay as they are during the call.
        let (key, pids) = unsafe { (key_text("key", key)?, array("pid", pid.cast_const(), num)?) };
        export_key::set_import_pids(&key, &pids)
    })
}

/// Makes memory that another process exported known here.
///
/// # Safety
/// `devPtr` is NULL or valid; `key` is NULL or a C string that does not change during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtIpcMemImportByKey(
    devPtr: *mut *mut c_void,
    key: *const c_char,
    flags: u64,
) -> aclError {
    enter(&functions::aclrtIpcMemImportByKey, |here| {
        let out = Out::new("devPtr", devPtr)?;
        // SAFETY: the C contract: the string stays as it is during the call.
        let key = unsafe { key_text("key", key)? };
        out.set(export_key::import_by_key(here, &key, flags)? as *mut c_void);
        Ok(())
    })
}

/// Ends an import, or an export.
///
/// # Safety
/// `key` is NULL or a C string that does not change during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtIpcMemClose(key: *const c_char) -> aclError {
    enter(&functions::aclrtIpcMemClose, |here| {
        // SAFETY: the C contract: the string stays as it is during the call.
        export_key::close(here, &unsafe { key_text("key", key)? })
    })
}

/// Lets other processes import physical memory.
///
/// # Safety
/// `shareableHandle` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtMemExportToShareableHandle(
    handle: aclrtDrvMemHandle,
    handleType: i32,
    flags: u64,
    shareableHandle: *mut u64,
) -> aclError {
    enter(&functions::aclrtMemExportToShareableHandle, |here| {
        not_null("handle", handle as usize)?;
        let out = Out::new("shareableHandle", shareableHandle)?;
        out.set(shareable::export(here, handle as usize, handleType, flags)?);
        Ok(())
    })
}

/// Adds processes to those that may import a shareable handle.
///
/// # Safety
/// `pid` is NULL or valid for `pidNum` elements that do not change during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtMemSetPidToShareableHandle(
    shareableHandle: u64,
    pid: *mut i32,
    pidNum: usize,
) -> aclError {
    enter(&functions::aclrtMemSetPidToShareableHandle, |_| {
        // SAFETY: the C contract: the array stays as it is during the call.
        let pids = unsafe { array("pid", pid.cast_const(), pidNum)? };
        shareable::set_pids(shareableHandle, &pids)
    })
}

/// Makes a handle for physical memory that another process exported.
///
/// # Safety
/// `handle` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtMemImportFromShareableHandle(
    shareableHandle: u64,
    deviceId: i32,
    handle: *mut aclrtDrvMemHandle,
) -> aclError {
    enter(&functions::aclrtMemImportFromShareableHandle, |here| {
        let out = Out::new("handle", handle)?;
        out.set(shareable::import(here, shareableHandle, deviceId)? as aclrtDrvMemHandle);
        Ok(())
    })
}

/// As aclrtMemExportToShareableHandle, with a choice of how far it is shared.
///
/// # Safety
/// `shareableHandle` is NULL or valid for what `shareType` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtMemExportToShareableHandleV2(
    handle: aclrtDrvMemHandle,
    flags: u64,
    shareType: i32,
    shareableHandle: *mut c_void,
) -> aclError {
    enter(&functions::aclrtMemExportToShareableHandleV2, |here| {
        not_null("handle", handle as usize)?;
        let out = Out::new("shareableHandle", shareableHandle.cast::<u64>())?;
        out.set(shareable::export_v2(here, handle as usize, flags, shareType)?);
        Ok(())
    })
}

/// As aclrtMemSetPidToShareableHandle, for handles of the V2 form.
///
/// # Safety
/// `shareableHandle` is NULL or valid for what `shareType` says, `pid` is NULL or valid for `pidNum`
/// elements; neither changes during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtMemSetPidToShareableHandleV2(
    shareableHandle: *mut c_void,
    shareType: i32,
    pid: *mut i32,
    pidNum: usize,
) -> aclError {
    enter(&functions::aclrtMemSetPidToShareableHandleV2, |_| {
        // SAFETY: the C contract: both stay as they are during the call.
        let (shareable, pids) =
            unsafe { (shareable_at(shareableHandle)?, array("pid", pid.cast_const(), pidNum)?) };
        shareable::set_pids_v2(shareable, shareType, &pids)
    })
}

/// As aclrtMemImportFromShareableHandle, for handles of the V2 form.
///
/// # Safety
/// `shareableHandle` is NULL or valid for what `shareType` says and does not change during the call; `handle`
/// is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtMemImportFromShareableHandleV2(
    shareableHandle: *mut c_void,
    shareType: i32,
    flags: u64,
    handle: *mut aclrtDrvMemHandle,
) -> aclError {
    enter(&functions::aclrtMemImportFromShareableHandleV2, |here| {
        // SAFETY: the C contract: the handle stays as it is during the call.
        let shareable = unsafe { shareable_at(shareableHandle)? };
        let out = Out::new("handle", handle)?;
        out.set(shareable::import_v2(here, shareable, shareType, flags)? as aclrtDrvMemHandle);
        Ok(())
    })
}

/// # Safety
/// `key` is NULL or a C string that does not change during the call.
pub(crate) unsafe fn key_text(name: &'static str, key: *const c_char) -> Result<String> {
    not_null(name, key as usize)?;
    // SAFETY: the caller's promise.
    Ok(unsafe { text(name, key)? }.unwrap_or_default())
}

/// # Safety
/// `shareable` is NULL or points to a shareable handle that does not change during the call.
unsafe fn shareable_at(shareable: *mut c_void) -> Result<u64> {
    // SAFETY: the caller's promise.
    Ok(unsafe { array("shareableHandle", shareable.cast::<u64>().cast_const(), 1)? }[0])
}
