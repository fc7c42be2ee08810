//! Late-bound copies: their addresses are in device memory and are read when the copy runs.

use std::time::Instant;

use ferry_abi::error::refused;
use ferry_abi::memory::{Block, BlockPart, Home};
use ferry_abi::stream::Cell;
use ferry_abi::{Library, Result, kind};

use super::around::Around;
use crate::ctx::Ctx;
use crate::mirror::pattern;
use crate::part::{TourPart, part};
use crate::proof::Proof;

pub const PARTS: &[TourPart] = &[
    part("get size, allocate, set, copy, and copy again", "R70-R73 R75 R77", used_again).everywhere(),
    part("rewritten by an earlier copy of the stream", "R71 R73 X1", written_late).everywhere(),
    part("never set: next synchronise answers 107000", "R74 R77 X2", never_set),
    part("refused: kinds other than 6", "R75 R77", other_kinds),
    part("cells plus offsets, a cell rewritten as well", "X1", cells),
];

/// Device memory of the size of a descriptor, with no valid content.
pub fn blank(ctx: &Ctx) -> Result<Block> {
    let mut len = 0;
    let call = ctx.library.functions.aclrtGetMemcpyDescSize;
    // SAFETY: `len` is writable for the time of the call.
    let code = unsafe { call(kind::INNER_DEVICE_TO_DEVICE, &mut len) };
    ctx.library.check("aclrtGetMemcpyDescSize", code)?;
    ctx.block(Home::Device, &vec![0xA5; len])
}

/// aclrtSetMemcpyDesc. The C function takes the source first.
fn set(library: &Library, descriptor: BlockPart, dst: BlockPart, src: BlockPart, kind: i32) -> Result<()> {
    let call = library.functions.aclrtSetMemcpyDesc;
    // SAFETY: all three spans lie in live memory; the last argument is reserved and NULL.
    let code = unsafe { call(descriptor.at(), kind, src.at(), dst.at(), src.len(), std::ptr::null_mut()) };
    library.check("aclrtSetMemcpyDesc", code)
}

fn used_again(ctx: &mut Ctx) -> Result<Proof> {
    let (len, rounds) = (4096, ctx.size(2_000, 50));
    let (mut to, from) = (Around::new(1, len), pattern(2, len));
    let (target, source) = (ctx.block(Home::Device, &to.bytes)?, ctx.block(Home::Device, &from)?);
    let (descriptor, stream) = (blank(ctx)?, ctx.stream()?);
    set(ctx.library, descriptor.all(), to.inside(&target), source.all(), kind::INNER_DEVICE_TO_DEVICE)?;
    let begin = Instant::now();
    for _ in 0..rounds {
        stream.copy_by_descriptor(descriptor.all(), kind::INNER_DEVICE_TO_DEVICE)?;
    }
    stream.synchronise()?;
    let time = begin.elapsed();
    to.write(&from);
    ctx.verify("the target", &target, &to.bytes)?;
    // The descriptor holds addresses, not bytes: with a new source it copies that.
    let later = pattern(3, len);
    source.put(&later)?;
    stream.copy_by_descriptor(descriptor.all(), kind::INNER_DEVICE_TO_DEVICE)?;
    stream.synchronise()?;
    to.write(&later);
    ctx.verify("the target, second time", &target, &to.bytes)?;
    ctx.called(rounds, time)
}

/// The descriptor says "first source" when the copy is submitted and "second source" when it runs.
fn written_late(ctx: &mut Ctx) -> Result<Proof> {
    let len = ctx.size(1 << 20, 4096);
    let (mut to, first, second) = (Around::new(1, len), pattern(2, len), pattern(3, len));
    let target = ctx.block(Home::Device, &to.bytes)?;
    let sources = [ctx.block(Home::Device, &first)?, ctx.block(Home::Device, &second)?];
    let (descriptor, spare, stream) = (blank(ctx)?, blank(ctx)?, ctx.stream()?);
    let inner = kind::INNER_DEVICE_TO_DEVICE;
    set(ctx.library, descriptor.all(), to.inside(&target), sources[0].all(), inner)?;
    set(ctx.library, spare.all(), to.inside(&target), sources[1].all(), inner)?;
    let begin = Instant::now();
    stream.copy(descriptor.all(), spare.all(), kind::DEVICE_TO_DEVICE)?;
    stream.copy_by_descriptor(descriptor.all(), inner)?;
    stream.synchronise()?;
    let time = begin.elapsed();
    to.write(&second);
    ctx.verify("the target", &target, &to.bytes)?;
    ctx.verify("the copied descriptor", &descriptor, &spare.bytes()?)?;
    ctx.moved(len, time)
}

fn never_set(ctx: &mut Ctx) -> Result<Proof> {
    let before = pattern(1, 4096);
    let (target, stream) = (ctx.block(Home::Device, &before)?, ctx.stream()?);
    let descriptor = blank(ctx)?;
    stream.copy_by_descriptor(descriptor.all(), kind::INNER_DEVICE_TO_DEVICE)?;
    refused("synchronising after a copy by a descriptor never set", 107000, stream.synchronise())?;
    ctx.verify("other device memory", &target, &before)?;
    let after = pattern(2, 4096);
    let source = ctx.block(Home::Device, &after)?;
    stream.copy(target.all(), source.all(), kind::DEVICE_TO_DEVICE)?;
    stream.synchronise()?;
    ctx.verify("the target of a later copy", &target, &after)?;
    ctx.proof()
}

fn other_kinds(ctx: &mut Ctx) -> Result<Proof> {
    let (before, from) = (pattern(1, 64), pattern(2, 64));
    let (target, source) = (ctx.block(Home::Device, &before)?, ctx.block(Home::Device, &from)?);
    let (descriptor, stream) = (blank(ctx)?, ctx.stream()?);
    set(ctx.library, descriptor.all(), target.all(), source.all(), kind::INNER_DEVICE_TO_DEVICE)?;
    for kind in [0, 1, 2, 3, 4, 5, 7, 8] {
        let what = format!("kind {kind}");
        refused(&what, 100000, set(ctx.library, descriptor.all(), target.all(), source.all(), kind))?;
        refused(&what, 100000, stream.copy_by_descriptor(descriptor.all(), kind))?;
    }
    stream.synchronise()?;
    ctx.verify("the target of refused copies", &target, &before)?;
    ctx.proof()
}

/// The source cell is overwritten by an earlier copy of the stream; the target cell is in page-locked memory.
fn cells(ctx: &mut Ctx) -> Result<Proof> {
    let (len, skip) = (ctx.size(1 << 20, 4096), 96);
    let (mut to, first, second) = (pattern(1, len + skip), pattern(2, len), pattern(3, len + 2 * skip));
    let target = ctx.block(Home::Device, &to)?;
    let sources = [ctx.block(Home::Device, &first)?, ctx.block(Home::Device, &second)?];
    let address = |memory: &Block| (memory.all().at() as usize).to_ne_bytes();
    let target_cell = ctx.block(Home::Locked, &address(&target))?;
    let source_cell = ctx.block(Home::Device, &address(&sources[0]))?;
    let new_cell = ctx.block(Home::Device, &address(&sources[1]))?;
    let stream = ctx.stream()?;
    let begin = Instant::now();
    stream.copy(source_cell.all(), new_cell.all(), kind::DEVICE_TO_DEVICE)?;
    let (into, from) =
        (Cell { span: target_cell.all(), offset: skip }, Cell { span: source_cell.all(), offset: skip });
    stream.copy_by_cells(into, len, from, len)?;
    stream.synchronise()?;
    let time = begin.elapsed();
    to[skip..].copy_from_slice(&second[skip..][..len]);
    ctx.verify("the target", &target, &to)?;
    ctx.moved(len, time)
}
