//! Copies and fills over pieces that are mapped next to each other while their physical memory is not,
//! against a mirror.

use ferry_tests::kind::{BUFFERED, D2D, D2H, DEFAULT, H2D, INNER};
use ferry_tests::*;

use crate::{PAGE, POISON};

/// Numbers without a pattern, the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % most
    }
}

/// The mapped range, what must be in it, and memory to copy from and to.
struct Scene {
    range: Memory,
    mirror: Vec<u8>,
    device: Memory,
    desc: Memory,
    cells: [Memory; 2],
    hosts: [Memory; 2],
    stream: usize,
}

/// A part of the range and as many bytes elsewhere.
#[derive(Clone, Copy, Debug)]
struct Span {
    at: usize,
    len: usize,
    /// Where in the other memory.
    there: usize,
}

const SIZES: [usize; 6] = [PAGE, 3 * PAGE, PAGE, 2 * PAGE, PAGE, 4 * PAGE];
const LEN: usize = 12 * PAGE;

impl Scene {
    fn new() -> Scene {
        let range = Mapped::scattered(&SIZES).all;
        assert_eq!(range.len, LEN);
        let mirror = pattern(LEN, 1);
        // Written page by page, so that what a copy over borders does can be told from what this does.
        for page in 0..LEN / PAGE {
            range.part(page * PAGE, PAGE).write(&mirror[page * PAGE..][..PAGE]);
        }
        let mut size = 0;
        ok(aclrtGetMemcpyDescSize(INNER, &mut size));
        Scene {
            range,
            mirror,
            device: Memory::holding(Home::Device, &pattern(LEN, 2)),
            desc: Memory::device(size),
            cells: [Memory::device(8), Memory::pinned(8)],
            hosts: [Memory::pinned(LEN), Memory::heap(LEN)],
            stream: stream(),
        }
    }

    /// Asserts that the range holds what it should, read page by page.
    #[track_caller]
    fn check(&self, what: &str) {
        finish(self.stream);
        for page in 0..LEN / PAGE {
            let want = &self.mirror[page * PAGE..][..PAGE];
            self.range.part(page * PAGE, PAGE).assert_holds(want, &format!("{what}, page {page}"));
        }
    }

    /// Bytes that come in: into other memory first, and into the mirror.
    fn bring(&mut self, from: Memory, span: Span, seed: u8) {
        let data = pattern(span.len, seed);
        from.part(span.there, span.len).write(&data);
        self.mirror[span.at..][..span.len].copy_from_slice(&data);
    }

    /// Asserts that the bytes of the span came out.
    #[track_caller]
    fn came(&self, to: Memory, span: Span, what: &str) {
        finish(self.stream);
        to.part(span.there, span.len).assert_holds(&self.mirror[span.at..][..span.len], what);
    }
}

type Way = (&'static str, fn(&mut Scene, Span, usize, usize) -> i32);

/// Ways into the range: from `src` to `dst`, `span.len` bytes.
const FROM_HOST: [Way; 10] = [
    ("aclrtMemcpy", |_, s, d, h| aclrtMemcpy(d, s.len, h, s.len, H2D)),
    ("aclrtMemcpyAsync", |c, s, d, h| aclrtMemcpyAsync(d, s.len, h, s.len, H2D, c.stream)),
    ("aclrtMemcpyAsync DEFAULT", |c, s, d, h| aclrtMemcpyAsync(d, s.len, h, s.len, DEFAULT, c.stream)),
    ("aclrtMemcpyAsync BUFFERED", |c, s, d, h| aclrtMemcpyAsync(d, s.len, h, s.len, BUFFERED, c.stream)),
    ("aclrtMemcpyAsyncWithCondition", |c, s, d, h| {
        aclrtMemcpyAsyncWithCondition(d, s.len, h, s.len, H2D, c.stream)
    }),
    ("aclrtMemcpy2d", |_, s, d, h| aclrtMemcpy2d(d, s.len, h, s.len, s.len, 1, H2D)),
    ("aclrtMemcpy2dAsync", |c, s, d, h| aclrtMemcpy2dAsync(d, s.len, h, s.len, s.len, 1, H2D, c.stream)),
    ("aclrtMemcpyBatch", |_, s, d, h| halves(s, d, h, HOST_TO_DEVICE, BatchForm::Sync, 0)),
    ("aclrtMemcpyBatchAsync", |c, s, d, h| halves(s, d, h, HOST_TO_DEVICE, BatchForm::Async, c.stream)),
    ("aclrtMemcpyBatchAsyncV2", |c, s, d, h| halves(s, d, h, HOST_TO_DEVICE, BatchForm::AsyncV2, c.stream)),
];

const TO_HOST: [Way; 7] = [
    ("aclrtMemcpy", |_, s, h, d| aclrtMemcpy(h, s.len, d, s.len, D2H)),
    ("aclrtMemcpyAsync", |c, s, h, d| aclrtMemcpyAsync(h, s.len, d, s.len, D2H, c.stream)),
    ("aclrtMemcpyAsyncWithCondition", |c, s, h, d| {
        aclrtMemcpyAsyncWithCondition(h, s.len, d, s.len, D2H, c.stream)
    }),
    ("aclrtMemcpy2d", |_, s, h, d| aclrtMemcpy2d(h, s.len, d, s.len, s.len, 1, D2H)),
    ("aclrtMemcpy2dAsync", |c, s, h, d| aclrtMemcpy2dAsync(h, s.len, d, s.len, s.len, 1, D2H, c.stream)),
    ("aclrtMemcpyBatch", |_, s, h, d| halves(s, h, d, DEVICE_TO_HOST, BatchForm::Sync, 0)),
    ("aclrtMemcpyBatchAsync", |c, s, h, d| halves(s, h, d, DEVICE_TO_HOST, BatchForm::Async, c.stream)),
];

const INSIDE: [Way; 6] = [
    ("aclrtMemcpy", |_, s, to, from| aclrtMemcpy(to, s.len, from, s.len, D2D)),
    ("aclrtMemcpyAsync", |c, s, to, from| aclrtMemcpyAsync(to, s.len, from, s.len, D2D, c.stream)),
    ("aclrtMemcpyAsync INNER", |c, s, to, from| aclrtMemcpyAsync(to, s.len, from, s.len, INNER, c.stream)),
    ("aclrtMemcpy2dAsync", |c, s, to, from| {
        aclrtMemcpy2dAsync(to, s.len, from, s.len, s.len, 1, D2D, c.stream)
    }),
    ("aclrtMemcpyAsyncWithDesc", |c, s, to, from| {
        finish(c.stream);
        ok(aclrtSetMemcpyDesc(c.desc.addr, INNER, from, to, s.len, 0));
        aclrtMemcpyAsyncWithDesc(c.desc.addr, INNER, c.stream)
    }),
    ("aclrtMemcpyAsyncWithOffset", |c, s, to, from| {
        finish(c.stream);
        let [dst, src] = c.cells;
        dst.write(&(to - 7).to_ne_bytes());
        src.write(&(from - 9).to_ne_bytes());
        aclrtMemcpyAsyncWithOffset(dst.addr, s.len, 7, src.addr, s.len, 9, INNER, c.stream)
    }),
];

fn halves(
    span: Span,
    dst: usize,
    src: usize,
    attr: aclrtMemcpyBatchAttr,
    form: BatchForm,
    stream: usize,
) -> i32 {
    let half = span.len / 2;
    let items = [(dst, src, half), (dst + half, src + half, span.len - half)];
    Batch::of(&items, attr).call(form, stream).0
}

/// Spans that matter: a few bytes on either side of each border, whole pieces, everything; and some by
/// chance.
fn spans(dice: &mut Dice) -> Vec<Span> {
    let mut spans = vec![Span { at: 0, len: LEN, there: 0 }, Span { at: 1, len: LEN - 2, there: 2 }];
    let mut border = 0;
    for size in SIZES {
        spans.push(Span { at: border, len: size, there: 5 });
        border += size;
        if border < LEN {
            for (before, after) in [(1, 1), (63, 1), (1, 64), (5, 4096), (700, 701)] {
                spans.push(Span { at: border - before, len: before + after, there: dice.below(PAGE) });
            }
        }
    }
    for _ in 0..10 {
        let len = 1 + dice.below(LEN);
        spans.push(Span { at: dice.below(LEN - len + 1), len, there: dice.below(LEN - len + 1) });
    }
    spans
}

#[test]
fn copies_to_and_from_the_host_go_through_the_borders() {
    use_device();
    let (mut scene, mut dice, mut seed) = (Scene::new(), Dice(88172645463325252), 0_u8);
    for span in spans(&mut dice) {
        let range = scene.range.addr + span.at;
        for host in scene.hosts {
            for (name, call) in FROM_HOST {
                let what = format!("{name} from {:?}, {span:?}", host.home);
                seed = seed.wrapping_add(1);
                scene.bring(host, span, seed);
                expect(&what, call(&mut scene, span, range, host.addr + span.there), 0);
                scene.check(&what);
            }
            for (name, call) in TO_HOST {
                let what = format!("{name} to {:?}, {span:?}", host.home);
                host.fill(POISON);
                expect(&what, call(&mut scene, span, host.addr + span.there, range), 0);
                scene.came(host, span, &what);
            }
        }
        scene.check(&format!("after copies out, {span:?}"));
    }
}

#[test]
fn copies_inside_the_device_go_through_the_borders() {
    use_device();
    let (mut scene, mut dice, mut seed) = (Scene::new(), Dice(362436069), 0_u8);
    for span in spans(&mut dice) {
        let (range, other) = (scene.range.addr + span.at, scene.device);
        for (name, call) in INSIDE {
            let what = format!("{name} into the range, {span:?}");
            seed = seed.wrapping_add(1);
            scene.bring(other, span, seed);
            expect(&what, call(&mut scene, span, range, other.addr + span.there), 0);
            scene.check(&what);
            let what = format!("{name} out of the range, {span:?}");
            other.fill(POISON);
            expect(&what, call(&mut scene, span, other.addr + span.there, range), 0);
            scene.came(other, span, &what);
        }
    }
}

/// Source and destination overlap, forwards and backwards, over one border and over many.
#[test]
fn overlapping_copies_over_borders_are_as_memmove() {
    use_device();
    let (mut scene, mut dice) = (Scene::new(), Dice(521288629));
    let mut cases = vec![(0, 1, LEN - 1), (1, 0, LEN - 1), (0, PAGE, LEN - PAGE), (PAGE, 0, LEN - PAGE)];
    cases.extend([(0, 4095, LEN - 4095), (4097, 0, LEN - 4097), (3 * PAGE - 1, 3 * PAGE + 1, 5 * PAGE)]);
    for _ in 0..20 {
        let len = 1 + dice.below(LEN);
        cases.push((dice.below(LEN - len + 1), dice.below(LEN - len + 1), len));
    }
    for (to, from, len) in cases {
        for (name, call) in INSIDE {
            let what = format!("{name}, {len} bytes from {from} to {to}");
            let fresh = pattern(LEN, dice.below(250) as u8);
            scene.bring(scene.hosts[0], Span { at: 0, len: LEN, there: 0 }, 0);
            scene.mirror = fresh;
            for page in 0..LEN / PAGE {
                scene.range.part(page * PAGE, PAGE).write(&scene.mirror[page * PAGE..][..PAGE]);
            }
            let span = Span { at: 0, len, there: 0 };
            let base = scene.range.addr;
            expect(&what, call(&mut scene, span, base + to, base + from), 0);
            scene.mirror.copy_within(from..from + len, to);
            scene.check(&what);
        }
    }
}

/// Slices of a megabyte: pieces that are larger than what the engine moves at once, and that overlap.
#[test]
fn large_overlapping_copies_over_borders_are_as_memmove() {
    use_device();
    const MIB: usize = 1 << 20;
    let sizes = [3 * MIB + PAGE, 2 * MIB - PAGE, 4 * MIB];
    let (range, len) = (Mapped::scattered(&sizes).all, sizes.iter().sum::<usize>());
    let stream = stream();
    for (to, from) in [(0, 12345), (12345, 0), (0, 3 * MIB), (3 * MIB, 0), (1, 0), (0, 1)] {
        let mut want = pattern(len, 3);
        range.write(&want);
        let count = len - to.max(from);
        ok(aclrtMemcpyAsync(range.addr + to, count, range.addr + from, count, D2D, stream));
        finish(stream);
        want.copy_within(from..from + count, to);
        range.assert_holds(&want, &format!("{count} bytes from {from} to {to}"));
    }
}

/// Rows whose border falls into every column of a row and of the gap behind it, at either end and at both.
#[test]
fn rows_cross_borders_at_every_column() {
    use_device();
    let (mut scene, there) = (Scene::new(), 11);
    const HEIGHT: usize = 300;
    type Shape = (usize, usize, usize);
    let shapes: [Shape; 5] = [(16, 16, 16), (13, 16, 19), (13, 19, 13), (1, 3, 2), (29, 29, 31)];
    for (width, pitch, other_pitch) in shapes {
        for shift in 0..pitch {
            // The range's rows go over the border at 4096, and with it at every column in turn.
            let at = PAGE - 5 * pitch - shift;
            let (range, host) = (scene.range.addr + at, scene.hosts[shift % 2]);
            let what =
                |way: &str| format!("{way}, {width} wide, pitches {pitch} and {other_pitch}, shift {shift}");
            let data = pattern(LEN, shift as u8);
            let rows = || (0..HEIGHT).map(|row| (at + row * pitch, there + row * other_pitch));

            for (way, is_sync) in [("into the range", true), ("into the range, asynchronous", false)] {
                host.write(&data);
                let (w, h, s) = (width, HEIGHT, host.addr + there);
                let code = match is_sync {
                    true => aclrtMemcpy2d(range, pitch, s, other_pitch, w, h, H2D),
                    false => aclrtMemcpy2dAsync(range, pitch, s, other_pitch, w, h, H2D, scene.stream),
                };
                expect(&what(way), code, 0);
                for (to, from) in rows() {
                    scene.mirror[to..][..width].copy_from_slice(&data[from..][..width]);
                }
                scene.check(&what(way));
            }

            let mut want = vec![POISON; LEN];
            for (from, to) in rows() {
                want[to..][..width].copy_from_slice(&scene.mirror[from..][..width]);
            }
            host.fill(POISON);
            let out = host.addr + there;
            ok(aclrtMemcpy2dAsync(out, other_pitch, range, pitch, width, HEIGHT, D2H, scene.stream));
            finish(scene.stream);
            host.assert_holds(&want, &what("out of the range"));

            scene.device.fill(POISON);
            let out = scene.device.addr + there;
            ok(aclrtMemcpy2dAsync(out, other_pitch, range, pitch, width, HEIGHT, D2D, scene.stream));
            finish(scene.stream);
            scene.device.assert_holds(&want, &what("inside the device"));
        }
    }
}

/// Both ends in mapped ranges whose borders lie at different rows and columns.
#[test]
fn rows_go_from_one_mapped_range_to_another() {
    use_device();
    let mut scene = Scene::new();
    let other = Mapped::scattered(&[2 * PAGE, PAGE, 5 * PAGE]).all;
    for (width, dpitch, spitch, at, from) in [
        (100, 100, 100, 17, 55),
        (100, 120, 101, 4000, 1),
        (1000, 1000, 1300, 3, 8000),
        (5000, 5000, 5001, 9, 77),
    ] {
        let data = pattern(other.len, width as u8);
        other.write(&data);
        let height = ((other.len - from - width) / spitch + 1).min((LEN - at - width) / dpitch + 1);
        let (to, out) = (scene.range.addr + at, other.addr + from);
        ok(aclrtMemcpy2dAsync(to, dpitch, out, spitch, width, height, D2D, scene.stream));
        for row in 0..height {
            scene.mirror[at + row * dpitch..][..width].copy_from_slice(&data[from + row * spitch..][..width]);
        }
        scene.check(&format!("{height} rows of {width}, pitches {dpitch} and {spitch}"));
    }
}

#[test]
fn fills_go_through_the_borders_from_any_start() {
    use_device();
    let (mut scene, mut dice) = (Scene::new(), Dice(123456789));
    let mut cases: Vec<_> =
        (0..9).map(|odd| (PAGE - odd, 4 * PAGE)).chain([(0, LEN), (3, LEN - 4), (LEN - 1, 1)]).collect();
    cases.extend((0..10).map(|_| (dice.below(LEN / 2), dice.below(LEN / 2))));
    for (at, count) in cases {
        let (ptr, stream) = (scene.range.addr + at, scene.stream);
        let words = count / 4;
        for (way, unit) in [[0x31; 4], [0x42; 4], [1, 2, 3, 4], [9, 8, 7, 6]].into_iter().enumerate() {
            let what = format!("fill {way} of {count} bytes at {at}");
            let word = u32::from_ne_bytes(unit);
            let code = match way {
                0 => aclrtMemset(ptr, count, unit[0].into(), count),
                1 => aclrtMemsetAsync(ptr, count, unit[0].into(), count, stream),
                2 => aclrtMemsetD32(ptr, count, word, words),
                _ => aclrtMemsetD32Async(ptr, count, word, words, stream),
            };
            expect(&what, code, 0);
            let filled = if way < 2 { count } else { 4 * words };
            for (i, byte) in scene.mirror[at..][..filled].iter_mut().enumerate() {
                *byte = unit[i % 4];
            }
            scene.check(&what);
        }
    }
}

/// A descriptor and a pointer cell must lie in one piece; what they name need not.
#[test]
fn descriptors_and_cells_in_mapped_memory() {
    use_device();
    let mut scene = Scene::new();
    let size = scene.desc.len;
    let (src, dst, len) = (scene.range.addr + 9, scene.device.addr, 3 * PAGE);
    let inside = scene.range.addr + 2 * PAGE;
    scene.desc = Memory { addr: inside, len: size, home: Home::Device };
    ok(aclrtSetMemcpyDesc(inside, INNER, src + 4 * PAGE, dst, len, 0));
    ok(aclrtMemcpyAsyncWithDesc(inside, INNER, scene.stream));
    scene.came(scene.device, Span { at: 9 + 4 * PAGE, len, there: 0 }, "a descriptor in mapped memory");

    let across = scene.range.addr + PAGE - 8;
    let before = scene.range.part(0, LEN).read();
    let refused = [
        ("a descriptor to be set over a border", aclrtSetMemcpyDesc(across, INNER, src, dst, len, 0)),
        ("a descriptor over a border", aclrtMemcpyAsyncWithDesc(across, INNER, scene.stream)),
        (
            "a cell over a border",
            aclrtMemcpyAsyncWithOffset(across + 4, len, 0, across - 64, len, 0, INNER, scene.stream),
        ),
    ];
    for (what, code) in refused {
        expect(what, code, code::RT_PARAM_INVALID);
    }
    finish(scene.stream);
    scene.range.assert_holds(&before, "nothing changed");
}
