//! Small copies in a row that can be done in any order, gathered into one. Several threads share it if it is
//! large enough (`team.rs`); `together.rs` does it for its lane.
//!
//! A run of copies is gathered as long as each is one piece and none writes what another one, or the lookup
//! of another one's addresses, reads or writes. Its tasks stay in the hand until all of it is done: whatever
//! comes between (an abort, a deadline, a fault), they are done again one by one, or dropped, as if nothing
//! had begun. That is right, since each gives the same bytes when it is done twice.

use crate::bytes::hazards::are_independent;
use crate::host::{
    engine::{Engine, OwnedTeam, RunQueue},
    task::{LateBinding, Task},
    team::{Team, TeamWork},
};
use ferry_core::{Pieces, Segment, sync::Arc};
use std::collections::VecDeque;

/// Fewer tasks are not gathered.
const MIN_OPS: usize = 64;
/// More tasks are gathered in several goes.
const MAX_OPS: usize = 1024;
/// More bytes are not gathered in one go: none of them has passed before all have.
const MAX_BYTES: usize = 8 << 20;
/// Fewer bytes are not gathered. Beside what threads can share, what is gained is that rows to come are
/// prefetched while one is moved.
const MIN_BYTES: usize = 128 << 10;
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

/// Gathers no more than `most` tasks at the front of the hand of `queue`, unless there are too few.
pub(super) fn gather(
    hand: &VecDeque<Task>,
    most: usize,
    late: &mut LateBinding,
    engine: &Arc<Engine>,
    queue: &dyn RunQueue,
) -> Gathering {
    // Two goes are of the same length: what is left over would be too little to share.
    let there = hand.iter().take(most.min(2 * MAX_OPS)).take_while(|task| task.is_small_copy()).count();
    let run = if there > MAX_OPS { there / 2 } else { there };
    if run < MIN_OPS {
        return Gathering::Singly(run.max(1));
    }
    let mut segment = |task: &Task| task.segment(late);
    let sampled: usize = hand.iter().take(SAMPLES).filter_map(&mut segment).map(|one| one.len).sum();
    if sampled / SAMPLES * run < MIN_BYTES {
        return Gathering::Singly(run);
    }
    let segments = take_bytes(hand.iter().take(run).map_while(&mut segment));
    let count = segments.len();
    let cells = hand.iter().take(count).flat_map(Task::cells);
    if count < MIN_OPS || !are_independent(&segments, cells) {
        return Gathering::Singly(count.max(1));
    }
    let Some(portions) = Team::portions(Pieces::Segments(&segments), engine.cpus()) else {
        return Gathering::Alone(segments);
    };
    Gathering::Team(engine.open_team(TeamWork::Many(segments), portions, queue), count)
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{host::lane::Lane, os::fault};
    use ferry_core::{Fence, Status};

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
        let lane = lane();
        let count = |hand: &VecDeque<Task>, most| match gather(
            hand,
            most,
            &mut LateBinding::default(),
            &lane.engine,
            &*lane,
        ) {
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
    fn too_few_bytes_to_share_are_gathered_for_one_thread() {
        let memory = vec![0_u8; 1 << 20];
        let at = |place: usize| memory.as_ptr() as usize + place * 256;
        let hand: VecDeque<_> =
            (0..1500).map(|i| Task::Linear { dst: at(2000 + i), src: at(i), len: 256, done: 0 }).collect();
        let lane = lane();
        for (most, want) in [(MIN_BYTES / 256 - 1, None), (1000, Some(1000)), (1500, Some(750))] {
            let gathered = gather(&hand, most, &mut LateBinding::default(), &lane.engine, &*lane);
            let count = if let Gathering::Alone(segments) = gathered { Some(segments.len()) } else { None };
            assert_eq!(count, want, "of {most}");
        }
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
        let copies = |len| (0..100).map(move |index| Segment { dst: index * len, src: index * len, len });
        assert_eq!(take_bytes(copies(MAX_BYTES / 10)).len(), 10);
        assert_eq!(take_bytes(copies(8)).len(), 100);
    }
}
