//! Staging buffers: pinned memory in pairs, each pair with a CUDA stream of its own, for one thread at a time
//! (double buffering). There are a few pairs for each device; they are made when first wanted and kept.

use crate::cuda::{
    driver::{Context, Current, EventHandle, StreamHandle},
    stream::device::Device,
};
use crate::pool::Pool;
use ferry_core::{
    Result,
    sync::{Arc, Condvar, Mutex, MutexGuard, lock},
};
use std::{array, ops::Deref, thread};

/// Bytes of a staging buffer. On an H200 0.5, 1, 2 and 4 MiB bring 26, 44, 49 and 50 GB/s with twelve
/// threads: the driver takes some 13 us for each, and lets one thread in at a time.
pub const BUFFER: usize = 2 << 20;
/// Buffers of a thread: one is the CPU's while the device has the other.
const BUFFERS: usize = 2;
/// More threads than this do not make a link faster. For rows of 64 bytes eight are not enough.
const MAX_THREADS: usize = 12;
/// The work that an error of a pair's stream is about.
const STAGED: &str = "the GPU's part of a staged copy";

/// The staging buffers of a device.
pub struct StagingPool {
    context: Arc<Context>,
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
#[derive(Clone, Copy)]
pub struct DoubleBuffer {
    stream: StreamHandle,
    both: [StagingBuffer; BUFFERS],
}

/// Pinned memory, and the event behind what the device last did with it.
#[derive(Clone, Copy)]
pub struct StagingBuffer {
    at: usize,
    event: EventHandle,
}

/// A pair that one thread has; when this is dropped another may have it.
pub struct TakenBuffers<'a> {
    from: &'a StagingPool,
    buffers: DoubleBuffer,
}

impl StagingPool {
    /// Buffers for so many threads, which come from a pool; as many as this machine is good for if that is
    /// not said.
    pub fn new(context: Arc<Context>, threads: Arc<Pool>, max_threads: Option<usize>) -> StagingPool {
        let cpus = || thread::available_parallelism().map_or(1, |count| count.get());
        let max_threads = max_threads.unwrap_or_else(|| (cpus() - 1).min(MAX_THREADS)).max(1);
        StagingPool { context, threads, max_threads, pairs: Mutex::default(), freed: Condvar::new() }
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
    pub fn wait(&self, device: &Device, current: &Current<'_>) -> Result<TakenBuffers<'_>> {
        let mut pairs = lock(&self.pairs);
        while self.is_exhausted(&pairs) {
            pairs = self.freed.wait(pairs).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        self.take(pairs, device, current)
    }

    /// A pair, if one is free.
    pub fn try_take(&self, device: &Device, current: &Current<'_>) -> Option<TakenBuffers<'_>> {
        let pairs = lock(&self.pairs);
        if self.is_exhausted(&pairs) { None } else { self.take(pairs, device, current).ok() }
    }

    fn is_exhausted(&self, pairs: &Pairs) -> bool {
        pairs.free.is_empty() && pairs.made == self.max_threads
    }

    fn take(
        &self,
        mut pairs: MutexGuard<'_, Pairs>,
        device: &Device,
        current: &Current<'_>,
    ) -> Result<TakenBuffers<'_>> {
        if let Some(buffers) = pairs.free.pop() {
            return Ok(TakenBuffers { from: self, buffers });
        }
        pairs.made += 1;
        drop(pairs);
        let made = DoubleBuffer::new(device, current).inspect_err(|_| {
            lock(&self.pairs).made -= 1;
            self.freed.notify_one();
        });
        made.map(|buffers| TakenBuffers { from: self, buffers })
    }
}

impl Drop for StagingPool {
    /// Gives everything back to the driver.
    fn drop(&mut self) {
        let Ok(current) = self.context.enter() else { return };
        // SAFETY: no thread has a pair any more, and each has waited for the stream of the one that it had.
        lock(&self.pairs).free.drain(..).for_each(|buffers| unsafe { buffers.close(&current) });
    }
}

impl Deref for TakenBuffers<'_> {
    type Target = DoubleBuffer;

    fn deref(&self) -> &DoubleBuffer {
        &self.buffers
    }
}

impl Drop for TakenBuffers<'_> {
    fn drop(&mut self) {
        lock(&self.from.pairs).free.push(self.buffers);
        self.from.freed.notify_one();
    }
}

impl DoubleBuffer {
    fn new(device: &Device, current: &Current<'_>) -> Result<DoubleBuffer> {
        let stream = device.make_stream()?;
        let both = StagingBuffer::pair(current).inspect_err(|_| {
            // SAFETY: made above, and known to no other code.
            unsafe { current.destroy_stream(stream) };
        })?;
        Ok(DoubleBuffer { stream, both })
    }

    /// Gives everything back to the driver.
    ///
    /// # Safety
    /// No thread uses the buffers any more, and nothing is in their stream.
    unsafe fn close(self, current: &Current<'_>) {
        // SAFETY: made by `new`; the rest is the caller's promise.
        unsafe {
            self.both.iter().for_each(|buffer| current.destroy_event(buffer.event));
            current.free_own_pinned(self.both[0].at);
            current.destroy_stream(self.stream);
        }
    }

    /// The two buffers.
    pub fn both(&self) -> &[StagingBuffer; BUFFERS] {
        &self.both
    }

    /// The stream that the device moves their bytes in.
    pub fn stream(&self) -> StreamHandle {
        self.stream
    }

    /// Waits until the device has done all that was asked of it, also what was recorded in other streams.
    pub fn wait(&self, current: &Current<'_>) -> Result<()> {
        current.synchronize(self.stream, STAGED)?;
        self.both.iter().try_for_each(|buffer| buffer.wait(current))
    }
}

impl StagingBuffer {
    /// Two of them, in one piece of memory.
    fn pair(current: &Current<'_>) -> Result<[StagingBuffer; BUFFERS]> {
        let at = current.own_pinned(BUFFERS * BUFFER)?;
        let events: [_; BUFFERS] = array::from_fn(|_| current.create_event(false));
        match events {
            [Ok(first), Ok(second)] => {
                Ok([StagingBuffer { at, event: first }, StagingBuffer { at: at + BUFFER, event: second }])
            }
            [first, second] => {
                // SAFETY: made above, and known to no other code.
                unsafe {
                    first.iter().chain(&second).for_each(|event| current.destroy_event(*event));
                    current.free_own_pinned(at);
                }
                Err(first.and(second).expect_err("one of them failed"))
            }
        }
    }

    /// Its address, the same for the device.
    pub fn at(&self) -> usize {
        self.at
    }

    /// What was put into the stream until now is the last that is done with it.
    pub fn record(&self, current: &Current<'_>, stream: StreamHandle) -> Result<()> {
        current.record(self.event, stream)
    }

    /// Waits until the device is done with it. One that was never recorded is.
    pub fn wait(&self, current: &Current<'_>) -> Result<()> {
        current.wait_for_event(self.event, STAGED)
    }
}
