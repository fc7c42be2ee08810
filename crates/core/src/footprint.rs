//! The footprint of an op: the blocks of memory that it touches, each told from every block that was or will
//! be at the same address.

use crate::{
    AddressTable, Block, Error, Kind, Op,
    indirect::{Cell, DESCRIPTOR_LEN, Through},
    table::{BlockGeneration, EngineIndex},
};
use smallvec::SmallVec;
use std::collections::HashSet;

/// Bytes of a pointer cell.
const CELL_LEN: usize = 8;

/// Blocks that an op touches. Memory of other libraries is not among them: its lifetime is not known here.
#[derive(Clone, Debug, Default)]
pub struct Footprint {
    areas: Vec<Area>,
}

/// Memory that is there as long as one of these blocks is: several of them are aliases, the same physical
/// memory mapped more than once.
type Area = SmallVec<[(Block, BlockGeneration); 1]>;

impl Footprint {
    /// The footprint of an op, whose plan is current.
    pub(crate) fn of(op: &Op, table: &AddressTable) -> Footprint {
        let ranges = merged(ranges(op));
        if ranges.is_empty() {
            return Footprint::default();
        }
        let index = table.by_engine_address();
        let touched = ranges.iter().map(|range| touched_by(&index, *range));
        let areas = touched.flat_map(|blocks| blocks.chunk_by(|(one, _), (other, _)| one.at == other.at));
        let mut areas: Vec<_> = areas.map(Area::from).collect();
        // A block that several ranges touch.
        areas.dedup();
        Footprint { areas }
    }
}

/// The footprints of many ops, each area once.
#[derive(Default)]
pub(crate) struct Footprints {
    /// Each area, and the number of the first op that touches it.
    areas: Vec<(Area, usize)>,
    known: HashSet<Vec<BlockGeneration>>,
}

impl Footprints {
    /// Adds that of the op of this number.
    pub(crate) fn add(&mut self, footprint: Footprint, op: usize) {
        for area in footprint.areas {
            if self.known.insert(area.iter().map(|(_, generation)| *generation).collect()) {
                self.areas.push((area, op));
            }
        }
    }

    /// A block that is no longer what it was, and the number of the first op that touches it.
    pub(crate) fn gone(&self, table: &AddressTable) -> Option<(Block, usize)> {
        let is_there = |(block, generation): &(Block, BlockGeneration)| {
            table.generation(block.base) == Some(*generation)
        };
        let (area, op) = self.areas.iter().find(|(area, _)| !area.iter().any(is_there))?;
        area.first().map(|(block, _)| (*block, *op))
    }
}

/// The error of work of a graph that uses memory which is gone.
#[cold]
pub(crate) fn was_freed(block: &Block, user: &str) -> Error {
    Kind::BadAddress.because(format!(
        "{user} uses {block}, which was freed after the graph was captured: memory of a graph must stay \
         until the graph is destroyed"
    ))
}

/// A range of the engine's addresses, from its first byte to behind its last.
type EngineRange = (usize, usize);

/// What an op touches, in the engine's addresses.
fn ranges(op: &Op) -> Vec<EngineRange> {
    match op {
        Op::Copy(plan) => plan.pieces().iter().flat_map(|rows| [rows.written(), rows.read()]).collect(),
        Op::CopyThrough(late) => match late.through {
            Through::Descriptor { at, .. } => vec![(at, at + DESCRIPTOR_LEN)],
            Through::Cells { dst, src, .. } => [dst, src].map(|Cell { at, .. }| (at, at + CELL_LEN)).to_vec(),
        },
        Op::Fill(fill) => vec![(fill.dst, fill.dst + fill.len)],
        Op::Reduce(reduction) => {
            let pieces = reduction.within(0, reduction.bytes());
            let both = pieces.flat_map(|piece| [piece.dst, piece.src].map(|at| (at, at + piece.len)));
            both.collect()
        }
        Op::After(after) => ranges(&after.1),
        Op::Wait(_) | Op::Call(_) => Vec::new(),
    }
}

/// The same bytes in ranges that ascend and do not touch each other.
fn merged(mut ranges: Vec<EngineRange>) -> Vec<EngineRange> {
    ranges.retain(|(start, end)| start < end);
    ranges.sort_unstable();
    let mut merged: Vec<EngineRange> = Vec::new();
    for (start, end) in ranges {
        match merged.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => merged.push((start, end)),
        }
    }
    merged
}

/// The blocks that have bytes in a range. Blocks are apart in the engine's addresses, unless they are
/// aliases, which begin and end together.
fn touched_by(index: &EngineIndex, (start, end): EngineRange) -> &[(Block, BlockGeneration)] {
    let behind = index.partition_point(|(block, _)| block.at < end);
    let before = index[..behind].partition_point(|(block, _)| block.at + block.len <= start);
    &index[before..behind]
}
