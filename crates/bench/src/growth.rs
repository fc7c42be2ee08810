//! How the latency of a small copy scales with the number of streams, outstanding copies or allocations.
//!
//! The peer is Ferry with one of them.

use std::time::{Duration, Instant};

use ferry_abi::memory::{Block, Home};
use ferry_abi::session::Session;
use ferry_abi::stream::{Blocker, Stream};
use ferry_abi::{Library, Result, call, library};

use crate::copier::CALLS_PER_SAMPLE;
use crate::random::shuffle;
use crate::route::H2D;
use crate::sampling::Contender;
use crate::shape::{self, Shape};
use crate::work::Growth;

/// Bytes of each copy.
const LEN: usize = 64;
/// Copies that a sample submits to each stream.
const COPIES_PER_STREAM: usize = 10;

/// Ferry with `count` of them, and with one.
pub fn contenders(session: &Session, growth: Growth, count: usize) -> Result<Vec<Box<dyn Contender>>> {
    let new = |name, many: usize| ScalingContender::new(session, name, growth, many, count);
    Ok(vec![Box::new(new("ferry", count)?), Box::new(new("one", 1)?)])
}

/// Small copies beside a number of streams, outstanding copies or allocations.
struct ScalingContender {
    library: &'static Library,
    name: &'static str,
    growth: Growth,
    /// How many of them there are.
    many: usize,
    /// How many there are in the contender with more; both make the same number of copies.
    most: usize,
    streams: Vec<Stream>,
    targets: Vec<Block>,
    src: Block,
}

impl ScalingContender {
    fn new(
        session: &Session,
        name: &'static str,
        growth: Growth,
        many: usize,
        most: usize,
    ) -> Result<ScalingContender> {
        let library = session.library;
        let of = |kind| if growth == kind { many } else { 1 };
        let streams = (0..of(Growth::Streams)).map(|_| session.stream()).collect::<Result<_>>()?;
        let target = |_| Block::new(library, Home::Device, LEN);
        let mut targets = (0..of(Growth::Allocations)).map(target).collect::<Result<Vec<_>>>()?;
        // Consecutive copies go to blocks that are not neighbours in memory. Shuffled here, not where it is
        // timed.
        shuffle(&mut targets);
        let src = Block::new(library, Home::Locked, LEN)?;
        shape::write_source(&src)?;
        Ok(ScalingContender { library, name, growth, many, most, streams, targets, src })
    }

    fn submit(&self, stream: &Stream, target: &Block) -> Result<()> {
        let (dst, src, stream) = (target.all().at(), self.src.all().at(), stream.handle());
        // SAFETY: both blocks live until the stream has passed this copy: every sample ends with a wait.
        unsafe { call!(self.library, aclrtMemcpyAsync(dst, LEN, src, LEN, H2D.kind, stream)) }
    }

    fn submit_many(&self, count: usize) -> Result<()> {
        (0..count).try_for_each(|_| self.submit(&self.streams[0], &self.targets[0]))
    }

    fn over_streams(&self) -> Result<Duration> {
        let count = self.most * COPIES_PER_STREAM;
        let begin = Instant::now();
        for index in 0..count {
            self.submit(&self.streams[index % self.many], &self.targets[0])?;
        }
        // SAFETY: takes no argument.
        unsafe { call!(self.library, aclrtSynchronizeDevice()) }?;
        Ok(begin.elapsed() / count as u32)
    }

    /// One copy to each allocation, or as many to the one, waited for now and then: many outstanding copies
    /// are another case.
    fn over_allocations(&self) -> Result<Duration> {
        let begin = Instant::now();
        for index in 0..self.most {
            self.submit(&self.streams[0], &self.targets[index % self.many])?;
            if index % CALLS_PER_SAMPLE == CALLS_PER_SAMPLE - 1 {
                self.streams[0].synchronise()?;
            }
        }
        self.streams[0].synchronise()?;
        Ok(begin.elapsed() / self.most as u32)
    }

    /// Submits all while the stream is blocked, then unblocks it and waits.
    fn outstanding(&self) -> Result<Duration> {
        if self.many == 1 {
            return self.one_at_a_time();
        }
        let blocker = self.block()?;
        let begin = Instant::now();
        self.submit_many(self.many)?;
        drop(blocker);
        self.streams[0].synchronise()?;
        Ok(begin.elapsed() / self.many as u32)
    }

    fn one_at_a_time(&self) -> Result<Duration> {
        let begin = Instant::now();
        for _ in 0..CALLS_PER_SAMPLE {
            self.submit_many(1)?;
            self.streams[0].synchronise()?;
        }
        Ok(begin.elapsed() / CALLS_PER_SAMPLE as u32)
    }

    /// Times the calls that submit the last of the outstanding copies.
    fn last_submits(&self) -> Result<Duration> {
        let blocker = self.block()?;
        self.submit_many(self.many.saturating_sub(CALLS_PER_SAMPLE))?;
        let begin = Instant::now();
        self.submit_many(CALLS_PER_SAMPLE)?;
        let time = begin.elapsed();
        drop(blocker);
        self.streams[0].synchronise()?;
        Ok(time / CALLS_PER_SAMPLE as u32)
    }

    /// Blocks the stream on the host backend, which accepts any number of copies meanwhile. A driver may
    /// block the caller when its queue is full, for ever if nothing runs.
    fn block(&self) -> Result<Option<Blocker>> {
        (library::backend_name() == "host").then(|| self.streams[0].block()).transpose()
    }
}

impl Contender for ScalingContender {
    fn name(&self) -> &'static str {
        self.name
    }

    fn sample(&mut self) -> Result<Duration> {
        match self.growth {
            Growth::Streams => self.over_streams(),
            Growth::Outstanding => self.outstanding(),
            Growth::Submit => self.last_submits(),
            Growth::Allocations => self.over_allocations(),
        }
    }

    fn spoil(&mut self) -> Result<()> {
        self.targets.iter().try_for_each(|target| shape::spoil(target))
    }

    fn check(&mut self) -> Result<usize> {
        self.targets.iter().map(|target| Shape::line(LEN).check(self.name, target)).sum()
    }
}
