//! A storm: tasks on several streams await, drop, race and forget copies at random, and every byte is
//! checked.

use crate::kit::{Bell, Dice, LIMIT, device, poll};
use ferry::{Device, DeviceBuffer, DeviceSlice, HostBuffer, InFlight, Result, Stream};
use std::{collections::VecDeque, future::IntoFuture, mem, pin::pin};
use tokio::{runtime::Builder, task::JoinSet, time::timeout};

const SLOTS: usize = 32;
const LEN: usize = 300;
const STEPS: usize = 1500;

type Token = InFlight<HostBuffer<u32>>;

/// One task's ship: a stream and its own device memory, of which `model` knows the word that each slot is
/// full of.
struct Ship {
    device: Device,
    stream: Stream,
    /// Another ship's.
    other: Stream,
    there: DeviceBuffer<u32>,
    model: [u32; SLOTS],
    dice: Dice,
    next: u32,
    /// Copies to be awaited later, with the word that they must end with.
    later: VecDeque<(Token, u32)>,
    /// Memory that no copy uses: whatever happens, it stays as it is.
    bystanders: VecDeque<(HostBuffer<u32>, u32)>,
}

fn check(host: &HostBuffer<u32>, word: u32, what: &str) {
    assert!(host.iter().all(|it| *it == word), "{what}: {word} is expected, not {:?}", &host[..8]);
}

impl Ship {
    fn slot(&self, slot: usize) -> Result<DeviceSlice<'_, u32>> {
        self.there.slice(slot * LEN..(slot + 1) * LEN)
    }

    fn pick(&mut self) -> usize {
        self.dice.roll(SLOTS as u64) as usize
    }

    fn word(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    fn host(&self, word: u32) -> Result<HostBuffer<u32>> {
        self.device.runtime().alloc_host_from(&[word; LEN])
    }

    /// Sends a new word to a slot. The copy happens, whatever becomes of the token.
    fn upload(&mut self) -> Result<(Token, u32)> {
        let (slot, word) = (self.pick(), self.word());
        let token = self.stream.upload(self.slot(slot)?, self.host(word)?)?;
        self.model[slot] = word;
        Ok((token, word))
    }

    fn download(&mut self) -> Result<(Token, u32)> {
        let (slot, other) = (self.pick(), self.word());
        let token = self.stream.download(self.host(other)?, self.slot(slot)?)?;
        Ok((token, self.model[slot]))
    }

    /// Uses a token again, on this stream or on another, and waits for it.
    async fn go_on(&mut self, token: Token) -> Result<()> {
        let slot = self.pick();
        let stream = if self.dice.roll(2) == 0 { &self.stream } else { &self.other };
        let token = stream.download(token, self.slot(slot)?)?;
        check(&token.await?, self.model[slot], "a token that went on");
        Ok(())
    }

    async fn meet_fate(&mut self, (token, word): (Token, u32)) -> Result<()> {
        match self.dice.roll(16) {
            0..3 => check(&token.await?, word, "awaited"),
            3..5 => drop(token),
            5..7 => drop(poll(pin!(token), &Bell::new().into())),
            7 => mem::forget(token),
            8 => {
                let mut token = pin!(token);
                let polled = poll(token.as_mut(), &Bell::new().into());
                if polled.is_pending() {
                    check(&token.await?, word, "awaited with another waker");
                }
            }
            9..11 => tokio::select! {
                host = token => check(&host?, word, "the winner"),
                () = tokio::task::yield_now() => {}
            },
            11..13 => self.go_on(token).await?,
            _ => self.later.push_back((token, word)),
        }
        if self.later.len() > 20 {
            let (token, word) = self.later.pop_front().expect("more than 20");
            check(&token.await?, word, "awaited late");
        }
        Ok(())
    }

    async fn step(&mut self) -> Result<()> {
        match self.dice.roll(20) {
            0 => self.stream.synchronized().await?,
            1 => self.stream.record()?.await,
            2 => drop(poll(pin!(self.stream.synchronized()), &Bell::new().into())),
            3 => drop(poll(pin!(self.stream.record()?.into_future()), &Bell::new().into())),
            4 => {
                let word = self.word();
                self.bystanders.push_back((self.host(word)?, word));
                if self.bystanders.len() > 10 {
                    let (host, word) = self.bystanders.pop_front().expect("more than 10");
                    check(&host, word, "a bystander");
                }
            }
            5..13 => {
                let sent = self.upload()?;
                self.meet_fate(sent).await?;
            }
            _ => {
                let fetched = self.download()?;
                self.meet_fate(fetched).await?;
            }
        }
        Ok(())
    }

    async fn sail(mut self) -> Result<()> {
        for _ in 0..STEPS {
            self.step().await?;
        }
        for (token, word) in mem::take(&mut self.later) {
            check(&token.await?, word, "awaited last");
        }
        self.bystanders.iter().for_each(|(host, word)| check(host, *word, "a bystander"));
        self.stream.synchronized().await?;
        let words = self.stream.read_vec(&self.there)?;
        for (slot, (words, word)) in words.chunks(LEN).zip(self.model).enumerate() {
            assert!(
                words.iter().all(|it| *it == word),
                "slot {slot}: {word} is expected, not {:?}",
                &words[..8]
            );
        }
        Ok(())
    }
}

#[test]
fn every_byte_is_right_whatever_becomes_of_the_futures() {
    let (device, first) = device();
    let before = device.memory_info().expect("known").free;
    let mut streams = vec![first];
    streams.extend((0..3).map(|_| device.stream().expect("a stream")));
    let ship = |number: usize| Ship {
        device: device.clone(),
        stream: streams[number].clone(),
        other: streams[(number + 1) % streams.len()].clone(),
        there: device.alloc_zeroed(SLOTS * LEN).expect("memory"),
        model: [0; SLOTS],
        dice: Dice(number as u64),
        next: 1_000_000 * (number as u32 + 1),
        later: VecDeque::new(),
        bystanders: VecDeque::new(),
    };
    let ships: Vec<_> = (0..streams.len()).map(ship).collect();
    let tokio = Builder::new_multi_thread().worker_threads(2).enable_time().build().expect("tokio");
    tokio.block_on(async {
        let mut tasks = JoinSet::new();
        ships.into_iter().for_each(|ship| drop(tasks.spawn(ship.sail())));
        while let Some(done) = timeout(LIMIT, tasks.join_next()).await.expect("in time") {
            done.expect("no panic").expect("no error");
        }
    });
    streams.iter().for_each(|stream| stream.synchronize().expect("nothing failed"));
    assert_eq!(device.memory_info().expect("known").free, before);
}
