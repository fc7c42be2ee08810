//! Copies through descriptors: one, many in a row, bad ones, and those of memory that is gone.

use super::{lost::in_child, *};
use ferry_core::indirect::{self, DESCRIPTOR_WORDS};

fn copy_through(at: &Block, offset: usize) -> Op {
    through(Through::Descriptor { at: at.at + offset, user: at.base + offset })
}

#[test]
fn descriptors_are_read_when_the_copy_runs() {
    let Some(gpu) = gpu("descriptors_are_read_when_the_copy_runs") else { return };
    let stream = stream(&gpu);
    let (slot, from, to) = (device(&gpu, 200), device(&gpu, MIB), device(&gpu, MIB));
    let source = locked(&gpu, &noise(3, MIB));
    for (at, dst, src, len) in
        [(0, 0, 0, MIB), (64, 1, 0, 100_001), (3, 16, 32, 70_000), (0, 5, 9, 0), (8, 7, 7, 15)]
    {
        let words = locked(&gpu, &descriptor(&gpu, to.base + dst, from.base + src, len));
        // Held, so that the descriptor is written long after the copy through it was submitted.
        let open = block(&stream);
        submit(&stream, || Op::Fill(Fill { dst: to.at, len: MIB, pattern: [0x55; 4], device: Some(0) }));
        linear(&stream, slot.base + at, words.base, DESCRIPTOR_LEN);
        linear(&stream, from.base, source.base, MIB);
        submit(&stream, || through(Through::Descriptor { at: slot.at + at, user: slot.base + at }));
        drop(open);
        stream.synchronize(MINUTE).expect("done");
        let mut want = vec![0x55; MIB];
        want[dst..dst + len].copy_from_slice(&read(&source)[src..src + len]);
        assert!(fetch(&gpu, to.base, MIB) == want, "{len} bytes from {src} to {dst}");
    }
}

#[test]
fn memory_of_the_librarys_own_is_not_taken_for_another_librarys() {
    in_child("descriptors::memory_around_the_users", &[]);
}

#[test]
#[ignore = "run by memory_of_the_librarys_own_is_not_taken_for_another_librarys"]
fn memory_around_the_users() {
    let Some(gpu) = gpu("memory_around_the_users") else { return };
    let (stream, slot, there) = (stream(&gpu), device(&gpu, 200), device(&gpu, 8192));
    let words = locked(&gpu, &descriptor(&gpu, there.base, there.base + 4096, 4096));
    linear(&stream, slot.base, words.base, DESCRIPTOR_LEN);
    // Takes memory for what descriptor copies need, next to what was allocated last.
    submit(&stream, || copy_through(&slot, 0));
    stream.synchronize(MINUTE).expect("done");
    let blocks = [&slot, &there, &words];
    let is_users =
        |addr: usize| blocks.iter().any(|block| (block.base..block.base + block.len).contains(&addr));
    for addr in blocks.iter().flat_map(|block| (block.base..block.base + MIB / 4).step_by(512)) {
        let found = gpu.memory().place(addr, 1, Access::Read);
        assert!(
            is_users(addr) || found.as_ref().map_or(true, |place| place.is_plain()),
            "{addr:#x}: {found:?}"
        );
    }
}

#[test]
fn a_descriptor_may_move_within_overlapping_memory_and_over_itself() {
    let Some(gpu) = gpu("a_descriptor_may_move_within_overlapping_memory_and_over_itself") else { return };
    let (stream, len) = (stream(&gpu), 100_000);
    let there = device(&gpu, len + 100);
    let mut want = noise(8, len + 100);
    want[40..][..DESCRIPTOR_LEN].copy_from_slice(&descriptor(&gpu, there.base, there.base + 7, len));
    linear(&stream, there.base, locked(&gpu, &want).base, want.len());
    submit(&stream, || through(Through::Descriptor { at: there.at + 40, user: there.base + 40 }));
    stream.synchronize(MINUTE).expect("done");
    want.copy_within(7..7 + len, 0);
    assert!(fetch(&gpu, there.base, want.len()) == want);
}

#[test]
fn a_bad_descriptor_touches_nothing_and_is_told_at_synchronize() {
    let Some(gpu) = gpu("a_bad_descriptor_touches_nothing_and_is_told_at_synchronize") else { return };
    let stream = stream(&gpu);
    let (slot, from, to) = (device(&gpu, 64), device(&gpu, 4096), device(&gpu, 4096));
    let good = descriptor(&gpu, to.base, from.base, 4096);
    for byte in (0..DESCRIPTOR_LEN).step_by(3) {
        let mut bent = good.clone();
        bent[byte] ^= 0x10;
        let (bent, good) = (locked(&gpu, &bent), locked(&gpu, &good));
        submit(&stream, || Op::Fill(Fill { dst: to.at, len: 4096, pattern: [1; 4], device: Some(0) }));
        submit(&stream, || Op::Fill(Fill { dst: from.at, len: 4096, pattern: [2; 4], device: Some(0) }));
        linear(&stream, slot.base, bent.base, DESCRIPTOR_LEN);
        let before = stream.mark().expect("marked");
        let copy = || through(Through::Descriptor { at: slot.at, user: slot.base });
        (0..40).for_each(|_| submit(&stream, copy));
        let after = stream.mark().expect("marked");
        let why = stream.synchronize(MINUTE).expect_err("a bad descriptor");
        if byte == 0 {
            println!("bad descriptor: {:?}: {why}", why.kind);
        }
        assert_eq!(why.kind, Kind::BadDescriptor, "{why}");
        let told = format!("test: the descriptor at {:#x} was never set or has been overwritten", slot.base);
        assert!(why.note.starts_with(&told), "{why}");
        assert!(!before.failed() && after.failed(), "marks know of failures before them");
        assert!(fetch(&gpu, to.base, 4096) == [1; 4096], "nothing was touched");
        linear(&stream, slot.base, good.base, DESCRIPTOR_LEN);
        submit(&stream, copy);
        stream.synchronize(MINUTE).expect("the stream goes on");
        assert!(fetch(&gpu, to.base, 4096) == [2; 4096]);
    }
}

/// Numbers that look like chance, always the same.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below
    }
}

/// Where the ends of the copies of a row lie: destination, source, length, in memory of this many bytes.
type Lay = fn(dice: &mut Dice, number: usize) -> (usize, usize, usize);

const ARENA: usize = 1 << 20;
/// Descriptors lie here and up, with no room between them.
const DESCRIPTORS: usize = ARENA - COUNT * DESCRIPTOR_LEN;
const COUNT: usize = 600;

/// Rows of copies that have nothing to do with each other, and rows of those that have.
const LAYS: [(&str, Lay); 5] = [
    ("apart", |_, number| (number * 700, 450_000 + number * 700, 700)),
    ("apart, in any order", |dice, number| {
        (number * 7 % COUNT * 700 + 3, 450_000 + number * 700, dice.roll(690))
    }),
    ("each reads what the one before wrote", |_, number| ((number + 1) * 512, number * 512, 512)),
    ("anywhere", |dice, _| (dice.roll(900_000), dice.roll(900_000), dice.roll(5000))),
    ("over descriptors", |dice, number| {
        let is_over = number == 100 || number == 300;
        (if is_over { DESCRIPTORS + dice.roll(20_000) } else { number * 700 }, 450_000 + number * 700, 700)
    }),
];

/// What the copies make of the arena, one after the other, and which of them have no descriptor any more.
fn one_after_the_other(gpu: &Runtime, arena: &mut [u8], base: usize) -> Vec<usize> {
    let mut failed = Vec::new();
    for number in 0..COUNT {
        let bytes = &arena[DESCRIPTORS + number * DESCRIPTOR_LEN..][..DESCRIPTOR_LEN];
        let word = |index: usize| u64::from_ne_bytes(bytes[8 * index..][..8].try_into().expect("8 bytes"));
        let words: [u64; DESCRIPTOR_WORDS] = std::array::from_fn(word);
        match indirect::open(gpu.memory().seal_key(), &words) {
            Some((dst, src, len)) => arena.copy_within(src - base..src - base + len, dst - base),
            None => failed.push(number),
        }
    }
    failed
}

#[test]
fn many_copies_in_a_row_are_done_as_if_one_after_the_other() {
    let Some(gpu) = gpu("many_copies_in_a_row_are_done_as_if_one_after_the_other") else { return };
    let (stream, there) = (stream(&gpu), device(&gpu, ARENA));
    for (name, lay) in LAYS {
        for breaks in [false, true] {
            let mut dice = Dice(COUNT as u64);
            let mut arena = noise(name.len(), ARENA);
            for number in 0..COUNT {
                let (dst, src, len) = lay(&mut dice, number);
                let mut words = descriptor(&gpu, there.base + dst, there.base + src, len);
                words[3] ^= u8::from(breaks && number % 77 == 5);
                arena[DESCRIPTORS + number * DESCRIPTOR_LEN..][..DESCRIPTOR_LEN].copy_from_slice(&words);
            }
            linear(&stream, there.base, locked(&gpu, &arena).base, ARENA);
            // Held, so that all are there before the first one runs.
            let open = block(&stream);
            for number in 0..COUNT {
                submit(&stream, || copy_through(&there, DESCRIPTORS + number * DESCRIPTOR_LEN));
            }
            drop(open);
            let told = stream.synchronize(MINUTE).err();
            let failed = one_after_the_other(&gpu, &mut arena, there.base);
            assert!(fetch(&gpu, there.base, ARENA) == arena, "{name}");
            let first = failed.first().map(|number| there.base + DESCRIPTORS + number * DESCRIPTOR_LEN);
            assert_eq!(told.is_some(), first.is_some(), "{name}: {told:?}");
            if let (Some(told), Some(first)) = (told, first) {
                assert!(
                    told.note.contains(&format!("{first:#x}")),
                    "{name}: the first one that failed: {told}"
                );
            }
        }
    }
}

/// Each op reads what the one before it wrote. Descriptors that are sent while the GPU is busy join a launch
/// that waits in the stream, which must have nothing behind it.
#[test]
fn other_work_keeps_its_place_among_copies_through_descriptors() {
    let Some(gpu) = gpu("other_work_keeps_its_place_among_copies_through_descriptors") else { return };
    const LINKS: usize = 700;
    let (chain, large, locked_one) =
        (device(&gpu, 64 * (LINKS + 2)), device(&gpu, 16 * MIB), alloc(&gpu, Home::Host, 64));
    let link = |number: usize| chain.base + 64 * number;
    let words: Vec<u8> =
        (0..LINKS).flat_map(|number| descriptor(&gpu, link(number + 1), link(number), 64)).collect();
    let slots = device(&gpu, words.len());
    for round in 0..8 {
        let (stream, mut dice, seed) = (stream(&gpu), Dice(round), noise(round as usize, 64));
        linear(&stream, slots.base, locked(&gpu, &words).base, words.len());
        submit(&stream, || {
            Op::Fill(Fill { dst: chain.at, len: chain.len, pattern: [9; 4], device: Some(0) })
        });
        linear(&stream, chain.base, locked(&gpu, &seed).base, 64);
        (0..8).for_each(|_| linear(&stream, large.base, large.base + 8 * MIB, 8 * MIB));
        for number in 0..LINKS {
            match dice.roll(40 << round) {
                0 => linear(&stream, link(number + 1), link(number), 64),
                1 => {
                    linear(&stream, locked_one.base, link(number), 64);
                    linear(&stream, link(number + 1), locked_one.base, 64);
                }
                // Overlaps, and so is not gathered.
                2 => linear(&stream, link(number + 1), link(number), 65),
                what => {
                    if what == 3 {
                        stream.mark().expect("marked");
                    }
                    submit(&stream, || copy_through(&slots, number * DESCRIPTOR_LEN));
                }
            }
        }
        stream.synchronize(MINUTE).expect("done");
        let end = fetch(&gpu, chain.base, 64 * (LINKS + 1));
        let broken = end.chunks(64).position(|bytes| bytes != seed);
        assert_eq!(broken, None, "round {round}: the first link that is not as the one before it");
    }
}

#[test]
fn a_descriptor_of_memory_that_is_gone_touches_nothing_and_is_told() {
    let Some(gpu) = gpu("a_descriptor_of_memory_that_is_gone_touches_nothing_and_is_told") else { return };
    let (stream, slot, stays) = (stream(&gpu), device(&gpu, DESCRIPTOR_LEN), device(&gpu, 4096));
    for is_source in [true, false] {
        for is_queued in [false, true] {
            let goes = device(&gpu, 4096);
            let (dst, src) = if is_source { (stays, goes) } else { (goes, stays) };
            let words = locked(&gpu, &descriptor(&gpu, dst.base, src.base, 4096));
            submit(&stream, || Op::Fill(Fill { dst: stays.at, len: 4096, pattern: [7; 4], device: Some(0) }));
            linear(&stream, slot.base, words.base, DESCRIPTOR_LEN);
            submit(&stream, || copy_through(&slot, 0));
            stream.synchronize(MINUTE).expect("it is there");
            submit(&stream, || Op::Fill(Fill { dst: stays.at, len: 4096, pattern: [8; 4], device: Some(0) }));
            let open = block(&stream);
            if is_queued {
                submit(&stream, || copy_through(&slot, 0));
            }
            gpu.free(goes.base, |_| Ok(())).expect("freed");
            if !is_queued {
                submit(&stream, || copy_through(&slot, 0));
            }
            drop(open);
            let why = stream.synchronize(MINUTE).expect_err("it is gone");
            assert_eq!(why.kind, Kind::BadDescriptor, "{why}");
            assert!(why.note.contains(&format!("{:#x}", goes.base)), "{why}");
            assert!(fetch(&gpu, stays.base, 4096) == [8; 4096], "nothing was touched");
        }
    }
}

/// Memory that is too large to rest comes back with the next allocation. It is another one, and no descriptor
/// of the old one is good for it.
#[test]
fn a_descriptor_of_an_address_that_was_given_out_anew_is_told() {
    let Some(gpu) = gpu("a_descriptor_of_an_address_that_was_given_out_anew_is_told") else { return };
    let (stream, slot, to) = (stream(&gpu), device(&gpu, DESCRIPTOR_LEN), device(&gpu, 4096));
    let old = device(&gpu, 80 * MIB);
    linear(&stream, slot.base, locked(&gpu, &descriptor(&gpu, to.base, old.base, 4096)).base, DESCRIPTOR_LEN);
    stream.synchronize(MINUTE).expect("done");
    gpu.free(old.base, |_| Ok(())).expect("freed");
    let new = device(&gpu, 80 * MIB);
    if new.base != old.base {
        return eprintln!("the driver gave another address: nothing to try");
    }
    submit(&stream, || copy_through(&slot, 0));
    let why = stream.synchronize(MINUTE).expect_err("of another allocation");
    assert_eq!(why.kind, Kind::BadDescriptor, "{why}");
    assert!(why.note.contains("set it again"), "{why}");
}
