//! Doorbells: the GPU tells a waiting thread how far a stream is by words in pinned memory.
//!
//! Each block of a kernel writes a number when all that it wrote has arrived. Behind anything else, such as
//! the work of a copy engine, the stream itself writes one, to a word that no kernel uses. The thread polls
//! these words: to ask the driver takes one or two microseconds more.

use crate::cuda::driver::Current;
use ferry_core::{
    Result,
    sync::{Mutex, lock},
};
use std::{
    collections::VecDeque,
    hint, mem,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Most blocks of a kernel that rings a doorbell.
const BLOCKS_MAX: usize = 256;
/// Where the word is that the stream itself writes: on a cache line of its own.
const END: usize = BLOCKS_MAX * size_of::<u64>();
/// Bytes of a doorbell: a word for each block, and that cache line.
const SIZE: usize = END + 64;
/// Bytes that are allocated at a time.
const GROUP_LEN: usize = 32 * SIZE;
/// After this time the driver is asked: the kernel may have failed, and then the words are never written.
const DRIVER_AFTER: Duration = Duration::from_millis(2);
/// Numbers that a stream may have been given and not written yet. A full stream makes its callers wait in the
/// driver, and a thread that waits again and again for a while only, behind work that stands, adds one each
/// time.
const UNWRITTEN_MAX: usize = 128;
/// Polls between two readings of the clock.
const SPINS_PER_CLOCK: u32 = 1000;

/// The free list of the doorbells of a device, and the number of the newest completion: a doorbell that is
/// used again has older numbers in it.
#[derive(Default)]
pub struct Doorbells {
    count: AtomicU64,
    made: Mutex<DoorbellGroups>,
}

#[derive(Default)]
struct DoorbellGroups {
    groups: Vec<usize>,
    spare: Vec<usize>,
    /// Whether a kernel may still write to a doorbell that is not in use.
    is_any_lost: bool,
}

impl Doorbells {
    fn take(&self, make: impl FnOnce(usize) -> Result<usize>) -> Result<usize> {
        let mut made = lock(&self.made);
        if made.spare.is_empty() {
            let group = make(GROUP_LEN)?;
            // SAFETY: fresh memory of this length, which nothing else uses.
            unsafe { std::ptr::write_bytes(group as *mut u8, 0, GROUP_LEN) };
            made.groups.push(group);
            made.spare.extend((group..group + GROUP_LEN).step_by(SIZE));
        }
        Ok(made.spare.pop().expect("a group of them"))
    }

    /// The memory of the doorbells, to be given back; none if a kernel may still write to one.
    pub fn close(&self) -> Vec<usize> {
        let made = mem::take(&mut *lock(&self.made));
        if made.is_any_lost { Vec::new() } else { made.groups }
    }
}

/// The doorbell of a stream, made when its first kernel is launched or its first number is written; none
/// where there is no memory for it.
#[derive(Default)]
pub struct Doorbell {
    at: OnceLock<usize>,
    /// The end of the last thing in the stream, if that is something which rings.
    last: Mutex<Option<Completion>>,
    /// The numbers that the stream itself writes, from the newest back to the oldest that it may not have
    /// written. Locked while one is put into the stream: numbers only grow in its order.
    unwritten: Mutex<VecDeque<u64>>,
}

/// A place in a stream: what a kernel, or the stream itself, writes when it gets there, and what a thread can
/// wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Where the words are; 0 if there are none.
    pub at: usize,
    /// The number that each of the blocks writes.
    pub number: u64,
    blocks: u32,
}

impl Doorbell {
    /// What the next kernel, of so many blocks, is to write when it ends.
    pub fn next(&self, pool: &Doorbells, current: &Current<'_>, blocks: u32) -> Completion {
        let at = self.at.get().copied().or_else(|| self.make(pool, |len| current.own_pinned(len)));
        let at = at.filter(|_| blocks as usize <= BLOCKS_MAX).unwrap_or(0);
        Completion { at, number: pool.count.fetch_add(1, Ordering::Relaxed) + 1, blocks }
    }

    /// Has the stream itself write a number when it has done what is in it now; `write` is given the place
    /// and the number, and puts that into the stream. `None` if it cannot, or has too many to write as it is.
    pub fn ring(
        &self,
        pool: &Doorbells,
        current: &Current<'_>,
        write: impl FnOnce(usize, u64) -> Result<()>,
    ) -> Option<Completion> {
        let words = self.at.get().copied().or_else(|| self.make(pool, |len| current.own_pinned(len)))?;
        self.ring_at(words + END, pool, write)
    }

    fn ring_at(
        &self,
        at: usize,
        pool: &Doorbells,
        write: impl FnOnce(usize, u64) -> Result<()>,
    ) -> Option<Completion> {
        let mut unwritten = lock(&self.unwritten);
        let end = |number| Completion { at, number, blocks: 1 };
        while unwritten.back().is_some_and(|oldest| end(*oldest).is_done()) {
            unwritten.pop_back();
        }
        if unwritten.len() >= UNWRITTEN_MAX {
            return None;
        }
        let number = pool.count.fetch_add(1, Ordering::Relaxed) + 1;
        write(at, number).ok()?;
        unwritten.push_front(number);
        Some(end(number))
    }

    /// Where the words are, made here or by another thread meanwhile.
    fn make(&self, doorbells: &Doorbells, make: impl FnOnce(usize) -> Result<usize>) -> Option<usize> {
        let made = doorbells.take(make).ok()?;
        if self.at.set(made).is_err() {
            lock(&doorbells.made).spare.push(made);
        }
        self.at.get().copied()
    }

    /// The last thing in the stream is a kernel with this completion, or something else.
    pub fn set_last(&self, completion: Option<Completion>) {
        *lock(&self.last) = completion.filter(|completion| completion.at != 0);
    }

    /// The completion of the last thing in the stream, if it is a kernel that has one.
    pub fn last(&self) -> Option<Completion> {
        *lock(&self.last)
    }

    /// The stream goes; whether all of its work is done.
    pub fn leave(&mut self, doorbells: &Doorbells, is_idle: bool) {
        let Some(at) = self.at.take() else { return };
        // A number comes behind the work, and somebody else may have seen that to be done.
        let newest = lock(&self.unwritten).front().copied().unwrap_or_default();
        let end = Completion { at: at + END, number: newest, blocks: 1 };
        let mut made = lock(&doorbells.made);
        match is_idle && end.is_done() {
            true => made.spare.push(at),
            false => made.is_any_lost = true,
        }
    }
}

impl Completion {
    /// Whether all blocks have written their words.
    pub fn is_done(&self) -> bool {
        (0..self.blocks).all(|block| self.word(block) >= self.number)
    }

    /// As [`is_done`](Self::is_done), for a thread that asks again and again.
    pub fn is_done_soon(&self) -> bool {
        hint::spin_loop();
        self.is_done()
    }

    /// Polls for about so long, but for a while at most; false if the driver is to be asked.
    pub fn wait(&self, limit: Duration) -> bool {
        if limit.is_zero() {
            return self.is_done();
        }
        let (begin, limit) = (Instant::now(), limit.min(DRIVER_AFTER));
        for block in 0..self.blocks {
            let mut spins = 0;
            while self.word(block) < self.number {
                spins += 1;
                if spins % SPINS_PER_CLOCK == 0 {
                    if begin.elapsed() > limit {
                        return false;
                    }
                    // There may be fewer CPUs than threads that poll.
                    thread::yield_now();
                }
                hint::spin_loop();
            }
        }
        true
    }

    fn word(&self, block: u32) -> u64 {
        let at = self.at + block as usize * size_of::<u64>();
        // SAFETY: a word of a doorbell, which stays where it is as long as its device and is written as a
        // whole. The kernel writes it after its bytes, so a reader that sees the number sees those as well.
        unsafe { AtomicU64::from_ptr(at as *mut u64) }.load(Ordering::Acquire)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Memory that is never given back; it need not be pinned here.
    fn memory(len: usize) -> Result<usize> {
        Ok(vec![u64::MAX; len.div_ceil(8)].leak().as_ptr() as usize)
    }

    /// What a block of a kernel does.
    fn write(completion: &Completion, block: u32, number: u64) {
        // SAFETY: a word of a doorbell of these tests.
        unsafe { AtomicU64::from_ptr((completion.at + 8 * block as usize) as *mut u64) }
            .store(number, Ordering::Release);
    }

    #[test]
    fn a_completion_is_done_when_every_block_has_written_its_number_or_a_later_one() {
        let at = Doorbells::default().take(memory).expect("memory");
        let waited = Completion { at, number: 7, blocks: 3 };
        for (block, number) in [(0, 7), (2, 9), (1, 6)] {
            assert!(!waited.is_done());
            write(&waited, block, number);
        }
        assert!(!waited.is_done() && !waited.wait(Duration::MAX), "block 1 has written an older one");
        write(&waited, 1, 7);
        assert!(waited.is_done() && waited.wait(Duration::MAX));
    }

    #[test]
    fn the_newest_is_forgotten_when_something_else_comes() {
        let (doorbell, completion) = (Doorbell::default(), Completion { at: 4096, number: 1, blocks: 1 });
        doorbell.set_last(Some(completion));
        assert_eq!(doorbell.last(), Some(completion));
        doorbell.set_last(None);
        assert_eq!(doorbell.last(), None);
        doorbell.set_last(Some(Completion { at: 0, ..completion }));
        assert_eq!(doorbell.last(), None, "no doorbell");
    }

    #[test]
    fn numbers_of_the_stream_itself_have_a_word_of_their_own_and_only_grow() {
        let (doorbells, doorbell) = (Doorbells::default(), Doorbell::default());
        let words = doorbells.take(memory).expect("memory");
        let (kernel, mut newest) = (Completion { at: words, number: 0, blocks: BLOCKS_MAX as u32 }, 0);
        let mut ring = || {
            let put = |at, number| {
                assert!(at == words + END && number > newest);
                newest = number;
                Ok(())
            };
            doorbell.ring_at(words + END, &doorbells, put).expect("it is put")
        };
        let (first, second) = (ring(), ring());
        write(&second, 0, second.number);
        assert!(first.is_done() && second.is_done() && !ring().is_done());
        assert_eq!((kernel.word(BLOCKS_MAX as u32 - 1), END % 64), (0, 0), "no word of a kernel");
    }

    #[test]
    fn a_stream_that_stands_is_given_no_numbers_without_end() {
        let (doorbells, doorbell, mut put) = (Doorbells::default(), Doorbell::default(), 0);
        let words = doorbells.take(memory).expect("memory");
        let mut ring = || {
            doorbell.ring_at(words + END, &doorbells, |_, _| {
                put += 1;
                Ok(())
            })
        };
        let rung: Vec<Completion> = (0..10 * UNWRITTEN_MAX).map_while(|_| ring()).collect();
        assert_eq!((rung.len(), ring()), (UNWRITTEN_MAX, None));
        write(&rung[1], 0, rung[1].number);
        assert_eq!([ring().is_some(), ring().is_some(), ring().is_some()], [true, true, false]);
        assert_eq!(put, UNWRITTEN_MAX + 2);
    }

    #[test]
    fn a_thread_that_comes_second_leaves_no_doorbell_behind() {
        let (doorbells, doorbell) = (Doorbells::default(), Doorbell::default());
        let make = |len| {
            doorbell.at.set(4096).expect("the other is first");
            memory(len)
        };
        assert_eq!(doorbell.make(&doorbells, make), Some(4096));
        assert_eq!(lock(&doorbells.made).spare.len(), GROUP_LEN / SIZE, "all of the group");
    }

    #[test]
    fn doorbells_are_used_again_unless_a_kernel_may_still_ring() {
        let doorbells = Doorbells::default();
        let lane = || {
            let doorbell = Doorbell::default();
            doorbell.at.set(doorbells.take(memory).expect("memory")).expect("none yet");
            doorbell
        };
        let (mut first, second) = (lane(), lane());
        let place = first.at.get().copied();
        assert_ne!(place, second.at.get().copied());
        first.leave(&doorbells, true);
        let mut again = lane();
        assert_eq!(again.at.get().copied(), place);
        assert_eq!(lock(&doorbells.made).groups.len(), 1);
        again.leave(&doorbells, false);
        assert_ne!(lane().at.get().copied(), place);
        assert_eq!(doorbells.close(), []);
        let (doorbells, mut rung) = (Doorbells::default(), Doorbell::default());
        let at = doorbells.take(memory).expect("memory");
        rung.at.set(at).expect("none yet");
        assert!(rung.ring_at(at + END, &doorbells, |_, _| Ok(())).is_some());
        rung.leave(&doorbells, true);
        assert_eq!(doorbells.close(), [], "the number is yet to be written");
    }
}
