//! Tasks under tokio, smol and the least that an executor can be.

use crate::kit::{LIMIT, block, block_on, device, futures};
use ferry::{Batch, Device, Error, InFlight, Kind, Reached, Result, Stream, Synchronized};
use std::{future::Future, pin::pin};
use tokio::{runtime::Builder, task::JoinSet, time::timeout};

/// Goes there and back in every way that can be awaited.
async fn round(device: Device, stream: Stream, seed: u8) -> Result<()> {
    let runtime = device.runtime();
    let bytes: Vec<u8> = (0..200).map(|i| seed.wrapping_mul(31).wrapping_add(i)).collect();
    let there = device.alloc::<u8>(bytes.len())?;

    let host = stream.upload(&there, runtime.alloc_host_from(&bytes)?)?.await?;
    assert_eq!(host[..], bytes);
    let back = stream.download(runtime.alloc_host::<u8>(bytes.len())?, &there)?.await?;
    assert_eq!(back[..], bytes);

    let mut batch = Batch::new(back);
    batch.push(there.slice(..50)?, 150..200)?;
    batch.push(there.slice(150..)?, 0..50)?;
    let swapped = stream.upload_batch(batch)?.await?;
    let mut batch = Batch::new(swapped);
    batch.push(&there, 0..200)?;
    let swapped = stream.download_batch(batch)?.await?;
    assert_eq!(swapped[..], [&bytes[150..], &bytes[50..150], &bytes[..50]].concat());

    let host = runtime.alloc_host::<u8>(bytes.len())?;
    let (graph, kept) = device.capture(|main| {
        let kept = main.keep(host);
        main.fork()?.download(kept, &there)?;
        Ok(kept)
    })?;
    let graph = graph.launch(&stream)?.await?.launch(&stream)?.launch(&stream)?.await?;
    assert_eq!(graph[kept][..], [&bytes[150..], &bytes[50..150], &bytes[..50]].concat());

    stream.fill(&there, seed)?;
    let event = stream.record()?;
    (&event).await;
    (&event).await;
    event.await;
    let token = stream.download(swapped, &there)?;
    stream.synchronized().await?;
    assert!(token.is_done());
    assert_eq!(token.await?[..], [seed; 200]);
    Ok(())
}

/// Many rounds at once, over a few streams, in tasks that any thread may run.
async fn rounds(device: Device) -> Result<()> {
    let streams = (0..3).map(|_| device.stream()).collect::<Result<Vec<_>>>()?;
    let mut tasks = JoinSet::new();
    for seed in 0..60 {
        tasks.spawn(round(device.clone(), streams[seed as usize % 3].clone(), seed));
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("no panic")?;
    }
    Ok(())
}

#[test]
fn under_tokio_on_one_thread() {
    let tokio = Builder::new_current_thread().enable_time().build().expect("tokio");
    tokio.block_on(async { timeout(LIMIT, rounds(device().0)).await }).expect("in time").expect("done");
}

#[test]
fn under_tokio_on_several_threads() {
    let tokio = Builder::new_multi_thread().worker_threads(3).enable_time().build().expect("tokio");
    tokio.block_on(async { timeout(LIMIT, rounds(device().0)).await }).expect("in time").expect("done");
}

#[test]
fn under_smol() {
    let (device, stream) = device();
    let other = device.stream().expect("a stream");
    let executor = smol::Executor::new();
    let tasks: Vec<_> = (0..40)
        .map(|seed| {
            let stream = if seed % 2 == 0 { &stream } else { &other };
            executor.spawn(round(device.clone(), stream.clone(), seed))
        })
        .collect();
    let all = async {
        for task in tasks {
            task.await.expect("done");
        }
    };
    let late = async {
        smol::Timer::after(LIMIT).await;
        panic!("nobody woke a task");
    };
    smol::block_on(executor.run(smol::future::or(all, late)));
}

#[test]
fn under_nothing_but_block_on() {
    let (device, stream) = device();
    (0..20).for_each(|seed| block_on(round(device.clone(), stream.clone(), seed)).expect("done"));
}

#[test]
fn what_is_awaited_behind_a_gate_is_done_when_it_opens() {
    let (device, stream) = device();
    let there = device.alloc_zeroed::<u8>(16).expect("memory");
    let gate = block(&stream);
    let all = futures(&stream, &there).expect("submitted");
    let opener = std::thread::spawn(move || gate.unblock());
    block_on(async {
        for (_, future) in all {
            future.await;
        }
    });
    opener.join().expect("no panic");
}

#[test]
fn a_token_goes_on_to_another_stream_and_is_awaited_there() {
    let (device, first) = device();
    let second = device.stream().expect("a stream");
    let (a, b) = (device.alloc_from(b"old").expect("memory"), device.alloc_from(b"new").expect("memory"));
    let gate = block(&first);
    let token = first.upload(&a, device.runtime().alloc_host_from(b"hay").expect("memory")).expect("sent");
    let mut token = pin!(second.download(token, &b).expect("sent"));
    assert!(!token.is_done(), "the upload is at the gate");
    gate.unblock();
    assert_eq!(block_on(token.as_mut()).expect("copied")[..], *b"new");
    assert_eq!(first.read_vec(&a).expect("read"), *b"hay", "sent before it was written again");
}

#[test]
fn tasks_are_told_of_aborts_and_failures() {
    let (device, stream) = device();
    let there = device.alloc_zeroed::<u8>(3).expect("memory");
    let host = || device.runtime().alloc_host_from(b"abc").expect("memory");
    let kind = |result: Result<()>| result.map_err(|error: Error| error.kind);

    let gate = block(&stream);
    let (token, synchronized) = (stream.upload(&there, host()).expect("sent"), stream.synchronized());
    stream.abort();
    assert_eq!(kind(block_on(synchronized)), Err(Kind::Aborted));
    let failed = block_on(token).expect_err("dropped");
    assert_eq!((failed.error.kind, &failed.buffer[..]), (Kind::Aborted, &b"abc"[..]));
    gate.unblock();
    assert_eq!(kind(block_on(stream.synchronized())), Ok(()), "both were told");

    stream.run(&device.descriptor().expect("memory")).expect("sent");
    let token = stream.upload(&there, host()).expect("sent");
    let failed = block_on(token).expect_err("what came before it failed");
    assert_eq!(failed.error.kind, Kind::BadDescriptor);
    assert_eq!(kind(block_on(stream.synchronized())), Err(Kind::BadDescriptor));
    assert_eq!(kind(block_on(stream.synchronized())), Ok(()), "told");
    block_on(stream.upload(&there, failed.buffer).expect("sent")).expect("copied");
    assert_eq!(stream.read_vec(&there).expect("read"), *b"abc");
}

#[test]
fn everyone_who_awaits_an_aborted_stream_is_told() {
    let (_device, stream) = device();
    let gate = block(&stream);
    let both = [stream.synchronized(), stream.synchronized()];
    stream.abort();
    gate.unblock();
    for synchronized in both {
        assert_eq!(block_on(synchronized).map_err(|error| error.kind), Err(Kind::Aborted));
    }
}

#[test]
fn a_stream_without_work_is_synchronized() {
    let (_device, stream) = device();
    block_on(stream.synchronized()).expect("nothing to wait for");
    stream.synchronize().expect("nothing to wait for");
    block_on(stream.record().expect("an event"));
}

#[test]
fn futures_can_be_spawned_anywhere() {
    fn is_free<F: Future + Send + Sync + Unpin + 'static>() {}
    is_free::<InFlight<ferry::HostBuffer<f32>>>();
    is_free::<InFlight<Vec<ferry::HostBuffer<f32>>>>();
    is_free::<InFlight<ferry::Part<ferry::SharedBuffer<u8>>>>();
    is_free::<Reached>();
    is_free::<Synchronized>();
}

#[test]
fn one_thread_runs_thousands_of_tasks() {
    let (device, stream) = device();
    let streams = [stream, device.stream().expect("a stream")];
    let there = device.alloc_zeroed::<u32>(3000).expect("memory");
    let tokio = Builder::new_current_thread().enable_time().build().expect("tokio");
    let all = async {
        let mut tasks = JoinSet::new();
        for number in 0..there.len() {
            let (stream, there) = (streams[number % 2].clone(), there.clone());
            tasks.spawn(async move {
                let part = there.slice(number..=number)?;
                let host = stream.device().runtime().alloc_host_from(&[number as u32])?;
                let back = stream.download(stream.upload(part, host)?, part)?.await?;
                assert_eq!(back[..], [number as u32]);
                stream.synchronized().await
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.expect("no panic").expect("no error");
        }
    };
    tokio.block_on(async { timeout(LIMIT, all).await }).expect("in time");
}
