//! Limits of cores that operators may use. There are no operators here, so limits are stored and returned:
//! those of a stream that the thread uses, else those of the process and device, else what the product has.

use crate::{
    Result,
    arguments::refuse,
    constants::*,
    state::{CoreLimits, Here, OpenedEngine, engine},
};
use std::sync::atomic::Ordering::Relaxed;

/// What the product has of a resource.
fn hardware(engine: &OpenedEngine, kind: i32) -> Result<u32> {
    let cores = &engine.settings.options.product.cores;
    let most = match kind {
        ACL_RT_DEV_RES_CUBE_CORE => cores.cube,
        ACL_RT_DEV_RES_VECTOR_CORE => cores.vector,
        _ => {
            let valid = "ACL_RT_DEV_RES_CUBE_CORE (0) and ACL_RT_DEV_RES_VECTOR_CORE (1)";
            return Err(refuse(format!("type is {kind}: valid are {valid}")));
        }
    };
    Ok(most as u32)
}

fn set_in(engine: &OpenedEngine, limits: &CoreLimits, kind: i32, value: u32) -> Result<()> {
    let most = hardware(engine, kind)?;
    if !(1..=most).contains(&value) {
        let soc = &engine.settings.options.soc;
        return Err(refuse(format!(
            "value is {value}: {soc} has {most} of these cores, and a limit is from 1 to that"
        )));
    }
    limits[kind as usize].store(value, Relaxed);
    Ok(())
}

fn reset_all(limits: &CoreLimits) {
    limits.iter().for_each(|limit| limit.store(0, Relaxed));
}

/// The first limit that was set.
fn first_of(limits: &[&CoreLimits], kind: i32, hardware: u32) -> u32 {
    let set = |limits: &&CoreLimits| Some(limits[kind as usize].load(Relaxed)).filter(|limit| *limit > 0);
    limits.iter().find_map(set).unwrap_or(hardware)
}

/// aclrtSetDeviceResLimit.
pub fn set_of_device(id: i32, kind: i32, value: u32) -> Result<()> {
    let engine = engine()?;
    let device = engine.known_device(id)?;
    set_in(engine, &engine.device(device)?.limits, kind, value)
}

/// aclrtGetDeviceResLimit.
pub fn of_device(id: i32, kind: i32) -> Result<u32> {
    let engine = engine()?;
    let device = engine.device(engine.known_device(id)?)?;
    Ok(first_of(&[&device.limits], kind, hardware(engine, kind)?))
}

/// aclrtResetDeviceResLimit.
pub fn reset_of_device(id: i32) -> Result<()> {
    let engine = engine()?;
    reset_all(&engine.device(engine.known_device(id)?)?.limits);
    Ok(())
}

/// aclrtSetStreamResLimit.
pub fn set_of_stream(here: &Here, stream: usize, kind: i32, value: u32) -> Result<()> {
    let engine = engine()?;
    let entry = here.stream(stream)?;
    set_in(engine, &entry.settings.limits, kind, value)
}

/// aclrtGetStreamResLimit.
pub fn of_stream(here: &Here, stream: usize, kind: i32) -> Result<u32> {
    let engine = engine()?;
    let entry = here.stream(stream)?;
    let device = engine.device(entry.device)?;
    Ok(first_of(&[&entry.settings.limits, &device.limits], kind, hardware(engine, kind)?))
}

/// aclrtResetStreamResLimit.
pub fn reset_of_stream(here: &Here, stream: usize) -> Result<()> {
    reset_all(&here.stream(stream)?.settings.limits);
    Ok(())
}

/// aclrtUseStreamResInCurrentThread: the last one counts.
pub fn use_in_thread(here: &Here, stream: usize) -> Result<()> {
    here.limits_of.set(here.stream(stream)?.handle);
    Ok(())
}

/// aclrtUnuseStreamResInCurrentThread.
pub fn unuse_in_thread(here: &Here, stream: usize) -> Result<()> {
    let handle = here.stream(stream)?.handle;
    if here.limits_of.get() != handle {
        return Err(refuse(format!("stream {stream:#x} is not the one whose limits this thread uses")));
    }
    here.limits_of.set(0);
    Ok(())
}

/// aclrtGetResInCurrentThread. A stream that was destroyed has no limits any more.
pub fn of_thread(here: &Here, kind: i32) -> Result<u32> {
    let engine = engine()?;
    let device = engine.device(here.device()?)?;
    let used = here.limits_of.get();
    let most = hardware(engine, kind)?;
    Ok(match engine.streams.get(used) {
        Some(entry) => first_of(&[&entry.settings.limits, &device.limits], kind, most),
        None => first_of(&[&device.limits], kind, most),
    })
}
