//! A stream takes some thousand launches; then the driver keeps whoever brings more.

use super::{gathering::await_end, *};
use std::{
    hint,
    panic::{self, AssertUnwindSafe},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Instant,
};

const PIECE: usize = 64;
const STEP: usize = 2 * PIECE;
const PIECES: usize = 2048;

/// Bursts of the other stream, more than enough for the first to be full.
const BURSTS: usize = 1500;
const BURST: usize = 16;

/// Submits a copy that meets none of its neighbours, so that those which are sent together are one launch.
fn fill(stream: &Stream, dst: usize, src: usize, count: usize) {
    linear(stream, dst + count % PIECES * STEP, src, PIECE);
    let begin = Instant::now();
    // Few in a launch, and many launches.
    while begin.elapsed() < Duration::from_micros(1) {
        hint::spin_loop();
    }
}

fn burst(stream: &Stream, target: &Block, src: usize) {
    (0..BURST).for_each(|at| linear(stream, target.base + at * PIECE, src, PIECE));
}

#[test]
fn a_full_stream_holds_up_no_other() {
    if are_shared() {
        return eprintln!("a_full_stream_holds_up_no_other: skipped: copies of shared streams go one by one");
    }
    let Some(gpu) = gpu("a_full_stream_holds_up_no_other") else { return };
    fill_one_of_two(&gpu, fill);
}

/// No thread of ours may find a stream full: at times others stand still then.
#[test]
fn a_stream_that_waits_is_not_filled() {
    for child in ["room::copies_together", "room::copies_that_meet", "room::copies_one_by_one", "room::marks"]
    {
        lost::in_child(child, &[("STANDIN_FULL_BLOCKS", "1")]);
    }
}

#[test]
#[ignore = "run by a_stream_that_waits_is_not_filled"]
fn copies_together() {
    let Some(gpu) = gpu("copies_together") else { return };
    fill_one_of_two(&gpu, fill);
}

#[test]
#[ignore = "run by a_stream_that_waits_is_not_filled"]
fn marks() {
    let Some(gpu) = gpu("marks") else { return };
    fill_one_of_two(&gpu, |stream, _, _, _| drop(stream.mark().expect("a mark")));
}

#[test]
#[ignore = "run by a_stream_that_waits_is_not_filled"]
fn copies_that_meet() {
    let Some(gpu) = gpu("copies_that_meet") else { return };
    fill_one_of_two(&gpu, |stream, dst, src, _| linear(stream, dst, src, PIECE));
}

#[test]
#[ignore = "run by a_stream_that_waits_is_not_filled"]
fn copies_one_by_one() {
    let Some(gpu) = gpu("copies_one_by_one") else { return };
    fill_one_of_two(&gpu, |stream, dst, src, count| {
        fill(stream, dst, src, count);
        // Sends it.
        drop(stream.fence().expect("a fence"));
    });
}

/// Submits copies to a stream that waits for a held one, until it takes no more, while another stream copies
/// and must come through.
fn fill_one_of_two(gpu: &Runtime, fill: impl Fn(&Stream, usize, usize, usize) + Sync) {
    let (held, full, free, done) = (stream(gpu), stream(gpu), stream(gpu), AtomicBool::new(false));
    let (there, source) = (device(gpu, PIECES * STEP), locked(gpu, &[7; PIECE]));
    let (origin, target) = (device(gpu, PIECE), locked(gpu, &[0; BURST * PIECE]));
    linear(&free, origin.base, source.base, PIECE);
    // The driver may wait for all streams before it launches something for the first time.
    for round in 0..1000 {
        fill(&full, there.base, source.base, round);
        burst(&free, &target, origin.base);
    }
    [&full, &free].iter().for_each(|stream| stream.synchronize(MINUTE).expect("done"));
    held.share().expect("shared");
    let (open, event) = (block(&held), Event::new());
    event.record(&held).expect("recorded");
    full.wait_for(event.latest().expect("recorded")).expect("submitted");
    thread::scope(|scope| {
        scope.spawn(|| {
            let counts = (0..).take_while(|_| !done.load(Ordering::Relaxed));
            counts.for_each(|count| fill(&full, there.base, source.base, count));
        });
        let bursts = panic::catch_unwind(AssertUnwindSafe(|| {
            for _ in 0..BURSTS {
                // SAFETY: a byte of page-locked memory that nothing writes now: the copy that did was seen
                // to.
                unsafe { ptr::write_volatile((target.base + target.len - 1) as *mut u8, 0) };
                burst(&free, &target, origin.base);
                await_end(&target, target.len);
            }
        }));
        done.store(true, Ordering::Relaxed);
        drop(open);
        bursts.unwrap_or_else(|why| panic::resume_unwind(why));
    });
    full.synchronize(MINUTE).expect("done");
}
