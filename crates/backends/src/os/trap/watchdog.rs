//! Has the program go on if the monitor does not: every wait for a page ends, whatever happens.
//!
//! The monitor reads structures of the library and allocates. A program may have registered the memory that
//! these lie in, so that the monitor waits for a page of its own, or for a lock of the allocator whose holder
//! waits for a page. No finding is worth a program that hangs: a thread that allocates nothing looks now and
//! then whether the monitor gets anywhere, and if not it opens what threads wait for, without a judgement.

use super::{
    devices, moving,
    uffd::{Event, PageFault, Uffd},
};
use crate::os::{page::page_size, threads::end::spawn_deaf};
use std::{
    io,
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

/// How often the monitor is looked at.
const PAUSE: Duration = Duration::from_millis(500);
/// How long one event may take: longer than a thread is waited for that is asked for its stack.
const MOST: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 5 });

/// The stack of the thread.
const STACK: usize = 256 << 10;

/// How many events were begun and ended: odd while one is worked on.
static STEPS: AtomicU64 = AtomicU64::new(0);
/// The address that it is about; 0 for none.
static ADDRESS: AtomicUsize = AtomicUsize::new(0);

/// Whether pages were ever opened without the judge.
static HAS_LET_GO: AtomicBool = AtomicBool::new(false);

/// Whether pages were ever opened of which the judge was not told.
pub fn has_let_go() -> bool {
    HAS_LET_GO.load(Ordering::Acquire)
}

/// An event that the monitor works on, until this is dropped.
pub(super) struct EventInWork;

impl EventInWork {
    pub(super) fn begin(address: usize) -> EventInWork {
        ADDRESS.store(address, Ordering::Relaxed);
        STEPS.fetch_add(1, Ordering::Release);
        EventInWork
    }

    /// The address that the event is about.
    pub(super) fn is_about(&self, address: usize) {
        ADDRESS.store(address, Ordering::Relaxed);
    }
}

impl Drop for EventInWork {
    fn drop(&mut self) {
        STEPS.fetch_add(1, Ordering::Release);
    }
}

/// Waits until the monitor has done with the event that it works on, though not for ever.
pub(super) fn wait_for_event_in_work() {
    let (steps, since) = (STEPS.load(Ordering::Acquire), Instant::now());
    while !steps.is_multiple_of(2)
        && STEPS.load(Ordering::Acquire) == steps
        && since.elapsed() < Duration::from_secs(1)
    {
        thread::yield_now();
    }
}

/// Begins to look.
pub(super) fn begin(uffd: &'static Uffd) -> io::Result<()> {
    spawn_deaf("ferry-watchdog", STACK, move || {
        let (mut seen, mut since) = (0, Instant::now());
        loop {
            thread::sleep(PAUSE);
            let steps = STEPS.load(Ordering::Acquire);
            if steps != seen || steps.is_multiple_of(2) {
                (seen, since) = (steps, Instant::now());
            } else if since.elapsed() > MOST {
                let_all_go(uffd);
            }
        }
    })
}

/// Opens what the monitor has not got to, and what it works on.
fn let_all_go(uffd: &Uffd) {
    HAS_LET_GO.store(true, Ordering::Release);
    open(uffd, ADDRESS.load(Ordering::Relaxed));
    while uffd.wait(Some(0)).is_ok_and(|waits| waits) {
        match uffd.next() {
            Ok(Some(Event::Fault(PageFault { address, .. }))) => open(uffd, address),
            Ok(_) => {}
            Err(_) => return,
        }
    }
}

fn open(uffd: &Uffd, address: usize) {
    let page = address / page_size() * page_size();
    if page == 0 {
        return;
    }
    if devices::is_watched(address) {
        devices::close(page);
    }
    moving::open_pages(uffd, &(page..page + page_size()));
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::{
        Judge, OpenPages, Opening, PageFault, Trap, TrappedAccess, Verdict, place::ThreadPlace, populate,
    };
    use super::*;
    use crate::os::mapping::Mapping;
    use std::{
        ops::Range,
        sync::{Arc, mpsc},
    };

    /// Never comes to a decision.
    struct Undecided;

    impl Judge for Undecided {
        fn moment(&self) -> u64 {
            0
        }

        fn open_around(
            &self,
            _: &PageFault,
            _: bool,
            _: &dyn Fn(&Range<usize>, Opening) -> bool,
        ) -> Option<OpenPages> {
            None
        }

        fn opened(&self, _: &Range<usize>, _: Opening) {}

        fn engine_distance(&self, _: std::ops::Range<usize>) -> Option<usize> {
            None
        }

        fn judge(&self, _: &TrappedAccess) -> Verdict {
            loop {
                thread::park();
            }
        }

        fn happens(&self, _: &TrappedAccess, _: Option<Vec<u64>>, _: bool) {}

        fn pointer(&self, _: &TrappedAccess, _: Option<Vec<u64>>) {}

        fn unmapping(&self, _: i32, _: ThreadPlace, _: Range<usize>) {}

        fn unmapped(&self, _: Range<usize>) {}

        fn closed(&self) {}
    }

    #[test]
    fn threads_go_on_though_the_monitor_does_not() {
        let page = page_size();
        let (engine, _) = Mapping::shared("ferry:watchdog", 4 * page).expect("memory");
        assert!(engine.open(0, 4 * page));
        let view = engine.again("a view").expect("a view");
        let pages = view.addr()..view.addr() + 4 * page;
        let trap = match Trap::open(Arc::new(Undecided), || {}) {
            Ok(trap) => trap,
            Err(why) => return eprintln!("skipped: userfaultfd: {why}"),
        };
        trap.watch(&pages, engine.addr()).expect("a view that can be watched");
        assert!(populate(&(engine.addr()..engine.addr() + 4 * page)));
        trap.arm(&pages);
        let (done, ends) = mpsc::channel();
        for address in pages.clone().step_by(page) {
            let done = done.clone();
            thread::spawn(move || {
                // SAFETY: memory of this test's alone, which stays.
                unsafe { (address as *mut u8).write_volatile(1) };
                done.send(address)
            });
        }
        for _ in 0..4 {
            ends.recv_timeout(Duration::from_secs(30)).expect("a thread that goes on");
        }
        trap.leave(&pages);
    }
}
