//! Writing facts: what a watched process does.
//!
//! Every thread appends to a buffer of its own, without a lock. A thread that ends closes its buffer; facts
//! that come after that, from destructors of the thread, go through a buffer that is claimed for each of
//! them. A forked child writes nothing: it would write into the buffers of its parent.
//!
//! Two kinds of facts are most of them: a copy in one piece that was submitted, and an op that has passed.
//! They are written word by word ([`FactWriter::submitted_linear`], [`FactWriter::passed`]).

use crate::{
    buffers::{BUFFER_WORDS, Buffers, FULL, Wanted},
    clock::ticks,
    fact::{Call, CallSite, End, Fact, Joined, Outcome, Passed, Piece, Point, Route, SubmittedOp, Work},
    local::{Local, OpId, local},
    numbers,
    words::{self, WordSink},
};
use std::{
    cell::RefCell,
    fs::File,
    io, ptr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

/// How long a thread waits for room at a time, and how long in all until it takes the reader for dead: longer
/// while there is a process that reads, which may be slow.
const PAUSE: Duration = Duration::from_micros(500);
const PATIENCE: Duration = Duration::from_secs(10);
const LONG_PATIENCE: Duration = Duration::from_secs(120);
/// Buffers that may wait for a reader that wants all facts, of all processes together: 2 MiB.
const MAX_FULL: usize = 32;
/// Pieces of a batch that fit into one fact.
const PIECES_AT_ONCE: usize = 2048;
/// Bytes of contents that fit into one fact.
const BYTES_AT_ONCE: usize = 32 << 10;

/// Writes the facts of one process.
pub struct FactWriter {
    shared: Arc<WriterState>,
    wanted: Wanted,
    /// Tells writers apart: a process may have several in the course of time.
    number: u64,
}

struct WriterState {
    buffers: Buffers,
    process: u32,
    origin: Canary,
    /// Nobody has read for long: the command is gone.
    is_unread: AtomicBool,
}

thread_local! {
    /// Closes the buffer that this thread fills when the thread ends.
    static CLOSER: RefCell<Option<Filling>> = const { RefCell::new(None) };
}

/// A buffer that a thread fills.
struct Filling {
    shared: Arc<WriterState>,
    index: usize,
}

impl Drop for Filling {
    fn drop(&mut self) {
        local(|local| local.writer.set(0));
        if self.shared.origin.is_here() {
            self.shared.buffers.state(self.index).store(FULL, Ordering::Release);
        }
    }
}

/// The words of a buffer that are not used yet.
struct Room {
    words: *mut u64,
    used: usize,
}

impl WordSink for Room {
    #[inline(always)]
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
        let shared = WriterState {
            buffers,
            process: numbers::process(),
            origin: Canary::new()?,
            is_unread: AtomicBool::new(false),
        };
        Ok(FactWriter { wanted: shared.buffers.wanted(), number, shared: Arc::new(shared) })
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
    pub fn write(&self, fact: &Fact) {
        local(|local| self.append(local, |room| words::write(fact, room)));
    }

    /// A copy in one piece was taken by a stream, now and in the current call.
    #[inline]
    pub fn submitted_linear(&self, point: Point, route: Route, piece: Piece) {
        local(|local| {
            let (time, site, task) = (ticks(), local.site.get(), local.task.get());
            let short = match task {
                None => words::write_linear(time, point, &site, &route, &piece),
                Some(_) => None,
            };
            match short {
                Some(words) => self.append_words(local, words),
                None => {
                    // A call on the fast path has not taken its time.
                    let site = CallSite { begin: if site.begin == 0 { time } else { site.begin }, ..site };
                    let (awaits, work) = (Vec::new(), Work::Linear { route, piece });
                    let op = Fact::Submitted(SubmittedOp { time, point, site, awaits, work, task });
                    self.append(local, |room| words::write(&op, room));
                }
            }
        });
    }

    /// The op begins on this thread: now, or, if it follows `at_once`, when the last op of this thread ended.
    #[inline]
    pub fn begun(&self, point: Point, at_once: bool) {
        local(|local| {
            self.tell_begun(local);
            let (_, ended) = local.ended.get();
            let time = if at_once && ended != 0 { ended } else { ticks() };
            local.begun.set((OpId { stream: point.stream, ticket: point.ticket }, time));
        });
    }

    /// The op that has begun on this thread takes long, or goes on elsewhere.
    pub fn suspended(&self, point: Point) {
        local(|local| {
            let (ended, time) = local.ended.take();
            let op = OpId { stream: point.stream, ticket: point.ticket };
            if ended == (OpId { ticket: op.ticket.wrapping_sub(1), ..op }) && local.begun.get().0 != op {
                local.begun.set((op, time));
            }
            self.tell_begun(local);
        });
    }

    /// An op that has begun and not passed on this thread is told of, before the thread does something else.
    #[inline]
    fn tell_begun(&self, local: &Local) {
        let (op, time) = local.begun.get();
        if op != OpId::NONE {
            local.begun.set((OpId::NONE, 0));
            let point = Point { stream: op.stream, ticket: op.ticket };
            self.append(local, |room| words::write(&Fact::Begun { time, point }, room));
        }
    }

    /// The op has passed, now. It has begun when that was told on this thread; or when the op before it in
    /// its stream passed here, if it followed at once and that was not told.
    #[inline]
    pub fn passed(&self, point: Point, outcome: Outcome) {
        local(|local| {
            let (begun, time) = local.begun.get();
            let (op, (ended, end_before)) =
                (OpId { stream: point.stream, ticket: point.ticket }, local.ended.get());
            let begin = if begun == op {
                local.begun.set((OpId::NONE, 0));
                time
            } else if ended == (OpId { ticket: op.ticket.wrapping_sub(1), ..op }) {
                end_before
            } else {
                0
            };
            let end = ticks();
            local.ended.set((op, end));
            self.append_words(local, words::write_passed_here(point, begin, end, outcome));
        });
    }

    /// A call has returned.
    #[inline]
    pub fn returned(&self, call: &Call) {
        match words::write_call(call) {
            Some(words) => local(|local| self.append_words(local, words)),
            None => self.write(&Fact::Call(*call)),
        }
    }

    /// This thread has learnt that a point has passed.
    #[inline]
    pub fn joined(&self, joined: &Joined) {
        match words::write_joined(joined) {
            Some(words) => local(|local| self.append_words(local, words)),
            None => self.write(&Fact::Joined(*joined)),
        }
    }

    /// The ops from `first` to that of `last` have passed, which were sent to a device as one.
    pub fn passed_together(&self, first: u64, last: &Passed) {
        local(|local| self.append_words(local, words::write_passed_together(first, last)));
    }

    /// Writes more pieces of a batch, in as many facts as it takes.
    pub fn write_pieces(&self, point: Point, pieces: &[Piece]) {
        for some in pieces.chunks(PIECES_AT_ONCE) {
            self.write(&Fact::MorePieces { point, pieces: some.to_vec() });
        }
    }

    /// Writes bytes of an end of an op, in as many facts as it takes.
    pub fn write_bytes(&self, point: Point, end: End, offset: u64, bytes: &[u8]) {
        for (part, some) in bytes.chunks(BYTES_AT_ONCE).enumerate() {
            let offset = offset + (part * BYTES_AT_ONCE) as u64;
            self.write(&Fact::Bytes { point, end, offset, bytes: some.to_vec() });
        }
    }

    /// Appends the fact whose words `put` writes, and says its kind.
    #[inline]
    fn append(&self, local: &Local, put: impl Fn(&mut Room) -> u16) {
        if !self.is_here() {
            return;
        }
        let put = |room: &mut Room| words::head(put(room), 0, 0);
        let is_ours = local.writer.get() == self.number;
        if !(is_ours && append_here(local, &put)) {
            self.append_to_next(local, &put);
        }
    }

    /// Appends a fact that is given as words, the first of which is complete.
    #[inline]
    fn append_words<const N: usize>(&self, local: &Local, words: [u64; N]) {
        let used = local.used.get();
        if !self.is_here() {
            return;
        }
        if local.writer.get() != self.number || used + N > BUFFER_WORDS {
            return self.append_to_next(local, &|room| {
                words[1..].iter().for_each(|word| room.put(*word));
                words[0]
            });
        }
        // SAFETY: inside the buffer, which belongs to this thread, behind what is complete.
        unsafe { local.words.get().add(used).cast::<[u64; N]>().write_unaligned(words) };
        commit(local, used + N);
    }

    /// A free buffer. If the reader wants all facts, the thread waits for one, and until the reader is not
    /// far behind: full buffers are memory.
    fn claim(&self, thread: u32) -> Option<usize> {
        let WriterState { buffers, process, is_unread, .. } = &*self.shared;
        let claim = || buffers.claim(*process, thread);
        if !self.wanted.complete {
            return claim();
        }
        let is_patient = |waited: Duration| {
            waited < PATIENCE || waited < LONG_PATIENCE && self.shared.buffers.has_reader()
        };
        let mut waited = Duration::ZERO;
        loop {
            let claimed = if buffers.full() < MAX_FULL { claim() } else { None };
            if claimed.is_some() {
                is_unread.store(false, Ordering::Relaxed);
                return claimed;
            }
            let is_over =
                is_unread.load(Ordering::Relaxed) || buffers.head().closed.load(Ordering::Relaxed) != 0;
            if is_over || !is_patient(waited) {
                break;
            }
            thread::sleep(PAUSE);
            waited += PAUSE;
        }
        is_unread.store(true, Ordering::Relaxed);
        claim()
    }

    /// Claims another buffer.
    #[cold]
    fn append_to_next(&self, local: &Local, put: &impl Fn(&mut Room) -> u64) {
        // Closes the buffer that was filled so far.
        let closer = CLOSER.try_with(|closer| closer.take().is_some());
        let is_new = local.thread.get() == 0;
        let Some(index) = self.claim(thread_number(local)) else {
            self.shared.buffers.head().lost.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let filling = Filling { shared: self.shared.clone(), index };
        local.words.set(self.shared.buffers.words(index));
        local.head.set(self.shared.buffers.buffer(index));
        local.used.set(0);
        local.writer.set(self.number);
        if is_new {
            append_here(local, &|room| words::head(words::write(&Fact::Thread(thread_name()), room), 0, 0));
        }
        append_here(local, put);
        // A thread that is about to end closes the buffer at once.
        if closer.is_ok() {
            let _ = CLOSER.try_with(|closer| closer.replace(Some(filling)));
        }
    }
}

/// Whether the fact had room in the buffer of the thread; `put` writes all words but the first, which it says
/// without their number.
#[inline]
fn append_here(local: &Local, put: &impl Fn(&mut Room) -> u64) -> bool {
    let used = local.used.get();
    let mut room = Room { words: local.words.get(), used: used + 1 };
    let head = put(&mut room);
    if room.used > BUFFER_WORDS {
        return false;
    }
    let head = head & !(0xffff << 16) | words::head(0, room.used - used, 0);
    // SAFETY: inside the buffer, which belongs to this thread.
    unsafe { room.words.add(used).write(head) };
    commit(local, room.used);
    true
}

/// From here on so many words of the buffer count.
#[inline]
fn commit(local: &Local, used: usize) {
    local.used.set(used);
    // SAFETY: the head of the buffer, in a mapping that is there as long as its writer is.
    unsafe { &*local.head.get() }.used.store(used as u32, Ordering::Release);
}

/// The number of the calling thread.
fn thread_number(local: &Local) -> u32 {
    if local.thread.get() == 0 {
        local.thread.set(numbers::thread());
    }
    local.thread.get()
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
