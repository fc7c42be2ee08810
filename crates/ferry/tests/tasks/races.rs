//! Futures against copies that are about as fast as a poll: no wake is lost, whichever comes first.

use crate::kit::{Bell, Dice, LIMIT, block, block_on, device, futures, poll};
use std::{
    sync::mpsc::channel,
    task::Poll,
    thread::{self, scope},
    time::{Duration, Instant},
};

/// How long each of these goes on, and how often at least: where others use the machine or the GPU a turn may
/// take long.
const SPELL: Duration = Duration::from_millis(800);
const TURNS: usize = 100;

#[test]
fn no_wake_is_lost_while_wakers_change() {
    let (device, stream) = device();
    let there = device.alloc_zeroed::<u8>(1).expect("memory");
    let end = Instant::now() + SPELL;
    let (mut dice, mut counts) = (Dice(4), [0; 2]);
    while Instant::now() < end || counts[0] + counts[1] < TURNS {
        let all = futures(&stream, &there).expect("submitted");
        let picked = dice.roll(all.len() as u64) as usize;
        let (name, mut future) = all.into_iter().nth(picked).expect("one of them");
        // A few polls with one waker after the other, from at once to a little later; then the last one must
        // be heard.
        let (polls, pause) = (1 + dice.roll(4), dice.roll(60));
        let mut last = None;
        for _ in 0..polls {
            let (tell, heard) = channel();
            last = match poll(future.as_mut(), &Bell::heard_by(tell).into()) {
                Poll::Pending => Some(heard),
                Poll::Ready(()) => None,
            };
            if last.is_none() {
                break;
            }
            (0..pause).for_each(|_| std::hint::spin_loop());
        }
        counts[usize::from(last.is_some())] += 1;
        if let Some(heard) = last {
            heard.recv_timeout(LIMIT).unwrap_or_else(|_| panic!("{name} is lost"));
            block_on(future);
        }
    }
    println!("{} were done before the last poll, {} were woken", counts[0], counts[1]);
}

#[test]
fn no_wake_is_lost_between_threads_that_pass_a_future_on() {
    let (device, stream) = device();
    let there = device.alloc_zeroed::<u8>(1).expect("memory");
    let end = Instant::now() + SPELL;
    let passed_on = scope(|scope| {
        let (give, given) = channel();
        let finisher = scope.spawn(move || {
            let mut count = 0;
            for future in given {
                block_on::<crate::kit::Task>(future);
                count += 1;
            }
            count
        });
        // The first ones are not done when they are polled.
        let mut gate = Some(block(&stream));
        while Instant::now() < end || gate.is_some() {
            for (_, mut future) in futures(&stream, &there).expect("submitted") {
                let bell = Bell::new();
                if poll(future.as_mut(), &bell.into()).is_pending() {
                    give.send(future).expect("somebody takes it");
                }
            }
            drop(gate.take());
        }
        drop(give);
        finisher.join().expect("all were woken")
    });
    println!("{passed_on} futures were passed on");
    assert!(passed_on > 0);
}

#[test]
fn streams_that_wait_for_each_other_wake_all_who_wait() {
    let (device, _) = device();
    let streams: Vec<_> = (0..3).map(|_| device.stream().expect("a stream")).collect();
    let there = device.alloc_zeroed::<u8>(1).expect("memory");
    let waiters: Vec<_> = (0..200)
        .map(|turn| {
            let (ahead, behind) = (&streams[turn % 3], &streams[(turn + 1) % 3]);
            behind.wait_for(&ahead.record().expect("an event")).expect("submitted");
            futures(behind, &there).expect("submitted")
        })
        .collect();
    let threads: Vec<_> = waiters
        .into_iter()
        .flatten()
        .enumerate()
        .fold([const { Vec::new() }; 3], |mut shares, (turn, (_, future))| {
            shares[turn % 3].push(future);
            shares
        })
        .map(|share| thread::spawn(move || share.into_iter().for_each(block_on)))
        .into_iter()
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("all were woken"));
    streams.iter().for_each(|stream| stream.synchronize().expect("nothing failed"));
}

#[test]
fn work_is_done_though_its_runtime_goes_while_it_comes_back() {
    let mut dice = Dice(7);
    for turn in 0..100 {
        let (device, stream) = device();
        let there = device.alloc_zeroed::<u8>(1).expect("memory");
        let gate = block(&stream);
        stream.upload(&there, device.runtime().alloc_host(1).expect("memory")).map(drop).expect("submitted");
        let event = stream.record().expect("an event");
        let pause = dice.roll(4000);
        let opener = thread::spawn(move || {
            (0..pause).for_each(|_| std::hint::spin_loop());
            gate.unblock();
        });
        // The event is all that is left.
        drop((there, stream, device));
        block_on(event);
        opener.join().unwrap_or_else(|_| panic!("turn {turn}"));
    }
}
