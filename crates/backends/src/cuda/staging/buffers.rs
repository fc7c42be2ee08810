//! Staging buffers: pinned memory in pairs, each pair with a CUDA stream of its own, for one thread at a time
//! (double buffering). There are a few pairs for each device; they are made when first wanted and kept.

use crate::cuda::{
    driver::Current,
    stream::{Stream, StreamKind, waypoint::Waypoint},
};
use crate::pool::Pool;
use ferry_core::{
    Result,
    sync::{Arc, Condvar, Mutex, MutexGuard, lock},
};
use std::{cell::Cell, ops::Deref, thread};

/// Bytes of a staging buffer. On an H200 0.5, 1, 2 and 4 MiB bring 26, 44, 49 and 50 GB/s with twelve
/// threads: the driver takes some 13 us for each, and lets one thread in at a time.
pub const BUFFER: usize = 2 << 20;
/// Buffers of a thread: one is the CPU's while the device has the other.
const BUFFERS: usize = 2;
/// More threads than this do not make a link faster. For rows of 64 bytes eight are not enough.
const MAX_THREADS: usize = 12;
/// The work that an error of a stream is about in which portions are moved.
pub const STAGED: &str = "the GPU's part of a staged copy";

/// The staging buffers of a device.
pub struct StagingPool {
    threads: Arc<Pool>,
    max_threads: usize,
    pairs: Mutex<Pairs>,
    freed: Condvar,
}

#[derive(Default)]
struct Pairs {
    /// Those that no thread has.
    free: Vec<DoubleBuffer>,
    /// How many there are in all.
    made: usize,
}

/// Two staging buffers and their stream.
pub struct DoubleBuffer {
    stream: Arc<Stream>,
    both: [StagingBuffer; BUFFERS],
}

/// Pinned memory, and the waypoint behind what the device does with it.
pub struct StagingBuffer {
    at: usize,
    /// None once it was waited for.
    waypoint: Cell<Option<Waypoint>>,
}

/// A pair that one thread has; when this is dropped another may have it.
pub struct TakenBuffers<'a> {
    from: &'a StagingPool,
    /// None while this is dropped.
    buffers: Option<DoubleBuffer>,
}

impl StagingPool {
    /// Buffers for so many threads, which come from a pool; as many as this machine is good for if that is
    /// not said.
    pub fn new(threads: Arc<Pool>, max_threads: Option<usize>) -> StagingPool {
        let cpus = || thread::available_parallelism().map_or(1, |count| count.get());
        let max_threads = max_threads.unwrap_or_else(|| (cpus() - 1).min(MAX_THREADS)).max(1);
        StagingPool { threads, max_threads, pairs: Mutex::default(), freed: Condvar::new() }
    }

    /// How many threads can stage at once.
    pub fn max_threads(&self) -> usize {
        self.max_threads
    }

    /// The threads that help.
    pub fn threads(&self) -> &Arc<Pool> {
        &self.threads
    }

    /// A pair, once one is free: a thread that has one waits for nothing but the device.
    pub fn wait(&self, stream: &Stream, current: &Current<'_>) -> Result<TakenBuffers<'_>> {
        let mut pairs = lock(&self.pairs);
        while self.is_exhausted(&pairs) {
            pairs = self.freed.wait(pairs).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        self.take(pairs, stream, current)
    }

    /// A pair, if one is free.
    pub fn try_take(&self, stream: &Stream, current: &Current<'_>) -> Option<TakenBuffers<'_>> {
        let pairs = lock(&self.pairs);
        if self.is_exhausted(&pairs) { None } else { self.take(pairs, stream, current).ok() }
    }

    fn is_exhausted(&self, pairs: &Pairs) -> bool {
        pairs.free.is_empty() && pairs.made == self.max_threads
    }

    fn take(
        &self,
        mut pairs: MutexGuard<'_, Pairs>,
        stream: &Stream,
        current: &Current<'_>,
    ) -> Result<TakenBuffers<'_>> {
        if let Some(buffers) = pairs.free.pop() {
            return Ok(TakenBuffers { from: self, buffers: Some(buffers) });
        }
        pairs.made += 1;
        drop(pairs);
        let made = DoubleBuffer::new(stream, current).inspect_err(|_| {
            lock(&self.pairs).made -= 1;
            self.freed.notify_one();
        });
        made.map(|buffers| TakenBuffers { from: self, buffers: Some(buffers) })
    }
}

impl Deref for TakenBuffers<'_> {
    type Target = DoubleBuffer;

    fn deref(&self) -> &DoubleBuffer {
        self.buffers.as_ref().expect("not dropped yet")
    }
}

impl Drop for TakenBuffers<'_> {
    fn drop(&mut self) {
        lock(&self.from.pairs).free.extend(self.buffers.take());
        self.from.freed.notify_one();
    }
}

impl DoubleBuffer {
    /// A pair for the device of `of`, with a stream of its own.
    fn new(of: &Stream, current: &Current<'_>) -> Result<DoubleBuffer> {
        let stream = Stream::new(of.device(), of.device_id(), StreamKind::Own)?;
        let at = current.own_pinned(BUFFERS * BUFFER)?;
        let both = [at, at + BUFFER].map(|at| StagingBuffer { at, waypoint: Cell::default() });
        Ok(DoubleBuffer { stream, both })
    }

    /// The two buffers.
    pub fn both(&self) -> &[StagingBuffer; BUFFERS] {
        &self.both
    }

    /// The stream that the device moves their bytes in.
    pub fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// Waits until the device is done with both buffers.
    pub fn wait(&self, current: &Current<'_>) -> Result<()> {
        self.both.iter().try_for_each(|buffer| buffer.wait(current))
    }

    /// Waits until the device has done all that was put into the stream.
    pub fn drain(&self, current: &Current<'_>) -> Result<()> {
        self.both.iter().for_each(|buffer| drop(buffer.waypoint.take()));
        self.stream.synchronize_in(current, STAGED).inspect_err(|_| self.stream.doubt())
    }
}

impl Drop for DoubleBuffer {
    fn drop(&mut self) {
        self.stream.close(true);
        let Ok(current) = self.stream.device().enter() else { return };
        // SAFETY: made by `new`; no thread has the pair any more, and the last that had it has waited for the
        // device.
        unsafe { current.free_own_pinned(self.both[0].at) };
    }
}

impl StagingBuffer {
    /// Its address, the same for the device.
    pub fn at(&self) -> usize {
        self.at
    }

    /// What was put into the stream until now is the last that is done with it.
    pub fn mark(&self, current: &Current<'_>, stream: &Arc<Stream>) -> Result<()> {
        self.waypoint.set(Some(Waypoint::put(stream, current)?));
        Ok(())
    }

    /// Waits until the device is done with it.
    pub fn wait(&self, current: &Current<'_>) -> Result<()> {
        self.waypoint.take().map_or(Ok(()), |waypoint| waypoint.wait(current, STAGED))
    }
}
