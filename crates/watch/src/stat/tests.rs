//! Programs that are made of facts by hand, and what is counted of them.

mod advising;
mod asserting;
mod counting;
mod documenting;
mod enduring;

use super::*;
use crate::fact::{Awaited, Line, Route, Rows, Started, TaskId};

/// Functions of the programs, in the order of their indices.
const FUNCTIONS: [&str; 4] = ["aclrtMemcpyAsync", "aclrtMemcpy", "aclrtSynchronizeStream", "aclrtFree"];
const ASYNC: u16 = 1;
const BLOCKING: u16 = 2;
const SYNC: u16 = 3;
const FREE: u16 = 4;

const MAIN: FactSource = FactSource { process: 7, thread: 70 };

const PINNED_H2D: Route = Route { src: None, dst: Some(0), is_pageable: false };
const PAGEABLE_H2D: Route = Route { src: None, dst: Some(0), is_pageable: true };
const PINNED_D2H: Route = Route { src: Some(0), dst: None, is_pageable: false };
const WITHIN: Route = Route { src: Some(0), dst: Some(0), is_pageable: false };

/// A program that is being watched.
struct Program {
    statistics: Statistics,
    source: FactSource,
    now: Nanos,
    tickets: std::collections::HashMap<u32, u64>,
}

impl Program {
    fn start(mut statistics: Statistics) -> Program {
        statistics.take(MAIN, &Fact::Started(Started { time: 1000, ..Started::default() }));
        statistics.take(MAIN, &Fact::Functions(FUNCTIONS.join("\n")));
        Program { statistics, source: MAIN, now: 1000, tickets: Default::default() }
    }

    fn take(&mut self, fact: Fact) {
        self.statistics.take(self.source, &fact);
    }

    /// A call of `function` on that line, which begins now.
    fn site(&mut self, function: u16, line: u32) -> CallSite {
        let known = Line { number: line, line, file: "train.py".into(), function: "load".into() };
        self.take(Fact::Line(known));
        self.now += 10;
        CallSite { function, caller: Line::ADDRESS | u64::from(line), begin: self.now, stack: 0 }
    }

    /// Submits to a stream; the call has taken 5 ns then.
    fn submit(&mut self, site: CallSite, stream: u32, work: Work) -> Point {
        self.now = self.now.max(site.begin) + 5;
        let ticket = self.tickets.entry(stream).or_default();
        *ticket += 1;
        let point = Point { stream, ticket: *ticket };
        let op = SubmittedOp { time: self.now, point, site, work, ..SubmittedOp::default() };
        self.take(Fact::Submitted(op));
        point
    }

    fn pass(&mut self, point: Point, begin: Nanos, end: Nanos) {
        self.take(Fact::Passed(Passed { point, begin, end, together: 1, ..Passed::default() }));
    }

    /// Submits a copy that runs for 100 ns from now on.
    fn copy(&mut self, line: u32, stream: u32, work: Work) -> Point {
        let site = self.site(ASYNC, line);
        let point = self.submit(site, stream, work);
        let begin = self.now;
        self.now += 100;
        self.pass(point, begin, self.now);
        point
    }

    /// Waits for a point in a call of `function` and is blocked for 30 of 50 ns.
    fn wait(&mut self, function: u16, line: u32, point: Point) {
        let site = self.site(function, line);
        self.finish(site, point, 30);
    }

    /// The rest of a call that waits.
    fn finish(&mut self, site: CallSite, point: Point, blocked: u64) {
        self.now += 40;
        self.take(Fact::Joined(Joined { time: self.now, point, site, how: Join::Wait }));
        self.now += 10;
        self.take(Fact::Call(Call { site, end: self.now, blocked, code: 0 }));
    }

    fn report(mut self) -> Report {
        self.statistics.report()
    }
}

fn linear(route: Route, dst: u64, src: u64, len: u64) -> Work {
    Work::Linear { route, piece: Piece { dst, src, len } }
}

/// The value of a statistic.
fn value(report: &Report, name: &str) -> f64 {
    let statistic = Statistic::named(name).unwrap_or_else(|| panic!("{name}"));
    statistic.value(&report.run, &report.total)
}

/// Compares statistics with what they should be.
fn expect(report: &Report, wants: &[(&str, f64)]) {
    for (name, want) in wants {
        assert_eq!(value(report, name), *want, "{name}");
    }
}
