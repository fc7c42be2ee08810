//! Reductions: device memory combined with device memory, element by element, in stream order.

use ferry_abi::memory::Home;
use ferry_abi::{Result, kind};

use super::around::Around;
use crate::ctx::Ctx;
use crate::mirror::pattern;
use crate::part::{TourPart, part};
use crate::proof::Proof;

pub const PARTS: &[TourPart] = &[
    part("sums of 32-bit floats, at odd addresses", "", sums),
    part("maximum and minimum of 16-bit integers", "", extremes),
    part("a sum between two copies of its stream", "X1", between),
];

// `aclrtReduceKind`.
const SUM: i32 = 10;
const MAX: i32 = 11;
const MIN: i32 = 12;

// `aclDataType`.
const FLOAT: i32 = 0;
const INT16: i32 = 6;

/// Floats of the test are whole numbers below this, so that sums of a few of them are exact.
const FLOAT_LIMIT: u64 = 1 << 20;

/// Whole numbers as floats.
fn floats(seed: u64, count: usize) -> Vec<f32> {
    (0..count as u64)
        .map(|i| (i * 2_654_435_761 + seed * 97) % FLOAT_LIMIT)
        .map(|number| number as f32)
        .collect()
}

fn bytes(floats: &[f32]) -> Vec<u8> {
    floats.iter().flat_map(|float| float.to_ne_bytes()).collect()
}

/// Repeated for the time it takes; every time adds once more.
fn sums(ctx: &mut Ctx) -> Result<Proof> {
    let count = ctx.large() / 4;
    let stream = ctx.stream()?;
    let (mut to, from) = (floats(1, count), floats(2, count));
    let mut mirror = Around::new(3, count * 4);
    mirror.write(&bytes(&to));
    let (target, source) = (ctx.block(Home::Device, &mirror.bytes)?, ctx.block(Home::Device, &bytes(&from))?);
    let mut rounds = 0;
    let time = ctx.best(|| {
        rounds += 1;
        stream.reduce(mirror.inside(&target), source.all(), SUM, FLOAT)?;
        stream.synchronise()
    })?;
    for _ in 0..rounds {
        to.iter_mut().zip(&from).for_each(|(a, b)| *a += b);
    }
    mirror.write(&bytes(&to));
    ctx.verify("the sums", &target, &mirror.bytes)?;
    ctx.verify("the source", &source, &bytes(&from))?;
    ctx.moved(count * 4, time)
}

fn extremes(ctx: &mut Ctx) -> Result<Proof> {
    let len = ctx.small() / 2 * 2;
    let stream = ctx.stream()?;
    for kind in [MAX, MIN] {
        let (to, from) = (pattern(4, len), pattern(5, len));
        let (target, source) = (ctx.block(Home::Device, &to)?, ctx.block(Home::Device, &from)?);
        stream.reduce(target.all(), source.all(), kind, INT16)?;
        stream.synchronise()?;
        let number = |pair: &[u8]| i16::from_ne_bytes([pair[0], pair[1]]);
        let pairs = to.chunks_exact(2).map(number).zip(from.chunks_exact(2).map(number));
        let one = |(a, b): (i16, i16)| if kind == MAX { a.max(b) } else { a.min(b) };
        let mirror: Vec<u8> = pairs.flat_map(|pair| one(pair).to_ne_bytes()).collect();
        ctx.verify("the larger or the smaller", &target, &mirror)?;
    }
    ctx.proof()
}

fn between(ctx: &mut Ctx) -> Result<Proof> {
    let count = ctx.small() / 4;
    let stream = ctx.stream()?;
    let (first, second) = (floats(6, count), floats(7, count));
    let (up, source) = (ctx.block(Home::Locked, &bytes(&first))?, ctx.block(Home::Device, &bytes(&second))?);
    let (target, back) =
        (ctx.block(Home::Device, &vec![0; count * 4])?, ctx.block(Home::Locked, &vec![0; count * 4])?);
    stream.copy(target.all(), up.all(), kind::HOST_TO_DEVICE)?;
    stream.reduce(target.all(), source.all(), SUM, FLOAT)?;
    stream.copy(back.all(), target.all(), kind::DEVICE_TO_HOST)?;
    stream.fill(target.all(), 0, count * 4)?;
    stream.synchronise()?;
    let sums: Vec<f32> = first.iter().zip(&second).map(|(a, b)| a + b).collect();
    ctx.verify("what came back", &back, &bytes(&sums))?;
    ctx.verify("what was filled afterwards", &target, &vec![0; count * 4])?;
    ctx.proof()
}
