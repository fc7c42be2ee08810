//! Callbacks: functions in stream order that run on a thread of the program when it asks for reports.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Instant;

use ferry_abi::error::{ensure, refused};
use ferry_abi::memory::Home;
use ferry_abi::stream::Stream;
use ferry_abi::{Library, Result, call, kind};

use crate::ctx::Ctx;
use crate::mirror::pattern;
use crate::part::{TourPart, part};
use crate::proof::Proof;

pub const PARTS: &[TourPart] = &[
    part("between copies, run by a thread of its own", "in order, no other", own_thread),
    part("blocking: copies wait; the other kind: none", "held and not held", blocking),
    part("no thread, twice, unsubscribed: refused", "dropped, never run", unsubscribed),
];

/// A thread's subscription to a stream, cancelled on drop.
struct Subscription<'s> {
    library: &'static Library,
    stream: &'s Stream,
    thread: u64,
}

impl<'s> Subscription<'s> {
    /// aclrtSubscribeReport for the thread with that number.
    fn new(library: &'static Library, stream: &'s Stream, thread: u64) -> Result<Subscription<'s>> {
        // SAFETY: takes a number and a handle, which the library looks up.
        unsafe { call!(library, aclrtSubscribeReport(thread, stream.handle())) }?;
        Ok(Subscription { library, stream, thread })
    }

    /// Cancels it now.
    fn end(self) -> Result<()> {
        let outcome = self.take_back();
        std::mem::forget(self);
        outcome
    }

    fn take_back(&self) -> Result<()> {
        // SAFETY: takes a number and a handle, which the library looks up.
        unsafe { call!(self.library, aclrtUnSubscribeReport(self.thread, self.stream.handle())) }
    }
}

impl Drop for Subscription<'_> {
    fn drop(&mut self) {
        // A part that fails drops it on the way out; its own error is the one to show.
        let _ = self.take_back();
    }
}

/// pthread_self().
fn this_thread() -> u64 {
    // SAFETY: takes no argument and cannot fail.
    unsafe { libc::pthread_self() }
}

/// aclrtProcessReport.
fn process(library: &Library, limit_ms: i32) -> Result<()> {
    // SAFETY: takes a number; the callbacks it runs are those of this file.
    unsafe { call!(library, aclrtProcessReport(limit_ms)) }
}

/// Each round copies a number to the host, and a blocking callback notes it before the next copy.
fn own_thread(ctx: &mut Ctx) -> Result<Proof> {
    let (library, rounds) = (ctx.library, ctx.size(2_000, 100));
    let numbers: Vec<u8> = (0..rounds as u64).flat_map(u64::to_ne_bytes).collect();
    let (source, middle) = (ctx.block(Home::Locked, &numbers)?, ctx.block(Home::Device, &[0; 8])?);
    let landing = Arc::new(ctx.block(Home::Locked, &[0; 8])?);
    let (seen, strangers) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
    let (stream, done) = (ctx.stream()?, Arc::new(AtomicBool::new(false)));
    let ((tell, number), (go, subscribed)) = (mpsc::channel(), mpsc::channel::<()>());
    let ended = done.clone();
    let server = std::thread::spawn(move || {
        let _ = tell.send(this_thread());
        let _ = subscribed.recv();
        while !ended.load(Ordering::SeqCst) {
            process(library, 60_000)?;
        }
        Ok(())
    });
    let thread = number.recv().unwrap_or_default();
    let subscription = Subscription::new(library, &stream, thread)?;
    drop(go);
    let begin = Instant::now();
    for round in 0..rounds {
        stream.copy(middle.all(), source.part(round * 8, 8), kind::HOST_TO_DEVICE)?;
        stream.copy(landing.all(), middle.all(), kind::DEVICE_TO_HOST)?;
        let (landing, seen, strangers, done) =
            (landing.clone(), seen.clone(), strangers.clone(), done.clone());
        stream.call_back(true, move || {
            let number = landing.bytes().unwrap_or_default();
            seen.lock().expect("no callback panics").extend(number);
            strangers.fetch_or(this_thread() != thread, Ordering::SeqCst);
            done.fetch_or(round + 1 == rounds, Ordering::SeqCst);
        })?;
    }
    stream.synchronise()?;
    let time = begin.elapsed();
    server.join().unwrap_or(Ok(()))?;
    subscription.end()?;
    let seen = std::mem::take(&mut *seen.lock().expect("no callback panics"));
    ctx.verify_bytes("what the callbacks saw", &seen, &numbers)?;
    let strangers = strangers.load(Ordering::SeqCst);
    ensure(!strangers, "who ran the callbacks", "the subscribed thread", "another")?;
    ctx.called(rounds * 3, time)
}

fn blocking(ctx: &mut Ctx) -> Result<Proof> {
    let library = ctx.library;
    let (before, after) = (pattern(1, 4096), pattern(2, 4096));
    for blocks in [false, true] {
        let (target, source) = (ctx.block(Home::Device, &before)?, ctx.block(Home::Locked, &after)?);
        let (stream, passed) = (ctx.stream()?, ctx.event()?);
        let subscription = Subscription::new(library, &stream, this_thread())?;
        let ran = Arc::new(AtomicBool::new(false));
        let inside = ran.clone();
        stream.record(&passed)?;
        stream.call_back(blocks, move || inside.store(true, Ordering::SeqCst))?;
        stream.copy(target.all(), source.all(), kind::HOST_TO_DEVICE)?;
        passed.synchronise()?;
        if blocks {
            refused("a stream behind a blocking callback", 507046, stream.synchronise_within(10))?;
            ctx.verify("the target behind a blocking callback", &target, &before)?;
        } else {
            stream.synchronise()?;
            ctx.verify("the target behind the other kind", &target, &after)?;
        }
        ensure(!ran.load(Ordering::SeqCst), "a callback nobody asked for", "not to run", "it ran")?;
        process(library, 60_000)?;
        ensure(ran.load(Ordering::SeqCst), "aclrtProcessReport", "to run the callback", "it did not")?;
        stream.synchronise()?;
        ctx.verify("the target", &target, &after)?;
        refused("aclrtProcessReport with nothing due", 507012, process(library, 1))?;
        subscription.end()?;
    }
    ctx.proof()
}

fn unsubscribed(ctx: &mut Ctx) -> Result<Proof> {
    let (library, me) = (ctx.library, this_thread());
    let (before, after) = (pattern(1, 4096), pattern(2, 4096));
    let (target, source) = (ctx.block(Home::Device, &before)?, ctx.block(Home::Locked, &after)?);
    let stream = ctx.stream()?;
    refused("a callback without a thread", 107015, stream.call_back(true, || ()))?;
    let subscription = Subscription::new(library, &stream, me)?;
    let again = Subscription::new(library, &stream, me).and_then(Subscription::end);
    refused("subscribing twice", 100033, again)?;
    let ran = Arc::new(AtomicBool::new(false));
    let inside = ran.clone();
    stream.call_back(true, move || inside.store(true, Ordering::SeqCst))?;
    stream.copy(target.all(), source.all(), kind::HOST_TO_DEVICE)?;
    ctx.verify("the target behind a blocking callback", &target, &before)?;
    subscription.take_back()?;
    // No thread will run the callback, so no call waits for it.
    stream.synchronise()?;
    refused("unsubscribing twice", 107011, subscription.end())?;
    ensure(!ran.load(Ordering::SeqCst), "a callback whose thread has gone", "not to run", "it ran")?;
    ctx.verify("the target", &target, &after)?;
    ctx.proof()
}
