//! Reductions: device memory combined with device memory, element by element, where it lies.
//!
//! As a [`Plan`](crate::Plan) is a copy that has been checked, a [`Reduction`] is a checked reduction in the
//! engine's addresses. What the numbers become is the backend's part; `docs/decisions/0010-reductions.md`
//! says what that must be.

use crate::uses::Touched;
use smallvec::SmallVec;
use std::mem;

/// How an element of the destination and one of the source become one. The numbers are part of the format of
/// recordings, and the kernels of the cuda backend have them: they do not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Combine {
    /// Their sum. Integers wrap.
    Sum = 0,
    /// The larger of the two.
    Max = 1,
    /// The smaller of the two.
    Min = 2,
}

impl Combine {
    /// The one of this number.
    pub fn of_number(number: u8) -> Option<Combine> {
        use Combine::*;
        [Sum, Max, Min].into_iter().find(|combine| *combine as u8 == number)
    }
}

/// What the bytes are, in the byte order of this machine. The numbers do not change, as those of [`Combine`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Element {
    /// A signed byte.
    I8 = 0,
    /// 16 bits, signed.
    I16 = 1,
    /// 32 bits, signed.
    I32 = 2,
    /// 32 bits, unsigned.
    U32 = 3,
    /// An IEEE 754 float of 16 bits.
    F16 = 4,
    /// The upper half of a float of 32 bits.
    Bf16 = 5,
    /// An IEEE 754 float of 32 bits.
    F32 = 6,
}

impl Element {
    /// The one of this number.
    pub fn of_number(number: u8) -> Option<Element> {
        use Element::*;
        [I8, I16, I32, U32, F16, Bf16, F32].into_iter().find(|element| *element as u8 == number)
    }

    /// Bytes of an element.
    ///
    /// ```
    /// use ferry_core::reduce::Element;
    ///
    /// assert_eq!((Element::I8.size(), Element::Bf16.size(), Element::U32.size()), (1, 2, 4));
    /// ```
    pub fn size(self) -> usize {
        match self {
            Element::I8 => 1,
            Element::I16 | Element::F16 | Element::Bf16 => 2,
            Element::I32 | Element::U32 | Element::F32 => 4,
        }
    }
}

/// Bytes of a reduction that lie in one piece at both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReducedPiece {
    /// How many bytes of the reduction lie before it.
    pub start: usize,
    /// The engine's address of its first byte in the destination.
    pub dst: usize,
    /// The engine's address of its first byte in the source.
    pub src: usize,
    /// Its bytes. An element may begin in one piece and end in a later one.
    pub len: usize,
}

/// A checked reduction: every byte of both ends lies in known memory, and the backend can do it.
#[derive(Clone, Debug)]
pub struct Reduction {
    pub(crate) pieces: SmallVec<[ReducedPiece; 1]>,
    pub(crate) combine: Combine,
    pub(crate) element: Element,
    pub(crate) backward: bool,
    pub(crate) touched: Touched,
}

impl Reduction {
    /// Which registered memory it uses; it forgets that.
    pub(crate) fn take_touched(&mut self) -> Touched {
        mem::take(&mut self.touched)
    }

    /// How two elements become one.
    pub fn combine(&self) -> Combine {
        self.combine
    }

    /// What the bytes are.
    pub fn element(&self) -> Element {
        self.element
    }

    /// How many bytes of the destination change.
    pub fn bytes(&self) -> usize {
        self.pieces.last().map_or(0, |last| last.start + last.len)
    }

    /// Whether the last elements must be done first: the destination begins inside the source, and each
    /// element of the source is to be read before it is written.
    pub fn is_backward(&self) -> bool {
        self.backward
    }

    /// What `len` bytes from `start` on consist of, in ascending order: parts of pieces, with `start` counted
    /// from the reduction's first byte as ever.
    pub fn within(&self, start: usize, len: usize) -> impl Iterator<Item = ReducedPiece> {
        let end = start + len;
        let first = self.pieces.partition_point(|piece| piece.start + piece.len <= start);
        self.pieces[first..].iter().take_while(move |piece| piece.start < end).map(move |piece| {
            let from = piece.start.max(start);
            let (skip, to) = (from - piece.start, (piece.start + piece.len).min(end));
            ReducedPiece { start: from, dst: piece.dst + skip, src: piece.src + skip, len: to - from }
        })
    }
}
