//! The buffers that facts travel in: a file that the starting command holds, mapped by every watched process.
//!
//! The file is a head and a number of buffers of one size. A thread of a watched process claims a free buffer
//! and appends facts to it; every fact counts from the store of [`BufferHead::used`] on, so that a process
//! that is killed loses at most the fact that it was writing. A full buffer is handed to the reader, which
//! empties it and frees it: memory is bounded, and what finds no free buffer is counted in
//! [`FileHead::lost`]. This module has the layout; `writer.rs` and `collector.rs` are its two sides.

use crate::{clock::Sample, numbers};
use std::{
    fs::File,
    io,
    os::fd::AsRawFd,
    ptr,
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
};

/// The first word of the file: what it is, and the version of the layout.
const MAGIC: u64 = u64::from_le_bytes(*b"ferryw01");
/// Bytes of a buffer, with its head.
pub const BUFFER_BYTES: usize = 64 << 10;
/// Words of facts that a buffer has room for.
pub const BUFFER_WORDS: usize = (BUFFER_BYTES - size_of::<BufferHead>()) / 8;
/// Where the states of the buffers begin, one behind the other.
const STATES: usize = 64;
/// What the first buffer is aligned to.
const PAGE: usize = 4096;

/// A buffer without facts.
pub const FREE: u32 = 0;
/// A thread writes into it.
pub const FILLING: u32 = 1;
/// No more facts come; it is the reader's.
pub const FULL: u32 = 2;

/// The head of the file.
#[repr(C)]
pub struct FileHead {
    magic: AtomicU64,
    buffers: AtomicU64,
    /// What the reader wants to have: bits of [`Wanted`].
    wanted: AtomicU64,
    /// How many facts found no room.
    pub lost: AtomicU64,
    /// How many buffers were claimed so far.
    pub claims: AtomicU64,
    /// Not 0: the reader has taken all that it is going to take.
    pub closed: AtomicU64,
    /// The process that made the file, and reads it.
    reader: AtomicU64,
}

/// The head of a buffer.
#[repr(C, align(64))]
pub struct BufferHead {
    /// How many words of facts are complete.
    pub used: AtomicU32,
    /// The process that fills it.
    pub process: AtomicU32,
    /// The thread that fills it.
    pub thread: AtomicU32,
    /// The number of the claim: buffers of one thread come in this order.
    pub claim: AtomicU64,
    /// The counter when it was claimed.
    pub ticks: AtomicU64,
    /// The monotonic clock at that moment.
    pub nanos: AtomicU64,
}

impl BufferHead {
    /// Both clocks when it was claimed.
    pub fn sample(&self) -> Sample {
        Sample { ticks: self.ticks.load(Ordering::Relaxed), nanos: self.nanos.load(Ordering::Relaxed) }
    }
}

/// What a reader wants beyond the plain facts, which costs the program more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// All pieces of batches, and not only the first few.
    pub pieces: bool,
    /// The stack of every call.
    pub stacks: bool,
    /// A hash of what every op reads and writes.
    pub hashes: bool,
    /// All bytes that every op reads.
    pub bytes: bool,
    /// The CPU's accesses to page-locked host memory in flight, and to addresses of devices.
    pub accesses: bool,
    /// No access is missed, whatever that costs.
    pub precise: bool,
    /// Accesses are seen by means that need no privileges, even where others could be had.
    pub compared: bool,
    /// All facts: a thread that finds no room waits for it, as long as the reader goes on reading.
    pub complete: bool,
}

impl Wanted {
    fn bits(self) -> u64 {
        let all = [
            self.pieces,
            self.stacks,
            self.hashes,
            self.bytes,
            self.accesses,
            self.precise,
            self.complete,
            self.compared,
        ];
        all.iter().enumerate().map(|(bit, is_wanted)| u64::from(*is_wanted) << bit).sum()
    }

    fn from_bits(bits: u64) -> Wanted {
        let has = |bit: u32| bits >> bit & 1 == 1;
        Wanted {
            pieces: has(0),
            stacks: has(1),
            hashes: has(2),
            bytes: has(3),
            accesses: has(4),
            precise: has(5),
            complete: has(6),
            compared: has(7),
        }
    }
}

/// The file, mapped.
pub struct Buffers {
    base: *mut u8,
    len: usize,
    count: usize,
}

/// Where the first of so many buffers begins.
fn first_buffer(count: usize) -> usize {
    (STATES + count * size_of::<AtomicU32>()).next_multiple_of(PAGE)
}

/// Bytes of a file of so many buffers.
fn file_len(count: usize) -> usize {
    first_buffer(count) + count * BUFFER_BYTES
}

// SAFETY: the mapping is shared memory that is reached through atomics, or through words of a buffer that
// belongs to one thread by its state.
unsafe impl Send for Buffers {}
// SAFETY: as above.
unsafe impl Sync for Buffers {}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: made by `map`, and nothing refers to it any more.
        unsafe { libc::munmap(self.base.cast(), self.len) };
    }
}

impl Buffers {
    /// Gives an empty file its size and its head, and maps it.
    pub fn create(file: &File, bytes: usize, wanted: Wanted) -> io::Result<Buffers> {
        let count = bytes.div_ceil(BUFFER_BYTES).max(2);
        file.set_len(file_len(count) as u64)?;
        let buffers = Buffers::map(file, count)?;
        let head = buffers.head();
        head.buffers.store(count as u64, Ordering::Relaxed);
        head.wanted.store(wanted.bits(), Ordering::Relaxed);
        head.reader.store(u64::from(std::process::id()), Ordering::Relaxed);
        head.magic.store(MAGIC, Ordering::Release);
        Ok(buffers)
    }

    /// Maps a file that [`create`](Self::create) made.
    pub fn open(file: &File) -> io::Result<Buffers> {
        let len = file.metadata()?.len() as usize;
        // The states take less than a buffer, unless there are very many.
        let Some(count) = (1..=len / BUFFER_BYTES).rev().find(|count| file_len(*count) <= len) else {
            return Err(not_ours("it is too short"));
        };
        let buffers = Buffers::map(file, count)?;
        let head = buffers.head();
        if head.magic.load(Ordering::Acquire) != MAGIC {
            return Err(not_ours("it does not begin as one of this version"));
        }
        if head.buffers.load(Ordering::Relaxed) != count as u64 {
            return Err(not_ours("its length is not the one in its head"));
        }
        Ok(buffers)
    }

    fn map(file: &File, count: usize) -> io::Result<Buffers> {
        let len = file_len(count);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the system's choice.
        let base = unsafe { libc::mmap(ptr::null_mut(), len, access, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Buffers { base: base.cast(), len, count })
    }

    /// The head of the file.
    pub fn head(&self) -> &FileHead {
        // SAFETY: the mapping begins with it, and consists of atomics, of which every value is valid.
        unsafe { &*self.base.cast::<FileHead>() }
    }

    /// Whether the process that reads is still there, as far as this one can see.
    pub fn has_reader(&self) -> bool {
        numbers::has_process(self.head().reader.load(Ordering::Relaxed) as u32)
    }

    /// What the reader wants.
    pub fn wanted(&self) -> Wanted {
        Wanted::from_bits(self.head().wanted.load(Ordering::Relaxed))
    }

    /// How many buffers there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// [`FREE`], [`FILLING`] or [`FULL`].
    pub fn state(&self, index: usize) -> &AtomicU32 {
        assert!(index < self.count, "buffer {index} of {}", self.count);
        // SAFETY: the states lie inside the mapping, before the first buffer.
        unsafe { &*self.base.add(STATES).cast::<AtomicU32>().add(index) }
    }

    /// How many buffers wait for the reader.
    pub fn full(&self) -> usize {
        (0..self.count).filter(|index| self.state(*index).load(Ordering::Relaxed) == FULL).count()
    }

    /// The head of a buffer.
    pub fn buffer(&self, index: usize) -> &BufferHead {
        assert!(index < self.count, "buffer {index} of {}", self.count);
        // SAFETY: the buffer lies inside the mapping; the head consists of atomics.
        unsafe { &*self.base.add(first_buffer(self.count) + index * BUFFER_BYTES).cast::<BufferHead>() }
    }

    /// The words of a buffer: [`BUFFER_WORDS`] of them.
    pub fn words(&self, index: usize) -> *mut u64 {
        ptr::from_ref(self.buffer(index)).wrapping_add(1).cast_mut().cast()
    }

    /// The words of a buffer that are complete, from `from` on, as they are now.
    pub fn complete(&self, index: usize, from: usize) -> Vec<u64> {
        let used = (self.buffer(index).used.load(Ordering::Acquire) as usize).min(BUFFER_WORDS);
        let words = self.words(index);
        // SAFETY: words up to `used` are written before `used` says so, and not again until the buffer is
        // freed, which the reader does.
        (from..used).map(|word| unsafe { words.add(word).read_volatile() }).collect()
    }

    /// Takes a free buffer for the calling thread, or none.
    pub fn claim(&self, process: u32, thread: u32) -> Option<usize> {
        let claim = self.head().claims.fetch_add(1, Ordering::Relaxed);
        // The lowest one: buffers that were used a moment ago are in the caches, and others not even in
        // memory.
        let index = (0..self.count).find(|index| {
            let state = self.state(*index);
            state.load(Ordering::Relaxed) == FREE
                && state.compare_exchange(FREE, FILLING, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        })?;
        let (buffer, now) = (self.buffer(index), Sample::now());
        buffer.claim.store(claim, Ordering::Relaxed);
        buffer.process.store(process, Ordering::Relaxed);
        buffer.ticks.store(now.ticks, Ordering::Relaxed);
        buffer.nanos.store(now.nanos, Ordering::Relaxed);
        // Last: a buffer counts from here on.
        buffer.thread.store(thread, Ordering::Release);
        Some(index)
    }

    /// Gives a buffer that was read to its end back.
    pub fn release(&self, index: usize) {
        let buffer = self.buffer(index);
        buffer.thread.store(0, Ordering::Relaxed);
        buffer.used.store(0, Ordering::Relaxed);
        self.state(index).store(FREE, Ordering::Release);
    }
}

fn not_ours(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("this is no file of facts: {why}"))
}
