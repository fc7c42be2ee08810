//! Reading facts: what the starting command does, while the program runs and when it has ended.
//!
//! A [`Collector`] goes through all buffers again and again. It takes what is complete, frees buffers that
//! were read to their end, and hands facts to a reader in the order of their times: facts of the last moments
//! are kept back, since another thread may be about to write one that is older. What is kept back stays as it
//! was written, words of each thread in their order, and is merged when its time has come. Full buffers are
//! taken while facts are handed on, too: a reader may take long, and programs wait for room.

use crate::{
    buffers::{BUFFER_WORDS, Buffers, FILLING, FREE, FULL},
    clock::{Rate, Sample},
    fact::{Fact, FactReader, FactSource, Nanos, Passed, Point},
    words,
};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, VecDeque},
    sync::atomic::Ordering,
    thread,
    time::Duration,
};

/// How long a fact is kept back while the program runs, in nanoseconds, if nothing else is said.
const DELAY: Nanos = 20_000_000;

/// As many ops are sent to a device as one at most.
const MAX_TOGETHER: u64 = 1 << 20;

/// How many facts are handed on before full buffers are taken again.
const HANDED_AT_ONCE: usize = 1 << 10;
/// Words that are taken while facts are handed on: if there are more, the program waits.
const TAKEN_AHEAD: usize = 1 << 23;

/// Reads the buffers of a program, and of all programs that it starts.
pub struct Collector {
    intake: Intake,
    /// What every thread wrote that was not handed on.
    threads: BTreeMap<FactSource, ThreadFacts>,
    first: Sample,
    /// How many facts were known to be lost when that was last told.
    lost: u64,
    /// How long a fact is kept back while the program runs.
    delay: Nanos,
}

/// What takes words out of the buffers.
struct Intake {
    buffers: Buffers,
    /// How many words of each buffer were read.
    read: Vec<usize>,
    /// Buffers that are damaged are not read again.
    unreadable: u64,
    /// Words of whole facts that were taken, in the order in which each thread wrote them.
    taken: Vec<TakenWords>,
    /// How many words that are.
    count: usize,
}

/// Words of a thread, and both clocks when it claimed their buffer.
struct TakenWords {
    source: FactSource,
    words: Vec<u64>,
    claimed: Sample,
}

/// Facts of a thread, in the order in which it wrote them.
struct ThreadFacts {
    /// Words of whole facts.
    chunks: VecDeque<Vec<u64>>,
    /// How many words of the first chunk were handed on.
    used: usize,
    /// The latest time that was handed on: facts without a time of their own come at once behind it.
    latest: Nanos,
}

/// The next fact of a thread.
struct NextFact {
    fact: Fact,
    time: Nanos,
    /// The first of the ops that have passed together, if the fact is the last of them.
    first: Option<u64>,
    /// How many words it has.
    len: usize,
}

impl ThreadFacts {
    /// The next fact that can be read, and how many before it cannot.
    fn peek(&mut self, rate: &Rate) -> (Option<NextFact>, u64) {
        let mut unreadable = 0;
        while let Some(words) = self.chunks.front().map(|chunk| &chunk[self.used..]) {
            let Some(head) = words.first() else {
                self.chunks.pop_front();
                self.used = 0;
                continue;
            };
            // Only whole facts are kept.
            let len = words::len(*head);
            let fact = match words::read_range(*head, &words[1..len], rate) {
                Some((last, first)) => Some((Fact::Passed(last), Some(first))),
                None => words::read(*head, &words[1..len], rate).map(|fact| (fact, None)),
            };
            if let Some((fact, first)) = fact {
                // Facts of one thread keep their order, whatever their times say.
                let time = fact.time().unwrap_or(0).max(self.latest);
                return (Some(NextFact { fact, time, first, len }), unreadable);
            }
            unreadable += 1;
            self.used += len;
        }
        (None, unreadable)
    }
}

impl NextFact {
    /// Hands it on. Ops that have passed together are facts of their own for readers.
    fn hand_on(&self, source: FactSource, reader: &mut impl FactReader) {
        let (Fact::Passed(last), Some(first)) = (&self.fact, self.first) else {
            return reader.take(source, &self.fact);
        };
        // A damaged number must not become facts without end.
        let first = first.max(last.point.ticket.saturating_sub(MAX_TOGETHER));
        for ticket in first..=last.point.ticket {
            let point = Point { ticket, ..last.point };
            reader.take(source, &Fact::Passed(Passed { point, ..*last }));
        }
    }
}

impl Intake {
    /// Takes what is complete: of all buffers, or of those that are full.
    fn take(&mut self, is_all: bool) {
        let mut order: Vec<(u64, usize)> = Vec::new();
        for index in 0..self.buffers.count() {
            let state = self.buffers.state(index).load(Ordering::Acquire);
            let buffer = self.buffers.buffer(index);
            if state != FREE && buffer.thread.load(Ordering::Acquire) != 0 {
                order.push((buffer.claim.load(Ordering::Relaxed), index));
            }
        }
        order.sort_unstable();
        for (_, index) in order {
            // Asked again: a thread may have filled one since it was seen, and another one behind it. Nothing
            // of the second may be taken before all of the first.
            if is_all || self.buffers.state(index).load(Ordering::Acquire) == FULL {
                self.take_buffer(index);
            }
        }
    }

    fn take_buffer(&mut self, index: usize) {
        let buffer = self.buffers.buffer(index);
        // Asked first: what is full now has all of its facts.
        let is_full = self.buffers.state(index).load(Ordering::Acquire) == FULL;
        let source = FactSource {
            process: buffer.process.load(Ordering::Relaxed),
            thread: buffer.thread.load(Ordering::Relaxed),
        };
        let mut words = self.buffers.complete(index, self.read[index]);
        self.read[index] += words.len();
        let whole = whole_facts(&words);
        self.unreadable += u64::from(whole < words.len());
        words.truncate(whole);
        self.count += whole;
        self.taken.push(TakenWords { source, words, claimed: buffer.sample() });
        if is_full {
            self.read[index] = 0;
            self.buffers.release(index);
        }
    }
}

impl Collector {
    /// Reads the buffers of a file.
    pub fn new(buffers: Buffers) -> Collector {
        let read = vec![0; buffers.count()];
        let intake = Intake { buffers, read, unreadable: 0, taken: Vec::new(), count: 0 };
        let (threads, first) = (BTreeMap::new(), Sample::now());
        Collector { intake, threads, first, lost: 0, delay: DELAY }
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
        self.intake.buffers.head().lost.load(Ordering::Relaxed) + self.intake.unreadable
    }

    /// Takes what is there, and hands on what is old enough.
    pub fn poll(&mut self, reader: &mut impl FactReader) {
        let now = Sample::now();
        let rate = self.take_all(now);
        self.hand_on(now.nanos.saturating_sub(self.delay), &rate, reader);
    }

    /// Hands on what happened until a moment, without the usual delay. Threads that were writing a fact at
    /// that moment have `grace` to complete it; if there is nothing to hand on, nobody waits.
    pub fn catch_up(&mut self, until: Nanos, grace: Duration, reader: &mut impl FactReader) {
        let rate = self.take_all(Sample::now());
        let is_due = |facts: &mut ThreadFacts| facts.peek(&rate).0.is_some_and(|next| next.time <= until);
        if !self.threads.values_mut().any(is_due) {
            return;
        }
        thread::sleep(grace);
        let rate = self.take_all(Sample::now());
        self.hand_on(until, &rate, reader);
    }

    /// Takes and hands on everything: the program has ended.
    pub fn finish(&mut self, reader: &mut impl FactReader) {
        // A process that goes on has nobody to wait for.
        self.intake.buffers.head().closed.store(1, Ordering::Relaxed);
        let rate = self.take_all(Sample::now());
        self.hand_on(Nanos::MAX, &rate, reader);
        let count = self.lost() - self.lost;
        if count > 0 {
            self.lost += count;
            reader.take(FactSource::default(), &Fact::Lost { count });
        }
    }

    /// Takes what is complete in all buffers, and says how its times are to be read.
    fn take_all(&mut self, now: Sample) -> Rate {
        self.intake.take(true);
        let samples = self.intake.taken.iter().map(|taken| taken.claimed);
        // The earliest sample of all: the longer the line, the better the rate.
        self.first = samples.chain([self.first]).min_by_key(|sample| sample.nanos).unwrap_or(now);
        let rate = Rate::between(self.first, now);
        self.intake.count = 0;
        for TakenWords { source, words, claimed } in self.intake.taken.drain(..) {
            // A thread whose first fact has no time of its own began to write when it claimed its buffer.
            let new = || ThreadFacts { chunks: VecDeque::new(), used: 0, latest: rate.nanos(claimed.ticks) };
            let facts = self.threads.entry(source).or_insert_with(new);
            if !words.is_empty() {
                facts.chunks.push_back(words);
            }
        }
        rate
    }

    /// Merges the facts of all threads up to a moment.
    fn hand_on(&mut self, until: Nanos, rate: &Rate, reader: &mut impl FactReader) {
        let Collector { intake, threads: all, .. } = self;
        let mut threads: Vec<(FactSource, &mut ThreadFacts, Option<NextFact>)> = Vec::new();
        let mut order = BinaryHeap::new();
        for (source, facts) in all {
            let (next, unreadable) = facts.peek(rate);
            intake.unreadable += unreadable;
            order.extend(next.as_ref().map(|next| Reverse((next.time, threads.len()))));
            threads.push((*source, facts, next));
        }
        let mut handed = 0;
        while let Some(Reverse((time, index))) = order.pop().filter(|Reverse((time, _))| *time <= until) {
            let (source, facts, next) = &mut threads[index];
            if let Some(next) = next.take() {
                next.hand_on(*source, reader);
                (facts.used, facts.latest) = (facts.used + next.len, time);
            }
            let (following, unreadable) = facts.peek(rate);
            intake.unreadable += unreadable;
            order.extend(following.as_ref().map(|next| Reverse((next.time, index))));
            *next = following;
            handed += 1;
            if handed % HANDED_AT_ONCE == 0 && intake.count < TAKEN_AHEAD {
                intake.take(false);
            }
        }
    }

    /// Frees the buffers of processes that are gone: nobody fills them any more. To be called after a poll.
    pub fn close_those_of(&mut self, is_gone: impl Fn(FactSource) -> bool) {
        let buffers = &self.intake.buffers;
        for index in 0..buffers.count() {
            let (state, buffer) = (buffers.state(index), buffers.buffer(index));
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
        self.threads.retain(|source, facts| !facts.chunks.is_empty() || !is_gone(*source));
    }
}

/// How many of the words are whole facts.
fn whole_facts(words: &[u64]) -> usize {
    let mut whole = 0;
    while let Some(head) = words.get(whole) {
        match words::len(*head) {
            len if len > 0 && whole + len <= words.len() => whole += len,
            _ => break,
        }
    }
    whole
}

const _: () = assert!(BUFFER_WORDS < u32::MAX as usize);
