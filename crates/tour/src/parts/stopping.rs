//! Streams that stop: by an abort, by a forced destroy, after a failure; and waits with a timeout.

use ferry_abi::error::{ensure, refused};
use ferry_abi::memory::Home;
use ferry_abi::stream::Stream;
use ferry_abi::{Handle, Library, Result, call, kind};

use crate::ctx::Ctx;
use crate::mirror::pattern;
use crate::part::{TourPart, part};
use crate::proof::Proof;

use super::descriptor;

pub const PARTS: &[TourPart] = &[
    part("abort: queued copies dropped, waiters told", "107023, used again", aborted),
    part("destroyed by force, with copies queued", "nobody waits", by_force),
    part("a failure stops all streams of a context", "107000 every time", stopped),
    part("timeouts of stream, event and device", "507046 507047", timeouts),
];

/// Bytes of each copy.
const LEN: usize = 1 << 16;

/// aclrtStreamAbort.
fn abort(library: &Library, stream: &Stream) -> Result<()> {
    // SAFETY: takes a handle, which the library looks up.
    unsafe { call!(library, aclrtStreamAbort(stream.handle())) }
}

/// The stream is blocked by a host function, so all that is queued behind it is outstanding when it is
/// aborted.
fn aborted(ctx: &mut Ctx) -> Result<Proof> {
    let (before, after) = (pattern(1, LEN), pattern(2, LEN));
    let (target, source) = (ctx.block(Home::Device, &before)?, ctx.block(Home::Locked, &after)?);
    let (stream, other, event) = (ctx.stream()?, ctx.stream()?, ctx.event()?);
    let blocker = stream.block()?;
    for _ in 0..100 {
        stream.copy(target.all(), source.all(), kind::HOST_TO_DEVICE)?;
    }
    stream.record(&event)?;
    other.wait_for(&event)?;
    let (library, enter) = (ctx.library, ctx.entry());
    let (blocker, told) = std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            enter()?;
            stream.synchronise()
        });
        // Whether it waits already or comes a moment later, it is the one to be told.
        match abort(library, &stream) {
            Ok(()) => Ok((blocker, waiter.join().unwrap_or(Ok(())))),
            // Or it would wait for ever.
            Err(error) => {
                blocker.unblock();
                Err(error)
            }
        }
    })?;
    refused("waiting for a stream that is aborted", 107023, told)?;
    stream.synchronise()?;
    other.synchronise()?;
    event.synchronise()?;
    blocker.unblock();
    stream.synchronise()?;
    ctx.verify("the target of dropped copies", &target, &before)?;
    stream.copy(target.all(), source.all(), kind::HOST_TO_DEVICE)?;
    stream.synchronise()?;
    ctx.verify("the target of a copy after the abort", &target, &after)?;
    ctx.proof()
}

fn by_force(ctx: &mut Ctx) -> Result<Proof> {
    let (before, after) = (pattern(1, LEN), pattern(2, LEN));
    let (target, source) = (ctx.block(Home::Device, &before)?, ctx.block(Home::Locked, &after)?);
    let (stream, other, event) = (ctx.stream()?, ctx.stream()?, ctx.event()?);
    let blocker = stream.block()?;
    stream.copy(target.all(), source.all(), kind::HOST_TO_DEVICE)?;
    stream.record(&event)?;
    other.wait_for(&event)?;
    // SAFETY: takes a handle, which the library looks up.
    unsafe { call!(ctx.library, aclrtDestroyStreamForce(stream.handle())) }?;
    other.synchronise()?;
    event.synchronise()?;
    refused("a stream that is destroyed", 107017, stream.synchronise())?;
    blocker.unblock();
    ctx.verify("the target of a dropped copy", &target, &before)?;
    ctx.proof()
}

/// A context of its own, current until it is dropped: one that has stopped does not start again.
struct Context<'c> {
    ctx: &'c Ctx,
    handle: Handle,
}

impl<'c> Context<'c> {
    fn new(ctx: &'c Ctx) -> Result<Context<'c>> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: `handle` is writable for the time of the call.
        unsafe { call!(ctx.library, aclrtCreateContext(&mut handle, 0)) }?;
        Ok(Context { ctx, handle })
    }
}

impl Drop for Context<'_> {
    fn drop(&mut self) {
        // SAFETY: takes a handle, which the library looks up.
        unsafe { (self.ctx.library.functions.aclrtDestroyContext)(self.handle) };
        let _ = self.ctx.current(0);
    }
}

/// The work that fails is a descriptor that was never set. Without the mode, later work runs; with it, none
/// does.
fn stopped(ctx: &mut Ctx) -> Result<Proof> {
    const STOP: u64 = 1;
    let (before, after) = (pattern(1, LEN), pattern(2, LEN));
    for stops in [false, true] {
        let target = ctx.block(Home::Device, &before)?;
        let outcome = {
            let own = Context::new(ctx)?;
            let (blank, source) = (descriptor::blank(ctx)?, ctx.block(Home::Locked, &after)?);
            let (failing, other) = (ctx.stream()?, ctx.stream()?);
            if stops {
                let handle = failing.handle();
                // SAFETY: takes a handle, which the library looks up.
                unsafe { call!(own.ctx.library, aclrtSetStreamFailureMode(handle, STOP)) }?;
            }
            failing.copy_by_descriptor(blank.all(), kind::INNER_DEVICE_TO_DEVICE)?;
            let told = failing.synchronise();
            let later = other.copy(target.all(), source.all(), kind::HOST_TO_DEVICE);
            (told, later, other.synchronise(), failing.synchronise())
        };
        let (told, later, other, again) = outcome;
        refused("the stream that failed", 107000, told)?;
        for (what, outcome) in [("a later copy", later), ("another stream", other), ("asking again", again)] {
            if stops { refused(what, 107000, outcome)? } else { outcome? }
        }
        ctx.verify("the target of the later copy", &target, if stops { &before } else { &after })?;
    }
    ctx.proof()
}

fn timeouts(ctx: &mut Ctx) -> Result<Proof> {
    let (before, after) = (pattern(1, LEN), pattern(2, LEN));
    let (target, source) = (ctx.block(Home::Device, &before)?, ctx.block(Home::Locked, &after)?);
    let (library, stream, event) = (ctx.library, ctx.stream()?, ctx.event()?);
    let blocker = stream.block()?;
    stream.copy(target.all(), source.all(), kind::HOST_TO_DEVICE)?;
    stream.record(&event)?;
    let within = |limit_ms: i32| {
        // SAFETY: both take numbers and a handle, which the library looks up.
        let (of_event, of_device) = unsafe {
            (
                call!(library, aclrtSynchronizeEventWithTimeout(event.handle(), limit_ms)),
                call!(library, aclrtSynchronizeDeviceWithTimeout(limit_ms)),
            )
        };
        [stream.synchronise_within(limit_ms), of_event, of_device]
    };
    for (outcome, code) in within(10).into_iter().zip([507046, 507047, 507046]) {
        refused("waiting 10 ms for a held stream", code, outcome)?;
    }
    ctx.verify("the target while its stream is held", &target, &before)?;
    blocker.unblock();
    within(60_000).into_iter().collect::<Result<()>>()?;
    ensure(stream.is_done()?, "aclrtStreamQuery after all of them", "complete", "not ready")?;
    ctx.verify("the target", &target, &after)?;
    ctx.proof()
}
