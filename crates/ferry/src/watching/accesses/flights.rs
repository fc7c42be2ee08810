//! Which bytes of page-locked memory are in flight: from the call that submits an op until the host has
//! joined it, whether or not the bytes have moved.
//!
//! Plain data: it says which pages are to be armed and what an access hits, and touches no memory itself.

use ferry_backends::os::trap::Opening;
use ferry_watch::{
    check::joins::Joins,
    fact::{Awaited, Point},
};
use std::{
    collections::{BTreeMap, HashMap},
    mem,
    ops::Range,
};

/// Armed ranges of a block are one, if so many pages or fewer lie between them: a call for each costs more
/// than an access to a page between them.
const GAP_PAGES: usize = 16;
/// Flights of a block are looked through for joined ones when there are this many.
const PRUNE_FROM: usize = 64;
/// Pages that are opened around an access, at first and at most.
const FEWEST_PAGES: usize = 16;
const MOST_PAGES: usize = 1024;
/// Where the program uses memory after each join, pages are opened at the join, so that it meets no fault:
/// ranges of at most so many pages, and so many ranges at a time.
const EAGER_PAGES: usize = 256;
const EAGER_RANGES: usize = 1024;
/// After so many such ranges of a block it is seen anew whether the program uses the memory.
const EAGER_TURNS: u32 = 16;

/// Bytes that belong to an op.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Flight {
    /// The bytes, as the program calls them.
    pub(super) user: Range<usize>,
    /// The op.
    pub(super) point: Point,
    /// Whether the op writes them; otherwise it reads them.
    pub(super) is_written: bool,
    /// The moment from which on they belong to it.
    since: u64,
}

/// Pages of the program's view, and where the engine's view of them begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ViewPages {
    pub(super) user: Range<usize>,
    pub(super) at: usize,
    /// Whether they were never armed before: they may not be in memory yet.
    pub(super) is_new: bool,
    /// The engine's address of their block.
    pub(super) block: usize,
}

impl ViewPages {
    /// Makes ranges one that lie near each other in their block. Pages that are new are only put together
    /// where they touch, since those between them would be brought into memory.
    pub(super) fn merge(all: &mut Vec<ViewPages>, page: usize) {
        all.sort_unstable_by_key(|pages| (pages.is_new, pages.block, pages.user.start));
        all.dedup_by(|next, kept| {
            let gap = if kept.is_new { 0 } else { GAP_PAGES * page };
            let is_near = next.user.start <= kept.user.end + gap;
            let is_one = (next.is_new, next.block) == (kept.is_new, kept.block) && is_near;
            if is_one {
                kept.user.end = kept.user.end.max(next.user.end);
            }
            is_one
        });
    }
}

/// A block that is mapped twice.
struct TwiceMapped {
    user: Range<usize>,
    at: usize,
    flights: Vec<Flight>,
    prune_at: usize,
    /// Pages that were armed before.
    armed_before: PageBits,
    /// Pages that were armed and that nobody has opened since: they need not be armed again.
    armed: PageBits,
    /// Pages that were accessed while they were in flight. Such a page is opened by the accessing thread, at
    /// a time that is not told, so it is armed for every op.
    accessed: PageBits,
    /// Accesses to pages since these were armed, where there were any.
    passes: HashMap<usize, u32>,
    /// How many more ranges are to be opened when they are joined.
    eager: u32,
}

/// A set of pages of a block, by their numbers from its first.
struct PageBits(Vec<u64>);

impl PageBits {
    fn new(pages: usize) -> PageBits {
        PageBits(vec![0; pages.div_ceil(64)])
    }

    /// Adds a page. Says whether it was in the set.
    fn insert(&mut self, page: usize) -> bool {
        let (word, bit) = (&mut self.0[page / 64], 1 << (page % 64));
        let was_in = *word & bit != 0;
        *word |= bit;
        was_in
    }

    fn contains(&self, page: usize) -> bool {
        self.0[page / 64] & 1 << (page % 64) != 0
    }

    fn remove(&mut self, page: usize) {
        self.0[page / 64] &= !(1 << (page % 64));
    }
}

/// All that is in flight, and all that is joined.
#[derive(Default)]
pub(super) struct Flights {
    joins: Joins,
    /// Views of the program's, with the engine's address of the first byte.
    views: Vec<(Range<usize>, usize)>,
    /// Blocks by the engine's address.
    blocks: BTreeMap<usize, TwiceMapped>,
    /// The engine's address of blocks, by the program's.
    by_user: BTreeMap<usize, usize>,
    page: usize,
    /// Whether pages are armed for every op, since some may have been opened that nobody has told of.
    arms_all: bool,
    /// Counts ops.
    moment: u64,
    /// Host functions that run, with the system's number of their thread. A thread has several if a callback
    /// calls aclrtProcessReport.
    functions: Vec<(i32, Point)>,
    /// Where the last opened range ended, and how many pages it had.
    last_opened: (usize, usize),
    /// Pages to open when the op is joined, with the engine's address of their block.
    eager: Vec<(Point, usize, Range<usize>)>,
}

impl Flights {
    pub(super) fn new(page: usize) -> Flights {
        Flights { page, ..Flights::default() }
    }

    pub(super) fn joins(&mut self) -> &mut Joins {
        &mut self.joins
    }

    /// Pages may have been opened that [`opened`](Self::opened) was not told of: from now on no page counts
    /// as armed already.
    pub(super) fn arm_all(&mut self) {
        self.arms_all = true;
    }

    /// The same for the pages that count as armed now.
    pub(super) fn forget_armed(&mut self) {
        self.blocks.values_mut().for_each(|block| block.armed.0.fill(0));
    }

    /// The engine's addresses of pages that no op has used before.
    pub(super) fn new_pages(&self, at: usize, len: usize) -> Vec<Range<usize>> {
        let Some((_, block)) = self.blocks.range(..=at).next_back() else { return Vec::new() };
        let end = (at + len).min(block.at + block.user.len());
        let first = block.user.start / self.page;
        let view = block.at.wrapping_sub(block.user.start);
        let numbers = (at.wrapping_sub(view) / self.page)..(end.wrapping_sub(view)).div_ceil(self.page);
        let new = numbers.filter(|number| at < end && !block.armed_before.contains(number - first));
        let mut all: Vec<Range<usize>> = Vec::new();
        for number in new {
            let start = (number * self.page).wrapping_add(view);
            match all.last_mut() {
                Some(last) if last.end == start => last.end += self.page,
                _ => all.push(start..start + self.page),
            }
        }
        all
    }

    /// Memory is mapped twice.
    pub(super) fn viewed(&mut self, user: Range<usize>, at: usize) {
        self.views.push((user, at));
    }

    /// The program's view ends.
    pub(super) fn gone(&mut self, user: &Range<usize>) {
        self.views.retain(|(view, _)| view != user);
    }

    /// A block became known; it counts if the program's view of it is one that is watched.
    pub(super) fn known(&mut self, user: Range<usize>, at: usize) {
        let is_seen = |(view, first): &(Range<usize>, usize)| {
            view.start <= user.start && user.end <= view.end && at == first + (user.start - view.start)
        };
        if user.is_empty() || !self.views.iter().any(is_seen) {
            return;
        }
        let pages = user.end.div_ceil(self.page) - user.start / self.page;
        self.by_user.insert(user.start, at);
        let block = TwiceMapped {
            user,
            at,
            flights: Vec::new(),
            prune_at: 0,
            armed_before: PageBits::new(pages),
            armed: PageBits::new(pages),
            accessed: PageBits::new(pages),
            passes: HashMap::new(),
            eager: 0,
        };
        self.blocks.insert(at, block);
    }

    /// Whether an op owns bytes of the block that begins here.
    pub(super) fn is_in_flight(&self, user: usize) -> bool {
        let block = self.by_user.get(&user).and_then(|at| self.blocks.get(at));
        block.is_some_and(|block| block.in_flight(&block.user, &self.joins).next().is_some())
    }

    /// The whole pages of all blocks, with the engine's address of each.
    pub(super) fn pages(&self) -> impl Iterator<Item = (Range<usize>, usize)> {
        self.blocks.values().map(|block| {
            let start = block.user.start / self.page * self.page;
            (start..block.user.end.next_multiple_of(self.page), block.at - (block.user.start - start))
        })
    }

    /// A block became unknown.
    pub(super) fn forgotten(&mut self, user: usize) {
        if let Some(at) = self.by_user.remove(&user) {
            self.blocks.remove(&at);
        }
    }

    /// The newest of what is in flight there.
    pub(super) fn newest_in(&self, range: &Range<usize>) -> Option<Flight> {
        let in_flight = self.blocks.values().flat_map(|block| block.in_flight(range, &self.joins));
        in_flight.max_by_key(|flight| flight.since).cloned()
    }

    /// The program has unmapped some of its view: what is in flight there is not watched any more, and what
    /// comes there next was never armed.
    pub(super) fn unmapped(&mut self, range: &Range<usize>) {
        let is_met = |bytes: &Range<usize>| bytes.start < range.end && range.start < bytes.end;
        for block in self.blocks.values_mut().filter(|block| is_met(&block.user)) {
            block.flights.retain(|flight| !is_met(&flight.user));
            block.unmapped(range, self.page);
        }
        self.eager.retain(|(_, _, pages)| !is_met(pages));
    }

    /// An op is about to be submitted.
    pub(super) fn submitted(&mut self, point: Point, awaits: &[Awaited], moment: u64) {
        self.moment = moment;
        self.joins.submitted(point, awaits);
    }

    /// Bytes of the op `point`, by the engine's address. The pages to be armed are added to `pages`.
    pub(super) fn add(
        &mut self,
        point: Point,
        at: usize,
        len: usize,
        is_written: bool,
        pages: &mut Vec<ViewPages>,
    ) {
        let Some((_, block)) = self.blocks.range_mut(..=at).next_back() else { return };
        if len == 0 || at >= block.at + block.user.len() {
            return;
        }
        let start = block.user.start + (at - block.at);
        let user = start..(start + len).min(block.user.end);
        block.add(Flight { user: user.clone(), point, is_written, since: self.moment }, &self.joins);
        let (first, end) = (user.start / self.page, user.end.div_ceil(self.page));
        block.arm(first..end, self.page, self.arms_all, pages);
        if block.eager > 0 && end - first <= EAGER_PAGES && self.eager.len() < EAGER_RANGES {
            block.eager -= 1;
            self.eager.push((point, block.at, first * self.page..end * self.page));
        }
    }

    /// The host has joined the point. Calls `open` with pages that nothing is in flight in any more, and that
    /// the program is likely to use.
    pub(super) fn joined(&mut self, point: Point, mut open: impl FnMut(&Range<usize>)) {
        self.joins.joined(point);
        let (joins, mut eager) = (&self.joins, mem::take(&mut self.eager));
        let joined = eager.extract_if(.., |(point, ..)| joins.is_joined(*point)).collect::<Vec<_>>();
        self.eager = eager;
        for (_, at, pages) in joined {
            let block = self.blocks.get(&at);
            if block.is_some_and(|block| block.in_flight(&pages, &self.joins).next().is_none()) {
                self.opened(&pages);
                open(&pages);
            }
        }
    }

    /// Pages were opened, or are about to be: they are armed again for the next op.
    pub(super) fn opened(&mut self, pages: &Range<usize>) {
        for at in self.blocks_at(pages).collect::<Vec<_>>() {
            if let Some(block) = self.blocks.get_mut(&at) {
                block.opened(pages, self.page);
            }
        }
    }

    /// The op was refused.
    pub(super) fn refused(&mut self, point: Point) {
        self.joins.refused(point);
        for block in self.blocks.values_mut() {
            block.flights.retain(|flight| flight.point != point);
        }
    }

    /// The pages to open for every access, if nothing is in flight in the page of this address: more of them
    /// the longer the program goes on in order.
    pub(super) fn free_around(&mut self, address: usize) -> Option<Range<usize>> {
        let pages = self.open_around(address, |_| true)?;
        if let Some(at) = self.block_of(address).map(|block| block.at)
            && let Some(block) = self.blocks.get_mut(&at)
        {
            block.eager = EAGER_TURNS;
        }
        Some(pages)
    }

    /// The pages to open for reading, if nothing in flight in the page of this address is written by its op.
    pub(super) fn readable_around(&mut self, address: usize) -> Option<Range<usize>> {
        self.open_around(address, |flight| flight.is_written)
    }

    /// Pages from that of the address on, up to a flight that is in the way.
    fn open_around(
        &mut self,
        address: usize,
        is_in_the_way: impl Fn(&Flight) -> bool,
    ) -> Option<Range<usize>> {
        let page = address / self.page * self.page;
        let Some(block) = self.block_of(address) else { return Some(page..page + self.page) };
        let (last, count) = self.last_opened;
        let count = if last == page { (2 * count).min(MOST_PAGES) } else { FEWEST_PAGES };
        let wide = page..block.user.end.next_multiple_of(self.page).min(page + count * self.page);
        let in_the_way = block.in_flight(&wide, &self.joins).filter(|flight| is_in_the_way(flight));
        let first = in_the_way.map(|flight| flight.user.start).min();
        let end = first.map_or(wide.end, |first| first / self.page * self.page);
        if end <= page {
            return None;
        }
        self.last_opened = (end, count);
        self.opened(&(page..end));
        Some(page..end)
    }

    /// The pages of this range that must not be open, since an op came to own bytes in them meanwhile.
    pub(super) fn wrongly_open(&self, pages: &Range<usize>, how: Opening) -> Vec<Range<usize>> {
        let blocks = self.blocks_at(pages).filter_map(|at| self.blocks.get(&at));
        let in_flight = blocks.flat_map(|block| block.in_flight(pages, &self.joins));
        let wrong = in_flight.filter(|flight| how == Opening::Whole || flight.is_written);
        let whole = wrong.map(|flight| {
            let start = (flight.user.start / self.page * self.page).max(pages.start);
            start..flight.user.end.next_multiple_of(self.page).min(pages.end)
        });
        whole.collect()
    }

    /// The engine's addresses of the blocks that have bytes in these pages, of which one may have several.
    fn blocks_at(&self, pages: &Range<usize>) -> impl Iterator<Item = usize> {
        let (page, start) = (self.page, pages.start);
        let before = self.by_user.range(..pages.end).rev().map(|(_, at)| *at);
        before.take_while(move |at| {
            self.blocks.get(at).is_none_or(|block| block.user.end.next_multiple_of(page) > start)
        })
    }

    /// A host function begins on a thread: the op `point`.
    pub(super) fn function_begun(&mut self, thread: i32, point: Point) {
        self.functions.push((thread, point));
    }

    /// An op is over that may be a host function. Says whether it was, as a number.
    pub(super) fn function_over(&mut self, point: Point) -> usize {
        let before = self.functions.len();
        self.functions.retain(|(_, function)| *function != point);
        before - self.functions.len()
    }

    /// What an access of the CPU collides with: a write with anything in flight, a read with destinations. A
    /// host function does not collide with ops that come after it. Neither does an access that began at a
    /// `moment` before the op. Of several ops it is one that writes, and the newest: what comes behind
    /// another one that nobody waited for is a mistake of its own.
    pub(super) fn hit(
        &self,
        bytes: &Range<usize>,
        is_write: bool,
        (thread, moment): (i32, u64),
    ) -> Option<Flight> {
        let block = self.block_of(bytes.start)?;
        let is_later = |op: Point| {
            let mut of_thread = self.functions.iter().filter(|(on, _)| *on == thread);
            of_thread.any(|(_, function)| self.joins.is_after(op, *function))
        };
        let in_flight = block.in_flight(bytes, &self.joins);
        let hits = in_flight
            .filter(|hit| (is_write || hit.is_written) && hit.since <= moment && !is_later(hit.point));
        hits.max_by_key(|hit| (hit.is_written, hit.since)).cloned()
    }

    /// How much is added to the program's address of these bytes for the engine's, if they are in the pages
    /// of one block.
    pub(super) fn engine_distance(&self, bytes: &Range<usize>) -> Option<usize> {
        let block = self.block_of(bytes.start)?;
        let end = block.user.end.next_multiple_of(self.page);
        (bytes.end <= end).then(|| block.at.wrapping_sub(block.user.start))
    }

    /// One access more to a page in flight: how many there were since it was armed.
    pub(super) fn count_pass(&mut self, address: usize) -> u32 {
        let page = address / self.page;
        let at = self.block_of(address).map(|block| block.at);
        let Some(block) = at.and_then(|at| self.blocks.get_mut(&at)) else { return 0 };
        let first = block.user.start / self.page;
        block.accessed.insert(page - first);
        let count = block.passes.entry(page).or_default();
        *count += 1;
        *count
    }

    fn block_of(&self, user: usize) -> Option<&TwiceMapped> {
        // An access may be in the last page of a block and behind its last byte.
        let (_, at) = self.by_user.range(..=user).next_back()?;
        let block = self.blocks.get(at)?;
        (user < block.user.end.next_multiple_of(self.page)).then_some(block)
    }
}

impl TwiceMapped {
    fn add(&mut self, flight: Flight, joins: &Joins) {
        if let Some(last) = self.flights.last_mut()
            && last.point == flight.point
            && last.is_written == flight.is_written
            && last.user.end == flight.user.start
        {
            last.user.end = flight.user.end;
            return;
        }
        self.flights.push(flight);
        if self.flights.len() >= self.prune_at.max(PRUNE_FROM) {
            self.flights.retain(|flight| !joins.is_joined(flight.point));
            self.thin_out();
            self.prune_at = 2 * self.flights.len();
        }
    }

    /// Of what a stream does with the same bytes again and again while nobody joins it, the first and the
    /// last say enough: none between them is joined before the first, or after the last.
    fn thin_out(&mut self) {
        // Many rows of few ops are no repetition, and looking at each of millions takes seconds.
        if self.flights.chunk_by(|one, next| one.point == next.point).nth(PRUNE_FROM / 2).is_none() {
            return;
        }
        let key =
            |flight: &Flight| (flight.user.start, flight.user.end, flight.is_written, flight.point.stream);
        let mut ends: HashMap<_, (u64, u64)> = HashMap::new();
        for flight in &self.flights {
            let (_, last) = ends.entry(key(flight)).or_insert((flight.point.ticket, 0));
            *last = flight.point.ticket;
        }
        self.flights.retain(|flight| {
            let (first, last) = ends[&key(flight)];
            [first, last].contains(&flight.point.ticket)
        });
    }

    /// Adds pages, given by their numbers, to those that are to be armed.
    fn arm(&mut self, numbers: Range<usize>, page: usize, arms_all: bool, pages: &mut Vec<ViewPages>) {
        if !self.passes.is_empty() {
            self.passes.retain(|number, _| !numbers.contains(number));
        }
        let first = self.user.start / page;
        for number in numbers {
            let is_armed = self.armed.insert(number - first);
            if is_armed && !arms_all && !self.accessed.contains(number - first) {
                continue;
            }
            let is_new = !self.armed_before.insert(number - first);
            let start = number * page;
            match pages.last_mut() {
                Some(last) if (last.is_new, last.block, last.user.end) == (is_new, self.at, start) => {
                    last.user.end += page;
                }
                _ => {
                    let at = (self.at + start).wrapping_sub(self.user.start);
                    pages.push(ViewPages { user: start..start + page, at, is_new, block: self.at });
                }
            }
        }
    }

    fn opened(&mut self, pages: &Range<usize>, page: usize) {
        self.numbers(pages, page).for_each(|number| self.armed.remove(number));
    }

    fn unmapped(&mut self, pages: &Range<usize>, page: usize) {
        for number in self.numbers(pages, page) {
            self.armed.remove(number);
            self.armed_before.remove(number);
        }
    }

    /// The numbers of pages of this block, from its first.
    fn numbers(&self, pages: &Range<usize>, page: usize) -> Range<usize> {
        let first = self.user.start / page;
        let last = pages.end.min(self.user.end).div_ceil(page);
        (pages.start / page).max(first) - first..last.saturating_sub(first)
    }

    fn in_flight<'a>(&'a self, bytes: &Range<usize>, joins: &'a Joins) -> impl Iterator<Item = &'a Flight> {
        let (start, end) = (bytes.start, bytes.end);
        self.flights.iter().filter(move |flight| {
            flight.user.start < end && start < flight.user.end && !joins.is_joined(flight.point)
        })
    }
}

#[cfg(test)]
mod tests;
