//! Everything at once, for a long time: threads that copy, allocate, free, map, wait and synchronise at
//! random, every byte that comes back compared, and at the end nothing lost and nothing kept.
//!
//! Threads own what they use, so whatever differs is the library's doing. Three seconds by default;
//! FERRY_SOAK_SECONDS makes it longer, FERRY_SOAK_SEED repeats other choices.

mod acts;
mod gauge;
mod ground;
mod guests;
mod heap;
mod random;
mod site;
mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ferry_tests::*;
use gauge::{Gauge, Margin};
use worker::{Board, Worker, name_of};

const THREADS: usize = 24;
const STREAMS: usize = 1000;
/// Looks at the process during the soak: every ten seconds of five minutes.
const LOOKS: u32 = 30;
/// Time from which on a trend means something: below, the process only warms up.
const WARM: Duration = Duration::from_secs(30);
/// A thread that does nothing for so long hangs.
const HANG: Duration = Duration::from_secs(120);

#[test]
fn nothing_is_lost_and_nothing_is_kept() {
    let time = Duration::from_secs(setting("FERRY_SOAK_SECONDS", 3));
    let seed = setting("FERRY_SOAK_SEED", 1);
    let free = open();
    match time < WARM {
        true => drop(soak(time, seed)),
        false => soak_and_weigh(time, seed),
    }
    assert_eq!(free_memory(), free, "free bytes of both devices, before and after");
}

/// A soak with a look at what the process holds: at rest before and after, and whether it grows meanwhile.
fn soak_and_weigh(time: Duration, seed: u64) {
    // What a process keeps for its whole life it has after a first round.
    soak(time / 10, !seed);
    let before = rest();
    println!("at rest before:   {before}");
    let looks = soak(time, seed);
    let after = rest();
    println!("at rest after:    {after}");
    gauge::assert_no_growth(&looks);
    after.assert_not_above(&before, Margin::AT_REST, "everything given back, compared with before");
}

/// One round: threads with new streams act for this long and give everything back. What the process held
/// meanwhile.
fn soak(time: Duration, seed: u64) -> Vec<Gauge> {
    let board = Arc::new(Board::new(THREADS));
    let looks = std::thread::scope(|scope| {
        for number in 0..THREADS {
            // 1,000 streams are not the same number for each of 24 threads.
            let streams = STREAMS / THREADS + usize::from(number < STREAMS % THREADS);
            let board = board.clone();
            scope.spawn(move || {
                let _stop = StopOnPanic(board.clone());
                let worker = Worker::new(number, streams, seed ^ (number as u64) << 32, board.clone());
                board.ready.fetch_add(1, Ordering::Release);
                worker.run();
            });
        }
        eventually("every thread has its streams", || {
            board.ready.load(Ordering::Acquire) == THREADS || board.stop.load(Ordering::Relaxed)
        });
        watch(&board, time)
    });
    let total = |number: &AtomicU64| number.load(Ordering::Relaxed);
    let (accepted, seen, bytes) = (total(&board.accepted), total(&board.seen), total(&board.bytes));
    println!("{bytes} bytes compared; {accepted} calls accepted, {seen} seen done");
    assert_eq!(accepted, seen, "calls that were accepted, and calls that were seen done");
    looks
}

/// What the process holds when nothing is under way: threads for host functions end a while after the last
/// one, and what the C library keeps of freed memory is not ours.
fn rest() -> Gauge {
    eventually("threads without work end", || blocked::named("ferry-call").is_empty());
    // SAFETY: gives back memory that nobody uses.
    unsafe { libc::malloc_trim(0) };
    Gauge::read()
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// Opens both devices to each other; the free bytes of both.
fn open() -> [usize; 2] {
    // Large blocks go back to the system when they are freed, so that resident memory tells what is in use.
    // SAFETY: a setting of the C library, before any thread of the soak.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, 256 << 10) };
    ok(aclInit(std::ptr::null()));
    for device in [1, 0] {
        ok(aclrtSetDevice(device));
        ok(aclrtDeviceEnablePeerAccess(1 - device, 0));
    }
    free_memory()
}

fn free_memory() -> [usize; 2] {
    [0, 1].map(|device| {
        ok(aclrtSetDevice(device));
        let (mut free, mut total) = (0, 0);
        ok(aclrtGetMemInfo(1, &mut free, &mut total));
        free
    })
}

/// The others need not go on when one thread has failed.
struct StopOnPanic(Arc<Board>);

impl Drop for StopOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop.store(true, Ordering::Relaxed);
        }
    }
}

/// Looks at the process and at every thread's progress until the time is over, and tells the threads to end.
fn watch(board: &Board, time: Duration) -> Vec<Gauge> {
    let start = Instant::now();
    let mut progress = vec![(0, start); THREADS];
    let mut looks = Vec::new();
    for look in 1..=LOOKS {
        while start.elapsed() < time * look / LOOKS && !board.stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(20));
        }
        look_for_hangs(board, &mut progress);
        let gauge = Gauge::read();
        let acts: u64 = progress.iter().map(|thread| thread.0).sum();
        println!("{:6.1} s: {acts} acts, {gauge}", start.elapsed().as_secs_f32());
        looks.push(gauge);
    }
    board.stop.store(true, Ordering::Relaxed);
    looks
}

fn look_for_hangs(board: &Board, progress: &mut [(u64, Instant)]) {
    for (number, (last, since)) in progress.iter_mut().enumerate() {
        let acts = board.acts[number].load(Ordering::Relaxed);
        if acts != *last {
            (*last, *since) = (acts, Instant::now());
        } else if since.elapsed() > HANG {
            let at = name_of(board.at[number].load(Ordering::Relaxed));
            eprintln!("thread {number} has been at {at:?} for {} s", since.elapsed().as_secs());
            // Threads that hang cannot be joined.
            std::process::abort();
        }
    }
}
