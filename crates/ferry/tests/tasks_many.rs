//! What thousands of futures cost. Alone in its process, since it counts the process's threads.

use ferry::{InFlight, Result, Runtime, Stream};
use ferry_blocker::Blocker;
use std::{
    fs,
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::{Sender, channel},
    },
    task::{Context, Poll, Wake, Waker},
    time::{Duration, Instant},
};

const STREAMS: usize = 4;
const FUTURES: usize = 10_000;
const LIMIT: Duration = Duration::from_secs(100);

/// The process's threads, but for those that run what is in a stream of the stand-in driver (tests/standin),
/// where a GPU does it.
fn threads() -> usize {
    let tasks = fs::read_dir("/proc/self/task").expect("Linux").map(|task| task.expect("a thread").path());
    let names = tasks.filter_map(|task| fs::read_to_string(task.join("comm")).ok());
    names.filter(|name| name.trim_end() != "standin-stream").count()
}

/// Counts wakes, and says when all have come.
struct Count {
    wakes: AtomicUsize,
    all: Sender<()>,
}

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        if self.wakes.fetch_add(1, Ordering::SeqCst) + 1 == FUTURES {
            self.all.send(()).expect("somebody listens");
        }
    }
}

fn poll<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

#[test]
fn thousands_of_futures_cost_no_threads() -> Result<()> {
    let device = Runtime::new()?.device(0)?;
    let streams = (0..STREAMS).map(|_| device.stream()).collect::<Result<Vec<_>>>()?;
    let there = device.alloc_zeroed::<u32>(FUTURES)?;
    streams.iter().try_for_each(|stream| stream.fill(&there, 0).and_then(|()| stream.synchronize()))?;
    let host = |number: usize| device.runtime().alloc_host_from(&[number as u32]);

    // Every stream is blocked; whatever threads the engine needs for that are there.
    let block = |stream: &Stream| {
        let (blocker, function) = Blocker::new();
        stream.call(function).map(|()| blocker)
    };
    let blockers = streams.iter().map(block).collect::<Result<Vec<_>>>()?;
    blockers.iter().for_each(Blocker::wait_until_reached);
    let hosts = (0..FUTURES).map(host).collect::<Result<Vec<_>>>()?;
    // And the one that looks on for all futures, where the engine has such a thread.
    let mut first = streams[0].synchronized();
    assert!(poll(&mut first, Waker::noop()).is_pending());
    let before = threads();

    let start = Instant::now();
    let mut tokens: Vec<InFlight<_>> = hosts
        .into_iter()
        .enumerate()
        .map(|(number, host)| Ok(streams[number % STREAMS].upload(there.slice(number..=number)?, host)?))
        .collect::<Result<_>>()?;
    let submitted = start.elapsed();

    let (all, heard) = channel();
    let count = Arc::new(Count { wakes: AtomicUsize::new(0), all });
    let waker = Waker::from(count.clone());
    let start = Instant::now();
    assert!(tokens.iter_mut().all(|token| poll(token, &waker).is_pending()));
    let registered = start.elapsed();
    assert_eq!(threads(), before, "threads, with {FUTURES} futures pending");
    assert_eq!(count.wakes.load(Ordering::SeqCst), 0, "the streams are blocked");

    let start = Instant::now();
    drop(blockers);
    heard.recv_timeout(LIMIT).expect("all are woken");
    let woken = start.elapsed();
    assert!(threads() <= before, "no more threads are needed to complete them");
    for (number, token) in tokens.iter_mut().enumerate() {
        let Poll::Ready(host) = poll(token, &waker) else { panic!("{number} was woken too early") };
        assert_eq!(host?[..], [number as u32]);
    }
    assert_eq!(count.wakes.load(Ordering::SeqCst), FUTURES, "one wake each");
    println!(
        "{FUTURES} copies: submitted in {submitted:?}, polled in {registered:?}, all woken {woken:?} after \
         the streams went on"
    );

    let want: Vec<u32> = (0..FUTURES as u32).collect();
    assert_eq!(streams[0].read_vec(&there)?, want);
    drop((tokens, waker));
    assert_eq!(Arc::strong_count(&count), 1, "no waker is left behind");
    Ok(())
}
