//! Where the bytes of a copy lie in a block on either side, and what the target must hold afterwards.

use std::sync::OnceLock;

use ferry_abi::Result;
use ferry_abi::error::ensure;

use crate::bytes::Bytes;
use crate::matrix::Matrix;
use crate::pieces::PieceSpec;
use crate::random::Random;

/// Bytes that are contiguous on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Offset in the target, or its address (`Sides::addresses`).
    pub dst: usize,
    /// Offset in the source, or its address.
    pub src: usize,
    /// How many bytes.
    pub len: usize,
}

/// All bytes of a copy.
pub enum Shape {
    /// One segment.
    Line(Segment),
    /// Rows with a pitch on either side.
    Grid(Matrix),
    /// Segments anywhere; those of the target do not overlap.
    Segments(Vec<Segment>),
}

/// What the target holds where nothing was copied to; no byte of a source has this value.
pub const BLANK: u8 = 0xFF;
/// The period of the source's pattern in bytes: a prime, so that an offset that is wrong by a round number is
/// noticed.
const PERIOD: usize = 1_048_573;
/// Bytes written or compared at a time: few enough to stay in the cache meanwhile.
const CHUNK: usize = 256 << 10;

impl Shape {
    /// `len` bytes from the start of either block.
    pub fn line(len: usize) -> Shape {
        Shape::Line(Segment { dst: 0, src: 0, len })
    }

    /// Segments at random places in `region` bytes, chosen for each side.
    pub fn scattered(pieces: PieceSpec, region: usize) -> Shape {
        let (mut random, lengths) = (Random::new(), pieces.lengths());
        let [dst, src] = [(); 2].map(|()| places(&mut random, &lengths, region));
        let piece = |((dst, src), len)| Segment { dst, src, len };
        Shape::Segments(dst.into_iter().zip(src).zip(lengths).map(piece).collect())
    }

    /// How many segments or rows there are.
    pub fn count(&self) -> usize {
        match self {
            Shape::Line(_) => 1,
            Shape::Grid(rows) => rows.height,
            Shape::Segments(pieces) => pieces.len(),
        }
    }

    /// All segments or rows.
    pub fn segments(&self) -> impl Iterator<Item = Segment> {
        (0..self.count()).map(|index| self.segment(index))
    }

    /// One segment or row.
    pub fn segment(&self, index: usize) -> Segment {
        match self {
            Shape::Line(piece) => *piece,
            Shape::Grid(rows) => {
                Segment { dst: index * rows.dst_pitch, src: index * rows.src_pitch, len: rows.width }
            }
            Shape::Segments(pieces) => pieces[index],
        }
    }

    /// Bytes in all segments or rows.
    pub fn bytes(&self) -> usize {
        match self {
            Shape::Line(piece) => piece.len,
            Shape::Grid(rows) => rows.bytes(),
            Shape::Segments(pieces) => pieces.iter().map(|piece| piece.len).sum(),
        }
    }

    /// Fails unless every byte of `target` is what this copy makes of a blank target. Returns how many were
    /// compared.
    pub fn check(&self, who: &str, target: &dyn Bytes) -> Result<usize> {
        let mut pieces: Vec<Segment> = self.segments().collect();
        pieces.sort_unstable_by_key(|piece| piece.dst);
        let mut next = 0;
        let (mut seen, mut wanted) = (vec![0; CHUNK.min(target.len())], vec![0; CHUNK.min(target.len())]);
        for start in (0..target.len()).step_by(CHUNK) {
            let end = target.len().min(start + CHUNK);
            let (seen, wanted) = (&mut seen[..end - start], &mut wanted[..end - start]);
            wanted.fill(BLANK);
            while let Some(piece) = pieces.get(next).filter(|piece| piece.dst < end) {
                let (from, to) = (piece.dst.max(start), (piece.dst + piece.len).min(end));
                source_bytes(piece.src + (from - piece.dst), &mut wanted[from - start..to - start]);
                // They do not overlap, so one that goes on in the next chunk is the last in this one.
                if piece.dst + piece.len > end {
                    break;
                }
                next += 1;
            }
            target.get(start, seen)?;
            compare(who, start, seen, wanted)?;
        }
        Ok(target.len())
    }
}

/// Writes the pattern to all of a source, which also populates its pages before anything is timed.
pub fn write_source(source: &dyn Bytes) -> Result<()> {
    let mut chunk = vec![0; CHUNK.min(source.len())];
    for start in (0..source.len()).step_by(CHUNK) {
        let end = source.len().min(start + CHUNK);
        source_bytes(start, &mut chunk[..end - start]);
        source.put(start, &chunk[..end - start])?;
    }
    Ok(())
}

/// Makes all of a target blank.
pub fn spoil(target: &dyn Bytes) -> Result<()> {
    let chunk = vec![BLANK; CHUNK.min(target.len())];
    for start in (0..target.len()).step_by(CHUNK) {
        target.put(start, &chunk[..(target.len() - start).min(CHUNK)])?;
    }
    Ok(())
}

/// The bytes of every source from `offset` on.
fn source_bytes(offset: usize, out: &mut [u8]) {
    static TABLE: OnceLock<Vec<u8>> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        let mut random = Random::new();
        let never_blank = |word: u64| (word as u8) % BLANK;
        (0..PERIOD).map(|_| never_blank(random.next())).collect()
    });
    let (mut at, mut out) = (offset % PERIOD, out);
    while !out.is_empty() {
        let (now, later) = out.split_at_mut(out.len().min(PERIOD - at));
        now.copy_from_slice(&table[at..at + now.len()]);
        (at, out) = (0, later);
    }
}

/// Fails with the first byte of the target that differs.
fn compare(who: &str, start: usize, seen: &[u8], wanted: &[u8]) -> Result<()> {
    if seen == wanted {
        return Ok(());
    }
    let first = seen.iter().zip(wanted).position(|(seen, wanted)| seen != wanted).unwrap_or(0);
    let what = format!("byte {} of what {who} copied", start + first);
    ensure(false, &what, format!("{:#04x}", wanted[first]), format!("{:#04x}", seen[first]))
}

/// Offsets of pieces with these lengths that do not overlap, in random order: equal ones at multiples of
/// their length, others at multiples of the greatest power of two that divides every length.
fn places(random: &mut Random, lengths: &[usize], region: usize) -> Vec<usize> {
    let (count, len) = (lengths.len(), lengths[0]);
    let total: usize = lengths.iter().sum();
    assert!(total <= region, "{count} pieces of {total} bytes do not fit into {region}");
    if lengths.iter().all(|other| *other == len) {
        let mut slots: Vec<usize> = (0..region / len).collect();
        random.draw(&mut slots, count);
        return slots[..count].iter().map(|slot| slot * len).collect();
    }
    let align = 1 << lengths.iter().map(|len| len.trailing_zeros()).min().unwrap_or(0);
    let mut order: Vec<usize> = (0..count).collect();
    random.draw(&mut order, count);
    // Before each piece, what is left free in front of it.
    let mut free: Vec<usize> =
        (0..count).map(|_| random.below((region - total) / align + 1) * align).collect();
    free.sort_unstable();
    let (mut places, mut taken) = (vec![0; count], 0);
    for (index, free) in order.into_iter().zip(free) {
        places[index] = free + taken;
        taken += lengths[index];
    }
    places
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::{Bytes, CHUNK, Segment, Shape, spoil, write_source};
    use crate::matrix::Matrix;
    use crate::pieces::PieceSpec;
    use ferry_abi::Result;

    struct Plain(RefCell<Vec<u8>>);

    impl Plain {
        fn new(len: usize) -> Plain {
            Plain(RefCell::new(vec![0; len]))
        }
    }

    impl Bytes for Plain {
        fn len(&self) -> usize {
            self.0.borrow().len()
        }

        fn put(&self, offset: usize, bytes: &[u8]) -> Result<()> {
            self.0.borrow_mut()[offset..][..bytes.len()].copy_from_slice(bytes);
            Ok(())
        }

        fn get(&self, offset: usize, bytes: &mut [u8]) -> Result<()> {
            bytes.copy_from_slice(&self.0.borrow()[offset..][..bytes.len()]);
            Ok(())
        }
    }

    fn copied(shape: &Shape, len: usize) -> Plain {
        let (target, source) = (Plain::new(len), Plain::new(len));
        write_source(&source).unwrap();
        spoil(&target).unwrap();
        for Segment { dst, src, len } in shape.segments() {
            target.put(dst, &source.0.borrow()[src..][..len]).unwrap();
        }
        target
    }

    #[test]
    fn a_right_copy_is_right_and_every_wrong_byte_is_noticed() {
        let len = CHUNK + 5000;
        for shape in [
            Shape::line(len),
            Shape::Line(Segment { dst: 3, src: 70, len: CHUNK + 1 }),
            Shape::Grid(Matrix { width: 24, height: len / 64, dst_pitch: 64, src_pitch: 33 }),
            Shape::scattered(PieceSpec::new(60, 4000), len),
            Shape::scattered(PieceSpec::parse("100x1-4K+3x8K").expect("a name"), len),
        ] {
            let target = copied(&shape, len);
            assert_eq!(shape.check("x", &target).unwrap(), len);
            for wrong in [0, 1, 63, 64, 4095, CHUNK - 1, CHUNK, len - 1] {
                target.0.borrow_mut()[wrong] ^= 0x10;
                let error = shape.check("x", &target).unwrap_err().to_string();
                assert!(error.starts_with(&format!("byte {wrong} of what x copied: expected")), "{error}");
                target.0.borrow_mut()[wrong] ^= 0x10;
            }
        }
    }

    #[test]
    fn a_copy_that_did_nothing_differs_in_its_first_byte() {
        let target = Plain::new(1000);
        spoil(&target).unwrap();
        for at in 0..1000 {
            let shape = Shape::Line(Segment { dst: at, src: 17, len: 1 });
            let error = shape.check("x", &target).unwrap_err().to_string();
            assert!(error.starts_with(&format!("byte {at} of")), "{error}");
        }
    }

    #[test]
    fn scattered_pieces_are_the_same_each_time_and_do_not_touch_each_other() {
        for (name, align) in [("64x100", 100), ("60x1-100", 1), ("40x48+4x512", 16)] {
            let scattered = || Shape::scattered(PieceSpec::parse(name).expect(name), 10_000);
            let pieces = |shape: &Shape| shape.segments().collect::<Vec<_>>();
            assert_eq!(pieces(&scattered()), pieces(&scattered()));
            for side in [|piece: &Segment| piece.dst, |piece: &Segment| piece.src] {
                let mut places: Vec<(usize, usize)> =
                    pieces(&scattered()).iter().map(|piece| (side(piece), piece.len)).collect();
                assert!(!places.is_sorted(), "{name}");
                places.sort_unstable();
                assert!(places.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "{name}");
                assert!(places.iter().all(|(at, len)| at % align == 0 && at + len <= 10_000), "{name}");
            }
        }
    }
}
