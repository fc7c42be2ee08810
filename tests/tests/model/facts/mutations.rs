//! The checker of `ferry check` against the model: programs with one ordering step taken out.
//!
//! A random program runs as it is, and then again and again without one of the steps that order work: a
//! record, a wait, a synchronise, a host function. The model says which steps touch the same bytes in no
//! order ([`races`]); the checker reads the facts of the run and must report exactly then ([`verdict`]). A
//! join by any thread counts for all, so that the steps of both threads are made in the order of the list
//! ([`turns`]), and the model takes them as those of one thread.
//!
//! `FERRY_MUTATION_CASES=10000` takes more programs and removes every step that can be, one at a time;
//! `FERRY_MUTATION_SKIP=500` takes other programs, `FERRY_MUTATION_FAILURES=5` shows more than one failure.
//!
//! Arrows: it runs programs and reads facts as `facts` does; nothing in the model knows it.

mod races;
mod sequence;
mod turns;
mod verdict;

use std::fmt;
use std::fs::OpenOptions;

use ferry_watch::buffers::Buffers;
use ferry_watch::collector::Collector;
use ferry_watch::{Fact, FactSource};

use super::{Facts, ROLE, in_watched_process};
use crate::program::Program;
use crate::show::Shown;
use crate::{on_engine, setting, small};
use sequence::Sequence;
use verdict::Verdict;

/// Programs of the usual run, and removals from each.
const CASES: u64 = 120;
const REMOVALS: usize = 2;

/// What became of all runs.
#[derive(Default)]
struct Figures {
    programs: usize,
    mutations: usize,
    /// Runs that are left out: a copy would have used a descriptor or memory that is another one then, or a
    /// host function began in the midst of a step.
    skipped: usize,
    /// Runs in which something races by the model.
    racing: usize,
    pairs: usize,
    /// Runs in which the checker reported a race.
    reported: usize,
    reported_pairs: usize,
    missed: usize,
    /// Runs with a race that no report stands for, though others are reported.
    untold: usize,
    false_reports: usize,
    frees: usize,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures { programs, mutations, skipped, racing, pairs, .. } = self;
        write!(f, "{programs} programs, {mutations} removals, {skipped} left out; ")?;
        write!(f, "{racing} runs with races ({pairs} pairs), ")?;
        write!(f, "{} reported ({} pairs), ", self.reported, self.reported_pairs)?;
        write!(f, "{} missed, {} false, {} untold; ", self.missed, self.false_reports, self.untold)?;
        write!(f, "{} frees in flight", self.frees)
    }
}

/// Every removal that makes a race is reported, and no other.
#[test]
fn a_removed_order_is_reported_if_it_makes_a_race() {
    in_watched_process("facts::mutations::the_mutating_process");
}

/// What the child does.
#[test]
fn the_mutating_process() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let path = std::env::var_os(ferry::watching::VARIABLE).expect("the parent says where");
    let file = OpenOptions::new().read(true).write(true).open(path).expect("the parent's file");
    let (cases, skip) = (setting("FERRY_MUTATION_CASES", CASES), setting("FERRY_MUTATION_SKIP", 0));
    let mut mutations = Mutations {
        collector: Collector::new(Buffers::open(&file).expect("the parent made buffers")),
        functions: None,
        removals: if cases > CASES { usize::MAX } else { REMOVALS },
        figures: Figures::default(),
    };
    let mut wrong = vec![];
    for (number, program) in small().enumerate().skip(skip as usize).take(cases as usize) {
        wrong.extend(mutations.judge(&program).err().map(|why| format!("program {number} {why}")));
        if wrong.len() >= setting("FERRY_MUTATION_FAILURES", 1) as usize {
            break;
        }
    }
    println!("{}", mutations.figures);
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(mutations.figures.racing > 0, "no removal makes a race");
    assert!(mutations.figures.untold * 1000 <= mutations.figures.racing, "{}", mutations.figures);
}

/// Runs programs, and reads the facts of this process.
struct Mutations {
    collector: Collector,
    /// How many steps are removed from a program at most.
    removals: usize,
    /// The names of functions, which are told once.
    functions: Option<(FactSource, Fact)>,
    figures: Figures,
}

impl Mutations {
    /// Judges the program, and every removal from it.
    fn judge(&mut self, program: &Program) -> Result<(), String> {
        self.figures.programs += 1;
        let base = Sequence::of(program);
        self.check(&base, "as it is")?;
        let steps = base.removable();
        let every = steps.len().div_ceil(self.removals).max(1);
        for step in steps.into_iter().skip(self.figures.programs % every).step_by(every) {
            self.figures.mutations += 1;
            let removed = format!("without step {step}, {}", Shown(program, &base.program.steps[step]));
            self.check(&base.without(step), &removed)?;
        }
        Ok(())
    }

    fn check(&mut self, sequence: &Sequence, what: &str) -> Result<(), String> {
        let explained = |why: String| format!("{what}: {why}\n{:?}", sequence.program);
        if races::is_undefined(sequence) {
            self.figures.skipped += 1;
            return Ok(());
        }
        let ran = on_engine(&sequence.program, |capi| turns::run(sequence, capi));
        let mut facts = Facts::default();
        self.collector.finish(&mut facts);
        ran.map_err(explained)?;
        let is_functions = |(_, fact): &&(FactSource, Fact)| matches!(fact, Fact::Functions(_));
        self.functions = self.functions.take().or_else(|| facts.0.iter().find(is_functions).cloned());
        let verdict = Verdict::of(sequence, &facts.0, &self.functions).map_err(explained)?;
        let Some(verdict) = verdict else {
            self.figures.skipped += 1;
            return Ok(());
        };
        self.count(&verdict);
        verdict.judge(sequence).map_err(explained)
    }

    fn count(&mut self, verdict: &Verdict) {
        let figures = &mut self.figures;
        figures.racing += usize::from(!verdict.races.is_empty());
        figures.pairs += verdict.races.len();
        figures.reported += usize::from(!verdict.reported.is_empty());
        figures.reported_pairs += verdict.reported.len();
        figures.missed += usize::from(verdict.missed().is_some());
        figures.untold += usize::from(verdict.untold().is_some());
        figures.false_reports += verdict.false_reports().count();
        figures.frees += verdict.frees.len();
    }
}
