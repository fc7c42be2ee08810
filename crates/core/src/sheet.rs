//! Where the lines of a plan are written: into memory of our own, or into memory that the backend lends, since its engine can read
//! them there and they need not be copied.

use crate::Line;
use std::{any::Any, mem::MaybeUninit};

/// Memory for a list of lines that a backend lends. It has it back when this is dropped.
pub trait Sheet: Any + Send + Sync {
    /// Writes lines behind the others, or none of them if there is no room for all: then it says false.
    fn write(&mut self, lines: &[Line]) -> bool;

    /// Room for more behind what was written: it is best written past the caches, in whole lines of them. What was written so is
    /// [`settled`](Self::settle) by the thread that wrote it before anybody reads it.
    fn room(&mut self) -> &mut [MaybeUninit<Line>];

    /// The first lines of the room are written as well.
    ///
    /// # Safety
    /// They are, as many as this.
    unsafe fn wrote(&mut self, count: usize);

    /// What this thread has written is there for all to read, of this sheet and of whoever has its memory next.
    fn settle(&self);

    /// What was written, and settled.
    fn lines(&self) -> &[Line];
}

/// A list of lines.
pub(crate) enum List {
    Own(Vec<Line>),
    Lent(Box<dyn Sheet>),
}

impl List {
    pub(crate) fn lines(&self) -> &[Line] {
        match self {
            List::Own(list) => list,
            List::Lent(sheet) => sheet.lines(),
        }
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, line: Line) {
        match self {
            List::Own(list) => list.push(line),
            List::Lent(_) => self.add(&[line]),
        }
    }

    pub(crate) fn add(&mut self, lines: &[Line]) {
        match self {
            List::Own(list) => list.extend_from_slice(lines),
            List::Lent(sheet) => {
                if !sheet.write(lines) {
                    self.own().extend_from_slice(lines);
                }
            }
        }
    }

    /// Adds the lines that `list` writes into room for `N`, and says what it says: how many they are comes first.
    #[inline(always)]
    pub(crate) fn fill<const N: usize, A, B>(
        &mut self,
        spare: &mut [Line; N],
        list: impl FnOnce(&mut [Line; N]) -> (usize, A, B),
    ) -> (usize, A, B) {
        match self {
            List::Own(lines) => {
                let first = lines.len();
                lines.resize(first + N, Line::default());
                let filled = list(lines[first..].first_chunk_mut().expect("just added"));
                lines.truncate(first + filled.0);
                filled
            }
            List::Lent(_) => {
                let filled = list(spare);
                self.add(&spare[..filled.0]);
                filled
            }
        }
    }

    /// Adds `N` lines that `list` writes where they will lie, if that is lent memory with room for them and it says something.
    ///
    /// # Safety
    /// If it says something, it has written all of them.
    #[inline(always)]
    pub(crate) unsafe fn fill_lent<const N: usize, A>(
        &mut self,
        list: impl FnOnce(&mut [MaybeUninit<Line>; N]) -> Option<A>,
    ) -> Option<A> {
        let List::Lent(sheet) = self else { return None };
        let said = list(sheet.room().first_chunk_mut()?)?;
        // SAFETY: the caller's promise.
        unsafe { sheet.wrote(N) };
        Some(said)
    }

    /// What was written is there for all to read. A list that is lent is not read before.
    pub(crate) fn settle(&self) {
        if let List::Lent(sheet) = self {
            sheet.settle();
        }
    }

    /// The list in memory of our own from here on.
    pub(crate) fn own(&mut self) -> &mut Vec<Line> {
        self.settle();
        if let List::Lent(sheet) = self {
            *self = List::Own(sheet.lines().to_vec());
        }
        match self {
            List::Own(list) => list,
            List::Lent(_) => unreachable!("made our own above"),
        }
    }
}

impl Default for List {
    fn default() -> Self {
        List::Own(Vec::new())
    }
}

/// A copy is always in memory of our own.
impl Clone for List {
    fn clone(&self) -> Self {
        List::Own(self.lines().to_vec())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// With this capacity.
    struct Paper(Vec<Line>, usize);

    impl Sheet for Paper {
        fn write(&mut self, lines: &[Line]) -> bool {
            let fits = self.0.len() + lines.len() <= self.1;
            self.0.extend(lines.iter().filter(|_| fits));
            fits
        }

        fn room(&mut self) -> &mut [MaybeUninit<Line>] {
            self.0.reserve(self.1);
            let left = self.1 - self.0.len();
            &mut self.0.spare_capacity_mut()[..left]
        }

        unsafe fn wrote(&mut self, count: usize) {
            let len = self.0.len() + count;
            // SAFETY: the caller's promise.
            unsafe { self.0.set_len(len) };
        }

        fn settle(&self) {}

        fn lines(&self) -> &[Line] {
            &self.0
        }
    }

    fn line(number: usize) -> Line {
        Line { dst: number, src: 2 * number, len: 1 }
    }

    fn lent(room: usize) -> List {
        List::Lent(Box::new(Paper(Vec::new(), room)))
    }

    /// Adds five lines in every way, and tells whether they are still where they were written first.
    fn stays(mut list: List) -> bool {
        list.push(line(0));
        list.add(&[line(1), line(2)]);
        let filled = list.fill(&mut [Line::default(); 4], |room| {
            room[..2].copy_from_slice(&[line(3), line(4)]);
            (2, "and what", "is told")
        });
        assert_eq!(filled, (2, "and what", "is told"));
        assert!(list.lines().iter().copied().eq((0..5).map(line)));
        assert_eq!(list.clone().lines(), list.lines());
        matches!(list, List::Lent(_))
    }

    #[test]
    fn lines_stay_in_lent_memory_as_long_as_there_is_room() {
        assert!(stays(lent(5)) && stays(lent(100)));
        assert!((0..5).all(|room| !stays(lent(room))) && !stays(List::default()));
    }

    /// Adds a line, and three more where they will lie, if there is room and `writes`.
    fn placed(mut list: List, writes: bool) -> (Option<&'static str>, usize) {
        list.push(line(0));
        // SAFETY: it writes all three when it says so.
        let said = unsafe {
            list.fill_lent(|room: &mut [_; 3]| {
                (1..4).zip(room).for_each(|(number, place)| {
                    place.write(line(number));
                });
                writes.then_some("so")
            })
        };
        assert!(list.lines().iter().copied().eq((0..list.lines().len()).map(line)));
        (said, list.lines().len())
    }

    #[test]
    fn lines_are_written_where_they_will_lie_if_there_is_room_for_all() {
        assert_eq!(placed(lent(4), true), (Some("so"), 4));
        assert_eq!(placed(lent(4), false), (None, 1));
        assert_eq!(placed(lent(3), true), (None, 1));
        assert_eq!(placed(List::default(), true), (None, 1));
    }
}
