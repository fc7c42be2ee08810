//! Fills with bytes and with 32-bit words, in stream order or synchronous.

use std::time::Duration;

use ferry_abi::memory::{Block, BlockPart, Home};
use ferry_abi::{Library, Result};

use super::around::Around;
use crate::ctx::Ctx;
use crate::part::{TourPart, part};
use crate::proof::Proof;

pub const PARTS: &[TourPart] = &[
    part("device memory by a stream, bytes and words", "X1", by_stream).everywhere(),
    part("device memory at once, bytes and words", "", at_once),
    part("page-locked memory, by a stream and at once", "", on_host),
];

/// The value of byte fills, of which only the lowest byte counts.
const VALUE: i32 = 0x7F5C;
/// The value of word fills.
const WORD: u32 = 0xDEAD_BEE5;

fn by_stream(ctx: &mut Ctx) -> Result<Proof> {
    let stream = ctx.stream()?;
    let time = filled(ctx, Home::Device, |dst, count| {
        stream.fill(dst, VALUE, count)?;
        stream.synchronise()
    })?;
    words(ctx, Home::Device, |dst, count| {
        stream.fill_words(dst, WORD, count)?;
        stream.synchronise()
    })?;
    ctx.moved(len(ctx), time)
}

fn at_once(ctx: &mut Ctx) -> Result<Proof> {
    let library = ctx.library;
    let time = filled(ctx, Home::Device, |dst, count| fill(library, dst, VALUE, count))?;
    words(ctx, Home::Device, |dst, count| fill_words(library, dst, WORD, count))?;
    ctx.moved(len(ctx), time)
}

/// A host fill of words is not put on the stream: it is there when the call returns.
fn on_host(ctx: &mut Ctx) -> Result<Proof> {
    let (library, stream) = (ctx.library, ctx.stream()?);
    filled(ctx, Home::Locked, |dst, count| {
        stream.fill(dst, VALUE, count)?;
        stream.synchronise()
    })?;
    words(ctx, Home::Locked, |dst, count| stream.fill_words(dst, WORD, count))?;
    words(ctx, Home::Locked, |dst, count| fill_words(library, dst, WORD, count))?;
    let time = filled(ctx, Home::Locked, |dst, count| fill(library, dst, VALUE, count))?;
    ctx.moved(len(ctx), time)
}

fn len(ctx: &Ctx) -> usize {
    ctx.large()
}

/// Fills bytes and verifies them and what is around them.
fn filled(
    ctx: &mut Ctx,
    home: Home,
    mut fill: impl FnMut(BlockPart, usize) -> Result<()>,
) -> Result<Duration> {
    let len = len(ctx);
    let mut mirror = Around::new(1, len);
    let memory = ctx.block(home, &mirror.bytes)?;
    let time = ctx.best(|| fill(mirror.inside(&memory), len))?;
    mirror.write(&vec![VALUE as u8; len]);
    ctx.verify("filled memory", &memory, &mirror.bytes)?;
    Ok(time)
}

/// Fills words and verifies them and what is around them. The target is longer than the words.
fn words(ctx: &mut Ctx, home: Home, mut fill: impl FnMut(BlockPart, usize) -> Result<()>) -> Result<()> {
    const COUNT: usize = 10_007;
    const START: usize = 64;
    let mut mirror = crate::mirror::pattern(2, START + COUNT * 4 + 100);
    let memory: Block = ctx.block(home, &mirror)?;
    fill(memory.part(START, COUNT * 4 + 100), COUNT)?;
    for word in mirror[START..][..COUNT * 4].chunks_exact_mut(4) {
        word.copy_from_slice(&WORD.to_ne_bytes());
    }
    ctx.verify("memory filled with words", &memory, &mirror)
}

/// aclrtMemset.
fn fill(library: &Library, dst: BlockPart, value: i32, count: usize) -> Result<()> {
    // SAFETY: the span lies in live memory, and the call is over before its borrow ends.
    let code = unsafe { (library.functions.aclrtMemset)(dst.at(), dst.len(), value, count) };
    library.check("aclrtMemset", code)
}

/// aclrtMemsetD32.
fn fill_words(library: &Library, dst: BlockPart, value: u32, count: usize) -> Result<()> {
    // SAFETY: as for `fill`.
    let code = unsafe { (library.functions.aclrtMemsetD32)(dst.at(), dst.len(), value, count) };
    library.check("aclrtMemsetD32", code)
}
