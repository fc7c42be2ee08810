//! Writing facts: what a watched process does.
//!
//! Every thread appends to a buffer of its own, without a lock. A thread that ends closes its buffer; facts
//! that come after that, from destructors of the thread, go through a buffer that is claimed for each of
//! them. A forked child writes nothing: it would write into the buffers of its parent.

use crate::{
    buffers::{BUFFER_WORDS, Buffers, FULL, Wanted},
    fact::{Fact, Piece, Point},
    words::{self, WordSink},
};
use std::{
    cell::{Cell, RefCell},
    fs::File,
    io, process, ptr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// Pieces of a batch that fit into one fact.
const PIECES_AT_ONCE: usize = 2048;
/// Bytes of contents that fit into one fact.
const BYTES_AT_ONCE: usize = 32 << 10;

/// Writes the facts of one process.
pub struct FactWriter {
    shared: Arc<WriterState>,
    wanted: Wanted,
}

struct WriterState {
    buffers: Buffers,
    /// Tells writers apart: a process may have several in the course of time.
    number: u64,
    process: u32,
    origin: Canary,
}

thread_local! {
    /// The buffer that this thread fills.
    static FILLING: RefCell<Option<Filling>> = const { RefCell::new(None) };
    /// The system's number of this thread, once it is known.
    static THREAD: Cell<u32> = const { Cell::new(0) };
}

/// A buffer that a thread fills.
struct Filling {
    shared: Arc<WriterState>,
    index: usize,
    used: usize,
}

impl Drop for Filling {
    fn drop(&mut self) {
        if self.shared.origin.is_here() {
            self.shared.buffers.buffer(self.index).state.store(FULL, Ordering::Release);
        }
    }
}

/// The words of a buffer that are not used yet.
struct Room {
    words: *mut u64,
    used: usize,
}

impl WordSink for Room {
    #[inline]
    fn put(&mut self, word: u64) {
        if self.used < BUFFER_WORDS {
            // SAFETY: inside the buffer, which belongs to this thread, behind what is complete.
            unsafe { self.words.add(self.used).write(word) };
        }
        self.used += 1;
    }
}

impl FactWriter {
    /// Writes into the file, which a command has made.
    pub fn open(file: &File) -> io::Result<FactWriter> {
        static WRITERS: AtomicU64 = AtomicU64::new(1);
        let buffers = Buffers::open(file)?;
        let number = WRITERS.fetch_add(1, Ordering::Relaxed);
        let shared = WriterState { buffers, number, process: process::id(), origin: Canary::new()? };
        Ok(FactWriter { wanted: shared.buffers.wanted(), shared: Arc::new(shared) })
    }

    /// What the reader wants to have.
    pub fn wanted(&self) -> Wanted {
        self.wanted
    }

    /// Whether this is the process that opened the writer, and no child of it.
    #[inline]
    pub fn is_here(&self) -> bool {
        self.shared.origin.is_here()
    }

    /// Writes a fact, or counts it as lost.
    #[inline]
    pub fn write(&self, fact: &Fact) {
        if !self.is_here() {
            return;
        }
        let written = FILLING.try_with(|filling| match filling.try_borrow_mut() {
            Ok(mut filling) => self.write_into(&mut filling, fact),
            Err(_) => false,
        });
        match written {
            Ok(true) => {}
            Ok(false) => self.lose(1),
            // The thread is about to end.
            Err(_) => {
                let mut last = None;
                if !self.write_into(&mut last, fact) {
                    self.lose(1);
                }
            }
        }
    }

    /// Writes more pieces of a batch, in as many facts as it takes.
    pub fn write_pieces(&self, point: Point, pieces: &[Piece]) {
        for some in pieces.chunks(PIECES_AT_ONCE) {
            self.write(&Fact::MorePieces { point, pieces: some.to_vec() });
        }
    }

    /// Writes bytes of an end of an op, in as many facts as it takes.
    pub fn write_bytes(&self, point: Point, end: crate::fact::End, offset: u64, bytes: &[u8]) {
        for (part, some) in bytes.chunks(BYTES_AT_ONCE).enumerate() {
            let offset = offset + (part * BYTES_AT_ONCE) as u64;
            self.write(&Fact::Bytes { point, end, offset, bytes: some.to_vec() });
        }
    }

    #[cold]
    fn lose(&self, count: u64) {
        self.shared.buffers.head().lost.fetch_add(count, Ordering::Relaxed);
    }

    #[inline]
    fn write_into(&self, filling: &mut Option<Filling>, fact: &Fact) -> bool {
        let is_ours = |filling: &&mut Filling| filling.shared.number == self.shared.number;
        let written = filling.as_mut().filter(is_ours).is_some_and(|filling| filling.append(fact));
        written || self.write_into_next(filling, fact)
    }

    /// Claims another buffer.
    #[cold]
    fn write_into_next(&self, filling: &mut Option<Filling>, fact: &Fact) -> bool {
        *filling = None;
        let is_new = THREAD.with(Cell::get) == 0;
        let Some(index) = self.shared.buffers.claim(self.shared.process, thread_number()) else {
            return false;
        };
        let next = filling.insert(Filling { shared: self.shared.clone(), index, used: 0 });
        if is_new {
            next.append(&Fact::Thread(thread_name()));
        }
        next.append(fact)
    }
}

impl Filling {
    /// Whether the fact had room.
    #[inline]
    fn append(&mut self, fact: &Fact) -> bool {
        let buffers = &self.shared.buffers;
        let mut room = Room { words: buffers.words(self.index), used: self.used + 1 };
        let kind = words::write(fact, &mut room);
        if room.used > BUFFER_WORDS {
            return false;
        }
        let len = (room.used - self.used) as u64;
        // SAFETY: inside the buffer, which belongs to this thread.
        unsafe { room.words.add(self.used).write(u64::from(kind) | len << 16) };
        self.used = room.used;
        buffers.buffer(self.index).used.store(self.used as u32, Ordering::Release);
        true
    }
}

/// The system's number of the calling thread.
fn thread_number() -> u32 {
    THREAD.with(|known| {
        if known.get() == 0 {
            // SAFETY: it only asks.
            known.set(unsafe { libc::syscall(libc::SYS_gettid) } as u32);
        }
        known.get()
    })
}

/// What the system calls the calling thread.
fn thread_name() -> String {
    let mut name = [0_u8; 16];
    // SAFETY: it writes 16 bytes at most, the last of which is zero.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}

/// A page that the kernel empties in a forked child.
struct Canary(*mut u8);

// SAFETY: the page is read and never written after it was made.
unsafe impl Send for Canary {}
// SAFETY: as above.
unsafe impl Sync for Canary {}

impl Canary {
    const BYTES: usize = 4096;

    fn new() -> io::Result<Canary> {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at an address of the system's choice.
        let page = unsafe { libc::mmap(ptr::null_mut(), Self::BYTES, access, flags, -1, 0) };
        if page == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let canary = Canary(page.cast());
        // SAFETY: the page was just made.
        if unsafe { libc::madvise(page, Self::BYTES, libc::MADV_WIPEONFORK) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: as above.
        unsafe { canary.0.write(1) };
        Ok(canary)
    }

    #[inline]
    fn is_here(&self) -> bool {
        // SAFETY: the page is there as long as this is.
        unsafe { self.0.read_volatile() == 1 }
    }
}

impl Drop for Canary {
    fn drop(&mut self) {
        // SAFETY: made by `new`, and nothing refers to it any more.
        unsafe { libc::munmap(self.0.cast(), Self::BYTES) };
    }
}
