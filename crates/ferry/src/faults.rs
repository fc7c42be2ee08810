//! Failures on request: which copies, allocations and synchronisations fail, with which code, written as a
//! text such as `copy#3=507013; alloc>1GiB=207018; p=0.01:507056`.
//!
//! A [`FaultPlan`] is what was asked for; [`FaultCounter`] counts what a process does and says what fails.

use crate::{Error, Kind, Result, parse_size};
use ferry_core::CopyFaults;
use std::{
    fmt,
    str::FromStr,
    sync::atomic::{AtomicU64, Ordering},
};

/// What can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultClass {
    /// A copy, a fill or a reduction, when it runs.
    Copy,
    /// An allocation of device or page-locked host memory.
    Alloc,
    /// A synchronise of a stream, an event or a device.
    Sync,
}

/// Which ones of a class fail.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Which {
    /// This one, counted from 1.
    Nth(u64),
    /// Those of more bytes.
    Larger(usize),
    /// Each with this probability.
    Chance(f64),
}

/// One thing that was asked for.
#[derive(Clone, Debug, PartialEq)]
struct FaultRule {
    class: FaultClass,
    which: Which,
    code: i32,
    /// As it was written.
    text: String,
}

/// All that was asked for.
///
/// ```
/// let plan: ferry::FaultPlan = "copy#3=507013; alloc>1GiB=207018".parse()?;
/// assert_eq!(plan.to_string(), "copy#3=507013; alloc>1GiB=207018");
/// assert!("copy#0=507013".parse::<ferry::FaultPlan>().is_err());
/// # Ok::<(), ferry::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultPlan(Vec<FaultRule>);

impl FaultPlan {
    /// Whether nothing is to fail.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for FaultPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules: Vec<_> = self.0.iter().map(|rule| rule.text.as_str()).collect();
        f.pad(&rules.join("; "))
    }
}

const CLASSES: [(&str, FaultClass); 3] =
    [("copy", FaultClass::Copy), ("alloc", FaultClass::Alloc), ("sync", FaultClass::Sync)];
const FORMS: &str = "copy#N=CODE, alloc#N=CODE, sync#N=CODE, alloc>SIZE=CODE or p=PROBABILITY:CODE";

impl FromStr for FaultPlan {
    type Err = Error;

    /// Refuses with the column, counted from 1, and what is allowed there.
    fn from_str(text: &str) -> Result<FaultPlan> {
        let mut rules = Vec::new();
        let mut start = 0;
        for part in text.split(';') {
            let blank = part.len() - part.trim_start().len();
            rules.push(RuleReader { text: part.trim(), at: 0, column: start + blank + 1 }.rule()?);
            start += part.len() + 1;
        }
        Ok(FaultPlan(rules))
    }
}

/// Reads one rule, from left to right.
struct RuleReader<'a> {
    text: &'a str,
    /// How many bytes of it are read.
    at: usize,
    /// The column of its first character in the whole text.
    column: usize,
}

impl<'a> RuleReader<'a> {
    fn rule(mut self) -> Result<FaultRule> {
        if self.takes("p=") {
            let chance = self.upto(':', "a probability and ':' with a code behind it")?;
            let read = chance.parse().ok().filter(|chance| (0.0..=1.0).contains(chance));
            let which = Which::Chance(read.ok_or_else(|| self.bad(chance, "a probability from 0 to 1"))?);
            return self.coded(FaultClass::Copy, which);
        }
        let class = CLASSES.iter().find(|(name, _)| self.text.starts_with(name));
        let (name, class) = *class.ok_or_else(|| self.bad("", FORMS))?;
        self.at = name.len();
        let which = if self.takes("#") {
            let number = self.upto('=', "a number and '=' with a code behind it")?;
            let read = number.parse().ok().filter(|number| *number > 0);
            Which::Nth(read.ok_or_else(|| self.bad(number, "a whole number from 1"))?)
        } else if class == FaultClass::Alloc && self.takes(">") {
            let size = self.upto('=', "a size and '=' with a code behind it")?;
            Which::Larger(parse_size(size).map_err(|_| self.bad(size, "a size as 4096, 64K or 1GiB"))?)
        } else if class == FaultClass::Alloc {
            return Err(self.bad("", "'#' and a number, or '>' and a size"));
        } else {
            return Err(self.bad("", "'#' and a number"));
        };
        self.coded(class, which)
    }

    /// Whether `word` comes next; then it is read.
    fn takes(&mut self, word: &str) -> bool {
        let is_next = self.text[self.at..].starts_with(word);
        self.at += if is_next { word.len() } else { 0 };
        is_next
    }

    /// What comes before `end`, which is read, too.
    fn upto(&mut self, end: char, wanted: &str) -> Result<&'a str> {
        let rest = &self.text[self.at..];
        let len = rest.find(end).ok_or_else(|| self.bad("", wanted))?;
        self.at += len + end.len_utf8();
        Ok(&rest[..len])
    }

    /// The rule with the code that comes last.
    fn coded(self, class: FaultClass, which: Which) -> Result<FaultRule> {
        let code = self.text[self.at..].parse().ok().filter(|code| *code > 0);
        let code =
            code.ok_or_else(|| self.bad("", "an error code as 507013, and ';' before another rule"))?;
        Ok(FaultRule { class, which, code, text: self.text.to_owned() })
    }

    /// The refusal of what was read last, or, if that is nothing, of what comes next.
    fn bad(&self, read: &str, wanted: &str) -> Error {
        // What was read last lies before the character that ended it.
        let at = if read.is_empty() { self.at } else { self.at - 1 - read.len() };
        let column = self.column + self.text[..at].chars().count();
        Kind::BadSetting.because(format!("column {column}: give {wanted}"))
    }
}

/// Counts what a process does, and says what fails.
pub struct FaultCounter {
    plan: FaultPlan,
    seed: u64,
    counts: [AtomicU64; 3],
}

impl FaultCounter {
    /// Nothing is counted yet. What is left to chance is drawn from the seed.
    pub fn new(plan: FaultPlan, seed: u64) -> FaultCounter {
        FaultCounter { plan, seed, counts: Default::default() }
    }

    /// Counts one more of this class and of so many bytes, and says what it fails with, if it is to fail.
    pub fn next(&self, class: FaultClass, bytes: usize) -> Option<Error> {
        if self.plan.is_empty() {
            return None;
        }
        let number = self.counts[class as usize].fetch_add(1, Ordering::Relaxed) + 1;
        let is_meant = |rule: &&FaultRule| rule.class == class && rule.which.is(number, bytes, self.seed);
        let rule = self.plan.0.iter().find(is_meant)?;
        let (name, _) = CLASSES[class as usize];
        let note = format!("{name} {number} failed because FERRY_FAULT asks for it: {}", rule.text);
        Some(Kind::Native(rule.code).because(note))
    }
}

impl CopyFaults for FaultCounter {
    fn next(&self) -> Option<Error> {
        self.next(FaultClass::Copy, 0)
    }
}

impl Which {
    fn is(self, number: u64, bytes: usize, seed: u64) -> bool {
        match self {
            Which::Nth(nth) => number == nth,
            Which::Larger(size) => bytes > size,
            Which::Chance(chance) => fraction(seed, number) < chance,
        }
    }
}

/// A number from 0 to below 1 that looks random (SplitMix64 at this place of the seed's sequence).
fn fraction(seed: u64, number: u64) -> f64 {
    let mut bits = seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((bits ^ (bits >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_text_is_refused_with_the_column_and_what_is_allowed_there() {
        for (text, says) in [
            ("", "column 1: give copy#N=CODE"),
            ("copy#3=507013;", "column 15: give copy#N"),
            ("move#3=1", "column 1: give copy#N"),
            ("copy", "column 5: give '#' and a number"),
            ("copy>3=1", "column 5: give '#' and a number"),
            ("alloc=1", "column 6: give '#' and a number, or '>'"),
            ("copy#0=1", "column 6: give a whole number from 1"),
            ("copy#x=1", "column 6: give a whole number"),
            ("copy#3", "column 6: give a number and '='"),
            ("copy#3=", "column 8: give an error code"),
            ("copy#3=-1", "column 8: give an error code"),
            ("copy#3=ouch", "column 8: give an error code"),
            ("sync#1=507000, copy#1=1", "column 8: give an error code as 507013, and ';'"),
            ("alloc>lots=1", "column 7: give a size"),
            ("p=2:507056", "column 3: give a probability from 0 to 1"),
            ("p=0.5", "column 3: give a probability and ':'"),
            ("p=0.5:", "column 7: give an error code"),
            ("copy#1=1; alloc>1M", "column 17: give a size and '='"),
        ] {
            let error = text.parse::<FaultPlan>().expect_err(text);
            assert_eq!(error.kind, Kind::BadSetting);
            assert!(error.note.starts_with(says), "{text:?}: {error}");
        }
    }

    fn codes(plan: &str, seed: u64, class: FaultClass, bytes: &[usize]) -> Vec<i32> {
        let counter = FaultCounter::new(plan.parse().expect(plan), seed);
        let code = |error: Error| match error.kind {
            Kind::Native(code) => code,
            other => panic!("{other:?}"),
        };
        bytes.iter().map(|bytes| counter.next(class, *bytes).map_or(0, code)).collect()
    }

    #[test]
    fn what_was_asked_for_fails_and_nothing_else() {
        let plan = "copy#3=507013; alloc>1KiB=207018;alloc#1=207001 ; sync#2=507000";
        assert_eq!(codes(plan, 0, FaultClass::Copy, &[9999; 4]), [0, 0, 507013, 0]);
        assert_eq!(codes(plan, 0, FaultClass::Alloc, &[1, 1024, 1025, 0]), [207001, 0, 207018, 0]);
        assert_eq!(codes(plan, 0, FaultClass::Sync, &[0; 3]), [0, 507000, 0]);
    }

    #[test]
    fn chance_is_the_seeds() {
        let failed = |seed| codes("p=0.1:507056", seed, FaultClass::Copy, &[0; 10_000]);
        let count = |codes: &[i32]| codes.iter().filter(|code| **code == 507056).count();
        assert_eq!(failed(1), failed(1));
        assert_ne!(failed(1), failed(2));
        assert!((800..1200).contains(&count(&failed(1))), "{}", count(&failed(1)));
        assert_eq!(count(&codes("p=0:1", 0, FaultClass::Copy, &[0; 100])), 0);
    }

    #[test]
    fn the_message_says_who_asked_for_it() {
        let counter = FaultCounter::new("copy#1=507013".parse().expect("a plan"), 0);
        let note = counter.next(FaultClass::Copy, 0).expect("the first").note.to_string();
        assert_eq!(note, "copy 1 failed because FERRY_FAULT asks for it: copy#1=507013");
    }
}
