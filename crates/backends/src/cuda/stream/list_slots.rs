//! Slots of pinned memory for the lists of segments that kernels read, used again and again.
//!
//! A slot is lent to one launch. The last block of the kernel to end writes the number of the loan behind the
//! list, so that the host knows without a driver call that the slot is free. No thread ever waits for a slot:
//! when all are lent out the segments go with the launches themselves.

use crate::bytes::nontemporal;
use ferry_core::{
    Result, Segment,
    sync::{Mutex, lock, spin_loop},
};
use std::{
    mem::{self, MaybeUninit},
    ptr, slice,
    sync::atomic::{AtomicU64, Ordering},
};

/// Pieces that fit into the parameters of a launch: the same as in kernels.cu.
pub const INLINE_MAX: usize = 160;
/// Pieces of a slot.
pub const LIST_MAX: usize = 4096;
/// How many slots a device has at most: the same as in kernels.cu.
const SLOTS_MAX: usize = 64;
/// How many slots are made at a time.
const GROUP_SLOTS: usize = 8;
/// How often the slots are polled for being free when they are given back: some hundred microseconds.
const IDLE_POLLS: u32 = 10_000;
/// Bytes of a group: the lists, and then the numbers of the last loans that came back.
const GROUP_LEN: usize = GROUP_SLOTS * (LIST_MAX * size_of::<Segment>() + size_of::<AtomicU64>());

// A kernel reads a segment as three words of 64 bits (`Entry` in kernels.cu), where the core's checks wrote
// it.
const _: () = assert!(size_of::<Segment>() == 3 * size_of::<u64>());

/// Writes segments into room that is as long at least and that a GPU will read, with non-temporal stores: the
/// room need not be fetched into the caches before it is written, nor snooped there when it is read. A
/// [fence](nontemporal::fence) comes before the GPU is told.
pub fn write(room: &mut [MaybeUninit<Segment>], segments: &[Segment]) {
    let to = room[..segments.len()].as_mut_ptr().cast();
    // SAFETY: a segment is three words.
    let words = unsafe { slice::from_raw_parts(segments.as_ptr().cast(), 3 * segments.len()) };
    // SAFETY: there is room for as many.
    unsafe { nontemporal::copy_words(to, words) };
}

/// The slots of a device.
#[derive(Default)]
pub struct ListSlots(Mutex<SlotTable>);

#[derive(Default)]
struct SlotTable {
    groups: Vec<usize>,
    /// The number of the newest loan of each slot.
    lent: Vec<u64>,
    count: u64,
}

/// A slot that is the caller's. If it is not [`sent`](Self::sent) it is free again when this goes.
pub struct ListSlot {
    /// The number of the slot.
    pub slot: u32,
    /// The number that the kernel has to write when it ends.
    pub number: u64,
    /// Where the kernel has to write it.
    pub back: usize,
    list: usize,
    /// How many segments were added.
    len: usize,
    is_sent: bool,
}

impl ListSlots {
    /// A slot, if one is free or can be made: `make` gives pinned memory of this length.
    pub fn lend(&self, make: impl FnOnce(usize) -> Result<usize>) -> Result<Option<ListSlot>> {
        let mut slots = lock(&self.0);
        let free = match slots.find() {
            None if slots.lent.len() < SLOTS_MAX => Some(slots.add(make(GROUP_LEN)?)),
            found => found,
        };
        Ok(free.map(|slot| slots.lend(slot)))
    }

    /// The memory of the slots, to be given back; none if a kernel may still read one.
    pub fn close(&self) -> Vec<usize> {
        let mut slots = lock(&self.0);
        // A kernel says so a moment after its end was heard of.
        let is_idle = (0..IDLE_POLLS).any(|_| {
            spin_loop();
            (0..slots.lent.len()).all(|slot| slots.is_back(slot))
        });
        let groups = mem::take(&mut *slots).groups;
        if is_idle { groups } else { Vec::new() }
    }
}

impl SlotTable {
    fn add(&mut self, group: usize) -> usize {
        let first = self.lent.len();
        self.groups.push(group);
        self.lent.resize(first + GROUP_SLOTS, 0);
        // SAFETY: in fresh memory of a group's length, which nothing else uses; no loan has the number 0.
        unsafe { ptr::write_bytes(self.back(first) as *mut AtomicU64, 0, GROUP_SLOTS) };
        first
    }

    /// The first that is free: of those it is likeliest that the CPU has its memory at hand.
    fn find(&self) -> Option<usize> {
        (0..self.lent.len()).find(|slot| self.is_back(*slot))
    }

    fn is_back(&self, slot: usize) -> bool {
        // SAFETY: a word of a group, which kernels and hosts write as a whole.
        let back = unsafe { AtomicU64::from_ptr(self.back(slot) as *mut u64) };
        back.load(Ordering::Acquire) == self.lent[slot]
    }

    fn lend(&mut self, slot: usize) -> ListSlot {
        self.count += 1;
        self.lent[slot] = self.count;
        ListSlot {
            slot: slot as u32,
            number: self.count,
            back: self.back(slot),
            list: self.groups[slot / GROUP_SLOTS] + slot % GROUP_SLOTS * LIST_MAX * size_of::<Segment>(),
            len: 0,
            is_sent: false,
        }
    }

    fn back(&self, slot: usize) -> usize {
        let lists = GROUP_SLOTS * LIST_MAX * size_of::<Segment>();
        self.groups[slot / GROUP_SLOTS] + lists + slot % GROUP_SLOTS * size_of::<AtomicU64>()
    }
}

impl ListSlot {
    /// Room behind what was added.
    pub fn room(&mut self) -> &mut [MaybeUninit<Segment>] {
        let rest = self.list + self.len * size_of::<Segment>();
        // SAFETY: the rest of the slot, which is lent to no other launch, and no kernel reads it before it is
        // sent.
        unsafe { slice::from_raw_parts_mut(rest as *mut MaybeUninit<Segment>, LIST_MAX - self.len) }
    }

    /// The first of the room were added.
    ///
    /// # Safety
    /// They are written, as many as this.
    pub unsafe fn wrote(&mut self, count: usize) {
        self.len += count;
    }

    /// Writes segments behind the others; false if they do not all fit, and then none is written.
    pub fn add(&mut self, segments: &[Segment]) -> bool {
        let fits = segments.len() <= LIST_MAX - self.len;
        if fits {
            write(self.room(), segments);
            self.len += segments.len();
        }
        fits
    }

    /// What was added.
    pub fn segments(&self) -> &[Segment] {
        // SAFETY: so many segments were written, and no kernel ever writes to the list.
        unsafe { slice::from_raw_parts(self.list as *const Segment, self.len) }
    }

    /// How many segments were added.
    pub fn count(&self) -> u32 {
        self.len as u32
    }

    /// Where the list is, for the GPU too. What was added is there for it to read.
    pub fn list(&self) -> usize {
        self.list
    }

    /// A kernel that reads the list is in its stream: the slot comes back by it.
    pub fn sent(mut self) {
        self.is_sent = true;
    }
}

impl Drop for ListSlot {
    fn drop(&mut self) {
        if !self.is_sent {
            // What was written comes before what the next one writes.
            nontemporal::fence();
            // SAFETY: the word of the slot, which is ours.
            unsafe { AtomicU64::from_ptr(self.back as *mut u64) }.store(self.number, Ordering::Release);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Memory that is never given back; it need not be pinned here.
    fn memory(len: usize) -> Result<usize> {
        Ok(vec![0_u64; len.div_ceil(8)].leak().as_ptr() as usize)
    }

    fn lend(lists: &ListSlots) -> Option<ListSlot> {
        lists.lend(memory).expect("memory")
    }

    /// What the last block of a kernel does.
    fn read(back: usize, number: u64) {
        // SAFETY: the word of a loan of these tests.
        unsafe { AtomicU64::from_ptr(back as *mut u64) }.store(number, Ordering::Release);
    }

    #[test]
    fn a_slot_is_lent_again_when_its_list_was_read_and_not_before() {
        let lists = ListSlots::default();
        let sent: Vec<_> = (0..SLOTS_MAX)
            .map(|_| {
                let loan = lend(&lists).expect("a free slot");
                let key = (loan.slot, loan.number, loan.back);
                loan.sent();
                key
            })
            .collect();
        assert!(lend(&lists).is_none(), "all are lent out");
        let (slot, number, back) = sent[17];
        read(back, number - 1);
        assert!(lend(&lists).is_none(), "an older loan says nothing");
        read(back, number);
        let again = lend(&lists).expect("it is back");
        assert!(again.slot == slot && again.number > number);
        assert!(lend(&lists).is_none());
        drop(again);
        assert_eq!(lend(&lists).map(|loan| loan.slot), Some(slot), "it was never sent");
    }

    #[test]
    fn lists_of_two_loans_lie_apart() {
        let lists = ListSlots::default();
        let mut loans: Vec<_> = (0..GROUP_SLOTS + 1).map(|_| lend(&lists).expect("a free slot")).collect();
        for (number, loan) in loans.iter_mut().enumerate() {
            loan.room().fill(MaybeUninit::new(Segment { dst: number, src: 1, len: 2 }));
        }
        for (number, loan) in loans.iter_mut().enumerate() {
            // SAFETY: written above.
            let all = loan.room().iter().all(|segment| unsafe { segment.assume_init() }.dst == number);
            assert!(all, "list {number}");
        }
        drop(loans);
        assert_eq!(lists.close().len(), 2, "of a group and one more");
    }

    #[test]
    fn a_list_is_written_whole_wherever_it_starts() {
        let segment = |number: usize| Segment { dst: 3 * number, src: 3 * number + 1, len: 3 * number + 2 };
        let segments: Vec<_> = (1..9).map(segment).collect();
        for start in 0..5 {
            for count in 0..segments.len() {
                let mut room = [MaybeUninit::new(Segment::default()); 12];
                write(&mut room[start..], &segments[..count]);
                nontemporal::fence();
                // SAFETY: initialised above.
                let room = room.map(|segment| unsafe { segment.assume_init() });
                assert_eq!(room[start..start + count], segments[..count], "{count} from {start} on");
                let others = room[..start].iter().chain(&room[start + count..]);
                assert!(others.copied().eq([Segment::default(); 12].into_iter().take(12 - count)));
            }
        }
    }

    #[test]
    fn memory_that_a_kernel_may_read_is_kept() {
        let lists = ListSlots::default();
        let loan = lend(&lists).expect("a free slot");
        loan.sent();
        assert_eq!(lists.close(), []);
    }
}
