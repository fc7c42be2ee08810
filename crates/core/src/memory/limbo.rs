//! Deferred reclamation: freed memory waits here, in limbo, while work in flight may still use it.
//!
//! Two generations, so that the cost of a free does not grow with how much is in flight: what is freed joins
//! the young ones; when the old ones are gone the young become old, together with the work in flight of every
//! stream then. Work that was submitted after the free is waited for as well, which is only more careful.
//!
//! Registered memory that no op in flight uses any more may be taken out before that: when it is registered
//! again there may be other memory at its addresses, however busy streams are that never used it.

use crate::{
    Block, Fence, Home, Origin, Result,
    submissions::{PendingWork, StreamStates},
    sync::Arc,
};
use std::{collections::BTreeMap, mem, time::Duration};

/// How long an allocation that finds no room waits for freed memory to come back.
pub const RECLAIM_TIMEOUT: Duration = Duration::from_millis(750);
/// How long it waits for a fence before it checks all of them again.
pub(crate) const RECLAIM_POLL: Duration = Duration::from_millis(5);

#[derive(Default)]
pub(crate) struct Limbo {
    young: Generation,
    old: Generation,
    until: Vec<PendingWork>,
    /// How many blocks of registered memory there have been, and the length of the longest.
    registered: u64,
    longest: usize,
}

#[derive(Default)]
struct Generation {
    blocks: Vec<Block>,
    /// By where they start, and numbered: memory may be registered again, and end again, while copies use it.
    registered: BTreeMap<(usize, u64), Block>,
}

impl Generation {
    fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.registered.is_empty()
    }

    fn all(&self) -> impl Iterator<Item = &Block> {
        self.blocks.iter().chain(self.registered.values())
    }

    /// Moves all of it.
    fn move_to(&mut self, due: &mut Vec<Block>) {
        due.append(&mut self.blocks);
        due.extend(mem::take(&mut self.registered).into_values());
    }
}

impl Limbo {
    pub(crate) fn add(&mut self, block: Block) {
        if block.origin != Origin::Registered {
            return self.young.blocks.push(block);
        }
        self.registered += 1;
        self.longest = self.longest.max(block.len);
        self.young.registered.insert((block.base, self.registered), block);
    }

    /// Takes out the registered memory in a range that nothing in flight uses, as `is_used` says of where it
    /// starts. Only blocks are visited that start so near before the range that the longest would reach it.
    pub(crate) fn take_unused(
        &mut self,
        base: usize,
        len: usize,
        mut is_used: impl FnMut(usize) -> bool,
    ) -> Vec<Block> {
        let (near, mut unused) = (base.saturating_sub(self.longest), Vec::new());
        for generation in [&mut self.young, &mut self.old] {
            let all = generation.registered.range((near, 0)..(base.saturating_add(len), 0));
            let within = all.filter(|(_, block)| block.base + block.len > base && !is_used(block.base));
            let keys: Vec<_> = within.map(|(key, _)| *key).collect();
            unused.extend(keys.iter().filter_map(|key| generation.registered.remove(key)));
        }
        unused
    }

    /// The blocks that nothing in flight can use any more.
    pub(crate) fn due(&mut self, streams: &StreamStates) -> Result<Vec<Block>> {
        let mut due = Vec::new();
        loop {
            while self.until.last().is_some_and(PendingWork::is_over) {
                self.until.pop();
            }
            if !self.until.is_empty() {
                return Ok(due);
            }
            self.old.move_to(&mut due);
            if self.young.is_empty() {
                return Ok(due);
            }
            match streams.pending() {
                Ok(until) => (self.until, self.old) = (until, mem::take(&mut self.young)),
                Err(error) if due.is_empty() => return Err(error),
                Err(_) => return Ok(due),
            }
        }
    }

    /// What holds the old ones up, if memory of this home is among all that waits.
    pub(crate) fn held_by(&self, home: Home) -> Option<Arc<dyn Fence>> {
        let mut waiting = self.young.all().chain(self.old.all());
        self.until.last().filter(|_| waiting.any(|block| block.home == home)).map(|hold| hold.fence.clone())
    }

    /// Allocated bytes of this home among all that waits.
    pub(crate) fn bytes(&self, home: Home) -> usize {
        let all = self.young.blocks.iter().chain(&self.old.blocks);
        all.filter(|block| (block.home, block.origin) == (home, Origin::Allocated))
            .map(|block| block.len)
            .sum()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const PAGE: usize = 4096;

    /// Registered memory from one page up to another.
    fn pages(from: usize, to: usize) -> Block {
        let (base, len) = (from * PAGE, (to - from) * PAGE);
        Block { base, len, home: Home::Host, at: base, page: PAGE, origin: Origin::Registered }
    }

    /// One generation of which the first are old.
    fn limbo(old: &[Block], young: &[Block]) -> Limbo {
        let mut limbo = Limbo::default();
        old.iter().for_each(|block| limbo.add(*block));
        limbo.old = mem::take(&mut limbo.young);
        young.iter().for_each(|block| limbo.add(*block));
        limbo
    }

    fn take(limbo: &mut Limbo, from: usize, to: usize, used: &[usize]) -> Vec<Block> {
        let range = pages(from, to);
        let mut taken = limbo.take_unused(range.base, range.len, |base| used.contains(&(base / PAGE)));
        taken.sort_by_key(|block| (block.base, block.len));
        taken
    }

    #[test]
    fn registered_memory_in_a_range_is_taken_out_if_nothing_uses_it() {
        let all = [pages(1, 9), pages(4, 6), pages(6, 7), pages(9, 10)];
        for (from, to, used, want) in [
            (4, 5, &[][..], &[pages(1, 9), pages(4, 6)][..]),
            (5, 7, &[1], &[pages(4, 6), pages(6, 7)]),
            (5, 7, &[1, 4], &[pages(6, 7)]),
            (0, 1, &[], &[]),
            (10, 99, &[], &[]),
            (8, 10, &[], &[pages(1, 9), pages(9, 10)]),
            (0, 99, &[1, 4, 6, 9], &[]),
        ] {
            for old in 0..=all.len() {
                let mut limbo = limbo(&all[..old], &all[old..]);
                assert_eq!(take(&mut limbo, from, to, used), want, "{from} to {to}, {old} old");
                assert_eq!(take(&mut limbo, from, to, used), [], "and once only");
                let left = limbo.young.all().chain(limbo.old.all()).count();
                assert_eq!(left, all.len() - want.len());
            }
        }
    }

    #[test]
    fn memory_that_was_registered_again_and_again_waits_as_often() {
        let mut limbo = limbo(&[pages(1, 3), pages(1, 3)], &[pages(1, 2), pages(1, 3)]);
        assert_eq!(take(&mut limbo, 1, 2, &[1]), []);
        assert_eq!(take(&mut limbo, 1, 2, &[]), [pages(1, 2), pages(1, 3), pages(1, 3), pages(1, 3)]);
    }

    /// However many blocks wait, only those in the range are asked about, and allocated memory is none of
    /// them.
    #[test]
    fn nobody_asks_about_blocks_outside_the_range() {
        let mut limbo = Limbo::default();
        for page in 0..10_000 {
            limbo.add(pages(4 * page, 4 * page + 2));
            limbo.add(Block { origin: Origin::Allocated, ..pages(4 * page, 4 * page + 2) });
        }
        let mut asked = Vec::new();
        let range = pages(4001, 4006);
        limbo.take_unused(range.base, range.len, |base| {
            asked.push(base / PAGE);
            true
        });
        assert_eq!(asked, [4000, 4004]);
        assert_eq!(limbo.young.registered.len(), 10_000, "what is used stays");
    }
}
