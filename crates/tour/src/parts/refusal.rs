//! Invalid calls: each is refused with its code and a message, and changes nothing.

use ferry_abi::error::{ensure, refused};
use ferry_abi::memory::{Block, BlockPart, Home};
use ferry_abi::stream::Stream;
use ferry_abi::{Error, Result, kind};

use crate::ctx::Ctx;
use crate::mirror::pattern;
use crate::part::{TourPart, part};
use crate::proof::Proof;

pub const PARTS: &[TourPart] = &[
    part("bounds, room, freed memory, kind: explained", "X10 N6", explained),
    part("foreign and dead streams, no device set", "N10 N11", strangers),
];

fn explained(ctx: &mut Ctx) -> Result<Proof> {
    ctx.needs_a_card()?;
    let (before, from) = (pattern(1, 4096), pattern(2, 8192));
    let (target, source) = (ctx.block(Home::Device, &before)?, ctx.block(Home::Locked, &from)?);
    let plain = ctx.block(Home::Pageable, &from)?;
    let stream = ctx.stream()?;
    let gone = freed(ctx)?;
    let (to_device, to_host) = (kind::HOST_TO_DEVICE, kind::DEVICE_TO_HOST);
    for (what, dst, src, kind, code) in [
        ("more bytes than room", target.all(), source.all(), to_device, 107000),
        ("freed page-locked memory", target.all(), gone, to_device, 107000),
        ("a kind that contradicts the addresses", target.all(), source.part(0, 64), to_host, 107000),
        ("pageable memory as the device's", plain.all(), source.part(0, 64), to_device, 107000),
        ("host to host", plain.all(), source.part(0, 64), kind::HOST_TO_HOST, 207000),
    ] {
        refused_with_words(what, code, stream.copy(dst, src, kind), [dst, src])?;
    }
    // The room is said to be enough, but the block is shorter than that, padding included.
    // SAFETY: only the address is used, by a library that knows the block's length.
    let beyond = unsafe { BlockPart::longer(target.all(), 8192) };
    let outcome = stream.copy(beyond, source.all(), to_device);
    refused_with_words("bytes beyond the end of a block", 107000, outcome, [beyond, source.all()])?;
    stream.synchronise()?;
    ctx.verify("the target of refused copies", &target, &before)?;
    ctx.verify("pageable memory", &plain, &from)?;
    ctx.proof()
}

/// Addresses of page-locked memory that is freed already.
fn freed(ctx: &Ctx) -> Result<BlockPart<'static>> {
    let memory = Block::new(ctx.library, Home::Locked, 4096)?;
    // SAFETY: given to the library only, which made it.
    let span = unsafe { memory.all().outlive() };
    memory.free()?;
    Ok(span)
}

/// The message names the call and both addresses.
fn refused_with_words(what: &str, code: i32, outcome: Result<()>, spans: [BlockPart; 2]) -> Result<()> {
    let message = match &outcome {
        Err(Error::Call { message, .. }) => message.clone(),
        _ => String::new(),
    };
    refused(what, code, outcome)?;
    let addresses = spans.map(|span| format!("{:#x}", span.at() as usize));
    for word in ["aclrtMemcpyAsync"].into_iter().chain(addresses.iter().map(String::as_str)) {
        ensure(
            message.contains(word),
            &format!("the message for {what}"),
            format!("to find {word} in it"),
            &message,
        )?;
    }
    Ok(())
}

fn strangers(ctx: &mut Ctx) -> Result<Proof> {
    let (before, from) = (pattern(1, 4096), pattern(2, 4096));
    let (target, source) = (ctx.block(Home::Device, &before)?, ctx.block(Home::Locked, &from)?);
    let copy = |stream: &Stream| stream.copy(target.all(), source.all(), kind::HOST_TO_DEVICE);
    let destroyed = ctx.stream()?.destroyed()?;
    refused("a copy on a destroyed stream", 107017, copy(&destroyed))?;
    // Addresses are numbers here, since raw pointers are not `Send`.
    let (to, from, len) = (target.all().at() as usize, source.all().at() as usize, target.len());
    let call = ctx.library.functions.aclrtMemcpyAsync;
    let elsewhere = std::thread::spawn(move || {
        // SAFETY: both blocks outlive this thread, which is joined below.
        unsafe { call(to as _, len, from as _, len, kind::HOST_TO_DEVICE, std::ptr::null_mut()) }
    });
    let code = elsewhere.join().unwrap_or_default();
    ensure(code == 107002, "a copy in a thread that has set no device", 107002, code)?;
    if ctx.devices > 1 {
        let foreign = ctx.on(1, || ctx.stream())?;
        refused("a copy on a stream of another device", 107003, copy(&foreign))?;
        // A stream is destroyed in its own context.
        ctx.on(1, || foreign.destroyed())?;
    }
    ctx.verify("the target of refused copies", &target, &before)?;
    ctx.proof()
}
