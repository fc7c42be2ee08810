//! The runs of a batch as its caller has them. What is asked of all of them at once is asked without a branch for each, and on
//! CPUs with AVX2 of four at a time.

use crate::table::Part;
use std::{iter::Zip, slice::Iter};

/// How many runs are asked about at once; among those that do not all agree the first is looked for one by one.
const AT_ONCE: usize = 64;

/// Addresses and lengths, each in an array of its own, all of one length.
#[derive(Clone, Copy)]
pub struct Runs<'a> {
    /// Destinations.
    pub dsts: &'a [usize],
    /// Sources.
    pub srcs: &'a [usize],
    /// Bytes.
    pub lens: &'a [usize],
}

impl<'a> Runs<'a> {
    /// Whether no address is 0 and every run fits its room. There are as many rooms.
    pub fn are_sound(&self, rooms: &[usize]) -> bool {
        let sound = |((dst, src), (len, room)): ((&usize, &usize), (&usize, &usize))| {
            (*dst != 0) & (*src != 0) & (len <= room)
        };
        all(|| {
            self.dsts
                .iter()
                .zip(self.srcs)
                .zip(self.lens.iter().zip(rooms))
                .fold(true, |good, run| good & sound(run))
        })
    }

    /// How many, from the first on, lie between two blocks.
    pub(super) fn inside(&self, to: &Part, from: &Part) -> usize {
        let is_inside = |((dst, src), len): ((&usize, &usize), &usize)| {
            to.holds_all(*dst, *len) & from.holds_all(*src, *len)
        };
        let mut done = 0;
        while done < self.lens.len() {
            let part = self.part(done, AT_ONCE);
            if !all(|| part.iter().fold(true, |good, run| good & is_inside(run))) {
                return done + part.iter().position(|run| !is_inside(run)).unwrap_or(0);
            }
            done += part.lens.len();
        }
        done
    }

    /// Those from `first` on, `count` at most.
    #[inline(always)]
    pub(super) fn part(&self, first: usize, count: usize) -> Runs<'a> {
        let end = self.lens.len().min(first.saturating_add(count));
        Runs { dsts: &self.dsts[first..end], srcs: &self.srcs[first..end], lens: &self.lens[first..end] }
    }

    #[inline(always)]
    pub(super) fn iter(&self) -> Zip<Zip<Iter<'a, usize>, Iter<'a, usize>>, Iter<'a, usize>> {
        self.dsts.iter().zip(self.srcs).zip(self.lens)
    }
}

/// What `ask` says, built for the best CPU that this is.
#[inline(always)]
fn all(ask: impl Fn() -> bool) -> bool {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        #[target_feature(enable = "avx2")]
        fn with_avx2(ask: impl Fn() -> bool) -> bool {
            ask()
        }
        // SAFETY: the CPU has AVX2.
        return unsafe { with_avx2(ask) };
    }
    ask()
}
