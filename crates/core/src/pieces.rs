//! The pieces of a plan: none, one in the plan itself, or a list that is used again and again.

use crate::{
    Rows,
    sync::{Arc, Mutex, lock},
};
use std::{fmt, mem, slice};

/// Shorter lists are cheap to make anew.
const LEAST: usize = 64;
/// Longer lists are given back to the system.
const MOST: usize = 8192;
/// How many lists are kept.
const KEPT: usize = 8;

/// Lists that no plan uses now, with their memory: a fresh list costs its pages, which is more than to plan what is in it.
#[derive(Default)]
pub(crate) struct Spares(Mutex<Vec<Vec<Rows>>>);

impl Spares {
    fn take(&self, room: usize) -> Option<Vec<Rows>> {
        let mut lists = lock(&self.0);
        let fits = lists.iter().position(|list| list.capacity() >= room)?;
        Some(lists.swap_remove(fits))
    }

    fn keep(&self, mut list: Vec<Rows>) {
        // It may have grown since it was made.
        if list.capacity() > 2 * MOST {
            return;
        }
        list.clear();
        let mut lists = lock(&self.0);
        if lists.len() < KEPT {
            lists.push(list);
        }
    }
}

/// Most plans have one piece, and that costs no memory of its own.
#[derive(Clone, Default)]
pub(crate) enum Pieces {
    #[default]
    None,
    One(Rows),
    Many(List),
}

/// Several pieces, and where the list goes when the plan is done with.
#[derive(Clone)]
pub(crate) struct List {
    rows: Vec<Rows>,
    home: Option<Arc<Spares>>,
}

impl Pieces {
    #[inline(always)]
    pub(crate) fn as_slice(&self) -> &[Rows] {
        match self {
            Pieces::None => &[],
            Pieces::One(rows) => slice::from_ref(rows),
            Pieces::Many(list) => &list.rows,
        }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [Rows] {
        match self {
            Pieces::None => &mut [],
            Pieces::One(rows) => slice::from_mut(rows),
            Pieces::Many(list) => &mut list.rows,
        }
    }

    /// Adds a piece behind the others.
    #[inline(always)]
    pub(crate) fn push(&mut self, rows: Rows) {
        match self {
            Pieces::None => *self = Pieces::One(rows),
            _ => self.list().push(rows),
        }
    }

    /// The pieces as a list.
    #[inline]
    pub(crate) fn list(&mut self) -> &mut Vec<Rows> {
        if !matches!(self, Pieces::Many(_)) {
            let rows = self.as_slice().to_vec();
            *self = Pieces::Many(List { rows, home: None });
        }
        match self {
            Pieces::Many(list) => &mut list.rows,
            _ => unreachable!("made above"),
        }
    }

    /// Becomes a list with room for `count` more, if it is none yet.
    pub(crate) fn make_room(&mut self, count: usize, spares: &Arc<Spares>) {
        if matches!(self, Pieces::Many(_)) {
            return;
        }
        let before = mem::take(self);
        let home = (LEAST..=MOST).contains(&count).then(|| spares.clone());
        let kept = home.as_ref().and_then(|home| home.take(count + 1));
        let mut rows = kept.unwrap_or_else(|| Vec::with_capacity(count.min(MOST) + 1));
        rows.extend_from_slice(before.as_slice());
        *self = Pieces::Many(List { rows, home });
    }
}

impl Drop for List {
    fn drop(&mut self) {
        if let Some(home) = &self.home {
            home.keep(mem::take(&mut self.rows));
        }
    }
}

impl fmt::Debug for Pieces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_slice().fmt(f)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn rows(number: usize) -> Rows {
        Rows::linear(number, number, 1)
    }

    fn long(spares: &Arc<Spares>, room: usize) -> Pieces {
        let mut pieces = Pieces::One(rows(0));
        pieces.make_room(room, spares);
        (1..room).for_each(|number| pieces.push(rows(number)));
        pieces
    }

    #[test]
    fn pieces_keep_their_order_whatever_holds_them() {
        for count in [0, 1, 2, 3, LEAST, 3 * LEAST] {
            let mut pieces = Pieces::default();
            (0..count).for_each(|number| pieces.push(rows(number)));
            let want: Vec<_> = (0..count).map(rows).collect();
            assert_eq!(pieces.as_slice(), want);
            assert_eq!(pieces.clone().as_slice(), want);
        }
    }

    #[test]
    fn a_long_list_is_used_again_and_only_a_few_are_kept() {
        let spares = Arc::new(Spares::default());
        let first = long(&spares, LEAST);
        let at = first.as_slice().as_ptr();
        drop(first);
        let again = long(&spares, LEAST);
        assert_eq!(again.as_slice().as_ptr(), at, "the same memory");
        assert_eq!(again.as_slice(), (0..LEAST).map(rows).collect::<Vec<_>>(), "and nothing of before in it");
        drop((0..3 * KEPT).map(|_| long(&spares, LEAST)).collect::<Vec<_>>());
        assert_eq!(lock(&spares.0).len(), KEPT);
        drop((long(&spares, LEAST - 2), long(&spares, MOST + 1)));
        assert_eq!(
            lock(&spares.0).iter().map(Vec::capacity).max(),
            Some(LEAST + 1),
            "neither short nor huge"
        );
    }
}
