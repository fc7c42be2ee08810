//! Host memory that the program has registered: page-locked (pinned), or mapped for devices.

use std::ffi::c_void;

use ferry_abi::error::{ensure, refused};
use ferry_abi::memory::{self, Block, BlockPart, Home};
use ferry_abi::stream::Stream;
use ferry_abi::{Library, Location, PointerAttributes, Result, call, kind};

use crate::ctx::Ctx;
use crate::mirror::pattern;
use crate::part::{TourPart, part};
use crate::proof::Proof;
use crate::waits::must_wait;

pub const PARTS: &[TourPart] = &[
    part("pinned: both ways return, stream held", "X3 asynchronous", pinned),
    part("half pinned, unregistered: pageable again", "calls wait", pageable_again),
    part("mapped: copies refuse its device address", "X5", device_address),
    part("refused: off a page, twice, device memory", "nothing changed", mistakes),
];

const PAGE: usize = 4096;
const MAPPED: u32 = 0x2;
const PINNED: u32 = 0x1000_0000;

/// Memory registered by aclrtHostRegisterV2, unregistered on drop.
struct Registered {
    library: &'static Library,
    at: *mut c_void,
}

impl Registered {
    fn new(library: &'static Library, span: BlockPart, flags: u32) -> Result<Registered> {
        let at = span.at();
        // SAFETY: the library checks the memory before it registers it, and it stays until it is
        // unregistered.
        unsafe { call!(library, aclrtHostRegisterV2(at, span.len() as u64, flags)) }?;
        Ok(Registered { library, at })
    }

    /// Unregisters it now.
    fn end(self) -> Result<()> {
        let outcome = unregister(self.library, self.at);
        std::mem::forget(self);
        outcome
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // A part that fails drops it on the way out; its own error is the one to show.
        let _ = unregister(self.library, self.at);
    }
}

fn unregister(library: &Library, at: *mut c_void) -> Result<()> {
    // SAFETY: takes an address, which the library looks up.
    unsafe { call!(library, aclrtHostUnregister(at)) }
}

/// aclrtHostGetDevicePointer.
fn device_pointer(library: &Library, at: *mut c_void) -> Result<*mut c_void> {
    let mut view = std::ptr::null_mut();
    // SAFETY: `view` is writable for the time of the call; the other address is looked up.
    unsafe { call!(library, aclrtHostGetDevicePointer(at, &mut view, 0)) }?;
    Ok(view)
}

/// aclrtPointerGetAttributes: 0 is the library's host memory, 1 a device's, 2 any other.
pub fn location(library: &Library, at: *const c_void) -> Result<i32> {
    let mut found = PointerAttributes { location: Location { id: 0, kind: -1 }, page: 0, reserved: [0; 4] };
    // SAFETY: `found` is writable for the time of the call; the address is looked up.
    unsafe { call!(library, aclrtPointerGetAttributes(at, &mut found)) }?;
    Ok(found.location.kind)
}

/// Pageable memory, and where its first whole page is.
fn pages(ctx: &Ctx, count: usize) -> Result<(Block, usize)> {
    let memory = ctx.block(Home::Pageable, &pattern(1, (count + 1) * PAGE))?;
    let first = memory.all().at().align_offset(PAGE);
    Ok((memory, first))
}

/// The bytes of a part of pageable memory.
fn seen(memory: &Block, first: usize, len: usize) -> Result<Vec<u8>> {
    Ok(memory.bytes()?[first..][..len].to_vec())
}

fn pinned(ctx: &mut Ctx) -> Result<Proof> {
    let count = ctx.size(2048, 64);
    let (len, library) = (count * PAGE, ctx.library);
    let (from, old) = (pattern(2, len), pattern(3, len));
    let (plain, first) = pages(ctx, count)?;
    let host = plain.part(first, len);
    let registered = Registered::new(library, host, PINNED)?;
    ensure(location(library, host.at())? == 0, "where pinned memory is", 0, location(library, host.at())?)?;
    let (source, target) = (ctx.block(Home::Device, &from)?, ctx.block(Home::Device, &old)?);
    let stream = ctx.stream()?;
    let blocker = stream.block()?;
    stream.copy(host, source.all(), kind::DEVICE_TO_HOST)?;
    stream.copy(target.all(), host, kind::HOST_TO_DEVICE)?;
    ctx.verify_bytes("pinned memory while its stream is held", &plain.bytes()?, &pattern(1, plain.len()))?;
    ctx.verify("the target while its stream is held", &target, &old)?;
    blocker.unblock();
    stream.synchronise()?;
    ctx.verify_bytes("pinned memory", &seen(&plain, first, len)?, &from)?;
    ctx.verify("the target", &target, &from)?;
    let time = ctx.best(|| {
        stream.copy(target.all(), host, kind::HOST_TO_DEVICE)?;
        stream.synchronise()
    })?;
    registered.end()?;
    ctx.moved(len, time)
}

fn pageable_again(ctx: &mut Ctx) -> Result<Proof> {
    let library = ctx.library;
    let (plain, first) = pages(ctx, 4)?;
    let (half, whole) = (plain.part(first, 2 * PAGE), plain.part(first, 4 * PAGE));
    let bytes = seen(&plain, first, 4 * PAGE)?;
    let target = ctx.block(Home::Device, &pattern(2, 4 * PAGE))?;
    let copy = |stream: &Stream, src: BlockPart| stream.copy(target.all(), src, kind::HOST_TO_DEVICE);
    let registered = Registered::new(library, half, PINNED)?;
    let stream = ctx.stream()?;
    must_wait("a copy of memory half of which is pinned", &stream, || copy(&stream, whole))?;
    ctx.verify("the target when it came back", &target, &bytes)?;
    registered.end()?;
    ensure(location(library, half.at())? == 2, "where it is now", 2, location(library, half.at())?)?;
    target.put(&pattern(3, 4 * PAGE))?;
    must_wait("a copy of memory that was unregistered", &stream, || copy(&stream, whole))?;
    ctx.verify("the target when it came back", &target, &bytes)?;
    ctx.proof()
}

fn device_address(ctx: &mut Ctx) -> Result<Proof> {
    let library = ctx.library;
    let (plain, first) = pages(ctx, 2)?;
    let before = pattern(2, PAGE);
    let device = ctx.block(Home::Device, &before)?;
    let stream = ctx.stream()?;
    let host = plain.part(first, PAGE);
    let registered = Registered::new(library, host, MAPPED)?;
    let at = device_pointer(library, host.at())?;
    let inside = device_pointer(library, host.at().wrapping_byte_add(100))?;
    ensure(
        inside == at.wrapping_byte_add(100),
        "the device address of byte 100",
        "100 more",
        inside as usize,
    )?;
    // SAFETY: the library made the address, and only the library is given it.
    let view = unsafe { BlockPart::of(&registered, at, PAGE) };
    for (dst, src, direction) in [
        (device.all(), view, kind::HOST_TO_DEVICE),
        (view, device.all(), kind::DEVICE_TO_HOST),
        (device.all(), view, kind::DEVICE_TO_DEVICE),
        (device.all(), view, kind::DEFAULT),
    ] {
        refused("a copy with a device address", 107000, stream.copy(dst, src, direction))?;
        refused("a synchronous one", 107000, memory::copy(library, dst, src, direction))?;
    }
    stream.synchronise()?;
    registered.end()?;
    older_call(library, host)?;
    ctx.verify("the device's memory", &device, &before)?;
    ctx.verify("the registered memory", &plain, &pattern(1, plain.len()))?;
    ctx.proof()
}

/// aclrtHostRegister gives the address at once.
fn older_call(library: &'static Library, host: BlockPart) -> Result<()> {
    let mut view = std::ptr::null_mut();
    // SAFETY: `view` is writable for the time of the call, and the memory stays until it is unregistered.
    unsafe { call!(library, aclrtHostRegister(host.at(), host.len() as u64, 0, &mut view)) }?;
    let registered = Registered { library, at: host.at() };
    let asked = device_pointer(library, host.at())?;
    ensure(asked == view, "aclrtHostGetDevicePointer", view as usize, asked as usize)?;
    registered.end()
}

fn mistakes(ctx: &mut Ctx) -> Result<Proof> {
    let library = ctx.library;
    let (plain, first) = pages(ctx, 2)?;
    let device = ctx.block(Home::Device, &pattern(2, PAGE))?;
    let host = plain.part(first, PAGE);
    let register = |span: BlockPart| Registered::new(library, span, PINNED).and_then(Registered::end);
    let registered = Registered::new(library, host, PINNED)?;
    refused("memory that is registered", 507910, register(host))?;
    refused("memory that begins inside a page", 107008, register(plain.part(first + 64, PAGE)))?;
    refused("device memory", 107000, register(device.all()))?;
    // SAFETY: takes an address, which the library looks up; it refuses this one.
    let freed = unsafe { call!(library, aclrtFreeHost(host.at())) };
    refused("aclrtFreeHost of registered memory", 107000, freed)?;
    registered.end()?;
    refused("unregistering twice", 507911, unregister(library, host.at()))?;
    ctx.verify("the memory", &plain, &pattern(1, plain.len()))?;
    ctx.verify("the device's memory", &device, &pattern(2, PAGE))?;
    ctx.proof()
}
