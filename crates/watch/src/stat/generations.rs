//! Maps of small keys: one with a fast hash, and one of bounded size that forgets its oldest entries.
//!
//! Two maps: new entries go to the young one; when that is full, what is left in the old one is dropped and
//! the young one becomes old. So an entry stays for at least half of the capacity of insertions after it.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// A map whose keys are numbers that nobody chooses to collide: its hash is one multiplication for each.
pub(super) type FastMap<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;

/// Hashes numbers.
#[derive(Default)]
pub(super) struct NumberHasher {
    state: u64,
}

impl Hasher for NumberHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u8(&mut self, number: u8) {
        self.write_u64(u64::from(number));
    }

    fn write_u16(&mut self, number: u16) {
        self.write_u64(u64::from(number));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn write_u64(&mut self, number: u64) {
        // An odd number without structure; the rotation brings the well mixed upper bits down.
        self.state = (self.state ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }

    fn finish(&self) -> u64 {
        self.state.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ self.state >> 32
    }
}

/// A map that keeps at most `capacity` entries, the newest.
pub(super) struct Generations<K, V> {
    young: FastMap<K, V>,
    old: FastMap<K, V>,
    capacity: usize,
    /// How many entries were dropped to stay within the capacity.
    dropped: u64,
}

impl<K: Hash + Eq, V> Generations<K, V> {
    pub(super) fn new(capacity: usize) -> Generations<K, V> {
        Generations { young: FastMap::default(), old: FastMap::default(), capacity, dropped: 0 }
    }

    pub(super) fn insert(&mut self, key: K, value: V) {
        if self.young.len() >= self.capacity / 2 {
            self.dropped += self.old.len() as u64;
            self.old = std::mem::take(&mut self.young);
        }
        if !self.old.is_empty() {
            self.old.remove(&key);
        }
        self.young.insert(key, value);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.young.is_empty() && self.old.is_empty()
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        self.young.remove(key).or_else(|| self.old.remove(key))
    }

    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.young.get_mut(key).or_else(|| self.old.get_mut(key))
    }

    #[cfg(test)]
    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.old.values().chain(self.young.values())
    }

    /// How many entries were dropped to stay within the capacity.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_entries_stay() {
        let mut map = Generations::new(100);
        (0..1000).for_each(|number| map.insert(number, number));
        assert!(map.values().count() <= 100);
        assert!((950..1000).all(|number| map.get_mut(&number).is_some()));
        assert_eq!(map.dropped() + map.values().count() as u64, 1000);
    }

    #[test]
    fn an_entry_is_there_once() {
        let mut map = Generations::new(4);
        (0..3).for_each(|round| [1, 2, 3].into_iter().for_each(|key| map.insert(key, round)));
        assert_eq!(map.values().count(), 3);
        assert_eq!((map.remove(&1), map.remove(&1)), (Some(2), None));
    }
}
