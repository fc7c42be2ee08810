//! Graphs: work that is captured once and executed many times, and calls that a capture does not allow.

use std::ptr::null_mut;

use ferry_abi::error::{ensure, refused};
use ferry_abi::memory::{self, Block, Home};
use ferry_abi::stream::Stream;
use ferry_abi::{Error, Handle, Library, Result, call, kind};

use crate::ctx::Ctx;
use crate::mirror::pattern;
use crate::part::{TourPart, part};
use crate::proof::Proof;

pub const PARTS: &[TourPart] = &[
    part("two streams captured; run with other bytes", "G1 G13 G20 G28", other_bytes),
    part("1,000 copies of 4 KiB as one graph", "G27", many),
    part("a refused call: who captures, the ways out", "G15 G16 G19", interrupted),
    part("memory freed: the execution fails, told", "G14", freed),
];

/// ACL_MODEL_RI_CAPTURE_MODE_GLOBAL and ..._RELAXED.
const GLOBAL: i32 = 0;
const RELAXED: i32 = 2;

/// A captured model, destroyed when dropped.
struct CapturedModel {
    library: &'static Library,
    handle: Handle,
}

impl CapturedModel {
    /// aclmdlRIExecuteAsync.
    fn execute(&self, stream: &Stream) -> Result<()> {
        // SAFETY: takes handles, which the library looks up.
        unsafe { call!(self.library, aclmdlRIExecuteAsync(self.handle, stream.handle())) }
    }
}

impl Drop for CapturedModel {
    fn drop(&mut self) {
        // SAFETY: takes a handle, which the library looks up.
        unsafe { (self.library.functions.aclmdlRIDestroy)(self.handle) };
    }
}

/// Captures what `body` submits to the stream, in the mode GLOBAL. The capture ends whatever comes of it.
fn capture(
    library: &'static Library,
    stream: &Stream,
    body: impl FnOnce() -> Result<()>,
) -> Result<CapturedModel> {
    // SAFETY: takes a handle, which the library looks up.
    unsafe { call!(library, aclmdlRICaptureBegin(stream.handle(), GLOBAL)) }?;
    let captured = body();
    let mut handle = null_mut();
    // SAFETY: `handle` is writable for the time of the call.
    let ended = unsafe { call!(library, aclmdlRICaptureEnd(stream.handle(), &mut handle)) };
    captured?;
    ended?;
    Ok(CapturedModel { library, handle })
}

/// Upload, then halves copied side by side in two streams, then download; run again and again.
fn other_bytes(ctx: &mut Ctx) -> Result<Proof> {
    let len = ctx.size(1 << 20, 1 << 16);
    let (source, target) = (ctx.block(Home::Locked, &vec![0; len])?, ctx.block(Home::Locked, &vec![0; len])?);
    let (arrived, middle) =
        (ctx.block(Home::Device, &vec![0; len])?, ctx.block(Home::Device, &vec![0; len])?);
    let (stream, side) = (ctx.stream()?, ctx.stream()?);
    let (fork, join) = (ctx.event()?, ctx.event()?);
    let half = |stream: &Stream, at| {
        stream.copy(middle.part(at, len / 2), arrived.part(at, len / 2), kind::DEVICE_TO_DEVICE)
    };
    let model = capture(ctx.library, &stream, || {
        stream.copy(arrived.all(), source.all(), kind::HOST_TO_DEVICE)?;
        stream.record(&fork)?;
        side.wait_for(&fork)?;
        half(&stream, 0)?;
        half(&side, len / 2)?;
        side.record(&join)?;
        stream.wait_for(&join)?;
        stream.copy(target.all(), middle.all(), kind::DEVICE_TO_HOST)
    })?;
    ctx.verify("the target of a capture, which runs nothing", &target, &vec![0; len])?;
    for round in 1..=8 {
        let bytes = pattern(round, len);
        source.put(&bytes)?;
        model.execute(&stream)?;
        model.execute(&stream)?;
        stream.synchronise()?;
        ctx.verify("the target of an execution", &target, &bytes)?;
    }
    ctx.proof()
}

fn many(ctx: &mut Ctx) -> Result<Proof> {
    const COPIES: usize = 1000;
    const LEN: usize = 4096;
    let bytes = pattern(1, COPIES * LEN);
    let (source, target) =
        (ctx.block(Home::Device, &bytes)?, ctx.block(Home::Device, &vec![0; COPIES * LEN])?);
    let stream = ctx.stream()?;
    let model = capture(ctx.library, &stream, || {
        // Backwards in one of the two, so that none goes on where the last one ended.
        (0..COPIES).try_for_each(|copy| {
            let (to, from) = (copy * LEN, (COPIES - 1 - copy) * LEN);
            stream.copy(target.part(to, LEN), source.part(from, LEN), kind::DEVICE_TO_DEVICE)
        })
    })?;
    let best = ctx.best(|| {
        model.execute(&stream)?;
        stream.synchronise()
    })?;
    let mirror: Vec<u8> = bytes.chunks(LEN).rev().flatten().copied().collect();
    ctx.verify("the target of 1,000 copies", &target, &mirror)?;
    ctx.called(COPIES, best)
}

/// aclmdlRICaptureThreadExchangeMode: the mode of this thread from here on, and the one before.
fn exchange(library: &Library, mut mode: i32) -> Result<i32> {
    // SAFETY: `mode` is readable and writable for the time of the call.
    unsafe { call!(library, aclmdlRICaptureThreadExchangeMode(&mut mode)) }?;
    Ok(mode)
}

/// A synchronous copy in the thread that captures: refused, unless the thread says RELAXED.
fn interrupted(ctx: &mut Ctx) -> Result<Proof> {
    let library = ctx.library;
    let (before, after) = (pattern(1, 4096), pattern(2, 4096));
    let (source, target) = (ctx.block(Home::Locked, &after)?, ctx.block(Home::Device, &before)?);
    let other = ctx.block(Home::Device, &before)?;
    let stream = ctx.stream()?;
    let copy = |to: &Block| memory::copy(library, to.all(), source.all(), kind::HOST_TO_DEVICE);
    let upload = || stream.copy(target.all(), source.all(), kind::HOST_TO_DEVICE);

    let model = capture(library, &stream, || {
        upload()?;
        let mode = exchange(library, RELAXED)?;
        let allowed = copy(&other);
        exchange(library, mode)?;
        allowed
    })?;
    ctx.verify("the target of a copy that is allowed", &other, &after)?;
    model.execute(&stream)?;
    stream.synchronise()?;
    ctx.verify("the target of the graph", &target, &after)?;
    target.put(&before)?;

    let ended = capture(library, &stream, || {
        upload()?;
        refused_with_words(copy(&target), &stream)
    });
    refused("the end of a capture that a call has broken", 507903, ended.map(drop))?;
    ctx.verify("the target of a copy that is refused", &target, &before)?;
    ctx.proof()
}

/// The message names the call, who captures, and a way out.
fn refused_with_words(outcome: Result<()>, stream: &Stream) -> Result<()> {
    const WHAT: &str = "a synchronous copy during a capture";
    let message = match &outcome {
        Err(Error::Call { message, .. }) => message.clone(),
        _ => String::new(),
    };
    refused(WHAT, 107030, outcome)?;
    let captured = format!("stream {:#x}", stream.handle() as usize);
    for word in ["aclrtMemcpy", &captured, "GLOBAL", "thread", "aclmdlRICaptureThreadExchangeMode"] {
        ensure(message.contains(word), WHAT, format!("to find {word} in the message"), &message)?;
    }
    Ok(())
}

fn freed(ctx: &mut Ctx) -> Result<Proof> {
    let (before, after) = (pattern(1, 4096), pattern(2, 4096));
    let (source, target) = (ctx.block(Home::Locked, &after)?, ctx.block(Home::Device, &before)?);
    let gone = ctx.block(Home::Device, &after)?;
    let stream = ctx.stream()?;
    let model = capture(ctx.library, &stream, || {
        stream.copy(target.all(), source.all(), kind::HOST_TO_DEVICE)?;
        stream.copy(gone.all(), source.all(), kind::HOST_TO_DEVICE)
    })?;
    gone.free()?;
    model.execute(&stream)?;
    refused("an execution whose memory was freed", 107000, stream.synchronise())?;
    ctx.verify("the target of an execution that fails", &target, &before)?;
    ctx.proof()
}
