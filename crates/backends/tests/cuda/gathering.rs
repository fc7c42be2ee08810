//! Small copies that follow each other are gathered and sent as one: what must not be seen of it.

use super::*;
use ferry_core::Purpose;
use std::time::Instant;

/// More than a window takes. It is also more than a CUDA stream takes before its caller has to wait: a shared
/// one must not be held meanwhile.
const MANY: usize = 3000;
const PIECE: usize = 100;

/// Copies that a busy stream needs until the next ones are gathered, as a rule: somebody has to wake for it.
const WARM: u64 = 200;

/// A stream that is busy, so that what comes next is gathered. It has had `WARM + 1` ops.
fn busy(gpu: &Runtime) -> Arc<Stream> {
    let (stream, there, host) = (stream(gpu), device(gpu, 4 * MIB), alloc(gpu, Home::Host, 4 * MIB));
    (0..WARM).for_each(|_| linear(&stream, there.base, host.base, 8));
    linear(&stream, there.base, host.base, 4 * MIB);
    for block in [there, host] {
        gpu.free(block.base, |_| Ok(())).expect("freed");
    }
    stream
}

/// Writes page-locked memory that nothing in flight uses.
fn write(block: &Block, bytes: &[u8]) {
    assert!(bytes.len() <= block.len);
    // SAFETY: page-locked memory of at least that length.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), block.base as *mut u8, bytes.len()) };
}

/// Copies `count` pieces, the last one first.
fn scatter(stream: &Stream, dst: usize, src: usize, count: usize) {
    (0..count).for_each(|at| linear(stream, dst + (count - 1 - at) * PIECE, src + at * PIECE, PIECE));
}

/// What `scatter` makes of the source.
fn scattered(source: &[u8]) -> Vec<u8> {
    source.chunks(PIECE).rev().flatten().copied().collect()
}

/// Waits until a copy that nobody waits for has written the last byte of page-locked memory.
pub fn await_end(block: &Block, len: usize) {
    let limit = Instant::now() + MINUTE.expect("a minute");
    // SAFETY: a byte of page-locked memory that a copy in flight writes.
    while unsafe { ptr::read_volatile((block.base + len - 1) as *const u8) } == 0 {
        assert!(Instant::now() < limit, "nobody has sent it");
    }
}

#[test]
fn many_small_copies_arrive() {
    let Some(gpu) = gpu("many_small_copies_arrive") else { return };
    let (stream, len) = (busy(&gpu), MANY * PIECE);
    let (source, target) = (locked(&gpu, &noise(1, len)), locked(&gpu, &vec![0; len]));
    let (one, two) = (device(&gpu, len), device(&gpu, len));
    for gates in [false, true] {
        let open = (gates && !are_shared()).then(|| block(&stream));
        scatter(&stream, one.base, source.base, MANY);
        scatter(&stream, two.base, one.base, MANY);
        scatter(&stream, target.base, two.base, MANY);
        drop(open);
        stream.synchronize(MINUTE).expect("done");
        assert!(read(&target) == scattered(&read(&source)), "there and back, and turned once more: {gates}");
        write(&target, &vec![0; len]);
    }
    let tickets = WARM + 1 + 2 * 3 * MANY as u64 + u64::from(!are_shared());
    assert_eq!(stream.status().passed(), tickets, "each has its ticket");
}

#[test]
fn gathered_copies_are_sent_though_nobody_waits() {
    let Some(gpu) = gpu("gathered_copies_are_sent_though_nobody_waits") else { return };
    let (there, source) = (device(&gpu, 4 * PIECE), locked(&gpu, &[7; 4 * PIECE]));
    for count in [1, 2, 4] {
        let (stream, target) = (busy(&gpu), locked(&gpu, &[0; 4 * PIECE]));
        scatter(&stream, there.base, source.base, 4);
        scatter(&stream, target.base + (4 - count) * PIECE, there.base, count);
        await_end(&target, 4 * PIECE);
        // Those that came first are there by now.
        stream.synchronize(MINUTE).expect("done");
    }
}

#[test]
fn a_later_copy_that_overlaps_comes_later() {
    let Some(gpu) = gpu("a_later_copy_that_overlaps_comes_later") else { return };
    let (stream, there) = (busy(&gpu), device(&gpu, 4096));
    let (source, target) = (locked(&gpu, &noise(3, 256 * 8)), locked(&gpu, &vec![0; 256 * 8]));
    for round in 0..20 {
        // Everybody writes to one place, and what was there is fetched each time.
        for at in 0..256 {
            linear(&stream, there.base + round, source.base + 8 * at, 8);
            linear(&stream, there.base + 1000, there.base + round, 8);
            linear(&stream, target.base + 8 * at, there.base + 1000, 8);
        }
        stream.synchronize(MINUTE).expect("done");
        assert!(read(&target) == read(&source), "round {round}");
        // Each writes over half of the one before.
        (0..256).for_each(|at| linear(&stream, there.base + 4 * at, source.base + 8 * at, 8));
        stream.synchronize(MINUTE).expect("done");
        let (got, from) = (fetch(&gpu, there.base, 4 * 257), read(&source));
        let want: Vec<u8> = (0..256).flat_map(|at| from[8 * at..][..4].to_vec()).collect();
        assert!(got[..1024] == want && got[1024..] == from[2044..], "round {round}");
    }
}

#[test]
fn an_event_stands_behind_gathered_copies() {
    let Some(gpu) = gpu("an_event_stands_behind_gathered_copies") else { return };
    let (other, len) = (stream(&gpu), 20 * PIECE);
    let (source, target, there) =
        (locked(&gpu, &noise(1, len)), locked(&gpu, &vec![0; len]), device(&gpu, len));
    for round in 0..50 {
        let first = busy(&gpu);
        scatter(&first, there.base, source.base, 20);
        let fence = match round % 2 {
            0 => first.mark().expect("a mark"),
            _ => first.fence().expect("a fence"),
        };
        other.wait_for(fence.clone()).expect("submitted");
        // Behind the fence, and in its stream at any time.
        scatter(&first, there.base, source.base, 20);
        scatter(&other, target.base, there.base, 20);
        other.synchronize(MINUTE).expect("done");
        assert!(fence.is_done() && read(&target) == read(&source), "round {round}");
        write(&target, &vec![0; len]);
        first.synchronize(MINUTE).expect("done");
    }
}

#[test]
fn a_function_comes_between_gathered_copies() {
    let Some(gpu) = gpu("a_function_comes_between_gathered_copies") else { return };
    let (stream, there, len) = (busy(&gpu), device(&gpu, 4 * PIECE), 4 * PIECE);
    let (source, target) = (locked(&gpu, &vec![0; len]), locked(&gpu, &vec![0; len]));
    let seen = Arc::new(Mutex::new(Vec::new()));
    for round in 1..=50_u8 {
        scatter(&stream, there.base, source.base, 4);
        scatter(&stream, target.base, there.base, 4);
        let seen = seen.clone();
        let function = move || {
            seen.lock().unwrap().push(read(&target));
            write(&source, &[round; 4 * PIECE]);
        };
        stream.call(function).expect("submitted");
    }
    stream.synchronize(MINUTE).expect("done");
    let seen = seen.lock().unwrap();
    assert!(seen.iter().zip(0_u8..).all(|(bytes, round)| *bytes == [round; 4 * PIECE]));
}

#[test]
fn other_work_keeps_its_place_among_gathered_copies() {
    let Some(gpu) = gpu("other_work_keeps_its_place_among_gathered_copies") else { return };
    let (stream, len) = (busy(&gpu), 64 * 1024);
    let (there, source) = (device(&gpu, len), locked(&gpu, &noise(1, len)));
    let (plain, mut want) = (noise(2, len), vec![0; len]);
    let mut word = 1_usize;
    let mut below = |end: usize| {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (word >> 33) % end
    };
    submit(&stream, || Op::Fill(Fill { dst: there.at, len, pattern: [0; 4], device: Some(0) }));
    for _ in 0..MANY {
        let (dst, src, size) = (below(len - 3000), below(len - 3000), 1 + below(3000));
        let at = there.base + dst;
        match below(12) {
            0 => {
                submit(&stream, || Op::Fill(Fill { dst: at, len: size, pattern: [9; 4], device: Some(0) }));
                want[dst..dst + size].fill(9);
            }
            // In order, without anybody's wait in between.
            1 => {
                linear(&stream, at, plain.as_ptr() as usize + src, size);
                want[dst..dst + size].copy_from_slice(&plain[src..src + size]);
            }
            2 => drop(stream.call(|| ()).expect("submitted")),
            3 => drop(stream.fence_after(stream.newest()).is_done()),
            4 => {
                let rows = [(dst, src), (dst + 200, src + 100)]
                    .map(|(to, from)| Rows::linear(there.base + to, source.base + from, size.min(100)));
                copy(&stream, &rows);
                let (size, from) = (size.min(100), read(&source));
                want[dst..dst + size].copy_from_slice(&from[src..src + size]);
                want[dst + 200..][..size].copy_from_slice(&from[src + 100..][..size]);
            }
            5..8 => {
                linear(&stream, at, there.base + src, size);
                want.copy_within(src..src + size, dst);
            }
            _ => {
                linear(&stream, at, source.base + src, size);
                // SAFETY: page-locked memory that nothing writes.
                let from = unsafe { std::slice::from_raw_parts((source.base + src) as *const u8, size) };
                want[dst..dst + size].copy_from_slice(from);
            }
        }
    }
    stream.synchronize(MINUTE).expect("done");
    assert!(fetch(&gpu, there.base, len) == want);
}

#[test]
fn a_fence_of_some_gathered_copy_is_done_when_that_is() {
    let Some(gpu) = gpu("a_fence_of_some_gathered_copy_is_done_when_that_is") else { return };
    let (there, source) = (device(&gpu, 10 * PIECE), locked(&gpu, &noise(4, 10 * PIECE)));
    for held in [false, true] {
        let stream = busy(&gpu);
        let open = held.then(|| block(&stream));
        scatter(&stream, there.base, source.base, 10);
        let (after, last) = (stream.fence_after(stream.newest() - 4), stream.newest());
        scatter(&stream, there.base, source.base, 10);
        let shut = block(&stream);
        scatter(&stream, there.base, source.base, 10);
        assert!(!held || !after.is_done());
        drop(open);
        after.wait(MINUTE).expect("what is behind it is not waited for");
        while !stream.has_passed(last + 10) {}
        assert!(!stream.has_passed(last + 11) && !stream.is_idle().expect("asked"), "held: {held}");
        drop(shut);
        stream.synchronize(MINUTE).expect("done");
        assert!(stream.is_idle().expect("asked"));
    }
}

#[test]
fn gathered_copies_are_waited_for_by_their_tickets() {
    let Some(gpu) = gpu("gathered_copies_are_waited_for_by_their_tickets") else { return };
    let (source, len) = (locked(&gpu, &noise(1, 8 * PIECE)), 8 * PIECE);
    let there = device(&gpu, len);
    for round in 0..50 {
        let (stream, target) = (busy(&gpu), locked(&gpu, &vec![0; len]));
        scatter(&stream, there.base, source.base, 8);
        scatter(&stream, target.base, there.base, 8);
        match round % 3 {
            0 => stream.fence_after(stream.newest()).wait(MINUTE).expect("done"),
            1 => stream.fence_after(stream.newest()).wait(None).expect("done"),
            _ => while !stream.has_passed(stream.newest()) {},
        }
        assert!(read(&target) == read(&source), "round {round}");
    }
}

#[test]
fn a_fence_does_not_wait_for_what_comes_later() {
    let Some(gpu) = gpu("a_fence_does_not_wait_for_what_comes_later") else { return };
    let (stream, len) = (stream(&gpu), 32 * MIB);
    let (one, two) = (device(&gpu, len), device(&gpu, len));
    // The later work takes long, but nobody knows how long: it need not be seen every time.
    let is_seen = (0..50).any(|_| {
        linear(&stream, one.base, two.base, 8);
        let fence = stream.fence().expect("a fence");
        (0..32).for_each(|_| linear(&stream, one.base, two.base, len));
        fence.wait(None).expect("done");
        let is_busy = !stream.is_idle().expect("asked");
        stream.synchronize(MINUTE).expect("done");
        is_busy
    });
    assert!(is_seen);
}

#[test]
fn an_abort_drops_gathered_copies_or_waits_for_them() {
    let Some(gpu) = gpu("an_abort_drops_gathered_copies_or_waits_for_them") else { return };
    let len = 200 * PIECE;
    let (there, source) = (device(&gpu, len), locked(&gpu, &vec![1; len]));
    let mut dropped = 0;
    for round in 0..40_u64 {
        let (stream, target) = (busy(&gpu), locked(&gpu, &vec![0; len]));
        scatter(&stream, there.base, source.base, 200);
        scatter(&stream, target.base, there.base, 200);
        (0..round * 500).for_each(|_| std::hint::spin_loop());
        stream.abort();
        let after = read(&target);
        assert_eq!(stream.status().passed(), WARM + 401, "round {round}: all of it is over");
        let told = stream.synchronize(MINUTE).map_err(|error| error.kind);
        assert!(told == Ok(()) || told == Err(Kind::Aborted), "round {round}: {told:?}");
        dropped += u32::from(told.is_err());
        assert!(told.is_err() || after == vec![1; len], "round {round}: dropped, and nobody was told");
        // What comes later is not dropped.
        linear(&stream, there.base, source.base, 1);
        stream.synchronize(MINUTE).expect("told once");
        assert!(read(&target) == after, "round {round}: no byte moves after an abort");
    }
    println!("{dropped} of 40 aborts came before all was sent");
}

#[test]
fn memory_of_gathered_copies_is_kept_when_it_is_freed() {
    let Some(gpu) = gpu("memory_of_gathered_copies_is_kept_when_it_is_freed") else { return };
    let (len, want) = (8 * PIECE, noise(2, 8 * PIECE));
    for round in 0..50_u8 {
        let (stream, other, target) = (busy(&gpu), stream(&gpu), locked(&gpu, &vec![0; len]));
        let (there, source) = (device(&gpu, len), locked(&gpu, &want));
        scatter(&stream, there.base, source.base, 8);
        scatter(&stream, target.base, there.base, 8);
        for block in [&there, &source] {
            gpu.free(block.base, |_| Ok(())).expect("freed at once");
        }
        let fresh = device(&gpu, len);
        submit(&other, || Op::Fill(Fill { dst: fresh.at, len, pattern: [0xee; 4], device: Some(0) }));
        write(&locked(&gpu, &vec![0xee; len]), &vec![0xdd; len]);
        other.synchronize(MINUTE).expect("done");
        stream.synchronize(MINUTE).expect("done");
        assert!(read(&target) == want, "round {round}");
    }
}

#[test]
fn gathered_copies_outlive_their_stream() {
    let Some(gpu) = gpu("gathered_copies_outlive_their_stream") else { return };
    let (there, source, len) = (device(&gpu, 8 * PIECE), locked(&gpu, &[5; 8 * PIECE]), 8 * PIECE);
    for _ in 0..20 {
        let (doomed, target) = (busy(&gpu), locked(&gpu, &vec![0; len]));
        scatter(&doomed, there.base, source.base, 8);
        (0..8).for_each(|at| linear(&doomed, target.base + at * PIECE, there.base + at * PIECE, PIECE));
        drop(doomed);
        await_end(&target, len);
    }
}

#[test]
fn streams_of_several_threads_gather_side_by_side() {
    let Some(gpu) = gpu("streams_of_several_threads_gather_side_by_side") else { return };
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let gpu = &gpu;
            scope.spawn(move || {
                let (stream, len) = (busy(gpu), 500 * PIECE);
                let (source, target) = (locked(gpu, &noise(seed, len)), locked(gpu, &vec![0; len]));
                let there = device(gpu, len);
                for round in 0..10 {
                    scatter(&stream, there.base, source.base, 500);
                    scatter(&stream, target.base, there.base, 500);
                    stream.synchronize(MINUTE).expect("done");
                    assert!(read(&target) == read(&source), "thread {seed}, round {round}");
                    write(&target, &vec![0; len]);
                }
            });
        }
    });
}

/// Device memory with a descriptor for each of these copies.
fn descriptors(gpu: &Runtime, copies: &[(usize, usize, usize)]) -> Block {
    let words: Vec<u8> =
        copies.iter().flat_map(|(dst, src, len)| descriptor(gpu, *dst, *src, *len)).collect();
    let (slots, words, stream) = (device(gpu, words.len()), locked(gpu, &words), stream(gpu));
    linear(&stream, slots.base, words.base, words.len);
    stream.synchronize(MINUTE).expect("done");
    slots
}

/// Submits a copy through the descriptor of this number.
fn follow(stream: &Stream, slots: &Block, number: usize) {
    let offset = number * DESCRIPTOR_LEN;
    submit(stream, || through(Through::Descriptor { at: slots.at + offset, user: slots.base + offset }));
}

#[test]
fn descriptors_that_are_gathered_are_followed_in_order() {
    let Some(gpu) = gpu("descriptors_that_are_gathered_are_followed_in_order") else { return };
    let (stream, count) = (busy(&gpu), 1500);
    let (there, source) = (device(&gpu, count * PIECE), locked(&gpu, &noise(7, PIECE)));
    // Each hands on what the one before has brought.
    let chain: Vec<_> =
        (1..count).map(|at| (there.base + at * PIECE, there.base + (at - 1) * PIECE, PIECE)).collect();
    let slots = descriptors(&gpu, &chain);
    for held in [false, !are_shared()] {
        submit(&stream, || {
            Op::Fill(Fill { dst: there.at, len: count * PIECE, pattern: [0; 4], device: Some(0) })
        });
        let open = held.then(|| block(&stream));
        linear(&stream, there.base, source.base, PIECE);
        (0..count - 1).for_each(|number| follow(&stream, &slots, number));
        linear(&stream, there.base, source.base, 1);
        drop(open);
        stream.synchronize(MINUTE).expect("done");
        let got = fetch(&gpu, there.base, count * PIECE);
        assert!(got.chunks(PIECE).all(|piece| piece == read(&source)), "held: {held}");
    }
    // One of many is bad: the others are followed, and the message is about that one.
    let bad = slots.base + 700 * DESCRIPTOR_LEN;
    submit(&stream, || Op::Fill(Fill { dst: bad, len: 8, pattern: [9; 4], device: Some(0) }));
    stream.synchronize(MINUTE).expect("done");
    (600..800).for_each(|number| follow(&stream, &slots, number));
    let why = stream.synchronize(MINUTE).expect_err("a bad one");
    assert!(why.kind == Kind::BadDescriptor && why.note.contains(&format!("{bad:#x}")), "{why}");
}

#[test]
fn a_descriptor_that_waits_may_come_to_name_mapped_memory() {
    let Some(gpu) = gpu("a_descriptor_that_waits_may_come_to_name_mapped_memory") else { return };
    if are_shared() {
        return eprintln!("skipped: nothing waits here, a shared stream has them already");
    }
    let (stream, there, source) = (stream(&gpu), device(&gpu, 4096), locked(&gpu, &noise(7, 4096)));
    linear(&stream, there.base, source.base, 4096);
    let slots = device(&gpu, DESCRIPTOR_LEN);
    let open = block(&stream);
    (0..3).for_each(|_| follow(&stream, &slots, 0));
    let base = gpu.reserve(MIB, MIB, 0, Purpose::Mappings).expect("addresses");
    let piece = gpu.physical(0, 4096, 4096).expect("memory");
    gpu.map(base, &piece).expect("mapped");
    let words = locked(&gpu, &descriptor(&gpu, base, there.base, 4096));
    let other = self::stream(&gpu);
    linear(&other, slots.base, words.base, DESCRIPTOR_LEN);
    other.synchronize(MINUTE).expect("done");
    drop(open);
    stream.synchronize(MINUTE).expect("followed by the host");
    assert!(fetch(&gpu, base, 4096) == read(&source));
}

/// Submits until the stream is known to have passed something, though nobody asks.
fn passes(stream: &Stream, most: usize, mut submit: impl FnMut()) {
    let first = stream.status().passed() + 1;
    let mut counts = || {
        submit();
        stream.status().passed() >= first
    };
    assert!((0..most).any(|_| counts()), "it keeps something for every copy");
    stream.synchronize(MINUTE).expect("done");
}

#[test]
fn a_stream_that_nobody_asks_about_is_known_to_pass_its_work() {
    let Some(gpu) = gpu("a_stream_that_nobody_asks_about_is_known_to_pass_its_work") else { return };
    let (there, source) = (device(&gpu, PIECE), locked(&gpu, &[7; PIECE]));
    let slots = descriptors(&gpu, &[(there.base, source.base, PIECE)]);
    let shared = stream(&gpu);
    shared.share().expect("shared");
    passes(&shared, 100_000, || follow(&shared, &slots, 0));
    // Now and then one, when the one before is done: nobody has to wake for that.
    let (alone, target) =
        (gpu.stream(0, QueueOptions::default()).expect("a stream"), locked(&gpu, &[0; PIECE]));
    passes(&alone, 1000, || {
        write(&target, &[0; PIECE]);
        linear(&alone, target.base, there.base, PIECE);
        await_end(&target, PIECE);
    });
}
