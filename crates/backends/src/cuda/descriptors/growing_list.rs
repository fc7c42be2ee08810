//! Lists of descriptors that grow while the launch that reads them waits in the stream: then all copies that
//! come behind a long piece of work are one launch, however many calls submitted them and whenever they were
//! sent.
//!
//! A lock-free handshake over pinned memory decides which addresses the kernel takes. The host writes an
//! address, counts it, and checks whether the kernel has begun to close the list; the kernel says that it
//! closes the list, then reads the count. With a sequentially consistent fence on both sides at least one of
//! the two sees what the other did; a host in doubt waits for the count of what was taken.

use crate::cuda::order::window::DescriptorOp;
use ferry_core::{
    Ticket,
    sync::{Mutex, lock},
};
use std::{
    hint,
    sync::atomic::{AtomicU32, AtomicU64, Ordering, fence},
};

/// Addresses that a list holds: the same in sealed.cu.
pub const LIST_MAX: usize = 4096;
/// How many lists a queue has. When all are in use, addresses travel in the parameters of launches.
const LISTS: usize = 4;

/// A list in pinned memory, which a kernel reads: `GrowingList` in sealed.cu.
#[repr(C)]
pub struct GrowingList {
    /// How many addresses there are. Only the host writes it.
    count: AtomicU32,
    spare: [u32; 31],
    /// Whether the kernel takes no more. Only the kernel writes this and the next two.
    closing: AtomicU32,
    /// How many the kernel has taken, plus one.
    taken: AtomicU32,
    /// Whether the kernel reads no address any more.
    done: AtomicU32,
    spare2: [u32; 29],
    /// Zero where nothing was written yet: the kernel looks before it knows the count.
    at: [AtomicU64; LIST_MAX],
}

/// Bytes of all lists of a queue.
pub const LISTS_LEN: usize = LISTS * size_of::<GrowingList>();

/// The lists of one queue.
pub struct GrowingLists {
    lists: &'static [GrowingList; LISTS],
    last: Mutex<LastLaunch>,
}

/// What became of the last launch.
struct LastLaunch {
    open: Option<OpenList>,
    /// The op that would follow it.
    next: Ticket,
    /// Whether the last list that was open has grown.
    grew: bool,
}

/// A list that may still grow.
#[derive(Clone, Copy)]
struct OpenList {
    list: &'static GrowingList,
    /// The op of its first address, and what all its descriptors are sealed with.
    first: Ticket,
    key: u64,
}

impl GrowingList {
    /// Makes it empty. No kernel knows it.
    fn clear(&self) {
        let used = self.count.swap(0, Ordering::Relaxed);
        self.at[..used as usize].iter().for_each(|at| at.store(0, Ordering::Relaxed));
        [&self.closing, &self.taken, &self.done].iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }

    /// Adds as many as there is room for. Says how many, and whether the kernel will read all of them; it may
    /// if not.
    fn add(&self, ops: &[DescriptorOp]) -> (usize, bool) {
        let before = self.count.load(Ordering::Relaxed) as usize;
        let added = ops.len().min(LIST_MAX - before);
        for (at, op) in self.at[before..].iter().zip(&ops[..added]) {
            at.store(op.at as u64, Ordering::Relaxed);
        }
        self.count.store((before + added) as u32, Ordering::Release);
        fence(Ordering::SeqCst);
        (added, self.closing.load(Ordering::Relaxed) == 0)
    }

    /// How many the kernel has taken, which has begun to close the list. `is_alive` is asked now and then
    /// whether it still runs.
    fn taken<E>(&self, mut is_alive: impl FnMut() -> Result<(), E>) -> Result<usize, E> {
        for turn in 1_u32.. {
            match self.taken.load(Ordering::Acquire) {
                0 if turn.is_multiple_of(1 << 12) => is_alive()?,
                0 => hint::spin_loop(),
                taken => return Ok(taken as usize - 1),
            }
        }
        Ok(0)
    }
}

impl GrowingLists {
    /// The lists in `LISTS_LEN` zeroed bytes of pinned memory at `at`.
    ///
    /// # Safety
    /// The memory lives and nothing else writes it until these lists are gone and no kernel knows them.
    pub unsafe fn new(at: usize) -> GrowingLists {
        // SAFETY: the caller's promise; zeroes are lists.
        let lists = unsafe { &*(at as *const [GrowingList; LISTS]) };
        lists.iter().for_each(|list| list.done.store(1, Ordering::Relaxed));
        GrowingLists { lists, last: Mutex::new(LastLaunch { open: None, next: 0, grew: true }) }
    }

    /// Adds ops to the list whose launch is the last thing in the stream, if there is one; how many of them
    /// are in the stream now. Whatever else is put there takes a ticket: then these do not follow those of
    /// the list.
    pub fn add<E>(&self, ops: &[DescriptorOp], is_alive: impl FnMut() -> Result<(), E>) -> Result<usize, E> {
        let mut last = lock(&self.last);
        let Some(OpenList { list, first, key }) = last.open else { return Ok(0) };
        let before = list.count.load(Ordering::Relaxed) as usize;
        let follow = following(ops, first + before as Ticket, key);
        let (added, is_whole) = list.add(&ops[..follow]);
        if added < ops.len() || !is_whole {
            last.open = None;
        }
        let sent = if is_whole { added } else { list.taken(is_alive)? - before };
        last.next += sent as Ticket;
        last.grew |= sent > 0;
        Ok(sent)
    }

    /// Whether more may follow before the GPU begins with `ops`: if there are several, or they follow others,
    /// or it was so the last time. What stands alone among other work is done sooner without a list.
    pub fn may_grow(&self, ops: &[DescriptorOp]) -> bool {
        let last = lock(&self.last);
        ops.len() > 1 || last.grew || ops[0].ticket == last.next
    }

    /// A list with as many of `ops` as it holds, and how many these are, for a launch that is to come; `None`
    /// if all are in use.
    pub fn fill(&self, ops: &[DescriptorOp]) -> Option<(&'static GrowingList, usize)> {
        let list = self.lists.iter().find(|list| list.done.load(Ordering::Acquire) == 1)?;
        list.clear();
        let DescriptorOp { ticket, key, .. } = ops[0];
        Some((list, list.add(&ops[..following(ops, ticket, key)]).0))
    }

    /// A launch of `ops` is in the stream, and nothing behind it; of this list, if it may grow.
    pub fn launched(&self, list: Option<&'static GrowingList>, ops: &[DescriptorOp]) {
        let DescriptorOp { ticket: first, key, .. } = ops[0];
        let mut last = lock(&self.last);
        last.open = list.map(|list| OpenList { list, first, key });
        last.next = first + ops.len() as Ticket;
        last.grew &= list.is_none();
    }

    /// There is no launch for `list`.
    pub fn unused(&self, list: &GrowingList) {
        list.done.store(1, Ordering::Relaxed);
    }
}

/// How many of `ops` have tickets in a row from `ticket` on and this key.
pub fn following(ops: &[DescriptorOp], ticket: Ticket, key: u64) -> usize {
    (ticket..).zip(ops).take_while(|(ticket, op)| (op.ticket, op.key) == (*ticket, key)).count()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn lists() -> GrowingLists {
        let memory = vec![0_u64; LISTS_LEN / 8].leak();
        // SAFETY: it lives until the end, and nothing else uses it.
        unsafe { GrowingLists::new(memory.as_ptr() as usize) }
    }

    fn ops(tickets: std::ops::Range<Ticket>) -> Vec<DescriptorOp> {
        tickets.map(|ticket| DescriptorOp { ticket, at: 64 * ticket as usize, key: 9 }).collect()
    }

    /// What a kernel does when it begins: where the descriptors are.
    fn begin(list: &GrowingList) -> Vec<u64> {
        list.closing.store(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let count = list.count.load(Ordering::SeqCst);
        list.taken.store(count + 1, Ordering::SeqCst);
        list.at[..count as usize].iter().map(|at| at.load(Ordering::SeqCst)).collect()
    }

    fn add(lists: &GrowingLists, ops: &[DescriptorOp]) -> usize {
        lists.add(ops, || Ok::<(), ()>(())).expect("alive")
    }

    #[test]
    fn an_open_list_takes_what_follows_and_a_closed_one_nothing() {
        let (lists, ops) = (lists(), ops(5..100));
        assert_eq!(add(&lists, &ops), 0, "none is open");
        let (list, count) = lists.fill(&ops[..3]).expect("one is free");
        lists.launched(Some(list), &ops[..3]);
        assert_eq!((count, add(&lists, &ops[3..10]), add(&lists, &ops[10..11])), (3, 7, 1));
        assert_eq!(begin(list), (5..16).map(|ticket| 64 * ticket).collect::<Vec<_>>());
        assert_eq!((add(&lists, &ops[11..20]), add(&lists, &ops[11..20])), (0, 0), "the kernel has begun");
        let (list, _) = lists.fill(&ops[11..12]).expect("another is free");
        lists.launched(Some(list), &ops[11..12]);
        assert_eq!(
            (add(&lists, &ops[13..14]), add(&lists, &ops[12..13])),
            (0, 0),
            "something else came between"
        );
    }

    #[test]
    fn a_list_ends_where_it_is_full_or_the_next_op_is_no_neighbour() {
        let (lists, all) = (lists(), ops(1..5000));
        assert_eq!(lists.fill(&all).map(|(_, count)| count), Some(LIST_MAX));
        let (list, _) = lists.fill(&all[..4000]).expect("one is free");
        lists.launched(Some(list), &all[..4000]);
        assert_eq!((add(&lists, &all[4000..]), add(&lists, &all[LIST_MAX..])), (LIST_MAX - 4000, 0));
        for odd in [DescriptorOp { ticket: 77, ..all[2] }, DescriptorOp { key: 1, ..all[2] }] {
            let lists = self::lists();
            let few = [all[0], all[1], odd];
            assert_eq!(lists.fill(&few).map(|(_, count)| count), Some(2));
            let (list, _) = lists.fill(&few[..1]).expect("one is free");
            lists.launched(Some(list), &few[..1]);
            assert_eq!((add(&lists, &few[1..]), add(&lists, &few[2..])), (1, 0));
        }
    }

    #[test]
    fn a_list_is_used_again_when_its_kernel_reads_no_more_and_is_empty_then() {
        let (lists, ops) = (lists(), ops(1..10));
        let taken: Vec<&GrowingList> = (0..LISTS).map(|_| lists.fill(&ops).expect("one is free").0).collect();
        assert!(lists.fill(&ops).is_none());
        begin(taken[2]);
        taken[2].done.store(1, Ordering::SeqCst);
        let (again, count) = lists.fill(&ops[..2]).expect("that one");
        assert!(std::ptr::eq(again, taken[2]) && count == 2);
        assert_eq!(begin(again), [64, 128]);
        assert!(again.at[2..].iter().all(|at| at.load(Ordering::SeqCst) == 0));
        lists.unused(taken[1]);
        assert!(lists.fill(&ops).is_some());
    }

    #[test]
    fn copies_that_stand_alone_get_no_list_after_the_first() {
        let (lists, all) = (lists(), ops(1..100));
        let launch = |ops: &[DescriptorOp]| {
            let list = lists.may_grow(ops).then(|| lists.fill(ops).expect("one is free").0);
            lists.launched(list, ops);
            if let Some(list) = list {
                lists.unused(list);
            }
            list.is_some()
        };
        assert!(launch(&all[..1]), "nothing is known yet");
        assert!(!launch(&all[10..11]) && !launch(&all[20..21]), "the first one did not grow");
        assert!(launch(&all[21..22]), "another one follows");
        assert_eq!(add(&lists, &all[22..23]), 1);
        assert!(launch(&all[30..31]), "the last one grew");
        assert!(!launch(&all[40..41]) && launch(&all[50..52]), "two at once");
    }

    /// A kernel begins at any moment while addresses are added: each is taken by it or known not to be.
    #[test]
    fn nothing_is_lost_or_done_twice_when_the_kernel_begins_meanwhile() {
        for round in 0..2000 {
            let (lists, ops) = (lists(), ops(1..40));
            let (list, mut sent) = lists.fill(&ops[..1]).expect("one is free");
            lists.launched(Some(list), &ops[..1]);
            let seen = std::thread::scope(|scope| {
                let kernel = scope.spawn(|| {
                    (0..round % 97).for_each(|_| hint::spin_loop());
                    begin(list).len()
                });
                while let more @ 1.. = add(&lists, &ops[sent..(sent + 2).min(ops.len())]) {
                    sent += more;
                }
                kernel.join().expect("it ended")
            });
            assert_eq!(sent, seen, "round {round}");
        }
    }
}
