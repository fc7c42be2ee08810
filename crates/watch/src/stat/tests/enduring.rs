//! Facts that no program makes: nothing may panic, and nothing may grow without bound.

use super::*;
use crate::blocks::BlockMap;
use crate::fact::{Block, Captured, End, LoadedFile, Origin};

/// Numbers that look like accidents: small ones, huge ones, and some in between.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 11
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn number(&mut self) -> u64 {
        match self.below(5) {
            0 => self.below(4),
            1 => self.below(10_000),
            2 => u64::MAX - self.below(3),
            3 => Line::ADDRESS | self.below(8),
            _ => self.next(),
        }
    }

    fn device(&mut self) -> Option<u32> {
        (self.below(2) == 0).then(|| self.below(2) as u32)
    }

    fn route(&mut self) -> Route {
        Route { src: self.device(), dst: self.device(), is_pageable: self.below(2) == 0 }
    }

    fn piece(&mut self) -> Piece {
        Piece { dst: self.number(), src: self.number(), len: self.number() }
    }

    fn point(&mut self) -> Point {
        Point { stream: self.below(4) as u32, ticket: self.below(50) }
    }

    fn site(&mut self) -> CallSite {
        let (function, stack) = (self.below(6) as u16, self.below(3) as u32);
        CallSite { function, caller: self.number(), begin: self.number(), stack }
    }

    fn work(&mut self) -> Work {
        let (route, piece) = (self.route(), self.piece());
        let [a, b, c] = [self.number(), self.number(), self.number()];
        match self.below(8) {
            0 => Work::Linear { route, piece },
            1 => {
                let rows = Rows { dst: a, dst_pitch: b, src: c, src_pitch: b, width: a, height: b };
                Work::Rows { route, rows }
            }
            2 => Work::Batch { route, count: a % 3, bytes: b, pieces: vec![piece; (c % 3) as usize] },
            3 => Work::Through { device: 0, cells: [a, b], len: c % 2 },
            4 => Work::Fill { dst: a, len: b, pattern: [0; 4], device: None },
            5 => Work::Reduce { device: 0, piece, combine: 0, element: 0 },
            6 => Work::Mark,
            _ => Work::Function,
        }
    }

    fn fact(&mut self) -> Fact {
        let (time, point, site) = (self.number(), self.point(), self.site());
        match self.below(20) {
            0 => Fact::Started(Started { time, ..Started::default() }),
            1 => Fact::Functions(FUNCTIONS[..self.below(4) as usize].join("\n")),
            2 => {
                let (base, end, offset) = (self.number(), self.number(), self.number());
                Fact::Module(LoadedFile { base, end, offset, path: "/no/where".into() })
            }
            3 => Fact::Stack { number: self.below(3) as u32, frames: vec![time; 3] },
            4 => Fact::Call(Call { site, end: time, blocked: self.number(), code: self.below(2) as i32 }),
            5 => {
                let (base, at, len) = (self.below(3), self.number(), self.number());
                let block = Block { base, at, len, padding: 0, device: None, origin: Origin::Mapped };
                Fact::Known { time, site, block }
            }
            6 => Fact::Forgotten { time, site, base: self.below(3) },
            7 => Fact::Reused { time, base: self.below(3), at: self.number() },
            8 => Fact::Refused { time, stream: point.stream, site, work: self.work() },
            9 => Fact::Begun { time, point },
            10 => Fact::Resolved { time, point, piece: self.piece() },
            11 => Fact::Joined(Joined { time, point, site, how: Join::Wait }),
            12 => Fact::Contents { point, end: End::Source, hash: self.below(2) },
            13 => Fact::Lost { count: self.number() },
            14 => Fact::Captured(Captured { time, site, work: self.work(), ..Captured::default() }),
            15 | 16 => {
                let outcome = [Outcome::Done, Outcome::Failed, Outcome::Dropped][self.below(3) as usize];
                let (begin, together) = (self.number(), self.below(3) as u32);
                Fact::Passed(Passed { point, begin, end: time, outcome, together, engine: 9 })
            }
            _ => {
                let awaits = vec![Awaited::Point(point); self.below(2) as usize];
                let task = (self.below(9) == 0).then(TaskId::default);
                Fact::Submitted(SubmittedOp { time, point, site, awaits, work: self.work(), task })
            }
        }
    }
}

#[test]
fn facts_that_make_no_sense_are_survived() {
    let assertion =
        Assertion::parse("bytes * calls / time > 0 || overlap == 1 || syncs - 5 < 0").expect("right");
    for seed in 0..50 {
        let mut chance = Chance(seed);
        let mut statistics = Statistics::with_advice();
        let mut blocks = BlockMap::default();
        for _ in 0..2000 {
            let source = FactSource { process: chance.below(3) as u32, thread: chance.below(3) as u32 };
            let fact = chance.fact();
            statistics.take(source, &fact);
            blocks.take(source, &fact);
            blocks.find_all(source.process, chance.number(), chance.number());
        }
        let report = statistics.report();
        assertion.check(&report);
        for (name, statistic) in Statistic::all() {
            let value = statistic.value(&report.run, &report.total);
            assert!(value.is_finite() && value >= 0.0, "seed {seed}: {name} is {value}");
        }
        report.advice.iter().for_each(|advice| assert!(!advice.call.text().is_empty()));
    }
}
