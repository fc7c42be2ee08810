//! Copies through descriptors and pointer cells: addresses are read when the task runs.

use super::target::{On, Target, inner_only};
use crate::{
    Result,
    arguments::{not_null, refuse, within},
    explain::explaining,
    state::Here,
};
use ferry_core::{
    Access, Block, Home, Indirect, Kind, Memory, Op, Place, Rows,
    indirect::{Cell, DESCRIPTOR_LEN, Through},
};

/// aclrtGetMemcpyDescSize.
pub fn size(kind: i32) -> Result<usize> {
    inner_only(kind)?;
    Ok(DESCRIPTOR_LEN)
}

/// aclrtSetMemcpyDesc: checks the copy as it would run now, and writes the descriptor before returning.
///
/// # Safety
/// No task in flight reads or writes the descriptor.
pub unsafe fn set(here: &Here, desc: usize, kind: i32, src: usize, dst: usize, count: usize) -> Result<()> {
    let addresses = [("desc", desc), ("srcAddr", src), ("dstAddr", dst)];
    explaining(here, addresses, || {
        addresses.into_iter().try_for_each(|(name, addr)| not_null(name, addr))?;
        let target = Target::inside(here)?;
        inner_only(kind)?;
        let memory = target.engine.runtime.memory();
        let place = memory.place(desc, DESCRIPTOR_LEN, Access::Read)?;
        let home = on_device(memory, "desc", &place, target.device())?;
        // A copy through it would be refused otherwise.
        engine_address(&place, desc, DESCRIPTOR_LEN)?;
        let ends = [("srcAddr", src, Access::Read), ("dstAddr", dst, Access::Write)];
        // Ranges of no bytes are not looked up, as in a plan.
        for (name, addr, access) in ends.into_iter().filter(|_| count > 0) {
            if device_of(memory, &memory.place(addr, count, access)?, home) != Some(home) {
                return Err(refuse(format!("{name} must be memory of device {home}, as the descriptor is")));
            }
        }
        let words: Vec<u8> =
            memory.seal(dst, src, count)?.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let rows = Rows::linear(desc, words.as_ptr() as usize, words.len());
        // SAFETY: the words outlive the call, which waits; the caller vouches for the descriptor.
        unsafe { target.copy(rows, |_| Ok(())) }
    })
}

/// The function of copies through descriptors, for messages when one runs.
const MEMCPY: &str = "aclrtMemcpyAsyncWithDesc";

/// The fast path of aclrtMemcpyAsyncWithDesc. False if nothing was submitted, because something is not simple
/// or not right: [`memcpy_async`] decides then. It makes no system call that is a cancellation point.
///
/// # Safety
/// As [`memcpy_async`].
#[inline]
pub unsafe fn try_fast(here: &Here, desc: usize, kind: i32, stream: usize) -> bool {
    if inner_only(kind).is_err() {
        return false;
    }
    let Some(entry) = here.remembered(stream) else { return false };
    let device = entry.stream.device();
    let fits = |memory: &Memory, place: &Place| device_of(memory, place, device) == Some(device);
    // SAFETY: the caller's promise.
    let ticket = unsafe { entry.stream.submit_descriptor(MEMCPY, desc, fits) };
    here.stream.set(Some(entry));
    ticket.is_some()
}

/// aclrtMemcpyAsyncWithDesc.
///
/// # Safety
/// What the descriptor names when the task runs stays valid until the task is done.
pub unsafe fn memcpy_async(here: &Here, desc: usize, kind: i32, stream: usize) -> Result<()> {
    let call = MEMCPY;
    explaining(here, [("desc", desc)], || {
        not_null("desc", desc)?;
        let target = Target::find(here, On::Stream(stream))?;
        inner_only(kind)?;
        let device = target.device();
        let make = |memory: &Memory| {
            let place = memory.place(desc, DESCRIPTOR_LEN, Access::Read)?;
            let home = on_device(memory, "desc", &place, device)?;
            if home != device {
                let note = format!("the descriptor is on device {home}, the stream on device {device}");
                return Err(Kind::BadRoute.because(note));
            }
            let at = engine_address(&place, desc, DESCRIPTOR_LEN)?;
            let through = Through::Descriptor { at, user: desc };
            Ok::<_, ferry_core::Error>(Op::CopyThrough(Indirect { call, device, through }))
        };
        // SAFETY: the op reads the descriptor, which is known memory; what it names is looked up when it
        // runs.
        unsafe { target.stream().submit(make) }?;
        Ok(())
    })
}

/// A pointer in memory, which is read when the task runs, and an offset.
#[derive(Clone, Copy, Debug)]
pub struct OffsetPointer {
    /// The address of the pointer.
    pub cell: usize,
    /// The number of bytes that is added to the pointer.
    pub offset: usize,
}

/// aclrtMemcpyAsyncWithOffset: the pointers are read when the task runs.
///
/// # Safety
/// What the pointers name when the task runs stays valid until the task is done.
pub unsafe fn memcpy_async_with_offset(
    here: &Here,
    dst: OffsetPointer,
    dest_max: usize,
    src: OffsetPointer,
    count: usize,
    kind: i32,
    stream: usize,
) -> Result<()> {
    let call = "aclrtMemcpyAsyncWithOffset";
    explaining(here, [("dst (the pointer)", dst.cell), ("src (the pointer)", src.cell)], || {
        not_null("dst", dst.cell)?;
        not_null("src", src.cell)?;
        let target = Target::find(here, On::Stream(stream))?;
        inner_only(kind)?;
        within("count", count, "destMax", dest_max)?;
        for (name, end) in [("dstDataOffset", dst), ("srcDataOffset", src)] {
            within(name, end.offset, "what leaves room for count", usize::MAX - count)?;
        }
        let device = target.device();
        let make = |memory: &Memory| {
            let cell = |end: OffsetPointer| -> ferry_core::Result<Cell> {
                let at = engine_address(&memory.place(end.cell, 8, Access::Read)?, end.cell, 8)?;
                Ok(Cell { at, user: end.cell, offset: end.offset })
            };
            let through = Through::Cells { dst: cell(dst)?, src: cell(src)?, len: count };
            Ok::<_, ferry_core::Error>(Op::CopyThrough(Indirect { call, device, through }))
        };
        // SAFETY: the op reads the two cells, which are known memory; what they name is looked up when it
        // runs.
        unsafe { target.stream().submit(make) }?;
        Ok(())
    })
}

fn on_device(memory: &Memory, name: &str, place: &Place, current: u32) -> ferry_core::Result<u32> {
    device_of(memory, place, current)
        .ok_or_else(|| Kind::BadRoute.because(format!("{name} must be device memory, but is {place}")))
}

/// The device whose memory this is; memory of acl on the host is the current device's where the two are one.
pub(crate) fn device_of(memory: &Memory, place: &Place, current: u32) -> Option<u32> {
    match place {
        Place::Known(Block { home: Home::Host, .. }) if memory.is_unified() => Some(current),
        other => other.device(),
    }
}

/// Where the engine reads `len` bytes that begin at `addr`, in `place`.
fn engine_address(place: &Place, addr: usize, len: usize) -> ferry_core::Result<usize> {
    if place.is_plain() {
        return Err(Kind::BadAddress.because(format!("{addr:#x} must be memory that acl allocated")));
    }
    if place.room_from(addr) < len {
        let note = format!("{len} bytes at {addr:#x} lie in two mapped pieces: they must lie in one");
        return Err(Kind::BadAddress.because(note));
    }
    Ok(place.engine_address(addr))
}
