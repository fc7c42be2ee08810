//! Functions below AscendCL that transfer engines look up by name: each is one of AscendCL's with other
//! arguments. No document has them; what they mean is taken from programs that call them.

use super::export_key;
use crate::{
    Result,
    arguments::refuse,
    constants::ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
    error::fail,
    state::{Here, engine},
};
use ferry_core::sync::lock;

/// Callers keep marks of their own in the bits above.
const ADDRESS: usize = (1 << 48) - 1;

const CHIP: i32 = 18;
const DIE: i32 = 19;
const NUMBER_IN_POD: i32 = 26;
const SERVER: i32 = 27;
const KIND_OF_POD: i32 = 28;
const POD: i32 = 29;
const ADDRESS_MODE: i32 = 30;
const NO_SERVER: i64 = 0x3ff;
const NO_POD: i64 = 0xffff_ffff;

/// rtGetDeviceInfo. Callers take these numbers for "no super pod, no server" and use the host's own.
pub fn device_info(device: u32, module: i32, what: i32) -> Result<i64> {
    let engine = engine()?;
    let device = engine.known_device(device as i32)?;
    if module != 0 {
        return Err(refuse(format!("moduleType is {module}: it must be 0")));
    }
    match what {
        CHIP | NUMBER_IN_POD => Ok(engine.physical[device as usize].into()),
        DIE | KIND_OF_POD | ADDRESS_MODE => Ok(0),
        SERVER => Ok(NO_SERVER),
        POD => Ok(NO_POD),
        _ => {
            let note = format!("infoType is {what}: known are 18, 19 and 26 to 30 (include/acl/ferry_rt.h)");
            Err(fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, note))
        }
    }
}

/// rtIpcCloseMemory: ends one import of the memory at this address.
pub fn close(here: &Here, ptr: usize) -> Result<()> {
    export_key::close_at(here, ptr & ADDRESS)
}

/// rtEnableP2P and rtDisableP2P, both ways: which of the two devices begins a copy is not said.
pub fn set_peers(device: u32, physical: u32, flag: u32, enable: bool) -> Result<()> {
    let engine = engine()?;
    if flag != 0 {
        return Err(refuse(format!("flag is {flag}: it must be 0")));
    }
    let (one, other) = (engine.known_device(device as i32)?, engine.user_device(physical as i32)?);
    let mut peers = lock(&engine.peers);
    for pair in [(one, other), (other, one)] {
        match enable && one != other {
            true => peers.insert(pair),
            false => peers.remove(&pair),
        };
    }
    Ok(())
}
