//! The ranges of the user's memory that the driver has pinned (page-locked), and how many registrations use
//! each.
//!
//! The driver locks no page twice; but memory may be registered again while copies of an earlier registration
//! are in flight, and until they have passed its pages stay locked for them. So a registration uses what is
//! locked already, and the driver locks the gaps. Ranges without users are unlocked soon, but not while a
//! stream is held ([`ImplicitSync`](crate::cuda::driver::ImplicitSync)).

use std::collections::BTreeMap;

/// Pinned ranges, by where they start.
#[derive(Default)]
pub struct PinnedRanges(BTreeMap<usize, PinnedRange>);

struct PinnedRange {
    len: usize,
    /// Registrations that use it.
    users: usize,
}

impl PinnedRanges {
    /// Where nothing of the range is locked: starts and lengths.
    pub fn gaps(&self, base: usize, len: usize) -> Vec<(usize, usize)> {
        let (mut gaps, mut at) = (Vec::new(), base);
        for (start, locked) in self.within(base, len) {
            if start > at {
                gaps.push((at, start - at));
            }
            at = start + locked.len;
        }
        if at < base + len {
            gaps.push((at, base + len - at));
        }
        gaps
    }

    /// The driver has locked this gap.
    pub fn add(&mut self, base: usize, len: usize) {
        self.0.insert(base, PinnedRange { len, users: 0 });
    }

    /// One user more of all that is locked in the range.
    pub fn join(&mut self, base: usize, len: usize) {
        for start in self.starts(base, len) {
            self.0.get_mut(&start).expect("found just now").users += 1;
        }
    }

    /// One user less. Ranges without users are to be [unlocked](Self::unlock): where they start.
    pub fn leave(&mut self, base: usize, len: usize) -> Vec<usize> {
        let mut unused = self.starts(base, len);
        unused.retain(|start| {
            let locked = self.0.get_mut(start).expect("found just now");
            locked.users = locked.users.saturating_sub(1);
            locked.users == 0
        });
        unused
    }

    /// Forgets the range that starts there, if it has no users; `unlock` has the driver unlock it.
    pub fn unlock<E>(&mut self, start: usize, unlock: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        match self.0.get(&start) {
            Some(locked) if locked.users == 0 => {
                self.0.remove(&start);
                unlock()
            }
            _ => Ok(()),
        }
    }

    /// Whether some of the range is locked though it has no users.
    pub fn is_leaving(&self, base: usize, len: usize) -> bool {
        self.within(base, len).any(|(_, locked)| locked.users == 0)
    }

    /// Whether any of the range is locked.
    pub fn meets(&self, addr: usize, len: usize) -> bool {
        self.within(addr, len.max(1)).next().is_some()
    }

    fn starts(&self, base: usize, len: usize) -> Vec<usize> {
        self.within(base, len).map(|(start, _)| start).collect()
    }

    fn within(&self, base: usize, len: usize) -> impl Iterator<Item = (usize, &PinnedRange)> {
        let before = self.0.range(..base).next_back().filter(|(start, locked)| *start + locked.len > base);
        before.into_iter().chain(self.0.range(base..base.saturating_add(len))).map(|(start, it)| (*start, it))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn register(pinned: &mut PinnedRanges, base: usize, len: usize) -> Vec<(usize, usize)> {
        let gaps = pinned.gaps(base, len);
        gaps.iter().for_each(|(base, len)| pinned.add(*base, *len));
        pinned.join(base, len);
        gaps
    }

    /// Leaves, and unlocks ranges that have no users then.
    fn leave(pinned: &mut PinnedRanges, base: usize, len: usize) -> Vec<usize> {
        let unused = pinned.leave(base, len);
        unused.iter().for_each(|start| pinned.unlock(*start, || Ok::<_, ()>(())).expect("unlocked"));
        unused
    }

    #[test]
    fn pages_are_unlocked_when_their_last_user_leaves() {
        let mut pinned = PinnedRanges::default();
        assert_eq!(register(&mut pinned, 0x1000, 0x2000), [(0x1000, 0x2000)]);
        assert_eq!(register(&mut pinned, 0x2000, 0x1000), [], "locked already");
        assert!(leave(&mut pinned, 0x1000, 0x2000).is_empty());
        assert!(pinned.meets(0x2fff, 1) && pinned.meets(0, 0x1001) && !pinned.meets(0x3000, 9));
        assert_eq!(leave(&mut pinned, 0x2000, 0x1000), [0x1000]);
        assert!(!pinned.meets(0, usize::MAX));
    }

    #[test]
    fn only_gaps_are_locked() {
        let mut pinned = PinnedRanges::default();
        register(&mut pinned, 0x2000, 0x1000);
        register(&mut pinned, 0x5000, 0x1000);
        let gaps = register(&mut pinned, 0x1000, 0x6000);
        assert_eq!(gaps, [(0x1000, 0x1000), (0x3000, 0x2000), (0x6000, 0x1000)]);
        assert!(
            leave(&mut pinned, 0x5000, 0x1000).is_empty() && leave(&mut pinned, 0x2000, 0x1000).is_empty()
        );
        assert_eq!(leave(&mut pinned, 0x1000, 0x6000), [0x1000, 0x2000, 0x3000, 0x5000, 0x6000]);
    }

    #[test]
    fn pages_that_are_yet_to_be_unlocked_are_known() {
        let mut pinned = PinnedRanges::default();
        register(&mut pinned, 0x1000, 0x2000);
        assert!(!pinned.is_leaving(0, usize::MAX));
        assert_eq!(pinned.leave(0x1000, 0x2000), [0x1000]);
        assert!(pinned.is_leaving(0x2000, 1) && pinned.meets(0x2000, 1));
        assert_eq!(pinned.unlock(0x1000, || Err("asked")), Err("asked"));
        assert_eq!(pinned.unlock(0x1000, || Err("asked")), Ok(()), "once");
        assert!(!pinned.meets(0, usize::MAX));
    }
}
