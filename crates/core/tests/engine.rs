//! The core over a device made of paper: it moves no bytes, and work completes when a test says so.

#[path = "engine/registered.rs"]
mod registered;

use ferry_core::{
    Access, Backend, Block, BlockWatch, DeviceId, DeviceMemory, Fence, Halt, Home, Kind, Mark, Misfit,
    Observer, Op, Origin, Plan, Point, Queue, QueueOptions, Request, Result, Route, Rows, Runs, Runtime,
    Segment, SegmentSink, Status, Stream, Ticket,
};
use std::{
    any::Any,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// What happened to the paper device, in order.
type Log = Arc<Mutex<Vec<String>>>;

struct Paper {
    next: AtomicUsize,
    log: Log,
    /// Blocks that left the address table.
    forgotten: Arc<Mutex<Vec<usize>>>,
}

#[derive(Default)]
struct PaperSink {
    segments: Vec<Segment>,
    /// How many of them other threads may read.
    finished: usize,
}

struct PaperQueue {
    submitted: Mutex<Ticket>,
    status: Arc<Status>,
}

struct PaperFence {
    ticket: Ticket,
    status: Arc<Status>,
}

const PLAIN: std::ops::Range<usize> = 0x10_0000..0x20_0000;
/// Memory that another library made on device 1, in blocks of this size next to each other.
const THEIRS: std::ops::Range<usize> = 0x30_0000..0x34_0000;
const THEIR_BLOCK: usize = 0x1_0000;

impl Backend for Paper {
    fn name(&self) -> &'static str {
        "paper"
    }
    fn device_count(&self) -> usize {
        2
    }
    fn memory(&self, _: DeviceId) -> Result<DeviceMemory> {
        Ok(DeviceMemory { free: 1, total: 2, used: 1, peak: 1 })
    }
    fn alloc(&self, request: &Request) -> Result<Block> {
        let base = self.next.fetch_add(1 << 20, Ordering::Relaxed);
        Ok(Block {
            base,
            len: request.len,
            home: request.home,
            at: base + (1 << 40),
            page: request.page,
            origin: Origin::Allocated,
        })
    }
    unsafe fn free(&self, block: &Block) -> Result<()> {
        self.log.lock().unwrap().push(format!("gone {:#x}", block.base));
        Ok(())
    }
    fn locate(&self, addr: usize, len: usize, access: Access) -> Result<Option<Block>> {
        self.log.lock().unwrap().push(format!("locate {addr:#x}"));
        if THEIRS.contains(&addr) {
            let base = addr & !(THEIR_BLOCK - 1);
            let len =
                (addr + len).max(base + THEIR_BLOCK).min(THEIRS.end).next_multiple_of(THEIR_BLOCK) - base;
            let home = Home::Device(1);
            return Ok(Some(Block { base, len, home, at: base, page: 4096, origin: Origin::Allocated }));
        }
        match PLAIN.contains(&addr) && PLAIN.contains(&(addr + len.max(1) - 1)) {
            true => Ok(None),
            false => Err(Kind::BadAddress.because(format!("{addr:#x} cannot be accessed to {access:?}"))),
        }
    }
    fn register(&self, base: usize, len: usize) -> Result<Block> {
        self.log.lock().unwrap().push(format!("register {base:#x}"));
        Ok(Block { base, len, home: Home::Host, at: base, page: 4096, origin: Origin::Registered })
    }
    fn queue(&self, _: DeviceId, _: QueueOptions, status: Arc<Status>) -> Result<Box<dyn Queue>> {
        Ok(Box::new(PaperQueue { submitted: Mutex::new(0), status }))
    }
    fn block_watch(&self) -> Option<&dyn BlockWatch> {
        Some(self)
    }
    fn segment_sink(&self, _: usize) -> Option<Box<dyn SegmentSink>> {
        Some(Box::new(PaperSink::default()))
    }
}

impl SegmentSink for PaperSink {
    fn extend(&mut self, segments: &[Segment]) -> bool {
        self.segments.extend(segments);
        true
    }
    fn finish(&mut self) {
        self.finished = self.segments.len();
    }
    fn segments(&self) -> &[Segment] {
        &self.segments
    }
    fn native(&mut self) -> &mut dyn Any {
        self
    }
}

impl BlockWatch for Paper {
    fn stamp(&self, block: &Block) -> Result<u64> {
        Ok(block.base as u64 + 1)
    }
    fn forgotten(&self, block: &Block) {
        self.forgotten.lock().unwrap().push(block.base);
    }
}

impl Queue for PaperQueue {
    unsafe fn submit(&self, _: Op) -> Result<Ticket> {
        let mut submitted = self.submitted.lock().unwrap();
        *submitted += 1;
        Ok(*submitted)
    }
    fn fence(&self) -> Result<Arc<dyn Fence>> {
        Ok(Arc::new(PaperFence { ticket: *self.submitted.lock().unwrap(), status: self.status.clone() }))
    }
    fn fence_after(&self, ticket: Ticket) -> Arc<dyn Fence> {
        Arc::new(PaperFence { ticket, status: self.status.clone() })
    }
    fn mark(&self) -> Result<Arc<dyn Mark>> {
        let mut submitted = self.submitted.lock().unwrap();
        *submitted += 1;
        Ok(Arc::new(PaperFence { ticket: *submitted, status: self.status.clone() }))
    }
    fn abort(&self) {}
}

impl Fence for PaperFence {
    fn is_done(&self) -> bool {
        self.status.passed() >= self.ticket
    }
    fn wait(&self, _: Option<Duration>) -> Result<()> {
        self.is_done().then_some(()).ok_or_else(|| Kind::Timeout.because("paper does not move by itself"))
    }
    fn when_done(&self, _: Box<dyn FnOnce() + Send>) {
        panic!("no test waits this way")
    }
    fn point(&self) -> Option<Point> {
        self.status.point(self.ticket)
    }
    fn native(&self) -> &dyn Any {
        self
    }
}

impl Mark for PaperFence {
    fn failed(&self) -> bool {
        false
    }
    fn reached_us(&self) -> Option<u64> {
        None
    }
    fn elapsed_ms(&self, _: &dyn Mark) -> Option<f64> {
        None
    }
}

struct Watcher(Log);

impl Observer for Watcher {
    fn allocated(&self, block: &Block) {
        self.0.lock().unwrap().push(format!("alloc {:#x}", block.base));
    }
    fn freed(&self, block: &Block) {
        self.0.lock().unwrap().push(format!("free {:#x}", block.base));
    }
    fn submitted(&self, stream: u64, ticket: Ticket, op: &Op) {
        let name = match op {
            Op::Wait(fence) if let Some(point) = fence.point() => format!("Wait for {point}"),
            op => format!("{op:?}").split(['(', ' ']).next().unwrap_or_default().into(),
        };
        self.0.lock().unwrap().push(format!("submit {stream}.{ticket} {name}"));
    }
    fn completed(&self, stream: u64, ticket: Ticket) {
        self.0.lock().unwrap().push(format!("complete {stream}.{ticket}"));
    }
}

fn paper() -> (Runtime, Log) {
    let log = Log::default();
    let backend = Paper { next: AtomicUsize::new(0x100_0000), log: log.clone(), forgotten: Arc::default() };
    let backend = Arc::new(backend);
    (Runtime::new(backend, Some(Arc::new(Watcher(log.clone())))), log)
}

fn alloc(runtime: &Runtime, home: Home, len: usize) -> Block {
    runtime.alloc(&Request { home, len, page: 4096 }).expect("paper is patient")
}

fn any(_: usize, _: &ferry_core::Ends) -> Result<()> {
    Ok(())
}

fn plan(runtime: &Runtime, rows: Rows) -> Result<Plan, Misfit> {
    Plan::new([rows], runtime.memory(), any)
}

fn gone(log: &Log, block: &Block) -> bool {
    log.lock().unwrap().contains(&format!("gone {:#x}", block.base))
}

#[test]
fn descriptors_keep_the_stamps_of_their_memory_and_backends_hear_when_it_goes() {
    let forgotten = Arc::<Mutex<Vec<usize>>>::default();
    let backend =
        Paper { next: AtomicUsize::new(0x100_0000), log: Log::default(), forgotten: forgotten.clone() };
    let runtime = Runtime::new(Arc::new(backend), None);
    let [dst, src] = [(); 2].map(|()| alloc(&runtime, Home::Device(0), 4096));
    let seal = |dst, src, len| runtime.memory().seal(dst, src, len).expect("sealed");
    let words = seal(dst.base + 8, src.base + 16, 64);
    assert_eq!(
        words[1..6],
        [src.base + 16, dst.base + 8, 64, src.base + 1, dst.base + 1].map(|word| word as u64)
    );
    let key = runtime.memory().seal_key();
    assert_eq!(ferry_core::indirect::open(key, words), Some((dst.base + 8, src.base + 16, 64)));
    assert_eq!(seal(dst.base, src.base, 0)[4..6], [0, 0], "nothing is named");
    assert_eq!(seal(dst.base, 0x42_0000, 8)[4..6], [0, dst.base as u64 + 1], "memory of other libraries");
    assert!(forgotten.lock().unwrap().is_empty());
    runtime.free(src.base, |_| Ok(())).expect("freed");
    assert_eq!(*forgotten.lock().unwrap(), [src.base]);
}

#[test]
fn last_row_needs_width_not_pitch() {
    for (len, want) in [(2 * 64 + 16, None), (2 * 64 + 15, Some(Kind::OutOfBounds))] {
        let (runtime, _) = paper();
        let (dst, src) = (alloc(&runtime, Home::Device(0), len), alloc(&runtime, Home::Host, 48));
        let rows = Rows { dst: dst.base, dst_pitch: 64, src: src.base, src_pitch: 16, width: 16, height: 3 };
        assert_eq!(plan(&runtime, rows).err().map(|m| m.error.kind), want, "block of {len} bytes");
    }
}

#[test]
fn shapes_that_make_no_sense_are_refused() {
    let (runtime, _) = paper();
    let (dst, src) = (alloc(&runtime, Home::Device(0), 4096).base, alloc(&runtime, Home::Host, 4096).base);
    let good = Rows { dst, dst_pitch: 64, src, src_pitch: 32, width: 16, height: 4 };
    for (name, rows, want) in [
        ("good", good, None),
        ("pitch below width", Rows { dst_pitch: 15, ..good }, Some(Kind::BadShape)),
        ("source pitch below width", Rows { src_pitch: 0, ..good }, Some(Kind::BadShape)),
        ("pitch times height overflows", Rows { dst_pitch: usize::MAX / 2, ..good }, Some(Kind::BadShape)),
        ("the end wraps", Rows { src: usize::MAX - 8, height: 1, ..good }, Some(Kind::BadShape)),
        ("too many rows", Rows { height: 65, ..good }, Some(Kind::OutOfBounds)),
        ("an address nobody knows", Rows { src: 0x42, ..good }, Some(Kind::BadAddress)),
        ("no rows", Rows { height: 0, dst_pitch: 0, ..good }, None),
        ("no width", Rows { width: 0, ..good }, None),
    ] {
        assert_eq!(plan(&runtime, rows).err().map(|m| m.error.kind), want, "{name}");
    }
}

#[test]
fn plans_are_in_engine_addresses_and_straight_where_they_can_be() {
    let (runtime, _) = paper();
    let (dst, src) = (alloc(&runtime, Home::Device(1), 4096), alloc(&runtime, Home::Host, 4096));
    let rows = Rows { dst: dst.base + 8, dst_pitch: 16, src: src.base, src_pitch: 16, width: 16, height: 4 };
    let made = plan(&runtime, rows).expect("a good copy");
    assert!(made.pieces().iter().eq([Rows::linear(dst.at + 8, src.at, 64)]));
    assert_eq!((made.route(), made.is_plain(), made.bytes()), (Route::HostToDevice { to: 1 }, false, 64));
    let made = plan(&runtime, Rows { dst: PLAIN.start, src: dst.base, ..rows }).expect("plain memory");
    assert_eq!(
        (made.pieces().iter().next().map(|rows| rows.dst), made.is_plain()),
        (Some(PLAIN.start), true)
    );
    assert_eq!(made.route(), Route::DeviceToHost { from: 1 });
}

#[test]
fn memory_of_another_library_is_asked_about_once_for_many_pieces() {
    let (runtime, log) = paper();
    let host = alloc(&runtime, Home::Host, 1 << 20);
    let pieces = (0..200).map(|i| Rows::linear(THEIRS.start + 100 * i, host.base + 300 * i, 64));
    let made = Plan::new(pieces.clone(), runtime.memory(), any).expect("good pieces");
    assert_eq!((made.route(), made.pieces().iter().count()), (Route::HostToDevice { to: 1 }, 200));
    assert!(made.pieces().iter().zip(pieces).all(|(made, asked)| made.dst == asked.dst));
    let asked = log.lock().unwrap().iter().filter(|line| line.starts_with("locate")).count();
    assert_eq!(asked, 1, "once for the block that all of them lie in");
}

#[test]
fn a_copy_may_go_on_into_the_next_block_of_another_library() {
    let (runtime, _) = paper();
    let host = alloc(&runtime, Home::Host, 1 << 20);
    let border = THEIRS.start + THEIR_BLOCK;
    for (dst, len, want) in [
        (border - 64, 128, None),
        (THEIRS.start, THEIRS.len(), None),
        (THEIRS.end - 64, 65, Some(Kind::OutOfBounds)),
    ] {
        let many = [Rows::linear(border + 8, host.base, 8), Rows::linear(dst, host.base + 64, len)];
        for pieces in [&many[..], &many[1..]] {
            let made = Plan::new(pieces.iter().copied(), runtime.memory(), any);
            assert_eq!(
                made.map(drop).map_err(|misfit| misfit.error.kind).err(),
                want,
                "{len} bytes at {dst:#x}"
            );
        }
    }
}

#[test]
fn plain_rows_may_have_nothing_between_them() {
    let (runtime, _) = paper();
    let src = alloc(&runtime, Home::Device(0), 4096).base;
    // The last row ends in plain memory; what would be between two rows of a larger pitch does not have to
    // exist.
    let last = PLAIN.end - 16;
    let rows = Rows { dst: last, dst_pitch: 32, src, src_pitch: 16, width: 16, height: 2 };
    assert_eq!(
        plan(&runtime, rows).err().map(|m| m.error.kind),
        Some(Kind::BadAddress),
        "the second row is outside"
    );
    assert!(plan(&runtime, Rows { height: 1, ..rows }).is_ok());
}

#[test]
fn a_batch_names_the_piece_that_does_not_fit() {
    let (runtime, _) = paper();
    let (device, host) = (alloc(&runtime, Home::Device(0), 64), alloc(&runtime, Home::Host, 64));
    let pieces =
        |bad: Rows| [Rows::linear(device.base, host.base, 8), Rows::linear(device.base, host.base, 0), bad];
    for (bad, kind) in [
        (Rows::linear(device.base, host.base + 60, 8), Kind::OutOfBounds),
        (Rows::linear(host.base, device.base, 8), Kind::BadRoute),
    ] {
        let misfit = Plan::new(pieces(bad), runtime.memory(), any).expect_err("a bad piece");
        assert_eq!((misfit.item, misfit.error.kind), (2, kind));
    }
    let refused = Plan::new(pieces(Rows::linear(PLAIN.start, host.base, 8)), runtime.memory(), |_, ends| {
        if ends.dst.is_plain() { Err(Kind::Unsupported.because("a rule of the caller's")) } else { Ok(()) }
    });
    assert_eq!(refused.expect_err("refused").item, 2);
}

#[test]
fn the_rules_of_the_caller_are_asked_for_whenever_an_end_is_of_another_sort() {
    let (runtime, _) = paper();
    let [near, also_near, far] = [0, 0, 1].map(|device| alloc(&runtime, Home::Device(device), 64).base);
    let host = alloc(&runtime, Home::Host, 64).base;
    let plain = PLAIN.start;
    let sides =
        [(near, host), (near, host), (also_near, host), (far, host), (far, plain), (near, host), (far, host)];
    let pieces = || sides.iter().map(|(dst, src)| Rows::linear(*dst, *src, 8));
    let mut asked = Vec::new();
    let mut plan = Plan::new(pieces(), runtime.memory(), |item, ends| {
        assert_eq!(ends.dst.device(), Some((sides[item].0 == far) as u32), "piece {item}");
        assert_eq!(ends.src.is_plain(), sides[item].1 == plain, "piece {item}");
        asked.push(item);
        Ok(())
    })
    .expect("all good");
    assert_eq!(asked, [0, 3, 4, 5, 6]);
    assert!(plan.is_plain());
    asked.clear();
    let add = |item, _: &ferry_core::Ends| {
        asked.push(item);
        Ok(())
    };
    plan.extend(7, pieces().skip(6), runtime.memory(), add).expect("more of the same");
    assert_eq!(
        (asked, plan.pieces().len()),
        (vec![7], sides.len() + 1),
        "a part that is added is asked for anew"
    );
}

#[test]
fn pieces_that_touch_inside_two_blocks_become_one() {
    let (runtime, _) = paper();
    let device = alloc(&runtime, Home::Device(0), 1 << 20);
    let neighbour = alloc(&runtime, Home::Device(0), 4096);
    assert_eq!(neighbour.at, device.at + device.len, "blocks that touch for the engine too");
    let host = alloc(&runtime, Home::Host, 1 << 20);
    let linear = |dst: usize, src: usize, len| Rows::linear(device.base + dst, host.base + src, len);
    let there = |dst: usize, src: usize, len| Rows::linear(device.at + dst, host.at + src, len);
    let last = device.len - 8;
    for (name, pieces, want) in [
        ("on both sides", vec![linear(0, 8, 8), linear(8, 16, 4), linear(12, 20, 1)], vec![there(0, 8, 13)]),
        (
            "an empty one between",
            vec![linear(0, 0, 8), linear(8, 8, 0), linear(8, 8, 8)],
            vec![there(0, 0, 16)],
        ),
        ("on one side", vec![linear(0, 0, 8), linear(8, 9, 8)], vec![there(0, 0, 8), there(8, 9, 8)]),
        ("turned round", vec![linear(8, 8, 8), linear(0, 0, 8)], vec![there(8, 8, 8), there(0, 0, 8)]),
        (
            "two blocks",
            vec![linear(last, 0, 8), linear(last + 8, 8, 8)],
            vec![there(last, 0, 8), there(last + 8, 8, 8)],
        ),
    ] {
        let made = Plan::new(pieces, runtime.memory(), any).expect("good pieces");
        assert_eq!(made.pieces().iter().collect::<Vec<_>>(), want, "{name}");
    }
    let many: Vec<_> = (0..1000).map(|i| linear(i * 16, i * 8, 8)).collect();
    for _ in 0..3 {
        let made = Plan::new(many.iter().copied(), runtime.memory(), any).expect("good pieces");
        assert!(made.pieces().iter().eq((0..1000).map(|i| there(i * 16, i * 8, 8))));
    }
}

/// Runs in arrays are planned by another way than pieces one by one. Whatever the pieces are, both agree to
/// the same ones, move the same bytes and refuse the same piece.
#[test]
fn runs_in_arrays_are_planned_as_pieces_are() {
    let (runtime, _) = paper();
    let devices: Vec<_> = (0..3).map(|_| alloc(&runtime, Home::Device(0), 1 << 16)).collect();
    let hosts: Vec<_> = (0..2).map(|_| alloc(&runtime, Home::Host, 1 << 16)).collect();
    let mut state = 7_u64;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let mut seen = [0; 3];
    for round in 0..400 {
        let count = 2 + random(300);
        // Most batches are of good pieces in few blocks; some have one that is not.
        let (odd, blocks, apart) = (random(3 * count), 1 + random(3), random(4));
        let (mut dsts, mut srcs, mut lens) = (Vec::new(), Vec::new(), Vec::new());
        for index in 0..count {
            let len = random(5) * 16;
            let (dst, src) = match dsts.len().checked_sub(1) {
                Some(last) if random(4) > apart && index != odd && last != odd => {
                    (dsts[last] + lens[last], srcs[last] + lens[last])
                }
                _ => (
                    devices[index % blocks].base + random(1 << 15),
                    hosts[index % 2 % blocks].base + random(1 << 15),
                ),
            };
            let (dst, len) = match index == odd {
                true => [(devices[2].base + (1 << 16) - 8, 9), (PLAIN.start, 8), (8, 0), (dst, usize::MAX)]
                    [random(4)],
                false => (dst, len),
            };
            dsts.push(dst);
            srcs.push(src);
            lens.push(len);
        }
        let one_by_one = (0..count).map(|i| Rows::linear(dsts[i], srcs[i], lens[i]));
        let want = Plan::new(one_by_one, runtime.memory(), any);
        let mut got = Plan::default();
        let runs = Runs { dsts: &dsts, srcs: &srcs, lens: &lens, rooms: &lens };
        let got = got.extend_runs(0, &runs, runtime.memory(), any).map(|()| got);
        match (want, got) {
            (Ok(want), Ok(got)) => {
                let same = joined(&want) == joined(&got);
                assert!(
                    same && (want.route(), want.is_plain()) == (got.route(), got.is_plain()),
                    "round {round}"
                );
                seen[usize::from(got.pieces().len() < count / 2)] += 1;
            }
            (Err(want), Err(got)) => {
                assert_eq!((want.item, want.error), (got.item, got.error), "round {round}");
                seen[2] += 1;
            }
            (want, got) => panic!("round {round}: {want:?} and {got:?}"),
        }
    }
    assert!(seen.iter().all(|count| *count > 20), "all kinds of batches: {seen:?}");
}

/// The pieces of a plan, with those that touch made one.
fn joined(plan: &Plan) -> Vec<Rows> {
    let mut all: Vec<Rows> = Vec::new();
    for rows in plan.pieces().iter() {
        match all.last_mut() {
            Some(last) if (rows.dst, rows.src) == (last.dst + last.width, last.src + last.width) => {
                *last = Rows::linear(last.dst, last.src, last.width + rows.width);
            }
            _ => all.push(rows),
        }
    }
    all
}

#[test]
fn freed_memory_waits_for_every_queue_that_was_busy() {
    let (runtime, log) = paper();
    let streams: Vec<_> =
        (0..3).map(|_| runtime.stream(0, QueueOptions::default()).expect("a stream")).collect();
    let (device, host) = (alloc(&runtime, Home::Device(0), 64), alloc(&runtime, Home::Host, 64));
    let copy = |stream: &ferry_core::Stream| {
        // SAFETY: paper moves nothing.
        unsafe { stream.submit(|_| plan(&runtime, Rows::linear(device.base, host.base, 64)).map(Op::Copy)) }
    };
    copy(&streams[0]).expect("queued");
    copy(&streams[1]).expect("queued");
    runtime.free(device.base, |_| Ok(())).expect("frees return at once");
    assert_eq!(runtime.memory().table().find(device.base), None, "unknown at once");
    assert_eq!(copy(&streams[2]).expect_err("freed").error.kind, Kind::BadAddress);
    let settle = || runtime.memory_info(0).expect("a look gives back what can be");
    for (stream, is_gone) in [(0, false), (1, true)] {
        streams[stream].status().pass(1);
        settle();
        assert_eq!(gone(&log, &device), is_gone, "after stream {stream} has passed");
    }
    runtime.free(host.base, |_| Ok(())).expect("frees");
    assert!(gone(&log, &host), "nobody is busy");
}

#[test]
fn memory_waits_for_work_that_outlived_its_stream() {
    let (runtime, log) = paper();
    let (device, host) = (alloc(&runtime, Home::Device(0), 64), alloc(&runtime, Home::Host, 64));
    let stream = runtime.stream(0, QueueOptions::default()).expect("a stream");
    // SAFETY: paper moves nothing.
    unsafe { stream.submit(|_| plan(&runtime, Rows::linear(device.base, host.base, 64)).map(Op::Copy)) }
        .expect("queued");
    let fence = stream.fence().expect("a fence");
    drop(stream);
    runtime
        .stream(0, QueueOptions::default())
        .expect("making a stream lets go of dead ones, but not of this");
    runtime.free(device.base, |_| Ok(())).expect("frees");
    assert!(!gone(&log, &device) && !fence.is_done());
}

#[test]
fn a_stream_held_by_work_without_addresses_keeps_no_memory() {
    let (runtime, log) = paper();
    let (device, host) = (alloc(&runtime, Home::Device(0), 64), alloc(&runtime, Home::Host, 64));
    let stream = runtime.stream(0, QueueOptions::default()).expect("a stream");
    // SAFETY: paper moves nothing.
    unsafe { stream.submit(|_| plan(&runtime, Rows::linear(device.base, host.base, 64)).map(Op::Copy)) }
        .expect("queued");
    stream.status().pass(1);
    stream.call(|| ()).expect("queued");
    let other = stream.mark().expect("a mark");
    stream.wait_for(other).expect("queued");
    runtime.free(device.base, |_| Ok(())).expect("frees");
    assert!(gone(&log, &device), "the copy has passed, and nothing else has addresses");
}

#[test]
fn memory_waits_for_copies_and_not_for_what_is_queued_behind_them() {
    let (runtime, log) = paper();
    let (device, host) = (alloc(&runtime, Home::Device(0), 64), alloc(&runtime, Home::Host, 64));
    let stream = runtime.stream(0, QueueOptions::default()).expect("a stream");
    // SAFETY: paper moves nothing.
    unsafe { stream.submit(|_| plan(&runtime, Rows::linear(device.base, host.base, 64)).map(Op::Copy)) }
        .expect("queued");
    stream.call(|| ()).expect("a function that takes its time");
    runtime.free(device.base, |_| Ok(())).expect("frees");
    runtime.memory_info(0).expect("a look");
    assert!(!gone(&log, &device), "the copy is in flight");
    stream.status().pass(1);
    runtime.memory_info(0).expect("a look");
    assert!(gone(&log, &device), "the copy has passed; the function needs no memory");
}

#[test]
fn the_short_way_keeps_what_the_long_one_promises() {
    let log = Log::default();
    let paper = || Paper { next: AtomicUsize::new(0x100_0000), log: log.clone(), forgotten: Arc::default() };
    let short = |stream: &Stream, dst: usize, src: usize| {
        // SAFETY: paper moves nothing.
        unsafe { stream.submit_linear((dst, src, 64), 1, |_| true, |_| ()) }
    };
    let runtime = Runtime::new(Arc::new(paper()), None);
    let (device, host) = (alloc(&runtime, Home::Device(0), 64), alloc(&runtime, Home::Host, 64));
    let halt = Halt::new();
    let stream = runtime.stream_under(Some(&halt), 0, QueueOptions::default()).expect("a stream");
    assert_eq!(short(&stream, device.base, host.base), Some(1));
    stream.call(|| ()).expect("a function that takes its time");
    assert_eq!(short(&stream, device.base, host.base), Some(3), "in the order of tickets");
    assert_eq!(short(&stream, device.base, PLAIN.start), None, "that takes longer to tell");
    assert_eq!(short(&stream, THEIRS.start, host.base), None);
    assert_eq!(stream.newest(), 3, "and nothing came of it");
    runtime.free(device.base, |_| Ok(())).expect("frees");
    assert_eq!(short(&stream, device.base, host.base), None, "unknown at once");
    for (passed, is_gone) in [(2, false), (3, true)] {
        stream.status().pass(passed);
        runtime.memory_info(0).expect("a look gives back what can be");
        assert_eq!(gone(&log, &device), is_gone, "{passed} have passed");
    }
    let other = alloc(&runtime, Home::Device(0), 64);
    assert_eq!(short(&stream, other.base, host.base), Some(4));
    stream.status().stop_all_on_failure();
    stream.status().fail(Kind::Device.because("the end"));
    assert_eq!(short(&stream, other.base, host.base), None, "stopped for good");
    let watched = Runtime::new(Arc::new(paper()), Some(Arc::new(Watcher(log.clone()))));
    let (device, host) = (alloc(&watched, Home::Device(0), 64), alloc(&watched, Home::Host, 64));
    let stream = watched.stream(0, QueueOptions::default()).expect("a stream");
    assert_eq!(short(&stream, device.base, host.base), None, "an observer sees ops");
}

#[test]
fn an_observer_that_panics_holds_nobody_up() {
    struct Clumsy;
    impl Observer for Clumsy {
        fn completed(&self, _: u64, _: Ticket) {
            panic!("an observer that falls over")
        }
    }
    let forgotten = Arc::default();
    let backend = Arc::new(Paper { next: AtomicUsize::new(0x100_0000), log: Log::default(), forgotten });
    let runtime = Runtime::new(backend, Some(Arc::new(Clumsy)));
    let stream = runtime.stream(0, QueueOptions::default()).expect("a stream");
    stream.call(|| ()).expect("queued");
    stream.status().pass(1);
    assert_eq!(stream.synchronize(None), Ok(()));
}

#[test]
fn a_submit_ends_though_others_free_all_the_time() {
    let (runtime, _) = paper();
    let stream = runtime.stream(0, QueueOptions::default()).expect("a stream");
    let (device, host) = (alloc(&runtime, Home::Device(0), 64), alloc(&runtime, Home::Host, 64));
    let mut asked = 0;
    // SAFETY: paper moves nothing.
    let ticket = unsafe {
        stream.submit(|_| {
            asked += 1;
            if asked == 1 {
                let passing = alloc(&runtime, Home::Host, 64);
                runtime.free(passing.base, |_| Ok(())).map_err(Misfit::from)?;
            } else {
                // Frees of others, seen after the plan was made again: under the lock it is current all the
                // same.
                runtime.memory().table().insert(Block { base: 0x9000_0000, ..host }).map_err(Misfit::from)?;
                runtime.memory().table().remove(0x9000_0000, |_| Ok(())).map_err(Misfit::from)?;
            }
            plan(&runtime, Rows::linear(device.base, host.base, 64)).map(Op::Copy)
        })
    };
    assert_eq!((ticket.ok(), asked), (Some(1), 2));
}

#[test]
fn the_cost_of_a_free_does_not_grow_with_what_is_in_flight() {
    let (runtime, log) = paper();
    let stream = runtime.stream(0, QueueOptions::default()).expect("a stream");
    let held: Vec<_> = (0..100).map(|_| alloc(&runtime, Home::Device(0), 64)).collect();
    let host = alloc(&runtime, Home::Host, 64);
    for block in &held {
        // SAFETY: paper moves nothing.
        unsafe { stream.submit(|_| plan(&runtime, Rows::linear(block.base, host.base, 64)).map(Op::Copy)) }
            .expect("queued");
        runtime.free(block.base, |_| Ok(())).expect("frees");
    }
    assert!(held.iter().all(|block| !gone(&log, block)));
    stream.status().pass(50);
    runtime.memory_info(0).expect("a look");
    assert!(held[50..].iter().all(|block| !gone(&log, block)), "work is in flight for these");
    stream.status().pass(100);
    runtime.memory_info(0).expect("a look");
    assert!(held.iter().all(|block| gone(&log, block)), "everything has passed");
}

#[test]
fn a_free_between_planning_and_submitting_makes_a_new_plan() {
    let (runtime, _) = paper();
    let stream = runtime.stream(0, QueueOptions::default()).expect("a stream");
    let (device, host) = (alloc(&runtime, Home::Device(0), 64), alloc(&runtime, Home::Host, 64));
    let other = alloc(&runtime, Home::Device(0), 64);
    for (victim, tries, good) in [(other, 2, true), (device, 2, false)] {
        let mut asked = 0;
        // SAFETY: paper moves nothing.
        let result = unsafe {
            stream.submit(|_| {
                asked += 1;
                let made = plan(&runtime, Rows::linear(device.base, host.base, 64))?;
                if asked == 1 {
                    runtime.free(victim.base, |_| Ok(())).map_err(Misfit::from)?;
                }
                Ok::<_, Misfit>(Op::Copy(made))
            })
        };
        assert_eq!((asked, result.is_ok()), (tries, good), "freed {victim}");
    }
}

#[test]
fn observers_see_allocations_and_ops_in_the_order_of_their_tickets() {
    let (runtime, log) = paper();
    let block = alloc(&runtime, Home::Device(0), 64);
    let stream = runtime.stream(0, QueueOptions::default()).expect("a stream");
    stream.call(|| ()).expect("queued");
    let mark = stream.mark().expect("a mark");
    stream.wait_for(mark).expect("queued");
    stream.status().pass(3);
    runtime.free(block.base, |_| Ok(())).expect("frees");
    let base = block.base;
    let want = [
        format!("alloc {base:#x}"),
        "submit 0.1 Call".into(),
        "submit 0.3 Wait for op 2 of stream 0".into(),
        "complete 0.1".into(),
        "complete 0.2".into(),
        "complete 0.3".into(),
        format!("free {base:#x}"),
        format!("gone {base:#x}"),
    ];
    assert_eq!(*log.lock().unwrap(), want);
}

#[test]
fn a_plan_made_by_several_calls_is_visible_to_all_threads() {
    let (runtime, _) = paper();
    let [dst, src] = [(); 2].map(|()| alloc(&runtime, Home::Device(0), 1 << 16));
    let rows = |number: usize| Rows::linear(dst.base + 64 * number, src.base + 128 * number, 32);
    let run = |plan: &mut Plan, number: usize| {
        let (dsts, srcs) = ([rows(number).dst], [rows(number).src]);
        plan.extend_runs(
            number,
            &Runs { dsts: &dsts, srcs: &srcs, lens: &[32], rooms: &[32] },
            runtime.memory(),
            any,
        )
    };
    let mut plan = Plan::default();
    plan.extend(0, (0..100).map(rows), runtime.memory(), any).expect("planned");
    for (number, extend) in [(100, true), (101, false), (102, true), (103, false)] {
        match extend {
            true => plan.extend(number, [rows(number)], runtime.memory(), any),
            false => run(&mut plan, number),
        }
        .expect("planned");
        let sink = plan.sink().expect("a sink").native().downcast_mut::<PaperSink>().expect("paper");
        assert_eq!((sink.finished, sink.segments.len()), (number + 1, number + 1));
    }
}
