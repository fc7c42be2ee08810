//! The copies of a recording as cases: `ferry bench --recording FILE`.
//!
//! For each route there are two cases: copies that the program asked for one by one, and the pieces of its
//! batches and rows. A case has all of them, in the recorded order and with the recorded sizes and
//! alignments, each at a place of its own, since every byte is compared in the end. Peers do the same pieces.

use std::collections::BTreeMap;
use std::path::Path;

use ferry_abi::{Error, Result};
use ferry_watch::fact::Route as RecordedRoute;
use ferry_watch::recording::{RecordedWork, Recording, read};

use crate::cases::Case;
use crate::copier::Submission;
use crate::peers::CopySpec;
use crate::route::{D2D, D2H, D2H_PAGEABLE, H2D, H2D_PAGEABLE, P2P, Route};
use crate::shape::{Segment, Shape};
use crate::work::Workload;

/// Copies in a case; what a recording has more is left out.
const MOST_COPIES: usize = 100_000;
/// Places keep their distance from a multiple of this.
const ALIGNMENT: usize = 4096;

/// Copies of one route that a recording has.
pub struct RecordedCopies {
    /// Between which sorts of memory they go.
    pub route: Route,
    /// Whether they were the pieces of larger ops.
    pub are_pieces: bool,
    pieces: Vec<Segment>,
    room: usize,
    left_out: usize,
}

/// The copies of a recording, of each kind not more than fit into `room` bytes on each side.
pub fn load(file: &Path, room: usize) -> Result<Vec<RecordedCopies>> {
    let unreadable = |why: String| Error::Setup(format!("{}: {why}", file.display()));
    let bytes = std::fs::read(file).map_err(|error| unreadable(error.to_string()))?;
    let loaded = read(&bytes).map_err(unreadable)?;
    if let Some(damage) = loaded.damage {
        return Err(unreadable(damage));
    }
    let copies = collect(&loaded.recording, room);
    if copies.is_empty() {
        return Err(unreadable("the recording has no copies that can be measured".to_owned()));
    }
    Ok(copies)
}

/// The cases for them.
pub fn cases(copies: &[RecordedCopies]) -> Vec<Case> {
    let case = |(index, copies): (usize, &RecordedCopies)| {
        let (route, are_pieces) = (copies.route, copies.are_pieces);
        let form = if are_pieces { "pieces" } else { "copies" };
        let name = format!("recording/{}/{form}", route.name);
        Case { name, work: Workload::Recorded { route, are_pieces, index } }
    };
    copies.iter().enumerate().map(case).collect()
}

fn collect(recording: &Recording, room: usize) -> Vec<RecordedCopies> {
    let mut all: BTreeMap<(&'static str, bool), RecordedCopies> = BTreeMap::new();
    for op in &recording.ops {
        let Some(route) = op.work.route().and_then(known_route) else { continue };
        let are_pieces = !matches!(op.work, RecordedWork::Linear { .. } | RecordedWork::Through { .. });
        let group = all.entry((route.name, are_pieces)).or_insert_with(|| RecordedCopies {
            route,
            are_pieces,
            pieces: Vec::new(),
            room: 0,
            left_out: 0,
        });
        for rect in op.work.rects() {
            for row in 0..rect.height {
                let at = |offset: i64, pitch: u64| (offset as u64).wrapping_add(pitch.wrapping_mul(row));
                let (dst, src) = (at(rect.dst.offset, rect.dst_pitch), at(rect.src.offset, rect.src_pitch));
                group.add(dst, src, rect.width, room);
            }
        }
    }
    all.into_values().filter(|group| !group.pieces.is_empty()).collect()
}

/// The route of a case, where there is such a one.
fn known_route(route: RecordedRoute) -> Option<Route> {
    Some(match (route.src, route.dst, route.is_pageable) {
        (None, Some(_), false) => H2D,
        (None, Some(_), true) => H2D_PAGEABLE,
        (Some(_), None, false) => D2H,
        (Some(_), None, true) => D2H_PAGEABLE,
        (Some(src), Some(dst), _) if src == dst => D2D,
        (Some(_), Some(_), _) => P2P,
        (None, None, _) => return None,
    })
}

impl RecordedCopies {
    fn add(&mut self, dst: u64, src: u64, len: u64, room: usize) {
        let Some(len) = usize::try_from(len).ok().filter(|len| *len > 0) else { return };
        let place = |offset: u64| {
            let begin = self.room.next_multiple_of(ALIGNMENT);
            begin.checked_add((offset % ALIGNMENT as u64) as usize)
        };
        let (Some(dst), Some(src)) = (place(dst), place(src)) else { return };
        match dst.max(src).checked_add(len).filter(|end| *end <= room && self.pieces.len() < MOST_COPIES) {
            Some(end) => {
                self.room = end;
                self.pieces.push(Segment { dst, src, len });
            }
            None => self.left_out += 1,
        }
    }

    /// The copy that every contender does. Batches within a device are refused, as documented.
    pub fn spec(&self) -> CopySpec {
        let mut spec = CopySpec::new(self.route, Shape::Segments(self.pieces.clone()), self.room);
        let is_batch = self.are_pieces && self.route.crosses();
        spec.submission = if is_batch { Submission::Together } else { Submission::Each };
        spec
    }

    /// What a reader should know.
    pub fn note(&self) -> Option<String> {
        let (count, left_out) = (self.pieces.len(), self.left_out);
        (left_out > 0).then(|| format!("the first {count} of {} that were recorded", count + left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferry_watch::recording::{Location, RecordedOp, Rect};

    fn recording(works: Vec<RecordedWork>) -> Recording {
        let ops = works.into_iter().map(|work| RecordedOp { work, ..RecordedOp::default() }).collect();
        let mut recording = Recording::default();
        recording.ops = ops;
        recording
    }

    #[test]
    fn copies_keep_order_size_and_alignment_and_do_not_overlap() {
        let up = RecordedRoute { src: None, dst: Some(0), is_pageable: false };
        let at = |offset| Location { allocation: 0, offset };
        let linear =
            |dst, src, len| RecordedWork::Linear { route: up, rect: Rect::linear(at(dst), at(src), len) };
        let rect = Rect { dst: at(10), dst_pitch: 5000, src: at(0), src_pitch: 64, width: 64, height: 3 };
        let works = vec![
            linear(100, 4096, 300),
            RecordedWork::Rows { route: up, rect },
            linear(100, 5, 9000),
            RecordedWork::Mark,
        ];
        let all = collect(&recording(works), 1 << 20);
        assert_eq!(all.len(), 2, "copies and pieces");
        assert_eq!(
            all[0].pieces,
            [Segment { dst: 100, src: 0, len: 300 }, Segment { dst: 4196, src: 4101, len: 9000 }]
        );
        assert_eq!(all[1].pieces.iter().map(|piece| piece.len).collect::<Vec<_>>(), [64; 3]);
        for group in &all {
            for pair in group.pieces.windows(2) {
                assert!(pair[0].dst + pair[0].len <= pair[1].dst && pair[0].src + pair[0].len <= pair[1].src);
            }
            assert!(group.pieces.iter().all(|piece| piece.dst.max(piece.src) + piece.len <= group.room));
        }
        let names: Vec<_> = cases(&all).into_iter().map(|case| case.name).collect();
        assert_eq!(names, ["recording/h2d/copies", "recording/h2d/pieces"]);
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let up = RecordedRoute { src: None, dst: Some(0), is_pageable: true };
        let rect = Rect::linear(Location::default(), Location::default(), 3000);
        let all = collect(&recording(vec![RecordedWork::Linear { route: up, rect }; 5]), 8192);
        assert_eq!((all[0].pieces.len(), all[0].left_out, all[0].route.name), (2, 3, "h2d-pageable"));
        assert_eq!(all[0].note().as_deref(), Some("the first 2 of 5 that were recorded"));
    }
}
