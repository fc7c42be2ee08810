//! Notifies.

use crate::{
    enter::{Out, array, enter},
    ipc::key_text,
    types::{aclError, aclrtNotify, aclrtStream},
};
use ferry_acl::{
    arguments::{not_null, refuse},
    functions,
    rules::{export_key::KEY_LEN, notify},
};
use std::ffi::c_char;

/// Makes a notify of the current device.
///
/// # Safety
/// `notify` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtCreateNotify(notify: *mut aclrtNotify, flag: u64) -> aclError {
    enter(&functions::aclrtCreateNotify, |here| {
        let out = Out::new("notify", notify)?;
        out.set(notify::create(here, flag)? as aclrtNotify);
        Ok(())
    })
}

/// Destroys a notify; never blocks.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtDestroyNotify(notify: aclrtNotify) -> aclError {
    enter(&functions::aclrtDestroyNotify, |_| {
        not_null("notify", notify as usize)?;
        notify::destroy(notify as usize)
    })
}

/// Releases one wait for the notify when the stream gets here.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtRecordNotify(notify: aclrtNotify, stream: aclrtStream) -> aclError {
    enter(&functions::aclrtRecordNotify, |here| {
        not_null("notify", notify as usize)?;
        notify::record(here, notify as usize, stream as usize)
    })
}

/// Later work of the stream waits for one record of the notify.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtWaitAndResetNotify(
    notify: aclrtNotify,
    stream: aclrtStream,
    timeout: u32,
) -> aclError {
    enter(&functions::aclrtWaitAndResetNotify, |here| {
        not_null("notify", notify as usize)?;
        notify::wait(here, notify as usize, stream as usize, timeout)
    })
}

/// A number of the notify.
///
/// # Safety
/// `notifyId` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtGetNotifyId(notify: aclrtNotify, notifyId: *mut u32) -> aclError {
    enter(&functions::aclrtGetNotifyId, |_| {
        not_null("notify", notify as usize)?;
        let out = Out::new("notifyId", notifyId)?;
        out.set(notify::id(notify as usize)?);
        Ok(())
    })
}

/// Clears notifies at once.
///
/// # Safety
/// `notifies` is NULL or valid for `num` elements that do not change during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtNotifyBatchReset(notifies: *mut aclrtNotify, num: usize) -> aclError {
    enter(&functions::aclrtNotifyBatchReset, |_| {
        if notifies.is_null() {
            return Err(refuse("notifies is NULL: give an array of notifies"));
        }
        // SAFETY: the C contract: the array stays as it is during the call.
        notify::reset(&unsafe { array("notifies", notifies.cast::<usize>().cast_const(), num)? })
    })
}

/// Lets other processes record a notify, and says under which key.
///
/// # Safety
/// `key` is NULL or valid for `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtNotifyGetExportKey(
    notify: aclrtNotify,
    key: *mut c_char,
    len: usize,
    flags: u64,
) -> aclError {
    enter(&functions::aclrtNotifyGetExportKey, |here| {
        not_null("notify", notify as usize)?;
        not_null("key", key as usize)?;
        let bytes = notify::export_key(here, notify as usize, len, flags)?;
        Out::new("key", key.cast::<[u8; KEY_LEN]>())?.set(bytes);
        Ok(())
    })
}

/// Adds processes to those that may import a notify.
///
/// # Safety
/// `pid` is NULL or valid for `num` elements that do not change during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtNotifySetImportPid(notify: aclrtNotify, pid: *mut i32, num: usize) -> aclError {
    enter(&functions::aclrtNotifySetImportPid, |_| {
        not_null("notify", notify as usize)?;
        // SAFETY: the C contract: the array stays as it is during the call.
        notify::set_import_pids(notify as usize, &unsafe { array("pid", pid.cast_const(), num)? })
    })
}

/// Makes a notify of another process known here.
///
/// # Safety
/// `notify` is NULL or valid; `key` is NULL or a C string that does not change during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtNotifyImportByKey(
    notify: *mut aclrtNotify,
    key: *const c_char,
    flags: u64,
) -> aclError {
    enter(&functions::aclrtNotifyImportByKey, |here| {
        let out = Out::new("notify", notify)?;
        // SAFETY: the C contract: the string stays as it is during the call.
        let key = unsafe { key_text("key", key)? };
        out.set(notify::import_by_key(here, &key, flags)? as aclrtNotify);
        Ok(())
    })
}
