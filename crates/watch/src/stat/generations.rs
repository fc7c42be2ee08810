//! A map of bounded size that forgets its oldest entries.
//!
//! Two maps: new entries go to the young one; when that is full, what is left in the old one is dropped and
//! the young one becomes old. So an entry stays for at least half of the capacity of insertions after it.

use std::collections::HashMap;
use std::hash::Hash;

/// A map that keeps at most `capacity` entries, the newest.
pub(super) struct Generations<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
    capacity: usize,
    /// How many entries were dropped to stay within the capacity.
    dropped: u64,
}

impl<K: Hash + Eq, V> Generations<K, V> {
    pub(super) fn new(capacity: usize) -> Generations<K, V> {
        Generations { young: HashMap::new(), old: HashMap::new(), capacity, dropped: 0 }
    }

    pub(super) fn insert(&mut self, key: K, value: V) {
        if self.young.len() >= self.capacity / 2 {
            self.dropped += self.old.len() as u64;
            self.old = std::mem::take(&mut self.young);
        }
        self.old.remove(&key);
        self.young.insert(key, value);
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
