//! The registry of the driver's allocations that blocks are made of: those in use, those in quarantine, and
//! those in the free list.
//!
//! The driver hands freed addresses out again at once, and page-locked ones may stay readable. So a freed
//! allocation is in quarantine for a while, where a use of its addresses is refused. After that it goes into
//! the free list for the next request of its size, or back to the driver. Where memory is short the oldest go
//! back at once.

use crate::cuda::memory::free_list::FreeList;
use ferry_core::Home;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Allocations by where they start. A block lies somewhere in its allocation.
#[derive(Default)]
pub struct Allocations {
    made: BTreeMap<usize, DriverAllocation>,
    unused: HashMap<Home, Unused>,
    /// Whether a deferred call will give back what is overdue.
    pub is_deferred: bool,
}

/// What is known of one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DriverAllocation {
    len: usize,
    home: Home,
    /// Another process may have a handle of it, which is good until the driver has it back.
    is_lent: bool,
}

/// What is not in use of one home.
#[derive(Default)]
struct Unused {
    small: Quarantine,
    large: Quarantine,
    /// What has been in quarantine.
    free: FreeList,
    /// How many were ever put into quarantine.
    count: u64,
}

/// Freed allocations, the oldest first, each with its number among all.
#[derive(Default)]
struct Quarantine {
    freed: VecDeque<(u64, usize)>,
    bytes: usize,
}

/// How much may be in quarantine of one home: enough to catch a mistake soon after it was made, and little of
/// a GPU that other programs use as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct QuarantineLimit {
    count: usize,
    bytes: usize,
}

/// Allocations up to this size have a quarantine of their own, so that a few large ones do not end that of
/// many small ones.
const SMALL: usize = 1 << 20;
const SMALL_LIMIT: QuarantineLimit = QuarantineLimit { count: 1024, bytes: 64 << 20 };
const LARGE_LIMIT: QuarantineLimit = QuarantineLimit { count: 32, bytes: 256 << 20 };

impl Quarantine {
    fn push(&mut self, number: u64, start: usize, len: usize) {
        self.freed.push_back((number, start));
        self.bytes += len;
    }

    fn oldest(&self) -> Option<(u64, usize)> {
        self.freed.front().copied()
    }

    /// The oldest, if there is more than may be.
    fn overdue(&self, limit: QuarantineLimit) -> Option<usize> {
        let is_any = self.freed.len() > limit.count || self.bytes > limit.bytes;
        self.oldest().filter(|_| is_any).map(|(_, start)| start)
    }

    /// Takes the oldest out.
    fn pop(&mut self, len: usize) {
        self.freed.pop_front();
        self.bytes -= len;
    }
}

impl Unused {
    fn quarantine_of(&mut self, len: usize) -> &mut Quarantine {
        if len <= SMALL { &mut self.small } else { &mut self.large }
    }

    /// What has been in quarantine long enough.
    fn overdue(&self) -> Option<usize> {
        self.small.overdue(SMALL_LIMIT).or_else(|| self.large.overdue(LARGE_LIMIT))
    }

    fn oldest(&self) -> Option<usize> {
        let oldest = [self.small.oldest(), self.large.oldest()];
        oldest.into_iter().flatten().min().map(|(_, start)| start)
    }

    fn bytes(&self) -> usize {
        self.small.bytes + self.large.bytes + self.free.bytes()
    }
}

impl Allocations {
    /// The driver has made this allocation.
    pub fn add(&mut self, start: usize, len: usize, home: Home) {
        self.made.insert(start, DriverAllocation { len, home, is_lent: false });
    }

    /// The driver has made a slab of page-locked memory, for parts of this length.
    pub fn add_slab(&mut self, start: usize, part: usize) {
        let free = &mut self.unused.entry(Home::Host).or_default().free;
        let found = DriverAllocation { len: part, home: Home::Host, is_lent: false };
        let parts = free.add(start, part).map(|start| (start, found));
        self.made.extend(parts);
    }

    /// Memory of the free list for `len` bytes at a multiple of `align`. Of device memory it has that very
    /// length: what is free there is counted by the byte.
    pub fn reuse(&mut self, home: Home, len: usize, align: usize) -> Option<usize> {
        let waste = if home == Home::Host { len / 4 } else { 0 };
        self.unused.get_mut(&home)?.free.take(len, waste, align)
    }

    /// The home of an allocation that has a byte in common with the range, in use or not; or that an empty
    /// range lies in.
    pub fn reached(&self, addr: usize, len: usize) -> Option<Home> {
        let behind = || self.made.range(addr..addr.saturating_add(len)).next().map(|(_, found)| *found);
        self.around(addr).map(|(_, found)| found).or_else(behind).map(|found| found.home)
    }

    /// The allocation around `addr` is lent to another process, and never reused afterwards: where it starts.
    pub fn lend(&mut self, addr: usize) -> Option<usize> {
        let (start, found) = self.around(addr)?;
        self.made.insert(start, DriverAllocation { is_lent: true, ..found });
        Some(start)
    }

    /// Puts the allocation around `addr` into quarantine: its home, if there is one. One that is larger than
    /// all that may be there is the next to leave it.
    pub fn quarantine(&mut self, addr: usize) -> Option<Home> {
        let (start, DriverAllocation { len, home, .. }) = self.around(addr)?;
        let unused = self.unused.entry(home).or_default();
        unused.count += 1;
        let number = unused.count;
        unused.quarantine_of(len).push(number, start, len);
        if len > LARGE_LIMIT.bytes {
            unused.large.freed.rotate_right(1);
        }
        Some(home)
    }

    /// Bytes of a home that are not in use.
    pub fn unused(&self, home: Home) -> usize {
        self.unused.get(&home).map_or(0, Unused::bytes)
    }

    /// What is to be given back next, if there is more than may be kept. It stays known until it is
    /// [`forgotten`](Self::forget).
    pub fn overdue(&mut self, home: Home) -> Option<usize> {
        let unused = self.unused.get_mut(&home)?;
        while let Some(start) = unused.overdue() {
            let DriverAllocation { len, is_lent, .. } = self.made[&start];
            if is_lent || !unused.free.keep(start, len) {
                return Some(start);
            }
            unused.quarantine_of(len).pop(len);
        }
        unused.free.surplus(false)
    }

    /// What is to be given back next where memory is short: the free list, then the oldest in quarantine.
    /// Like [`overdue`](Self::overdue), until nothing is left that could be.
    pub fn oldest(&mut self, home: Home) -> Option<usize> {
        let unused = self.unused.get_mut(&home)?;
        loop {
            if let Some(start) = unused.free.surplus(true) {
                return Some(start);
            }
            let start = unused.oldest()?;
            if !unused.free.is_part(start) {
                return Some(start);
            }
            // Goes with its slab.
            let len = self.made[&start].len;
            unused.free.keep(start, len);
            unused.quarantine_of(len).pop(len);
        }
    }

    /// All homes with something that is not in use.
    pub fn homes(&self) -> Vec<Home> {
        self.unused.keys().copied().collect()
    }

    /// What began at `start` was given back: how many bytes that were.
    pub fn forget(&mut self, start: usize) -> usize {
        let DriverAllocation { mut len, home, .. } = self.made[&start];
        let unused = self.unused.get_mut(&home).expect("it was found there");
        let quarantine = unused.quarantine_of(len);
        if quarantine.oldest().is_some_and(|(_, oldest)| oldest == start) {
            quarantine.pop(len);
        } else {
            len = unused.free.forget(start);
        }
        let gone: Vec<_> = self.made.range(start..start + len).map(|(start, _)| *start).collect();
        for start in gone {
            self.made.remove(&start);
        }
        len
    }

    fn around(&self, addr: usize) -> Option<(usize, DriverAllocation)> {
        let (start, found) = self.made.range(..=addr).next_back()?;
        (addr - start < found.len).then_some((*start, *found))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::cuda::memory::free_list::SLAB;

    const GPU: Home = Home::Device(0);

    fn allocations(made: &[(usize, usize)], home: Home) -> Allocations {
        let mut allocations = Allocations::default();
        made.iter().for_each(|(start, len)| allocations.add(*start, *len, home));
        allocations
    }

    /// Gives back what is overdue: where that starts.
    fn give_back(allocations: &mut Allocations, home: Home) -> Vec<usize> {
        std::iter::from_fn(|| allocations.overdue(home).inspect(|start| _ = allocations.forget(*start)))
            .collect()
    }

    #[test]
    fn ranges_that_reach_into_memory_of_ours_are_seen() {
        let allocations = allocations(&[(0x1000, 0x1000), (0x5000, 0x10)], GPU);
        for (addr, len, want) in [
            (0x1000, 0, true),
            (0x1fff, 1, true),
            (0x2000, 0x3000, false),
            (0x2000, 0x3001, true),
            (0xfff, 1, false),
            (0, usize::MAX, true),
            (0x5010, usize::MAX, false),
        ] {
            assert_eq!(allocations.reached(addr, len), want.then_some(GPU), "{len} bytes at {addr:#x}");
        }
    }

    #[test]
    fn where_memory_is_short_the_oldest_go_first() {
        let large = (1 << 30, SMALL + 1);
        let mut allocations =
            allocations(&[(0x1000, 0x1000), (0x3000, 0x1000), large, (0x5000, 0x1000)], GPU);
        assert_eq!([0x3010, large.0, 0x1000].map(|addr| allocations.quarantine(addr)), [Some(GPU); 3]);
        assert_eq!((allocations.quarantine(0x2000), allocations.overdue(GPU)), (None, None));
        assert_eq!((allocations.unused(GPU), allocations.unused(Home::Host)), (0x2000 + large.1, 0));
        assert_eq!(allocations.oldest(Home::Device(1)), None, "another device");
        for (start, len) in [(0x3000, 0x1000), large, (0x1000, 0x1000)] {
            assert_eq!(allocations.oldest(GPU), Some(start));
            assert!(allocations.reached(start, 1).is_some(), "still known");
            assert_eq!((allocations.forget(start), allocations.reached(start, 1)), (len, None));
        }
        assert_eq!((allocations.oldest(GPU), allocations.unused(GPU)), (None, 0), "the last is in use");
    }

    #[test]
    fn large_allocations_do_not_end_the_rest_of_small_ones() {
        let mut allocations = allocations(&[(0x1000, 0x1000)], GPU);
        allocations.quarantine(0x1000);
        for number in 1..=100 {
            allocations.add(number << 30, 100 << 20, GPU);
            allocations.quarantine(number << 30);
            let gone = give_back(&mut allocations, GPU);
            assert_eq!(
                gone,
                if number <= 2 { vec![] } else { vec![(number - 2) << 30] },
                "the oldest large one"
            );
        }
        allocations.add(1 << 40, LARGE_LIMIT.bytes + 1, GPU);
        allocations.quarantine(1 << 40);
        assert_eq!(give_back(&mut allocations, GPU), [1 << 40], "too large to rest");
        assert!(allocations.reached(0x1000, 1).is_some(), "the small one rests on");
        assert_eq!(allocations.unused(GPU), 0x1000 + (200 << 20));
    }

    #[test]
    fn what_has_rested_is_used_again_and_not_given_back() {
        for (home, len) in [(GPU, 4 << 20), (Home::Host, 4 << 20), (GPU, 4096)] {
            let (mut allocations, mut made) = (Allocations::default(), Vec::new());
            let most = if len <= SMALL { SMALL_LIMIT.count } else { LARGE_LIMIT.count };
            for turn in 0..3 * most {
                let start = allocations.reuse(home, len, 4096).unwrap_or_else(|| {
                    made.push((turn + 1) << 30);
                    allocations.add((turn + 1) << 30, len, home);
                    (turn + 1) << 30
                });
                // As many others come and go before an address comes again.
                assert_eq!(start, made[turn % (most + 1)], "{home:?}, turn {turn}");
                allocations.quarantine(start);
                assert_eq!(allocations.overdue(home), None);
            }
            assert_eq!((made.len(), allocations.unused(home)), (most + 1, (most + 1) * len));
            assert_eq!(
                allocations.reuse(home, len - 1, 4096).is_some(),
                home == Home::Host,
                "device memory is exact"
            );
        }
    }

    #[test]
    fn what_another_process_may_open_is_not_used_again() {
        let mut allocations = allocations(&[(0x1000, 4096)], GPU);
        assert_eq!((allocations.lend(0x1800), allocations.lend(0x2000)), (Some(0x1000), None));
        for start in (1..=SMALL_LIMIT.count).map(|number| number << 30) {
            allocations.add(start, 4096, GPU);
            allocations.quarantine(if start == 1 << 30 { 0x1000 } else { start });
        }
        allocations.quarantine(1 << 30);
        assert_eq!(
            (give_back(&mut allocations, GPU), allocations.reuse(GPU, 4096, 4096)),
            (vec![0x1000], None)
        );
    }

    #[test]
    fn parts_of_a_slab_rest_one_by_one_and_go_together() {
        let mut allocations = Allocations::default();
        allocations.add_slab(SLAB, SLAB / 4);
        assert!(allocations.reached(SLAB + 5, 1).is_some(), "also what nobody uses");
        let parts: Vec<_> = (0..4).filter_map(|_| allocations.reuse(Home::Host, 200_000, 4096)).collect();
        assert_eq!(parts, [0, 1, 2, 3].map(|part| SLAB + part * SLAB / 4));
        assert_eq!(allocations.reuse(Home::Host, 1, 4096), None, "another length");
        parts[1..].iter().for_each(|part| assert_eq!(allocations.quarantine(*part), Some(Home::Host)));
        assert_eq!(
            (allocations.overdue(Home::Host), allocations.reuse(Home::Host, 200_000, 4096)),
            (None, None)
        );
        assert_eq!(allocations.oldest(Home::Host), None, "one part is in use");
        assert_eq!(allocations.reuse(Home::Host, 200_000, 4096), Some(parts[1]), "the others have rested");
        assert_eq!([parts[0], parts[1]].map(|part| allocations.quarantine(part)), [Some(Home::Host); 2]);
        assert_eq!(allocations.oldest(Home::Host), Some(SLAB));
        assert_eq!(allocations.forget(SLAB), SLAB);
        assert!(allocations.reached(0, usize::MAX).is_none() && allocations.oldest(Home::Host).is_none());
    }
}
