//! The pieces of a plan: none, one in the plan itself, rectangles, or a list of segments.

use super::{
    rows::Rows,
    segments::{FreeLists, Segment, SegmentList, SegmentSink, Sizes, is_kept},
};
use crate::sync::Arc;
use std::{fmt, slice};

/// The pieces of a plan, none of them empty, as they are kept.
#[derive(Clone, Copy, Debug)]
pub enum Pieces<'a> {
    /// Rectangles, of which any may be a single row.
    Rows(&'a [Rows]),
    /// Single rows.
    Segments(&'a [Segment]),
}

impl<'a> Pieces<'a> {
    /// How many there are.
    pub fn len(self) -> usize {
        match self {
            Pieces::Rows(rows) => rows.len(),
            Pieces::Segments(segments) => segments.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The single row that they are, if they are one.
    #[inline]
    pub fn one_row(self) -> Option<Segment> {
        match self {
            Pieces::Rows([rows]) if rows.height == 1 => Some(Segment::of(rows)),
            Pieces::Segments([segment]) => Some(*segment),
            _ => None,
        }
    }

    /// Those before the one of this index.
    pub fn before(self, end: usize) -> Pieces<'a> {
        match self {
            Pieces::Rows(rows) => Pieces::Rows(&rows[..end]),
            Pieces::Segments(segments) => Pieces::Segments(&segments[..end]),
        }
    }

    /// One after the other, as rectangles.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = Rows> + Clone + 'a {
        let (rows, segments) = match self {
            Pieces::Rows(rows) => (rows, &[][..]),
            Pieces::Segments(segments) => (&[][..], segments),
        };
        rows.iter().copied().chain(segments.iter().copied().map(Rows::from))
    }

    /// How many bytes they have.
    pub fn bytes(self) -> usize {
        match self {
            Pieces::Rows(rows) => rows.iter().map(Rows::bytes).sum(),
            Pieces::Segments(segments) => segments.iter().map(|segment| segment.len).sum(),
        }
    }
}

/// What holds the pieces of a plan. Most plans have one, and that costs no memory of its own.
#[derive(Clone, Default)]
pub(crate) enum Store {
    #[default]
    None,
    One(Rows),
    Rows(Vec<Rows>),
    Segments(SegmentList),
}

impl Store {
    #[inline(always)]
    pub(crate) fn view(&self) -> Pieces<'_> {
        match self {
            Store::None => Pieces::Rows(&[]),
            Store::One(rows) => Pieces::Rows(slice::from_ref(rows)),
            Store::Rows(rows) => Pieces::Rows(rows),
            Store::Segments(list) => Pieces::Segments(list.segments()),
        }
    }

    /// Appends a piece.
    #[inline(always)]
    pub(crate) fn push(&mut self, rows: Rows) {
        match self {
            Store::None => *self = Store::One(rows),
            Store::Segments(list) if rows.height == 1 => list.push(Segment::of(&rows)),
            Store::One(first) if first.height == 1 && rows.height == 1 => {
                let mut list = SegmentList::default();
                [*first, rows].iter().for_each(|rows| list.push(Segment::of(rows)));
                *self = Store::Segments(list);
            }
            _ => self.rows().push(rows),
        }
    }

    /// Appends segments.
    pub(crate) fn extend(&mut self, segments: &[Segment]) {
        match self {
            Store::Segments(list) => list.extend(segments),
            _ => self.rows().extend(segments.iter().copied().map(Rows::from)),
        }
    }

    /// The sizes of all pieces.
    pub(crate) fn sizes(&self) -> Sizes {
        match self {
            Store::Segments(list) => list.sizes(),
            _ => {
                let sizes = self.view().iter().map(|rows| rows.bytes());
                Sizes { bytes: sizes.clone().sum(), longest: sizes.max().unwrap_or(0) }
            }
        }
    }

    /// Everything has been appended: all threads may read it.
    pub(crate) fn finish(&mut self) {
        if let Some(list) = self.list() {
            list.finish();
        }
    }

    /// The sink that holds all pieces, if one does.
    pub(crate) fn sink(&mut self) -> Option<&mut dyn SegmentSink> {
        self.list()?.sink()
    }

    /// The pieces as rectangles.
    pub(crate) fn rows(&mut self) -> &mut Vec<Rows> {
        if !matches!(self, Store::Rows(_)) {
            *self = Store::Rows(self.view().iter().collect());
        }
        match self {
            Store::Rows(rows) => rows,
            _ => unreachable!("made above"),
        }
    }

    /// Turns a store that has no list yet, and can have one of segments, into such a list with room for about
    /// `count`.
    pub(crate) fn begin_list(
        &mut self,
        count: usize,
        free: &Arc<FreeLists>,
        sink: impl FnOnce() -> Option<Box<dyn SegmentSink>>,
    ) {
        let first = match self {
            Store::None => None,
            Store::One(rows) if rows.height == 1 => Some(Segment::of(rows)),
            _ => return,
        };
        let sink = if is_kept(count) { sink() } else { None };
        let mut list = SegmentList::new(count, sink, free);
        first.into_iter().for_each(|segment| list.push(segment));
        *self = Store::Segments(list);
    }

    /// The list of segments, if there is one.
    pub(crate) fn list(&mut self) -> Option<&mut SegmentList> {
        match self {
            Store::Segments(list) => Some(list),
            _ => None,
        }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.view().iter()).finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// As many as make a list.
    const LISTED: usize = 64;

    fn rows(number: usize) -> Rows {
        Rows::linear(3 * number, 5 * number, 1)
    }

    fn all(pieces: &Store) -> Vec<Rows> {
        pieces.view().iter().collect()
    }

    /// A list of so many.
    fn long(free: &Arc<FreeLists>, count: usize) -> Store {
        let mut pieces = Store::default();
        pieces.begin_list(count, free, || None);
        (0..count).for_each(|number| pieces.push(rows(number)));
        pieces
    }

    #[test]
    fn pieces_keep_their_order_whatever_holds_them() {
        let free = Arc::default();
        for count in [0, 1, 2, 3, LISTED, 3 * LISTED] {
            let mut rectangles = Store::default();
            (0..count).for_each(|number| rectangles.push(rows(number)));
            let want: Vec<_> = (0..count).map(rows).collect();
            let mut turned = long(&free, count);
            turned.rows();
            for pieces in [&rectangles, &rectangles.clone(), &long(&free, count), &turned] {
                assert_eq!((all(pieces), pieces.view().len()), (want.clone(), count));
                assert_eq!(pieces.view().bytes(), count);
                assert_eq!(pieces.view().before(count / 2).iter().collect::<Vec<_>>(), want[..count / 2]);
            }
        }
    }

    #[test]
    fn a_rectangle_among_segments_makes_them_rectangles() {
        let mut pieces = long(&Arc::default(), LISTED);
        let tall = Rows { height: 3, ..rows(9) };
        pieces.push(tall);
        pieces.push(rows(7));
        pieces.extend(&[Segment::of(&rows(8))]);
        let want: Vec<_> = (0..LISTED).map(rows).chain([tall, rows(7), rows(8)]).collect();
        assert_eq!(all(&pieces), want);
        pieces.begin_list(2, &Arc::default(), || None);
        assert!(pieces.list().is_none());
    }

    #[test]
    fn a_piece_that_came_first_is_a_segment_among_segments() {
        let mut pieces = Store::One(rows(0));
        pieces.begin_list(LISTED, &Arc::default(), || None);
        pieces.extend(&[Segment::of(&rows(1))]);
        let mut pushed = Store::default();
        [rows(0), rows(1)].into_iter().for_each(|one| pushed.push(one));
        for pieces in [pieces, pushed] {
            assert!(matches!(pieces.view(), Pieces::Segments(_)));
            assert_eq!(all(&pieces), [rows(0), rows(1)]);
        }
        let mut tall = Store::One(Rows { height: 2, ..rows(0) });
        tall.begin_list(1, &Arc::default(), || None);
        assert!(tall.list().is_none());
    }
}
