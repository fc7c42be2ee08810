//! Random programs at the level of facts.

use super::program::Program;
use ferry_watch::{
    Fact,
    fact::{Awaited, Piece, Point, Route, Rows, Work},
};
use proptest::prelude::*;

/// Where the blocks of random programs are, their length and home.
pub const BLOCKS: [(u64, Option<u32>); 4] =
    [(0x1000, Some(0)), (0x2000, Some(0)), (0x3000, None), (0x4000, None)];
pub const BLOCK_LEN: u64 = 32;
const STREAMS: u32 = 3;

/// A program with the blocks and streams of all of them.
pub fn begin() -> Program {
    let mut program = Program::new();
    for _ in 0..STREAMS {
        program.stream(0);
    }
    BLOCKS.iter().for_each(|(at, device)| program.block(*at, BLOCK_LEN, *device));
    program
}

pub fn linear(dst: u64, src: u64, len: u64) -> Work {
    Work::Linear { route: Route::default(), piece: Piece { dst, src, len } }
}

/// What a random program does.
#[derive(Clone, Debug)]
pub enum Deed {
    Copy { stream: u32, ends: [u64; 2], len: u64, hashes: [u64; 2] },
    Rows { stream: u32, ends: [u64; 2], pitch: u64, hash: u64 },
    Batch { stream: u32, pieces: Vec<[u64; 2]>, hash: u64 },
    Fill { stream: u32, dst: u64 },
    Reduce { stream: u32, ends: [u64; 2], combine: u8 },
    Wait { stream: u32, target: usize },
    Later { stream: u32 },
    Join { target: usize },
}

pub fn any_address() -> impl Strategy<Value = u64> {
    (0..4_usize, 0..17_u64).prop_map(|(block, offset)| BLOCKS[block].0 + offset)
}

pub fn any_deed() -> impl Strategy<Value = Deed> {
    let ends = [any_address().boxed(), any_address().boxed()];
    prop_oneof![
        6 => (0..STREAMS, ends.clone(), 0..16_u64, [0..3_u64, 0..3_u64])
            .prop_map(|(stream, ends, len, hashes)| Deed::Copy { stream, ends, len, hashes }),
        1 => (0..STREAMS, ends.clone(), 4..6_u64, 0..3_u64)
            .prop_map(|(stream, ends, pitch, hash)| Deed::Rows { stream, ends, pitch, hash }),
        1 => (0..STREAMS, proptest::collection::vec(ends.clone(), 0..4), 0..3_u64)
            .prop_map(|(stream, pieces, hash)| Deed::Batch { stream, pieces, hash }),
        1 => (0..STREAMS, any_address()).prop_map(|(stream, dst)| Deed::Fill { stream, dst }),
        1 => (0..STREAMS, ends, 0..3_u8)
            .prop_map(|(stream, ends, combine)| Deed::Reduce { stream, ends, combine }),
        3 => (0..STREAMS, 0..100_usize).prop_map(|(stream, target)| Deed::Wait { stream, target }),
        1 => (0..STREAMS).prop_map(|stream| Deed::Later { stream }),
        3 => (0..100_usize).prop_map(|target| Deed::Join { target }),
    ]
}

/// Writes down what a program does. A deed `Later` waits for what comes next in the next stream.
pub fn write_down(deeds: &[(u32, Deed)]) -> Program {
    let mut program = begin();
    let mut points: Vec<Point> = Vec::new();
    let mut promises: Vec<(u32, u64)> = Vec::new();
    for (number, (thread, deed)) in deeds.iter().enumerate() {
        let pick = |target: &usize| (!points.is_empty()).then(|| points[target % points.len()]);
        let (stream, awaits, work, hashes) = match deed.clone() {
            Deed::Copy { stream, ends: [dst, src], len, hashes } => {
                (stream, Vec::new(), linear(dst, src, len), hashes)
            }
            Deed::Rows { stream, ends: [dst, src], pitch, hash } => {
                let rows = Rows { dst, src, dst_pitch: pitch, src_pitch: 4, width: 4, height: 3 };
                (stream, Vec::new(), Work::Rows { route: Route::default(), rows }, [hash; 2])
            }
            Deed::Batch { stream, pieces, hash } => {
                let pieces: Vec<_> =
                    pieces.iter().map(|[dst, src]| Piece { dst: *dst, src: *src, len: 5 }).collect();
                let (count, bytes) = (pieces.len() as u64, pieces.len() as u64 * 5);
                (stream, Vec::new(), Work::Batch { route: Route::default(), count, bytes, pieces }, [hash; 2])
            }
            Deed::Fill { stream, dst } => {
                let work = Work::Fill { dst, len: 9, pattern: [9, 8, 7, 6], device: None };
                (stream, Vec::new(), work, [0; 2])
            }
            Deed::Reduce { stream, ends: [dst, src], combine } => {
                let work = Work::Reduce { device: 0, piece: Piece { dst, src, len: 7 }, combine, element: 0 };
                (stream, Vec::new(), work, [0; 2])
            }
            Deed::Wait { stream, target } => {
                let awaits = pick(&target).map(Awaited::Point).into_iter().collect();
                (stream, awaits, Work::Nothing, [0; 2])
            }
            Deed::Later { stream } => {
                promises.push(((stream + 1) % STREAMS, number as u64));
                (stream, vec![Awaited::Later(number as u64)], Work::Nothing, [0; 2])
            }
            Deed::Join { target } => {
                if let Some(point) = pick(&target) {
                    program.join(*thread, point);
                }
                continue;
            }
        };
        // What another stream waits for waits for nothing itself: no program runs whose waits form a circle.
        let is_promised = promises.iter().any(|(target, _)| *target == stream);
        let awaits = if is_promised { Vec::new() } else { awaits };
        let point = program.submit(*thread, stream, awaits, work);
        points.push(point);
        if hashes[0] > 0 {
            program.pass(point, hashes[0], hashes[1]);
        }
        for (_, promise) in promises.extract_if(.., |(target, _)| *target == stream) {
            program.write(0, Fact::Bound { time: 5_000, promise, point: Some(point) });
        }
    }
    program
}
