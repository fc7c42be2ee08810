//! How many pieces a batch or a loop has and how long they are, as names of cases spell it: `4096x4K`;
//! `4096x1-64K`, lengths from 1 to 64 KiB of which each doubling is as likely as the others; `297x512+3x2M`,
//! two sorts of pieces in random order.

use std::fmt::{self, Display, Formatter};

use crate::random::{Random, shuffle};
use crate::units::{number, short, size};

/// The pieces of a batch or a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieceSpec {
    most: PieceGroup,
    /// Others among them.
    few: Option<PieceGroup>,
}

/// Pieces of one length, or of random lengths between two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PieceGroup {
    count: usize,
    least: usize,
    most: usize,
}

impl PieceSpec {
    /// `count` pieces of `len` bytes.
    pub fn new(count: usize, len: usize) -> PieceSpec {
        PieceSpec { most: PieceGroup { count, least: len, most: len }, few: None }
    }

    /// What a name spells.
    pub fn parse(text: &str) -> Option<PieceSpec> {
        let (most, few) = text.split_once('+').map_or((text, None), |(most, few)| (most, Some(few)));
        let few = match few {
            Some(few) => Some(PieceGroup::parse(few)?),
            None => None,
        };
        Some(PieceSpec { most: PieceGroup::parse(most)?, few })
    }

    /// So many times as many.
    pub fn times(self, factor: usize) -> PieceSpec {
        let more = |group: PieceGroup| PieceGroup { count: group.count * factor, ..group };
        PieceSpec { most: more(self.most), few: self.few.map(more) }
    }

    fn groups(self) -> impl Iterator<Item = PieceGroup> {
        [self.most].into_iter().chain(self.few)
    }

    /// The length of every piece, the same in every run.
    pub fn lengths(self) -> Vec<usize> {
        let mut random = Random::new();
        let lengths = |group: PieceGroup| (0..group.count).map(move |_| (group.least, group.most));
        let mut all: Vec<usize> =
            self.groups().flat_map(lengths).map(|(least, most)| random.log_uniform(least, most)).collect();
        if self.few.is_some() {
            shuffle(&mut all);
        }
        all
    }

    /// Bytes in all pieces.
    pub fn bytes(self) -> usize {
        self.lengths().iter().sum()
    }
}

impl PieceGroup {
    fn parse(text: &str) -> Option<PieceGroup> {
        let (count, length) = text.split_once('x')?;
        let (least, most) = length.split_once('-').unwrap_or((length, length));
        let group = PieceGroup { count: number(count)?, least: size(least)?, most: size(most)? };
        (group.least <= group.most).then_some(group)
    }
}

impl Display for PieceSpec {
    fn fmt(&self, to: &mut Formatter) -> fmt::Result {
        for (index, group) in self.groups().enumerate() {
            let plus = if index > 0 { "+" } else { "" };
            write!(to, "{plus}{}x{}", group.count, short(group.least))?;
            if group.most > group.least {
                write!(to, "-{}", short(group.most))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::PieceSpec;

    #[test]
    fn a_name_says_how_many_pieces_and_how_long() {
        for (name, count, shortest, longest) in [
            ("4096x4K", 4096, 4096, 4096),
            ("16x4097", 16, 4097, 4097),
            ("1000x1-64K", 1000, 1, 64 << 10),
            ("297x512+3x2M", 300, 512, 2 << 20),
        ] {
            let pieces = PieceSpec::parse(name).expect(name);
            let lengths = pieces.lengths();
            assert_eq!(pieces.to_string(), name);
            assert_eq!((lengths.len(), pieces.bytes()), (count, lengths.iter().sum()), "{name}");
            assert!(lengths.iter().all(|len| (shortest..=longest).contains(len)), "{name}");
            assert_eq!(pieces.times(3).lengths().len(), 3 * count, "{name}");
        }
        let mixed = PieceSpec::parse("297x512+3x2M").expect("a name").lengths();
        assert!(!mixed.is_sorted(), "the long ones are among the short ones");
        for name in ["", "4096", "x4K", "0x4K", "4x0", "4x4K+", "4x64K-1", "4x4K+1x1+1x1", "4xK"] {
            assert_eq!(PieceSpec::parse(name), None, "{name:?}");
        }
    }
}
