//! How far the host has joined each stream.
//!
//! A stream is ordered, so what is joined of it is a frontier: one ticket, up to which everything is joined.
//! Which points a join takes in besides its own is known elsewhere: by `order`, which has a clock for each
//! op, and by `joins`, which follows what ops await.

use std::collections::{HashMap, VecDeque};

use super::ended::EndedStreams;
use crate::fact::{Nanos, Point};

/// For each stream, the newest op that the host has joined.
#[derive(Debug, Default)]
pub struct Frontiers {
    newest: HashMap<u32, u64>,
    /// Streams that are gone, of which everything was joined.
    ended: EndedStreams,
}

impl Frontiers {
    /// Whether the host has joined the point. A stream without work, whose point has the ticket 0, is joined.
    pub fn has(&self, point: Point) -> bool {
        point.ticket <= self.newest(point.stream)
    }

    /// The newest joined op of a stream; 0 without one.
    pub fn newest(&self, stream: u32) -> u64 {
        let ended = || if self.ended.contains(stream) { u64::MAX } else { 0 };
        self.newest.get(&stream).copied().unwrap_or_else(ended)
    }

    /// The host joins a point. Whether it had not yet.
    pub fn raise(&mut self, point: Point) -> bool {
        let is_new = !self.has(point);
        if is_new {
            self.newest.insert(point.stream, point.ticket);
        }
        is_new
    }

    /// The stream is gone, and all of its ops are joined.
    pub fn end(&mut self, stream: u32) {
        self.newest.remove(&stream);
        self.ended.insert(stream);
    }

    /// How much is kept.
    #[cfg(test)]
    pub fn kept(&self) -> usize {
        self.newest.len() + self.ended.len()
    }
}

/// How many joins of a stream are kept.
const KEPT_JOINS: usize = 8;

/// What the host has joined, and by which of its joins.
#[derive(Default)]
pub struct JoinedTickets {
    frontiers: Frontiers,
    /// How far the last joins of a stream went that went further than those before, and their numbers.
    joins: HashMap<u32, VecDeque<(u64, u64)>>,
}

impl JoinedTickets {
    /// Whether the host has joined the point.
    pub fn has(&self, point: Point) -> bool {
        self.frontiers.has(point)
    }

    /// The newest joined op of a stream; 0 without one.
    pub fn newest(&self, stream: u32) -> u64 {
        self.frontiers.newest(stream)
    }

    /// The number of the join by which the host knows the point, as far as that is kept.
    pub fn number(&self, point: Point) -> Option<u64> {
        let joins = self.joins.get(&point.stream)?;
        joins.iter().find(|(ticket, _)| point.ticket <= *ticket).map(|(_, join)| *join)
    }

    /// The host joins a point, by the join of this number.
    pub fn raise(&mut self, point: Point, join: u64) {
        if self.frontiers.raise(point) {
            let joins = self.joins.entry(point.stream).or_default();
            joins.push_back((point.ticket, join));
            if joins.len() > KEPT_JOINS {
                joins.pop_front();
            }
        }
    }

    /// The stream is gone, and all of its ops are joined.
    pub fn end(&mut self, stream: u32) {
        self.frontiers.end(stream);
        self.joins.remove(&stream);
    }

    /// How much is kept.
    #[cfg(test)]
    pub fn kept(&self) -> usize {
        self.frontiers.kept() + self.joins.len()
    }
}

/// What the host knew at a moment: it knows ever more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostView {
    /// How often it had joined something.
    pub join: u64,
    /// Until when it had waited for other processes.
    pub outside: Nanos,
}

impl HostView {
    /// What both knew together.
    pub fn max(self, other: HostView) -> HostView {
        HostView { join: self.join.max(other.join), outside: self.outside.max(other.outside) }
    }
}
