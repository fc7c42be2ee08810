//! aclrtReduceAsync: what every type and kind makes of every sort of number, in which order, and which
//! product has what. Products are processes: this program again with FERRY_SOC.

use std::path::Path;

use ferry_tests::children::{self, Case};
use ferry_tests::code::{FEATURE_NOT_SUPPORT, INVALID_PARAM, RT_PARAM_INVALID};
use ferry_tests::kind::{D2H, H2D};
use ferry_tests::*;

/// aclrtReduceKind.
const SUM: i32 = 10;
const MAX: i32 = 11;
const MIN: i32 = 12;
const EQUAL: i32 = 13;

/// aclDataType, with what the oracle needs to know: bytes, and bits of the mantissa (0 for integers) or
/// whether it has a sign.
#[derive(Clone, Copy, Debug)]
struct Type {
    number: i32,
    size: usize,
    mantissa: u32,
    signed: bool,
}

const fn integer(number: i32, size: usize, signed: bool) -> Type {
    Type { number, size, mantissa: 0, signed }
}

const fn float(number: i32, size: usize, mantissa: u32) -> Type {
    Type { number, size, mantissa, signed: true }
}

const FLOAT: Type = float(0, 4, 23);
const FLOAT16: Type = float(1, 2, 10);
const INT8: Type = integer(2, 1, true);
const INT32: Type = integer(3, 4, true);
const INT16: Type = integer(6, 2, true);
const UINT32: Type = integer(8, 4, false);
const BF16: Type = float(27, 2, 7);
/// What the largest product has.
const EVERY: [Type; 7] = [FLOAT, FLOAT16, INT8, INT32, INT16, UINT32, BF16];

/// The answer, by arithmetic that shares nothing with the library's: integers as wide ones, floats as
/// doubles, which are exact or have digits enough that rounding twice is rounding once.
mod oracle {
    use super::{MAX, MIN, SUM, Type};

    pub fn reduce(kind: i32, of: Type, dst: &[u8], src: &[u8]) -> Vec<u8> {
        let pairs = dst.chunks_exact(of.size).zip(src.chunks_exact(of.size));
        pairs.flat_map(|(a, b)| one(kind, of, bits(a), bits(b)).to_le_bytes()[..of.size].to_vec()).collect()
    }

    fn bits(bytes: &[u8]) -> u32 {
        bytes.iter().rev().fold(0, |bits, byte| bits << 8 | u32::from(*byte))
    }

    fn one(kind: i32, of: Type, a: u32, b: u32) -> u32 {
        if of.mantissa > 0 {
            let (x, y) = (decode(of, a), decode(of, b));
            return match kind {
                _ if x.is_nan() || y.is_nan() => encode(of, f64::NAN),
                SUM => encode(of, x + y),
                MAX => encode(of, if x.total_cmp(&y).is_gt() { x } else { y }),
                MIN => encode(of, if x.total_cmp(&y).is_lt() { x } else { y }),
                _ => unreachable!("kind {kind}"),
            };
        }
        let wide = |bits: u32| match (of.size, of.signed) {
            (1, true) => i64::from(bits as i8),
            (2, true) => i64::from(bits as i16),
            (4, true) => i64::from(bits as i32),
            _ => i64::from(bits),
        };
        let (x, y) = (wide(a), wide(b));
        let result = match kind {
            SUM => x + y,
            MAX => x.max(y),
            _ => x.min(y),
        };
        result as u32
    }

    /// Bits of the exponent, and what it is counted from.
    fn exponent(of: Type) -> (u32, i32) {
        let bits = 8 * of.size as u32 - 1 - of.mantissa;
        (bits, (1 << (bits - 1)) - 1)
    }

    fn decode(of: Type, bits: u32) -> f64 {
        let (width, bias) = exponent(of);
        let fraction = f64::from(bits & ((1 << of.mantissa) - 1)) / 2_f64.powi(of.mantissa as i32);
        let power = (bits >> of.mantissa & ((1 << width) - 1)) as i32;
        let size = match power {
            0 => fraction * 2_f64.powi(1 - bias),
            _ if power == (1 << width) - 1 && fraction == 0.0 => f64::INFINITY,
            _ if power == (1 << width) - 1 => f64::NAN,
            _ => (1.0 + fraction) * 2_f64.powi(power - bias),
        };
        if bits >> (8 * of.size - 1) & 1 == 0 { size } else { -size }
    }

    /// The nearest, or the even one of two.
    fn encode(of: Type, value: f64) -> u32 {
        let (width, bias) = exponent(of);
        let infinity = ((1 << width) - 1) << of.mantissa;
        if value.is_nan() {
            return infinity | 1 << (of.mantissa - 1);
        }
        let sign = u32::from(value.is_sign_negative()) << (8 * of.size - 1);
        let size = value.abs();
        // How many of the last place, where numbers of this size have it.
        let power = ((size.to_bits() >> 52) as i32 - 1023).clamp(1 - bias, bias + 1);
        let places = (size / 2_f64.powi(power - of.mantissa as i32)).round_ties_even();
        // A number without an exponent has its places as they are; any other hides the first. One place too
        // many carries on into the exponent, as it should.
        let bits = (((power + bias - 1) as u64) << of.mantissa).saturating_add(places as u64);
        sign | bits.min(u64::from(infinity)) as u32
    }
}

/// Numbers that look like chance, always the same.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 32) as u32
    }

    /// Elements of a type: any bits, and every other time a number on which arithmetic goes wrong.
    fn elements(&mut self, of: Type, count: usize) -> Vec<u8> {
        let top = 8 * of.size as u32 - 1;
        let odd: Vec<u32> = match of.mantissa {
            0 => vec![0, 1, 2, u32::MAX, 1 << top, (1 << top) - 1, (1 << top) + 1],
            mantissa => {
                let (one, infinity) = (1 << mantissa, ((1 << (top - mantissa)) - 1) << mantissa);
                // Zero, numbers without an exponent, the least that has one, the largest, what is none, and 1
                // with neighbours.
                let plain = [
                    0,
                    1,
                    2,
                    one - 1,
                    one,
                    one + 1,
                    infinity - 1,
                    infinity,
                    infinity + 1,
                    infinity | (one >> 1),
                ];
                let unit = ((1 << (top - mantissa - 1)) - 1) << mantissa;
                let near = [
                    unit,
                    unit + 1,
                    unit - 1,
                    unit + one * mantissa,
                    unit + one * (mantissa + 1),
                    infinity - one,
                ];
                plain.into_iter().chain(near).flat_map(|bits| [bits, bits | 1 << top]).collect()
            }
        };
        let mut bytes = Vec::with_capacity(count * of.size);
        for _ in 0..count {
            let any = self.roll();
            let bits = if self.roll().is_multiple_of(2) { any } else { odd[any as usize % odd.len()] };
            bytes.extend_from_slice(&bits.to_le_bytes()[..of.size]);
        }
        bytes
    }
}

const CASES: [Case; 4] =
    [("numbers", numbers), ("overlaps", overlaps), ("support", support), ("one memory", one_memory)];

#[test]
fn each_case_in_a_process_of_its_own() {
    let largest = "Ascend950PR_9599";
    for (case, soc, form) in [
        ("numbers", largest, "ep"),
        ("overlaps", largest, "ep"),
        ("support", "Ascend910B1", "ep"),
        ("support", "Ascend910_9391", "ep"),
        ("support", largest, "ep"),
        ("support", "Ascend310B1", "ep"),
        ("support", "Ascend310P3", "ep"),
        ("support", "Ascend910A", "ep"),
        ("one memory", "Ascend310B1", "rc"),
        ("one memory", "Ascend310P3", "ctrlcpu"),
    ] {
        // Only the host backend has a form in which host and device memory are one.
        let backend = if form == "ep" { std::env::var("FERRY_BACKEND").ok() } else { Some("host".into()) };
        let settings =
            [("FERRY_SOC", Some(soc)), ("FERRY_FORM", Some(form)), ("FERRY_BACKEND", backend.as_deref())];
        children::run(case, &settings);
    }
}

/// The child's part.
#[test]
#[ignore = "run by each_case_in_a_process_of_its_own"]
fn one_case() {
    use_device();
    children::play(&CASES);
}

/// Every type and kind, at every alignment, from one element to several slices; nothing around them changes.
fn numbers() {
    const AROUND: usize = 16;
    let (stream, mut dice) = (stream(), Dice(1));
    for of in EVERY {
        for kind in [SUM, MAX, MIN] {
            let aligned = [1, 2, 3, 1000, 4096 / of.size, 4096 / of.size + 1, 10_007];
            let shifts = [(0, 0), (1, 0), (0, 1), (3, 5)];
            // More than a slice of the work.
            let large = ((1 << 20) / of.size + 1025, (1, 3));
            let all = aligned.iter().flat_map(|count| shifts.map(|shift| (*count, shift)));
            for (count, (to, from)) in all.chain((kind == SUM).then_some(large)) {
                let what = format!("{of:?}, kind {kind}, {count} elements at {to} and {from}");
                let (a, b) = (dice.elements(of, count), dice.elements(of, count));
                let around = |bytes: &[u8], at: usize| {
                    let mut all = pattern(bytes.len() + AROUND, 7);
                    all[at..][..bytes.len()].copy_from_slice(bytes);
                    all
                };
                let dst = Memory::holding(Home::Device, &around(&a, to));
                let src = Memory::holding(Home::Device, &around(&b, from));
                let len = a.len() as u64;
                let code = aclrtReduceAsync(dst.addr + to, src.addr + from, len, kind, of.number, stream, 0);
                expect(&what, code, 0);
                finish(stream);
                dst.assert_holds(&around(&oracle::reduce(kind, of, &a, &b), to), &what);
                src.assert_holds(&around(&b, from), &format!("{what}: the source"));
                [dst, src].into_iter().for_each(|memory| ok(memory.free()));
            }
        }
    }
}

/// Ends that overlap, or are the same, or lie across pieces of memory mapped next to each other: as if all of
/// the source had been read first.
fn overlaps() {
    const LEN: usize = 5 << 12;
    let (stream, mut dice) = (stream(), Dice(2));
    // Pieces begin at a multiple of 4096; odd offsets put elements across every border, in the source and in
    // the destination.
    let mapped = Mapped::scattered(&[4096, 8192, 4096, 4096]);
    let plain = Memory::device(LEN);
    for of in EVERY {
        for distance in [0, 1, 2, 3, 4, 63, 4095, 4096, 4097, 8190] {
            for (to, from) in [(0, distance), (distance, 0), (5, distance + 5), (distance + 3, 3)] {
                let count = (LEN - to.max(from)) / of.size;
                for memory in [plain, mapped.all] {
                    let start = dice.elements(of, LEN / of.size);
                    let (a, b) = (&start[to..][..count * of.size], &start[from..][..count * of.size]);
                    let mut want = start.clone();
                    want[to..][..count * of.size].copy_from_slice(&oracle::reduce(SUM, of, a, b));
                    memory.write(&start);
                    let what = format!("{of:?}, {count} elements from {from} to {to} in {memory:?}");
                    let (dst, src, len) = (memory.addr + to, memory.addr + from, (count * of.size) as u64);
                    expect(&what, aclrtReduceAsync(dst, src, len, SUM, of.number, stream, 0), 0);
                    finish(stream);
                    memory.assert_holds(&want, &what);
                }
            }
        }
    }
    let hole = aclrtReduceAsync(mapped.all.addr + 8, plain.addr, LEN as u64, SUM, INT8.number, stream, 0);
    refused("past the last piece", hole, RT_PARAM_INVALID, &["leave"]);
}

/// Documented: which product reduces what.
fn support() {
    let soc = soc_name().expect("a name");
    let (types, only_sums): (&[Type], bool) = match soc.as_str() {
        "Ascend910B1" | "Ascend910_9391" => (&[INT8, INT16, INT32, FLOAT16, FLOAT, BF16], false),
        "Ascend950PR_9599" => (&[INT8, INT16, INT32, UINT32, FLOAT16, FLOAT, BF16], false),
        "Ascend310B1" => (&[INT8, INT16, INT32, FLOAT16, FLOAT], false),
        "Ascend310P3" => (&[FLOAT, FLOAT16, INT16], true),
        "Ascend910A" => (&[FLOAT], true),
        other => panic!("{other} has no row"),
    };
    let (stream, mut dice) = (stream(), Dice(3));
    for number in -1..=45 {
        for kind in 8..=15 {
            let what = format!("{soc}, type {number}, kind {kind}");
            let of = types.iter().find(|of| of.number == number);
            let has_kind = kind == SUM || (kind == MAX || kind == MIN) && !only_sums;
            let want = match of {
                _ if !(SUM..=EQUAL).contains(&kind) => INVALID_PARAM,
                Some(_) if has_kind => 0,
                _ => FEATURE_NOT_SUPPORT,
            };
            let [a, b] = [(); 2].map(|()| dice.elements(*of.unwrap_or(&INT8), 64));
            let (dst, src) = (Memory::holding(Home::Device, &a), Memory::holding(Home::Device, &b));
            let code = aclrtReduceAsync(dst.addr, src.addr, a.len() as u64, kind, number, stream, 0);
            let words: &[&str] = match want {
                0 => &[],
                _ if !(SUM..=EQUAL).contains(&kind) => &["kind is", "10 to 13"],
                _ if kind == EQUAL => &["EQUAL"],
                _ if !has_kind => &["kind is", &soc, "SUM only"],
                _ => &["type is", &soc, "ACL_FLOAT"],
            };
            refused(&what, code, want, words);
            finish(stream);
            let is_done = of.filter(|_| want == 0);
            dst.assert_holds(&is_done.map_or(a.clone(), |of| oracle::reduce(kind, *of, &a, &b)), &what);
            [dst, src].into_iter().for_each(|memory| ok(memory.free()));
        }
    }
}

/// Where host and device memory are one, page-locked memory is the device's as well. Plain memory still is
/// not.
fn one_memory() {
    let (stream, mut dice) = (stream(), Dice(4));
    for (to, from) in
        [(Home::Pinned, Home::Device), (Home::Device, Home::Pinned), (Home::Pinned, Home::Pinned)]
    {
        let [a, b] = [(); 2].map(|()| dice.elements(FLOAT16, 500));
        let (dst, src) = (Memory::holding(to, &a), Memory::holding(from, &b));
        ok(aclrtReduceAsync(dst.addr, src.addr, 1000, SUM, FLOAT16.number, stream, 0));
        finish(stream);
        dst.assert_holds(&oracle::reduce(SUM, FLOAT16, &a, &b), &format!("{from:?} into {to:?}"));
    }
    let (device, heap) = (Memory::device(64), Memory::heap(64));
    let code = aclrtReduceAsync(device.addr, heap.addr, 64, SUM, FLOAT.number, stream, 0);
    refused("plain memory", code, RT_PARAM_INVALID, &["src must be memory of device 0"]);
}

/// A reduction between two copies of one stream sees what the first brought and is seen by the second, and
/// none of it happens inside the calls: even on an idle stream the result is there after synchronising, and
/// not before.
// proves: X1
#[test]
fn reductions_run_in_the_order_of_their_stream() {
    use_device();
    let mut dice = Dice(5);
    for stream in [stream(), 0] {
        let (len, of) = (1 << 16, INT32);
        let [a, b, old] = [(); 3].map(|()| dice.elements(of, len / of.size));
        let (up, back) = (Memory::holding(Home::Pinned, &a), Memory::pinned(len));
        let (dst, src) = (Memory::holding(Home::Device, &old), Memory::holding(Home::Device, &b));
        back.fill(0);
        let gate = block(stream);
        ok(aclrtMemcpyAsync(dst.addr, len, up.addr, len, H2D, stream));
        ok(aclrtReduceAsync(dst.addr, src.addr, len as u64, SUM, of.number, stream, 0));
        ok(aclrtReduceAsync(dst.addr, src.addr, len as u64, MAX, of.number, stream, 0));
        ok(aclrtMemcpyAsync(back.addr, len, dst.addr, len, D2H, stream));
        ok(aclrtMemsetAsync(dst.addr, len, 0, len, stream));
        dst.assert_holds(&old, "nothing has run");
        assert_eq!(stream_status(stream), STREAM_NOT_READY);
        gate.unblock();
        finish(stream);
        let want = oracle::reduce(MAX, of, &oracle::reduce(SUM, of, &a, &b), &b);
        back.assert_holds(&want, "both reductions, between the copies");
        dst.assert_all(0, "the fill comes last");
    }
}

/// A reduction keeps its memory: what is freed behind it is used again only when it has passed. One that is
/// dropped does nothing.
#[test]
fn freeing_and_aborting_with_a_reduction_queued() {
    use_device();
    let (stream, len, of, mut dice) = (stream(), 1 << 20, FLOAT, Dice(6));
    let [a, b] = [(); 2].map(|()| dice.elements(of, len / of.size));
    let (dst, src) = (Memory::holding(Home::Device, &a), Memory::holding(Home::Device, &b));
    let gate = block(stream);
    ok(aclrtReduceAsync(dst.addr, src.addr, len as u64, SUM, of.number, stream, 0));
    ok(src.free());
    let other = Memory::device(len);
    other.fill(0);
    let late = aclrtReduceAsync(dst.addr, src.addr, len as u64, SUM, of.number, stream, 0);
    refused("freed", late, RT_PARAM_INVALID, &["src", "freed"]);
    gate.unblock();
    finish(stream);
    let sum = oracle::reduce(SUM, of, &a, &b);
    dst.assert_holds(&sum, "the source was still there");
    let gate = block(stream);
    gate.wait_until_reached();
    ok(aclrtReduceAsync(dst.addr, other.addr, len as u64, MIN, of.number, stream, 0));
    ok(aclrtStreamAbort(stream));
    gate.unblock();
    dst.assert_holds(&sum, "dropped");
}

/// The header says so: a mode is kept, and no sum looks at it.
#[test]
fn a_sum_that_is_too_large_is_infinity_in_every_overflow_mode() {
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("../include/acl/acl_rt.h");
    let header = std::fs::read_to_string(header).expect("the header");
    let (before, _) = header.split_once("aclError aclrtSetDeviceSatMode").expect("its declaration");
    let said = &before[before.rfind("/**").expect("a comment")..];
    assert!(said.contains("aclrtReduceAsync") && said.contains("infinity in both modes"), "{said}");
    in_new_thread(|| {
        use_device();
        let (stream, largest, infinity) = (stream(), 0x7bff_u16.to_ne_bytes(), 0x7c00_u16.to_ne_bytes());
        for mode in [0, 1, 0] {
            ok(aclrtSetDeviceSatMode(mode));
            let [dst, src] = [(); 2].map(|()| Memory::holding(Home::Device, &largest));
            ok(aclrtReduceAsync(dst.addr, src.addr, 2, SUM, FLOAT16.number, stream, 0));
            finish(stream);
            dst.assert_holds(&infinity, "twice the largest");
        }
    });
}

#[test]
fn reducing_nothing_is_fine() {
    use_device();
    let (stream, device) = (stream(), Memory::device(64));
    device.fill(9);
    for of in EVERY.into_iter().filter(|of| of.number != UINT32.number) {
        ok(aclrtReduceAsync(device.addr, device.addr + 32, 0, SUM, of.number, stream, 0));
    }
    finish(stream);
    device.assert_all(9, "nothing was asked for");
}
