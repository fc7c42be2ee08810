//! How fast the host backend's copy routine is beside libc's memcpy: the routine alone by size and alignment,
//! rows by width, batches by block, one large copy, fills; with one thread and with two that take half each.
//! Run by hand, on a quiet machine:
//!
//! ```text
//! cargo bench -p ferry-backends --bench copy                # everything
//! cargo bench -p ferry-backends --bench copy -- 2d batch    # alone, 2d, batch, large or fill
//! ```
//!
//! We and memcpy take turns, sample by sample. Figures are of the fastest sample, which is the least
//! disturbed one, in GB/s of payload; ratios above one are ours. A harness of its own, since what counts is
//! the ratio of two that take turns in one run, which neither criterion nor divan prints.

use ferry_backends::bytes::copy::{self, Cursor};
use ferry_core::{Fill, Pieces, Rows};
use std::{
    hint,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Instant,
};

/// What one call of `advance` is given in the engine.
const SLICE: usize = 1 << 20;

fn main() {
    let asked: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let sections: [(&str, fn()); 5] =
        [("alone", alone), ("2d", rectangles), ("batch", batches), ("large", large), ("fill", fills)];
    for (name, section) in sections {
        if asked.is_empty() || asked.iter().any(|word| word == name) {
            println!("\n{name}");
            section();
        }
    }
}

/// 64 B to 1 MiB, hot, at alignments of both sides; the worst few of each size.
fn alone() {
    const OFFSETS: [usize; 14] = [0, 1, 3, 7, 16, 31, 32, 48, 63, 64, 65, 256, 1000, 4032];
    let (to, from) = (Memory::new(2 << 20), Memory::new(2 << 20));
    let (memcpy, routine) = (libc::memcpy as unsafe extern "C" fn(_, _, _) -> _, copy::range());
    println!("{:>9} {:>8} {:>8} {:>7}   worst", "bytes", "memcpy", "ours", "ratio");
    for len in (6..=20).map(|log| 1_usize << log).flat_map(|len| [len, len + len / 2 + 5]) {
        let mut cases = vec![];
        for (dst_offset, src_offset) in OFFSETS.iter().flat_map(|dst| [(*dst, 0), (*dst, 16), (*dst, 37)]) {
            let (dst, src) = (to.at(dst_offset), from.at(src_offset));
            let times = (256 << 10) / len + 1;
            // Calls that the compiler knows nothing about.
            let mut peer = || {
                for _ in 0..times {
                    // SAFETY: both ranges lie inside their buffers.
                    unsafe { hint::black_box(memcpy)(dst as *mut _, src as *const _, hint::black_box(len)) };
                }
            };
            let mut ours = || {
                for _ in 0..times {
                    // SAFETY: as above.
                    unsafe { hint::black_box(routine)(dst as *mut _, src as *const _, hint::black_box(len)) };
                }
            };
            // What looks slow is looked at again, for longer: most of it is the machine's mood.
            let mut measured = (f64::MAX, 0.0);
            for rounds in [15, 60, 240] {
                measured = against(&mut peer, &mut ours, rounds);
                if measured.1 < measured.0 * 1.05 {
                    break;
                }
            }
            let rate = |seconds: f64| (len * times) as f64 / seconds / 1e9;
            let (peer, ours) = (rate(measured.0), rate(measured.1));
            cases.push((ours / peer, peer, ours, dst_offset, src_offset));
        }
        cases.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (ratio, peer, ours, ..) = cases[cases.len() / 2];
        let worst = cases.iter().take(4);
        let worst: Vec<_> =
            worst.map(|case| format!("{:.2} at +{} <- +{}", case.0, case.3, case.4)).collect();
        println!("{len:>9} {peer:>8.1} {ours:>8.1} {ratio:>7.2}   {}", worst.join(", "));
    }
}

/// Rows of 16 B to 4 KiB, pitch twice the width on both sides.
fn rectangles() {
    header("payload, width");
    for payload in [4 << 20, 64 << 20] {
        let (to, from) = (Memory::new(2 * payload), Memory::new(2 * payload));
        for width in [16, 32, 48, 64, 100, 128, 256, 512, 1024, 2048, 4096] {
            let height = payload / width;
            let (pitch, dst, src) = (2 * width, to.at(0), from.at(0));
            let rows = |first: usize, height: usize| {
                let (dst, src) = (dst + first * pitch, src + first * pitch);
                Rows { dst, dst_pitch: pitch, src, src_pitch: pitch, width, height }
            };
            let half = height / 2;
            let halves = [vec![rows(0, half)], vec![rows(half, height - half)]];
            let peer = |rows: &Rows| {
                for row in 0..rows.height {
                    memcpy(rows.dst + row * pitch, rows.src + row * pitch, width);
                }
            };
            compare(&format!("{:>3} MiB {width}", payload >> 20), payload, &halves, &peer);
        }
    }
}

/// 4,096 blocks scattered over 1 GiB on each side.
fn batches() {
    const SPACE: usize = 1 << 30;
    header("block");
    let (to, from) = (Memory::new(SPACE), Memory::new(SPACE));
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed as usize
    };
    for block in [64, 256, 1 << 10, 4 << 10, 32 << 10] {
        let mut slots: Vec<usize> = (0..SPACE / block.max(4096)).collect();
        let mut scattered = |base: usize| -> Vec<usize> {
            for i in 0..4096 {
                let other = i + random() % (slots.len() - i);
                slots.swap(i, other);
            }
            slots[..4096].iter().map(|slot| base + slot * block.max(4096)).collect()
        };
        let pieces: Vec<Rows> = (scattered(to.at(0)).into_iter().zip(scattered(from.at(0))))
            .map(|(dst, src)| Rows::linear(dst, src, block))
            .collect();
        let halves = [pieces[..2048].to_vec(), pieces[2048..].to_vec()];
        compare(&block.to_string(), 4096 * block, &halves, &|rows| memcpy(rows.dst, rows.src, rows.width));
    }
}

/// One piece, cut in two for two threads; the peer is memcpy with one thread and with two.
fn large() {
    header("MiB");
    let (to, from) = (Memory::new(512 << 20), Memory::new(512 << 20));
    for len in [1, 2, 4, 8, 16, 32, 64, 512].map(|mib| mib << 20) {
        let half = len / 2;
        let part = |at: usize| vec![Rows::linear(to.at(at), from.at(at), half)];
        compare(&(len >> 20).to_string(), len, &[part(0), part(half)], &|rows| {
            memcpy(rows.dst, rows.src, rows.width)
        });
    }
}

/// Fills of one byte's value and of four, against memset.
fn fills() {
    println!("{:>16} {:>8} {:>8} {:>7} {:>8} {:>7}", "bytes", "memset", "ours", "ratio", "pattern", "ratio");
    let to = Memory::new(512 << 20);
    for len in [256, 4 << 10, 64 << 10, 1 << 20, 4 << 20, 32 << 20, 512 << 20] {
        let times = (1 << 20) / len + 1;
        let fill = |pattern: [u8; 4]| {
            let what = Fill { dst: to.at(1), len: len - 1, pattern, device: None };
            for _ in 0..times {
                let mut cursor = Cursor::default();
                // SAFETY: the range lies inside the buffer.
                while unsafe { copy::fill(&what, &mut cursor, SLICE) } == Ok(false) {}
            }
        };
        let memset = || {
            for _ in 0..times {
                let start = hint::black_box(to.at(1)) as *mut u8;
                // SAFETY: as above.
                unsafe { std::ptr::write_bytes(start, 7, len - 1) };
            }
        };
        let rate = |seconds: f64| (len * times) as f64 / seconds / 1e9;
        let (peer, ours) = against(&mut { memset }, &mut || fill([7; 4]), 9);
        let (peer_again, patterned) = against(&mut { memset }, &mut || fill([1, 2, 3, 4]), 9);
        println!(
            "{len:>16} {:>8.1} {:>8.1} {:>7.2} {:>8.1} {:>7.2}",
            rate(peer),
            rate(ours),
            peer / ours,
            rate(patterned),
            peer_again / patterned
        );
    }
}

fn header(what: &str) {
    println!(
        "{what:>16} {:>8} {:>8} {:>7} {:>9} {:>8} {:>7} {:>9}",
        "memcpy", "ours", "ratio", "2 memcpy", "2 ours", "2 to 2", "2 to 1"
    );
}

/// Prints how fast both halves are moved: by memcpy and by us, one after the other and by two threads.
fn compare(name: &str, payload: usize, halves: &[Vec<Rows>; 2], peer: &(dyn Fn(&Rows) + Sync)) {
    let ours = |half: usize| {
        let mut cursor = Cursor::default();
        // SAFETY: the rows lie inside their buffers, which nobody else touches.
        while unsafe { copy::advance_part(Pieces::Rows(&halves[half]), &mut cursor, SLICE, payload) }
            == Ok(false)
        {}
    };
    let peer = |half: usize| halves[half].iter().for_each(peer);
    let rounds = ((2 << 30) / payload).clamp(9, 200);
    let both = |work: &(dyn Fn(usize) + Sync)| [0, 1].into_iter().for_each(work);
    let second = Second::default();
    let [memcpy, one, two_memcpy, two] = thread::scope(|scope| {
        scope.spawn(|| second.serve(&[&ours, &peer]));
        let samples: Vec<[f64; 4]> = (0..rounds)
            .map(|_| {
                [
                    second_time(&|| both(&peer)),
                    second_time(&|| both(&ours)),
                    second_time(&|| second.along(1, &peer)),
                    second_time(&|| second.along(0, &ours)),
                ]
            })
            .collect();
        second.stop();
        std::array::from_fn(|which| best(samples.iter().map(|sample| sample[which])))
    });
    let rate = |seconds: f64| payload as f64 / seconds / 1e9;
    println!(
        "{name:>16} {:>8.2} {:>8.2} {:>7.2} {:>9.2} {:>8.2} {:>7.2} {:>9.2}",
        rate(memcpy),
        rate(one),
        memcpy / one,
        rate(two_memcpy),
        rate(two),
        two_memcpy / two,
        memcpy / two
    );
}

/// A thread that does the second half of some work as soon as it is asked to.
#[derive(Default)]
struct Second {
    asked: AtomicUsize,
    done: AtomicUsize,
}

impl Second {
    const STOP: usize = usize::MAX;

    fn serve(&self, works: &[&(dyn Fn(usize) + Sync)]) {
        loop {
            match self.asked.swap(0, Ordering::Acquire) {
                0 => hint::spin_loop(),
                Self::STOP => return,
                work => {
                    works[work - 1](1);
                    self.done.store(1, Ordering::Release);
                }
            }
        }
    }

    fn along(&self, which: usize, work: &(dyn Fn(usize) + Sync)) {
        self.asked.store(which + 1, Ordering::Release);
        work(0);
        while self.done.swap(0, Ordering::Acquire) == 0 {
            hint::spin_loop();
        }
    }

    fn stop(&self) {
        self.asked.store(Self::STOP, Ordering::Release);
    }
}

/// Memory whose pages are there, from a page's beginning on.
struct Memory(Vec<u8>);

impl Memory {
    fn new(len: usize) -> Memory {
        Memory(vec![1; len + 8192 + 4096])
    }

    fn at(&self, offset: usize) -> usize {
        (self.0.as_ptr() as usize).next_multiple_of(4096) + offset
    }
}

#[inline(never)]
fn memcpy(dst: usize, src: usize, len: usize) {
    // SAFETY: callers pass ranges inside their buffers.
    unsafe { libc::memcpy(hint::black_box(dst) as *mut _, src as *const _, len) };
}

fn timed(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

/// How long the work takes when it was the last thing done: each finds the caches as it leaves them, and not
/// as the other does.
fn second_time(work: &dyn Fn()) -> f64 {
    work();
    timed(work)
}

/// The best of the two, which take turns.
fn against(peer: &mut dyn FnMut(), ours: &mut dyn FnMut(), rounds: usize) -> (f64, f64) {
    let samples: Vec<_> = (0..rounds).map(|_| (timed(&mut *peer), timed(&mut *ours))).collect();
    let column = |pick: fn(&(f64, f64)) -> f64| best(samples.iter().map(pick));
    (column(|sample| sample.0), column(|sample| sample.1))
}

fn best(samples: impl Iterator<Item = f64>) -> f64 {
    samples.fold(f64::MAX, f64::min)
}
