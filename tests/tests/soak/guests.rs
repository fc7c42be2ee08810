//! Streams that live for one act: aborted, destroyed without waiting, or with callbacks for this thread to
//! run.

use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};

use ferry_tests::code::*;
use ferry_tests::kind::*;
use ferry_tests::*;

use crate::random::Random;
use crate::worker::Worker;

const LEN: usize = 32 * 1024;

/// A stream with work in flight between memory of its own.
struct Guest {
    stream: usize,
    event: usize,
    device: Memory,
    there: Memory,
    back: Memory,
}

impl Guest {
    fn new() -> Guest {
        let (there, back) = (Memory::pinned(LEN), Memory::pinned(LEN));
        Guest { stream: stream(), event: event(), device: Memory::device(LEN), there, back }
    }

    fn work(&self, random: &mut Random) {
        for _ in 0..random.within(1..9) {
            self.round_trip();
        }
        ok(aclrtRecordEvent(self.event, self.stream));
    }

    fn round_trip(&self) {
        ok(aclrtMemcpyAsync(self.device.addr, LEN, self.there.addr, LEN, H2D, self.stream));
        ok(aclrtMemcpyAsync(self.back.addr, LEN, self.device.addr, LEN, D2H, self.stream));
    }

    /// Gives the memory back; the stream is gone.
    fn leave(self) {
        ok(aclrtDestroyEvent(self.event));
        [self.device, self.there, self.back].into_iter().for_each(|memory| ok(memory.free()));
    }
}

/// Drops what a stream has to do, whether or not it stands in a host function; afterwards it works like any
/// other.
pub fn abort(worker: &mut Worker, camp: usize, site: usize) {
    let (site, random) = worker.site(camp, site);
    let guest = Guest::new();
    let gate = random.one_in(2).then(|| block(guest.stream));
    if let Some(gate) = &gate {
        // A function that has not begun would be dropped too, and with it what it owns.
        gate.wait_until_reached();
    }
    guest.work(random);
    ok(aclrtStreamAbort(guest.stream));
    ok(aclrtSynchronizeEvent(guest.event));
    if let Some(gate) = gate {
        gate.unblock();
    }
    // Somebody who waits for the whole device may have been told in our place.
    let code = aclrtSynchronizeStream(guest.stream);
    assert!(matches!(code, 0 | STREAM_ABORT), "a stream that was aborted: {code}");
    let bytes = site.stamped(LEN);
    guest.there.write(&bytes);
    guest.round_trip();
    finish(guest.stream);
    site.same(&guest.back.read(), &bytes, "after an abort");
    ok(aclrtDestroyStream(guest.stream));
    guest.leave();
}

/// Takes stream and memory away with work in flight.
pub fn destroy_by_force(worker: &mut Worker, camp: usize, site: usize) {
    let guest = Guest::new();
    guest.work(worker.site(camp, site).1);
    ok(aclrtDestroyStreamForce(guest.stream));
    ok(aclrtSynchronizeEvent(guest.event));
    guest.leave();
}

/// Callbacks run in this thread, in their order, and none is lost.
pub fn callbacks(worker: &mut Worker, camp: usize, site: usize) {
    let (site, random) = worker.site(camp, site);
    let guest = Guest::new();
    // SAFETY: takes no argument and cannot fail.
    let me = unsafe { libc::pthread_self() };
    ok(aclrtSubscribeReport(me, guest.stream));
    let bytes = site.stamped(LEN);
    guest.there.write(&bytes);
    let (count, launched) = (AtomicUsize::new(0), random.within(1..9));
    for _ in 0..launched {
        guest.round_trip();
        let block = random.within(0..2) as i32;
        ok(aclrtLaunchCallback(Some(add_one), &raw const count as usize, block, guest.stream));
    }
    eventually("every callback has run", || {
        let code = aclrtProcessReport(100);
        assert!(matches!(code, 0 | REPORT_TIMEOUT), "aclrtProcessReport: {code}");
        count.load(Ordering::Acquire) == launched
    });
    finish(guest.stream);
    assert_eq!(count.load(Ordering::Acquire), launched, "{}: callbacks run once", site.name);
    ok(aclrtUnSubscribeReport(me, guest.stream));
    site.same(&guest.back.read(), &bytes, "callbacks");
    ok(aclrtDestroyStream(guest.stream));
    guest.leave();
}

/// # Safety
/// `count` is a number that outlives the stream's work.
unsafe extern "C" fn add_one(count: *mut c_void) {
    // SAFETY: the caller's promise.
    unsafe { &*count.cast::<AtomicUsize>() }.fetch_add(1, Ordering::AcqRel);
}

/// A key for other processes, which is given back with its memory.
pub fn export(_: &mut Worker, _: usize, _: usize) {
    let memory = Memory::device(LEN);
    let mut key = [0; 65];
    ok(aclrtIpcMemGetExportKey(memory.addr, LEN, key.as_mut_ptr(), key.len(), 1));
    ok(aclrtIpcMemClose(key.as_ptr()));
    ok(memory.free());
}
