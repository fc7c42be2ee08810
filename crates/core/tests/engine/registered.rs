//! Registered memory that is unregistered and registered again: what no op in flight uses goes back first,
//! however busy streams are.

use super::*;
use ferry_core::{
    Fill, Indirect,
    indirect::{Cell, Through},
};

const BASE: usize = 0x8000_0000;
const LEN: usize = 4 * 4096;

/// A runtime that nobody watches, so that copies may go the short way, and blocks of it.
struct Site {
    runtime: Runtime,
    log: Log,
    device: Block,
    /// Registered memory, too.
    other: Block,
}

impl Site {
    fn new() -> Site {
        let log = Log::default();
        let backend =
            Paper { next: AtomicUsize::new(0x100_0000), log: log.clone(), forgotten: Arc::default() };
        let runtime = Runtime::new(Arc::new(backend), Vec::new());
        let device = alloc(&runtime, Home::Device(0), LEN);
        let other = runtime.register(0x9000_0000, LEN).expect("registered");
        Site { runtime, log, device, other }
    }

    fn stream(&self) -> Arc<Stream> {
        self.runtime.stream(0, QueueOptions::default()).expect("a stream")
    }

    /// Registers the memory, and tells how often it was given back before that, since the last time.
    fn register(&self) -> usize {
        self.log.lock().unwrap().clear();
        self.runtime.register(BASE, LEN).expect("registered");
        let log = self.log.lock().unwrap();
        let gone = log.iter().take_while(|line| !line.starts_with("register")).count();
        assert_eq!(log.len(), gone + 1, "{log:?}");
        gone
    }

    fn unregister(&self) {
        self.runtime.free(BASE, |_| Ok(())).expect("unregistered");
    }

    fn submit(&self, stream: &Stream, op: impl Fn() -> Op) {
        // SAFETY: paper moves nothing.
        unsafe { stream.submit(|_| Ok::<_, ferry_core::Error>(op())) }.expect("queued");
    }

    fn copy(&self, stream: &Stream, pieces: &[Rows]) {
        self.submit(stream, || {
            Op::Copy(Plan::new(pieces.iter().copied(), self.runtime.memory(), any).expect("a plan"))
        });
    }

    fn short(&self, stream: &Stream, dst: usize, src: usize) {
        // SAFETY: paper moves nothing.
        unsafe { stream.submit_linear((dst, src, 64), 1, |_| true, |_| ()) }.expect("the short way");
    }

    /// Copies of the other memory, of the short way and the long one.
    fn use_other(&self, stream: &Stream) {
        self.short(stream, self.device.base, self.other.base);
        self.copy(stream, &[Rows::linear(self.device.base, self.other.base, 64)]);
        let rows = [Rows::linear(self.device.base, self.other.base, 8); 2];
        self.copy(stream, &rows);
    }
}

type Use = (&'static str, fn(&Site, &Stream));

/// What ops do with the registered memory.
const USES: [Use; 10] = [
    ("the short way, from it", |site, stream| site.short(stream, site.device.base, BASE + 4096)),
    ("the short way, to it", |site, stream| site.short(stream, BASE, site.device.base)),
    ("a copy", |site, stream| site.copy(stream, &[Rows::linear(site.device.base, BASE, 64)])),
    ("rows", |site, stream| {
        let rows = Rows { src_pitch: 100, height: 9, ..Rows::linear(BASE, site.device.base, 64) };
        site.copy(stream, &[Rows { dst_pitch: 64, ..rows }]);
    }),
    ("pieces among others", |site, stream| {
        let piece = |at: usize, n: usize| Rows::linear(site.device.base + 128 * n, at + 256 * n, 64);
        let far = site.other.base;
        site.copy(stream, &[far, far, BASE, far, BASE].map(|at| piece(at, 3)));
        site.copy(stream, &[piece(far, 1), piece(BASE, 2)]);
    }),
    ("runs in arrays", |site, stream| {
        let (dsts, lens, rooms) = ([site.device.base; 3], [8; 3], [usize::MAX; 3]);
        let srcs = [site.other.base, site.other.base, BASE];
        let runs = Runs { dsts: &dsts, srcs: &srcs, lens: &lens, rooms: &rooms };
        site.submit(stream, || {
            let mut plan = Plan::default();
            plan.extend_runs(0, &runs, site.runtime.memory(), any).expect("a plan");
            Op::Copy(plan)
        });
    }),
    ("inside the host", |site, stream| site.copy(stream, &[Rows::linear(site.other.base, BASE, 64)])),
    ("a fill", |site, stream| {
        site.submit(stream, || Op::Fill(Fill { dst: BASE + 9, len: 9, pattern: [1; 4], device: None }));
    }),
    ("a pointer in it", |site, stream| {
        let cell = |user| Cell { at: user, user, offset: 0 };
        let through = Through::Cells { dst: cell(site.other.base), src: cell(BASE + 8), len: 8 };
        site.submit(stream, || Op::CopyThrough(Indirect { call: "a test", device: 0, through }));
    }),
    ("a copy behind fences", |site, stream| {
        let made = || Plan::new([Rows::linear(BASE, site.device.base, 64)], site.runtime.memory(), any);
        site.submit(stream, || Op::After(Box::new((Vec::new(), Op::Copy(made().expect("a plan"))))));
    }),
];

#[test]
fn what_ops_in_flight_use_is_kept_and_the_rest_goes_back() {
    for (name, make_use) in USES {
        let site = Site::new();
        let (stream, busy) = (site.stream(), site.stream());
        site.use_other(&busy);
        assert_eq!(site.register(), 0);
        make_use(&site, &stream);
        let newest = stream.newest();
        site.unregister();
        assert_eq!(site.register(), 0, "{name}: in flight");
        site.unregister();
        stream.status().pass(newest - 1);
        assert_eq!(site.register(), 0, "{name}: still in flight");
        site.unregister();
        site.use_other(&stream);
        stream.status().pass(newest);
        assert_eq!(site.register(), 3, "{name}: has passed");
        site.unregister();
        assert_eq!(site.register(), 1, "{name}: nobody used it since");
        assert!(busy.newest() > busy.status().passed() && stream.newest() > newest, "all the time");
    }
}

/// The short way tells which copies used a block when it turns to others: neither too early nor too late.
#[test]
fn the_short_way_knows_its_last_copy_of_each_block() {
    let site = Site::new();
    let stream = site.stream();
    site.register();
    site.short(&stream, BASE, site.device.base);
    site.short(&stream, site.device.base, BASE);
    site.copy(&stream, &[Rows::linear(site.device.base, site.other.base, 64)]);
    site.short(&stream, site.device.base, site.other.base);
    site.unregister();
    stream.status().pass(1);
    assert_eq!(site.register(), 0, "the second copy is in flight");
    site.unregister();
    stream.status().pass(2);
    assert_eq!(site.register(), 2, "those behind it use other memory");
}

#[test]
fn work_that_outlived_its_stream_keeps_registered_memory() {
    let site = Site::new();
    let stream = site.stream();
    site.register();
    site.copy(&stream, &[Rows::linear(site.device.base, BASE, 64)]);
    drop(stream);
    site.stream();
    site.unregister();
    assert_eq!(site.register(), 0);
}

/// What nothing in flight has to do with goes back at once, as it ever did.
#[test]
fn registered_memory_goes_back_when_nobody_is_busy() {
    let site = Site::new();
    site.register();
    site.log.lock().unwrap().clear();
    site.unregister();
    assert_eq!(*site.log.lock().unwrap(), [format!("gone {BASE:#x}")]);
    assert_eq!(site.register(), 0);
}
