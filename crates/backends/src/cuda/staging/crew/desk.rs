//! What a thread stages with: a CUDA stream and two chunks of page-locked memory. There are a few for each device; they are made
//! when first wanted and kept.

use crate::cuda::{
    device::Device,
    driver::{Current, EventHandle, StreamHandle},
};
use ferry_core::{
    Result,
    sync::{Condvar, Mutex, MutexGuard, lock},
};
use std::{array, ops::Deref, thread};

/// Bytes of a chunk. On an H200 chunks of 0.5, 1, 2 and 4 MiB bring 26, 44, 49 and 50 GB/s with twelve threads: the driver takes
/// some 13 us for each, and lets one thread in at a time.
pub const CHUNK: usize = 2 << 20;
/// Chunks of a desk: one is the CPU's while the device has the other.
const CHUNKS: usize = 2;
/// More threads than this do not make a link faster. For rows of 64 bytes eight are not enough.
const MOST: usize = 12;

/// What an error of a desk's stream is about.
const STAGED: &str = "the GPU's part of a staged copy";

/// The desks of a device.
pub struct Desks {
    most: usize,
    room: Mutex<Room>,
    freed: Condvar,
}

#[derive(Default)]
struct Room {
    free: Vec<Desk>,
    made: usize,
}

/// A stream and its chunks.
#[derive(Clone, Copy)]
pub struct Desk {
    stream: StreamHandle,
    chunks: [Chunk; CHUNKS],
}

/// Page-locked memory, and the event behind what the device last did with it.
#[derive(Clone, Copy)]
pub struct Chunk {
    at: usize,
    event: EventHandle,
}

/// A desk that somebody is at; when this goes, somebody else may have it.
pub struct Seat<'a> {
    device: &'a Device,
    desk: Desk,
}

impl Desks {
    /// Desks for so many threads; as many as this machine is good for if nobody said.
    pub fn new(most: Option<usize>) -> Desks {
        let cpus = || thread::available_parallelism().map_or(1, |count| count.get());
        let most = most.unwrap_or_else(|| (cpus() - 1).min(MOST)).max(1);
        Desks { most, room: Mutex::default(), freed: Condvar::new() }
    }

    /// How many threads can stage at once.
    pub fn most(&self) -> usize {
        self.most
    }

    /// A desk, once one is free: whoever has one waits for nothing but the device.
    pub fn wait<'a>(&self, device: &'a Device, current: &Current<'_>) -> Result<Seat<'a>> {
        let mut room = lock(&self.room);
        while room.free.is_empty() && room.made == self.most {
            room = self.freed.wait(room).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        self.take(room, device, current)
    }

    /// A desk, if one is free.
    pub fn try_take<'a>(&self, device: &'a Device, current: &Current<'_>) -> Option<Seat<'a>> {
        let room = lock(&self.room);
        let is_full = room.free.is_empty() && room.made == self.most;
        if is_full { None } else { self.take(room, device, current).ok() }
    }

    fn take<'a>(
        &self,
        mut room: MutexGuard<'_, Room>,
        device: &'a Device,
        current: &Current<'_>,
    ) -> Result<Seat<'a>> {
        if let Some(desk) = room.free.pop() {
            return Ok(Seat { device, desk });
        }
        room.made += 1;
        drop(room);
        Desk::new(device, current).map(|desk| Seat { device, desk }).inspect_err(|_| {
            lock(&self.room).made -= 1;
            self.freed.notify_one();
        })
    }

    /// Gives everything back to the driver. Nobody is at a desk.
    pub fn close(&self, current: &Current<'_>) {
        // SAFETY: whoever was at it has waited for its stream, and nobody is at it any more.
        lock(&self.room).free.drain(..).for_each(|desk| unsafe { desk.close(current) });
    }
}

impl Deref for Seat<'_> {
    type Target = Desk;

    fn deref(&self) -> &Desk {
        &self.desk
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        let desks = &self.device.desks;
        lock(&desks.room).free.push(self.desk);
        desks.freed.notify_one();
    }
}

impl Desk {
    fn new(device: &Device, current: &Current<'_>) -> Result<Desk> {
        let stream = device.make_stream()?;
        let chunks = Chunk::all(current).inspect_err(|_| {
            // SAFETY: made above, and known to nobody else.
            unsafe { current.destroy_stream(stream) };
        })?;
        Ok(Desk { stream, chunks })
    }

    /// Gives everything back to the driver.
    ///
    /// # Safety
    /// Nobody uses the desk any more, and nothing is in its stream.
    unsafe fn close(self, current: &Current<'_>) {
        // SAFETY: made by `new`; the rest is the caller's promise.
        unsafe {
            self.chunks.iter().for_each(|chunk| current.destroy_event(chunk.event));
            current.free_own_pinned(self.chunks[0].at);
            current.destroy_stream(self.stream);
        }
    }

    /// The chunks.
    pub fn chunks(&self) -> &[Chunk; CHUNKS] {
        &self.chunks
    }

    /// Its stream.
    pub fn stream(&self) -> StreamHandle {
        self.stream
    }

    /// Waits until the device has done all that was asked of it, also what went by other streams and was recorded.
    pub fn wait(&self, current: &Current<'_>) -> Result<()> {
        current.synchronize(self.stream, STAGED)?;
        self.chunks.iter().try_for_each(|chunk| chunk.wait(current))
    }
}

impl Chunk {
    /// Those of a desk.
    fn all(current: &Current<'_>) -> Result<[Chunk; CHUNKS]> {
        let at = current.own_pinned(CHUNKS * CHUNK)?;
        let events: [_; CHUNKS] = array::from_fn(|_| current.create_event(false));
        match events {
            [Ok(first), Ok(second)] => {
                Ok([Chunk { at, event: first }, Chunk { at: at + CHUNK, event: second }])
            }
            [first, second] => {
                // SAFETY: made above, and known to nobody else.
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
