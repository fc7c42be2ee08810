//! Order: inside a stream, between streams by events, and between copies and host functions.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ferry_abi::error::{ensure, refused};
use ferry_abi::memory::Home;
use ferry_abi::stream::Stream;
use ferry_abi::{Result, kind};

use crate::ctx::Ctx;
use crate::mirror::pattern;
use crate::part::{TourPart, part};
use crate::proof::Proof;

pub const PARTS: &[TourPart] = &[
    part("event: a second stream waits; elapsed time", "X1", event).everywhere(),
    part("held stream: its waiters wait, others pass", "X1", held),
    part("host functions between copies, in order", "X1", functions),
    part("32 streams at once, 4 steps each", "X1", many),
    part("memory freed while its copies wait", "X4", freed),
];

/// The first stream uploads, the second downloads, and only the second is waited for. The right bytes are
/// uploaded last of several, so that a second stream that does not wait very likely downloads others.
fn event(ctx: &mut Ctx) -> Result<Proof> {
    const NOISE: usize = 7;
    let len = ctx.size(16 << 20, 1 << 20);
    let (bytes, noise) = (pattern(1, len), pattern(2, len));
    let (source, wrong) = (ctx.block(Home::Locked, &bytes)?, ctx.block(Home::Locked, &noise)?);
    let (middle, target) = (ctx.block(Home::Device, &noise)?, ctx.block(Home::Locked, &noise)?);
    let (first, second) = (ctx.stream()?, ctx.stream()?);
    let (begin, end) = (ctx.event()?, ctx.event()?);
    let rounds = ctx.size(5, 2);
    let mut best = f32::INFINITY;
    for round in 0..rounds {
        ctx.progress(round, rounds);
        first.record(&begin)?;
        for _ in 0..NOISE {
            first.copy(middle.all(), wrong.all(), kind::HOST_TO_DEVICE)?;
        }
        first.copy(middle.all(), source.all(), kind::HOST_TO_DEVICE)?;
        first.record(&end)?;
        second.wait_for(&end)?;
        second.copy(target.all(), middle.all(), kind::DEVICE_TO_HOST)?;
        second.synchronise()?;
        ctx.verify("what came out of the second stream", &target, &bytes)?;
        end.synchronise()?;
        ensure(end.is_done()?, "aclrtQueryEventStatus after the work", "complete", "not ready")?;
        best = best.min(end.ms_since(&begin)?);
    }
    ensure(best.is_finite() && best > 0.0, "aclrtEventElapsedTime over copies", "more than 0 ms", best)?;
    ctx.moved((NOISE + 1) * len, Duration::from_secs_f64(f64::from(best) / 1e3))
}

fn held(ctx: &mut Ctx) -> Result<Proof> {
    let (before, after) = (pattern(1, 4096), pattern(2, 4096));
    let source = ctx.block(Home::Locked, &after)?;
    let targets = [ctx.block(Home::Device, &before)?, ctx.block(Home::Device, &before)?];
    let (first, waiting, free, event) = (ctx.stream()?, ctx.stream()?, ctx.stream()?, ctx.event()?);
    let blocker = first.block()?;
    first.record(&event)?;
    waiting.wait_for(&event)?;
    waiting.copy(targets[0].all(), source.all(), kind::HOST_TO_DEVICE)?;
    free.copy(targets[1].all(), source.all(), kind::HOST_TO_DEVICE)?;
    free.synchronise()?;
    ctx.verify("the target of the stream that waits for nobody", &targets[1], &after)?;
    ensure(!event.is_done()?, "aclrtQueryEventStatus behind a hold", "not ready", "complete")?;
    refused("waiting 20 ms for a held stream", 507046, waiting.synchronise_within(20))?;
    ctx.verify("the target of the stream that waits", &targets[0], &before)?;
    blocker.unblock();
    waiting.synchronise_within(60_000)?;
    ctx.verify("the target of the stream that waited", &targets[0], &after)?;
    ctx.proof()
}

/// Each round copies a number in, and a host function notes what it finds there.
fn functions(ctx: &mut Ctx) -> Result<Proof> {
    let rounds = ctx.size(2_000, 100);
    let numbers: Vec<u8> = (0..rounds as u64).flat_map(u64::to_ne_bytes).collect();
    let source = ctx.block(Home::Locked, &numbers)?;
    let middle = ctx.block(Home::Device, &[0; 8])?;
    let landing = Arc::new(ctx.block(Home::Locked, &[0; 8])?);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let stream = ctx.stream()?;
    let begin = Instant::now();
    for round in 0..rounds {
        stream.copy(middle.all(), source.part(round * 8, 8), kind::HOST_TO_DEVICE)?;
        stream.copy(landing.all(), middle.all(), kind::DEVICE_TO_HOST)?;
        let (landing, seen) = (landing.clone(), seen.clone());
        stream.call(move || {
            let number = landing.bytes().unwrap_or_default();
            seen.lock().expect("no host function panics").extend(number);
        })?;
    }
    stream.synchronise()?;
    let time = begin.elapsed();
    let seen = std::mem::take(&mut *seen.lock().expect("no host function panics"));
    ctx.verify_bytes("what the host functions saw", &seen, &numbers)?;
    ctx.called(rounds * 3, time)
}

/// Upload, copy on the device, fill of the end, download: a step too early or too late leaves other bytes.
fn many(ctx: &mut Ctx) -> Result<Proof> {
    const STREAMS: u64 = 32;
    const FAST: u32 = 0x3;
    let len = ctx.size(1 << 20, 1 << 14);
    let lanes = (0..STREAMS).map(|lane| {
        let stream = Stream::with_flags(ctx.library, FAST)?;
        let host = (ctx.block(Home::Locked, &pattern(lane, len))?, ctx.block(Home::Locked, &vec![0; len])?);
        let device = (ctx.block(Home::Device, &vec![0; len])?, ctx.block(Home::Device, &vec![0; len])?);
        Ok((stream, host, device))
    });
    let lanes = lanes.collect::<Result<Vec<_>>>()?;
    let begin = Instant::now();
    for (stream, host, device) in &lanes {
        stream.copy(device.0.all(), host.0.all(), kind::HOST_TO_DEVICE)?;
        stream.copy(device.1.all(), device.0.all(), kind::DEVICE_TO_DEVICE)?;
        stream.fill(device.1.part(len - 64, 64), 0x11, 64)?;
        stream.copy(host.1.all(), device.1.all(), kind::DEVICE_TO_HOST)?;
    }
    // SAFETY: takes no argument.
    let code = unsafe { (ctx.library.functions.aclrtSynchronizeDevice)() };
    ctx.library.check("aclrtSynchronizeDevice", code)?;
    let time = begin.elapsed();
    for (lane, (_, host, _)) in (0..STREAMS).zip(&lanes) {
        let mut mirror = pattern(lane, len);
        mirror[len - 64..].fill(0x11);
        ctx.verify(&format!("what came out of stream {lane}"), &host.1, &mirror)?;
    }
    ctx.moved(STREAMS as usize * len * 3, time)
}

/// Source and middle are freed while the stream is blocked; new blocks of the same size are made and written
/// meanwhile.
fn freed(ctx: &mut Ctx) -> Result<Proof> {
    let len = 1 << 16;
    let (bytes, noise) = (pattern(1, len), pattern(2, len));
    let (source, middle) = (ctx.block(Home::Locked, &bytes)?, ctx.block(Home::Device, &noise)?);
    let target = ctx.block(Home::Locked, &noise)?;
    let (stream, other) = (ctx.stream()?, ctx.stream()?);
    let blocker = stream.block()?;
    stream.copy(middle.all(), source.all(), kind::HOST_TO_DEVICE)?;
    stream.copy(target.all(), middle.all(), kind::DEVICE_TO_HOST)?;
    // SAFETY: both are only given to the library, which made them.
    let (old_middle, old_source) = unsafe { (middle.all().outlive(), source.all().outlive()) };
    source.free()?;
    middle.free()?;
    let late = other.copy(old_middle, old_source, kind::HOST_TO_DEVICE);
    refused("a copy between freed blocks", 107000, late)?;
    let news = [ctx.block(Home::Locked, &noise)?, ctx.block(Home::Device, &noise)?];
    blocker.unblock();
    stream.synchronise()?;
    ctx.verify("what passed through freed memory", &target, &bytes)?;
    ctx.verify("new page-locked memory", &news[0], &noise)?;
    ctx.verify("new device memory", &news[1], &noise)?;
    ctx.proof()
}
