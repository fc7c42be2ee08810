//! Contiguous copies: aclrtMemcpyAsync and aclrtMemcpy, every sort of memory and every kind.

use std::time::Instant;

use ferry_abi::memory::{self, Home};
use ferry_abi::stream::Stream;
use ferry_abi::{Result, kind};

use crate::ctx::Ctx;
use crate::mirror::pattern;
use crate::part::{TourPart, part};
use crate::proof::Proof;

use super::around::{Around, copied};
use super::peers;

pub const PARTS: &[TourPart] = &[
    part("to the device, page-locked", "N5", to_device).everywhere(),
    part("from the device, page-locked", "N5", to_host).everywhere(),
    part("pageable, both ways: done on return", "N5", pageable),
    part("kinds 3 and 6, and 4 (from the addresses)", "N12", kinds),
    part("between devices; refused without peer access", "N3 N12 X9", peers::between_devices),
    part("on the default stream", "N9", default_stream),
    part("synchronous, whatever the kind says", "N1", synchronous),
    part("submit small copies, each over the last", "X1", small),
];

fn synchronised(
    ctx: &mut Ctx,
    stream: &Stream,
    len: usize,
    dst: Home,
    src: Home,
    kind: i32,
) -> Result<Proof> {
    copied(ctx, len, dst, src, |dst, src| {
        stream.copy(dst, src, kind)?;
        stream.synchronise()
    })
}

fn to_device(ctx: &mut Ctx) -> Result<Proof> {
    let len = ctx.large();
    let stream = ctx.stream()?;
    synchronised(ctx, &stream, len, Home::Device, Home::Locked, kind::HOST_TO_DEVICE)
}

fn to_host(ctx: &mut Ctx) -> Result<Proof> {
    let len = ctx.large();
    let stream = ctx.stream()?;
    synchronised(ctx, &stream, len, Home::Locked, Home::Device, kind::DEVICE_TO_HOST)
}

fn pageable(ctx: &mut Ctx) -> Result<Proof> {
    let len = ctx.large();
    let stream = ctx.stream()?;
    copied(ctx, len, Home::Device, Home::Pageable, |dst, src| stream.copy(dst, src, kind::HOST_TO_DEVICE))?;
    copied(ctx, len, Home::Pageable, Home::Device, |dst, src| stream.copy(dst, src, kind::DEVICE_TO_HOST))
}

fn kinds(ctx: &mut Ctx) -> Result<Proof> {
    let len = ctx.small();
    let stream = ctx.stream()?;
    synchronised(ctx, &stream, len, Home::Device, Home::Locked, kind::DEFAULT)?;
    synchronised(ctx, &stream, len, Home::Locked, Home::Device, kind::DEFAULT)?;
    synchronised(ctx, &stream, len, Home::Device, Home::Device, kind::INNER_DEVICE_TO_DEVICE)?;
    synchronised(ctx, &stream, len, Home::Device, Home::Device, kind::DEVICE_TO_DEVICE)?;
    ctx.proof()
}

fn default_stream(ctx: &mut Ctx) -> Result<Proof> {
    let len = ctx.small();
    let stream = Stream::default_of_context(ctx.library);
    synchronised(ctx, &stream, len, Home::Device, Home::Locked, kind::HOST_TO_DEVICE)?;
    synchronised(ctx, &stream, len, Home::Locked, Home::Device, kind::DEVICE_TO_HOST)?;
    ctx.proof()
}

/// The kind is a reserved argument here: the addresses decide, and host to host is allowed.
fn synchronous(ctx: &mut Ctx) -> Result<Proof> {
    let len = ctx.large();
    let homes = [Home::Device, Home::Locked, Home::Pageable];
    let pairs = homes.iter().flat_map(|dst| homes.iter().map(move |src| (*dst, *src)));
    for (round, (dst, src)) in pairs.enumerate() {
        ctx.progress(round, 9);
        for kind in (kind::HOST_TO_HOST..=kind::INTER_DEVICE_TO_DEVICE).chain([42]) {
            let (mut to, from) = (Around::new(1, 4096), pattern(kind as u64, 4096));
            let (target, source) = (ctx.block(dst, &to.bytes)?, ctx.block(src, &from)?);
            memory::copy(ctx.library, to.inside(&target), source.all(), kind)?;
            to.write(&from);
            ctx.verify("the target", &target, &to.bytes)?;
        }
    }
    let library = ctx.library;
    copied(ctx, len, Home::Device, Home::Pageable, |dst, src| {
        memory::copy(library, dst, src, kind::HOST_TO_DEVICE)
    })
}

/// Copy `i` writes 64 bytes at `i`, so each byte shows that its copies ran in the order given.
fn small(ctx: &mut Ctx) -> Result<Proof> {
    const LEN: usize = 64;
    let count = ctx.size(50_000, 2_000);
    let from = pattern(1, count * LEN);
    let mut to = pattern(2, count + LEN);
    let (source, target) = (ctx.block(Home::Locked, &from)?, ctx.block(Home::Device, &to)?);
    let stream = ctx.stream()?;
    let begin = Instant::now();
    for i in 0..count {
        stream.copy(target.part(i, LEN), source.part(i * LEN, LEN), kind::HOST_TO_DEVICE)?;
    }
    let time = begin.elapsed();
    stream.synchronise()?;
    for i in 0..count {
        to[i..i + LEN].copy_from_slice(&from[i * LEN..][..LEN]);
    }
    ctx.verify("the target", &target, &to)?;
    ctx.called(count, time)
}
