//! Handles given to C: a tag, a generation and an index, looked up here and never dereferenced. A generation
//! is used once, so a destroyed handle never comes back to life.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// What a handle names. The tag is part of its number, so that a stream passed as an event is recognised.
pub trait HandleKind {
    /// A small number of this kind of object.
    const TAG: usize;
}

const INDEX_BITS: u32 = 24;
const GENERATION_BITS: u32 = 28;
/// Far outside of any address space: a program that dereferences a handle finds out.
const TOP: usize = 0x46 << 56;

/// A table of objects by handle.
pub struct Handles<T> {
    slots: RwLock<HandleSlots<T>>,
}

struct HandleSlots<T> {
    all: Vec<HandleSlot<T>>,
    free: Vec<usize>,
}

struct HandleSlot<T> {
    generation: usize,
    value: Option<Arc<T>>,
}

impl<T: HandleKind> Handles<T> {
    /// An empty table.
    pub const fn new() -> Self {
        Handles { slots: RwLock::new(HandleSlots { all: Vec::new(), free: Vec::new() }) }
    }

    fn read(&self) -> RwLockReadGuard<'_, HandleSlots<T>> {
        self.slots.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HandleSlots<T>> {
        self.slots.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the object that `make` builds from its own handle.
    pub fn insert(&self, make: impl FnOnce(usize) -> T) -> Arc<T> {
        let mut slots = self.write();
        let index = slots.free.pop().unwrap_or_else(|| {
            slots.all.push(HandleSlot { generation: 0, value: None });
            slots.all.len() - 1
        });
        let slot = &mut slots.all[index];
        slot.generation += 1;
        let handle = TOP | T::TAG << (INDEX_BITS + GENERATION_BITS) | slot.generation << INDEX_BITS | index;
        slot.value.insert(Arc::new(make(handle))).clone()
    }

    /// The object, if the handle is of this kind and was not destroyed.
    pub fn get(&self, handle: usize) -> Option<Arc<T>> {
        let (index, generation) = Self::split(handle)?;
        let slots = self.read();
        slots.all.get(index).filter(|slot| slot.generation == generation)?.value.clone()
    }

    /// Takes the object out: the handle is dead from here on.
    pub fn remove(&self, handle: usize) -> Option<Arc<T>> {
        let (index, generation) = Self::split(handle)?;
        let mut slots = self.write();
        let value = slots.all.get_mut(index).filter(|slot| slot.generation == generation)?.value.take()?;
        if generation + 1 < 1 << GENERATION_BITS {
            slots.free.push(index);
        }
        Some(value)
    }

    /// All objects now.
    pub fn all(&self) -> Vec<Arc<T>> {
        let slots = self.read();
        slots.all.iter().filter_map(|slot| slot.value.clone()).collect()
    }

    /// The place in the table: below 2^24, and of one living object only.
    pub fn index(handle: usize) -> usize {
        handle & ((1 << INDEX_BITS) - 1)
    }

    fn split(handle: usize) -> Option<(usize, usize)> {
        let tag = T::TAG << (INDEX_BITS + GENERATION_BITS);
        let rest = handle ^ (TOP | tag);
        let generation = rest >> INDEX_BITS;
        (generation < 1 << GENERATION_BITS).then_some((Self::index(rest), generation))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Cat;
    impl HandleKind for Cat {
        const TAG: usize = 1;
    }
    struct Dog;
    impl HandleKind for Dog {
        const TAG: usize = 2;
    }

    #[test]
    fn handles_live_once_and_know_their_kind() {
        let (cats, dogs) = (Handles::<Cat>::new(), Handles::<Dog>::new());
        let mut first = 0;
        cats.insert(|handle| {
            first = handle;
            Cat
        });
        dogs.insert(|_| Dog);
        assert!(cats.get(first).is_some());
        assert!(dogs.get(first).is_none(), "a cat is no dog");
        assert!(cats.remove(first).is_some() && cats.remove(first).is_none());
        let mut second = 0;
        cats.insert(|handle| {
            second = handle;
            Cat
        });
        assert_ne!(first, second, "never reused");
        for garbage in [0, 1, first, usize::MAX, second ^ 1, second + (1 << INDEX_BITS), 0x7fff_0000_1234] {
            assert!(cats.get(garbage).is_none(), "{garbage:#x}");
        }
    }
}
