use super::*;
use ferry_core::{Rows, Segment};

/// A plan whose addresses are offsets into one buffer, by the plainest loop: each row as memmove does it, in
/// order.
fn oracle(buffer: &mut [u8], pieces: &[Rows]) {
    for rows in pieces {
        for row in 0..rows.height {
            let (src, dst) = (rows.src + row * rows.src_pitch, rows.dst + row * rows.dst_pitch);
            let bytes = buffer[src..src + rows.width].to_vec();
            buffer[dst..dst + rows.width].copy_from_slice(&bytes);
        }
    }
}

/// 251 different bytes.
const PATTERN: [u8; 251] = {
    let mut bytes = [0; 251];
    let mut i = 0;
    while i < bytes.len() {
        bytes[i] = (7 * i % 251) as u8;
        i += 1;
    }
    bytes
};

/// Bytes of its own pattern from the beginning of a page on.
struct Buffer {
    memory: Vec<u8>,
    skip: usize,
    len: usize,
}

impl Buffer {
    fn new(len: usize) -> Buffer {
        let memory = vec![0; len + 4096];
        let skip = (memory.as_ptr() as usize).wrapping_neg() % 4096;
        let mut buffer = Buffer { memory, skip, len };
        for (block, bytes) in buffer.bytes().chunks_mut(PATTERN.len()).enumerate() {
            bytes.copy_from_slice(&PATTERN[..bytes.len()]);
            bytes[0] = block as u8;
        }
        buffer
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.skip..][..self.len]
    }
}

/// Runs a plan of offsets with each routine, in slices of `most` bytes, as a part of `whole` bytes, and
/// compares every byte of the buffer with the plain loop.
fn agrees(buffer_len: usize, pieces: &[Rows], most: usize, whole: usize) {
    for routine in Routine::all() {
        for as_lines in [false, pieces.iter().all(|rows| rows.height == 1)] {
            let (mut want, mut got) = (Buffer::new(buffer_len), Buffer::new(buffer_len));
            oracle(want.bytes(), pieces);
            let base = got.bytes().as_mut_ptr() as usize;
            let placed = |rows: &Rows| Rows { dst: rows.dst + base, src: rows.src + base, ..*rows };
            let placed: Vec<Rows> = pieces.iter().map(placed).collect();
            let line = |rows: &Rows| Segment { dst: rows.dst, src: rows.src, len: rows.width };
            let lines: Vec<Segment> = placed.iter().map(line).collect();
            let list = if as_lines { Pieces::Segments(&lines) } else { Pieces::Rows(&placed) };
            let mut cursor = Cursor::default();
            // SAFETY: the rows lie inside the buffer.
            while !unsafe { routine.advance(list, &mut cursor, most, whole) } {}
            let same = got.bytes() == want.bytes();
            assert!(same, "{routine:?}: {pieces:?} in slices of {most}, of {whole} bytes, lines: {as_lines}");
        }
    }
}

/// Sizes of the whole for which rows are moved in each manner.
const WHOLES: [usize; 3] = [1, limits::PREFETCH_FROM, limits::NONTEMPORAL_FROM_AMD];

#[test]
fn each_size_is_moved_in_its_manner() {
    assert_eq!(WHOLES.map(Manner::of), [Manner::Near, Manner::Far, Manner::Streamed]);
}

#[test]
fn slices_add_up_to_the_plain_loop() {
    for most in [1, 3, 64, 1000, 1 << 20] {
        for whole in WHOLES {
            agrees(4096, &[Rows::linear(2048, 0, 1000)], most, whole);
            agrees(4096, &[Rows::linear(100, 0, 1000)], most, whole);
            agrees(4096, &[Rows::linear(0, 100, 1000)], most, whole);
            let rows = Rows { dst: 2000, dst_pitch: 40, src: 1, src_pitch: 17, width: 13, height: 50 };
            agrees(4096, &[rows], most, whole);
        }
    }
}

#[test]
fn every_small_size_at_every_alignment_moves_its_bytes_and_no_others() {
    for len in (0..=300).chain([511, 512, 513, 1023, 1024, 1025, 1100, 1300]) {
        // Every alignment of the destination, and with it of the source, whose own goes another way round.
        for at in 0..64 {
            let (dst, src) = (1536 + at, 31 * at % 64);
            agrees(3072, &[Rows::linear(dst, src, len)], usize::MAX, WHOLES[(at + len) % 3]);
        }
    }
}

#[test]
fn long_rows_at_any_distance_within_a_page_move_their_bytes_and_no_others() {
    for len in [2047, 2048, 2049, 2304, 4096, 5000, 9001, 16384, 16385, 34000] {
        for past in [0, 1, 7, 31, 32, 33, 63, 64, 65, 100, 500, 1000, 1023, 1024, 2000, 4095] {
            for (at, whole) in
                [(0, 1), (5, 1), (5, limits::PREFETCH_FROM), (33, limits::NONTEMPORAL_FROM_AMD)]
            {
                agrees(80 << 10, &[Rows::linear(36864 + at + past, at, len)], usize::MAX, whole);
            }
        }
    }
}

#[test]
fn rows_that_overlap_where_they_go_are_moved_as_memmove_does() {
    for len in [1, 2, 8, 15, 16, 31, 33, 64, 65, 127, 128, 129, 200, 257, 3000] {
        for distance in [1, 2, 7, 8, 15, 16, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 2999] {
            for most in [usize::MAX, 50] {
                let whole = WHOLES[(len + distance) % 3];
                agrees(8192, &[Rows::linear(64, 64 + distance, len)], most, whole);
                agrees(8192, &[Rows::linear(64 + distance, 64, len)], most, whole);
                let (dst, src) = (64 + distance, 64);
                let rows = Rows { dst, dst_pitch: len, src, src_pitch: len, width: len, height: 2 };
                agrees(16384, &[rows], most, whole);
            }
        }
    }
}

#[test]
fn random_plans_agree_with_the_plain_loop() {
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut below = move |bound: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed as usize % bound
    };
    const WIDTHS: [usize; 12] = [1, 15, 16, 17, 32, 48, 64, 64, 96, 128, 250, 700];
    for _ in 0..1500 {
        let pieces: Vec<Rows> = (0..1 + below(6))
            .map(|_| {
                let (width, height) = (WIDTHS[below(12)], if below(2) == 0 { 1 } else { 1 + below(20) });
                let pitch = [width, width.next_multiple_of(64), 2 * width, width + below(70)];
                let (dst_pitch, src_pitch) = (pitch[below(4)], pitch[below(4)]);
                let room = (36 << 10) - 20 * 1400;
                let align = [1, 16, 64][below(3)];
                let (dst, src) = (below(room) / align * align, below(room) / align * align);
                Rows { dst, dst_pitch, src, src_pitch, width, height }
            })
            .collect();
        let most = [usize::MAX, 1 + below(3000)][below(2)];
        agrees(36 << 10, &pieces, most, WHOLES[below(3)]);
    }
}

#[test]
fn what_a_plan_has_is_estimated_from_a_few_of_its_pieces() {
    assert_eq!(limits::estimate(Pieces::Rows(&[])), 0);
    assert_eq!(limits::estimate(Pieces::Rows(&[Rows { height: 7, ..Rows::linear(0, 0, 100) }])), 700);
    assert_eq!(limits::estimate(Pieces::Rows(&[Rows::linear(0, 0, 1000); 4096])), 4_096_000);
    assert_eq!(limits::estimate(Pieces::Rows(&[Rows::linear(0, 0, usize::MAX); 3])), usize::MAX / 3 * 3);
}

#[test]
fn fills_repeat_their_pattern_from_the_start() {
    let lens = (0..200).chain([4096, limits::FILL_NONTEMPORAL_FROM + 3]);
    for (len, pattern) in lens.flat_map(|len| [(len, [9; 4]), (len, [1, 2, 3, 4])]) {
        let cases = if len < 200 { vec![1, 5, 64, 1 << 20] } else { vec![1000, 1 << 20] };
        for (most, routine) in cases.into_iter().flat_map(|most| Routine::all().map(move |it| (most, it))) {
            let at = 1 + len % 67;
            let mut got = vec![0_u8; at + len + 1];
            let what = Fill { dst: got.as_mut_ptr() as usize + at, len, pattern, device: None };
            let mut cursor = Cursor::default();
            // SAFETY: the range lies inside the buffer.
            while !unsafe { routine.fill(&what, &mut cursor, most) } {}
            let is_right = got[..at].iter().all(|byte| *byte == 0)
                && (0..len).all(|i| got[at + i] == pattern[i % 4])
                && got[at + len] == 0;
            assert!(is_right, "{routine:?}: {what:?} by {most}");
        }
    }
}

#[test]
fn fills_repeat_their_pattern_from_their_first_byte() {
    for pattern in [[9; 4], [1, 2, 3, 4]] {
        for (offset, len) in (0..8).flat_map(|offset| (0..14).map(move |len| (offset, len))) {
            let mut words = [0_u64; 4];
            let base = words.as_mut_ptr().cast::<u8>();
            // SAFETY: at most 7 + 13 bytes into 32.
            let done = unsafe { fill_all(&Fill { dst: base as usize + offset, len, pattern, device: None }) };
            assert_eq!(done, Ok(()));
            let got: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            let mut want = vec![0; 32];
            (0..len).for_each(|at| want[offset + at] = pattern[at % 4]);
            assert_eq!(got, want, "{pattern:?} at {offset}, {len} bytes");
        }
    }
}
