//! Small copies that are held back for some microseconds, to be sent as one. It knows nothing of CUDA.
//!
//! A [`Window`] takes copies in the order they are submitted; what leaves it is a [`Run`], cut into portions whose copies may be
//! done side by side: where a copy meets an earlier one the next portion begins, and portions are done one after the other.

use super::{planner::Way, ring::Entry};
use ferry_core::{
    Ticket,
    sync::{AtomicU64, Mutex, Ordering, lock},
};
use std::{collections::BTreeMap, mem, ops::Range};

/// A window with so many copies or bytes is sent, however much the GPU has to do.
const DUE: (usize, usize) = (512, 2 << 20);
/// At this size whoever submits sends it, since the sender does not look at it yet: it may have to wake first.
const EARLY: (usize, usize) = (128, 512 << 10);
/// At this size whoever submits sends it though the sender does look at it: something holds that up.
const FULL: (usize, usize) = (768, 4 << 20);
/// A window takes no more than this.
const MOST: (usize, usize) = (1024, 16 << 20);
/// The same for a run that waits in a backlog: there is time to make it longer.
const MOST_IN_BACKLOG: (usize, usize) = (4096, 256 << 20);

/// Copies of one way, submitted one after the other with nothing in between.
#[derive(Debug, Default)]
pub struct Run {
    way: Option<Way>,
    first: Ticket,
    count: usize,
    bytes: usize,
    entries: Vec<Entry>,
}

impl Run {
    /// A run that uses the memory of a list that is done with.
    fn reusing(mut entries: Vec<Entry>) -> Run {
        entries.clear();
        Run { entries, ..Run::default() }
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The ticket of its first copy.
    pub fn first(&self) -> Ticket {
        self.first
    }

    /// The ticket of its last copy.
    pub fn last(&self) -> Ticket {
        self.first + self.count as Ticket - 1
    }

    /// How many copies there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Which way they go.
    pub fn way(&self) -> Option<Way> {
        self.way
    }

    /// How many bytes they have.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The list, to be used again.
    pub fn into_list(self) -> Vec<Entry> {
        self.entries
    }

    fn reaches(&self, size: (usize, usize)) -> bool {
        self.count >= size.0 || self.bytes >= size.1
    }

    /// As `add_up_to` for a run that waits in a backlog.
    pub fn add(&mut self, ticket: Ticket, way: Way, copy: Entry) -> bool {
        self.add_up_to(MOST_IN_BACKLOG, ticket, way, copy)
    }

    /// Adds the copy `ticket`, which follows the last one. Its two ends do not overlap. False if it does not fit.
    #[inline]
    fn add_up_to(&mut self, most: (usize, usize), ticket: Ticket, way: Way, copy: Entry) -> bool {
        if self.is_empty() {
            (self.first, self.way) = (ticket, Some(way));
        } else if self.way != Some(way) || self.reaches(most) {
            return false;
        }
        self.count += 1;
        self.bytes += copy.len as usize;
        match self.entries.last_mut() {
            Some(last) if continues(last, &copy) => last.len += copy.len,
            _ => self.entries.push(copy),
        }
        true
    }

    /// The copies in portions to be done one after the other; those of one portion are independent.
    pub fn portions(&self) -> impl Iterator<Item = &[Entry]> {
        let mut ends = if are_apart(&self.entries) { Vec::new() } else { meetings(&self.entries) };
        ends.push(self.entries.len());
        let mut from = 0;
        ends.into_iter().map(move |end| &self.entries[mem::replace(&mut from, end)..end])
    }
}

/// Whether `next` goes on where `last` ends, on both sides, and the two are one copy whose ends do not overlap. If they did the
/// second would read what the first writes.
fn continues(last: &Entry, next: &Entry) -> bool {
    let touches = last.dst + last.len == next.dst && last.src + last.len == next.src;
    touches && last.dst.abs_diff(last.src) >= last.len + next.len
}

/// Whether no copy writes what another one reads or writes.
fn are_apart(entries: &[Entry]) -> bool {
    let ascend = entries.windows(2).all(|pair| pair[0].dst + pair[0].len <= pair[1].dst);
    let mut written: Vec<(u64, u64)> = Vec::new();
    if !ascend {
        written.extend(entries.iter().map(|copy| (copy.dst, copy.dst + copy.len)));
        written.sort_unstable();
        if written.windows(2).any(|pair| pair[0].1 > pair[1].0) {
            return false;
        }
    }
    let (to, from) = (hull(entries, |copy| copy.dst), hull(entries, |copy| copy.src));
    if to.end <= from.start || from.end <= to.start {
        return true;
    }
    if ascend {
        written.extend(entries.iter().map(|copy| (copy.dst, copy.dst + copy.len)));
    }
    let is_written = |copy: &Entry| {
        let next = written.partition_point(|(_, end)| *end <= copy.src);
        written.get(next).is_some_and(|(start, _)| *start < copy.src + copy.len)
    };
    !entries.iter().any(is_written)
}

/// The addresses from the first to the last one used at one end.
fn hull(entries: &[Entry], start: impl Fn(&Entry) -> u64) -> Range<u64> {
    let first = entries.iter().map(&start).min().unwrap_or(0);
    let end = entries.iter().map(|copy| start(copy) + copy.len).max().unwrap_or(0);
    first..end
}

/// Where the next portion has to begin, since a copy meets one that comes before it.
fn meetings(entries: &[Entry]) -> Vec<usize> {
    let mut cuts = Vec::new();
    let (mut written, mut read) = (Ranges::default(), Ranges::default());
    for (at, copy) in entries.iter().enumerate() {
        let (dst, src) = (copy.dst..copy.dst + copy.len, copy.src..copy.src + copy.len);
        if written.meet(&dst) || read.meet(&dst) || written.meet(&src) {
            cuts.push(at);
            (written, read) = (Ranges::default(), Ranges::default());
        }
        written.add(dst);
        read.add(src);
    }
    cuts
}

/// A set of addresses: ranges that neither overlap nor touch, by their starts.
#[derive(Default)]
struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    fn meet(&self, range: &Range<u64>) -> bool {
        self.0.range(..range.end).next_back().is_some_and(|(_, end)| *end > range.start)
    }

    fn add(&mut self, mut range: Range<u64>) {
        while let Some((&start, &end)) =
            self.0.range(..=range.end).next_back().filter(|(_, end)| **end >= range.start)
        {
            self.0.remove(&start);
            range = range.start.min(start)..range.end.max(end);
        }
        self.0.insert(range.start, range.end);
    }
}

/// What is being gathered of a lane, and its tickets.
#[derive(Debug, Default)]
pub struct Window {
    run: Run,
    /// The newest ticket of the lane.
    last: Ticket,
    /// Whether copies are taken.
    open: bool,
    /// Whether the sender was asked to look at this window.
    watched: bool,
    /// Whether it does.
    attended: bool,
}

/// What became of a copy that was offered to a window.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken {
    /// It is in the window.
    Yes(Ticket, Then),
    /// It is not: the window is closed, or would only hold up the first work of an idle queue.
    No,
    /// It is not, before what is in the window has left it.
    Full,
}

/// What there is to do for whoever put a copy into a window.
#[derive(Debug, PartialEq, Eq)]
pub enum Then {
    /// Nothing.
    Rest,
    /// Ask the sender to watch the window.
    Watch,
    /// Send it, unless somebody else is about to.
    Send,
}

/// A window, and what can be seen of it without a lock.
#[derive(Default)]
pub struct Gather {
    window: Mutex<Window>,
    /// See [`Glance`].
    glance: AtomicU64,
}

/// What somebody sees who looks at a window from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Glance {
    /// There is nothing in it.
    Empty,
    /// There is something: the ticket of the first copy, and whether there is enough to be sent.
    Holds(Ticket, bool),
}

impl Gather {
    /// One that gathers nothing, and whose next ticket is the one after `last`.
    pub fn after(last: Ticket) -> Gather {
        Gather { window: Mutex::new(Window { last, ..Window::default() }), ..Gather::default() }
    }

    /// Offers the next copy, whose ends do not overlap, of a lane that has passed `passed`.
    #[inline]
    pub fn offer(&self, way: Way, copy: Entry, passed: Ticket) -> Taken {
        let mut window = lock(&self.window);
        let ticket = window.last + 1;
        if !window.open || window.run.is_empty() && passed >= window.last {
            return Taken::No;
        }
        if !window.run.add_up_to(MOST, ticket, way, copy) {
            return Taken::Full;
        }
        window.last = ticket;
        self.show(&window.run);
        Taken::Yes(ticket, window.then())
    }

    /// Counts an op that is not gathered, and comes behind all that was.
    pub fn count(&self) -> Ticket {
        let mut window = lock(&self.window);
        debug_assert!(window.run.is_empty(), "sent first");
        window.last += 1;
        window.last
    }

    /// Takes out what was gathered; `list` is used for what comes next. Gives it back if there is nothing.
    pub fn take(&self, list: Vec<Entry>) -> Result<Run, Vec<Entry>> {
        let mut window = lock(&self.window);
        if window.run.is_empty() {
            return Err(list);
        }
        let run = mem::replace(&mut window.run, Run::reusing(list));
        self.show(&window.run);
        Ok(run)
    }

    /// From here on copies are taken, or not.
    pub fn set_open(&self, open: bool) {
        lock(&self.window).open = open;
    }

    /// What can be seen from outside. May be late by what others do now.
    pub fn glance(&self) -> Glance {
        match self.glance.load(Ordering::Relaxed) {
            0 => Glance::Empty,
            seen => Glance::Holds(seen >> 1, seen & 1 == 1),
        }
    }

    /// The sender looks at the window from now on.
    pub fn attend(&self) {
        lock(&self.window).attended = true;
    }

    /// The sender looks no more. False if it must, since there is something in the window.
    pub fn leave(&self) -> bool {
        let mut window = lock(&self.window);
        window.watched = !window.run.is_empty();
        window.attended = window.watched;
        !window.watched
    }

    fn show(&self, run: &Run) {
        let seen = if run.is_empty() { 0 } else { run.first << 1 | u64::from(run.reaches(DUE)) };
        self.glance.store(seen, Ordering::Relaxed);
    }
}

impl Window {
    fn then(&mut self) -> Then {
        match self.run.reaches(if self.attended { FULL } else { EARLY }) {
            true => Then::Send,
            false if mem::replace(&mut self.watched, true) => Then::Rest,
            false => Then::Watch,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
