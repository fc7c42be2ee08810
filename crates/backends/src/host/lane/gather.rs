//! Small copies in a row that can be done in any order, gathered into one. Several threads share it if it is
//! large enough (`team.rs`); `together.rs` does it for its lane.
//!
//! A run of copies is gathered as long as each is one piece and none writes what another one, or the lookup
//! of another one's addresses, reads or writes. Its tasks stay in the hand until all of it is done: whatever
//! comes between (an abort, a deadline, a fault), they are done again one by one, or dropped, as if nothing
//! had begun. That is right, since each gives the same bytes when it is done twice.

use crate::host::{
    engine::{Engine, OwnedTeam},
    task::{LateBinding, Task},
    team::{MIN_TEAM_BYTES, Team, TeamWork},
};
use ferry_core::{Pieces, Segment, sync::Arc};
use std::{collections::VecDeque, ops::Range};

/// Fewer tasks are not gathered.
const MIN_OPS: usize = 64;
/// More tasks are gathered in several goes.
const MAX_OPS: usize = 1024;
/// More bytes are not gathered in one go: none of them has passed before all have.
const MAX_BYTES: usize = 8 << 20;
/// Fewer bytes of copies whose addresses are read when they run are not gathered; of others, what is too
/// little for a team. Reading the addresses of many in a row is what is gained.
const MIN_LATE_BYTES: usize = 128 << 10;
/// Tasks that are looked at to reckon how many bytes there are: looking up addresses takes time.
const SAMPLES: usize = 4;

/// What came of an attempt.
pub(super) enum Gathering {
    /// So many tasks, from the first on, are done by the team.
    Team(OwnedTeam, usize),
    /// These are what as many tasks move, too few bytes to share.
    Alone(Vec<Segment>),
    /// So many tasks are to be done one by one.
    Singly(usize),
}

/// Gathers no more than `most` tasks at the front of the hand for a team of `lane`, unless there are too few.
pub(super) fn gather(
    hand: &VecDeque<Task>,
    most: usize,
    late: &mut LateBinding,
    engine: &Arc<Engine>,
    lane: usize,
) -> Gathering {
    let run = hand.iter().take(most.min(MAX_OPS)).take_while(|task| task.is_small_copy()).count();
    if run < MIN_OPS {
        return Gathering::Singly(run.max(1));
    }
    let mut segment = |task: &Task| task.segment(late);
    let sampled: usize = hand.iter().take(SAMPLES).filter_map(&mut segment).map(|one| one.len).sum();
    let is_late_bound = hand.front().is_some_and(Task::is_late_bound);
    let least = if is_late_bound { MIN_LATE_BYTES } else { MIN_TEAM_BYTES };
    if sampled / SAMPLES * run < least {
        return Gathering::Singly(run);
    }
    let segments = take_bytes(hand.iter().take(run).map_while(&mut segment));
    let count = segments.len();
    let cells = hand.iter().take(count).flat_map(Task::cells);
    if count < MIN_OPS || !are_apart(&segments, cells) {
        return Gathering::Singly(count.max(1));
    }
    let Some(portions) = Team::portions(Pieces::Segments(&segments), engine.cpus()) else {
        return if is_late_bound { Gathering::Alone(segments) } else { Gathering::Singly(count) };
    };
    let team = Team::new(TeamWork::Many(segments), portions, lane, engine.cpus());
    Gathering::Team(engine.open_team(team), count)
}

/// As many as are of no more than `MAX_BYTES`.
fn take_bytes(segments: impl Iterator<Item = Segment>) -> Vec<Segment> {
    let mut bytes = 0;
    let fits = |segment: &Segment| {
        bytes += segment.len;
        bytes <= MAX_BYTES
    };
    segments.take_while(fits).collect()
}

/// Whether no segment writes what another one writes or reads, or what one of the cells is in.
fn are_apart(segments: &[Segment], cells: impl Iterator<Item = Range<usize>>) -> bool {
    let mut written: Vec<Range<usize>> =
        segments.iter().map(|one| one.dst..one.dst + one.len).filter(|range| !range.is_empty()).collect();
    written.sort_unstable_by_key(|range| range.start);
    if written.windows(2).any(|pair| pair[0].end > pair[1].start) {
        return false;
    }
    let (Some(first), Some(last)) = (written.first(), written.last()) else { return true };
    let all = first.start..last.end;
    let is_written = |read: Range<usize>| {
        if read.is_empty() || read.end <= all.start || all.end <= read.start {
            return false;
        }
        // They do not overlap, so their ends are in order, too.
        let next = written.partition_point(|range| range.end <= read.start);
        written.get(next).is_some_and(|range| range.start < read.end)
    };
    let reads = segments.iter().map(|one| one.src..one.src + one.len);
    !reads.chain(cells).any(is_written)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{host::lane::Lane, os::fault};
    use ferry_core::{Fence, Status};

    fn segment((dst, src, len): (usize, usize, usize)) -> Segment {
        Segment { dst, src, len }
    }

    #[test]
    fn copies_are_apart_unless_one_writes_what_another_uses() {
        let apart = |copies: &[(usize, usize, usize)], cell: Range<usize>| {
            let segments: Vec<_> = copies.iter().copied().map(segment).collect();
            are_apart(&segments, [cell].into_iter())
        };
        let none = 0..0;
        assert!(apart(&[], none.clone()));
        assert!(apart(&[(1000, 5000, 100), (1100, 5000, 100), (900, 5050, 100)], none.clone()), "neighbours");
        assert!(!apart(&[(1000, 5000, 100), (1099, 6000, 100)], none.clone()), "two write a byte");
        assert!(!apart(&[(1000, 5000, 100), (7000, 1099, 10)], none.clone()), "one reads what one writes");
        assert!(!apart(&[(7000, 1099, 10), (1000, 5000, 100)], none.clone()), "in either order");
        assert!(apart(&[(1000, 5000, 100), (7000, 1100, 10)], none.clone()), "right behind it");
        assert!(apart(&[(1000, 5000, 100), (7000, 990, 10), (3000, 1100, 1900)], none.clone()), "between");
        assert!(!apart(&[(1000, 1050, 100)], none), "its own source");
        assert!(!apart(&[(1000, 5000, 100), (2000, 5000, 100)], 2099..2155), "a descriptor");
        assert!(apart(&[(1000, 5000, 100), (2000, 5000, 100)], 2100..2156));
    }

    const PIECE: usize = 16 << 10;
    const PIECES: usize = 512;

    /// A lane that the test's own thread runs, and helpers.
    fn lane() -> Arc<Lane> {
        Lane::new(Engine::new(Arc::new(()), 2), Arc::new(Status::new(0, None)), true)
    }

    fn copy(memory: &[u8], dst: usize, src: usize) -> Task {
        let at = |piece| memory.as_ptr() as usize + piece * PIECE;
        Task::Linear { dst: at(dst), src: at(src), len: PIECE, done: 0 }
    }

    #[test]
    fn a_run_of_copies_that_are_apart_is_gathered_and_no_more() {
        let memory = vec![0_u8; PIECE * PIECES];
        let half = PIECES / 2;
        let mut hand: VecDeque<_> = (0..half).map(|piece| copy(&memory, half + piece, piece)).collect();
        let engine = Engine::new(Arc::new(()), 2);
        let count =
            |hand: &VecDeque<Task>, most| match gather(hand, most, &mut LateBinding::default(), &engine, 0) {
                Gathering::Team(mut team, count) => {
                    team.close();
                    Ok(count)
                }
                Gathering::Alone(segments) => panic!("{} ops", segments.len()),
                Gathering::Singly(count) => Err(count),
            };
        assert_eq!(count(&hand, usize::MAX), Ok(half));
        assert_eq!(count(&hand, 200), Ok(200), "no more than is waited for");
        hand.insert(150, Task::Nothing);
        assert_eq!(count(&hand, usize::MAX), Ok(150), "other work ends it");
        hand.truncate(MIN_OPS - 1);
        assert_eq!(count(&hand, usize::MAX), Err(MIN_OPS - 1), "too few");
        hand.extend((0..half).map(|piece| copy(&memory, half + piece, piece)));
        assert_eq!(count(&hand, usize::MAX), Err(MIN_OPS - 1 + half), "some write the same");
    }

    #[test]
    fn gathered_or_not_the_bytes_are_those_of_one_copy_after_the_other() {
        let mut seed = 7_usize;
        let mut random = |end: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % end
        };
        // From copies that are all apart to ones that all meet.
        for targets in [PIECES / 2, PIECES - 1, 5] {
            let mut memory: Vec<u8> = (0..PIECE * PIECES).map(|at| (at / PIECE) as u8).collect();
            let copies: Vec<_> = (0..2 * PIECES)
                .map(|turn| match targets {
                    5 => (random(5), random(PIECES)),
                    _ => (PIECES - targets + turn % targets, random(PIECES - targets)),
                })
                .collect();
            let mut want = memory.clone();
            for (dst, src) in &copies {
                want.copy_within(src * PIECE..(src + 1) * PIECE, dst * PIECE);
            }
            let lane = lane();
            for (dst, src) in &copies {
                lane.push(|_| copy(&memory, *dst, *src));
            }
            lane.fence_at(copies.len() as u64).wait(None).expect("done");
            assert_eq!((lane.status.passed(), lane.status.take_error()), (copies.len() as u64, None));
            assert!(std::hint::black_box(&mut memory) == &mut want, "{targets} targets");
        }
    }

    #[test]
    fn a_copy_that_cannot_be_done_fails_alone() {
        let memory = vec![3_u8; PIECE * PIECES];
        let (lane, half) = (lane(), PIECES / 2);
        fault::install();
        for piece in 0..half {
            // A page that nobody has, in the middle of all.
            let bad = Task::Linear { dst: 1 << 45, src: memory.as_ptr() as usize, len: PIECE, done: 0 };
            lane.push(|_| if piece == 100 { bad } else { copy(&memory, half + piece, piece) });
        }
        lane.fence_at(half as u64).wait(None).expect("passed");
        let error = lane.status.take_error().expect("one of them failed");
        assert!(error.note.contains(&format!("to {:#x}", 1_usize << 45)), "{error}");
    }

    #[test]
    fn no_more_than_some_bytes_are_gathered() {
        let copies = |len| (0..100).map(move |index| segment((index * len, index * len, len)));
        assert_eq!(take_bytes(copies(MAX_BYTES / 10)).len(), 10);
        assert_eq!(take_bytes(copies(8)).len(), 100);
    }
}
