//! A stream takes some thousand launches; then the driver keeps whoever brings more.

use super::{gathering::await_end, *};
use std::{
    panic::{self, AssertUnwindSafe},
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

const PIECE: usize = 64;

/// Bursts of another stream, more than enough for the first to be full.
const BURSTS: usize = 1500;

#[test]
fn a_full_stream_holds_up_no_other() {
    let Some(gpu) = gpu("a_full_stream_holds_up_no_other") else { return };
    let (held, full, free, done) = (stream(&gpu), stream(&gpu), stream(&gpu), AtomicBool::new(false));
    let (there, source, target) =
        (device(&gpu, 4096), locked(&gpu, &[7; 4096]), locked(&gpu, &[0; 16 * PIECE]));
    linear(&free, there.base, source.base, 4096);
    free.synchronize(MINUTE).expect("done");
    held.share().expect("shared");
    let (open, event) = (gate(&held), Event::new());
    event.record(&held).expect("recorded");
    full.wait_for(event.latest().expect("recorded")).expect("submitted");
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                linear(&full, there.base + PIECE, source.base, PIECE);
            }
        });
        let bursts = panic::catch_unwind(AssertUnwindSafe(|| {
            for _ in 0..BURSTS {
                // SAFETY: page-locked memory that nothing in flight writes.
                unsafe { ptr::write_bytes(target.base as *mut u8, 0, target.len) };
                (0..16).for_each(|at| linear(&free, target.base + at * PIECE, there.base, PIECE));
                await_end(&target, target.len);
            }
        }));
        done.store(true, Ordering::Relaxed);
        drop(open);
        bursts.unwrap_or_else(|why| panic::resume_unwind(why));
    });
    full.synchronize(MINUTE).expect("done");
}
