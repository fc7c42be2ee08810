//! Futures that are dropped half-way: the executor goes on, the copy goes on, and the memory is nobody else's
//! until it is done.

use crate::kit::{Bell, LIMIT, block, block_on, device, futures, poll};
use ferry::{Device, HostBuffer, InFlight, Result, Stream};
use ferry_blocker::Blocker;
use std::{
    collections::BTreeSet,
    sync::mpsc::channel,
    task::Poll,
    thread,
    time::{Duration, Instant},
};
use tokio::{runtime::Builder, time::timeout};

/// More than the ranges that rest before a backend uses them again: memory that is free too early is handed
/// out again here.
const MANY: usize = 600;
const LEN: usize = 4096;

fn on_one_thread<F: Future>(body: F) -> F::Output {
    let tokio = Builder::new_current_thread().enable_time().build().expect("tokio");
    tokio.block_on(async { timeout(LIMIT, body).await.expect("in time") })
}

#[test]
fn dropping_futures_in_flight_does_not_block_the_executor() {
    let (device, stream) = device();
    let there = device.alloc_zeroed::<u8>(4).expect("memory");
    let gate = block(&stream);
    let (tell, done) = channel();
    let executor = move || {
        on_one_thread(async {
            let mut all = futures(&stream, &there).expect("submitted");
            let unpolled = futures(&stream, &there).expect("submitted");
            for (_, future) in &mut all {
                assert_eq!(poll(future.as_mut(), &Bell::new().into()), Poll::Pending);
            }
            // The one thread that there is opens the gate after all were dropped: who waited here would wait
            // for ever.
            let opener = tokio::spawn(async move { gate.unblock() });
            drop((all, unpolled));
            opener.await.expect("no panic");
            stream.synchronized().await.expect("done");
        });
        tell.send(()).expect("somebody listens");
    };
    // Not joined, so that an executor that hangs is seen.
    thread::spawn(executor);
    done.recv_timeout(LIMIT).expect("the executor goes on");
}

#[test]
fn a_task_that_is_cancelled_at_an_await_lets_its_copy_go_on() {
    let (device, stream) = device();
    let there = device.alloc_zeroed::<u8>(5).expect("memory");
    let gate = block(&stream);
    on_one_thread(async {
        let token = stream.upload(&there, device.runtime().alloc_host_from(b"hello")?)?;
        let task = tokio::spawn(async { token.await.map(drop) });
        tokio::task::yield_now().await;
        task.abort();
        assert!(task.await.expect_err("cancelled").is_cancelled());
        gate.unblock();
        stream.synchronized().await
    })
    .expect("done");
    assert_eq!(stream.read_vec(&there).expect("read"), *b"hello");
}

#[test]
fn the_loser_of_a_select_goes_on_or_is_asked_again() {
    let (device, stream) = device();
    let there = device.alloc_zeroed::<u8>(5).expect("memory");
    let gate = block(&stream);
    on_one_thread(async {
        let runtime = device.runtime();
        let mut kept = stream.upload(there.slice(..2)?, runtime.alloc_host_from(b"ke")?)?;
        let lost = stream.upload(there.slice(2..)?, runtime.alloc_host_from(b"pt!")?)?;
        let event = stream.record()?;
        tokio::select! {
            biased;
            _ = &mut kept => panic!("the gate is closed"),
            _ = lost => panic!("the gate is closed"),
            () = async { (&event).await } => panic!("the gate is closed"),
            () = tokio::task::yield_now() => {}
        }
        for _ in 0..3 {
            assert!(timeout(Duration::from_millis(1), &mut kept).await.is_err(), "the gate is closed");
            assert!(timeout(Duration::from_millis(1), stream.synchronized()).await.is_err());
            assert!(timeout(Duration::from_millis(1), &event).await.is_err());
        }
        gate.unblock();
        assert_eq!(kept.await?[..], *b"ke");
        event.await;
        Ok::<_, ferry::Error>(())
    })
    .expect("done");
    assert_eq!(stream.read_vec(&there).expect("read"), *b"kept!");
}

/// Page-locked buffers full of what their number says.
fn buffers(device: &Device, count: usize, salt: usize) -> Result<Vec<HostBuffer<u32>>> {
    let fill = |number| device.runtime().alloc_host_from(&[(number + salt) as u32; LEN / 4]);
    (0..count).map(fill).collect()
}

/// Polls a token once, or not at all, and drops it.
fn lose(token: InFlight<HostBuffer<u32>>, number: usize) {
    let mut token = Box::pin(token);
    if number.is_multiple_of(2) {
        assert!(poll(token.as_mut(), &Bell::new().into()).is_pending());
    }
}

#[test]
fn a_dropped_upload_sends_the_bytes_it_was_given() {
    let (device, stream) = device();
    let there = device.alloc_zeroed::<u32>(MANY * LEN / 4).expect("memory");
    let gate = block(&stream);
    for (number, host) in buffers(&device, MANY, 0).expect("memory").into_iter().enumerate() {
        let part = there.slice(number * LEN / 4..(number + 1) * LEN / 4).expect("inside");
        lose(stream.upload(part, host).expect("sent"), number);
    }
    // Would be in the old ones' place if that were free.
    let others = buffers(&device, 2 * MANY, 1_000_000).expect("memory");
    gate.unblock();
    let bytes = stream.read_vec(&there).expect("read");
    for (number, part) in bytes.chunks(LEN / 4).enumerate() {
        assert!(part.iter().all(|word| *word == number as u32), "buffer {number}");
    }
    drop(others);
}

#[test]
fn a_dropped_download_writes_into_nobody_elses_memory() {
    let (device, stream) = device();
    let there = device.alloc_from(&[u32::MAX; LEN / 4]).expect("memory");
    let gate = block(&stream);
    for (number, host) in buffers(&device, MANY, 0).expect("memory").into_iter().enumerate() {
        lose(stream.download(host, &there).expect("sent"), number);
    }
    let others = buffers(&device, 2 * MANY, 1_000_000).expect("memory");
    gate.unblock();
    stream.synchronize().expect("done");
    for (number, other) in others.iter().enumerate() {
        assert!(other.iter().all(|word| *word == 1_000_000 + number as u32), "buffer {number}");
    }
}

/// A stream at a gate with a copy, an event and a function behind it, and somebody who hears of the function.
fn at_a_gate() -> (Blocker, Stream, Vec<(&'static str, crate::kit::Task)>, impl Fn() -> bool) {
    let (device, stream) = device();
    let there = device.alloc_zeroed::<u8>(5).expect("memory");
    let gate = block(&stream);
    let all = futures(&stream, &there).expect("submitted");
    let (tell, heard) = channel();
    stream.call(move || tell.send(()).expect("somebody listens")).expect("submitted");
    (gate, stream, all, move || heard.recv_timeout(LIMIT).is_ok())
}

#[test]
fn a_future_is_all_that_must_be_kept() {
    for kind in 0..6 {
        let (gate, stream, mut all, heard) = at_a_gate();
        let (name, mut future) = all.swap_remove(kind);
        drop((stream, all));
        assert_eq!(poll(future.as_mut(), &Bell::new().into()), Poll::Pending, "{name}");
        gate.unblock();
        block_on(future);
        assert!(heard(), "{name}: what was submitted later runs too");
    }
}

#[test]
fn work_runs_to_its_end_when_nothing_is_kept() {
    let (gate, stream, all, heard) = at_a_gate();
    drop((stream, all));
    gate.unblock();
    assert!(heard());
}

#[test]
fn memory_comes_back_when_futures_are_gone() {
    let (device, stream) = device();
    let free = || device.memory_info().expect("known").free;
    let before = free();
    let mut addresses = BTreeSet::new();
    for turn in 0..40 {
        let gate = block(&stream);
        let there = device.alloc::<u32>(100 * LEN / 4).expect("memory");
        let mut tokens = Vec::new();
        for (number, host) in buffers(&device, 100, turn).expect("memory").into_iter().enumerate() {
            addresses.insert(host.as_ptr() as usize);
            let part = there.slice(number * LEN / 4..(number + 1) * LEN / 4).expect("inside");
            tokens.push(stream.upload(part, host).expect("sent"));
        }
        drop(there);
        assert!(free() <= before - 100 * LEN, "in use");
        let kept = tokens.split_off(50);
        tokens.into_iter().enumerate().for_each(|(number, token)| lose(token, number));
        gate.unblock();
        kept.into_iter().for_each(|token| drop(block_on(token).expect("copied")));
        let end = Instant::now() + LIMIT;
        while free() < before && Instant::now() < end {}
        assert_eq!(free(), before, "turn {turn}");
    }
    // 4000 buffers, of which at most 100 were in use and some hundreds rested: their addresses come again.
    assert!(addresses.len() < 2000, "{} addresses", addresses.len());
}
