//! Which registered memory the work in flight uses. When such memory is registered again there may be other
//! memory at its addresses, so the earlier registration must not wait for work that does not use it.

use crate::{Block, Origin, Ticket};

/// Blocks of registered memory that an op uses, by where they start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Touched {
    #[default]
    Nothing,
    One(usize),
    /// In any order, and some perhaps more than once.
    Several(Vec<usize>),
    /// Not known before the op runs.
    Unknown,
}

/// How many of the newest entries are compared before one is added, so that adding takes constant time.
const RECENT: usize = 8;

impl Touched {
    /// The block, if it is registered memory.
    pub(crate) fn of(block: Option<Block>) -> Touched {
        let registered = block.filter(|block| block.origin == Origin::Registered);
        registered.map_or(Touched::Nothing, |block| Touched::One(block.base))
    }

    /// Adds a block of registered memory, in constant time.
    pub(crate) fn add(&mut self, base: usize) {
        match self {
            Touched::Nothing => *self = Touched::One(base),
            Touched::One(other) if *other != base => *self = Touched::Several(vec![*other, base]),
            Touched::Several(all) if !all.iter().rev().take(RECENT).any(|other| *other == base) => {
                all.push(base)
            }
            _ => {}
        }
    }

    /// Adds what else is used.
    pub(crate) fn join(&mut self, other: Touched) {
        match other {
            Touched::Nothing => {}
            Touched::One(base) => self.add(base),
            Touched::Several(all) => all.into_iter().for_each(|base| self.add(base)),
            Touched::Unknown => *self = Touched::Unknown,
        }
    }
}

/// The newest op of a stream that uses a block, for each block of registered memory. Entries of ops that have
/// passed are removed when there are many.
#[derive(Default)]
pub(crate) struct Uses {
    /// The newest ticket for each block, sorted by where the block starts.
    newest: Vec<(usize, Ticket)>,
    /// The newest op whose registered memory is not known.
    unknown: Ticket,
    /// How many entries there may be before those that have passed are removed.
    room: usize,
}

impl Uses {
    /// The op `ticket` uses these; the stream has passed `passed`.
    pub(crate) fn note(&mut self, touched: Touched, ticket: Ticket, passed: Ticket) {
        match touched {
            Touched::Nothing => {}
            Touched::One(base) => self.note_one(base, ticket, passed),
            Touched::Several(mut all) => {
                all.sort_unstable();
                all.dedup();
                all.into_iter().for_each(|base| self.note_one(base, ticket, passed));
            }
            Touched::Unknown => self.unknown = ticket,
        }
    }

    /// Linear copies up to `ticket` use what starts there; 0 is nothing.
    #[cold]
    pub(crate) fn note_linear(&mut self, bases: [usize; 2], ticket: Ticket, passed: Ticket) {
        for base in bases {
            if base != 0 && ticket > passed {
                self.note_one(base, ticket, passed);
            }
        }
    }

    fn note_one(&mut self, base: usize, ticket: Ticket, passed: Ticket) {
        match self.newest.binary_search_by_key(&base, |(base, _)| *base) {
            Ok(place) => self.newest[place].1 = ticket.max(self.newest[place].1),
            Err(place) if self.newest.len() < self.room => self.newest.insert(place, (base, ticket)),
            Err(_) => {
                self.newest.retain(|(_, ticket)| *ticket > passed);
                self.room = 2 * self.newest.len() + RECENT;
                let place = self.newest.partition_point(|(other, _)| *other < base);
                self.newest.insert(place, (base, ticket));
            }
        }
    }

    /// The newest op that uses, or may use, the block that starts there; 0 if none does.
    pub(crate) fn newest(&self, base: usize) -> Ticket {
        let found = self.newest.binary_search_by_key(&base, |(base, _)| *base);
        found.map_or(0, |place| self.newest[place].1).max(self.unknown)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_newest_use_of_each_block_is_known() {
        let mut uses = Uses::default();
        uses.note(Touched::One(0x3000), 1, 0);
        uses.note(Touched::Several(vec![0x1000, 0x3000, 0x1000, 0x2000]), 2, 0);
        uses.note(Touched::Nothing, 3, 0);
        uses.note(Touched::One(0x1000), 4, 0);
        uses.note_one(0x1000, 3, 0);
        assert_eq!([0x1000, 0x2000, 0x3000, 0x4000].map(|base| uses.newest(base)), [4, 2, 2, 0]);
        uses.note(Touched::Unknown, 5, 0);
        assert_eq!([0x1000, 0x4000].map(|base| uses.newest(base)), [5, 5]);
    }

    /// However many blocks come and go, few more are remembered than are in use.
    #[test]
    fn what_has_passed_is_forgotten() {
        let mut uses = Uses::default();
        for ticket in 1..=10_000 {
            uses.note(Touched::One(ticket as usize * 4096), ticket, ticket.saturating_sub(100));
            assert!(uses.newest.len() <= 2 * 100 + RECENT, "{} after {ticket}", uses.newest.len());
            assert_eq!(uses.newest(ticket as usize * 4096), ticket);
        }
        let known = (9_901..=10_000).all(|ticket| uses.newest(ticket as usize * 4096) == ticket);
        assert!(known && uses.newest.is_sorted());
    }

    #[test]
    fn blocks_that_take_turns_are_several() {
        let mut touched = Touched::default();
        (0..1000).for_each(|turn| touched.add(0x1000 * (1 + turn % 3)));
        assert_eq!(touched, Touched::Several(vec![0x1000, 0x2000, 0x3000]));
        let mut one = Touched::default();
        one.join(Touched::One(0x1000));
        one.join(Touched::One(0x1000));
        assert_eq!(one, Touched::One(0x1000));
        one.join(touched.clone());
        assert_eq!(one, touched);
        one.join(Touched::Unknown);
        one.add(0x1000);
        assert_eq!(one, Touched::Unknown);
    }
}
