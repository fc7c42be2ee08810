//! A backend can be wrapped by another one. The wrapper here passes everything through and counts what is
//! asked of its fences; a small program gives the same results with and without it, elapsed times among them,
//! and streams of the backend beneath still wait for each other by themselves.

use ferry_backends::{
    cuda::{Cuda, CudaOptions},
    host::{Host, HostOptions},
};
use ferry_core::{
    Access, AddressSpace, Backend, Block, BlockWatch, Chunk, DeviceId, DeviceMemory, Error, Event, Features,
    Fence, Fill, Gate, Home, Indirect, Kind, Linear, Mark, NativeStreams, Op, Origin, Plan, Point, Purpose,
    Queue, QueueOptions, Request, Result, Rows, Runs, Runtime, Segment, SegmentSink, Sharing, Sizes, Status,
    Stream, Survey, Ticket,
    indirect::{DESCRIPTOR_LEN, Through},
};
use std::{
    any::Any,
    slice,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// Passes everything on.
struct Wrapped {
    inner: Arc<dyn Backend>,
    /// How often a fence was asked to tell when it is done.
    told: Arc<AtomicUsize>,
}

struct WrappedQueue(Box<dyn Queue>, Arc<AtomicUsize>);
struct WrappedFence<F: ?Sized>(Arc<F>, Arc<AtomicUsize>);
struct WrappedSink(Box<dyn SegmentSink>);

impl Backend for Wrapped {
    fn name(&self) -> &'static str {
        self.inner.name()
    }
    fn device_count(&self) -> usize {
        self.inner.device_count()
    }
    fn features(&self) -> Features {
        self.inner.features()
    }
    fn memory(&self, device: DeviceId) -> Result<DeviceMemory> {
        self.inner.memory(device)
    }
    fn alloc(&self, request: &Request) -> Result<Block> {
        self.inner.alloc(request)
    }
    fn register(&self, base: usize, len: usize) -> Result<Block> {
        self.inner.register(base, len)
    }
    unsafe fn free(&self, block: &Block) -> Result<()> {
        // SAFETY: passed on from the caller.
        unsafe { self.inner.free(block) }
    }
    fn locate(&self, addr: usize, len: usize, access: Access) -> Result<Option<Block>> {
        self.inner.locate(addr, len, access)
    }
    fn survey(&self) -> Option<Box<dyn Survey + '_>> {
        self.inner.survey()
    }
    fn queue(&self, device: DeviceId, options: QueueOptions, status: Arc<Status>) -> Result<Box<dyn Queue>> {
        let queue = self.inner.queue(device, options, status)?;
        Ok(Box::new(WrappedQueue(queue, self.told.clone())))
    }
    fn segment_sink(&self, segments: usize) -> Option<Box<dyn SegmentSink>> {
        Some(Box::new(WrappedSink(self.inner.segment_sink(segments)?)))
    }
    fn address_space(&self) -> Option<&dyn AddressSpace> {
        self.inner.address_space()
    }
    fn sharing(&self) -> Option<&dyn Sharing> {
        self.inner.sharing()
    }
    fn block_watch(&self) -> Option<&dyn BlockWatch> {
        self.inner.block_watch()
    }
    fn native_streams(&self) -> Option<&dyn NativeStreams> {
        self.inner.native_streams().map(|_| self as &dyn NativeStreams)
    }
}

impl NativeStreams for Wrapped {
    unsafe fn adopt(&self, device: DeviceId, native: usize, status: Arc<Status>) -> Result<Box<dyn Queue>> {
        let streams = self.inner.native_streams().expect("asked before");
        // SAFETY: passed on from the caller.
        let queue = unsafe { streams.adopt(device, native, status)? };
        Ok(Box::new(WrappedQueue(queue, self.told.clone())))
    }
}

impl Queue for WrappedQueue {
    unsafe fn submit(&self, op: Op) -> Result<Ticket> {
        // SAFETY: passed on from the caller.
        unsafe { self.0.submit(op) }
    }
    unsafe fn submit_linear(&self, copy: Linear) -> Result<Ticket> {
        // SAFETY: passed on from the caller.
        unsafe { self.0.submit_linear(copy) }
    }
    fn fence(&self) -> Result<Arc<dyn Fence>> {
        Ok(Arc::new(WrappedFence(self.0.fence()?, self.1.clone())))
    }
    fn fence_after(&self, ticket: Ticket) -> Arc<dyn Fence> {
        Arc::new(WrappedFence(self.0.fence_after(ticket), self.1.clone()))
    }
    fn mark(&self) -> Result<Arc<dyn Mark>> {
        Ok(Arc::new(WrappedFence(self.0.mark()?, self.1.clone())))
    }
    fn flush(&self) {
        self.0.flush();
    }
    fn share(&self) -> Result<usize> {
        self.0.share()
    }
    fn abort(&self) {
        self.0.abort();
    }
}

impl<F: Fence + ?Sized> Fence for WrappedFence<F> {
    fn is_done(&self) -> bool {
        self.0.is_done()
    }
    fn wait(&self, limit: Option<Duration>) -> Result<()> {
        self.0.wait(limit)
    }
    fn when_done(&self, then: Box<dyn FnOnce() + Send>) {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.when_done(then);
    }
    fn point(&self) -> Option<Point> {
        self.0.point()
    }
    fn native(&self) -> &dyn Any {
        self.0.native()
    }
}

impl Mark for WrappedFence<dyn Mark> {
    fn failed(&self) -> bool {
        self.0.failed()
    }
    fn reached_us(&self) -> Option<u64> {
        self.0.reached_us()
    }
    fn elapsed_ms(&self, since: &dyn Mark) -> Option<f64> {
        self.0.elapsed_ms(since)
    }
}

impl SegmentSink for WrappedSink {
    fn extend(&mut self, segments: &[Segment]) -> bool {
        self.0.extend(segments)
    }
    fn extend_chunk(&mut self, chunk: &Chunk<'_>) -> Option<Sizes> {
        self.0.extend_chunk(chunk)
    }
    fn finish(&mut self) {
        self.0.finish();
    }
    fn segments(&self) -> &[Segment] {
        self.0.segments()
    }
    fn native(&mut self) -> &mut dyn Any {
        self.0.native()
    }
}

const LEN: usize = 1 << 20;
const PIECES: usize = 4096;

fn host() -> Option<Arc<dyn Backend>> {
    let options = HostOptions {
        devices: vec![0],
        shared: None,
        device_memory: Some(64 << 20),
        is_unified: false,
        usage: None,
        views: None,
        schedule: None,
    };
    Some(Host::open(options).expect("memory"))
}

/// The cuda backend, where there is a driver or a stand-in for one.
fn cuda() -> Option<Arc<dyn Backend>> {
    Cuda::open(&CudaOptions::default()).inspect_err(|why| eprintln!("skipped: {why}")).ok()
}

/// A runtime over each backend that opens, without a wrapper and with one, and the counter of that.
fn pairs() -> impl Iterator<Item = (Runtime, Runtime, Arc<AtomicUsize>)> {
    let opened = [host as fn() -> Option<Arc<dyn Backend>>, cuda].into_iter().filter_map(|open| open());
    opened.map(|inner| {
        let told = Arc::<AtomicUsize>::default();
        let wrapped = Wrapped { inner: inner.clone(), told: told.clone() };
        (Runtime::new(inner, Vec::new()), Runtime::new(Arc::new(wrapped), Vec::new()), told)
    })
}

fn alloc(runtime: &Runtime, home: Home, len: usize) -> Block {
    runtime.alloc(&Request { home, len, page: 4096 }).expect("memory")
}

fn stream(runtime: &Runtime) -> Arc<Stream> {
    runtime.stream(0, QueueOptions::default()).expect("a stream")
}

/// The bytes of page-locked memory.
#[expect(clippy::mut_from_ref, reason = "memory of the test's own, which nothing in flight uses meanwhile")]
fn bytes(block: &Block) -> &mut [u8] {
    // SAFETY: page-locked memory of that length, which only this thread uses while no copy is in flight.
    unsafe { slice::from_raw_parts_mut(block.base as *mut u8, block.len) }
}

fn submit(stream: &Stream, mut op: impl FnMut(&ferry_core::Memory) -> Op) -> Ticket {
    // SAFETY: all memory of these tests is the engine's, and it is freed by nobody.
    unsafe { stream.submit::<Error>(|memory| Ok(op(memory))) }.expect("submitted")
}

fn copy(stream: &Stream, rows: Rows) -> Ticket {
    submit(stream, |memory| Op::Copy(Plan::new([rows], memory, |_, _| Ok(())).expect("a good copy")))
}

/// Copies a batch there, a rectangle and a descriptor's bytes inside, and all of it back.
fn copies(runtime: &Runtime) -> Vec<u8> {
    let (stream, there, host) =
        (stream(runtime), alloc(runtime, Home::Device(0), LEN), alloc(runtime, Home::Host, LEN));
    bytes(&host).iter_mut().enumerate().for_each(|(index, byte)| *byte = (index * 7 / 5) as u8);
    let size = LEN / PIECES;
    let place =
        |base: usize, step: usize| (0..PIECES).map(|index| base + index * step % PIECES * size).collect();
    let (dsts, srcs): (Vec<usize>, Vec<usize>) = (place(there.base, 1), place(host.base, 2531));
    let (lens, rooms) = (vec![size; PIECES], vec![usize::MAX; PIECES]);
    submit(&stream, |memory| {
        let (mut plan, runs) =
            (Plan::default(), Runs { dsts: &dsts, srcs: &srcs, lens: &lens, rooms: &rooms });
        plan.extend_runs(0, &runs, memory, |_, _| Ok(())).expect("a good batch");
        Op::Copy(plan)
    });
    let inside = Rows {
        dst: there.base + LEN / 2,
        dst_pitch: 96,
        src: there.base,
        src_pitch: 64,
        width: 33,
        height: 100,
    };
    copy(&stream, inside);
    submit(&stream, |_| Op::Fill(Fill { dst: there.at + 5, len: 1001, pattern: *b"abcd", device: Some(0) }));
    let late = alloc(runtime, Home::Device(0), DESCRIPTOR_LEN);
    let words = runtime.memory().seal(there.base + 3 * LEN / 4, there.base, 4321).expect("sealed");
    let sealed = alloc(runtime, Home::Host, DESCRIPTOR_LEN);
    bytes(&sealed).copy_from_slice(&words.map(u64::to_ne_bytes).concat());
    copy(&stream, Rows::linear(late.base, sealed.base, DESCRIPTOR_LEN));
    submit(&stream, |_| {
        let through = Through::Descriptor { at: late.at, user: late.base };
        Op::CopyThrough(Indirect { call: "test", device: 0, through })
    });
    let back = alloc(runtime, Home::Host, LEN);
    copy(&stream, Rows::linear(back.base, there.base, LEN));
    stream.synchronize(None).expect("done");
    bytes(&back).to_vec()
}

#[test]
fn copies_are_the_same() {
    for (plain, wrapped, _) in pairs() {
        let (want, found) = (copies(&plain), copies(&wrapped));
        assert!(want.iter().any(|byte| *byte != 0) && want == found, "on {}", plain.backend().name());
    }
}

#[test]
fn streams_wait_for_each_other_and_know_the_time_between_two_marks() {
    for (_, wrapped, told) in pairs() {
        let (first, second) = (stream(&wrapped), stream(&wrapped));
        let there = alloc(&wrapped, Home::Device(0), LEN);
        let [from, back] = [(); 2].map(|()| alloc(&wrapped, Home::Host, LEN));
        bytes(&from).fill(7);
        let (start, end) = (Event::new(), Event::new());
        start.record(&first).expect("recorded");
        copy(&first, Rows::linear(there.base, from.base, LEN));
        end.record(&first).expect("recorded");
        end.block(&second).expect("submitted");
        let last = copy(&second, Rows::linear(back.base, there.base, LEN));
        second.fence_after(last).wait(None).expect("done");
        assert_eq!(bytes(&back), bytes(&from));
        assert!(!end.is_waited_for(), "the second stream has passed the wait");
        let [start, end] = [start, end].map(|event| event.latest().expect("recorded"));
        assert_eq!(end.point(), Some(Point { stream: first.id(), ticket: 3 }));
        let elapsed = end.elapsed_ms(&*start).expect("two marks of one device");
        assert!((0.0..1e6).contains(&elapsed) && end.reached_us().is_some() && !end.failed(), "{elapsed}");
        if wrapped.backend().name() == "cuda" {
            assert_eq!(told.load(Ordering::Relaxed), 0, "a CUDA stream waits for an event, and not the host");
        }
    }
}

#[test]
fn gates_aborts_and_failures_pass_through() {
    for (_, wrapped, _) in pairs() {
        let (stream, gate) = (stream(&wrapped), Gate::new());
        stream.wait_for(gate.clone()).expect("submitted");
        let mark = stream.mark().expect("marked");
        assert!(!mark.is_done());
        gate.open();
        mark.wait(None).expect("done");
        stream.wait_for(Gate::new()).expect("submitted");
        stream.abort();
        assert_eq!(stream.synchronize(None).map_err(|why| why.kind), Err(Kind::Aborted));
        copy(&stream, {
            let there = alloc(&wrapped, Home::Device(0), 64);
            Rows::linear(there.base, there.base, 64)
        });
        stream.synchronize(None).expect("goes on");
    }
}

#[test]
fn capabilities_are_those_beneath() {
    for (plain, wrapped, _) in pairs() {
        assert_eq!(wrapped.backend().features(), plain.backend().features());
        assert_eq!(
            wrapped.device_memory(0).map(|memory| memory.total),
            plain.device_memory(0).map(|memory| memory.total)
        );
        let base = wrapped.reserve(1 << 21, 1 << 21, 0, Purpose::Mappings).expect("addresses");
        let physical = wrapped.physical(0, 1 << 21, 1 << 21).expect("memory");
        wrapped.map(base, &physical).expect("mapped");
        let (stream, host) = (stream(&wrapped), alloc(&wrapped, Home::Host, 64));
        copy(&stream, Rows::linear(base, host.base, 64));
        stream.synchronize(None).expect("done");
        wrapped.unmap(base).expect("unmapped");
        wrapped.release(base, Purpose::Mappings).expect("released");
        let block = alloc(&wrapped, Home::Device(0), LEN);
        let (_export, shared) = wrapped.export(block.base, LEN).expect("exported");
        let imported = wrapped.import(&shared, 0, Origin::Imported, Box::new(())).expect("imported");
        wrapped.end_import(imported.base).expect("ended");
    }
}
