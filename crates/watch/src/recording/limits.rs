//! Which ops of a recording a replay can do again, and what it leaves out.

use super::model::{Location, RecordedOp, RecordedWait, RecordedWork, Recording, Rect, StepAction};
use crate::fact::{Origin, Outcome};
use std::collections::BTreeMap;

/// What of a recording can be replayed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayLimits {
    /// For each op, whether a replay does its work; where not, it submits an op that does nothing.
    pub is_replayed: Vec<bool>,
    /// What a replay does otherwise than the program, and how often.
    pub remarks: BTreeMap<&'static str, u64>,
}

impl ReplayLimits {
    /// Those of a recording.
    pub fn of(recording: &Recording) -> ReplayLimits {
        let mut limits = ReplayLimits::default();
        for op in &recording.ops {
            let obstacle = obstacle(recording, op);
            limits.is_replayed.push(obstacle.is_none());
            obstacle.into_iter().chain(differences(op)).for_each(|what| limits.remark(what));
        }
        for step in &recording.steps {
            match &step.action {
                StepAction::Refuse { .. } => limits.remark("ops that were refused are left out"),
                StepAction::Allocate(number) => match recording.allocations[*number as usize].origin {
                    Some(Origin::Mapped) => limits.remark("mapped memory is replayed as an allocation"),
                    Some(Origin::Imported) => {
                        limits.remark("memory of another process is replayed as an allocation of its own");
                    }
                    _ => {}
                },
                _ => {}
            }
        }
        if recording.lost > 0 {
            *limits.remarks.entry("facts were lost while the program was recorded").or_default() +=
                recording.lost;
        }
        limits
    }

    fn remark(&mut self, what: &'static str) {
        *self.remarks.entry(what).or_default() += 1;
    }
}

/// Why the work of an op is not done again.
fn obstacle(recording: &Recording, op: &RecordedOp) -> Option<&'static str> {
    match op.result.map(|result| result.outcome) {
        Some(Outcome::Failed) => return Some("ops that failed do nothing"),
        Some(Outcome::Dropped) => return Some("ops that were dropped do nothing"),
        Some(Outcome::Done) | None => {}
    }
    match &op.work {
        RecordedWork::Through { rect: None, .. } => Some("late-bound copies that never ran do nothing"),
        work if !fits(recording, work) => Some("ops that leave their allocation do nothing"),
        work if !is_possible(recording, work) => Some("ops that no engine of ours takes do nothing"),
        _ => None,
    }
}

/// What a replay does otherwise than the op did.
fn differences(op: &RecordedOp) -> impl Iterator<Item = &'static str> {
    let work = match &op.work {
        RecordedWork::Function => Some("functions of the program are replayed as empty functions"),
        RecordedWork::Batch { count, rects, .. } if *count > rects.len() as u64 => {
            Some("batches lack pieces that were not recorded")
        }
        _ => None,
    };
    let waits = op.awaits.iter().filter_map(|awaited| match awaited {
        RecordedWait::Outside => Some("waits for notifies and other processes are left out"),
        RecordedWait::Never => Some("waits for what never came are left out"),
        RecordedWait::Point(_) | RecordedWait::Promised(_) => None,
    });
    work.into_iter().chain(waits)
}

/// Whether the work is between such memory as our engine takes. Other implementations may take more.
fn is_possible(recording: &Recording, work: &RecordedWork) -> bool {
    let memory = |at: Location| &recording.allocations[at.allocation as usize];
    let is_device = |at: Location| memory(at).device.is_some();
    match work {
        RecordedWork::Batch { rects, .. } => {
            let route = |rect: &Rect| (is_device(rect.dst), is_device(rect.src));
            let moving = rects.iter().filter(|rect| rect.bytes() > 0);
            moving.clone().zip(moving.skip(1)).all(|(one, next)| route(one) == route(next))
        }
        RecordedWork::Reduce { rect, element, combine, .. } => {
            let size = [1, 2, 4, 4, 2, 2, 4].get(usize::from(*element));
            let is_whole = size.is_some_and(|size| rect.bytes().is_multiple_of(*size));
            let is_known = |at| memory(at).origin.is_some();
            is_whole && *combine < 3 && is_known(rect.dst) && is_known(rect.src)
        }
        RecordedWork::Through { device, rect: Some(rect), .. } => {
            memory(rect.dst).device == Some(*device) && memory(rect.src).device == Some(*device)
        }
        _ => true,
    }
}

/// Whether everything that the work touches lies in its allocation.
fn fits(recording: &Recording, work: &RecordedWork) -> bool {
    let is_inside = |at: Location, span: u64| {
        let len = recording.allocations[at.allocation as usize].len;
        u64::try_from(at.offset).is_ok_and(|offset| offset.checked_add(span).is_some_and(|end| end <= len))
    };
    let fill_fits = match work {
        RecordedWork::Fill { dst, len, .. } => is_inside(*dst, *len),
        _ => true,
    };
    fill_fits
        && work.rects().iter().all(|rect| {
            let are_apart = rect.height <= 1 || rect.dst_pitch.min(rect.src_pitch) >= rect.width;
            let is_empty = rect.bytes() == 0;
            is_empty
                || are_apart
                    && is_inside(rect.dst, rect.span(rect.dst_pitch))
                    && is_inside(rect.src, rect.span(rect.src_pitch))
        })
}
