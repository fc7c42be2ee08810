//! The fast path of most copies: contiguous bytes between two blocks, which are more often than not those of
//! the stream's last copy.

use super::{
    Plan,
    pieces::Store,
    rows::{Ends, Route, Rows},
    segments::Segment,
};
use crate::{AddressTable, Place, table::Lookup};

/// A checked contiguous copy between known blocks, in the engine's addresses: what most plans are.
#[derive(Clone, Copy, Debug)]
pub struct Linear {
    segment: Segment,
    route: Route,
}

impl Linear {
    /// The bytes.
    #[inline(always)]
    pub fn segment(&self) -> Segment {
        self.segment
    }

    /// Between which kinds of memory they move.
    #[inline(always)]
    pub fn route(&self) -> Route {
        self.route
    }
}

impl Plan {
    /// The plan as a linear copy, if it is one.
    pub(crate) fn as_linear(&self) -> Option<Linear> {
        let route = self.route.filter(|_| self.has_one_route() && !self.is_ordered() && !self.is_plain())?;
        Some(Linear { segment: self.pieces().one_row()?, route })
    }

    /// Has clones refer to the same list of pieces, if there is one.
    pub(crate) fn share_pieces(&mut self) {
        if let Some(list) = self.pieces.list() {
            list.share();
        }
    }
}

impl From<Linear> for Plan {
    fn from(copy: Linear) -> Plan {
        Plan { pieces: Store::One(Rows::from(copy.segment)), route: Some(copy.route), ..Plan::default() }
    }
}

/// The two blocks of the last copy: where the next one is between the same, no table is asked.
#[derive(Default)]
pub struct Recent {
    dst: Lookup,
    src: Lookup,
    /// The blocks are what they were as long as nothing has left the address table since.
    removals: u64,
    /// The rule of the caller's by which such blocks fit.
    rule: i32,
    route: Route,
    /// Whether registered memory is among them.
    has_registered: bool,
}

impl Recent {
    /// The copy of `len` bytes, if one lookup finds both ends and `fits` agrees, which depends on the homes
    /// and origins of the ends alone: it is not called again while these and `rule` are unchanged. On `None`
    /// the caller makes a [`Plan`], which handles everything else and says what is wrong. If the copies so
    /// far used registered memory and the next ones may not, `turn` is told where it starts, or 0.
    #[inline(always)]
    pub(crate) fn find(
        &mut self,
        (dst, src, len): (usize, usize, usize),
        rule: i32,
        table: &AddressTable,
        fits: impl FnOnce(&Ends) -> bool,
        turn: impl FnOnce([usize; 2]),
    ) -> Option<Linear> {
        let is_as_before = self.removals == table.removals()
            && self.rule == rule
            && self.dst.holds_all(dst, len)
            && self.src.holds_all(src, len);
        if !is_as_before {
            if self.has_registered {
                turn(self.registered());
            }
            self.look_up((dst, src, len), rule, table, fits)?;
        }
        let segment = Segment { dst: self.dst.engine_address(dst), src: self.src.engine_address(src), len };
        Some(Linear { segment, route: self.route })
    }

    /// Where the registered memory starts that copies go to or from, or did until it was unregistered; 0 for
    /// other memory.
    pub(crate) fn registered(&self) -> [usize; 2] {
        [self.dst, self.src].map(|part| if part.is_registered() { part.base() } else { 0 })
    }

    #[inline(never)]
    fn look_up(
        &mut self,
        (dst, src, len): (usize, usize, usize),
        rule: i32,
        table: &AddressTable,
        fits: impl FnOnce(&Ends) -> bool,
    ) -> Option<()> {
        // Read before the lookups: if a block leaves the table meanwhile, what is found is out of date.
        let removals = table.removals();
        let is_current = removals == self.removals;
        let still = |part: Lookup, addr| Some(part).filter(|part| is_current && part.holds_all(addr, len));
        let to = still(self.dst, dst).or_else(|| table.look_up(dst, len))?;
        let from = still(self.src, src).or_else(|| table.look_up(src, len))?;
        let is_agreed = self.rule == rule && to.is_like(&self.dst) && from.is_like(&self.src);
        if !is_agreed {
            let ends = Ends { dst: Place::Known(to.into()), src: Place::Known(from.into()) };
            fits(&ends).then_some(())?;
            (self.rule, self.route) = (rule, ends.route());
            self.has_registered = to.is_registered() || from.is_registered();
        }
        (self.dst, self.src, self.removals) = (to, from, removals);
        // A range of no bytes lies anywhere in a block, but it is no copy.
        (len > 0).then_some(())
    }
}

/// The block of the last descriptor.
#[derive(Default)]
pub(crate) struct RecentBlock {
    part: Lookup,
    /// As in [`Recent`].
    removals: u64,
}

impl RecentBlock {
    /// The engine's address of `len` bytes at `addr`, if one lookup finds them and `fits` agrees, which is
    /// not called again for the same block. Not of registered memory: who uses that is noted.
    #[inline(always)]
    pub(crate) fn find(
        &mut self,
        (addr, len): (usize, usize),
        table: &AddressTable,
        fits: impl FnOnce(&Place) -> bool,
    ) -> Option<usize> {
        if self.removals != table.removals() || !self.part.holds_all(addr, len) {
            self.look_up((addr, len), table, fits)?;
        }
        Some(self.part.engine_address(addr))
    }

    #[inline(never)]
    fn look_up(
        &mut self,
        (addr, len): (usize, usize),
        table: &AddressTable,
        fits: impl FnOnce(&Place) -> bool,
    ) -> Option<()> {
        // Read before the lookup: if the block leaves the table meanwhile, what is found is out of date.
        let removals = table.removals();
        let part = table.look_up(addr, len)?;
        let is_good = !part.is_registered() && fits(&Place::Known(part.into()));
        is_good.then(|| (self.part, self.removals) = (part, removals))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{Block, Home, Origin, table::GRANULE};

    fn block(base: usize, len: usize, home: Home) -> Block {
        Block { base, len, home, at: base + 0x1000_0000, page: GRANULE, origin: Origin::Allocated }
    }

    const HOST: Home = Home::Host;
    const THERE: Home = Home::Device(0);
    const A: usize = 0x10_0000;
    const B: usize = 0x20_0000;
    const LEN: usize = 3 * GRANULE;

    #[test]
    fn what_was_found_is_found_again_and_nothing_else() {
        let table = AddressTable::of([block(A, LEN, THERE), block(B, LEN, HOST), block(B + LEN, LEN, HOST)]);
        let mut recent = Recent::default();
        for _ in 0..2 {
            for (dst, src, len, good) in [
                (A, B, LEN, true),
                (A + 5, B + 9, LEN - 9, true),
                (A + LEN - 1, B + LEN - 1, 1, true),
                (A, B + LEN, LEN, true),
                (A - 1, B + LEN, 1, false),
                (A, B + 2 * LEN, 1, false),
                (A, B, 0, false),
                (A, B, LEN + 1, false),
                (A + 1, B, LEN, false),
                (A, B + 1, LEN, false),
                (A - 1, B, 1, false),
                (A, B, usize::MAX, false),
                (0, B, 1, false),
            ] {
                let found =
                    recent.find((dst, src, len), 1, &table, |_| true, |_| ()).map(|copy| copy.segment());
                let want = Segment { dst: dst + 0x1000_0000, src: src + 0x1000_0000, len };
                assert_eq!(found, good.then_some(want), "{len} bytes from {src:#x} to {dst:#x}");
            }
        }
    }

    #[test]
    fn rules_are_asked_for_again_where_they_may_say_something_else() {
        let table = AddressTable::of([block(A, LEN, THERE), block(B, LEN, HOST)]);
        let mut recent = Recent::default();
        let mut asked = 0;
        for (rule, want) in [(1, 1), (1, 1), (2, 2), (2, 2), (1, 3)] {
            let fits = |_: &Ends| {
                asked += 1;
                true
            };
            let copy = recent.find((A, B, 64), rule, &table, fits, |_| ()).expect("both ends are known");
            assert_eq!((asked, copy.route()), (want, Route::HostToDevice { to: 0 }));
        }
        assert!(recent.find((A, B, 64), 4, &table, |_| false, |_| ()).is_none(), "refused");
        assert!(
            recent.find((A, B, 64), 4, &table, |_| false, |_| ()).is_none(),
            "and nothing remembered of it"
        );
        assert!(recent.find((A, B, 64), 1, &table, |_| false, |_| ()).is_some(), "what was agreed still is");
        // So it is for others like them, wherever they are, and only for those.
        for (base, home) in [(0x30_0000, THERE), (0x40_0000, Home::Device(1)), (0x50_0000, HOST)] {
            table.insert(block(base, LEN, home)).expect("room");
            let found = recent.find((base, B, 64), 1, &table, |_| false, |_| ());
            assert_eq!(found.is_some(), home == THERE, "{home:?}");
            assert!(recent.find((A, base, 64), 1, &table, |_| false, |_| ()).is_none() || home == HOST);
        }
        table.remove(A, |_| Ok(())).expect("there");
        assert!(recent.find((0x30_0000, B, 64), 1, &table, |_| false, |_| ()).is_some());
    }

    #[test]
    fn a_block_that_left_is_not_remembered_nor_taken_for_the_next_one_there() {
        let table = AddressTable::of([block(A, LEN, THERE), block(B, LEN, HOST)]);
        let mut recent = Recent::default();
        let mut find = || recent.find((A, B, LEN), 1, &table, |_| true, |_| ()).map(|copy| copy.route());
        assert_eq!(find(), Some(Route::HostToDevice { to: 0 }));
        table.remove(A, |_| Ok(())).expect("there");
        assert_eq!(find(), None, "gone");
        table.insert(block(A, LEN, Home::Device(3))).expect("room");
        assert_eq!(find(), Some(Route::HostToDevice { to: 3 }));
        table.remove(B, |_| Ok(())).expect("there");
        table.insert(block(B, LEN - 1, HOST)).expect("room");
        assert_eq!(find(), None, "shorter now");
    }

    #[test]
    fn the_block_of_a_descriptor_is_remembered_until_a_block_goes() {
        let table = AddressTable::of([block(A, LEN, THERE), block(B, LEN, THERE)]);
        let registered = Block { origin: Origin::Registered, ..block(0x30_0000, LEN, HOST) };
        table.insert(registered).expect("room");
        let mut recent = RecentBlock::default();
        let mut asked = 0;
        let mut find = |addr: usize, len| {
            recent.find((addr, len), &table, |place| {
                asked += 1;
                place.device() == Some(0)
            })
        };
        for addr in [A, A + 8, A + LEN - 56] {
            assert_eq!(find(addr, 56), Some(addr + 0x1000_0000));
        }
        for (addr, len) in [(A + LEN - 55, 56), (A - 1, 56), (A, usize::MAX), (0x30_0000, 56)] {
            assert_eq!(find(addr, len), None, "{len} bytes at {addr:#x}");
        }
        assert_eq!(find(A, 56), Some(A + 0x1000_0000), "what was refused changed nothing");
        table.remove(B, |_| Ok(())).expect("there");
        assert_eq!(find(A, 56), Some(A + 0x1000_0000));
        table.remove(A, |_| Ok(())).expect("there");
        assert_eq!(find(A, 56), None, "it is gone");
        assert_eq!(asked, 2, "once for each time that it was looked up and is no registered memory");
    }
}
