//! Events: reset, timestamps, and the older queries; notifies, of which a record releases one wait.

use ferry_abi::error::{ensure, refused};
use ferry_abi::memory::Home;
use ferry_abi::stream::{Event, Stream};
use ferry_abi::{Handle, Library, Result, call, kind};

use crate::ctx::Ctx;
use crate::mirror::pattern;
use crate::part::{TourPart, part};
use crate::proof::Proof;

pub const PARTS: &[TourPart] = &[
    part("reset: streams wait for the next record", "reset in order", reset),
    part("timestamps: in order, as elapsed time says", "507006 too early", timestamps),
    part("older queries: event, waits; ExWithFlag", "0 is complete", older_queries),
    part("notifies: a record releases one wait", "Y2 Y3 Y4", notifies),
];

/// ACL_EVENT_SYNC and ACL_EVENT_TIME_LINE.
const SYNC_AND_TIME: u32 = 0x1 | 0x8;

/// aclrtResetEvent.
fn reset_in(library: &Library, event: &Event, stream: &Stream) -> Result<()> {
    // SAFETY: takes handles, which the library looks up.
    unsafe { call!(library, aclrtResetEvent(event.handle(), stream.handle())) }
}

/// One event in many rounds of record, wait and reset, each after the waiting stream has passed.
fn reset(ctx: &mut Ctx) -> Result<Proof> {
    let len = ctx.size(1 << 20, 1 << 16);
    let (first, second) = (ctx.stream()?, ctx.stream()?);
    let event = Event::with_flags(ctx.library, SYNC_AND_TIME)?;
    let (middle, target) = (ctx.block(Home::Device, &vec![0; len])?, ctx.block(Home::Locked, &vec![0; len])?);
    let mut old = vec![0; len];
    first.record(&event)?;
    for round in 1..=8 {
        reset_in(ctx.library, &event, &first)?;
        first.synchronise()?;
        ensure(!event.is_done()?, "aclrtQueryEventStatus after a reset", "not ready", "complete")?;
        second.wait_for(&event)?;
        second.copy(target.all(), middle.all(), kind::DEVICE_TO_HOST)?;
        ensure(!second.is_done()?, "a stream that waits for the next record", "not ready", "complete")?;
        ctx.verify("the target before the next record", &target, &old)?;
        let bytes = pattern(round, len);
        let source = ctx.block(Home::Locked, &bytes)?;
        first.copy(middle.all(), source.all(), kind::HOST_TO_DEVICE)?;
        first.record(&event)?;
        second.synchronise()?;
        ctx.verify("the target", &target, &bytes)?;
        old = bytes;
    }
    ctx.proof()
}

/// aclrtEventGetTimestamp, in microseconds.
fn timestamp(library: &Library, event: &Event) -> Result<u64> {
    let mut time_us = 0;
    // SAFETY: `time_us` is writable for the time of the call.
    unsafe { call!(library, aclrtEventGetTimestamp(event.handle(), &mut time_us)) }?;
    Ok(time_us)
}

fn timestamps(ctx: &mut Ctx) -> Result<Proof> {
    let (library, len) = (ctx.library, ctx.small());
    let bytes = pattern(1, len);
    let (source, target) = (ctx.block(Home::Locked, &bytes)?, ctx.block(Home::Device, &pattern(2, len))?);
    let stream = ctx.stream()?;
    let events = (0..16).map(|_| Event::with_flags(library, SYNC_AND_TIME)).collect::<Result<Vec<_>>>()?;
    let never = timestamp(library, &events[0]).map(drop);
    refused("the time of an event never recorded", 107006, never)?;
    let blocker = stream.block()?;
    for event in &events {
        stream.record(event)?;
        stream.copy(target.all(), source.all(), kind::HOST_TO_DEVICE)?;
    }
    refused("the time of an event not reached", 507006, timestamp(library, &events[0]).map(drop))?;
    blocker.unblock();
    stream.synchronise()?;
    let times = events.iter().map(|event| timestamp(library, event)).collect::<Result<Vec<_>>>()?;
    ensure(times.is_sorted() && times[0] > 0, "times of one stream", "in order", format!("{times:?}"))?;
    let (told, elapsed) = ((times[15] - times[0]) as f64 / 1e3, events[15].ms_since(&events[0])?);
    let near = (told - f64::from(elapsed)).abs() < 0.01 + told / 1e3;
    ensure(near, "the difference of two timestamps", format!("{elapsed} ms"), format!("{told} ms"))?;
    ctx.verify("the target", &target, &bytes)?;
    ctx.proof()
}

/// aclrtQueryEvent and aclrtQueryEventWaitStatus, in whose answers 0 is complete.
fn older(library: &Library, event: &Event) -> Result<[i32; 2]> {
    let [mut recorded, mut waits] = [-1; 2];
    // SAFETY: both answers are writable for the time of the calls.
    unsafe {
        call!(library, aclrtQueryEvent(event.handle(), &mut recorded))?;
        call!(library, aclrtQueryEventWaitStatus(event.handle(), &mut waits))?;
    }
    Ok([recorded, waits])
}

fn older_queries(ctx: &mut Ctx) -> Result<Proof> {
    const SYNC: u32 = 0x1;
    let library = ctx.library;
    let bytes = pattern(1, 4096);
    let (source, target) = (ctx.block(Home::Locked, &bytes)?, ctx.block(Home::Device, &pattern(2, 4096))?);
    let (first, second, event) = (ctx.stream()?, ctx.stream()?, ctx.event()?);
    let blocker = first.block()?;
    first.copy(target.all(), source.all(), kind::HOST_TO_DEVICE)?;
    first.record(&event)?;
    ensure(
        older(library, &event)? == [1, 0],
        "before anybody waits",
        "1 and 0",
        format!("{:?}", older(library, &event)?),
    )?;
    second.wait_for(&event)?;
    ensure(
        older(library, &event)? == [1, 1],
        "while a stream waits",
        "1 and 1",
        format!("{:?}", older(library, &event)?),
    )?;
    blocker.unblock();
    second.synchronise()?;
    ensure(
        older(library, &event)? == [0, 0],
        "afterwards",
        "0 and 0",
        format!("{:?}", older(library, &event)?),
    )?;
    let newest = Event::newest(library, SYNC)?;
    ensure(newest.is_done()?, "an event of ExWithFlag never recorded", "complete", "not ready")?;
    refused("aclrtQueryEvent of it", 107000, older(library, &newest).map(drop))?;
    let blocker = first.block()?;
    first.record(&newest)?;
    ensure(!newest.is_done()?, "the same behind a hold", "not ready", "complete")?;
    blocker.unblock();
    newest.synchronise()?;
    ctx.verify("the target", &target, &bytes)?;
    ctx.proof()
}

/// Two streams wait for one notify, one after the other, before it is recorded: each record lets one go on.
fn notifies(ctx: &mut Ctx) -> Result<Proof> {
    let library = ctx.library;
    let (before, after) = (pattern(1, 4096), pattern(2, 4096));
    let source = ctx.block(Home::Locked, &after)?;
    let targets = [ctx.block(Home::Device, &before)?, ctx.block(Home::Device, &before)?];
    let (recording, waiting) = (ctx.stream()?, [ctx.stream()?, ctx.stream()?]);
    let mut notify: Handle = std::ptr::null_mut();
    // SAFETY: `notify` is writable for the time of the call.
    unsafe { call!(library, aclrtCreateNotify(&mut notify, 0)) }?;
    for (stream, target) in waiting.iter().zip(&targets) {
        // SAFETY: takes handles, which the library looks up.
        unsafe { call!(library, aclrtWaitAndResetNotify(notify, stream.handle(), 0)) }?;
        stream.copy(target.all(), source.all(), kind::HOST_TO_DEVICE)?;
    }
    for (round, stream) in waiting.iter().enumerate() {
        ensure(!stream.is_done()?, "a stream that waits for a notify", "not ready", "complete")?;
        // SAFETY: takes handles, which the library looks up.
        unsafe { call!(library, aclrtRecordNotify(notify, recording.handle())) }?;
        stream.synchronise_within(60_000)?;
        ctx.verify("the target behind a notify", &targets[round], &after)?;
        let others = waiting.iter().skip(round + 1);
        for (other, target) in others.zip(targets.iter().skip(round + 1)) {
            ensure(!other.is_done()?, "the next stream that waits", "not ready", "complete")?;
            ctx.verify("the target of the next stream", target, &before)?;
        }
    }
    // SAFETY: takes a handle, which the library looks up.
    unsafe { call!(library, aclrtDestroyNotify(notify)) }?;
    ctx.proof()
}
