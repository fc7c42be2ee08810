//! Copies of pageable memory, which several threads stage.

use super::*;
use ferry_backends::cuda::settings::Settings;
use std::thread;

/// A runtime on the GPU where several threads stage, however few CPUs there are.
fn gpu(test: &str) -> Option<Runtime> {
    super::gpu(test)?;
    let settings = Settings { stagers: Some(4), ..Settings::default() };
    let backend = Cuda::open(&CudaOptions { settings, ..CudaOptions::default() });
    Some(Runtime::new(backend.expect("there is a GPU"), Vec::new()))
}

/// Bytes around the memory that a copy writes, to see that it writes no others.
const EDGE: usize = 64;

/// Pageable memory that begins `offset` bytes behind the start of a page, between edges.
struct Plain {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Plain {
    fn new(offset: usize, len: usize, byte: u8) -> Plain {
        let bytes = vec![byte; len + 2 * EDGE + 2 * 4096];
        let at = bytes.as_ptr() as usize + EDGE;
        let start = at.next_multiple_of(4096) + offset % 4096 - bytes.as_ptr() as usize;
        Plain { bytes, start, len }
    }

    fn of(offset: usize, bytes: &[u8]) -> Plain {
        let mut plain = Plain::new(offset, bytes.len(), 0);
        plain.bytes[plain.start..][..bytes.len()].copy_from_slice(bytes);
        plain
    }

    fn at(&self) -> usize {
        self.bytes.as_ptr() as usize + self.start
    }

    fn inside(&self) -> &[u8] {
        &self.bytes[self.start..][..self.len]
    }

    /// Whether the bytes around it are as they were made.
    fn has_edges(&self, byte: u8) -> bool {
        let end = self.start + self.len;
        self.bytes[..self.start].iter().chain(&self.bytes[end..]).all(|edge| *edge == byte)
    }
}

fn fill(stream: &Stream, block: &Block, byte: u8) {
    let (dst, len, device) = (block.at, block.len, Some(0));
    submit(stream, || Op::Fill(Fill { dst, len, pattern: [byte; 4], device }));
}

#[test]
fn pageable_copies_of_any_length_and_alignment_arrive() {
    let Some(gpu) = gpu("pageable_copies_of_any_length_and_alignment_arrive") else { return };
    let small = [1, 4095, 65_536, 131_072, 131_073, 300_001, MIB / 2, MIB / 2 + 1];
    let lengths = small.into_iter().chain([MIB - 1, MIB, MIB + 1, 2 * MIB + 4097, 7 * MIB + 77]);
    let places = [(0, 0), (1, 3), (4095, 64), (8, 7)];
    let (ordinary, there) = (stream(&gpu), device(&gpu, 8 * MIB));
    let waited = gpu.stream(0, QueueOptions { waited: true }).expect("a stream");
    for (len, (host, device)) in lengths.flat_map(|len| places.map(|place| (len, place))) {
        for stream in [&ordinary, &waited] {
            let source = Plain::of(host, &noise(len + host, len));
            let target = Plain::new(host ^ 5, len, 0xbb);
            fill(stream, &there, 0xaa);
            linear(stream, there.base + device, source.at(), len);
            linear(stream, target.at(), there.base + device, len);
            stream.synchronize(MINUTE).expect("done");
            assert!(target.inside() == source.inside(), "{len} bytes, {host} and {device} past a page");
            assert!(target.has_edges(0xbb), "{len} bytes, {host} and {device} past a page");
        }
    }
    let around = fetch(&gpu, there.base, 8 * MIB);
    assert!(around[..7].iter().chain(&around[7 * MIB + 84..]).all(|byte| *byte == 0xaa), "on the device too");
}

#[test]
fn pageable_rectangles_keep_their_gaps() {
    let Some(gpu) = gpu("pageable_rectangles_keep_their_gaps") else { return };
    let stream = stream(&gpu);
    for (width, height, wide, narrow) in [
        (1, 10_000, 2, 3),
        (13, 50, 40, 17),
        (64, 70_000, 128, 64),
        (100, 30_000, 101, 164),
        (5000, 900, 5000, 9000),
        (3 * MIB + 5, 3, 4 * MIB, 3 * MIB + 6),
    ] {
        let (span, tight) = (wide * (height - 1) + width, narrow * (height - 1) + width);
        let source = Plain::of(9, &noise(width, tight));
        let mut want = vec![0xaa; span];
        for row in 0..height {
            want[row * wide..][..width].copy_from_slice(&source.inside()[row * narrow..][..width]);
        }
        let rows = |dst, dst_pitch, src, src_pitch| Rows { dst, dst_pitch, src, src_pitch, width, height };
        let (there, target) = (device(&gpu, span), Plain::new(3, span, 0xaa));
        fill(&stream, &there, 0xaa);
        copy(&stream, &[rows(there.base, wide, source.at(), narrow)]);
        copy(&stream, &[rows(target.at(), wide, there.base, wide)]);
        stream.synchronize(MINUTE).expect("done");
        assert!(fetch(&gpu, there.base, span) == want, "to the device, {width} x {height}");
        assert!(target.inside() == want && target.has_edges(0xaa), "from the device, {width} x {height}");
        gpu.free(there.base, |_| Ok(())).expect("freed");
    }
}

#[test]
fn pageable_batches_arrive_whatever_their_pieces() {
    let Some(gpu) = gpu("pageable_batches_arrive_whatever_their_pieces") else { return };
    let (stream, count, step) = (stream(&gpu), 400, 20_000);
    let len = |item: usize| [1, 64, 4096, 19_999][item % 4];
    let source = Plain::of(1, &noise(7, count * step));
    let page_locked = locked(&gpu, source.inside());
    let (there, target) = (device(&gpu, count * step), Plain::new(2, count * step, 0));
    // Some of the pieces are page-locked.
    let from =
        |item: usize| if item.is_multiple_of(3) { page_locked.base } else { source.at() } + item * step;
    let into: Vec<_> =
        (0..count).map(|item| Rows::linear(there.base + item * step, from(item), len(item))).collect();
    let out: Vec<_> = (0..count)
        .map(|item| Rows::linear(target.at() + item * step, there.base + item * step, len(item)))
        .collect();
    copy(&stream, &into);
    copy(&stream, &out);
    stream.synchronize(MINUTE).expect("done");
    for item in 0..count {
        let (got, want) = (&target.inside()[item * step..][..step], &source.inside()[item * step..]);
        let (copied, rest) = got.split_at(len(item));
        assert!(copied == &want[..len(item)] && rest.iter().all(|byte| *byte == 0), "piece {item}");
    }
}

/// Memory of which a part is page-locked is pageable as a whole; the driver refuses such ranges.
#[test]
fn ranges_that_are_page_locked_in_part_are_copied() {
    let Some(gpu) = gpu("ranges_that_are_page_locked_in_part_are_copied") else { return };
    let stream = stream(&gpu);
    for len in [64 << 10, 5 * MIB] {
        let (source, there) = (Plain::of(0, &noise(3, len)), device(&gpu, len));
        let target = Plain::new(0, len, 0);
        gpu.register(source.at(), len / 2).expect("page-locked");
        gpu.register(target.at() + len / 2, len / 2).expect("page-locked");
        linear(&stream, there.base, source.at(), len);
        linear(&stream, target.at(), there.base, len);
        stream.synchronize(MINUTE).expect("done");
        assert!(target.inside() == source.inside(), "{len} bytes");
        for base in [source.at(), target.at() + len / 2] {
            gpu.free(base, |_| Ok(())).expect("let go");
        }
    }
}

#[test]
fn pageable_copies_keep_the_order_of_their_stream() {
    let Some(gpu) = gpu("pageable_copies_keep_the_order_of_their_stream") else { return };
    let (stream, len) = (stream(&gpu), 9 * MIB);
    let there = device(&gpu, len);
    let targets: Vec<_> = (1..=6).map(|_| Plain::new(0, len, 0)).collect();
    let threes = vec![33_u8; 4 * MIB];
    for (round, target) in targets.iter().enumerate() {
        fill(&stream, &there, round as u8 + 1);
        linear(&stream, there.base + MIB, threes.as_ptr() as usize, 4 * MIB);
        linear(&stream, target.at(), there.base, len);
    }
    stream.synchronize(MINUTE).expect("done");
    for (round, target) in targets.iter().enumerate() {
        let (inside, byte) = (target.inside(), round as u8 + 1);
        assert!(inside[MIB..5 * MIB].iter().all(|got| *got == 33), "round {round}");
        assert!(inside[..MIB].iter().chain(&inside[5 * MIB..]).all(|got| *got == byte), "round {round}");
    }
}

#[test]
fn many_threads_stage_at_once() {
    let Some(gpu) = gpu("many_threads_stage_at_once") else { return };
    let round = |thread: usize, round: usize, stream: &Stream| {
        let len = MIB + (thread * 5 + round * 3) * 300_001;
        let (there, source) = (device(&gpu, len), noise(thread * 100 + round, len));
        let mut target = vec![0_u8; len];
        linear(stream, there.base, source.as_ptr() as usize, len);
        linear(stream, target.as_mut_ptr() as usize, there.base, len);
        stream.synchronize(MINUTE).expect("done");
        assert!(source == target, "thread {thread}, round {round}");
        gpu.free(there.base, |_| Ok(())).expect("freed");
    };
    thread::scope(|scope| {
        for thread in 0..10 {
            let (gpu, round) = (&gpu, &round);
            scope.spawn(move || {
                let stream = gpu.stream(0, QueueOptions { waited: thread % 2 == 0 }).expect("a stream");
                (0..3).for_each(|number| round(thread, number, &stream));
            });
        }
    });
}

#[test]
fn many_threads_stage_small_copies() {
    let Some(gpu) = gpu("many_threads_stage_small_copies") else { return };
    let round = |thread: usize, round: usize, stream: &Stream, there: &Block| {
        let len = 1 + (thread * 7919 + round * 104_729) % 200_000;
        let (source, mut target) = (noise(thread * 1000 + round, len), vec![0_u8; len]);
        linear(stream, there.base, source.as_ptr() as usize, len);
        // Two of them, and none is waited for.
        let half = len / 2;
        linear(stream, target.as_mut_ptr() as usize, there.base, half);
        linear(stream, target.as_mut_ptr() as usize + half, there.base + half, len - half);
        stream.synchronize(MINUTE).expect("done");
        assert!(source == target, "thread {thread}, round {round}");
    };
    thread::scope(|scope| {
        for thread in 0..8 {
            let (gpu, round) = (&gpu, &round);
            scope.spawn(move || {
                let stream = gpu.stream(0, QueueOptions { waited: thread % 4 > 0 }).expect("a stream");
                let there = device(gpu, 200_000);
                (0..60).for_each(|number| round(thread, number, &stream, &there));
            });
        }
    });
}

/// Each call of the driver takes 0.3 to 2 us, as long as a part of such a copy.
#[test]
fn a_small_synchronous_copy_takes_few_calls_of_the_driver() {
    lost::in_child("staging::few_calls", &[]);
}

#[test]
#[ignore = "run by a_small_synchronous_copy_takes_few_calls_of_the_driver"]
fn few_calls() {
    let Some(gpu) = super::gpu("few_calls") else { return };
    let stream = gpu.stream(0, QueueOptions { waited: true }).expect("a stream");
    let (there, plain, near) = (device(&gpu, MIB), vec![1_u8; MIB], locked(&gpu, &vec![1; MIB]));
    let once = |home: usize, len: usize, is_into: bool| {
        let (dst, src) = if is_into { (there.base, home) } else { (home, there.base) };
        linear(&stream, dst, src, len);
        stream.synchronize(MINUTE).expect("done");
    };
    let names = ["cuCtxPushCurrent", "cuPointerGetAttributes", "cuMemcpyAsync", "cuStreamWriteValue64"];
    let (plain, pinned) = (plain.as_ptr() as usize, near.base);
    // To enter the context and ask what the memory is, where the driver may know; and to copy.
    for (home, len, want) in [
        (plain, 64, [2, 1, 1, 1]),
        (plain, 4096, [2, 1, 1, 1]),
        (plain, 65_536, [2, 1, 1, 1]),
        (plain, 262_144, [2, 1, 2, 2]),
        (pinned, 4096, [1, 0, 1, 1]),
        (pinned, MIB, [1, 0, 1, 1]),
    ] {
        for is_into in [true, false] {
            once(home, len, is_into);
            let all = ["cuStreamSynchronize", "cuEventRecord", "cuStreamQuery"];
            let mut others = None;
            let calls = ends::counted(names, || others = ends::counted(all, || once(home, len, is_into)));
            // A busy machine may let the stand-in take longer than a thread looks at a number.
            if others == Some([0; 3]) {
                assert_eq!(calls, Some(want), "{len} bytes, into: {is_into}");
            }
        }
    }
}

/// A question to the driver takes longer than 4 KiB take on the link.
#[test]
fn a_pageable_batch_asks_the_driver_about_few_of_its_pieces() {
    lost::in_child("staging::few_questions", &[]);
}

#[test]
#[ignore = "run by a_pageable_batch_asks_the_driver_about_few_of_its_pieces"]
fn few_questions() {
    let Some(gpu) = super::gpu("few_questions") else { return };
    if reductions::host().backend().survey().is_none() {
        return eprintln!("skipped: this system does not tell of mappings one by one");
    }
    const COUNT: usize = 500;
    let (stream, there) = (stream(&gpu), device(&gpu, COUNT * 4096));
    let (source, target) = (noise(9, COUNT * 8192), vec![0_u8; COUNT * 8192]);
    let piece = |item: usize| (there.base + item * 4096, item * 8192 + item % 7, 1 + item * 8 % 4096);
    let pieces = |is_into: bool| {
        let rows = |item: usize| match (piece(item), is_into) {
            ((there, place, len), true) => Rows::linear(there, source.as_ptr() as usize + place, len),
            ((there, place, len), false) => Rows::linear(target.as_ptr() as usize + place, there, len),
        };
        (0..COUNT).map(rows).collect::<Vec<_>>()
    };
    for is_into in [true, false] {
        let rows = pieces(is_into);
        let asked = ends::counted(["cuPointerGetAttributes"], || copy(&stream, &rows));
        stream.synchronize(MINUTE).expect("done");
        let few = asked.is_none_or(|[asked]| (1..=4).contains(&asked));
        assert!(few, "{asked:?} questions, into: {is_into}");
    }
    for item in 0..COUNT {
        let (_, place, len) = piece(item);
        assert!(source[place..][..len] == target[place..][..len], "piece {item}");
    }
}

/// Memory that is gone when a copy runs is the copy's failure; if the driver met it, the process would end.
#[test]
fn small_copies_whose_memory_is_gone_fail() {
    let Some(gpu) = gpu("small_copies_whose_memory_is_gone_fail") else { return };
    if are_shared() {
        return eprintln!("skipped: what is in a shared stream is not told apart");
    }
    let there = device(&gpu, MIB);
    for (len, is_into) in [(64, true), (4096, false), (200_000, true), (MIB / 2, false)] {
        let (stream, flags) = (stream(&gpu), libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: new memory, at a place that the kernel picks.
        let at = unsafe { libc::mmap(ptr::null_mut(), len, rights, flags, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        let open = block(&stream);
        let (dst, src) = if is_into { (there.base, at as usize) } else { (at as usize, there.base) };
        linear(&stream, dst, src, len);
        // SAFETY: the test's own. Nothing of it is left, but no other memory comes to its place.
        assert_eq!(unsafe { libc::mprotect(at, len, libc::PROT_NONE) }, 0);
        drop(open);
        let why = stream.synchronize(MINUTE).expect_err("its memory is gone");
        assert_eq!(why.kind, Kind::BadAddress, "{why}");
        // What comes later is done.
        fill(&stream, &there, 0x77);
        stream.synchronize(MINUTE).expect("done");
        assert!(fetch(&gpu, there.base, 64) == [0x77; 64]);
    }
}

/// Where there is no page-locked memory, the driver refuses a part, or the GPU fails.
#[test]
fn staging_goes_on_or_fails_where_the_driver_fails() {
    let calls = ["cuMemHostAlloc", "cuMemcpyAsync", "cuStreamWriteValue64", "cuEventRecord"];
    let mut fails: Vec<_> =
        calls.iter().flat_map(|call| [format!("{call}:1:2"), format!("{call}:3:1")]).collect();
    fails.extend((1..6).map(|turn| format!("work:{turn}:700")));
    for fail in fails {
        lost::in_child("staging::failures_while_staging_are_told_or_overcome", &[("STANDIN_FAIL", &fail)]);
    }
}

/// Copies that wait for another one must not keep from it what it needs.
#[test]
fn copies_behind_a_wait_leave_room_for_the_one_they_wait_for() {
    let Some(gpu) = gpu("copies_behind_a_wait_leave_room_for_the_one_they_wait_for") else { return };
    let (first, len) = (stream(&gpu), 3 * MIB);
    let (there, source) = (device(&gpu, len), noise(1, len));
    let others: Vec<_> = (0..20).map(|_| (stream(&gpu), vec![0_u8; len])).collect();
    let opened = block(&first);
    linear(&first, there.base, source.as_ptr() as usize, len);
    let behind = first.fence().expect("a fence");
    for (stream, target) in &others {
        stream.wait_for(behind.clone()).expect("queued");
        linear(stream, target.as_ptr() as usize, there.base, len);
    }
    drop(opened);
    for (stream, target) in &others {
        stream.synchronize(MINUTE).expect("done");
        assert!(*target == source);
    }
}

#[test]
fn page_locked_memory_rests_and_is_used_again() {
    let Some(gpu) = gpu("page_locked_memory_rests_and_is_used_again") else { return };
    for (len, rounds) in [(100, 3000), (300_000, 2400)] {
        let mut seen = std::collections::HashSet::new();
        let mut last = 0;
        for round in 0..rounds {
            let block = alloc(&gpu, Home::Host, len);
            assert_ne!(block.base, last, "{len} bytes, round {round}: it rests");
            last = block.base;
            seen.insert(block.base);
            // SAFETY: page-locked memory of ours.
            unsafe { ptr::write_bytes(block.base as *mut u8, round as u8, len) };
            gpu.free(block.base, |_| Ok(())).expect("freed");
            let place = gpu.memory().place(block.base, len, Access::Read).map_err(|error| error.kind);
            assert_eq!(place, Err(Kind::BadAddress), "{len} bytes, round {round}: freed");
        }
        assert!(seen.len() < rounds / 2, "{len} bytes: {} pieces", seen.len());
    }
}

/// Blocks next to each other in a slab are told apart.
#[test]
fn small_page_locked_blocks_keep_to_themselves() {
    let Some(gpu) = gpu("small_page_locked_blocks_keep_to_themselves") else { return };
    let lengths = [1, 64, 4096, 5000, 70_000, 262_144, 262_145];
    let blocks: Vec<_> = (0..200).map(|item| alloc(&gpu, Home::Host, lengths[item % 7])).collect();
    for (item, block) in blocks.iter().enumerate() {
        // SAFETY: page-locked memory of ours.
        unsafe { ptr::write_bytes(block.base as *mut u8, item as u8, block.len) };
    }
    for (item, block) in blocks.iter().enumerate() {
        assert!(read(block).iter().all(|byte| *byte == item as u8), "block {item}");
        let beyond = gpu.memory().place(block.base, block.len + 1, Access::Read).map_err(|error| error.kind);
        assert_eq!(beyond, Err(Kind::OutOfBounds), "block {item}");
    }
}

#[test]
#[ignore = "run by staging_goes_on_or_fails_where_the_driver_fails"]
fn failures_while_staging_are_told_or_overcome() {
    let Some(gpu) = gpu("failures_while_staging_are_told_or_overcome") else { return };
    let most = 20 * MIB + 5;
    let (there, source) = (device(&gpu, most), noise(1, most));
    let ordinary = stream(&gpu);
    let waited = gpu.stream(0, QueueOptions { waited: true }).expect("a stream");
    let plan = |dst, src, len| {
        let rows = [Rows::linear(dst, src, len)];
        Plan::new(rows, gpu.memory(), |_, _| Ok(())).map(Op::Copy).map_err(|misfit| misfit.error)
    };
    let lengths = [4096, 300_000, most, 64];
    for (stream, len) in lengths.into_iter().flat_map(|len| [(&ordinary, len), (&waited, len)]) {
        let (target, from) = (vec![0_u8; len], source.as_ptr() as usize);
        // SAFETY: source and target live until the stream is synchronised, or refused both.
        let into = unsafe { stream.submit::<Error>(|_| plan(there.base, from, len)) };
        // SAFETY: as above.
        let out = unsafe { stream.submit::<Error>(|_| plan(target.as_ptr() as usize, there.base, len)) };
        let done = stream.synchronize(MINUTE);
        match into.and(out).map(drop).and(done) {
            Ok(()) => assert!(target == source[..len]),
            // A lost device takes no more copies.
            Err(why) => {
                let kinds = [Kind::Device, Kind::Fault, Kind::BadMemory, Kind::Lost];
                assert!(kinds.contains(&why.kind), "{why}");
                return eprintln!("told: {why}");
            }
        }
    }
}

/// Who waits at once copies inside the host himself, but not before the stream gets there.
#[test]
fn copies_inside_the_host_keep_the_order_of_a_synchronous_queue() {
    let Some(gpu) = gpu("copies_inside_the_host_keep_the_order_of_a_synchronous_queue") else { return };
    let stream = gpu.stream(0, QueueOptions { waited: true }).expect("a stream");
    let (len, there) = (8 * MIB, device(&gpu, 8 * MIB));
    let (near, target) = (locked(&gpu, &vec![0; len]), vec![0_u8; len]);
    for round in 1..=5 {
        fill(&stream, &there, round);
        linear(&stream, near.base, there.base, len);
        linear(&stream, target.as_ptr() as usize, near.base, len);
        submit(&stream, || Op::Fill(Fill { dst: near.at, len, pattern: [0; 4], device: None }));
        stream.synchronize(MINUTE).expect("done");
        assert!(target.iter().all(|byte| *byte == round), "round {round}");
        assert!(read(&near).iter().all(|byte| *byte == 0), "round {round}");
    }
}
