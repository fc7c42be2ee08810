//! The pieces of a plan: none, one in the plan itself, or a list. Lists of lines are used again and again.

use crate::{
    Backend, Rows,
    sheet::{List, Sheet},
    sync::{Arc, Mutex, lock},
};
use std::{
    fmt,
    mem::{self, MaybeUninit},
    slice,
};

/// Shorter lists are cheap to make anew.
const LEAST: usize = 64;
/// Longer lists are given back to the system.
const MOST: usize = 8192;
/// How many lists are kept.
const KEPT: usize = 8;

/// A run of bytes to move, in one piece: what the pieces of batches are. Half the size of [`Rows`], and in this order: it is as
/// a kernel of a GPU reads it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// First byte of the destination.
    pub dst: usize,
    /// First byte of the source.
    pub src: usize,
    /// Bytes.
    pub len: usize,
}

impl Line {
    /// The first row.
    fn of(rows: &Rows) -> Line {
        Line { dst: rows.dst, src: rows.src, len: rows.width }
    }

    /// Whether it goes on where that one ends.
    #[inline(always)]
    pub(crate) fn follows(&self, last: &Line) -> bool {
        (self.dst, self.src) == (last.dst + last.len, last.src + last.len)
    }
}

impl From<Line> for Rows {
    #[inline(always)]
    fn from(line: Line) -> Rows {
        Rows::linear(line.dst, line.src, line.len)
    }
}

/// The pieces of a plan, none of them empty, as they are kept.
#[derive(Clone, Copy, Debug)]
pub enum Pieces<'a> {
    /// Rectangles, of which any may be a single row.
    Rows(&'a [Rows]),
    /// Single rows.
    Lines(&'a [Line]),
}

impl<'a> Pieces<'a> {
    /// How many there are.
    pub fn len(self) -> usize {
        match self {
            Pieces::Rows(rows) => rows.len(),
            Pieces::Lines(lines) => lines.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Those before the one of this index.
    pub fn before(self, end: usize) -> Pieces<'a> {
        match self {
            Pieces::Rows(rows) => Pieces::Rows(&rows[..end]),
            Pieces::Lines(lines) => Pieces::Lines(&lines[..end]),
        }
    }

    /// One after the other, as rectangles.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = Rows> + Clone + 'a {
        let (rows, lines) = match self {
            Pieces::Rows(rows) => (rows, &[][..]),
            Pieces::Lines(lines) => (&[][..], lines),
        };
        rows.iter().copied().chain(lines.iter().copied().map(Rows::from))
    }

    /// How many bytes they have.
    pub fn bytes(self) -> usize {
        match self {
            Pieces::Rows(rows) => rows.iter().map(Rows::bytes).sum(),
            Pieces::Lines(lines) => lines.iter().map(|line| line.len).sum(),
        }
    }
}

/// Lists that no plan uses now, with their memory: a fresh list costs its pages, which is more than to plan what is in it.
#[derive(Default)]
pub(crate) struct Spares {
    lists: Mutex<Vec<Vec<Line>>>,
    /// May lend memory for lists.
    backend: Option<Arc<dyn Backend>>,
}

impl Spares {
    pub(crate) fn new(backend: Arc<dyn Backend>) -> Arc<Spares> {
        Arc::new(Spares { lists: Mutex::default(), backend: Some(backend) })
    }

    /// A list with room for so many, if there is one.
    fn take(&self, room: usize) -> Option<List> {
        let sheet = self.backend.as_ref().and_then(|backend| backend.sheet(room));
        sheet.map(List::Lent).or_else(|| self.take_own(room).map(List::Own))
    }

    fn take_own(&self, room: usize) -> Option<Vec<Line>> {
        let mut lists = lock(&self.lists);
        let fits = lists.iter().position(|list| list.capacity() >= room)?;
        Some(lists.swap_remove(fits))
    }

    fn keep(&self, mut list: Vec<Line>) {
        // It may have grown since it was made, or was a sheet and is none any more.
        if !(LEAST..=2 * MOST).contains(&list.capacity()) {
            return;
        }
        list.clear();
        let mut lists = lock(&self.lists);
        if lists.len() < KEPT {
            lists.push(list);
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
    Lines(Lines),
}

/// Several lines, and where the list goes when the plan is done with.
#[derive(Clone, Default)]
pub(crate) struct Lines {
    list: List,
    /// Bytes of all of them,
    bytes: usize,
    /// and of the longest.
    most: usize,
    home: Option<Arc<Spares>>,
}

impl Lines {
    fn new(list: List, home: Option<Arc<Spares>>) -> Lines {
        Lines { list, bytes: 0, most: 0, home }
    }

    /// Adds a line behind the others.
    #[inline(always)]
    pub(crate) fn push(&mut self, line: Line) {
        self.list.push(line);
        self.bytes += line.len;
        self.most = self.most.max(line.len);
    }

    /// Adds lines behind the others.
    pub(crate) fn extend(&mut self, lines: &[Line]) {
        let sizes = lines.iter().map(|line| line.len);
        let (bytes, most) = sizes.fold((0, 0), |(bytes, most), len| (bytes + len, len.max(most)));
        self.list.add(lines);
        self.bytes += bytes;
        self.most = self.most.max(most);
    }

    /// Adds the lines that `list` writes into room for `N`: it says how many, how many bytes they have and how many the longest has.
    /// `spare` is used where they cannot be written where they will lie: what was just written is read better by words as large.
    #[inline(always)]
    pub(crate) fn fill<const N: usize>(
        &mut self,
        spare: &mut [Line; N],
        list: impl FnOnce(&mut [Line; N]) -> (usize, usize, usize),
    ) -> usize {
        let (count, bytes, most) = self.list.fill(spare, list);
        self.bytes += bytes;
        self.most = self.most.max(most);
        count
    }

    /// Adds `N` lines that `list` writes where they will lie, if that is lent memory with room for them; it says how many bytes they
    /// have and how many the longest has, or nothing. False if they were not added.
    ///
    /// # Safety
    /// If it says something, it has written all of them.
    #[inline(always)]
    pub(crate) unsafe fn fill_lent<const N: usize>(
        &mut self,
        list: impl FnOnce(&mut [MaybeUninit<Line>; N]) -> Option<(usize, usize)>,
    ) -> bool {
        // SAFETY: the caller's promise.
        let Some((bytes, most)) = (unsafe { self.list.fill_lent(list) }) else { return false };
        self.bytes += bytes;
        self.most = self.most.max(most);
        true
    }

    /// Those from `first` on that go on where the one before them ended become one with it.
    #[inline(never)]
    pub(crate) fn merge(&mut self, first: usize) {
        let (list, mut last) = (self.list.own(), first);
        for index in first + 1..list.len() {
            let line = list[index];
            let before = &mut list[last];
            if line.follows(before) {
                before.len += line.len;
                self.most = self.most.max(before.len);
            } else {
                last += 1;
                list[last] = line;
            }
        }
        list.truncate(last + 1);
    }

    pub(crate) fn len(&self) -> usize {
        self.list.lines().len()
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        if let (Some(home), List::Own(list)) = (&self.home, &mut self.list) {
            home.keep(mem::take(list));
        }
    }
}

impl Store {
    #[inline(always)]
    pub(crate) fn view(&self) -> Pieces<'_> {
        match self {
            Store::None => Pieces::Rows(&[]),
            Store::One(rows) => Pieces::Rows(slice::from_ref(rows)),
            Store::Rows(rows) => Pieces::Rows(rows),
            Store::Lines(lines) => Pieces::Lines(lines.list.lines()),
        }
    }

    /// Adds a piece behind the others.
    #[inline(always)]
    pub(crate) fn push(&mut self, rows: Rows) {
        match self {
            Store::None => *self = Store::One(rows),
            Store::Lines(lines) if rows.height == 1 => lines.push(Line::of(&rows)),
            Store::One(first) if first.height == 1 && rows.height == 1 => {
                let mut lines = Lines::default();
                [*first, rows].iter().for_each(|rows| lines.push(Line::of(rows)));
                *self = Store::Lines(lines);
            }
            _ => self.rows().push(rows),
        }
    }

    /// Bytes of all pieces, and of the longest.
    pub(crate) fn sizes(&self) -> (usize, usize) {
        match self {
            Store::Lines(lines) => (lines.bytes, lines.most),
            _ => {
                let sizes = self.view().iter().map(|rows| rows.bytes());
                (sizes.clone().sum(), sizes.max().unwrap_or(0))
            }
        }
    }

    /// What was added is there for all to read; nothing more is added.
    pub(crate) fn settle(&self) {
        if let Store::Lines(lines) = self {
            lines.list.settle();
        }
    }

    /// The memory that was lent for all pieces, with these in it.
    pub(crate) fn take_sheet(&mut self) -> Option<Box<dyn Sheet>> {
        let Store::Lines(Lines { list, .. }) = self else { return None };
        match mem::take(list) {
            List::Lent(sheet) => Some(sheet),
            own => {
                *list = own;
                None
            }
        }
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

    /// The pieces as lines, if they can be: then with room for about `count` more where the list is new.
    pub(crate) fn lines(&mut self, count: usize, spares: &Arc<Spares>) -> Option<&mut Lines> {
        let first = match self {
            Store::None => Some(None),
            Store::One(rows) if rows.height == 1 => Some(Some(Line::of(rows))),
            _ => None,
        };
        if let Some(first) = first {
            let home = (LEAST..=MOST).contains(&count).then(|| spares.clone());
            let kept = home.as_ref().and_then(|home| home.take(count));
            let list = kept.unwrap_or_else(|| List::Own(Vec::with_capacity(count.min(MOST) + LEAST)));
            let mut lines = Lines::new(list, home);
            first.into_iter().for_each(|line| lines.push(line));
            *self = Store::Lines(lines);
        }
        match self {
            Store::Lines(lines) => Some(lines),
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

    fn rows(number: usize) -> Rows {
        Rows::linear(3 * number, 5 * number, 1)
    }

    fn numbers(pieces: &Store) -> Vec<Rows> {
        pieces.view().iter().collect()
    }

    fn long(spares: &Arc<Spares>, room: usize) -> Store {
        let mut pieces = Store::default();
        pieces.lines(room, spares).expect("none yet");
        (0..room).for_each(|number| pieces.push(rows(number)));
        pieces
    }

    fn at(store: &Store) -> *const Line {
        match store.view() {
            Pieces::Lines(lines) => lines.as_ptr(),
            Pieces::Rows(_) => unreachable!("made of lines"),
        }
    }

    #[test]
    fn pieces_keep_their_order_whatever_holds_them() {
        let spares = Arc::default();
        for count in [0, 1, 2, 3, LEAST, 3 * LEAST] {
            let mut rectangles = Store::default();
            (0..count).for_each(|number| rectangles.push(rows(number)));
            let want: Vec<_> = (0..count).map(rows).collect();
            let mut turned = long(&spares, count);
            turned.rows();
            for pieces in [&rectangles, &rectangles.clone(), &long(&spares, count), &turned] {
                assert_eq!((numbers(pieces), pieces.view().len()), (want.clone(), count));
                assert_eq!(pieces.view().bytes(), count);
                assert_eq!(pieces.view().before(count / 2).iter().collect::<Vec<_>>(), want[..count / 2]);
            }
        }
    }

    #[test]
    fn a_rectangle_among_lines_makes_them_rectangles() {
        let mut pieces = long(&Arc::default(), LEAST);
        let tall = Rows { height: 3, ..rows(9) };
        pieces.push(tall);
        pieces.push(rows(7));
        let want: Vec<_> = (0..LEAST).map(rows).chain([tall, rows(7)]).collect();
        assert_eq!(numbers(&pieces), want);
        assert!(pieces.lines(2, &Arc::default()).is_none());
    }

    #[test]
    fn a_piece_that_came_first_is_a_line_among_lines() {
        let mut pieces = Store::One(rows(0));
        pieces.lines(LEAST, &Arc::default()).expect("one row").push(Line::of(&rows(1)));
        let mut pushed = Store::default();
        [rows(0), rows(1)].into_iter().for_each(|one| pushed.push(one));
        for pieces in [pieces, pushed] {
            assert!(matches!(pieces.view(), Pieces::Lines(_)));
            assert_eq!(numbers(&pieces), [rows(0), rows(1)]);
        }
        assert!(Store::One(Rows { height: 2, ..rows(0) }).lines(1, &Arc::default()).is_none());
    }

    #[test]
    fn lines_that_touch_become_one_and_those_before_stay() {
        let line = |dst, src, len| Line { dst, src, len };
        let mut lines = Lines::default();
        for one in [line(0, 0, 4), line(4, 4, 4), line(8, 8, 2), line(10, 10, 1), line(11, 12, 1)] {
            lines.push(one);
        }
        lines.merge(1);
        assert_eq!(lines.list.lines(), [line(0, 0, 4), line(4, 4, 7), line(11, 12, 1)]);
        let mut none = Lines::default();
        none.merge(0);
        assert_eq!(none.list.lines(), []);
    }

    #[test]
    fn a_long_list_is_used_again_and_only_a_few_are_kept() {
        let spares = Arc::new(Spares::default());
        let first = long(&spares, 2 * LEAST);
        let place = at(&first);
        drop(first);
        let again = long(&spares, LEAST);
        assert_eq!(at(&again), place, "the same memory");
        assert_eq!(numbers(&again), (0..LEAST).map(rows).collect::<Vec<_>>(), "and nothing of before in it");
        drop((0..3 * KEPT).map(|_| long(&spares, LEAST)).collect::<Vec<_>>());
        assert_eq!(lock(&spares.lists).len(), KEPT);
        lock(&spares.lists).clear();
        spares.keep(Vec::new());
        drop((long(&spares, LEAST - 2), long(&spares, MOST + 1)));
        assert_eq!(lock(&spares.lists).len(), 0, "neither short nor huge");
    }
}
