//! What a thread stages with: a CUDA stream and two chunks of page-locked memory. There are a few for each device; they are made
//! when first wanted and kept.

use crate::cuda::{
    device::Device,
    driver::{self, Driver, Handle, Rectangle},
};
use ferry_core::{
    Result, Rows,
    sync::{Condvar, Mutex, MutexGuard, lock},
};
use std::{ops::Deref, thread};

/// Bytes of a chunk. On an H200 chunks of 0.5, 1, 2 and 4 MiB bring 26, 44, 49 and 50 GB/s with twelve threads: the driver takes
/// some 13 us for each, and lets one thread in at a time.
pub const CHUNK: usize = 2 << 20;
/// Chunks of a desk: one is the CPU's while the device has the other.
const CHUNKS: usize = 2;
/// The largest pitch that the driver takes.
const MAX_PITCH: usize = i32::MAX as usize;
/// More threads than this do not make a link faster. For rows of 64 bytes eight are not enough.
const MOST: usize = 12;

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
#[derive(Clone, Copy, Default)]
pub struct Desk {
    stream: Handle,
    chunks: [Chunk; CHUNKS],
}

/// Page-locked memory, and the event behind what the device last did with it.
#[derive(Clone, Copy, Default)]
pub struct Chunk {
    at: usize,
    event: Handle,
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

    /// A desk, once one is free: whoever has one waits for nothing but the device. The context is current.
    pub fn wait<'a>(&self, device: &'a Device) -> Result<Seat<'a>> {
        let mut room = lock(&self.room);
        while room.free.is_empty() && room.made == self.most {
            room = self.freed.wait(room).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        self.take(room, device)
    }

    /// A desk, if one is free. The context is current.
    pub fn look<'a>(&self, device: &'a Device) -> Option<Seat<'a>> {
        let room = lock(&self.room);
        let is_full = room.free.is_empty() && room.made == self.most;
        if is_full { None } else { self.take(room, device).ok() }
    }

    fn take<'a>(&self, mut room: MutexGuard<'_, Room>, device: &'a Device) -> Result<Seat<'a>> {
        if let Some(desk) = room.free.pop() {
            return Ok(Seat { device, desk });
        }
        room.made += 1;
        drop(room);
        Desk::new(device).map(|desk| Seat { device, desk }).inspect_err(|_| {
            lock(&self.room).made -= 1;
            self.freed.notify_one();
        })
    }

    /// Gives everything back to the driver. The context is current and nobody is at a desk.
    pub fn close(&self, driver: &Driver) {
        lock(&self.room).free.drain(..).for_each(|desk| desk.close(driver));
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
    fn new(device: &Device) -> Result<Desk> {
        let mut desk = Desk::default();
        desk.make(device).inspect_err(|_| desk.close(&device.driver))?;
        Ok(desk)
    }

    fn make(&mut self, device: &Device) -> Result<()> {
        let calls = &device.driver.calls;
        self.stream = device.make_stream()?;
        let at = device.page_locked(CHUNKS * CHUNK)?;
        for (index, chunk) in self.chunks.iter_mut().enumerate() {
            chunk.at = at + index * CHUNK;
            // SAFETY: `event` receives the event.
            let code = unsafe { (calls.cuEventCreate)(&mut chunk.event, driver::EVENT_UNTIMED) };
            device.check("cuEventCreate", code)?;
        }
        Ok(())
    }

    fn close(mut self, driver: &Driver) {
        let calls = &driver.calls;
        // SAFETY: made by `make` as far as they are not 0, and nothing is in the stream.
        unsafe {
            for chunk in self.chunks.iter_mut().filter(|chunk| chunk.event != 0) {
                (calls.cuEventDestroy)(chunk.event);
            }
            if self.chunks[0].at != 0 {
                driver.give_page_locked(self.chunks[0].at);
            }
            if self.stream != 0 {
                (calls.cuStreamDestroy)(self.stream);
            }
        }
    }

    /// The chunks.
    pub fn chunks(&self) -> &[Chunk; CHUNKS] {
        &self.chunks
    }

    /// Has the device move a rectangle between a chunk and memory of its own.
    pub fn copy(&self, device: &Device, rows: &Rows) -> Result<()> {
        device.copy_rows(rows, self.stream)
    }

    /// Its stream.
    pub fn stream(&self) -> Handle {
        self.stream
    }

    /// Waits until the device has done all that was asked of it, also what went by other streams and was recorded.
    pub fn settle(&self, device: &Device) -> Result<()> {
        // SAFETY: the stream is alive.
        let code = unsafe { (device.driver.calls.cuStreamSynchronize)(self.stream) };
        device.check("the GPU's part of a staged copy", code)?;
        self.chunks.iter().try_for_each(|chunk| chunk.wait(device))
    }
}

impl Chunk {
    /// Its address, the same for the device.
    pub fn at(&self) -> usize {
        self.at
    }

    /// What was put into the stream until now is the last that is done with it.
    pub fn record(&self, device: &Device, stream: Handle) -> Result<()> {
        // SAFETY: both are alive and of one context.
        let code = unsafe { (device.driver.calls.cuEventRecord)(self.event, stream) };
        device.check("cuEventRecord", code)
    }

    /// Waits until the device is done with it.
    pub fn wait(&self, device: &Device) -> Result<()> {
        // SAFETY: the event is alive; one that was never recorded is reached.
        let code = unsafe { (device.driver.calls.cuEventSynchronize)(self.event) };
        device.check("the GPU's part of a staged copy", code)
    }
}

impl Device {
    /// Has the copy engine move a rectangle, in `stream` of this device. The context is current; the memory stays valid until
    /// that is done.
    pub(in crate::cuda) fn copy_rows(&self, rows: &Rows, stream: Handle) -> Result<()> {
        let calls = &self.driver.calls;
        if rows.height > 1 && rows.dst_pitch.max(rows.src_pitch) <= MAX_PITCH {
            // SAFETY: our caller's promise.
            let code = unsafe { (calls.cuMemcpy2DAsync)(&Rectangle::from(rows), stream) };
            return self.check("cuMemcpy2DAsync", code);
        }
        (0..rows.height).try_for_each(|row| {
            let (dst, src) = (rows.dst + row * rows.dst_pitch, rows.src + row * rows.src_pitch);
            // SAFETY: as above.
            let code = unsafe { (calls.cuMemcpyAsync)(dst, src, rows.width, stream) };
            self.check("cuMemcpyAsync", code)
        })
    }
}
