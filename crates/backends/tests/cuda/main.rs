//! The cuda backend on a real GPU, through the core alone. Each test says that it was skipped where there is
//! no GPU. With FERRY_TEST_SHARED=1 all streams are shared with other libraries: what is promised stays the
//! same.

mod aborts;
mod adopted;
mod chunks;
mod descriptors;
mod devices;
mod ends;
mod gathering;
mod held;
mod lists;
mod lost;
mod pinned;
mod reductions;
mod resident;
mod resting;
mod room;
mod staging;
mod threadless;

use ferry_backends::cuda::{Cuda, CudaOptions};
use ferry_blocker::Blocker;
use ferry_core::{
    Access, Block, Error, Event, Fence, Fill, Halt, Home, Indirect, Kind, Op, Place, Plan, QueueOptions,
    Request, Result, Rows, Runtime, Stream,
    indirect::{Cell, DESCRIPTOR_LEN, Through},
};
use std::{
    ptr,
    sync::{Arc, Condvar, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, mpsc},
    thread,
    time::Duration,
};

const MIB: usize = 1 << 20;
const MINUTE: Option<Duration> = Some(Duration::from_secs(60));

/// Held by the tests that run now, to the end of their threads.
enum Turn {
    Beside(#[allow(dead_code, reason = "kept")] RwLockReadGuard<'static, ()>),
    Alone(#[allow(dead_code, reason = "kept")] RwLockWriteGuard<'static, ()>),
}

/// Lets the test run beside others, or alone if it holds shared streams or fills one: on a GPU, calls of the
/// driver may wait for those, and the test may have to make some to let go of them.
fn take_turn() {
    static TURNS: RwLock<()> = RwLock::new(());
    thread_local!(static MINE: std::cell::Cell<Option<Turn>> = const { std::cell::Cell::new(None) });
    let held = MINE.take();
    let name = thread::current().name().unwrap_or_default().to_owned();
    let is_alone =
        are_shared() || ["adopted::", "held::", "room::"].iter().any(|part| name.starts_with(part));
    let turn = held.unwrap_or_else(|| match is_alone {
        true => Turn::Alone(TURNS.write().unwrap_or_else(PoisonError::into_inner)),
        false => Turn::Beside(TURNS.read().unwrap_or_else(PoisonError::into_inner)),
    });
    MINE.set(Some(turn));
}

/// A runtime on the GPU, or a line that says why there is none.
fn gpu(test: &str) -> Option<Runtime> {
    opened(test, &CudaOptions::default())
}

/// A device of a size of its own: what is free of it depends on no other program.
fn gpu_of(test: &str, bytes: usize) -> Option<Runtime> {
    opened(test, &CudaOptions { device_memory: Some(bytes), ..CudaOptions::default() })
}

fn opened(test: &str, options: &CudaOptions) -> Option<Runtime> {
    take_turn();
    match Cuda::open(options) {
        Ok(backend) => Some(Runtime::new(backend, Vec::new())),
        Err(why) => {
            eprintln!("{test}: skipped: {why}");
            None
        }
    }
}

fn noise(seed: usize, len: usize) -> Vec<u8> {
    let mut word = seed as u64 * 2 + 1;
    let mut next = move || {
        word = (word ^ word << 13) ^ (word ^ word << 13) >> 7;
        word ^= word << 17;
        (word >> 24) as u8
    };
    (0..len).map(|_| next()).collect()
}

fn alloc(runtime: &Runtime, home: Home, len: usize) -> Block {
    runtime.alloc(&Request { home, len, page: 4096 }).expect("memory")
}

fn device(runtime: &Runtime, len: usize) -> Block {
    alloc(runtime, Home::Device(0), len)
}

/// Page-locked memory that holds these bytes.
fn locked(runtime: &Runtime, bytes: &[u8]) -> Block {
    let block = alloc(runtime, Home::Host, bytes.len());
    // SAFETY: fresh page-locked memory of that length.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), block.base as *mut u8, bytes.len()) };
    block
}

/// What page-locked memory holds; nothing in flight writes it.
fn read(block: &Block) -> Vec<u8> {
    // SAFETY: page-locked memory of that length.
    unsafe { std::slice::from_raw_parts(block.base as *const u8, block.len) }.to_vec()
}

fn stream(runtime: &Runtime) -> Arc<Stream> {
    let stream = runtime.stream(0, QueueOptions::default()).expect("a stream");
    if are_shared() && runtime.backend().name() == "cuda" {
        stream.share().expect("shared");
    }
    stream
}

fn are_shared() -> bool {
    std::env::var_os("FERRY_TEST_SHARED").is_some()
}

fn submit(stream: &Stream, mut op: impl FnMut() -> Op) {
    // SAFETY: every test synchronises before its plain memory goes.
    unsafe { stream.submit::<Error>(|_| Ok(op())) }.expect("submitted");
}

fn copy(stream: &Stream, pieces: &[Rows]) {
    let plan = |memory: &ferry_core::Memory| {
        Plan::new(pieces.iter().copied(), memory, |_, _| Ok(())).map(Op::Copy).map_err(|misfit| misfit.error)
    };
    // SAFETY: every test synchronises before its plain memory goes.
    unsafe { stream.submit::<Error>(plan) }.expect("submitted");
}

fn linear(stream: &Stream, dst: usize, src: usize, len: usize) {
    copy(stream, &[Rows::linear(dst, src, len)]);
}

/// Reads device memory by way of a stream of its own.
fn fetch(runtime: &Runtime, addr: usize, len: usize) -> Vec<u8> {
    let (stream, back) = (stream(runtime), alloc(runtime, Home::Host, len));
    linear(&stream, back.base, addr, len);
    stream.synchronize(MINUTE).expect("fetched");
    let bytes = read(&back);
    runtime.free(back.base, |_| Ok(())).expect("freed");
    bytes
}

/// Blocks a stream until the blocker is dropped.
fn block(stream: &Stream) -> Blocker {
    let (blocker, function) = Blocker::new();
    stream.call(function).expect("submitted");
    blocker
}

fn through(through: Through) -> Op {
    Op::CopyThrough(Indirect { call: "test", device: 0, through })
}

fn descriptor(runtime: &Runtime, dst: usize, src: usize, len: usize) -> Vec<u8> {
    let words = runtime.memory().seal(dst, src, len).expect("sealed");
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    bytes.resize(DESCRIPTOR_LEN, 0);
    bytes
}

#[test]
fn linear_copies_arrive_both_ways() {
    let Some(gpu) = gpu("linear_copies_arrive_both_ways") else { return };
    let stream = stream(&gpu);
    for (len, offset) in [(1, 0), (3, 1), (4096, 0), (MIB + 5, 3), (64 * MIB, 0)] {
        let want = noise(len, len);
        let (there, via) = (device(&gpu, len + offset), device(&gpu, len + offset));
        let (source, target) = (locked(&gpu, &want), locked(&gpu, &vec![0; len]));
        linear(&stream, there.base + offset, source.base, len);
        linear(&stream, via.base + offset, there.base + offset, len);
        linear(&stream, target.base, via.base + offset, len);
        stream.synchronize(MINUTE).expect("done");
        assert!(read(&target) == want, "page-locked, {len} bytes");

        let (plain, mut back) = (noise(len + 1, len), vec![0_u8; len]);
        linear(&stream, there.base + offset, plain.as_ptr() as usize, len);
        linear(&stream, back.as_mut_ptr() as usize, there.base + offset, len);
        stream.synchronize(MINUTE).expect("done");
        assert!(back == plain, "pageable, {len} bytes");
        for block in [there, via, source, target] {
            gpu.free(block.base, |_| Ok(())).expect("freed");
        }
    }
}

#[test]
fn synchronous_queues_copy_pageable_memory() {
    let Some(gpu) = gpu("synchronous_queues_copy_pageable_memory") else { return };
    let stream = gpu.stream(0, QueueOptions { waited: true }).expect("a stream");
    let (plain, mut back, there) = (noise(1, MIB), vec![0_u8; MIB], device(&gpu, MIB));
    for piece in [(there.base, plain.as_ptr() as usize), (back.as_mut_ptr() as usize, there.base)] {
        linear(&stream, piece.0, piece.1, MIB);
        stream.synchronize(MINUTE).expect("done");
    }
    assert!(back == plain);
}

#[test]
fn rectangles_keep_their_gaps() {
    let Some(gpu) = gpu("rectangles_keep_their_gaps") else { return };
    let stream = stream(&gpu);
    for (width, height, wide, narrow) in
        [(13, 50, 40, 17), (1, 1000, 2, 3), (4096, 33, 5000, 4096), (64, 70_000, 64, 100)]
    {
        let (span, tight) = (wide * (height - 1) + width, narrow * (height - 1) + width);
        let source = noise(width, tight);
        let mut want = vec![0xaa; span];
        for row in 0..height {
            want[row * wide..][..width].copy_from_slice(&source[row * narrow..][..width]);
        }
        let rows = |dst, dst_pitch, src, src_pitch| Rows { dst, dst_pitch, src, src_pitch, width, height };
        let (one, two) = (device(&gpu, span), device(&gpu, span));
        let (from, to) = (locked(&gpu, &source), locked(&gpu, &vec![0xaa; span]));
        for block in [&one, &two] {
            submit(&stream, || {
                Op::Fill(Fill { dst: block.at, len: span, pattern: [0xaa; 4], device: Some(0) })
            });
        }
        copy(&stream, &[rows(one.base, wide, from.base, narrow)]);
        copy(&stream, &[rows(two.base, wide, one.base, wide)]);
        copy(&stream, &[rows(to.base, wide, two.base, wide)]);
        stream.synchronize(MINUTE).expect("done");
        assert!(fetch(&gpu, one.base, span) == want, "to the device, {width} x {height}");
        assert!(fetch(&gpu, two.base, span) == want, "inside the device, {width} x {height}");
        assert!(read(&to) == want, "from the device, {width} x {height}");
        let mut plain = vec![0xaa; span];
        copy(&stream, &[rows(plain.as_mut_ptr() as usize, wide, two.base, wide)]);
        stream.synchronize(MINUTE).expect("done");
        assert!(plain == want, "to pageable memory, {width} x {height}");
    }
}

#[test]
fn a_batch_is_one_op() {
    let Some(gpu) = gpu("a_batch_is_one_op") else { return };
    let (stream, count, len) = (stream(&gpu), 300, 1000);
    let source = locked(&gpu, &noise(5, count * len));
    let there = device(&gpu, count * len);
    let turned = |item: usize| (count - 1 - item) * len;
    let pieces: Vec<_> = (0..count)
        .map(|item| Rows::linear(there.base + turned(item), source.base + item * len, len))
        .collect();
    copy(&stream, &pieces);
    stream.synchronize(MINUTE).expect("done");
    let (got, want) = (fetch(&gpu, there.base, count * len), read(&source));
    assert!((0..count).all(|item| got[turned(item)..][..len] == want[item * len..][..len]));
    assert_eq!(stream.status().passed(), 1);
}

#[test]
fn overlapping_copies_are_as_memmove() {
    let Some(gpu) = gpu("overlapping_copies_are_as_memmove") else { return };
    let stream = stream(&gpu);
    for (len, from, to) in
        [(100_000, 0, 1), (100_000, 1, 0), (3 * MIB, 0, 64), (3 * MIB, 70_001, 0), (5, 0, 3)]
    {
        let mut want = noise(len, len + from + to);
        let (start, there) = (locked(&gpu, &want), device(&gpu, want.len()));
        linear(&stream, there.base, start.base, want.len());
        linear(&stream, there.base + to, there.base + from, len);
        stream.synchronize(MINUTE).expect("done");
        want.copy_within(from..from + len, to);
        assert!(fetch(&gpu, there.base, want.len()) == want, "{len} bytes from {from} to {to}");
    }
}

#[test]
fn an_event_orders_two_streams() {
    let Some(gpu) = gpu("an_event_orders_two_streams") else { return };
    let (first, second, len) = (stream(&gpu), stream(&gpu), 32 * MIB);
    let (source, target, there) =
        (locked(&gpu, &noise(1, len)), locked(&gpu, &vec![0; len]), device(&gpu, len));
    for round in 0..3_u8 {
        submit(&first, || Op::Fill(Fill { dst: there.at, len, pattern: [round; 4], device: Some(0) }));
        first.synchronize(MINUTE).expect("done");
        let event = Event::new();
        linear(&first, there.base, source.base, len);
        event.record(&first).expect("recorded");
        second.wait_for(event.latest().expect("recorded")).expect("submitted");
        linear(&second, target.base, there.base, len);
        second.synchronize(MINUTE).expect("done");
        assert!(read(&target) == read(&source), "round {round}");
    }
}

#[test]
fn an_event_behind_a_held_stream_holds_the_other() {
    let Some(gpu) = gpu("an_event_behind_a_held_stream_holds_the_other") else { return };
    let (first, second, third) = (stream(&gpu), stream(&gpu), stream(&gpu));
    let there = device(&gpu, 4096);
    let open = block(&first);
    submit(&first, || Op::Fill(Fill { dst: there.at, len: 4096, pattern: [1; 4], device: Some(0) }));
    let mark = first.mark().expect("marked");
    second.wait_for(mark.clone()).expect("submitted");
    submit(&second, || Op::Fill(Fill { dst: there.at, len: 2048, pattern: [2; 4], device: Some(0) }));
    third.wait_for(second.mark().expect("marked")).expect("submitted");
    submit(&third, || Op::Fill(Fill { dst: there.at, len: 1024, pattern: [3; 4], device: Some(0) }));
    let late = second.synchronize(Some(Duration::from_millis(20))).map_err(|error| error.kind);
    assert_eq!(late, Err(Kind::Timeout));
    assert!(!mark.is_done() && !third.is_idle().expect("asked"));
    drop(open);
    third.synchronize(MINUTE).expect("done");
    assert!(mark.is_done() && first.is_idle().expect("asked"));
    let got = fetch(&gpu, there.base, 4096);
    assert!(got[..1024] == [3; 1024] && got[1024..2048] == [2; 1024] && got[2048..] == [1; 2048]);
}

#[test]
fn marks_know_when_they_were_reached() {
    let Some(gpu) = gpu("marks_know_when_they_were_reached") else { return };
    let (stream, len) = (stream(&gpu), 64 * MIB);
    let (source, there) = (locked(&gpu, &noise(1, len)), device(&gpu, len));
    let start = stream.mark().expect("marked");
    linear(&stream, there.base, source.base, len);
    let end = stream.mark().expect("marked");
    end.wait(MINUTE).expect("done");
    let ms = end.elapsed_ms(&*start).expect("both done");
    println!("64 MiB H2D: {ms:.3} ms, {:.1} GB/s", len as f64 / ms / 1e6);
    assert!(ms > 0.0 && start.elapsed_ms(&*end).is_some_and(|back| back < 0.0));
    assert_eq!(stream.status().passed(), 3, "marks take tickets");
}

#[test]
fn fills_repeat_their_pattern() {
    let Some(gpu) = gpu("fills_repeat_their_pattern") else { return };
    let stream = stream(&gpu);
    let (there, host) = (device(&gpu, 5000), locked(&gpu, &[0; 5000]));
    let mut plain = vec![0_u8; 5000];
    for (offset, len, pattern) in [
        (0, 5000, [7; 4]),
        (3, 4000, [9; 4]),
        (0, 4096, [1, 2, 3, 4]),
        (5, 4011, [1, 2, 3, 4]),
        (2, 1, [5, 6, 7, 8]),
    ] {
        let mut want = vec![0xcc; 5000];
        (0..len).for_each(|at| want[offset + at] = pattern[at % 4]);
        for (dst, device) in [(there.at, Some(0)), (host.at, None), (plain.as_mut_ptr() as usize, None)] {
            submit(&stream, || Op::Fill(Fill { dst, len: 5000, pattern: [0xcc; 4], device }));
            submit(&stream, || Op::Fill(Fill { dst: dst + offset, len, pattern, device }));
        }
        stream.synchronize(MINUTE).expect("done");
        assert!(fetch(&gpu, there.base, 5000) == want, "device, {len} at {offset}");
        assert!(read(&host) == want, "page-locked, {len} at {offset}");
        assert!(plain == want, "pageable, {len} at {offset}");
    }
}

#[test]
fn pointer_cells_are_read_when_the_copy_runs() {
    let Some(gpu) = gpu("pointer_cells_are_read_when_the_copy_runs") else { return };
    let stream = stream(&gpu);
    let (cells, from, to) = (device(&gpu, 16), device(&gpu, 8192), device(&gpu, 8192));
    let (source, addresses) = (locked(&gpu, &noise(1, 8192)), locked(&gpu, &[0; 16]));
    linear(&stream, from.base, source.base, 8192);
    stream.synchronize(MINUTE).expect("done");
    for home in [cells, addresses] {
        let cell =
            |index: usize, offset| Cell { at: home.at + 8 * index, user: home.base + 8 * index, offset };
        let copy = || through(Through::Cells { dst: cell(0, 3), src: cell(1, 100), len: 5000 });
        // SAFETY: 16 bytes of page-locked memory that nothing in flight uses.
        unsafe { ptr::write(addresses.base as *mut [usize; 2], [to.base, from.base]) };
        let open = block(&stream);
        submit(&stream, || Op::Fill(Fill { dst: to.at, len: 8192, pattern: [1; 4], device: Some(0) }));
        if home != addresses {
            linear(&stream, home.base, addresses.base, 16);
        }
        submit(&stream, copy);
        drop(open);
        stream.synchronize(MINUTE).expect("done");
        let mut want = vec![1; 8192];
        want[3..5003].copy_from_slice(&read(&source)[100..5100]);
        assert!(fetch(&gpu, to.base, 8192) == want, "{home}");
        let freed = device(&gpu, 8192);
        gpu.free(freed.base, |_| Ok(())).expect("freed");
        for bad in [0, 0x3030_3030_3030_3030, source.base, to.base + 4000, freed.base] {
            // SAFETY: as above.
            unsafe { ptr::write(addresses.base as *mut [usize; 2], [bad, from.base]) };
            if home != addresses {
                linear(&stream, home.base, addresses.base, 16);
            }
            submit(&stream, copy);
            let why = stream.synchronize(MINUTE).expect_err("a pointer to nothing");
            println!("bad cells: {:?}: {why}", why.kind);
            assert_eq!(why.kind, Kind::BadDescriptor, "{why}");
            assert!(fetch(&gpu, to.base, 8192) == want, "nothing was touched");
        }
    }
}

#[test]
fn functions_run_in_stream_order() {
    let Some(gpu) = gpu("functions_run_in_stream_order") else { return };
    let (stream, there, len) = (stream(&gpu), device(&gpu, 16 * MIB), 16 * MIB);
    let target = locked(&gpu, &vec![0; len]);
    let seen = Arc::new(Mutex::new(Vec::new()));
    for round in 1..=20_u8 {
        submit(&stream, || Op::Fill(Fill { dst: there.at, len, pattern: [round; 4], device: Some(0) }));
        linear(&stream, target.base, there.base, len);
        let (seen, base) = (seen.clone(), target.base);
        // SAFETY: page-locked memory, written by the copy before and not by the one after.
        let look =
            move || seen.lock().unwrap().push(unsafe { ptr::read_volatile((base + len - 1) as *const u8) });
        stream.call(look).expect("submitted");
    }
    stream.synchronize(MINUTE).expect("done");
    assert_eq!(*seen.lock().unwrap(), (1..=20).collect::<Vec<_>>());
}

#[test]
fn blocked_functions_hold_up_their_own_streams_only() {
    let Some(gpu) = gpu("blocked_functions_hold_up_their_own_streams_only") else { return };
    if are_shared() {
        return eprintln!(
            "skipped: streams share a few ways into the GPU, and one that is held itself holds up others"
        );
    }
    let blocked: Vec<_> = (0..64).map(|_| stream(&gpu)).collect();
    let there = device(&gpu, 65 * 4096);
    let gates: Vec<_> = blocked.iter().map(|stream| block(stream)).collect();
    for (index, stream) in blocked.iter().enumerate() {
        submit(stream, || {
            Op::Fill(Fill {
                dst: there.at + index * 4096,
                len: 4096,
                pattern: [index as u8; 4],
                device: Some(0),
            })
        });
    }
    let (free, mut back) = (stream(&gpu), vec![0_u8; 4096]);
    submit(&free, || {
        Op::Fill(Fill { dst: there.at + 64 * 4096, len: 4096, pattern: [64; 4], device: Some(0) })
    });
    linear(&free, back.as_mut_ptr() as usize, there.base + 64 * 4096, 4096);
    free.synchronize(MINUTE).expect("64 others are blocked, this one is not");
    assert!(back == [64; 4096]);
    assert!(blocked.iter().all(|stream| !stream.is_idle().expect("asked")));
    drop(gates);
    blocked.iter().for_each(|stream| stream.synchronize(MINUTE).expect("done"));
    let got = fetch(&gpu, there.base, 64 * 4096);
    assert!((0..64).all(|index| got[index * 4096..][..4096] == [index as u8; 4096]));
}

#[test]
fn a_function_may_use_the_engine_and_free_memory() {
    let Some(gpu) = gpu("a_function_may_use_the_engine_and_free_memory") else { return };
    let gpu = Arc::new(gpu);
    let (one, two, there) = (stream(&gpu), stream(&gpu), device(&gpu, 4096));
    let inner = gpu.clone();
    let function = move || {
        submit(&two, || Op::Fill(Fill { dst: there.at, len: 4096, pattern: [4; 4], device: Some(0) }));
        two.synchronize(MINUTE).expect("done");
        assert!(fetch(&inner, there.base, 4096) == [4; 4096]);
        inner.free(there.base, |_| Ok(())).expect("freed");
    };
    one.call(function).expect("submitted");
    one.synchronize(MINUTE).expect("done");
    assert!(gpu.free(there.base, |_| Ok(())).is_err(), "freed already");
}

#[test]
fn freed_memory_is_kept_while_work_in_flight_uses_it() {
    let Some(gpu) = gpu("freed_memory_is_kept_while_work_in_flight_uses_it") else { return };
    let (stream, len) = (stream(&gpu), 8 * MIB);
    let (there, source, target) =
        (device(&gpu, len), locked(&gpu, &noise(2, len)), locked(&gpu, &vec![0; len]));
    let want = read(&source);
    let open = block(&stream);
    linear(&stream, there.base, source.base, len);
    linear(&stream, target.base, there.base, len);
    for block in [&there, &source] {
        gpu.free(block.base, |_| Ok(())).expect("freed at once");
        let why = gpu.memory().place(block.base + 5, 1, Access::Read).expect_err("unknown from here on");
        assert_eq!(why.kind, Kind::BadAddress, "{why}");
        assert!(gpu.free(block.base, |_| Ok(())).is_err(), "twice");
    }
    let other = self::stream(&gpu);
    for _ in 0..4 {
        let fresh = device(&gpu, len);
        assert_ne!(fresh.base, there.base, "not while it is in use");
        submit(&other, || Op::Fill(Fill { dst: fresh.at, len, pattern: [0xee; 4], device: Some(0) }));
    }
    other.synchronize(MINUTE).expect("done");
    drop(open);
    stream.synchronize(MINUTE).expect("done");
    assert!(read(&target) == want);
}

#[test]
fn work_outlives_its_stream() {
    let Some(gpu) = gpu("work_outlives_its_stream") else { return };
    let (doomed, len) = (stream(&gpu), 4096);
    let (there, source) = (device(&gpu, len), locked(&gpu, &noise(2, len)));
    let open = block(&doomed);
    linear(&doomed, there.base, source.base, len);
    let fence = doomed.fence().expect("a fence");
    drop(doomed);
    let (told, hear) = mpsc::channel();
    fence.when_done(Box::new(move || told.send(()).expect("heard")));
    assert!(!fence.is_done() && hear.try_recv().is_err());
    drop(open);
    hear.recv_timeout(MINUTE.expect("a minute")).expect("told");
    assert!(fence.is_done() && fetch(&gpu, there.base, len) == read(&source));
}

/// A fence of nobody's queue.
#[derive(Default)]
struct Flag(Mutex<(bool, Vec<Then>)>, Condvar);

type Then = Box<dyn FnOnce() + Send>;

impl Flag {
    fn raise(&self) {
        let mut state = self.0.lock().unwrap();
        state.0 = true;
        state.1.drain(..).for_each(|then| then());
        self.1.notify_all();
    }
}

impl Fence for Flag {
    fn is_done(&self) -> bool {
        self.0.lock().unwrap().0
    }
    fn wait(&self, _: Option<Duration>) -> Result<()> {
        drop(self.1.wait_while(self.0.lock().unwrap(), |state| !state.0).unwrap());
        Ok(())
    }
    fn when_done(&self, then: Box<dyn FnOnce() + Send>) {
        let mut state = self.0.lock().unwrap();
        if state.0 { then() } else { state.1.push(then) }
    }
    fn point(&self) -> Option<ferry_core::Point> {
        None
    }
    fn native(&self) -> &dyn std::any::Any {
        self
    }
}

#[test]
fn streams_wait_for_fences_of_others() {
    let Some(gpu) = gpu("streams_wait_for_fences_of_others") else { return };
    let (stream, there, flag) = (stream(&gpu), device(&gpu, 64), Arc::new(Flag::default()));
    submit(&stream, || Op::Fill(Fill { dst: there.at, len: 64, pattern: [1; 4], device: Some(0) }));
    stream.wait_for(flag.clone()).expect("submitted");
    submit(&stream, || Op::Fill(Fill { dst: there.at, len: 32, pattern: [2; 4], device: Some(0) }));
    assert!(!stream.is_idle().expect("asked"));
    assert!(fetch(&gpu, there.base, 64)[..32] != [2; 32], "not before the flag");
    flag.raise();
    stream.synchronize(MINUTE).expect("done");
    assert!(fetch(&gpu, there.base, 64)[..32] == [2; 32]);
    stream.wait_for(flag).expect("done already");
    stream.synchronize(MINUTE).expect("done");
}

#[test]
fn blocks_start_where_the_table_wants_them() {
    let Some(gpu) = gpu("blocks_start_where_the_table_wants_them") else { return };
    for home in [Home::Device(0), Home::Host] {
        let blocks: Vec<_> = (0..200)
            .map(|index| {
                let page = if index % 50 == 49 { 2 * MIB } else { 4096 };
                let block = gpu.alloc(&Request { home, len: 1 + index * 37 % 9000, page }).expect("memory");
                assert_eq!((block.base % page, block.at), (0, block.base), "{block}");
                block
            })
            .collect();
        for block in &blocks {
            let place = gpu.memory().place(block.base + block.len - 1, 1, Access::Write);
            assert_eq!(place, Ok(Place::Known(*block)));
        }
        for block in &blocks {
            gpu.free(block.base, |_| Ok(())).expect("freed");
        }
    }
    let why = gpu.alloc(&Request { home: Home::Device(0), len: 1 << 44, page: 4096 }).expect_err("16 TiB");
    println!("16 TiB: {:?}: {why}", why.kind);
    assert_eq!(why.kind, Kind::OutOfMemory);
    let (free, total) = gpu.memory_info(0).expect("asked");
    assert!(0 < free && free <= total, "{free} of {total}");
    assert_eq!(gpu.memory_info(7).err().map(|why| why.kind), Some(Kind::NoDevice));
}

#[test]
fn memory_of_other_libraries_is_recognised() {
    let Some(gpu) = gpu("memory_of_other_libraries_is_recognised") else { return };
    // Another backend of the same process stands for another library: the driver is all they share.
    let Some(other) = self::gpu("memory_of_other_libraries_is_recognised") else { return };
    let (there, host) = (device(&other, 3 * MIB), locked(&other, &noise(1, 3 * MIB)));
    for (block, home) in [(there, Home::Device(0)), (host, Home::Host)] {
        match gpu.memory().place(block.base + 100, 10, Access::Write).expect("recognised") {
            Place::Known(found) => {
                assert_eq!((found.home, found.translate(block.base, 3 * MIB)), (home, Some(block.at)))
            }
            Place::Plain => panic!("{block} was taken for plain memory"),
        }
    }
    let stream = stream(&gpu);
    linear(&stream, there.base, host.base, 3 * MIB);
    stream.synchronize(MINUTE).expect("done");
    assert!(fetch(&gpu, there.base, 3 * MIB) == read(&host));
    let plain = [0_u8; 100];
    assert_eq!(gpu.memory().place(plain.as_ptr() as usize, 100, Access::Write), Ok(Place::Plain));
    for garbage in [0x10, 0xdead_0000_0000, usize::MAX - 5000] {
        let why = gpu.memory().place(garbage, 100, Access::Read).expect_err("garbage");
        assert_eq!(why.kind, Kind::BadAddress, "{why}");
    }
}

/// In a busy process the addresses may be somebody else's by then.
#[test]
#[ignore = "needs a process of its own: --exact --ignored"]
fn memory_given_back_is_unknown() {
    let Some(gpu) = gpu("memory_given_back_is_unknown") else { return };
    for (home, len) in
        [(Home::Device(0), 100), (Home::Device(0), 64 * MIB), (Home::Host, 100), (Home::Host, 64 * MIB)]
    {
        let block = alloc(&gpu, home, len);
        gpu.free(block.base, |_| Ok(())).expect("freed");
        for access in [Access::Read, Access::Write] {
            let place = gpu.memory().place(block.base, len, access).map_err(|error| error.kind);
            assert_eq!(place, Err(Kind::BadAddress), "{block} to {access:?}");
        }
    }
    let (before, block) = (gpu.memory_info(0).expect("asked").0, device(&gpu, 1 << 30));
    let during = gpu.memory_info(0).expect("asked").0;
    gpu.free(block.base, |_| Ok(())).expect("freed");
    let after = gpu.memory_info(0).expect("asked").0;
    // The driver takes and keeps some for itself, and others may use the GPU as well.
    let is_about = |bytes: usize, want: usize| bytes.abs_diff(want) < 256 * MIB;
    let is_true = is_about(before, during + (1 << 30)) && is_about(after, before);
    assert!(is_true, "1 GiB of {before} bytes: {during} were free, and {after} afterwards");
}

/// Breaks the context for the whole process: run it alone, with `--ignored`.
#[test]
#[ignore = "breaks the GPU for its process: --exact --ignored"]
fn a_lost_gpu_fails_every_call_and_hangs_none() {
    let Some(gpu) = gpu("a_lost_gpu_fails_every_call_and_hangs_none") else { return };
    let (stream, other) = (stream(&gpu), stream(&gpu));
    let words = locked(&gpu, &descriptor(&gpu, 0x3030_3030_3000, 0x3030_3030_0000, 64));
    let slot = device(&gpu, DESCRIPTOR_LEN);
    linear(&stream, slot.base, words.base, DESCRIPTOR_LEN);
    // Sealed, and yet wrong: what the core would never seal.
    submit(&stream, || through(Through::Descriptor { at: slot.at, user: slot.base }));
    let (told, hear) = mpsc::channel();
    stream.call(move || told.send(()).expect("heard")).expect("submitted");
    let fence = stream.fence().expect("a fence");
    fence.wait(MINUTE).expect("not for ever");
    let told = hear.recv_timeout(Duration::from_secs(60));
    assert_ne!(told, Err(mpsc::RecvTimeoutError::Timeout), "the function ran all the same, or was dropped");
    let why = stream.synchronize(MINUTE).expect_err("the GPU faulted");
    println!("lost: {:?}: {why}", why.kind);
    assert_eq!(why.kind, Kind::Fault);
    assert!(why.note.contains("CUDA_ERROR_"), "{why}");
    let why = other.synchronize(MINUTE);
    println!(
        "another stream: {why:?}; alloc: {:?}",
        gpu.alloc(&Request { home: Home::Device(0), len: 1, page: 4096 })
    );
    println!("free: {:?}", gpu.free(slot.base, |_| Ok(())));
}
