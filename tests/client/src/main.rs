//! Moves memory through published bindings (`cann`, `cann-sys`) as a program of theirs would, and says `ok:`
//! if every byte came back. With the feature `headers`, also through what bindgen makes of our headers.

#[cfg(feature = "headers")]
mod headers;

use std::error::Error;
use std::ffi::c_void;

use cann::buffer::{DeviceBuffer, HostBuffer, MemFlags, MemcpyKind, memcpy, memcpy_async};
use cann::event::Event;
use cann::stream::Stream;
use cann::{Context, Version, device};

const BYTES: usize = 1 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let context = Context::new()?;
    let devices = device::device_count()?;
    device::set_device(0)?;
    println!("{devices} devices of {}, version {}", device::soc_name()?, version()?);
    round_trip()?;
    event_between_streams()?;
    refusals()?;
    raw()?;
    #[cfg(feature = "headers")]
    headers::rectangle()?;
    device::reset_device(0)?;
    drop(context);
    let bound = if cfg!(feature = "headers") { ", cann-sys and bindgen" } else { " and cann-sys" };
    println!("ok: {BYTES} bytes there and back through cann{bound}");
    Ok(())
}

/// The version as text, which must be the one that there is as a number.
fn version() -> Result<String, Box<dyn Error>> {
    let (text, number) = (Version::str()?, Version::num()?);
    let parts = text.split('.').map(str::parse).collect::<Result<Vec<i32>, _>>()?;
    let [major, minor, patch] = parts[..] else { return Err(format!("version {text}").into()) };
    let same = number == major * 10_000_000 + minor * 100_000 + patch * 1_000;
    if same { Ok(text) } else { Err(format!("version {text} and {number}").into()) }
}

/// Down and back, each call waiting for its copy.
fn round_trip() -> Result<(), Box<dyn Error>> {
    let (from, to) = (filled(3)?, filled(0)?);
    let device = DeviceBuffer::alloc(BYTES, MemFlags::HugeFirst)?;
    // SAFETY: all three buffers have BYTES bytes and outlive the calls, which wait.
    unsafe {
        memcpy(MemcpyKind::HostToDevice, address(&device), from.as_ptr().cast(), BYTES)?;
        memcpy(MemcpyKind::DeviceToHost, to.as_mut_ptr().cast(), address(&device), BYTES)?;
    }
    same(&from, &to)
}

/// Down and across the device in one stream, back in another that waits for an event of the first.
fn event_between_streams() -> Result<(), Box<dyn Error>> {
    let (from, to) = (filled(7)?, filled(0)?);
    let (first, second) =
        (DeviceBuffer::alloc(BYTES, MemFlags::HugeFirst)?, DeviceBuffer::alloc(BYTES, MemFlags::NormalOnly)?);
    let (down, up, arrived) = (Stream::new()?, Stream::new()?, Event::new()?);
    // SAFETY: all buffers have BYTES bytes and outlive the streams' work, which is waited for below.
    unsafe {
        memcpy_async(MemcpyKind::HostToDevice, address(&first), from.as_ptr().cast(), BYTES, &down)?;
        memcpy_async(MemcpyKind::DeviceToDevice, address(&second), address(&first), BYTES, &down)?;
        arrived.record(Some(&down))?;
        arrived.stream_wait(&up)?;
        memcpy_async(MemcpyKind::DeviceToHost, to.as_mut_ptr().cast(), address(&second), BYTES, &up)?;
    }
    up.synchronize()?;
    arrived.synchronize()?;
    same(&from, &to)
}

/// Codes arrive as the bindings know them.
fn refusals() -> Result<(), Box<dyn Error>> {
    let bad_device = device::set_device(1_000).err().map(|error| error.code);
    if bad_device != Some(cann_sys::ACL_ERROR_RT_INVALID_DEVICEID) {
        return Err(format!("device 1000: {bad_device:?}").into());
    }
    let too_much = DeviceBuffer::alloc(1 << 60, MemFlags::HugeFirst).err();
    if !too_much.as_ref().is_some_and(cann::Error::is_oom) {
        return Err(format!("2^60 bytes: {too_much:?}").into());
    }
    Ok(())
}

/// Ordinary memory, through the bare functions.
fn raw() -> Result<(), Box<dyn Error>> {
    use cann_sys::acl_memory::{ACL_MEMCPY_DEVICE_TO_HOST, ACL_MEMCPY_HOST_TO_DEVICE, aclrtMemcpy};
    let (from, mut to) = (vec![0x5A_u8; BYTES], vec![0_u8; BYTES]);
    let device = DeviceBuffer::alloc(BYTES, MemFlags::HugeFirst)?;
    // SAFETY: all three buffers have BYTES bytes; both copies wait.
    let codes = unsafe {
        let (source, target) = (from.as_ptr().cast(), to.as_mut_ptr().cast());
        [
            aclrtMemcpy(address(&device), BYTES, source, BYTES, ACL_MEMCPY_HOST_TO_DEVICE),
            aclrtMemcpy(target, BYTES, address(&device), BYTES, ACL_MEMCPY_DEVICE_TO_HOST),
        ]
    };
    if codes == [0, 0] && to == from { Ok(()) } else { Err(format!("ordinary memory: {codes:?}").into()) }
}

fn address(buffer: &DeviceBuffer) -> *mut c_void {
    buffer.as_ptr().cast_mut().cast()
}

/// Page-locked memory with a pattern that differs by `seed` and place; all 0 for seed 0.
fn filled(seed: usize) -> Result<HostBuffer, cann::Error> {
    let buffer = HostBuffer::alloc(BYTES)?;
    for at in 0..BYTES {
        // SAFETY: `at` is inside the buffer, which nobody else has.
        unsafe { buffer.as_mut_ptr().add(at).write((seed * (at / 255 + at)) as u8) };
    }
    Ok(buffer)
}

fn bytes(buffer: &HostBuffer) -> &[u8] {
    // SAFETY: the buffer has that many bytes, `filled` wrote them all, and no copy to it is under way.
    unsafe { std::slice::from_raw_parts(buffer.as_ptr(), buffer.len()) }
}

fn same(from: &HostBuffer, to: &HostBuffer) -> Result<(), Box<dyn Error>> {
    match bytes(from).iter().zip(bytes(to)).position(|(from, to)| from != to) {
        None => Ok(()),
        Some(at) => Err(format!("byte {at} is {}, not {}", bytes(to)[at], bytes(from)[at]).into()),
    }
}
