//! Reducing on the CPU, in slices, and the arithmetic of the short floats.
//!
//! Short floats are added and compared as floats of 32 bits and rounded once, to nearest even. A sum of two
//! of them has so few digits that this gives what exact arithmetic would.

use crate::os::fault::{self, Fault, guarded};
use ferry_core::reduce::{Combine, Element, Reduction};
use std::ptr;

/// Bytes that are fetched, combined and put back together. A multiple of every element's size.
const CHUNK: usize = 4096;

/// Combines about `most` bytes from `done` on, counted from the side where the reduction begins. Returns
/// whether all of it is done. Bytes are fetched before any of their chunk is written, so elements may lie at
/// any alignment and across pieces, and ends may overlap.
///
/// # Safety
/// Every piece is valid at the engine's addresses, or memory that the program took away: then the fault is
/// returned.
pub unsafe fn advance(reduction: &Reduction, done: &mut usize, most: usize) -> Result<bool, Fault> {
    let (mut to, mut from) = ([0; CHUNK], [0; CHUNK]);
    let covers = |addr| fault::reduction_covers(reduction, addr);
    let (len, stop) = (reduction.bytes(), *done + most.next_multiple_of(CHUNK));
    while *done < len && *done < stop {
        let count = CHUNK.min(len - *done);
        let start = if reduction.is_backward() { len - *done - count } else { *done };
        let fetch = || {
            for piece in reduction.within(start, count) {
                let at = piece.start - start;
                let (dst, src) = (&mut to[at..][..piece.len], &mut from[at..][..piece.len]);
                // SAFETY: part of a piece, which is valid; the buffers are this call's own and as long.
                unsafe {
                    ptr::copy_nonoverlapping(piece.dst as *const u8, dst.as_mut_ptr(), piece.len);
                    ptr::copy_nonoverlapping(piece.src as *const u8, src.as_mut_ptr(), piece.len);
                }
            }
        };
        // SAFETY: a plain loop over memory that is the caller's promise.
        unsafe { guarded(covers, fetch) }?;
        combine(reduction.combine(), reduction.element(), &mut to[..count], &from[..count]);
        let put_back = || {
            for piece in reduction.within(start, count) {
                let dst = &to[piece.start - start..][..piece.len];
                // SAFETY: as above.
                unsafe { ptr::copy_nonoverlapping(dst.as_ptr(), piece.dst as *mut u8, piece.len) };
            }
        };
        // SAFETY: as above.
        unsafe { guarded(covers, put_back) }?;
        *done += count;
    }
    Ok(*done == len)
}

/// Combines whole elements, as many as there are.
fn combine(how: Combine, element: Element, dst: &mut [u8], src: &[u8]) {
    macro_rules! integers {
        ($int:ty) => {
            match how {
                Combine::Sum => each(dst, src, |a, b| {
                    <$int>::from_ne_bytes(a).wrapping_add(<$int>::from_ne_bytes(b)).to_ne_bytes()
                }),
                Combine::Max => each(dst, src, |a, b| {
                    <$int>::from_ne_bytes(a).max(<$int>::from_ne_bytes(b)).to_ne_bytes()
                }),
                Combine::Min => each(dst, src, |a, b| {
                    <$int>::from_ne_bytes(a).min(<$int>::from_ne_bytes(b)).to_ne_bytes()
                }),
            }
        };
    }
    match element {
        Element::I8 => integers!(i8),
        Element::I16 => integers!(i16),
        Element::I32 => integers!(i32),
        Element::U32 => integers!(u32),
        Element::F16 => {
            floats(how, dst, src, |x| f16_to_f32(u16::from_ne_bytes(x)), |x| f16_of(x).to_ne_bytes());
        }
        Element::Bf16 => {
            floats(how, dst, src, |x| bf16_to_f32(u16::from_ne_bytes(x)), |x| bf16_of(x).to_ne_bytes());
        }
        Element::F32 => floats(how, dst, src, f32::from_ne_bytes, |x| plain_nan(x).to_ne_bytes()),
    }
}

/// Does `f` to each element.
fn each<const N: usize>(dst: &mut [u8], src: &[u8], f: impl Fn([u8; N], [u8; N]) -> [u8; N]) {
    let (to, from) = (dst.as_chunks_mut::<N>().0, src.as_chunks::<N>().0);
    to.iter_mut().zip(from).for_each(|(a, b)| *a = f(*a, *b));
}

/// Combines floats that `read` makes out of bytes and `write` turns into bytes.
fn floats<const N: usize>(
    how: Combine,
    dst: &mut [u8],
    src: &[u8],
    read: impl Fn([u8; N]) -> f32,
    write: impl Fn(f32) -> [u8; N],
) {
    match how {
        Combine::Sum => each(dst, src, |a, b| write(read(a) + read(b))),
        Combine::Max => each(dst, src, |a, b| write(larger(read(a), read(b)))),
        Combine::Min => each(dst, src, |a, b| write(-larger(-read(a), -read(b)))),
    }
}

/// The larger of two; no number if one is none. The positive zero is larger than the negative.
fn larger(a: f32, b: f32) -> f32 {
    if a.is_nan() || b.is_nan() {
        f32::NAN
    } else if a > b || a == b && a.is_sign_positive() {
        a
    } else {
        b
    }
}

/// What is no number becomes the one that has nothing in it: what an addition makes of them differs between
/// processors.
fn plain_nan(x: f32) -> f32 {
    if x.is_nan() { f32::from_bits(0x7fc0_0000) } else { x }
}

/// The value of a float of 16 bits: 5 of exponent, 10 of mantissa.
fn f16_to_f32(bits: u16) -> f32 {
    const LAST_PLACE: f32 = 1.0 / (1 << 24) as f32;
    let (exponent, mantissa) = (u32::from(bits >> 10 & 0x1f), u32::from(bits & 0x3ff));
    let size = match exponent {
        0 => mantissa as f32 * LAST_PLACE,
        0x1f => f32::from_bits(0x7f80_0000 | mantissa << 13),
        _ => f32::from_bits((exponent + 112) << 23 | mantissa << 13),
    };
    if bits & 0x8000 == 0 { size } else { -size }
}

/// The float of 16 bits that is nearest, an even one if two are.
fn f16_of(x: f32) -> u16 {
    /// Half a step above the largest: from here on the nearest is infinity.
    const TOO_LARGE: f32 = 65520.0;
    const LEAST_NORMAL: f32 = 1.0 / (1 << 14) as f32;
    let (size, sign) = (x.abs(), (x.to_bits() >> 16) as u16 & 0x8000);
    if x.is_nan() {
        0x7e00
    } else if size >= TOO_LARGE {
        sign | 0x7c00
    } else if size < LEAST_NORMAL {
        // Numbers without an exponent: so many of the last place. Scaling by a power of two is exact.
        sign | (size * (1 << 24) as f32).round_ties_even() as u16
    } else {
        sign | (to_nearest_even(size.to_bits(), 13) - (112 << 10)) as u16
    }
}

/// The value of the upper half of a float of 32 bits.
fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// The nearest of those whose lower half is zero, an even one if two are.
fn bf16_of(x: f32) -> u16 {
    to_nearest_even(plain_nan(x).to_bits(), 16) as u16
}

/// `bits` without the last `count`, rounded.
fn to_nearest_even(bits: u32, count: u32) -> u32 {
    let (last, below_half) = (bits >> count & 1, (1 << (count - 1)) - 1);
    (bits + below_half + last) >> count
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// The value of every float of 16 bits, by the definition of the format and in arithmetic that is exact
    /// here.
    fn value(bits: u16) -> f64 {
        let (exponent, mantissa) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
        let size = match exponent {
            0 => mantissa * 2_f64.powi(-24),
            0x1f if mantissa == 0.0 => f64::INFINITY,
            0x1f => f64::NAN,
            _ => (1024.0 + mantissa) * 2_f64.powi(exponent - 25),
        };
        if bits >> 15 == 0 { size } else { -size }
    }

    #[test]
    fn every_short_float_has_its_value_and_comes_back() {
        for bits in 0..=u16::MAX {
            let (half, want) = (f16_to_f32(bits), value(bits));
            assert_eq!(half.is_nan(), want.is_nan(), "{bits:#x}");
            if want.is_nan() {
                assert_eq!(f16_of(half), 0x7e00, "{bits:#x}");
            } else {
                assert_eq!(f64::from(half).to_bits(), want.to_bits(), "{bits:#x}");
                assert_eq!(f16_of(half), bits, "{bits:#x}");
            }
            let short = bf16_to_f32(bits);
            assert_eq!(bf16_of(short), if short.is_nan() { 0x7fc0 } else { bits }, "{bits:#x}");
        }
    }

    #[test]
    fn what_lies_between_two_short_floats_goes_to_the_nearest_or_the_even_one() {
        for bits in 0..0x7c00_u16 {
            // One step above the largest number would be 65536.
            let high = if bits == 0x7bff { 65536.0 } else { value(bits + 1) };
            let middle = ((value(bits) + high) / 2.0) as f32;
            let even = bits + bits % 2;
            for sign in [0, 0x8000] {
                let signed = |x: f32| if sign == 0 { x } else { -x };
                assert_eq!(f16_of(signed(middle)), sign | even, "halfway above {bits:#x}");
                assert_eq!(
                    f16_of(signed(middle.next_down())),
                    sign | bits,
                    "just below the middle above {bits:#x}"
                );
                assert_eq!(
                    f16_of(signed(middle.next_up())),
                    sign | (bits + 1),
                    "just above the middle above {bits:#x}"
                );
            }
        }
        for bits in 0..0x7f80_u16 {
            let middle = f32::from_bits(u32::from(bits) << 16 | 0x8000);
            assert_eq!(bf16_of(middle), bits + bits % 2, "halfway above {bits:#x}");
            assert_eq!(bf16_of(middle.next_down()), bits, "just below the middle above {bits:#x}");
            assert_eq!(
                bf16_of(-middle.next_up()),
                0x8000 | (bits + 1),
                "just above the middle above {bits:#x}"
            );
        }
    }
}
