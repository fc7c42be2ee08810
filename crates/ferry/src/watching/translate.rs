//! The core's words as those of facts.

use ferry_core::{
    Block, Fence, Fill, Gate, Home, Indirect, Linear, Op, Origin, Plan, Reduction, Route, Rows, Seen,
    indirect::{DESCRIPTOR_LEN, Through},
    observe::TaskId as EngineTask,
};
use ferry_watch::fact::{self, Awaited, DESCRIPTOR_BYTES, Piece, TaskId, Work};
use std::sync::Arc;

/// How many pieces of a batch a fact has if not all are wanted.
const SAMPLE_PIECES: usize = 4;
/// How many pieces of a batch the first fact has if all are wanted; the others follow in facts of their own.
pub(super) const MAX_FIRST_PIECES: usize = 1024;

/// An op as facts have it.
#[derive(Default)]
pub(super) struct Shown {
    pub(super) work: Work,
    pub(super) awaits: Vec<Awaited>,
    /// The pieces of a batch behind those in `work`.
    pub(super) more: Vec<Piece>,
}

impl From<Work> for Shown {
    fn from(work: Work) -> Shown {
        Shown { work, ..Shown::default() }
    }
}

/// How an op is to be shown.
#[derive(Clone, Copy)]
pub(super) struct ShowOptions<'a> {
    /// Streams are counted from here.
    pub(super) first_stream: u32,
    /// Says the device of the op's stream.
    pub(super) device: &'a dyn Fn() -> u32,
    /// With all pieces, and not the first few.
    pub(super) all_pieces: bool,
}

/// An op.
#[inline]
pub(super) fn show(what: Seen<'_>, of: ShowOptions<'_>) -> Shown {
    match what {
        Seen::Linear(copy) => {
            let (route, piece) = linear(copy);
            Work::Linear { route, piece }.into()
        }
        Seen::Mark => Work::Mark.into(),
        Seen::Other => Shown::default(),
        Seen::Op(op) => show_op(op, of),
    }
}

fn show_op(op: &Op, of: ShowOptions<'_>) -> Shown {
    match op {
        Op::Copy(plan) => copy(plan, of.all_pieces),
        Op::CopyThrough(late) => late_bound(late).into(),
        Op::Fill(Fill { dst, len, pattern, device }) => {
            Work::Fill { dst: *dst as u64, len: *len as u64, pattern: *pattern, device: *device }.into()
        }
        Op::Reduce(reduction) => reduce(reduction, (of.device)()).into(),
        Op::Wait(fence) => Shown { awaits: vec![awaited(fence, of.first_stream)], ..Shown::default() },
        Op::After(after) => {
            let mut shown = show_op(&after.1, of);
            shown.awaits.extend(after.0.iter().map(|fence| awaited(fence, of.first_stream)));
            shown
        }
        Op::Call(_) => Work::Function.into(),
    }
}

fn awaited(fence: &Arc<dyn Fence>, first_stream: u32) -> Awaited {
    if let Some(point) = fence.point() {
        let stream = first_stream + point.stream as u32;
        return Awaited::Point(fact::Point { stream, ticket: point.ticket });
    }
    match fence.native().downcast_ref::<Gate>() {
        Some(gate) => Awaited::Later(gate.number()),
        None => Awaited::Outside,
    }
}

#[inline]
pub(super) fn linear(copy: &Linear) -> (fact::Route, Piece) {
    let segment = copy.segment();
    (route(copy.route(), false), piece(segment.dst, segment.src, segment.len))
}

fn copy(plan: &Plan, all_pieces: bool) -> Shown {
    let (route, pieces) = (route(plan.route(), plan.is_plain()), plan.pieces());
    if pieces.len() == 1
        && let Some(rows) = pieces.iter().next()
    {
        return match rows.height {
            1 => Work::Linear { route, piece: piece(rows.dst, rows.src, rows.width) },
            _ => Work::Rows { route, rows: rectangle(&rows) },
        }
        .into();
    }
    let limit = if all_pieces { usize::MAX } else { SAMPLE_PIECES };
    let mut shown: Vec<Piece> = pieces.iter().flat_map(lines).take(limit).collect();
    let more = shown.split_off(shown.len().min(MAX_FIRST_PIECES));
    let (count, bytes) = (pieces.len() as u64, plan.bytes() as u64);
    Shown { work: Work::Batch { route, count, bytes, pieces: shown }, awaits: Vec::new(), more }
}

/// The rows of a rectangle, each as a piece.
pub(super) fn lines(rows: Rows) -> impl Iterator<Item = Piece> {
    let line = move |line: usize| {
        piece(rows.dst + line * rows.dst_pitch, rows.src + line * rows.src_pitch, rows.width)
    };
    (0..rows.height).map(line)
}

const _: () = assert!(DESCRIPTOR_LEN as u64 == DESCRIPTOR_BYTES);

fn late_bound(late: &Indirect) -> Work {
    let (cells, len) = match late.through {
        Through::Descriptor { at, .. } => ([at as u64, 0], 0),
        Through::Cells { dst, src, len } => ([dst.at as u64, src.at as u64], len as u64),
    };
    Work::Through { device: late.device, cells, len }
}

fn reduce(reduction: &Reduction, device: u32) -> Work {
    let (combine, element) = (reduction.combine() as u8, reduction.element() as u8);
    let first = reduction.within(0, reduction.bytes()).next();
    let piece = first.map_or(Piece::default(), |first| piece(first.dst, first.src, reduction.bytes()));
    Work::Reduce { device, piece, combine, element }
}

/// A block, of which the program has asked for so many bytes; 0 if nobody said.
pub(super) fn block(block: &Block, asked: u64) -> fact::Block {
    let origin = match block.origin {
        Origin::Allocated => fact::Origin::Allocated,
        Origin::Registered => fact::Origin::Registered,
        Origin::Mapped => fact::Origin::Mapped,
        Origin::Imported | Origin::ImportedFar => fact::Origin::Imported,
    };
    let device = match block.home {
        Home::Host => None,
        Home::Device(device) => Some(device),
    };
    let (base, at, len) = (block.base as u64, block.at as u64, block.len as u64);
    let padding = if asked > 0 { len.saturating_sub(asked) } else { 0 };
    fact::Block { base, at, len, padding, device, origin }
}

/// A task of a graph.
pub(super) fn task(EngineTask { graph, task }: EngineTask) -> TaskId {
    TaskId { graph, task }
}

/// Bytes in one piece.
#[inline]
pub(super) fn piece(dst: usize, src: usize, len: usize) -> Piece {
    Piece { dst: dst as u64, src: src as u64, len: len as u64 }
}

#[inline]
fn route(route: Route, is_pageable: bool) -> fact::Route {
    let (src, dst) = match route {
        Route::HostToHost => (None, None),
        Route::HostToDevice { to } => (None, Some(to)),
        Route::DeviceToHost { from } => (Some(from), None),
        Route::DeviceToDevice { from, to } => (Some(from), Some(to)),
    };
    fact::Route { src, dst, is_pageable }
}

fn rectangle(rows: &Rows) -> fact::Rows {
    fact::Rows {
        dst: rows.dst as u64,
        dst_pitch: rows.dst_pitch as u64,
        src: rows.src as u64,
        src_pitch: rows.src_pitch as u64,
        width: rows.width as u64,
        height: rows.height as u64,
    }
}
