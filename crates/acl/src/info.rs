//! What programs ask about a device before they use it. Nothing is computed here, so cores and caches are the nominal numbers
//! of the product (`ferry::products`); memory is what the device really has.

use crate::{
    Result,
    call::refuse,
    constants::*,
    error::fail,
    state::{DeviceState, Engine, bad_device, current_device, engine},
};
use ferry::products::{Cores, Threads};
use std::{slice, sync::atomic::Ordering};

/// aclGetDeviceCapability.
pub fn capability(device: u32, what: i32) -> Result<i64> {
    let engine = engine()?;
    engine.device(device)?;
    let cores = &engine.settings.options.product.cores;
    match what {
        ACL_DEVICE_INFO_AI_CORE_NUM => Ok(cores.ai),
        ACL_DEVICE_INFO_VECTOR_CORE_NUM => Ok(cores.vector),
        ACL_DEVICE_INFO_L2_SIZE => Ok(cores.l2),
        _ => Err(refuse(format!(
            "deviceInfo is {what}: valid are ACL_DEVICE_INFO_AI_CORE_NUM (0), _VECTOR_CORE_NUM (1) and _L2_SIZE (2)"
        ))),
    }
}

/// aclrtGetDeviceInfo.
pub fn attribute(device: u32, attr: i32) -> Result<i64> {
    let engine = engine()?;
    engine.device(device)?;
    let cores = &engine.settings.options.product.cores;
    match attr {
        ACL_DEV_ATTR_AICPU_CORE_NUM => Ok(cores.ai_cpu),
        ACL_DEV_ATTR_AICORE_CORE_NUM => Ok(cores.ai),
        ACL_DEV_ATTR_CUBE_CORE_NUM => Ok(cores.cube),
        ACL_DEV_ATTR_VECTOR_CORE_NUM => Ok(cores.vector),
        ACL_DEV_ATTR_WARP_SIZE..=ACL_DEV_ATTR_MAX_BLOCK_DIM_Z => of_threads(engine, cores, attr),
        ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE => Ok(engine.runtime.memory_info(device)?.1 as i64),
        ACL_DEV_ATTR_L2_CACHE_SIZE => Ok(cores.l2),
        ACL_DEV_ATTR_PHY_CHIP_ID | ACL_DEV_ATTR_SUPER_POD_DEVICE_ID => {
            Ok(engine.physical[device as usize].into())
        }
        // One system, one pod, one server, one board; custom operators have no special rights; no slice of a device.
        ACL_DEV_ATTR_SMP_ID | ACL_DEV_ATTR_SUPER_POD_SERVER_ID..=ACL_DEV_ATTR_DEVICE_FORM_FACTOR => Ok(0),
        ACL_DEV_ATTR_IS_VIRTUAL => Ok(0),
        ACL_DEV_ATTR_NPU_ARCH => Ok(cores.arch),
        _ => Err(refuse(format!("attr is {attr}: not a member of aclrtDevAttr"))),
    }
}

/// Documented: without programs in threads the sizes of grids and blocks are 0, and the rest is not supported.
fn of_threads(engine: &Engine, cores: &Cores, attr: i32) -> Result<i64> {
    match (&cores.threads, attr) {
        (None, ACL_DEV_ATTR_WARP_SIZE..=ACL_DEV_ATTR_UBUF_PER_VECTOR_CORE) => {
            let soc = &engine.settings.options.soc;
            let note = format!("attr is {attr}: {soc} runs no programs in threads, Ascend950 products do");
            Err(fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, note))
        }
        (None, _) => Ok(0),
        (Some(threads), _) => Ok(limit(threads, attr)),
    }
}

fn limit(threads: &Threads, attr: i32) -> i64 {
    match attr {
        ACL_DEV_ATTR_WARP_SIZE => threads.warp,
        ACL_DEV_ATTR_MAX_THREAD_PER_VECTOR_CORE => threads.per_core,
        ACL_DEV_ATTR_UBUF_PER_VECTOR_CORE => threads.local,
        ACL_DEV_ATTR_MAX_THREADS_PER_BLOCK..=ACL_DEV_ATTR_MAX_BLOCK_DIM_Z => threads.per_block,
        _ => threads.grid,
    }
}

/// How busy a device is, in per cent; -1 where it cannot tell.
pub struct Utilization {
    /// Cube cores.
    pub cube: i32,
    /// Vector cores.
    pub vector: i32,
    /// AI CPUs.
    pub ai_cpu: i32,
    /// Memory.
    pub memory: i32,
}

/// aclrtGetDeviceUtilizationRate. Cores have nothing to do here. Documented: memory is always -1, and what is absent too.
pub fn utilization(device: i32) -> Result<Utilization> {
    let engine = engine()?;
    let id = u32::try_from(device).map_err(|_| bad_device(device.into(), engine.devices.len()))?;
    engine.device(id)?;
    let vector = if engine.settings.options.product.cores.vector > 0 { 0 } else { -1 };
    Ok(Utilization { cube: 0, vector, ai_cpu: 0, memory: -1 })
}

/// aclrtDeviceGetBareTgid: the process id that goes on the white lists of shared memory. A container makes no difference: this
/// process and its peers are looked at from one place.
pub fn bare_tgid() -> i32 {
    std::process::id() as i32
}

/// aclrtSetDeviceSatMode: kept, and told when asked. Reductions, which are all that is computed here, do not look at it.
pub fn set_sat_mode(mode: i32) -> Result<()> {
    let devices = meant(engine()?)?;
    if !matches!(mode, ACL_RT_OVERFLOW_MODE_SATURATION | ACL_RT_OVERFLOW_MODE_INFNAN) {
        let valid = "ACL_RT_OVERFLOW_MODE_SATURATION (0) and ACL_RT_OVERFLOW_MODE_INFNAN (1)";
        return Err(refuse(format!("mode is {mode}: valid are {valid}")));
    }
    devices.iter().for_each(|device| device.sat_mode.store(mode, Ordering::Relaxed));
    Ok(())
}

/// aclrtGetDeviceSatMode.
pub fn sat_mode() -> Result<i32> {
    let device = meant(engine()?)?.first().ok_or_else(|| bad_device(0, 0))?;
    Ok(device.sat_mode.load(Ordering::Relaxed))
}

/// The current device; every device, as long as the thread has set none.
fn meant(engine: &Engine) -> Result<&[DeviceState]> {
    match current_device() {
        Ok(device) => engine.device(device).map(slice::from_ref),
        Err(no_device) if engine.settings.strict => Err(no_device),
        Err(_) => Ok(&engine.devices),
    }
}

/// aclDataTypeSize: bytes of an element. One of less than a byte takes a byte; text and what is no type have no size.
pub fn data_type_size(data_type: i32) -> usize {
    match data_type {
        ACL_COMPLEX128 => 16,
        ACL_INT64 | ACL_UINT64 | ACL_DOUBLE | ACL_COMPLEX64 => 8,
        ACL_FLOAT | ACL_INT32 | ACL_UINT32 | ACL_COMPLEX32 => 4,
        ACL_FLOAT16 | ACL_INT16 | ACL_UINT16 | ACL_BF16 => 2,
        ACL_INT8 | ACL_UINT8 | ACL_BOOL | ACL_INT4 | ACL_UINT1 => 1,
        ACL_HIFLOAT8..=ACL_FLOAT4_E1M2 => 1,
        _ => 0,
    }
}
