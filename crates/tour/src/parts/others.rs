//! Parts that need a process of their own: fewer visible devices, other forms of machines, and ways to end.

use ferry_abi::error::{NOT_SUPPORTED, ensure, refused};
use ferry_abi::memory::{self, Block, Home};
use ferry_abi::stream::Stream;
use ferry_abi::{Error, Library, Result, call, kind, library};

use crate::child::{Child, Parent, Role};
use crate::ctx::Ctx;
use crate::mirror::pattern;
use crate::part::{TourPart, part};
use crate::proof::Proof;
use crate::waits::must_wait;

pub const PARTS: &[TourPart] = &[
    part("ASCEND_RT_VISIBLE_DEVICES: some, renumbered", "count and numbers", visible),
    part("FERRY_FORM=rc: the CPU touches device memory", "R32 N7 N16", board),
    part("FERRY_FORM=ctrlcpu: the same on the card", "N8 N16", control_cpu),
    part("init counted down; reset by force waits", "100002 100037", endings),
];

/// What the other processes do.
pub const ROLES: &[(&str, Role)] =
    &[("visible", visible_role), ("unified", unified_role), ("endings", endings_role)];

/// Three lists of visible devices: one device, one that does not exist, and one that does not ascend.
fn visible(ctx: &mut Ctx) -> Result<Proof> {
    // Fails with `NotHere` if there is no second device.
    ctx.on(1, || Ok(()))?;
    let numbers = [ctx.library.physical_number(0)?, ctx.library.physical_number(1)?];
    let [first, second] = numbers;
    for (list, want) in [
        (format!("{second}"), vec![second]),
        (format!("{first},{second},4096"), vec![first, second]),
        (format!("{second},{first}"), vec![second]),
    ] {
        let mut child = Child::start("visible", &[("ASCEND_RT_VISIBLE_DEVICES", &list)])?;
        child.say(want.len());
        for number in want {
            child.say(number);
        }
        child.end(ctx)?;
    }
    ctx.proof()
}

/// Every visible device can be set by its number, and has memory of its own.
fn visible_role(ctx: &mut Ctx, parent: &mut Parent) -> Result<()> {
    let (library, len) = (ctx.library, 1 << 16);
    let count = parent.hear_number()?;
    ensure(ctx.devices == count, "aclrtGetDeviceCount", count, ctx.devices)?;
    let mut memory = Vec::new();
    for device in 0..count {
        let (want, seen): (i64, i64) = (parent.hear_number()?, library.physical_number(device as u32)?);
        ensure(seen == want, &format!("the physical number of device {device}"), want, seen)?;
        memory.push(ctx.on(device, || ctx.block(Home::Device, &pattern(device as u64, len)))?);
    }
    for (device, memory) in memory.iter().enumerate() {
        ctx.verify(&format!("memory of device {device}"), memory, &pattern(device as u64, len))?;
    }
    refused("a device that is not visible", 107001, library.set_device(count as i32))
}

fn board(ctx: &mut Ctx) -> Result<Proof> {
    unified(ctx, "Ascend310B1", "rc")
}

fn control_cpu(ctx: &mut Ctx) -> Result<Proof> {
    unified(ctx, "Ascend310P3", "ctrlcpu")
}

fn unified(ctx: &mut Ctx, soc: &str, form: &str) -> Result<Proof> {
    if library::backend_name() != "host" {
        let backend = library::backend_name();
        return Err(Error::NotHere(format!("the {backend} backend has host and device memory apart")));
    }
    Child::start("unified", &[("FERRY_SOC", soc), ("FERRY_FORM", form)])?.end(ctx)?;
    ctx.proof()
}

/// Writes memory of any sort by the CPU.
fn write_by_cpu(memory: &Block, bytes: &[u8]) {
    assert_eq!(bytes.len(), memory.len(), "a block is written as a whole");
    // SAFETY: host and device memory are one in this process; the block is as long as `bytes`, which is other
    // memory.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), memory.all().at().cast(), bytes.len()) };
}

/// Reads memory of any sort by the CPU.
fn read_by_cpu(memory: &Block) -> Vec<u8> {
    // SAFETY: as for `write_by_cpu`; no copy writes it meanwhile.
    unsafe { std::slice::from_raw_parts(memory.all().at().cast::<u8>(), memory.len()) }.to_vec()
}

/// Whatever the kind says, the copy is one inside the device, and asynchronous between host memory too.
fn unified_role(ctx: &mut Ctx, _: &mut Parent) -> Result<()> {
    let (library, len) = (ctx.library, (1 << 16) + 77);
    ensure(library.run_mode()? == 0, "aclrtGetRunMode", "0 (device)", library.run_mode()?)?;
    let (stream, mut seed) = (ctx.stream()?, 0);
    let homes = [Home::Device, Home::Locked, Home::Pageable];
    for (dst, src) in homes.iter().flat_map(|dst| homes.iter().map(move |src| (*dst, *src))) {
        for direction in
            [kind::HOST_TO_HOST, kind::HOST_TO_DEVICE, kind::DEVICE_TO_HOST, kind::DEVICE_TO_DEVICE]
        {
            seed += 1;
            let (target, source) = (Block::new(library, dst, len)?, Block::new(library, src, len)?);
            write_by_cpu(&source, &pattern(seed, len));
            for copy in [Stream::copy, Stream::copy_with_condition] {
                write_by_cpu(&target, &pattern(0, len));
                copy(&stream, target.all(), source.all(), direction)?;
                stream.synchronise()?;
                ctx.verify_bytes("the target, read by the CPU", &read_by_cpu(&target), &pattern(seed, len))?;
            }
        }
    }
    let (device, back) = (Block::new(library, Home::Device, len)?, Block::new(library, Home::Pageable, len)?);
    write_by_cpu(&device, &pattern(1, len));
    memory::copy(library, back.all(), device.all(), kind::DEVICE_TO_HOST)?;
    ctx.verify("what the CPU wrote, read by a copy", &back, &pattern(1, len))?;
    let rows = stream.copy_2d(device.grid(64), back.grid(64), 64, 2, kind::HOST_TO_DEVICE);
    refused("rows, in this form", NOT_SUPPORTED, rows)
}

fn endings(ctx: &mut Ctx) -> Result<Proof> {
    Child::start("endings", &[])?.end(ctx)?;
    ctx.proof()
}

/// aclFinalizeReference: how many starts are left.
fn take_back(library: &Library) -> Result<u64> {
    let mut left = u64::MAX;
    // SAFETY: `left` is writable for the time of the call.
    unsafe { call!(library, aclFinalizeReference(&mut left)) }?;
    Ok(left)
}

/// A device reset by force waits for its streams' work and ends every use of it; a library ends with its last
/// user.
fn endings_role(ctx: &mut Ctx, _: &mut Parent) -> Result<()> {
    let (library, len) = (ctx.library, 1 << 16);
    // SAFETY: NULL is a documented argument: no configuration file.
    let again = unsafe { call!(library, aclInit(std::ptr::null())) };
    refused("aclInit again", 100002, again)?;
    ensure(take_back(library)? == 1, "starts left", 1, "another number")?;
    library.set_device(0)?;
    library.set_device(0)?;
    let (source, middle) =
        (ctx.block(Home::Locked, &pattern(1, len))?, ctx.block(Home::Device, &vec![0; len])?);
    let target = ctx.block(Home::Locked, &vec![0; len])?;
    let stream = std::mem::ManuallyDrop::new(ctx.stream()?);
    must_wait("aclrtResetDeviceForce", &stream, || {
        stream.copy(middle.all(), source.all(), kind::HOST_TO_DEVICE)?;
        stream.copy(target.all(), middle.all(), kind::DEVICE_TO_HOST)?;
        // SAFETY: takes a number.
        unsafe { call!(library, aclrtResetDeviceForce(0)) }
    })?;
    ctx.verify("what was queued before the reset", &target, &pattern(1, len))?;
    refused("a thread whose device was reset", 107002, ctx.stream().map(drop))?;
    ensure(take_back(library)? == 0, "starts left", 0, "another number")?;
    refused("ending once more", 100037, library.finish())
}
