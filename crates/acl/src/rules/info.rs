//! What programs ask about a device before they use it. Nothing is computed here, so cores and caches are the
//! nominal numbers of the product (`ferry::products`); memory is what the device really has.

use crate::{
    Result,
    arguments::refuse,
    constants::*,
    error::fail,
    settings::settings,
    state::{DeviceState, Here, LEAST_PRIORITY, OpenedEngine, bad_device, engine},
    version::Version,
};
use ferry::{
    engine::files,
    products::{Cores, Threads},
};
use ferry_core::sync::lock;
use std::{slice, sync::atomic::Ordering};

/// The packages, in the order of aclCANNPackageName, and those that only have a name.
const PACKAGES: [&str; 9] =
    ["cann", "runtime", "compiler", "hccl", "toolkit", "opp", "opp_kernel", "driver", "firmware"];
/// How many of them aclCANNPackageName numbers.
const NUMBERED: usize = 8;

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
            "deviceInfo is {what}: valid are ACL_DEVICE_INFO_AI_CORE_NUM (0), _VECTOR_CORE_NUM (1) and \
             _L2_SIZE (2)"
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
        // One system, one pod, one server, one board; custom operators have no special rights; no slice of a
        // device.
        ACL_DEV_ATTR_SMP_ID | ACL_DEV_ATTR_SUPER_POD_SERVER_ID..=ACL_DEV_ATTR_DEVICE_FORM_FACTOR => Ok(0),
        ACL_DEV_ATTR_IS_VIRTUAL => Ok(0),
        ACL_DEV_ATTR_NPU_ARCH => Ok(cores.arch),
        _ => Err(refuse(format!("attr is {attr}: not a member of aclrtDevAttr"))),
    }
}

/// Documented: without programs in threads the sizes of grids and blocks are 0, and the rest is not
/// supported.
fn of_threads(engine: &OpenedEngine, cores: &Cores, attr: i32) -> Result<i64> {
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

/// aclrtGetDeviceUtilizationRate. Cores have nothing to do here. Documented: memory is always -1, and what is
/// absent too.
pub fn utilization(device: i32) -> Result<Utilization> {
    let engine = engine()?;
    engine.known_device(device)?;
    let vector = if engine.settings.options.product.cores.vector > 0 { 0 } else { -1 };
    Ok(Utilization { cube: 0, vector, ai_cpu: 0, memory: -1 })
}

/// aclrtDeviceGetBareTgid: the process id that goes on the white lists of shared memory. A container makes no
/// difference: this process and its peers are looked at from one place.
pub fn bare_tgid() -> i32 {
    std::process::id() as i32
}

/// aclrtSetDeviceSatMode: stored, and returned when asked. Reductions, the only computation here, do not use
/// it.
pub fn set_sat_mode(here: &Here, mode: i32) -> Result<()> {
    let devices = meant(here, engine()?)?;
    if !matches!(mode, ACL_RT_OVERFLOW_MODE_SATURATION | ACL_RT_OVERFLOW_MODE_INFNAN) {
        let valid = "ACL_RT_OVERFLOW_MODE_SATURATION (0) and ACL_RT_OVERFLOW_MODE_INFNAN (1)";
        return Err(refuse(format!("mode is {mode}: valid are {valid}")));
    }
    devices.iter().for_each(|device| device.sat_mode.store(mode, Ordering::Relaxed));
    Ok(())
}

/// aclrtGetDeviceSatMode.
pub fn sat_mode(here: &Here) -> Result<i32> {
    let device = meant(here, engine()?)?.first().ok_or_else(|| bad_device(0, 0))?;
    Ok(device.sat_mode.load(Ordering::Relaxed))
}

/// The current device; every device, as long as the thread has set none.
fn meant<'a>(here: &Here, engine: &'a OpenedEngine) -> Result<&'a [DeviceState]> {
    match here.device() {
        Ok(device) => engine.device(device).map(slice::from_ref),
        Err(no_device) if engine.settings.strict => Err(no_device),
        Err(_) => Ok(&engine.devices),
    }
}

/// aclDataTypeSize: bytes of an element. One of less than a byte takes a byte; text and what is no type have
/// no size.
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

/// aclrtDeviceGetUuid: 16 bytes that stay the same on this machine, for every process that sees the device.
pub fn uuid(device: i32) -> Result<[u8; 16]> {
    let engine = engine()?;
    let device = engine.known_device(device)?;
    let machine = files::read_to_string("/etc/machine-id").unwrap_or_default();
    let backend = engine.runtime.backend().name();
    let name = format!("{}/{backend}/{}", machine.trim(), engine.physical[device as usize]);
    let halves = [fnv(0xcbf2_9ce4_8422_2325, &name), fnv(0x6c62_272e_07bb_0142, &name)];
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&halves[0].to_be_bytes());
    bytes[8..].copy_from_slice(&halves[1].to_be_bytes());
    Ok(bytes)
}

/// The hash of Fowler, Noll and Vo (FNV-1a), from a start of ours.
fn fnv(start: u64, text: &str) -> u64 {
    text.bytes().fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// aclrtGetMemUsageInfo: bytes of a device that this process has, now and at most so far. All of it is this
/// library's.
pub fn memory_usage(device: i32, room: usize) -> Result<(usize, usize)> {
    let engine = engine()?;
    let device = engine.known_device(device)?;
    if room == 0 {
        return Err(refuse("inputNum is 0: there is one module to tell of"));
    }
    let memory = engine.runtime.device_memory(device)?;
    Ok((memory.used, memory.peak))
}

/// aclrtDeviceGetStreamPriorityRange: the lowest priority and the highest.
pub fn priorities() -> (i32, i32) {
    (LEAST_PRIORITY as i32, 0)
}

/// aclrtGetPrimaryCtxState: whether aclrtSetDevice was called more often than it was undone.
pub fn primary_is_active(device: i32) -> Result<bool> {
    let engine = engine()?;
    let state = engine.device(engine.known_device(device)?)?;
    Ok(lock(&state.primary).count > 0)
}

/// aclsysGetVersionStr and aclsysGetVersionNum: the version of the package of this name, in whatever case it
/// is written.
pub fn of_package(name: &str) -> Result<&'static Version> {
    let settings = settings()?;
    let is_name = |package: &str| match settings.strict {
        true => package == name,
        false => package.eq_ignore_ascii_case(name),
    };
    if PACKAGES.into_iter().any(is_name) {
        return Ok(&settings.cann_version);
    }
    Err(refuse(format!(
        "pkgName is '{name}': no such package is installed; there are: {}",
        PACKAGES.join(", ")
    )))
}

/// aclsysGetCANNVersion: the version of the package of this number.
pub fn of_package_number(number: i32) -> Result<&'static Version> {
    if usize::try_from(number).is_ok_and(|number| number < NUMBERED) {
        return Ok(&settings()?.cann_version);
    }
    Err(refuse(format!("name is {number}: not a member of aclCANNPackageName (0 to {})", NUMBERED - 1)))
}

/// aclFloat16ToFloat: every 16-bit float is a 32-bit one.
pub fn float_of(half: u16) -> f32 {
    let (sign, exponent, mantissa) =
        (u32::from(half >> 15) << 31, u32::from(half >> 10) & 31, u32::from(half) & 0x3ff);
    let magnitude = match exponent {
        // Subnormal numbers are multiples of 2^-24.
        0 => (mantissa as f32 * f32::from_bits(0x3380_0000)).to_bits(),
        31 => 0x7f80_0000 | mantissa << 13,
        _ => (exponent + 112) << 23 | mantissa << 13,
    };
    f32::from_bits(sign | magnitude)
}

/// aclFloatToFloat16: the nearest 16-bit float, the even one of two; infinity for what is too large.
pub fn half_of(value: f32) -> u16 {
    let bits = value.to_bits();
    let (sign, magnitude) = ((bits >> 16) as u16 & 0x8000, bits & 0x7fff_ffff);
    if magnitude > 0x7f80_0000 {
        return sign | 0x7e00 | (magnitude >> 13) as u16 & 0x1ff; // not a number
    }
    if magnitude >= 0x3880_0000 {
        // Carries of the rounding go into the exponent, up to infinity.
        let rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
        return sign | (rounded.saturating_sub(0x3800_0000) >> 13).min(0x7c00) as u16;
    }
    // Below the smallest normal number: adding 1/2 lets the unit round to a multiple of 2^-24.
    let rounded = f32::from_bits(magnitude) + 0.5;
    sign | (rounded.to_bits() - 0x3f00_0000) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_comes_back() {
        for half in 0..=u16::MAX {
            let float = float_of(half);
            match float.is_nan() {
                true => {
                    assert!(half & 0x7c00 == 0x7c00 && half & 0x3ff != 0 && half_of(float) & 0x7c00 == 0x7c00)
                }
                false => assert_eq!(half_of(float), half, "{float}"),
            }
        }
    }

    #[test]
    fn floats_between_two_halves_go_to_the_nearest_and_then_to_the_even_one() {
        for low in 0..0x7bff_u16 {
            let (a, b) = (float_of(low), float_of(low + 1));
            let middle = (f64::from(a) + f64::from(b)) / 2.0;
            let even = if low % 2 == 0 { low } else { low + 1 };
            assert_eq!(half_of(middle as f32), even, "between {a} and {b}");
            assert_eq!(half_of(f32::from_bits((middle as f32).to_bits() - 1)), low);
            assert_eq!(half_of(f32::from_bits((middle as f32).to_bits() + 1)), low + 1);
            assert_eq!(half_of(-(middle as f32)), even | 0x8000);
        }
        for (value, want) in [
            (65504.0, 0x7bff),
            (65519.996, 0x7bff),
            (65520.0, 0x7c00),
            (1e30, 0x7c00),
            (f32::INFINITY, 0x7c00),
            (-1e30, 0xfc00),
            (1e-30, 0),
        ] {
            assert_eq!(half_of(value), want, "{value}");
        }
    }
}
