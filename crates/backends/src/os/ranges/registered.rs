//! Memory of the user's whose pages are locked (pinned) by `mlock`.

use crate::os::mapping::Mapping;
use ferry_core::sync::{Mutex, lock};

/// The ranges that are locked, each as often as it was registered.
#[derive(Default)]
pub struct PageLocks(Mutex<Vec<(usize, usize)>>);

impl PageLocks {
    /// Locks the pages of a range; best effort, as with our own.
    pub fn add(&self, base: usize, len: usize) {
        if Mapping::lock_pages(base, len) {
            lock(&self.0).push((base, len));
        }
    }

    /// Unlocks the pages of a range, except for those that another registration covers: the kernel does not
    /// count how often a page is locked.
    pub fn remove(&self, base: usize, len: usize) {
        let mut locked = lock(&self.0);
        let Some(index) = locked.iter().position(|entry| *entry == (base, len)) else { return };
        locked.swap_remove(index);
        Mapping::unlock_pages(base, len);
        for (start, count) in
            locked.iter().filter(|(start, count)| *start < base + len && base < start + count)
        {
            Mapping::lock_pages(*start, *count);
        }
    }
}
