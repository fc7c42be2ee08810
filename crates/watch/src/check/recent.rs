//! What was said of the newest ops.

use std::collections::{HashMap, VecDeque};

use crate::fact::Point;

/// How many are kept.
const KEPT: usize = 1 << 14;

/// Values of the newest ops, by their points.
pub struct RecentOps<T> {
    values: HashMap<Point, T>,
    order: VecDeque<Point>,
}

impl<T> Default for RecentOps<T> {
    fn default() -> RecentOps<T> {
        RecentOps { values: HashMap::new(), order: VecDeque::new() }
    }
}

impl<T> RecentOps<T> {
    /// Adds one, in place of the oldest if there are many.
    pub fn insert(&mut self, point: Point, value: T) {
        if self.values.insert(point, value).is_none() {
            self.order.push_back(point);
        }
        if self.order.len() > KEPT
            && let Some(oldest) = self.order.pop_front()
        {
            self.values.remove(&oldest);
        }
    }

    /// How many there are.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.values.len() + self.order.len()
    }

    /// The value of an op, if it is still there.
    pub fn get(&self, point: Point) -> Option<&T> {
        self.values.get(&point)
    }
}
