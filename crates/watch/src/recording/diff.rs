//! What changed in the pattern of copies between two recordings.
//!
//! Compared are counts and bytes by what an op is, between which memory, how large, and from where it was
//! called; memory, streams, joins and graphs; and the order of ops in each stream. Times, contents,
//! addresses, and the interleaving of streams and threads are not part of the pattern.

use super::model::{Allocation, RecordedOp, RecordedWork, Recording, StepAction};
use crate::fact::{Join, Route};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// Something that is not the same in both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatternChange {
    /// There are more or fewer of something.
    Count {
        /// What it is.
        what: String,
        /// How many the first recording has, and how many bytes they have.
        before: PatternCount,
        /// How many the second has.
        after: PatternCount,
    },
    /// A stream does something else, or in another order.
    Order {
        /// Which of the streams that have work, in the order in which they were made.
        stream: usize,
        /// The first op that differs, counted from 1.
        op: usize,
        /// What it is in the first recording; empty behind the last op.
        before: String,
        /// What it is in the second.
        after: String,
    },
}

/// How many of something there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PatternCount {
    /// How many.
    pub count: u64,
    /// How many bytes they have together.
    pub bytes: u64,
}

impl fmt::Display for PatternCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PatternCount { count: 0, .. } => f.write_str("none"),
            PatternCount { count, bytes: 0 } => write!(f, "{count}"),
            PatternCount { count, bytes } => write!(f, "{count} with {bytes} bytes"),
        }
    }
}

impl fmt::Display for PatternChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PatternChange::Count { what, before, after } => write!(f, "{what}: {before} -> {after}"),
            PatternChange::Order { stream, op, before, after } => {
                let or_end =
                    |text: &str| if text.is_empty() { "the end".to_owned() } else { text.to_owned() };
                write!(f, "stream {stream}, op {op}: {} -> {}", or_end(before), or_end(after))
            }
        }
    }
}

/// Compares two recordings. Without sites, it does not matter from where something was called.
pub fn diff(before: &Recording, after: &Recording, with_sites: bool) -> Vec<PatternChange> {
    let (old, new) = (counts(before, with_sites), counts(after, with_sites));
    let names: BTreeSet<_> = old.keys().chain(new.keys()).collect();
    let count = |all: &BTreeMap<String, PatternCount>, name: &str| all.get(name).copied().unwrap_or_default();
    let changed = names.into_iter().filter_map(|name| {
        let (before, after) = (count(&old, name), count(&new, name));
        (before != after).then(|| PatternChange::Count { what: name.clone(), before, after })
    });
    let mut changes: Vec<_> = changed.collect();
    changes.extend(order_changes(before, after));
    changes
}

/// How many of everything there are, by what it is.
fn counts(recording: &Recording, with_sites: bool) -> BTreeMap<String, PatternCount> {
    let mut all = BTreeMap::new();
    let mut add = |what: String, bytes: u64| {
        let entry: &mut PatternCount = all.entry(what).or_default();
        entry.count += 1;
        entry.bytes = entry.bytes.saturating_add(bytes);
    };
    let used: BTreeSet<u32> = recording.ops.iter().map(|op| op.point.stream).collect();
    for stream in used {
        add(format!("streams of device {}", recording.streams[stream as usize].device), 0);
    }
    for allocation in recording.allocations.iter().filter(|allocation| allocation.origin.is_some()) {
        add(format!("allocations: {}", describe_memory(allocation)), allocation.len);
    }
    for step in &recording.steps {
        let site = &recording.sites[step.site as usize];
        let place = match (site.function.as_str(), site.caller.as_str()) {
            ("", "") => String::new(),
            _ if !with_sites => String::new(),
            (function, caller) => format!(" ({function} at {caller})"),
        };
        match &step.action {
            StepAction::Submit(op) => {
                let work = &recording.ops[*op].work;
                add(format!("ops: {}{place}", describe(work)), work.bytes());
            }
            StepAction::Refuse { work, .. } => add(format!("refused: {}{place}", describe(work)), 0),
            // A stream without work is not waited for.
            StepAction::Join { point, .. } if point.ticket == 0 => {}
            StepAction::Join { how: Join::Wait, .. } => add(format!("waits of the host{place}"), 0),
            StepAction::Join { how: Join::Query, .. } => add(format!("queries that answered yes{place}"), 0),
            StepAction::EndCapture { .. } => add(format!("captures{place}"), 0),
            StepAction::Launch { .. } => add(format!("launches of graphs{place}"), 0),
            _ => {}
        }
    }
    all
}

/// The first difference of each stream.
fn order_changes(before: &Recording, after: &Recording) -> impl Iterator<Item = PatternChange> {
    let (old, new) = (sequences(before), sequences(after));
    let count = old.len().max(new.len());
    (0..count).filter_map(move |stream| {
        let (one, other) = (old.get(stream), new.get(stream));
        let longest = one.map_or(0, Vec::len).max(other.map_or(0, Vec::len));
        let at = |all: Option<&Vec<String>>, op: usize| {
            all.and_then(|all| all.get(op)).cloned().unwrap_or_default()
        };
        let op = (0..longest).find(|op| at(one, *op) != at(other, *op))?;
        let (before, after) = (at(one, op), at(other, op));
        Some(PatternChange::Order { stream, op: op + 1, before, after })
    })
}

/// What each stream that has work does, in order; the streams in the order in which they were made.
fn sequences(recording: &Recording) -> Vec<Vec<String>> {
    let made = recording.steps.iter().filter_map(|step| match step.action {
        StepAction::MakeStream(stream) => Some(stream as usize),
        _ => None,
    });
    let mut ops: Vec<&RecordedOp> = recording.ops.iter().collect();
    ops.sort_by_key(|op| op.point);
    let mut sequences = vec![Vec::new(); recording.streams.len()];
    for op in ops {
        let waits = match op.awaits.len() {
            0 => String::new(),
            count => format!(", behind {count} others"),
        };
        let text = format!("{} of {} bytes{waits}", describe(&op.work), op.work.bytes());
        sequences[op.point.stream as usize].push(text);
    }
    made.map(|stream| std::mem::take(&mut sequences[stream])).filter(|ops| !ops.is_empty()).collect()
}

/// `linear copy, host to device, 64 KiB - 1 MiB`.
fn describe(work: &RecordedWork) -> String {
    let size = match work.bytes() {
        0 => "",
        1..4_096 => ", below 4 KiB",
        4_096..65_536 => ", 4 KiB - 64 KiB",
        65_536..1_048_576 => ", 64 KiB - 1 MiB",
        1_048_576..16_777_216 => ", 1 MiB - 16 MiB",
        _ => ", 16 MiB and more",
    };
    match work.route() {
        Some(route) => format!("{} copy, {}{size}", work.kind(), route),
        None => format!("{}{size}", work.kind()),
    }
}

fn describe_memory(memory: &Allocation) -> String {
    let home =
        memory.device.map_or("page-locked host memory".to_owned(), |device| format!("device {device}"));
    let origin = memory.origin.map_or(String::new(), |origin| format!("{origin:?}").to_lowercase());
    format!("{home}, {origin}")
}

impl fmt::Display for Route {
    /// `host to device`, `device to host, pageable`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.src, self.dst) {
            (None, None) => "host to host",
            (None, Some(_)) => "host to device",
            (Some(_), None) => "device to host",
            (Some(src), Some(dst)) if src == dst => "within a device",
            (Some(_), Some(_)) => "between devices",
        })?;
        f.write_str(if self.is_pageable { ", pageable" } else { "" })
    }
}
