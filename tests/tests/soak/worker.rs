//! One thread of the soak: its contexts on both devices, its sites, and acts that need more than one site's
//! stream.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use ferry_tests::code::*;
use ferry_tests::kind::*;
use ferry_tests::*;

use crate::acts::ACTS;
use crate::guests;
use crate::random::Random;
use crate::site::{Part, Site};

/// What threads and their watcher share.
#[derive(Default)]
pub struct Board {
    pub stop: AtomicBool,
    /// Threads that have all their streams.
    pub ready: AtomicUsize,
    /// Acts of each thread so far; a number that stands still is a hang.
    pub acts: Vec<AtomicU64>,
    /// What each thread is at: an index of [`names`].
    pub at: Vec<AtomicUsize>,
    /// One event of each thread and device, recorded now and then, for streams of all threads to wait for.
    pub beacons: Vec<[AtomicUsize; 2]>,
    pub accepted: AtomicU64,
    pub seen: AtomicU64,
    pub bytes: AtomicU64,
}

impl Board {
    pub fn new(threads: usize) -> Board {
        Board {
            acts: (0..threads).map(|_| AtomicU64::new(0)).collect(),
            at: (0..threads).map(|_| AtomicUsize::new(0)).collect(),
            beacons: (0..threads).map(|_| Default::default()).collect(),
            ..Board::default()
        }
    }
}

/// A context of one device and the sites in it. Even threads make contexts of their own, odd ones use the
/// device's.
struct Camp {
    device: u32,
    own_context: Option<usize>,
    sites: Vec<Site>,
}

impl Camp {
    fn new(device: u32, is_own: bool) -> Camp {
        let mut context = 0;
        match is_own {
            true => ok(aclrtCreateContext(&mut context, device as i32)),
            false => ok(aclrtSetDevice(device as i32)),
        }
        Camp { device, own_context: is_own.then_some(context), sites: Vec::new() }
    }

    /// Makes this camp's context current.
    fn enter(&self) {
        match self.own_context {
            Some(context) => ok(aclrtSetCurrentContext(context)),
            None => {
                ok(aclrtSetDevice(self.device as i32));
                // Each call counts; one is kept until the camp is closed.
                ok(aclrtResetDevice(self.device as i32));
            }
        }
    }

    /// Gives the context back, whose sites are gone.
    fn leave(self) {
        match self.own_context {
            Some(context) => ok(aclrtDestroyContext(context)),
            None => ok(aclrtResetDevice(self.device as i32)),
        }
    }
}

pub struct Worker {
    number: usize,
    board: Arc<Board>,
    random: Random,
    camps: Vec<Camp>,
    sites_made: u64,
}

type Deed = (&'static str, fn(&mut Worker, usize, usize));

/// Acts that touch more than one stream, or stop it; how many in a thousand.
const DEEDS: [(usize, Deed); 18] = [
    (60, ("settle", |w, camp, site| w.camps[camp].sites[site].settle(&mut w.random))),
    (40, ("copy from a neighbour", Worker::copy_from_neighbour)),
    (20, ("wait for a beacon", Worker::wait_for_beacon)),
    (20, ("raise a beacon", Worker::raise_beacon)),
    (20, ("renew the ground", |w, camp, site| w.camps[camp].sites[site].renew_ground(&mut w.random))),
    (15, ("renew the inbox", |w, camp, site| w.camps[camp].sites[site].renew_inbox())),
    (15, ("renew the stream", |w, camp, site| w.camps[camp].sites[site].renew_stream())),
    (20, ("remap", Worker::remap)),
    (10, ("synchronous calls", Worker::synchronous)),
    (10, ("copy from the other device", Worker::copy_across)),
    (5, ("time out", Worker::time_out)),
    (5, ("large memory", Worker::large_memory)),
    (5, ("abort", guests::abort)),
    (5, ("destroy by force", guests::destroy_by_force)),
    (5, ("callbacks", guests::callbacks)),
    (2, ("export", guests::export)),
    (4, ("a short thread", Worker::short_thread)),
    (1, ("renew the context", Worker::renew_context)),
];

/// The name of an act, for the watcher.
pub fn name_of(act: usize) -> &'static str {
    ACTS.iter().map(|act| act.0).chain(DEEDS.iter().map(|deed| deed.1.0)).nth(act).unwrap_or("the end")
}

impl Worker {
    pub fn new(number: usize, streams: usize, seed: u64, board: Arc<Board>) -> Worker {
        let mut worker =
            Worker { number, board, random: Random::new(seed), camps: Vec::new(), sites_made: 0 };
        for device in [0, 1] {
            let mut camp = Camp::new(device, number.is_multiple_of(2));
            let share = if device == 0 { streams / 2 } else { streams - streams / 2 };
            camp.sites.extend((0..share).map(|_| worker.new_site(device)));
            worker.board.beacons[number][device as usize].store(event(), Ordering::Release);
            worker.camps.push(camp);
        }
        worker
    }

    fn new_site(&mut self, device: u32) -> Site {
        self.sites_made += 1;
        // Bits of a stamp: thread, site, then the acts of the site; 12 more are the place in the bytes.
        let stamp = (self.number as u64) << 46 | (self.sites_made & 0xffff) << 30;
        let name = format!("thread {}, site {}", self.number, self.sites_made);
        Site::new(name, stamp, device, &mut self.random)
    }

    /// Acts until the board says stop, then gives everything back.
    pub fn run(mut self) {
        while !self.board.stop.load(Ordering::Relaxed) {
            self.act();
            self.board.acts[self.number].fetch_add(1, Ordering::Relaxed);
        }
        self.at(usize::MAX);
        self.close();
    }

    fn at(&self, act: usize) {
        self.board.at[self.number].store(act, Ordering::Relaxed);
    }

    /// A site, and what chooses for it.
    pub fn site(&mut self, camp: usize, site: usize) -> (&mut Site, &mut Random) {
        (&mut self.camps[camp].sites[site], &mut self.random)
    }

    fn act(&mut self) {
        let camp = self.random.within(0..2);
        let site = self.random.within(0..self.camps[camp].sites.len());
        self.camps[camp].enter();
        let mut chance = self.random.within(0..1000);
        for (index, (weight, (name, deed))) in DEEDS.iter().enumerate() {
            if chance < *weight {
                self.at(ACTS.len() + index);
                self.camps[camp].sites[site].note(name);
                return deed(self, camp, site);
            }
            chance -= weight;
        }
        let index = self.random.within(0..ACTS.len());
        self.at(index);
        let (name, act) = ACTS[index];
        let site = &mut self.camps[camp].sites[site];
        site.note(name);
        act(site, &mut self.random);
    }

    fn close(mut self) {
        for mut camp in std::mem::take(&mut self.camps) {
            camp.enter();
            for site in std::mem::take(&mut camp.sites) {
                self.count(site);
            }
            let beacon = &self.board.beacons[self.number][camp.device as usize];
            // Others may still hold the handle: waiting for it is refused then, which they allow for.
            ok(aclrtDestroyEvent(beacon.swap(0, Ordering::AcqRel)));
            camp.leave();
        }
    }

    fn count(&mut self, site: Site) {
        let [accepted, seen, bytes] = site.close(&mut self.random);
        self.board.accepted.fetch_add(accepted, Ordering::Relaxed);
        self.board.seen.fetch_add(seen, Ordering::Relaxed);
        self.board.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A copy between two streams, ordered by events on both sides.
    fn copy_from_neighbour(&mut self, camp: usize, site: usize) {
        let sites = &mut self.camps[camp].sites;
        let other = (site + self.random.within(1..sites.len())) % sites.len();
        let [to, from] = sites.get_disjoint_mut([site, other]).expect("two different sites");
        let len = self.random.within(1..to.shadow.len().min(from.shadow.len()).min(4096) + 1);
        let dst = Part { at: self.random.within(0..to.shadow.len() - len + 1), len };
        let src = Part { at: self.random.within(0..from.shadow.len() - len + 1), len };
        to.must(aclrtRecordEvent(from.event, from.stream), "aclrtRecordEvent");
        to.must(aclrtStreamWaitEvent(to.stream, from.event), "aclrtStreamWaitEvent");
        to.accept(aclrtMemcpyAsync(to.addr(dst), len, from.addr(src), len, D2D, to.stream));
        // A fresh event, destroyed as soon as it is waited for: the wait outlives it.
        let back = event();
        to.must(aclrtRecordEvent(back, to.stream), "aclrtRecordEvent");
        to.must(aclrtStreamWaitEvent(from.stream, back), "aclrtStreamWaitEvent");
        to.must(aclrtDestroyEvent(back), "aclrtDestroyEvent");
        let bytes = from.shadow[src.at..src.at + len].to_vec();
        to.shadow[dst.at..dst.at + len].copy_from_slice(&bytes);
        to.read_back(dst, 1, "copy from a neighbour", &mut self.random);
    }

    /// Makes the stream wait for whatever another thread recorded last.
    fn wait_for_beacon(&mut self, camp: usize, site: usize) {
        let camp = &self.camps[camp];
        let other = self.random.within(0..self.board.beacons.len());
        let beacon = self.board.beacons[other][camp.device as usize].load(Ordering::Acquire);
        if beacon != 0 {
            let code = aclrtStreamWaitEvent(camp.sites[site].stream, beacon);
            // Its thread may be at its end.
            assert!(matches!(code, 0 | INVALID_HANDLE), "wait for a beacon: {code}");
        }
    }

    fn raise_beacon(&mut self, camp: usize, site: usize) {
        let camp = &self.camps[camp];
        let beacon = self.board.beacons[self.number][camp.device as usize].load(Ordering::Acquire);
        ok(aclrtRecordEvent(beacon, camp.sites[site].stream));
    }

    /// Moves mapped memory to other addresses, or frees its handles, with work in flight.
    fn remap(&mut self, camp: usize, site: usize) {
        let site = &mut self.camps[camp].sites[site];
        site.before_addresses_change(&mut self.random);
        if let crate::ground::Ground::Mapped(mapped) = &mut site.ground {
            if self.random.one_in(8) { mapped.free_handles() } else { mapped.remap() }
        }
        let part = site.part(&mut self.random);
        site.read_back(part, 0, "remap", &mut self.random);
    }

    /// The calls that wait: they pass the stream by, so that is waited for first.
    fn synchronous(&mut self, camp: usize, site: usize) {
        let site = &mut self.camps[camp].sites[site];
        site.settle(&mut self.random);
        let (base, len) = (site.ground.base(), site.shadow.len());
        let bytes = site.stamped(len);
        let from = bytes.as_ptr() as usize;
        let attr = |mut attr: aclrtMemcpyBatchAttr| {
            (attr.dstLoc.id, attr.srcLoc.id) = (site.device, site.device);
            attr
        };
        let mut got = vec![0xa5; len];
        let to = got.as_mut_ptr() as usize;
        match self.random.within(0..3) {
            0 => {
                ok(aclrtMemcpy(base, len, from, len, H2D));
                ok(aclrtMemcpy(to, len, base, len, D2H));
            }
            1 => {
                ok(aclrtMemcpy2d(base, len, from, len, len, 1, H2D));
                ok(aclrtMemcpy2d(to, len, base, len, len, 1, D2H));
            }
            _ => {
                let there = Batch::of(&[(base, from, len)], attr(HOST_TO_DEVICE)).call(BatchForm::Sync, 0);
                let back = Batch::of(&[(to, base, len)], attr(DEVICE_TO_HOST)).call(BatchForm::SyncV2, 0);
                assert_eq!((there.0, back.0), (0, 0), "synchronous batches: {:?}", message());
            }
        }
        site.same(&got, &bytes, "synchronous calls");
        let words = len / 4;
        ok(aclrtMemset(base, len, 0x17, len));
        ok(aclrtMemsetD32(base, len, 0x0102_0304, words));
        ok(aclrtMemcpy(to, len, base, len, D2H));
        let mut want = vec![0x17; len];
        want[..words * 4].copy_from_slice(&0x0102_0304u32.to_ne_bytes().repeat(words));
        site.same(&got, &want, "synchronous fills");
        site.shadow = want;
    }

    /// A copy between the devices: events do not cross them, so both streams are waited for.
    fn copy_across(&mut self, camp: usize, site: usize) {
        let other = self.random.within(0..self.camps[1 - camp].sites.len());
        self.camps[1 - camp].enter();
        self.camps[1 - camp].sites[other].settle(&mut self.random);
        self.camps[camp].enter();
        let [a, b] = &mut self.camps[..] else { unreachable!("a camp on each device") };
        let (here, there) = if camp == 0 { (a, b) } else { (b, a) };
        let (to, from) = (&mut here.sites[site], &there.sites[other]);
        let len = to.shadow.len().min(from.shadow.len()).min(4096);
        let part = Part { at: 0, len };
        let kind = self.random.pick(&[D2D, INTER, DEFAULT]);
        to.accept(aclrtMemcpyAsync(to.addr(part), len, from.addr(part), len, kind, to.stream));
        to.shadow[..len].copy_from_slice(&from.shadow[..len]);
        to.read_back(part, 1, "copy from the other device", &mut self.random);
        to.settle(&mut self.random);
    }

    /// A stream that stands still is not through, whoever asks.
    fn time_out(&mut self, camp: usize, site: usize) {
        let site = &mut self.camps[camp].sites[site];
        let gate = block(site.stream);
        let part = site.part(&mut self.random);
        let code = aclrtSynchronizeStreamWithTimeout(site.stream, 1);
        assert_eq!(code, STREAM_SYNC_TIMEOUT, "{}: a stream behind a gate", site.name);
        assert_eq!(stream_status(site.stream), STREAM_NOT_READY, "{}: a stream behind a gate", site.name);
        gate.unblock();
        site.read_back(part, 0, "time out", &mut self.random);
        site.settle(&mut self.random);
    }

    /// Memory in huge pages, freed with a copy from it in flight.
    fn large_memory(&mut self, camp: usize, site: usize) {
        const LEN: usize = 3 << 20;
        let site = &mut self.camps[camp].sites[site];
        let len = LEN - self.random.within(0..4096);
        let memory = Memory::device(len);
        let (bytes, back) = (site.stamped(len), Memory::pinned(len));
        site.accept(aclrtMemcpyAsync(memory.addr, len, bytes.as_ptr() as usize, len, H2D, site.stream));
        site.accept(aclrtMemcpyAsync(back.addr, len, memory.addr, len, D2H, site.stream));
        ok(memory.free());
        site.settle(&mut self.random);
        site.same(&back.read(), &bytes, "large memory");
        site.seen += 2;
        ok(back.free());
    }

    /// A thread that lives for one copy: what the library keeps for it must go with it.
    fn short_thread(&mut self, camp: usize, site: usize) {
        let camp = &mut self.camps[camp];
        camp.sites[site].settle(&mut self.random);
        let site = &camp.sites[site];
        let (base, want, device) = (site.ground.base(), &site.shadow, camp.device as i32);
        let context = camp.own_context;
        std::thread::scope(|scope| {
            scope.spawn(move || {
                match context {
                    Some(context) => ok(aclrtSetCurrentContext(context)),
                    None => ok(aclrtSetDevice(device)),
                }
                let mut got = vec![0xa5; want.len()];
                ok(aclrtMemcpy(got.as_mut_ptr() as usize, got.len(), base, got.len(), D2H));
                assert!(got == *want, "what a short thread read is not what is there");
                if context.is_none() {
                    ok(aclrtResetDevice(device));
                }
            });
        });
    }

    /// All sites of a camp end with their context, and others begin.
    fn renew_context(&mut self, camp: usize, _: usize) {
        let (device, streams) = (self.camps[camp].device, self.camps[camp].sites.len());
        for site in std::mem::take(&mut self.camps[camp].sites) {
            self.count(site);
        }
        let new = Camp::new(device, self.number.is_multiple_of(2));
        std::mem::replace(&mut self.camps[camp], new).leave();
        self.camps[camp].enter();
        let sites: Vec<_> = (0..streams).map(|_| self.new_site(device)).collect();
        self.camps[camp].sites = sites;
    }
}
