//! Memory of the user's that the driver has page-locked for us. The driver locks no page twice; but memory may be registered
//! again while copies of the time before are in flight, and until they have passed its pages stay locked for them.

use std::collections::BTreeMap;

/// What is locked, by where it starts.
#[derive(Default)]
pub struct Registered(BTreeMap<usize, Locked>);

struct Locked {
    len: usize,
    users: usize,
}

impl Registered {
    /// Uses what is locked already, if that has all of the range. False if the driver is to lock it.
    pub fn join(&mut self, base: usize, len: usize) -> bool {
        let around = self.around(base).filter(|(start, locked)| base + len <= start + locked.len);
        around.map(|(_, locked)| locked.users += 1).is_some()
    }

    /// The driver has locked this.
    pub fn add(&mut self, base: usize, len: usize) {
        self.0.insert(base, Locked { len, users: 1 });
    }

    /// One user less. What nobody uses any more is to be unlocked: where it starts.
    pub fn leave(&mut self, base: usize) -> Option<usize> {
        let (start, locked) = self.around(base)?;
        locked.users -= 1;
        if locked.users > 0 {
            return None;
        }
        self.0.remove(&start);
        Some(start)
    }

    /// Whether any of the range is locked.
    pub fn meets(&self, addr: usize, len: usize) -> bool {
        let before = self.0.range(..addr.saturating_add(len.max(1))).next_back();
        before.is_some_and(|(start, locked)| start + locked.len > addr)
    }

    fn around(&mut self, addr: usize) -> Option<(usize, &mut Locked)> {
        let (start, locked) = self.0.range_mut(..=addr).next_back()?;
        (addr - start < locked.len).then_some((*start, locked))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn pages_are_unlocked_when_their_last_user_leaves() {
        let mut registered = Registered::default();
        assert!(!registered.join(0x1000, 0x2000));
        registered.add(0x1000, 0x2000);
        assert!(registered.join(0x1000, 0x2000) && registered.join(0x2000, 0x1000));
        assert!(!registered.join(0x2000, 0x2000), "the driver must say no: a part of it is locked");
        assert_eq!([0x1000, 0x2000].map(|base| registered.leave(base)), [None, None]);
        assert!(registered.meets(0x2fff, 1) && registered.meets(0, 0x1001) && !registered.meets(0x3000, 9));
        assert_eq!(registered.leave(0x1000), Some(0x1000));
        assert!(!registered.meets(0, usize::MAX));
    }
}
