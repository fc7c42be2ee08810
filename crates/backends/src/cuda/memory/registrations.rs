//! Registration of the user's memory: its pages are pinned (page-locked) by the driver, so that devices reach
//! them.
//!
//! To unlock pages the driver waits for all streams, so that is deferred while a stream is held. Until it is
//! done the same pages cannot be registered again: there may be other memory at their addresses by now.

use crate::cuda::{
    driver::{Contexts, ImplicitSync},
    memory::pinned_ranges::PinnedRanges,
};
use crate::os::ranges::HostPages;
use ferry_core::{
    Block, Home, Kind, Origin, Result,
    sync::{Arc, Mutex, MutexGuard, lock},
    table::GRANULE,
};
use std::time::{Duration, Instant};

/// How long a registration waits for pages that are yet to be unlocked.
const MAX_WAIT_FOR_UNLOCKING: Duration = Duration::from_millis(750);

/// The registered memory of a backend.
pub struct Registrations {
    contexts: Arc<Contexts>,
    sync: Arc<ImplicitSync>,
    pinned: Arc<Mutex<PinnedRanges>>,
    /// Memory of our own that is registered like the user's.
    host_pages: HostPages,
}

impl Registrations {
    /// None yet.
    pub fn new(contexts: Arc<Contexts>, sync: Arc<ImplicitSync>) -> Registrations {
        Registrations { contexts, sync, pinned: Arc::default(), host_pages: HostPages::default() }
    }

    /// The ranges that the driver has pinned.
    pub fn pinned(&self) -> &Arc<Mutex<PinnedRanges>> {
        &self.pinned
    }

    /// As [`Backend::register`](ferry_core::Backend::register).
    pub fn register(&self, base: usize, len: usize) -> Result<Block> {
        let current = self.contexts.any()?.enter()?;
        let whole = whole_pages(len);
        let mut pinned = self.pinned_for(base, whole)?;
        let gaps = pinned.gaps(base, whole);
        let locked = gaps.into_iter().try_for_each(|(base, len)| {
            current.pin(base, len)?;
            pinned.add(base, len);
            Ok(())
        });
        pinned.join(base, whole);
        drop(pinned);
        match locked {
            Ok(()) => {
                Ok(Block { base, len, home: Home::Host, at: base, page: GRANULE, origin: Origin::Registered })
            }
            // SAFETY: registered just now, and not known to any caller.
            Err(why) => unsafe { self.unregister(base, len) }.and(Err(why)),
        }
    }

    /// As [`AddressSpace::host_pages`](ferry_core::AddressSpace::host_pages).
    pub fn host_pages(&self, len: usize, page: usize, node: Option<u32>) -> Result<Block> {
        let pages = HostPages::make(len, node)?;
        let block = self.register(pages.addr(), len)?;
        self.host_pages.add(pages);
        Ok(Block { page, ..block })
    }

    /// Undoes `register`, or `host_pages`, whose memory goes back to the system when the driver has unlocked
    /// it.
    ///
    /// # Safety
    /// No device uses the range any more.
    pub unsafe fn unregister(&self, base: usize, len: usize) -> Result<()> {
        let pages = self.host_pages.take(base);
        let unused = lock(&self.pinned).leave(base, whole_pages(len));
        if unused.is_empty() {
            return Ok(());
        }
        let (pinned, context) = (self.pinned.clone(), self.contexts.any()?.clone());
        let unlock = move |start: &usize| {
            lock(&pinned).unlock(*start, || {
                // SAFETY: pinned by `register`, and nothing uses it any more.
                context.unless_lost(|current| unsafe { current.unpin(*start) })
            })
        };
        // All of them, whatever becomes of the first: no other call would.
        self.sync.now_or_later(move || {
            let unlocked = unused.iter().map(unlock).fold(Ok(()), Result::and);
            drop(pages);
            unlocked
        })
    }

    /// What is pinned, for a registration of this range. None of that is yet to be unlocked: there may be
    /// other memory at these addresses by now, and the driver would go on using the pages that it has locked.
    fn pinned_for(&self, base: usize, len: usize) -> Result<MutexGuard<'_, PinnedRanges>> {
        let deadline = Instant::now() + MAX_WAIT_FOR_UNLOCKING;
        loop {
            let pinned = lock(&self.pinned);
            if !pinned.is_leaving(base, len) {
                return Ok(pinned);
            }
            drop(pinned);
            // Where nothing was deferred, another thread is unlocking them just now.
            if !self.sync.catch_up(deadline) || Instant::now() >= deadline {
                let note = format!(
                    "{len} bytes at {base:#x} are still page-locked from before: that ends when no stream \
                     shared with other libraries waits for the host"
                );
                return Err(Kind::OutOfMemory.because(note));
            }
        }
    }
}

fn whole_pages(len: usize) -> usize {
    len.checked_next_multiple_of(GRANULE).unwrap_or(usize::MAX)
}
