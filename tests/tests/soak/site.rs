//! A stream with the memory that belongs to it, and what that memory must hold once the stream is through.
//!
//! Every act changes a part of the ground and the shadow alike, and asks for that part back; what comes back
//! is compared with what the shadow was then. So each copy that was accepted is seen done, and no two sites
//! share a byte.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ferry_tests::kind::*;
use ferry_tests::*;

use crate::ground::Ground;
use crate::random::Random;

const INBOX: usize = 24 * 1024;
const OUTBOX: usize = 48 * 1024;
/// Largest part of the ground that one act changes.
pub const MOST: usize = 6 * 1024;
/// Descriptors, and pairs of pointer cells, until the stream is waited for.
const LATE: usize = 8;
/// Acts that a failure tells of.
const REMEMBERED: usize = 12;

/// A part of the ground.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    pub at: usize,
    pub len: usize,
}

/// Bytes that the outbox must hold.
struct Due {
    at: usize,
    want: Vec<u8>,
    /// Accepted calls that this proves to have run.
    proves: u64,
    act: &'static str,
}

/// What host functions of one stream count.
#[derive(Default)]
pub struct Tally {
    passed: AtomicU64,
    /// Functions that ran out of order, or before the copy in front of them.
    wrong: AtomicU64,
}

/// What one host function finds when everything before it is done.
struct Look {
    tally: Arc<Tally>,
    number: u64,
    byte: Option<(usize, u8)>,
}

pub struct Site {
    pub name: String,
    pub device: u32,
    pub stream: usize,
    pub event: usize,
    pub ground: Ground,
    pub shadow: Vec<u8>,
    inbox: Memory,
    inbox_used: usize,
    outbox: Memory,
    outbox_used: usize,
    /// Descriptors in device memory, pointer cells in page-locked memory, and how many are used.
    descriptors: usize,
    cells: Memory,
    pub late: usize,
    due: Vec<Due>,
    tally: Arc<Tally>,
    launched: u64,
    functions_seen: u64,
    /// Mappings that were unregistered with copies in flight.
    pub outlived: Vec<Memory>,
    pub history: Vec<&'static str>,
    stamp: u64,
    /// Calls that were accepted, and those that were seen to have run.
    pub accepted: u64,
    pub seen: u64,
    pub bytes_seen: u64,
}

impl Site {
    /// Everything a stream needs, in the current context of `device`.
    pub fn new(name: String, stamp: u64, device: u32, random: &mut Random) -> Site {
        let ground = Ground::new(device, random);
        let mut site = Site {
            name,
            device,
            stream: stream(),
            event: event(),
            shadow: vec![0; ground.len()],
            ground,
            inbox: Memory::pinned(INBOX),
            inbox_used: 0,
            outbox: Memory::pinned(OUTBOX),
            outbox_used: 0,
            descriptors: Memory::device(LATE * descriptor_size()).addr,
            cells: Memory::pinned(LATE * 16),
            late: 0,
            due: Vec::new(),
            tally: Arc::default(),
            launched: 0,
            functions_seen: 0,
            outlived: Vec::new(),
            history: Vec::new(),
            stamp,
            accepted: 0,
            seen: 0,
            bytes_seen: 0,
        };
        site.clear_ground(random);
        site
    }

    /// Gives everything back; the stream is waited for first.
    pub fn close(mut self, random: &mut Random) -> [u64; 3] {
        self.settle(random);
        ok(aclrtDestroyStream(self.stream));
        ok(aclrtDestroyEvent(self.event));
        ok(aclrtFree(self.descriptors));
        [self.cells, self.inbox, self.outbox].into_iter().for_each(|memory| ok(memory.free()));
        self.ground.give_back(random);
        [self.accepted, self.seen, self.bytes_seen]
    }

    /// New memory holds anything: makes it zeros, in the stream.
    fn clear_ground(&mut self, random: &mut Random) {
        self.shadow = vec![0; self.ground.len()];
        self.accept(aclrtMemsetAsync(
            self.ground.base(),
            self.ground.len(),
            0,
            self.ground.len(),
            self.stream,
        ));
        // Part by part it will be read; the first bytes are proof that it ran.
        self.read_back(Part { at: 0, len: 64 }, 1, "clear", random);
    }

    /// Other memory in place of the ground, which is given back with work in flight.
    pub fn renew_ground(&mut self, random: &mut Random) {
        self.before_addresses_change(random);
        let new = Ground::new(self.device, random);
        std::mem::replace(&mut self.ground, new).give_back(random);
        self.clear_ground(random);
    }

    /// Copies that look their addresses up when they run must have run before those are gone.
    pub fn before_addresses_change(&mut self, random: &mut Random) {
        if self.late > 0 {
            self.settle(random);
        }
    }

    /// Another stream in place of this one, whose destruction waits for its work.
    pub fn renew_stream(&mut self) {
        ok(aclrtDestroyStream(self.stream));
        self.stream = stream();
        self.verify();
    }

    /// Other memory to copy from; the old is freed with copies from it in flight.
    pub fn renew_inbox(&mut self) {
        ok(self.inbox.free());
        self.inbox = Memory::pinned(INBOX);
        self.inbox_used = 0;
    }

    pub fn note(&mut self, act: &'static str) {
        if self.history.len() == REMEMBERED {
            self.history.remove(0);
        }
        self.history.push(act);
    }

    /// Counts a call that must be accepted.
    #[track_caller]
    pub fn accept(&mut self, code: i32) {
        if code != 0 {
            panic!("{} after {:?}: {code}: {}", self.name, self.history, message().unwrap_or_default());
        }
        self.accepted += 1;
    }

    /// Some part of the ground.
    pub fn part(&self, random: &mut Random) -> Part {
        let len = random.within(1..MOST.min(self.shadow.len()) + 1);
        let at = random.within(0..self.shadow.len() - len + 1);
        Part { at, len }
    }

    /// The ground's address of a part.
    pub fn addr(&self, part: Part) -> usize {
        self.ground.base() + part.at
    }

    /// Bytes from a part's start to the end of the ground.
    pub fn room(&self, part: Part) -> usize {
        self.shadow.len() - part.at
    }

    /// Fresh bytes that no other act ever had: words of a number of the site, a number of the act, and a
    /// place.
    pub fn stamped(&mut self, len: usize) -> Vec<u8> {
        self.stamp += 1;
        let word = |index: u64| (self.stamp << 12 | index & 0xfff).to_le_bytes();
        (0..len.div_ceil(8) as u64).flat_map(word).take(len).collect()
    }

    /// Puts bytes into the inbox, where they stay until the stream is waited for.
    pub fn post(&mut self, bytes: &[u8], random: &mut Random) -> usize {
        if self.inbox_used + bytes.len() > INBOX {
            self.settle(random);
        }
        let place = self.inbox.part(self.inbox_used, bytes.len());
        place.write(bytes);
        self.inbox_used += bytes.len();
        place.addr
    }

    /// Makes room in the outbox; what was there is overwritten, so that old bytes prove nothing.
    pub fn outbox(&mut self, len: usize, random: &mut Random) -> usize {
        assert!(len <= OUTBOX);
        if self.outbox_used + len > OUTBOX {
            self.settle(random);
        }
        let at = self.outbox_used;
        self.outbox.part(at, len).fill(0xa5);
        self.outbox_used += len;
        at
    }

    pub fn outbox_addr(&self, at: usize) -> usize {
        self.outbox.addr + at
    }

    /// The next free descriptor, or `None` when the stream must be waited for.
    pub fn next_late(&mut self, random: &mut Random) -> (usize, usize) {
        if self.late == LATE {
            self.settle(random);
        }
        let index = self.late;
        self.late += 1;
        (self.descriptors + index * descriptor_size(), self.cells.addr + index * 16)
    }

    /// Expects the bytes `want` in the outbox once the stream is through.
    pub fn expect_at(&mut self, at: usize, want: Vec<u8>, proves: u64, act: &'static str) {
        self.due.push(Due { at, want, proves, act });
    }

    /// Asks for a part of the ground in the plainest way.
    pub fn read_back(&mut self, part: Part, proves: u64, act: &'static str, random: &mut Random) {
        let at = self.outbox(part.len, random);
        let code =
            aclrtMemcpyAsync(self.outbox.addr + at, part.len, self.addr(part), part.len, D2H, self.stream);
        self.accept(code);
        let want = self.shadow[part.at..part.at + part.len].to_vec();
        self.expect_at(at, want, proves + 1, act);
    }

    /// Has the stream run a host function that looks whether everything in front of it is done.
    pub fn launch(&mut self) {
        let byte = self.due.last().map(|due| (self.outbox.addr + due.at, due.want[0]));
        let look = Box::new(Look { tally: self.tally.clone(), number: self.launched, byte });
        self.launched += 1;
        self.accept(aclrtLaunchHostFunc(self.stream, Some(look_around), Box::into_raw(look) as usize));
    }

    /// Waits for the stream in one of the ways there are, then compares.
    pub fn settle(&mut self, random: &mut Random) {
        match random.within(0..8) {
            0 | 1 => self.must(aclrtSynchronizeStream(self.stream), "aclrtSynchronizeStream"),
            2 => self.wait_with_timeouts(),
            3 => eventually("a stream is through", || stream_status(self.stream) == STREAM_COMPLETE),
            4 => {
                self.must(aclrtRecordEvent(self.event, self.stream), "aclrtRecordEvent");
                self.must(aclrtSynchronizeEvent(self.event), "aclrtSynchronizeEvent");
                self.must(aclrtSynchronizeStream(self.stream), "aclrtSynchronizeStream");
            }
            5 => {
                self.must(aclrtRecordEvent(self.event, self.stream), "aclrtRecordEvent");
                eventually("an event is complete", || event_status(self.event) == EVENT_COMPLETE);
            }
            6 if random.one_in(20) => self.wait_for_device(),
            6 => self.must(aclrtSynchronizeStream(self.stream), "aclrtSynchronizeStream"),
            _ => self.must(aclrtSynchronizeStreamWithTimeout(self.stream, -1), "with timeout -1"),
        }
        self.verify();
    }

    /// Waits for everybody's streams, until none of them is aborted meanwhile.
    fn wait_for_device(&self) {
        loop {
            match aclrtSynchronizeDevice() {
                code::STREAM_ABORT => {}
                other => return self.must(other, "aclrtSynchronizeDevice"),
            }
        }
    }

    fn wait_with_timeouts(&self) {
        for _ in 0..10_000 {
            match aclrtSynchronizeStreamWithTimeout(self.stream, 10) {
                code::STREAM_SYNC_TIMEOUT => {}
                other => return self.must(other, "aclrtSynchronizeStreamWithTimeout"),
            }
        }
        panic!("{}: the stream is not through after 10,000 timeouts", self.name);
    }

    #[track_caller]
    pub fn must(&self, code: i32, what: &str) {
        if code != 0 {
            panic!(
                "{} after {:?}: {what}: {code}: {}",
                self.name,
                self.history,
                message().unwrap_or_default()
            );
        }
    }

    /// Compares all that came back; the stream is through.
    fn verify(&mut self) {
        for due in std::mem::take(&mut self.due) {
            let got = self.outbox.part(due.at, due.want.len()).read();
            self.same(&got, &due.want, due.act);
            self.seen += due.proves;
        }
        let (passed, wrong) = (&self.tally.passed, &self.tally.wrong);
        assert_eq!(passed.load(Ordering::Acquire), self.launched, "{}: host functions that ran", self.name);
        assert_eq!(wrong.load(Ordering::Acquire), 0, "{}: host functions out of order", self.name);
        self.seen += self.launched - self.functions_seen;
        self.functions_seen = self.launched;
        for memory in self.outlived.drain(..) {
            ok(memory.free());
        }
        (self.inbox_used, self.outbox_used, self.late) = (0, 0, 0);
    }

    /// Fails with the first word that differs: it tells which act put it there.
    #[track_caller]
    pub fn same(&mut self, got: &[u8], want: &[u8], act: &'static str) {
        self.bytes_seen += want.len() as u64;
        if got == want {
            return;
        }
        let at = got.iter().zip(want).position(|(a, b)| a != b).unwrap_or(0);
        let word = |bytes: &[u8]| {
            bytes[at & !7..].iter().take(8).rev().map(|b| format!("{b:02x}")).collect::<String>()
        };
        panic!(
            "{}, act {act}, of {:?}: byte {at} of {} differs: the word there is {} and should be {}",
            self.name,
            self.history,
            want.len(),
            word(got),
            word(want)
        );
    }
}

fn descriptor_size() -> usize {
    let mut size = 0;
    ok(aclrtGetMemcpyDescSize(INNER, &mut size));
    size
}

/// # Safety
/// `look` came from `Box::into_raw` and is handed over once.
unsafe extern "C" fn look_around(look: *mut c_void) {
    // SAFETY: a stream runs a host function once, with the argument of its launch.
    let look = unsafe { Box::from_raw(look.cast::<Look>()) };
    // SAFETY: the outbox is there until the stream was waited for, and no copy behind this function writes
    // this byte.
    let in_time = look.byte.is_none_or(|(addr, want)| unsafe { (addr as *const u8).read_volatile() } == want);
    let in_order = look.tally.passed.fetch_add(1, Ordering::AcqRel) == look.number;
    if !in_time || !in_order {
        look.tally.wrong.fetch_add(1, Ordering::AcqRel);
    }
}
