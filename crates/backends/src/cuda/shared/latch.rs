//! How the host holds a CUDA stream that others use as well: the stream waits until a number in pinned
//! memory is large enough. No thread of the driver is blocked meanwhile, only the stream.

use crate::cuda::{
    driver::Current,
    stream::{Stream, device::Device},
};
use ferry_core::{
    Fence, Kind, Result, Ticket,
    sync::{Arc, Mutex, lock},
};
use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
};

/// The timeline semaphore of one shared stream: holds the stream, as often as need be.
pub struct Latch {
    words: Arc<Words>,
    word: Word,
    holds: Mutex<OpenHolds>,
}

/// What holds the stream, by number. All numbers below the first that is still there are over.
#[derive(Default)]
struct OpenHolds {
    newest: u64,
    open: BTreeMap<u64, HoldPlace>,
}

/// Where a stream is held.
#[derive(Clone)]
pub struct HoldPlace {
    /// Right behind this op.
    pub behind: Ticket,
    /// Done when the stream has come to the hold.
    pub before: Arc<dyn Fence>,
}

impl OpenHolds {
    fn add(&mut self, place: HoldPlace) -> u64 {
        self.newest += 1;
        self.open.insert(self.newest, place);
        self.newest
    }

    /// Takes one away, and says up to which number all are gone.
    fn remove(&mut self, number: u64) -> u64 {
        self.open.remove(&number);
        self.open.keys().next().map_or(self.newest, |first| first - 1)
    }
}

/// The stream is let go when this is dropped.
pub struct StreamHold {
    latch: Arc<Latch>,
    number: u64,
}

impl Latch {
    /// One that holds nothing.
    pub fn new(words: &Arc<Words>, current: &Current<'_>) -> Result<Arc<Latch>> {
        if !words.device.can_wait_for_numbers() {
            let note =
                "sharing streams with other libraries needs a driver and a GPU with cuStreamWaitValue64";
            return Err(Kind::Unsupported.because(note));
        }
        let word = words.take(current)?;
        let holds = Mutex::new(OpenHolds { newest: word.value(), ..OpenHolds::default() });
        Ok(Arc::new(Latch { words: words.clone(), word, holds }))
    }

    /// A hold that is yet to be [put](Self::put) into the stream. If it is over by then the stream does not
    /// wait.
    pub fn hold(self: &Arc<Self>, place: HoldPlace) -> StreamHold {
        self.words.device.sync.begin();
        let number = lock(&self.holds).add(place);
        StreamHold { latch: self.clone(), number }
    }

    /// The number of the newest hold.
    pub fn newest(&self) -> u64 {
        lock(&self.holds).newest
    }

    /// Has `stream` wait, at its end as it is now, for the end of the hold with this number and of all before
    /// it.
    pub fn put(&self, stream: &Stream, current: &Current<'_>, number: u64) -> Result<()> {
        // SAFETY: the word lives as long as `Words`, which the stream retains until its work is done.
        unsafe { stream.wait_for_number(current, self.word.0, number) }
    }

    /// Done when the stream has come to the first hold behind the op `ticket`, if there is one.
    pub fn before_hold(&self, ticket: Ticket) -> Option<Arc<dyn Fence>> {
        let holds = lock(&self.holds);
        holds.open.values().find(|place| place.behind >= ticket).map(|place| place.before.clone())
    }
}

impl StreamHold {
    /// Its number.
    pub fn number(&self) -> u64 {
        self.number
    }
}

impl Drop for StreamHold {
    fn drop(&mut self) {
        let mut holds = lock(&self.latch.holds);
        let over = holds.remove(self.number);
        // Under the lock: the number never goes back.
        self.latch.word.set(over);
        drop(holds);
        let Device { sync, pool, .. } = &*self.latch.words.device;
        sync.end(pool);
    }
}

impl Drop for Latch {
    fn drop(&mut self) {
        self.words.give(Word(self.word.0));
    }
}

/// The address of a number in pinned memory that devices read.
pub struct Word(usize);

impl Word {
    fn cell(&self) -> &AtomicU64 {
        // SAFETY: a word of a page of `Words`, aligned; the latch that has it keeps `Words` alive, and spare
        // words are in `Words` itself.
        unsafe { &*(self.0 as *const AtomicU64) }
    }

    fn value(&self) -> u64 {
        self.cell().load(Ordering::Acquire)
    }

    fn set(&self, value: u64) {
        self.cell().store(value, Ordering::Release);
    }
}

/// Numbers in pinned memory, handed out again and again. A stream may still have to look at one that was
/// given back: so they only ever grow, and nothing that waits for an old value waits.
pub struct Words {
    device: Arc<Device>,
    state: Mutex<WordGroups>,
}

#[derive(Default)]
struct WordGroups {
    groups: Vec<usize>,
    spare: Vec<Word>,
}

/// Bytes of pinned memory that are allocated at a time.
const GROUP_LEN: usize = 4096;

impl Words {
    /// For the shared streams of this device.
    pub fn new(device: Arc<Device>) -> Arc<Words> {
        Arc::new(Words { device, state: Mutex::default() })
    }

    /// A number of its own.
    fn take(&self, current: &Current<'_>) -> Result<Word> {
        let mut state = lock(&self.state);
        if let Some(word) = state.spare.pop() {
            return Ok(word);
        }
        let at = current.own_pinned(GROUP_LEN)?;
        state.groups.push(at);
        let words = (at..at + GROUP_LEN).step_by(size_of::<u64>()).map(Word);
        words.clone().for_each(|word| word.set(0));
        state.spare.extend(words);
        Ok(state.spare.pop().expect("a group of them"))
    }

    fn give(&self, word: Word) {
        lock(&self.state).spare.push(word);
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        let Ok(current) = self.device.enter() else { return };
        for group in std::mem::take(&mut lock(&self.state).groups) {
            // SAFETY: made by `own_pinned`; the latches that used the words, and the streams that waited for
            // them, retain this and so are gone.
            unsafe { current.free_own_pinned(group) };
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use ferry_core::Gate;

    #[test]
    fn a_later_hold_that_is_over_does_not_end_an_earlier_one() {
        let mut holds = OpenHolds { newest: 7, ..OpenHolds::default() };
        let place = HoldPlace { behind: 0, before: Gate::new() };
        assert_eq!([1, 2, 3].map(|_| holds.add(place.clone())), [8, 9, 10]);
        assert_eq!(holds.remove(10), 7, "8 and 9 are still there");
        assert_eq!(holds.remove(8), 8);
        assert_eq!(holds.add(place), 11);
        assert_eq!(holds.remove(9), 10);
        assert_eq!(holds.remove(11), 11, "nothing is left");
    }
}
