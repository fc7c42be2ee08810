//! What a contender needs to do the copies of a case, and how a sample of them is timed.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use ferry_abi::{Error, Result};

use crate::bytes::{Bytes, FirstBytes};
use crate::sampling::Contender;
use crate::shape::{self, Shape};

/// Does the whole copy of a case, asynchronously where it can.
pub trait Copier {
    /// The name in tables and reports.
    fn name(&self) -> &'static str;
    /// Submits the copy.
    fn submit(&mut self) -> Result<()>;
    /// Waits for all that was submitted.
    fn wait(&mut self) -> Result<()>;
    /// The memory that is written: one target for each way.
    fn targets(&self) -> Vec<&dyn Bytes>;

    /// Records an event behind all that was submitted and waits for it.
    fn wait_by_event(&mut self) -> Result<()> {
        self.wait()
    }

    /// Submits the copy, and the copy once more to a second queue, which waits until the first is done.
    fn submit_joined(&mut self) -> Result<()> {
        Err(Error::NotHere(format!("{} has no second queue here", self.name())))
    }

    /// Submits the copy, a function of the host behind it, and the copy once more behind that.
    fn submit_around_function(&mut self) -> Result<()> {
        Err(Error::NotHere(format!("{} calls no functions here", self.name())))
    }

    /// Waits for what [`submit_joined`](Self::submit_joined) has submitted.
    fn wait_joined(&mut self) -> Result<()> {
        self.wait()
    }

    /// Submits so many long copies in front of the copy. Answers how long the copy takes from when the first
    /// of it begins until all of it is done, and whether all of it was submitted before the long copies were
    /// done. Where a copier cannot tell these apart, the submission counts.
    fn time_behind(&mut self, _long_copies: usize) -> Result<(Duration, bool)> {
        let begin = Instant::now();
        self.submit()?;
        self.wait()?;
        Ok((begin.elapsed(), true))
    }

    /// How many calls one submission takes.
    fn calls(&self) -> usize {
        1
    }

    /// Runs before a sample, outside of what is timed.
    fn enter(&mut self) -> Result<()> {
        Ok(())
    }

    /// Runs after a sample, outside of what is timed.
    fn leave(&mut self) -> Result<()> {
        Ok(())
    }
}

/// How many long copies are submitted in front of a copy so that all of it is submitted before it begins;
/// doubled until they are enough.
pub struct LongCopies {
    copies: usize,
}

impl LongCopies {
    /// A driver may block the caller until what is in front is done, so that no number of them is enough.
    const LIMIT: usize = 128;

    /// Begins with one.
    pub fn new() -> LongCopies {
        LongCopies { copies: 1 }
    }

    /// Takes a sample: `take` gets the number of long copies, and answers the time and whether they were
    /// enough.
    pub fn sample(&mut self, mut take: impl FnMut(usize) -> Result<(Duration, bool)>) -> Result<Duration> {
        loop {
            let (time, is_enough) = take(self.copies)?;
            if is_enough || self.copies >= LongCopies::LIMIT {
                return Ok(time);
            }
            self.copies *= 2;
        }
    }
}

/// How the segments of a copy are submitted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Submission {
    /// In one call for all of them.
    Together,
    /// In a call for each.
    Each,
    /// In a call for each, which names a descriptor in device memory.
    Descriptors,
    /// In a call for each, which is captured once; what is submitted is the graph.
    Graph,
    /// In a call for each, to two queues in turn.
    InTurn,
    /// In a call for each, which returns when the copy is done.
    Synchronous,
}

/// What a sample does and what of it is timed.
#[derive(Clone, Copy)]
pub enum Timing {
    /// In each of `rounds`, `queued` copies are submitted and then waited for: the time of one copy.
    Whole { rounds: usize, queued: usize },
    /// `queued` copies are submitted: the time of one call. The wait is not timed.
    Submit { queued: usize },
    /// One copy and the wait for it, after `QUIET` in which nothing happened.
    AfterQuiet,
    /// In each of `rounds`, a copy, an event behind it and the wait for the event: the time of one round.
    Event { rounds: usize },
    /// From when the copy begins until it is done, between two events of the device.
    Alone,
    /// In each of `rounds`, a copy, and another of a second queue that waits for the first: one round.
    Join { rounds: usize },
    /// In each of `rounds`, a copy, a function of the host, a copy, and the wait for all: one round.
    HostFunction { rounds: usize },
}

/// Copies of a sample that are submitted one after another and waited for together, where a call is what is
/// timed.
pub const CALLS_PER_SAMPLE: usize = 2_000;
/// How long nothing happens before a sample of [`Timing::AfterQuiet`].
const QUIET: Duration = Duration::from_millis(10);

impl Timing {
    /// One copy and a wait; small ones are repeated until a sample has moved `least` bytes, or the clock
    /// would be most of what it shows.
    pub fn usual(shape: &Shape, least: usize) -> Timing {
        Timing::Whole { rounds: (least / shape.bytes().max(1)).clamp(1, 256), queued: 1 }
    }

    /// Whether a second queue or a function takes part, which not every peer has here.
    pub fn is_a_chain(self) -> bool {
        matches!(self, Timing::Join { .. } | Timing::HostFunction { .. })
    }

    fn time(self, copier: &mut impl Copier, long_copies: &mut LongCopies) -> Result<Duration> {
        if matches!(self, Timing::AfterQuiet) {
            thread::sleep(QUIET);
        }
        let begin = Instant::now();
        match self {
            Timing::Whole { rounds, queued } => {
                for _ in 0..rounds {
                    (0..queued).try_for_each(|_| copier.submit())?;
                    copier.wait()?;
                }
                Ok(begin.elapsed() / (rounds * queued) as u32)
            }
            Timing::Submit { queued } => {
                (0..queued).try_for_each(|_| copier.submit())?;
                let time = begin.elapsed();
                copier.wait()?;
                Ok(time / (queued * copier.calls()) as u32)
            }
            Timing::AfterQuiet => {
                copier.submit()?;
                copier.wait()?;
                Ok(begin.elapsed())
            }
            Timing::Event { rounds } => {
                for _ in 0..rounds {
                    copier.submit()?;
                    copier.wait_by_event()?;
                }
                Ok(begin.elapsed() / rounds as u32)
            }
            Timing::Alone => long_copies.sample(|count| copier.time_behind(count)),
            Timing::Join { rounds } => {
                for _ in 0..rounds {
                    copier.submit_joined()?;
                    copier.wait_joined()?;
                }
                Ok(begin.elapsed() / rounds as u32)
            }
            Timing::HostFunction { rounds } => {
                for _ in 0..rounds {
                    copier.submit_around_function()?;
                    copier.wait()?;
                }
                Ok(begin.elapsed() / rounds as u32)
            }
        }
    }
}

/// A copier whose copies are timed and checked.
pub struct TimedCopier<C> {
    copier: C,
    shape: Arc<Shape>,
    timing: Timing,
    /// Bytes of a target that are compared.
    room: usize,
    long_copies: LongCopies,
}

impl<C: Copier> TimedCopier<C> {
    /// `copier` does the copies of `shape`, which lies in the first `room` bytes of every target.
    pub fn new(copier: C, shape: Arc<Shape>, timing: Timing, room: usize) -> TimedCopier<C> {
        TimedCopier { copier, shape, timing, room, long_copies: LongCopies::new() }
    }

    /// Does `work` with what is compared of every target.
    fn each_target<T>(&self, work: impl Fn(&dyn Bytes) -> Result<T>) -> Result<Vec<T>> {
        let targets = self.copier.targets().into_iter();
        targets.map(|target| work(&FirstBytes::new(target, self.room))).collect()
    }
}

impl<C: Copier> Contender for TimedCopier<C> {
    fn name(&self) -> &'static str {
        self.copier.name()
    }

    fn sample(&mut self) -> Result<Duration> {
        self.copier.enter()?;
        let time = self.timing.time(&mut self.copier, &mut self.long_copies);
        self.copier.leave()?;
        time
    }

    fn spoil(&mut self) -> Result<()> {
        self.each_target(shape::spoil).map(drop)
    }

    fn check(&mut self) -> Result<usize> {
        let compared = self.each_target(|target| self.shape.check(self.copier.name(), target))?;
        Ok(compared.iter().sum())
    }
}

#[cfg(test)]
mod tests {
    use super::{Bytes, Copier, Duration, LongCopies, Shape, Timing};
    use ferry_abi::Result;

    /// Writes down what is asked of it.
    #[derive(Default)]
    struct Fake(String);

    impl Copier for Fake {
        fn name(&self) -> &'static str {
            "fake"
        }

        fn submit(&mut self) -> Result<()> {
            self.0.push('s');
            Ok(())
        }

        fn wait(&mut self) -> Result<()> {
            self.0.push('w');
            Ok(())
        }

        fn wait_by_event(&mut self) -> Result<()> {
            self.0.push('e');
            Ok(())
        }

        fn submit_joined(&mut self) -> Result<()> {
            self.0.push('j');
            Ok(())
        }

        fn submit_around_function(&mut self) -> Result<()> {
            self.0.push('f');
            Ok(())
        }

        fn targets(&self) -> Vec<&dyn Bytes> {
            unreachable!("a clock looks at no bytes")
        }
    }

    #[test]
    fn every_clock_ends_with_a_wait_for_all_that_was_handed_over() {
        for (clock, want) in [
            (Timing::Whole { rounds: 3, queued: 1 }, "swswsw"),
            (Timing::Whole { rounds: 1, queued: 3 }, "sssw"),
            (Timing::Whole { rounds: 2, queued: 2 }, "sswssw"),
            (Timing::Submit { queued: 3 }, "sssw"),
            (Timing::AfterQuiet, "sw"),
            (Timing::Event { rounds: 2 }, "sese"),
            (Timing::Alone, "sw"),
            (Timing::Join { rounds: 2 }, "jwjw"),
            (Timing::HostFunction { rounds: 2 }, "fwfw"),
        ] {
            let mut fake = Fake::default();
            clock.time(&mut fake, &mut LongCopies::new()).unwrap();
            assert_eq!(fake.0, want);
        }
    }

    #[test]
    fn more_is_put_in_front_until_it_is_enough_and_that_is_remembered() {
        let mut front = LongCopies::new();
        let mut tried = Vec::new();
        for enough in [6, 3, 9, 1000] {
            let time = front.sample(|copies| {
                tried.push(copies);
                Ok((Duration::from_micros(copies as u64), copies >= enough))
            });
            assert_eq!(time.unwrap(), Duration::from_micros(tried[tried.len() - 1] as u64));
        }
        assert_eq!(tried, [1, 2, 4, 8, 8, 8, 16, 16, 32, 64, 128]);
    }

    #[test]
    fn small_copies_are_repeated_and_large_ones_are_not() {
        for (len, want) in [(1, 256), (64 << 10, 64), (4 << 20, 1), (1 << 30, 1)] {
            let Timing::Whole { rounds, queued: 1 } = Timing::usual(&Shape::line(len), 4 << 20) else {
                panic!("{len}")
            };
            assert_eq!(rounds, want, "{len} bytes");
        }
    }
}
