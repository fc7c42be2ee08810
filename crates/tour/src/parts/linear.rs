//! Plain copies of one range: aclrtMemcpyAsync and aclrtMemcpy, every sort of memory and every kind.

use std::time::Instant;

use ferry_abi::memory::{self, Home, Memory, Span};
use ferry_abi::stream::Stream;
use ferry_abi::{Result, kind};

use crate::ctx::Ctx;
use crate::mirror::pattern;
use crate::part::Part;
use crate::proof::Proof;

use super::device;

pub const PARTS: &[Part] = &[
    Part { what: "to the device, page-locked", proves: "N5", everywhere: true, run: to_device },
    Part { what: "from the device, page-locked", proves: "N5", everywhere: true, run: to_host },
    Part { what: "pageable, both ways: done on return", proves: "N5", everywhere: false, run: pageable },
    Part { what: "kinds 3 and 6, and 4 (from the addresses)", proves: "N12", everywhere: false, run: kinds },
    Part {
        what: "between devices; refused without peer access",
        proves: "N3 N12 X9",
        everywhere: false,
        run: device::peers,
    },
    Part { what: "on the default stream", proves: "N9", everywhere: false, run: default_stream },
    Part { what: "synchronous, whatever the kind says", proves: "N1", everywhere: false, run: synchronous },
    Part { what: "submit small copies, each over the last", proves: "X1", everywhere: false, run: small },
];

/// Bytes of memory with some before and after the part that a copy may write.
pub struct Around {
    pub bytes: Vec<u8>,
    len: usize,
}

impl Around {
    // Odd on purpose: no rule asks for alignment.
    const MARGIN: usize = 61;

    /// Room for `len` bytes, and a margin on both sides.
    pub fn new(seed: u64, len: usize) -> Around {
        Around { bytes: pattern(seed, len + 2 * Around::MARGIN), len }
    }

    /// The part that may be written.
    pub fn inside<'m>(&self, memory: &'m Memory) -> Span<'m> {
        memory.span(Around::MARGIN, self.len)
    }

    /// Writes it in the mirror.
    pub fn write(&mut self, bytes: &[u8]) {
        self.bytes[Around::MARGIN..][..self.len].copy_from_slice(bytes);
    }
}

/// Copies between memory of two sorts and verifies the target, what is around it, and the source.
pub fn copied(
    ctx: &mut Ctx,
    len: usize,
    dst: Home,
    src: Home,
    mut copy: impl FnMut(Span, Span) -> Result<()>,
) -> Result<Proof> {
    let (mut to, from) = (Around::new(1, len), pattern(2, len));
    let (target, source) = (ctx.memory(dst, &to.bytes)?, ctx.memory(src, &from)?);
    let time = ctx.best(|| copy(to.inside(&target), source.all()))?;
    to.write(&from);
    ctx.verify("the target", &target, &to.bytes)?;
    ctx.verify("the source", &source, &from)?;
    ctx.moved(len, time)
}

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
            let (target, source) = (ctx.memory(dst, &to.bytes)?, ctx.memory(src, &from)?);
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
    let (source, target) = (ctx.memory(Home::Locked, &from)?, ctx.memory(Home::Device, &to)?);
    let stream = ctx.stream()?;
    let begin = Instant::now();
    for i in 0..count {
        stream.copy(target.span(i, LEN), source.span(i * LEN, LEN), kind::HOST_TO_DEVICE)?;
    }
    let time = begin.elapsed();
    stream.synchronise()?;
    for i in 0..count {
        to[i..i + LEN].copy_from_slice(&from[i * LEN..][..LEN]);
    }
    ctx.verify("the target", &target, &to)?;
    ctx.called(count, time)
}
