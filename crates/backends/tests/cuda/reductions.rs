//! Reductions: bit for bit what the host backend makes of the same bytes, at any alignment, over itself, and
//! across mapped pieces.

use super::*;
use ferry_backends::host::{Host, HostOptions};
use ferry_core::{
    Purpose, Reduction,
    reduce::{Combine, Element},
};

const EVERY: [Element; 7] =
    [Element::I8, Element::I16, Element::I32, Element::U32, Element::F16, Element::Bf16, Element::F32];
const WAYS: [Combine; 3] = [Combine::Sum, Combine::Max, Combine::Min];

/// A runtime on the host backend.
pub fn host() -> Runtime {
    let options = HostOptions {
        devices: vec![0],
        device_memory: Some(64 * MIB),
        shared: None,
        is_unified: false,
        usage: None,
        views: None,
        schedule: None,
    };
    Runtime::new(Host::open(options).expect("a host"), Vec::new())
}

/// Any bits, and every other time a number on which arithmetic goes wrong.
fn numbers(seed: usize, element: Element, len: usize) -> Vec<u8> {
    let odd: &[u32] = match element {
        Element::F16 => &[0, 1, 0x3ff, 0x400, 0x7bff, 0x7c00, 0x7c01, 0x7e00, 0x3c00, 0x3c01, 0x1000],
        Element::Bf16 => &[0, 1, 0x7f, 0x80, 0x7f7f, 0x7f80, 0x7f81, 0x7fc0, 0x3f80, 0x3f81, 0x3b80],
        Element::F32 => {
            &[0, 1, 0x7f_ffff, 0x80_0000, 0x7f7f_ffff, 0x7f80_0000, 0x7f80_0001, 0x7fc0_0000, 0x3f80_0000]
        }
        _ => &[0, 1, 2, 0x7f, 0x7fff, 0x7fff_ffff, 0xffff_ffff],
    };
    let (size, mut bytes) = (element.size(), noise(seed, len));
    let dice = noise(seed + 1, 2 * len);
    for (number, dice) in bytes.chunks_exact_mut(size).zip(dice.chunks_exact(2)) {
        if dice[0] & 1 == 0 {
            number.copy_from_slice(&odd[dice[1] as usize % odd.len()].to_le_bytes()[..size]);
            number[size - 1] ^= dice[0] & 0x80;
        }
    }
    bytes
}

/// What the bytes at `base`, all of some memory of a runtime, become.
fn reduced(
    runtime: &Runtime,
    base: usize,
    bytes: &[u8],
    of: (Combine, Element),
    ends: (usize, usize, usize),
) -> Vec<u8> {
    let stream = stream(runtime);
    linear(&stream, base, locked(runtime, bytes).base, bytes.len());
    let (dst, src, len) = ends;
    let plan = |memory: &ferry_core::Memory| {
        Reduction::new(of.0, of.1, (base + dst, base + src, len), memory, |_| Ok(()))
            .map(|it| Op::Reduce(Box::new(it)))
    };
    // SAFETY: all of it is memory of the runtime's.
    unsafe { stream.submit::<Error>(plan) }.expect("submitted");
    stream.synchronize(MINUTE).expect("done");
    fetch(runtime, base, bytes.len())
}

/// Memory that is mapped in four pieces, none of which lies beside its neighbour.
fn mapped(runtime: &Runtime, len: usize) -> usize {
    let base = runtime.reserve(len, MIB, 0, Purpose::Mappings).expect("addresses");
    for index in [2, 0, 3, 1] {
        let piece = runtime.physical(0, len / 4, 4096).expect("memory");
        runtime.map(base + index * (len / 4), &piece).expect("mapped");
    }
    base
}

#[test]
fn every_type_and_way_is_what_the_host_makes_of_it() {
    let Some(gpu) = gpu("every_type_and_way_is_what_the_host_makes_of_it") else { return };
    let (host, len) = (host(), 256 << 10);
    let [here, there] = [&host, &gpu].map(|runtime| device(runtime, len).base);
    for element in EVERY {
        for way in WAYS {
            let size = element.size();
            let half = len / 2;
            for ends in [
                (0, half, size),
                (half, 0, 1000 * size),
                (0, half, half),
                (1, half, 5003 * size),
                (4, half + 20, 3001 * size),
                (half + 3, 5, 2 * size),
                (16, 16, half),
            ] {
                let bytes = numbers(ends.0 + ends.2, element, len);
                let want = reduced(&host, here, &bytes, (way, element), ends);
                let got = reduced(&gpu, there, &bytes, (way, element), ends);
                assert!(got == want, "{way:?} of {element:?}, {ends:?}");
            }
        }
    }
}

#[test]
fn ends_that_overlap_and_pieces_that_are_mapped_are_as_on_the_host() {
    let Some(gpu) = gpu("ends_that_overlap_and_pieces_that_are_mapped_are_as_on_the_host") else { return };
    let (host, len) = (host(), 4 * 8192);
    let plain = [&host, &gpu].map(|runtime| device(runtime, len).base);
    let pieces = [&host, &gpu].map(|runtime| mapped(runtime, len));
    for element in [Element::I8, Element::Bf16, Element::F32] {
        for distance in [0, 1, 3, 4, 63, 4097, 8190] {
            for (dst, src) in [(0, distance), (distance, 0), (5, distance + 5), (distance + 3, 3)] {
                let count = (len - dst.max(src)) / element.size() * element.size();
                for [here, there] in [plain, pieces] {
                    let bytes = numbers(distance, element, len);
                    let of = (Combine::Sum, element);
                    let want = reduced(&host, here, &bytes, of, (dst, src, count));
                    let got = reduced(&gpu, there, &bytes, of, (dst, src, count));
                    assert!(got == want, "{element:?}, {count} bytes from {src} to {dst}");
                }
            }
        }
    }
}
