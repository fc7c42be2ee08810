//! A large copy or fill that several threads do together (a work-sharing team): its owner, workers that have
//! nothing else to do, and threads that wait for it.
//!
//! The copy is cut into portions beforehand, and each member takes the next one until none is left: one
//! atomic increment a portion. The thread that runs the lane stays the owner: only it reports the copy as
//! done, after the last portion is. A copy whose ends overlap is not cut.

use crate::bytes::{
    copy::{self, Cursor, ROW_COST},
    overlap::spans_intersect,
    portions,
};
use crate::os::{fault::Fault, page::SMALLEST_PAGE};
use ferry_core::{
    Error, Fill, Pieces, Plan, Rows, Segment,
    sync::{Arc, AtomicBool, AtomicUsize, Mutex, Ordering, lock, spin_loop},
};
use std::{ops::Range, slice, thread};

/// Below this a copy is done before help would come.
pub const MIN_TEAM_BYTES: usize = 2 << 20;
/// A portion is no smaller than this: taking one costs a cache miss.
const MIN_PORTION: usize = 256 << 10;
/// A portion is no larger than this: an abort, a timeout or another lane waits for it.
const MAX_PORTION: usize = 2 << 20;
/// Portions for each thread: with some more than one each, no thread waits long for the last one.
const PORTIONS_PER_THREAD: usize = 8;
/// How often a thread that waits for the last portions spins before it yields the CPU.
const SPINS_BEFORE_YIELD: usize = 256;

/// A copy that is being done together.
pub struct Team {
    whole: TeamWork,
    bytes: usize,
    portions: Vec<Portion>,
    /// Which lane's copy this is.
    lane: usize,
    /// As many as there are CPUs.
    most: usize,
    members: AtomicUsize,
    /// The portion that is taken next.
    next: AtomicUsize,
    finished: AtomicUsize,
    /// Why the copy cannot be done.
    failed: Mutex<Option<Error>>,
    is_over: AtomicBool,
}

/// What is copied or filled.
pub enum TeamWork {
    /// One run of bytes.
    One(Rows),
    /// A plan.
    Plan(Plan),
    /// Pieces that are apart.
    Many(Vec<Segment>),
    /// A pattern.
    Fill(Fill),
}

impl TeamWork {
    fn bytes(&self) -> usize {
        match self {
            TeamWork::Fill(fill) => fill.len,
            _ => self.pieces().bytes(),
        }
    }

    /// What is copied; a fill has no pieces.
    fn pieces(&self) -> Pieces<'_> {
        match self {
            TeamWork::One(rows) => Pieces::Rows(slice::from_ref(rows)),
            TeamWork::Plan(plan) => plan.pieces(),
            TeamWork::Many(segments) => Pieces::Segments(segments),
            TeamWork::Fill(_) => Pieces::Rows(&[]),
        }
    }

    /// The failure that the fault makes of it.
    #[cold]
    fn failed_by(&self, fault: Fault) -> Error {
        match self {
            TeamWork::Fill(fill) => fault.of_fill(fill),
            _ => fault.of_copy(self.pieces()),
        }
    }
}

/// What one thread does at a time.
#[derive(Clone, Debug, PartialEq)]
enum Portion {
    /// These pieces of the plan.
    Pieces(Range<usize>),
    /// A part of a piece.
    Part(Rows),
    /// These bytes of a fill; they begin with the pattern.
    Bytes(Range<usize>),
}

impl Team {
    /// How a copy is cut for this many threads; `None` if it is not worth it, or must not be cut.
    pub fn portions(pieces: Pieces, cpus: usize) -> Option<TeamPortions> {
        let total = total_cost(pieces);
        if cpus < 2 || total < MIN_TEAM_BYTES {
            return None;
        }
        let portions = cut(pieces, portion_size(total, cpus));
        Some(portions).filter(|portions| portions.len() > 1).map(TeamPortions)
    }

    /// How a fill of so many bytes is cut for this many threads; `None` if it is not worth it.
    pub fn fill_portions(len: usize, cpus: usize) -> Option<TeamPortions> {
        if cpus < 2 || len < MIN_TEAM_BYTES {
            return None;
        }
        let steps = portions::steps(len, portion_size(len, cpus), false);
        Some(TeamPortions(steps.map(|(start, len)| Portion::Bytes(start..start + len)).collect()))
    }

    /// All pieces of a copy, and parts of large ones, in an order that is drawn; `None` if there is only one.
    pub fn shuffled(pieces: Pieces, draw: impl Fn(usize) -> usize) -> Option<TeamPortions> {
        let size = SMALLEST_PAGE << draw(8);
        let mut portions = Vec::new();
        for (index, rows) in pieces.iter().enumerate() {
            if cost(&rows) <= size || spans_intersect(&rows) {
                portions.push(Portion::Pieces(index..index + 1));
            } else {
                portions::cut(
                    &rows,
                    size,
                    ROW_COST,
                    |rows| rows.dst,
                    |part| portions.push(Portion::Part(part)),
                );
            }
        }
        (1..portions.len()).rev().for_each(|last| portions.swap(last, draw(last + 1)));
        Some(portions).filter(|portions| portions.len() > 1).map(TeamPortions)
    }

    /// A team with its first member.
    pub fn new(whole: TeamWork, portions: TeamPortions, lane: usize, cpus: usize) -> Team {
        let (members, next, finished) = (AtomicUsize::new(1), AtomicUsize::new(0), AtomicUsize::new(0));
        let (bytes, portions) = (whole.bytes(), portions.0);
        let (failed, is_over) = (Mutex::new(None), AtomicBool::new(false));
        Team { whole, bytes, portions, lane, most: cpus, members, next, finished, failed, is_over }
    }

    /// Whether this is a copy of the lane, if one is given.
    fn is_of(&self, lane: Option<usize>) -> bool {
        lane.is_none_or(|lane| lane == self.lane)
    }

    /// Whether one more could help.
    fn has_room(&self) -> bool {
        self.next.load(Ordering::Relaxed) < self.portions.len()
            && self.members.load(Ordering::Relaxed) < self.most
    }

    /// Becomes a member, if there is room and work.
    fn join(&self) -> bool {
        let more = |members| (members < self.most).then_some(members + 1);
        self.has_room() && self.members.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Is a member no more.
    fn leave(&self) {
        self.members.fetch_sub(1, Ordering::Relaxed);
    }

    /// Does one portion. Returns whether there was one.
    pub fn step(&self) -> bool {
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        let Some(portion) = self.portions.get(index) else { return false };
        let _finish = Finish(&self.finished);
        if self.is_over.load(Ordering::Relaxed) {
            return true;
        }
        // SAFETY: the submitter keeps the memory valid until the copy has passed, which its owner reports
        // only after every portion that was taken is finished.
        let moved = unsafe {
            match (portion, &self.whole) {
                (Portion::Bytes(range), TeamWork::Fill(fill)) => {
                    copy::fill(fill, &mut Cursor::after(range.start), range.len())
                }
                (Portion::Bytes(_), _) => unreachable!("portions of bytes are made for fills"),
                (Portion::Pieces(range), _) => {
                    let (pieces, mut cursor) =
                        (self.whole.pieces().before(range.end), Cursor::at(range.start));
                    copy::advance_part(pieces, &mut cursor, usize::MAX, self.bytes)
                }
                (Portion::Part(rows), _) => {
                    let (pieces, mut cursor) = (Pieces::Rows(slice::from_ref(rows)), Cursor::default());
                    copy::advance_part(pieces, &mut cursor, usize::MAX, self.bytes)
                }
            }
        };
        if let Err(fault) = moved {
            self.fail(self.whole.failed_by(fault));
        }
        true
    }

    /// What is left is not worth doing: portions are still taken, and counted, but nothing is moved.
    fn fail(&self, error: Error) {
        lock(&self.failed).get_or_insert(error);
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Why the copy could not be done, once.
    pub fn take_failure(&self) -> Option<Error> {
        lock(&self.failed).take()
    }

    /// No portion is taken any more; returns when those that were are finished.
    pub fn close(&self) {
        let taken = self.next.swap(self.portions.len(), Ordering::Relaxed).min(self.portions.len());
        let mut looks = 0;
        while self.finished.load(Ordering::Acquire) < taken {
            spin_loop();
            looks += 1;
            if looks % SPINS_BEFORE_YIELD == 0 {
                thread::yield_now();
            }
        }
    }
}

/// Counts a portion as finished when dropped, also during a panic: the owner never waits for ever.
struct Finish<'a>(&'a AtomicUsize);

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Release);
    }
}

/// The portions of a copy.
pub struct TeamPortions(Vec<Portion>);

/// The copies that threads may help with now.
#[derive(Default)]
pub struct OpenTeams {
    teams: Mutex<Vec<Arc<Team>>>,
    /// How many there are, readable without the lock.
    count: AtomicUsize,
}

impl OpenTeams {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::SeqCst) == 0
    }

    /// Others may help with this copy from here on.
    pub fn add(&self, team: Arc<Team>) {
        let mut teams = lock(&self.teams);
        teams.push(team);
        self.count.store(teams.len(), Ordering::SeqCst);
    }

    /// No thread joins this copy any more.
    pub fn remove(&self, team: &Arc<Team>) {
        let mut teams = lock(&self.teams);
        teams.retain(|open| !Arc::ptr_eq(open, team));
        self.count.store(teams.len(), Ordering::SeqCst);
    }

    /// Whether there is a copy to help with, of this lane if one is given.
    pub fn need_help(&self, lane: Option<usize>) -> bool {
        !self.is_empty() && lock(&self.teams).iter().any(|team| team.is_of(lane) && team.has_room())
    }

    /// Helps with a copy, of this lane if one is given, until there is no more to do or it is `enough`.
    /// Returns whether there was something to help with.
    pub fn help(&self, lane: Option<usize>, enough: impl Fn() -> bool) -> bool {
        if self.is_empty() {
            return false;
        }
        let found = lock(&self.teams).iter().find(|team| team.is_of(lane) && team.join()).cloned();
        let Some(team) = found else { return false };
        while !enough() && team.step() {}
        team.leave();
        true
    }
}

/// Bytes of a portion: whole pages, so that portions start at pages of the destination where they can.
fn portion_size(total: usize, cpus: usize) -> usize {
    (total / (cpus * PORTIONS_PER_THREAD)).clamp(MIN_PORTION, MAX_PORTION) & !(SMALLEST_PAGE - 1)
}

/// What a piece costs, in bytes.
fn cost(rows: &Rows) -> usize {
    rows.height.saturating_mul(rows.width.max(ROW_COST))
}

/// What all pieces cost together.
fn total_cost(pieces: Pieces) -> usize {
    match pieces {
        Pieces::Rows(rows) => rows.iter().map(cost).sum(),
        Pieces::Segments(lines) => lines.iter().map(|line| line.len.max(ROW_COST)).sum(),
    }
}

/// The portions of a plan, of about `size` bytes each.
fn cut(pieces: Pieces, size: usize) -> Vec<Portion> {
    match pieces {
        Pieces::Rows(rows) => cut_each(rows, size, cost),
        Pieces::Segments(segments) => cut_each(segments, size, |segment| segment.len.max(ROW_COST)),
    }
}

fn cut_each<P: Copy + Into<Rows>>(pieces: &[P], size: usize, cost: impl Fn(&P) -> usize) -> Vec<Portion> {
    let mut cut = Vec::new();
    let (mut first, mut collected) = (0, 0);
    for (index, piece) in pieces.iter().enumerate() {
        let cost = cost(piece);
        let alone = cost > size && !spans_intersect(&(*piece).into());
        if first < index && (alone || collected >= size) {
            cut.push(Portion::Pieces(first..index));
            (first, collected) = (index, 0);
        }
        if alone {
            let rows = (*piece).into();
            portions::cut(&rows, size, ROW_COST, |rows| rows.dst, |part| cut.push(Portion::Part(part)));
            first = index + 1;
        } else {
            collected += cost;
        }
    }
    if first < pieces.len() {
        cut.push(Portion::Pieces(first..pieces.len()));
    }
    cut
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Every byte of every piece, as (piece's own number, row, column).
    fn bytes(pieces: &[Rows]) -> Vec<(usize, usize)> {
        let mut all = Vec::new();
        for rows in pieces {
            for row in 0..rows.height {
                for col in 0..rows.width {
                    all.push((rows.dst + row * rows.dst_pitch + col, rows.src + row * rows.src_pitch + col));
                }
            }
        }
        all
    }

    fn of_portions(pieces: &[Rows], portions: &[Portion]) -> Vec<(usize, usize)> {
        let flat = portions.iter().flat_map(|portion| match portion {
            Portion::Pieces(range) => pieces[range.clone()].to_vec(),
            Portion::Part(rows) => vec![*rows],
            Portion::Bytes(_) => unreachable!("no fill"),
        });
        bytes(&flat.collect::<Vec<_>>())
    }

    #[test]
    fn portions_are_the_plan_byte_by_byte() {
        let matrix = Rows { dst: 1 << 20, dst_pitch: 40, src: 5, src_pitch: 33, width: 33, height: 700 };
        let wide =
            Rows { dst: 3 << 20, dst_pitch: 9000, src: 1 << 21, src_pitch: 8500, width: 8400, height: 3 };
        let overlapping = Rows::linear(5 << 20, (5 << 20) + 100, 20_000);
        let small = |i: usize| Rows::linear((8 << 20) + i * 300, (9 << 20) + i * 700, 100 + i % 7);
        let many: Vec<Rows> = (0..500).map(small).collect();
        let plans: [&[Rows]; 6] = [
            &[matrix],
            &[wide],
            &[overlapping],
            &many,
            &[small(0), matrix, small(1), small(2), overlapping, wide, small(3)],
            &[Rows::linear(4096 * 9 + 17, 4096 * 900, 50_000)],
        ];
        for plan in plans {
            let portions = cut(Pieces::Rows(plan), 4096);
            assert_eq!(of_portions(plan, &portions), bytes(plan), "{portions:?}");
            for portion in &portions {
                if let Portion::Part(rows) = portion {
                    assert!(cost(rows) <= 4096 && *rows != overlapping, "{rows:?}");
                }
            }
        }
        assert_eq!(cut(Pieces::Rows(&[overlapping]), 4096), [Portion::Pieces(0..1)], "never cut");
        assert!(cut(Pieces::Rows(&many), 4096).len() > 8, "gathered, not all at once");
    }

    #[test]
    fn shuffled_portions_are_the_plan_in_another_order() {
        let matrix = Rows { dst: 1 << 20, dst_pitch: 40, src: 5, src_pitch: 33, width: 33, height: 700 };
        let overlapping = Rows::linear(5 << 20, (5 << 20) + 100, 20_000);
        let plan = [matrix, overlapping, Rows::linear(7 << 20, 8 << 20, 100_000), Rows::linear(3, 9, 3)];
        let smallest_then = |others: usize| {
            let first = std::cell::Cell::new(true);
            move |end: usize| if first.take() { 0 } else { others % end }
        };
        let orders = [0, 1].map(|others| {
            let portions = Team::shuffled(Pieces::Rows(&plan), smallest_then(others)).expect("several").0;
            let mut all = of_portions(&plan, &portions);
            all.sort_unstable();
            let mut want = bytes(&plan);
            want.sort_unstable();
            assert_eq!(all, want, "each byte once");
            assert!(portions.contains(&Portion::Pieces(1..2)), "overlapping ends are never cut");
            portions
        });
        assert_ne!(orders[0], orders[1]);
        assert!(Team::shuffled(Pieces::Rows(&[Rows::linear(3, 9, 3)]), |_| 0).is_none());
    }

    #[test]
    fn portions_of_a_fill_are_its_bytes_and_begin_with_the_pattern() {
        for (len, cpus) in [(MIN_TEAM_BYTES, 2), (MIN_TEAM_BYTES + 3, 3), ((100 << 20) + 1, 16)] {
            let portions = Team::fill_portions(len, cpus).expect("large enough").0;
            let mut next = 0;
            for portion in &portions {
                let Portion::Bytes(range) = portion else { panic!("{portion:?}") };
                assert!(range.start == next && range.start % 4 == 0 && !range.is_empty(), "{range:?}");
                next = range.end;
            }
            assert!(next == len && portions.len() > 1, "{portions:?}");
        }
        assert!(Team::fill_portions(MIN_TEAM_BYTES - 1, 2).is_none(), "done before help would come");
        assert!(Team::fill_portions(MIN_TEAM_BYTES, 1).is_none(), "nobody could help");
    }

    #[test]
    fn rows_that_lie_between_each_other_are_not_apart() {
        let woven = Rows { dst: 0, dst_pitch: 200, src: 100, src_pitch: 200, width: 100, height: 90 };
        assert_eq!(cut(Pieces::Rows(&[woven]), 4096), [Portion::Pieces(0..1)]);
    }
}
