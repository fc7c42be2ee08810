//! Somebody who copies whatever a case copies, and the clocks that a sample is taken with.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use ferry_abi::Result;

use crate::block::Bytes;
use crate::shape::{self, Shape};
use crate::trial::Contender;

/// One who does the whole copy of a case whenever told to.
pub trait Lane {
    /// What the tables call it.
    fn name(&self) -> &'static str;
    /// Hands the copy over.
    fn submit(&mut self) -> Result<()>;
    /// Waits for all that was handed over.
    fn wait(&mut self) -> Result<()>;
    /// Where the bytes go.
    fn target(&self) -> &dyn Bytes;

    /// Puts an event behind all that was handed over and waits for that.
    fn wait_by_event(&mut self) -> Result<()> {
        self.wait()
    }

    /// How long the copy takes from when the first of it begins until all of it is done, where that can be
    /// told apart from the handing over.
    fn time_alone(&mut self) -> Result<Duration> {
        let begin = Instant::now();
        self.submit()?;
        self.wait()?;
        Ok(begin.elapsed())
    }

    /// Calls that a handing over takes.
    fn calls(&self) -> usize {
        1
    }

    /// Before the clock starts, and after it has stopped.
    fn enter(&mut self) -> Result<()> {
        Ok(())
    }

    /// See `enter`.
    fn leave(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Something long is put before a copy, so that all of it is handed over before the first of it begins: as
/// often as that takes.
pub struct Front {
    copies: usize,
}

impl Front {
    /// A driver may make the caller wait until what is in front is done, however long that is.
    const MOST: usize = 128;

    /// Nothing is known yet.
    pub fn new() -> Front {
        Front { copies: 1 }
    }

    /// Takes a sample: `go` is told how many long copies to put in front, and answers the time and whether
    /// they were enough.
    pub fn sample(&mut self, mut go: impl FnMut(usize) -> Result<(Duration, bool)>) -> Result<Duration> {
        loop {
            let (time, is_enough) = go(self.copies)?;
            if is_enough || self.copies >= Front::MOST {
                return Ok(time);
            }
            self.copies *= 2;
        }
    }
}

/// What a sample does and what of it is timed.
#[derive(Clone, Copy)]
pub enum Clock {
    /// So many copies are handed over and then waited for, in so many rounds: the time of one.
    Whole { rounds: usize, queued: usize },
    /// So many are handed over: the time of one call. The wait comes after the clock has stopped.
    Submit { queued: usize },
    /// One copy and the wait for it, when nothing has happened for a while.
    AfterQuiet,
    /// A copy, an event behind it and the wait for that, in so many rounds: the time of one.
    Event { rounds: usize },
    /// From when the copy begins until it is done, as the device sees it.
    Alone,
}

/// How long nothing happens.
const QUIET: Duration = Duration::from_millis(10);

impl Clock {
    /// One copy and a wait; small ones are repeated until a sample has moved `least` bytes, or the clock
    /// would be most of what it shows.
    pub fn usual(shape: &Shape, least: usize) -> Clock {
        Clock::Whole { rounds: (least / shape.bytes().max(1)).clamp(1, 256), queued: 1 }
    }

    fn time(self, lane: &mut impl Lane) -> Result<Duration> {
        if matches!(self, Clock::AfterQuiet) {
            thread::sleep(QUIET);
        }
        let begin = Instant::now();
        match self {
            Clock::Whole { rounds, queued } => {
                for _ in 0..rounds {
                    (0..queued).try_for_each(|_| lane.submit())?;
                    lane.wait()?;
                }
                Ok(begin.elapsed() / (rounds * queued) as u32)
            }
            Clock::Submit { queued } => {
                (0..queued).try_for_each(|_| lane.submit())?;
                let time = begin.elapsed();
                lane.wait()?;
                Ok(time / (queued * lane.calls()) as u32)
            }
            Clock::AfterQuiet => {
                lane.submit()?;
                lane.wait()?;
                Ok(begin.elapsed())
            }
            Clock::Event { rounds } => {
                for _ in 0..rounds {
                    lane.submit()?;
                    lane.wait_by_event()?;
                }
                Ok(begin.elapsed() / rounds as u32)
            }
            Clock::Alone => lane.time_alone(),
        }
    }
}

/// A lane with a clock.
pub struct Timed<L> {
    pub lane: L,
    pub shape: Arc<Shape>,
    pub clock: Clock,
}

impl<L: Lane> Contender for Timed<L> {
    fn name(&self) -> &'static str {
        self.lane.name()
    }

    fn sample(&mut self) -> Result<Duration> {
        self.lane.enter()?;
        let time = self.clock.time(&mut self.lane);
        self.lane.leave()?;
        time
    }

    fn spoil(&mut self) -> Result<()> {
        shape::spoil(self.lane.target())
    }

    fn check(&mut self) -> Result<usize> {
        self.shape.check(self.lane.name(), self.lane.target())
    }
}

#[cfg(test)]
mod tests {
    use super::{Bytes, Clock, Duration, Front, Lane, Shape};
    use ferry_abi::Result;

    /// Writes down what is asked of it.
    #[derive(Default)]
    struct Fake(String);

    impl Lane for Fake {
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

        fn target(&self) -> &dyn Bytes {
            unreachable!("a clock looks at no bytes")
        }
    }

    #[test]
    fn every_clock_ends_with_a_wait_for_all_that_was_handed_over() {
        for (clock, want) in [
            (Clock::Whole { rounds: 3, queued: 1 }, "swswsw"),
            (Clock::Whole { rounds: 1, queued: 3 }, "sssw"),
            (Clock::Whole { rounds: 2, queued: 2 }, "sswssw"),
            (Clock::Submit { queued: 3 }, "sssw"),
            (Clock::AfterQuiet, "sw"),
            (Clock::Event { rounds: 2 }, "sese"),
            (Clock::Alone, "sw"),
        ] {
            let mut fake = Fake::default();
            clock.time(&mut fake).unwrap();
            assert_eq!(fake.0, want);
        }
    }

    #[test]
    fn more_is_put_in_front_until_it_is_enough_and_that_is_remembered() {
        let mut front = Front::new();
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
            let Clock::Whole { rounds, queued: 1 } = Clock::usual(&Shape::line(len), 4 << 20) else {
                panic!("{len}")
            };
            assert_eq!(rounds, want, "{len} bytes");
        }
    }
}
