//! The rows of a 2-D copy, as names of cases spell them: `w64`, rows of 64 bytes with a pitch of twice that;
//! `w100p257`, with a pitch of 257 bytes on both sides; `w100p257:300h5000`, a pitch of 257 at the target and
//! of 300 at the source, and 5,000 rows.

use std::fmt::{self, Display, Formatter};

use crate::random::Random;
use crate::units::{number, short, size};

/// Rows of bytes that are copied, and how far apart they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matrix {
    /// Bytes of a row.
    pub width: usize,
    /// How many rows.
    pub height: usize,
    /// From the start of a row to the start of the next, at the target.
    pub dst_pitch: usize,
    /// The same at the source.
    pub src_pitch: usize,
}

/// How many rows a 2-D copy may have, documented.
const ROW_LIMIT: usize = 5 << 20;
/// Bytes in all rows, unless the name or `-b` says otherwise.
pub const MATRIX_BYTES: usize = 64 << 20;
/// The widest row of a random matrix.
const WIDEST: usize = 64 << 10;
/// The largest pitch of a random matrix.
const LARGEST_PITCH: usize = 128 << 10;

impl Matrix {
    /// `len` bytes in rows of `width` with a pitch of twice that, or as many as the limit of rows allows.
    pub fn new(width: usize, len: usize) -> Matrix {
        Matrix { width, height: height(width, len), dst_pitch: 2 * width, src_pitch: 2 * width }
    }

    /// What a name spells.
    pub fn parse(text: &str) -> Option<Matrix> {
        let text = text.strip_prefix('w')?;
        let (text, rows) = split(text, 'h');
        let (width, pitch) = split(text, 'p');
        let usual = Matrix::new(size(width)?, MATRIX_BYTES);
        let (dst, src) = pitch.map_or((None, None), |pitch| {
            let (dst, src) = pitch.split_once(':').unwrap_or((pitch, pitch));
            (size(dst), size(src))
        });
        let (dst_pitch, src_pitch) = match pitch {
            Some(_) => (dst?, src?),
            None => (usual.dst_pitch, usual.src_pitch),
        };
        let height = match rows {
            Some(rows) => number(rows).filter(|rows| *rows <= ROW_LIMIT)?,
            None => usual.height,
        };
        let fits = usual.width <= dst_pitch.min(src_pitch);
        fits.then_some(Matrix { width: usual.width, height, dst_pitch, src_pitch })
    }

    /// A random one: any width up to 64 KiB, pitches up to 128 KiB, a quarter to all of `len` bytes. On
    /// neither side it takes more than four times `len`.
    pub fn random(random: &mut Random, len: usize) -> Matrix {
        let width = random.log_uniform(1, WIDEST.min(len));
        let height = height(width, len / 4 + random.below(len - len / 4) + 1);
        let most = LARGEST_PITCH.min(4 * len / height).max(width);
        let [dst_pitch, src_pitch] = [(); 2].map(|()| random.log_uniform(width, most));
        Matrix { width, height, dst_pitch, src_pitch }
    }

    /// Whether the pitch is twice the width on both sides.
    pub fn has_usual_pitch(&self) -> bool {
        [self.dst_pitch, self.src_pitch] == [2 * self.width; 2]
    }

    /// Bytes in all rows.
    pub fn bytes(&self) -> usize {
        self.width * self.height
    }

    /// Bytes of the block on either side.
    pub fn room(&self) -> usize {
        self.height * self.dst_pitch.max(self.src_pitch)
    }
}

impl Display for Matrix {
    /// All of it, so that it can be named again.
    fn fmt(&self, to: &mut Formatter) -> fmt::Result {
        let [width, dst, src] = [self.width, self.dst_pitch, self.src_pitch].map(short);
        write!(to, "w{width}p{dst}:{src}h{}", self.height)
    }
}

fn height(width: usize, len: usize) -> usize {
    (len / width).clamp(1, ROW_LIMIT)
}

/// What is before and behind a letter, if it is there.
fn split(text: &str, letter: char) -> (&str, Option<&str>) {
    text.split_once(letter).map_or((text, None), |(before, behind)| (before, Some(behind)))
}

#[cfg(test)]
mod tests {
    use super::{MATRIX_BYTES, Matrix, ROW_LIMIT};
    use crate::random::Random;

    #[test]
    fn a_name_says_width_pitches_and_rows() {
        let of = |width, height, dst_pitch, src_pitch| Matrix { width, height, dst_pitch, src_pitch };
        for (name, want) in [
            ("w64", of(64, 1 << 20, 128, 128)),
            ("w1K", of(1024, 1 << 16, 2048, 2048)),
            ("w3p64", of(3, ROW_LIMIT, 64, 64)),
            ("w100p257", of(100, MATRIX_BYTES / 100, 257, 257)),
            ("w100p257:4K", of(100, MATRIX_BYTES / 100, 257, 4096)),
            ("w100p257:300h5000", of(100, 5000, 257, 300)),
            ("w100h7", of(100, 7, 200, 200)),
        ] {
            assert_eq!(Matrix::parse(name), Some(want), "{name}");
            assert_eq!(Matrix::parse(&want.to_string()), Some(want), "{want}");
        }
        for name in ["", "64", "w", "w0", "w64p", "w64p63", "w64p64:63", "w64h0", "w64h5242881", "w64p1:2:3"]
        {
            assert_eq!(Matrix::parse(name), None, "{name:?}");
        }
    }

    #[test]
    fn random_ones_keep_their_limits_and_differ() {
        let mut random = Random::new();
        let all: Vec<Matrix> = (0..500).map(|_| Matrix::random(&mut random, MATRIX_BYTES)).collect();
        for one in &all {
            assert!((1..=64 << 10).contains(&one.width) && one.height <= ROW_LIMIT, "{one}");
            for pitch in [one.dst_pitch, one.src_pitch] {
                assert!(pitch >= one.width && pitch <= 128 << 10, "{one}");
            }
            assert!(one.room() <= 4 * MATRIX_BYTES && one.bytes() <= MATRIX_BYTES, "{one}");
            assert!(one.height == ROW_LIMIT || one.bytes() > MATRIX_BYTES / 4 - one.width, "{one}");
        }
        let odd = all.iter().filter(|one| one.dst_pitch % 2 == 1).count();
        assert!((150..350).contains(&odd), "{odd} of 500 pitches are odd");
        assert!(Matrix::random(&mut random, 1).bytes() == 1);
    }
}
