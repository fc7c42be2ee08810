//! Reading facts: what the starting command does, while the program runs and when it has ended.
//!
//! A [`Collector`] goes through all buffers again and again. It takes what is complete, frees buffers that
//! were read to their end, and hands facts to a reader in the order of their times: facts of the last moments
//! are kept back, since another thread may be about to write one that is older.

use crate::{
    buffers::{BUFFER_WORDS, Buffers, FILLING, FREE, FULL},
    clock::{Rate, Sample},
    fact::{Fact, FactReader, FactSource, Nanos, Passed, Point},
    words,
};
use std::{collections::HashMap, sync::atomic::Ordering, thread, time::Duration};

/// How long a fact is kept back while the program runs, in nanoseconds, if nothing else is said.
const DELAY: Nanos = 20_000_000;

/// As many ops are sent to a device as one at most.
const MAX_TOGETHER: u64 = 1 << 20;

/// Reads the buffers of a program, and of all programs that it starts.
pub struct Collector {
    buffers: Buffers,
    /// How many words of each buffer were read.
    read: Vec<usize>,
    /// Facts that were read and not handed on, in the order of their times but for the newest.
    waiting: Vec<Waiting>,
    /// The time of the latest fact of each thread: what facts without a time of their own are sorted by.
    latest: HashMap<FactSource, Nanos>,
    first: Sample,
    /// How many facts were known to be lost when that was last told.
    lost: u64,
    /// Buffers that are damaged are not read again.
    unreadable: u64,
    /// How long a fact is kept back while the program runs.
    delay: Nanos,
    /// When facts were last handed on.
    handed_on: Nanos,
}

struct Waiting {
    time: Nanos,
    source: FactSource,
    fact: Fact,
}

impl Collector {
    /// Reads the buffers of a file.
    pub fn new(buffers: Buffers) -> Collector {
        let read = vec![0; buffers.count()];
        let (waiting, latest, first) = (Vec::new(), HashMap::new(), Sample::now());
        Collector {
            buffers,
            read,
            waiting,
            latest,
            first,
            lost: 0,
            unreadable: 0,
            delay: DELAY,
            handed_on: 0,
        }
    }

    /// Facts are kept back for so long, in nanoseconds: a reader that needs their order to be right takes
    /// more than one that draws a picture.
    #[must_use]
    pub fn with_delay(mut self, delay: Nanos) -> Collector {
        self.delay = delay;
        self
    }

    /// How many facts were lost so far.
    pub fn lost(&self) -> u64 {
        self.buffers.head().lost.load(Ordering::Relaxed) + self.unreadable
    }

    /// Takes what is there, and hands on what is old enough.
    pub fn poll(&mut self, reader: &mut impl FactReader) {
        let now = Sample::now();
        self.take_all(now);
        // Sorting what is kept back each time would cost more than reading it.
        if now.nanos >= self.handed_on + self.delay / 4 {
            self.handed_on = now.nanos;
            self.waiting.sort_by_key(|waiting| waiting.time);
            self.hand_on(now.nanos.saturating_sub(self.delay), reader);
        }
    }

    /// Hands on what happened until a moment, without the usual delay. Threads that were writing a fact at
    /// that moment have `grace` to complete it; if there is nothing to hand on, nobody waits.
    pub fn catch_up(&mut self, until: Nanos, grace: Duration, reader: &mut impl FactReader) {
        self.take_all(Sample::now());
        if self.waiting.iter().all(|waiting| waiting.time > until) {
            return;
        }
        thread::sleep(grace);
        self.take_all(Sample::now());
        self.waiting.sort_by_key(|waiting| waiting.time);
        self.hand_on(until, reader);
    }

    /// Takes and hands on everything: the program has ended.
    pub fn finish(&mut self, reader: &mut impl FactReader) {
        // A process that goes on has nobody to wait for.
        self.buffers.head().closed.store(1, Ordering::Relaxed);
        self.take_all(Sample::now());
        self.waiting.sort_by_key(|waiting| waiting.time);
        self.hand_on(Nanos::MAX, reader);
        let count = self.lost() - self.lost;
        if count > 0 {
            self.lost += count;
            reader.take(FactSource::default(), &Fact::Lost { count });
        }
    }

    fn take_all(&mut self, now: Sample) {
        let mut samples = vec![];
        let mut order: Vec<(u64, usize)> = Vec::new();
        for index in 0..self.buffers.count() {
            if self.buffers.state(index).load(Ordering::Acquire) == FREE {
                continue;
            }
            let buffer = self.buffers.buffer(index);
            if buffer.thread.load(Ordering::Acquire) != 0 {
                order.push((buffer.claim.load(Ordering::Relaxed), index));
                samples.push(buffer.sample());
            }
        }
        order.sort_unstable();
        // The earliest sample of all: the longer the line, the better the rate.
        self.first = samples.into_iter().chain([self.first]).min_by_key(|sample| sample.nanos).unwrap_or(now);
        let rate = Rate::between(self.first, now);
        order.into_iter().for_each(|(_, index)| self.take_buffer(index, &rate));
    }

    fn take_buffer(&mut self, index: usize, rate: &Rate) {
        let buffer = self.buffers.buffer(index);
        // Asked first: what is full now has all of its facts.
        let is_full = self.buffers.state(index).load(Ordering::Acquire) == FULL;
        let source = FactSource {
            process: buffer.process.load(Ordering::Relaxed),
            thread: buffer.thread.load(Ordering::Relaxed),
        };
        let words = self.buffers.complete(index, self.read[index]);
        self.read[index] += words.len();
        // A thread whose first fact has no time of its own began to write when it claimed its buffer.
        self.latest.entry(source).or_insert_with(|| rate.nanos(buffer.sample().ticks));
        self.take_words(source, &words, rate);
        if is_full {
            self.read[index] = 0;
            self.buffers.release(index);
        }
    }

    fn take_words(&mut self, source: FactSource, mut words: &[u64], rate: &Rate) {
        while let Some(head) = words.first() {
            let len = words::len(*head);
            let Some((of_fact, rest)) = words.split_at_checked(len).filter(|_| len > 0) else {
                self.unreadable += 1;
                return;
            };
            if let Some((last, first)) = words::read_range(*head, &of_fact[1..], rate) {
                self.keep_range(source, last, first);
            } else if let Some(fact) = words::read(*head, &of_fact[1..], rate) {
                self.keep(source, fact);
            } else {
                self.unreadable += 1;
            }
            words = rest;
        }
    }

    /// Ops that have passed together are facts of their own for readers.
    fn keep_range(&mut self, source: FactSource, last: Passed, first: u64) {
        // A damaged number must not become facts without end.
        let first = first.max(last.point.ticket.saturating_sub(MAX_TOGETHER));
        for ticket in first..=last.point.ticket {
            let point = Point { ticket, ..last.point };
            self.keep(source, Fact::Passed(Passed { point, ..last }));
        }
    }

    fn keep(&mut self, source: FactSource, fact: Fact) {
        let latest = self.latest.entry(source).or_default();
        // Facts of one thread keep their order, whatever their times say.
        *latest = fact.time().unwrap_or(0).max(*latest);
        self.waiting.push(Waiting { time: *latest, source, fact });
    }

    fn hand_on(&mut self, until: Nanos, reader: &mut impl FactReader) {
        let count = self.waiting.partition_point(|waiting| waiting.time <= until);
        self.waiting.drain(..count).for_each(|waiting| reader.take(waiting.source, &waiting.fact));
    }

    /// Frees the buffers of processes that are gone: nobody fills them any more. To be called after a poll.
    pub fn close_those_of(&mut self, is_gone: impl Fn(FactSource) -> bool) {
        for index in 0..self.buffers.count() {
            let (state, buffer) = (self.buffers.state(index), self.buffers.buffer(index));
            if state.load(Ordering::Acquire) != FILLING {
                continue;
            }
            let source = FactSource {
                process: buffer.process.load(Ordering::Relaxed),
                thread: buffer.thread.load(Ordering::Acquire),
            };
            if source.thread != 0 && is_gone(source) {
                state.store(FULL, Ordering::Release);
            }
        }
    }
}

const _: () = assert!(BUFFER_WORDS < u32::MAX as usize);
