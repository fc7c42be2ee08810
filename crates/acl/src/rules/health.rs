//! Faults of devices and what follows them: status, memory errors, repair, dropping all work of a device.
//! Devices of this library have no faults that a program could repair, but a GPU may be lost.

use crate::{Result, arguments::refuse, constants::*, state::engine};
use ferry_core::Kind;

/// Documented: the most ranges with memory errors that are reported.
const MAX_RANGES: usize = 128;
/// Documented: 36 minutes, in milliseconds.
const LONGEST_ABORT: u32 = 36 * 60 * 1000;

/// aclrtQueryDeviceStatus, of any device, set or not.
pub fn status(id: i32) -> Result<i32> {
    let engine = engine()?;
    let device = engine.known_device(id)?;
    Ok(match engine.runtime.memory_info(device) {
        Err(error) if matches!(error.kind, Kind::Lost | Kind::Fault | Kind::BadMemory) => {
            ACL_RT_DEVICE_STATUS_ABNORMAL
        }
        _ => ACL_RT_DEVICE_STATUS_NORMAL,
    })
}

/// aclrtDeviceTaskAbort: drops all work of a device, of every context. Returns when no byte of it moves any
/// more, which takes no time that a limit could cut.
pub fn abort(id: i32, timeout: u32) -> Result<()> {
    let engine = engine()?;
    let device = engine.known_device(id)?;
    if timeout > LONGEST_ABORT {
        let note = format!(
            "timeout is {timeout}: it is in milliseconds, at most {LONGEST_ABORT} (36 minutes), or 0 for no \
             limit"
        );
        return Err(refuse(note));
    }
    let streams = engine.streams.all();
    streams.iter().filter(|entry| entry.device == device).for_each(|entry| entry.stream.abort());
    Ok(())
}

/// aclrtGetMemUceInfo: how many ranges have memory errors. None has.
pub fn memory_errors(id: i32, room: usize) -> Result<usize> {
    let engine = engine()?;
    engine.known_device(id)?;
    not_too_many(room)?;
    Ok(0)
}

/// aclrtMemUceRepair: there is nothing to repair.
pub fn repair_memory(id: i32, count: usize) -> Result<()> {
    let engine = engine()?;
    engine.known_device(id)?;
    not_too_many(count)?;
    match count {
        0 => Ok(()),
        _ => Err(refuse(format!(
            "memUceInfoArray has {count} ranges: aclrtGetMemUceInfo told of none on device {id}"
        ))),
    }
}

fn not_too_many(count: usize) -> Result<()> {
    if count <= MAX_RANGES {
        return Ok(());
    }
    Err(refuse(format!("arraySize is {count}: at most {MAX_RANGES}")))
}

/// aclrtGetErrorVerbose: the kind of a device's fault, which is none.
pub fn error_kind(id: i32) -> Result<i32> {
    engine()?.known_device(id)?;
    Ok(ACL_RT_NO_ERROR)
}

/// aclrtRepairError.
pub fn repair(id: i32, kind: i32) -> Result<()> {
    engine()?.known_device(id)?;
    match kind {
        ACL_RT_NO_ERROR..=ACL_RT_ERROR_L3_PORT | ACL_RT_ERROR_OTHERS => Ok(()),
        other => Err(refuse(format!("errorInfo->errorType is {other}: not a member of aclrtErrorType"))),
    }
}
