//! How a thread that waits learns of a kernel's end: each block of the kernel writes a number into page-locked memory when all that
//! it wrote has arrived. To ask the driver takes two microseconds more.

use crate::cuda::device::Device;
use ferry_core::{
    Result,
    sync::{Mutex, lock},
};
use std::{
    hint, mem,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// Blocks at most of a kernel that rings.
const BLOCKS: usize = 256;
/// Bytes of a bell: a word for each block.
const SIZE: usize = BLOCKS * size_of::<u64>();
/// Bytes that are made at a time.
const PAGE: usize = 32 * SIZE;
/// After this time the driver is asked: the kernel may have failed, and then nobody rings.
const PATIENCE: Duration = Duration::from_millis(2);
/// How often is looked before the clock is.
const LOOKS: u32 = 1000;

/// The bells of a device that nobody uses now, and the number of the newest ring: a bell that is used again has older ones in it.
#[derive(Default)]
pub struct Bells {
    count: AtomicU64,
    made: Mutex<Made>,
}

#[derive(Default)]
struct Made {
    pages: Vec<usize>,
    spare: Vec<usize>,
    /// Somebody may still write to one that nobody uses.
    is_any_lost: bool,
}

impl Bells {
    fn take(&self, make: impl FnOnce(usize) -> Result<usize>) -> Result<usize> {
        let mut made = lock(&self.made);
        if made.spare.is_empty() {
            let page = make(PAGE)?;
            // SAFETY: fresh memory of this length, which nobody else knows.
            unsafe { std::ptr::write_bytes(page as *mut u8, 0, PAGE) };
            made.pages.push(page);
            made.spare.extend((page..page + PAGE).step_by(SIZE));
        }
        Ok(made.spare.pop().expect("a page of them"))
    }

    /// The memory of the bells, to be given back; none if a kernel may still write to one.
    pub fn close(&self) -> Vec<usize> {
        let made = mem::take(&mut *lock(&self.made));
        if made.is_any_lost { Vec::new() } else { made.pages }
    }
}

/// The bell of a lane, made when its first kernel is launched; none where there is no memory for it.
#[derive(Default)]
pub struct Bell {
    at: OnceLock<usize>,
    /// What the last thing in the stream rings, if it is a kernel that does.
    newest: Mutex<Option<Ring>>,
}

/// What a kernel is told to ring, and what a thread can wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    /// Where the words are; 0 is no bell.
    pub at: usize,
    /// What each of the blocks writes.
    pub number: u64,
    blocks: u32,
}

impl Bell {
    /// What the next kernel, of so many blocks, is to ring. The context is current.
    pub fn next(&self, device: &Device, blocks: u32) -> Ring {
        // SAFETY: it is current, as our caller says.
        let current = unsafe { device.assume_current() };
        let at = self.at.get().copied().or_else(|| self.make(&device.bells, |len| current.own_pinned(len)));
        let at = at.filter(|_| blocks as usize <= BLOCKS).unwrap_or(0);
        Ring { at, number: device.bells.count.fetch_add(1, Ordering::Relaxed) + 1, blocks }
    }

    /// Where the bell is, made here or by somebody else meanwhile.
    fn make(&self, bells: &Bells, make: impl FnOnce(usize) -> Result<usize>) -> Option<usize> {
        let made = bells.take(make).ok()?;
        if self.at.set(made).is_err() {
            lock(&bells.made).spare.push(made);
        }
        self.at.get().copied()
    }

    /// The last thing in the stream is a kernel that rings, or another.
    pub fn ends_with(&self, ring: Option<Ring>) {
        *lock(&self.newest) = ring.filter(|ring| ring.at != 0);
    }

    /// What the last thing in the stream rings.
    pub fn newest(&self) -> Option<Ring> {
        *lock(&self.newest)
    }

    /// The lane goes; whether all of its kernels are through.
    pub fn leave(&mut self, bells: &Bells, is_idle: bool) {
        let Some(at) = self.at.take() else { return };
        let mut made = lock(&bells.made);
        match is_idle {
            true => made.spare.push(at),
            false => made.is_any_lost = true,
        }
    }
}

impl Ring {
    /// Whether all blocks have rung.
    pub fn is_heard(&self) -> bool {
        (0..self.blocks).all(|block| self.word(block) >= self.number)
    }

    /// Waits some for it; false if the driver is to be asked.
    pub fn wait(&self) -> bool {
        let begin = Instant::now();
        for block in 0..self.blocks {
            let mut looks = 0;
            while self.word(block) < self.number {
                looks += 1;
                if looks % LOOKS == 0 && begin.elapsed() > PATIENCE {
                    return false;
                }
                hint::spin_loop();
            }
        }
        true
    }

    fn word(&self, block: u32) -> u64 {
        let at = self.at + block as usize * size_of::<u64>();
        // SAFETY: a word of a bell, which stays where it is as long as its device and is written as a whole. Who reads the number
        // finds what was written before it.
        unsafe { AtomicU64::from_ptr(at as *mut u64) }.load(Ordering::Acquire)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Memory that is never given back; it need not be page-locked here.
    fn memory(len: usize) -> Result<usize> {
        Ok(vec![u64::MAX; len.div_ceil(8)].leak().as_ptr() as usize)
    }

    /// What a block of a kernel does.
    fn ring(ring: &Ring, block: u32, number: u64) {
        // SAFETY: a word of a bell of these tests.
        unsafe { AtomicU64::from_ptr((ring.at + 8 * block as usize) as *mut u64) }
            .store(number, Ordering::Release);
    }

    #[test]
    fn a_ring_is_heard_when_every_block_has_rung_that_one_or_a_later_one() {
        let at = Bells::default().take(memory).expect("memory");
        let waited = Ring { at, number: 7, blocks: 3 };
        for (block, number) in [(0, 7), (2, 9), (1, 6)] {
            assert!(!waited.is_heard());
            ring(&waited, block, number);
        }
        assert!(!waited.is_heard() && !waited.wait(), "block 1 has rung an older one");
        ring(&waited, 1, 7);
        assert!(waited.is_heard() && waited.wait());
    }

    #[test]
    fn the_newest_is_forgotten_when_something_else_comes() {
        let (bell, ring) = (Bell::default(), Ring { at: 4096, number: 1, blocks: 1 });
        bell.ends_with(Some(ring));
        assert_eq!(bell.newest(), Some(ring));
        bell.ends_with(None);
        assert_eq!(bell.newest(), None);
        bell.ends_with(Some(Ring { at: 0, ..ring }));
        assert_eq!(bell.newest(), None, "no bell");
    }

    #[test]
    fn who_comes_second_leaves_no_bell_behind() {
        let (bells, bell) = (Bells::default(), Bell::default());
        let make = |len| {
            bell.at.set(4096).expect("the other is first");
            memory(len)
        };
        assert_eq!(bell.make(&bells, make), Some(4096));
        assert_eq!(lock(&bells.made).spare.len(), PAGE / SIZE, "all of the page");
    }

    #[test]
    fn bells_are_used_again_unless_somebody_may_still_ring() {
        let bells = Bells::default();
        let lane = || {
            let bell = Bell::default();
            bell.at.set(bells.take(memory).expect("memory")).expect("none yet");
            bell
        };
        let (mut first, second) = (lane(), lane());
        let place = first.at.get().copied();
        assert_ne!(place, second.at.get().copied());
        first.leave(&bells, true);
        let mut again = lane();
        assert_eq!(again.at.get().copied(), place);
        assert_eq!(lock(&bells.made).pages.len(), 1);
        again.leave(&bells, false);
        assert_ne!(lane().at.get().copied(), place);
        assert_eq!(bells.close(), []);
    }
}
