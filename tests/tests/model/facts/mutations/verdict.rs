//! What the checker says of a run, beside what the model says.
//!
//! Every op gets a call site of its own before the checker sees it, so that a finding names the steps that it
//! is about.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use ferry_watch::check::{CheckFinding, CheckOptions, Checker, FindingId, ProcessEnd, StackFrame};
use ferry_watch::fact::{CallSite, Join, Joined, Point as OpPoint, SubmittedOp};
use ferry_watch::{Fact, FactReader, FactSource};

use super::super::executions::Executions;
use super::super::history::{History, Submitter};
use super::super::{BEGIN, END};
use super::races::Touches;
use super::sequence::Sequence;
use crate::order::Order;
use crate::program::Act;
use crate::show::Shown;

/// Call sites of ops begin here, those of other calls of a step at the number of the step.
const OPS: u64 = 1 << 32;
/// Other calls of the process.
const ELSEWHERE: u64 = OPS - 1;

/// A race as the checker tells it: the steps that the later op stands for, and those of the earlier.
pub struct ReportedRace {
    access: Vec<usize>,
    work: Vec<usize>,
    message: String,
}

impl ReportedRace {
    /// The earlier step and the later one.
    fn pairs(&self) -> impl Iterator<Item = (usize, usize)> {
        self.work.iter().flat_map(|a| self.access.iter().map(|b| (*a, *b)))
    }
}

pub struct Verdict {
    touches: Touches,
    /// By the model.
    pub races: BTreeSet<(usize, usize)>,
    /// By the checker.
    pub reported: Vec<ReportedRace>,
    /// The steps that free memory in flight, by the checker.
    pub frees: BTreeSet<usize>,
    others: Vec<CheckFinding>,
}

impl Verdict {
    /// `functions` is told to the checker first. `None` if a host function began in the midst of a step.
    pub fn of(
        sequence: &Sequence,
        facts: &[(FactSource, Fact)],
        functions: &Option<(FactSource, Fact)>,
    ) -> Result<Option<Verdict>, String> {
        let run = Run::of(sequence, facts)?;
        let mut touches = Touches::of(sequence);
        let Some(functions_begun) = run.begun_functions() else { return Ok(None) };
        for (hold, step) in functions_begun {
            let (function, call) = (touches.placed[hold].task, touches.placed[step].call);
            touches.order.also_after(call, function);
        }
        let (races, findings) = (touches.races(), run.findings(functions));
        let (reported, others): (Vec<_>, Vec<_>) =
            findings.into_iter().partition(|finding| finding.id == FindingId::StreamRace);
        let (frees, others): (Vec<_>, Vec<_>) =
            others.into_iter().partition(|finding| finding.id == FindingId::Free);
        let step =
            |finding: &CheckFinding| address_of(&finding.access).map_or(usize::MAX, |at| at as usize - 1);
        let frees = frees.iter().map(step).collect();
        let reported = reported.iter().map(|finding| run.race(finding)).collect();
        Ok(Some(Verdict { touches, races, reported, frees, others }))
    }

    /// Whether both agree; else why not.
    pub fn judge(&self, sequence: &Sequence) -> Result<(), String> {
        let show = |step: &usize| {
            let shown = Shown(&sequence.program, &sequence.program.steps[*step]);
            format!("  step {step}, {shown}\n")
        };
        if let Some(report) = self.false_reports().next() {
            let steps: String = report.work.iter().chain(&report.access).map(show).collect();
            return Err(format!("a false race: {}\n{steps}", report.message));
        }
        if let Some((a, b)) = self.missed() {
            return Err(format!("a race that is not reported:\n{}{}", show(&a), show(&b)));
        }
        if let Some((free, wrong)) = self.wrong_free() {
            return Err(format!("memory in flight is freed and that is {wrong}:\n{}", show(&free)));
        }
        let other = self.others.first();
        other.map_or(Ok(()), |finding| Err(format!("{}: {}", finding.id, finding.message)))
    }

    /// Reports of steps that do not race by the model.
    pub fn false_reports(&self) -> impl Iterator<Item = &ReportedRace> {
        self.reported.iter().filter(|report| !report.pairs().any(|(a, b)| self.is_race(a, b)))
    }

    /// A step that frees memory in flight and is not reported, or the other way round. Work that a finding
    /// is about already needs no other.
    fn wrong_free(&self) -> Option<(usize, &'static str)> {
        let frees = self.touches.frees(&self.touches.order);
        let is_free = |step: &usize| frees.iter().any(|(free, _)| free == step);
        if let Some(step) = self.frees.iter().find(|step| !is_free(step)) {
            return Some((*step, "false"));
        }
        let mut told: BTreeSet<usize> = BTreeSet::new();
        for report in &self.reported {
            told.extend(report.work.iter().chain(&report.access));
        }
        let mended = self.mended();
        let task = |step: &usize| self.touches.placed[*step].task;
        for (free, in_flight) in self.touches.frees(&mended) {
            // Work that comes before some that was told is in flight no longer than that.
            let is_told = |step: &usize| {
                let mut later = in_flight.intersection(&told);
                told.contains(step) || later.any(|later| mended.past(task(later)).has(task(step)))
            };
            if !self.frees.contains(&free) && !in_flight.iter().all(is_told) {
                return Some((free, "not reported"));
            }
            if self.frees.contains(&free) {
                told.extend(in_flight);
            }
        }
        None
    }

    fn is_race(&self, a: usize, b: usize) -> bool {
        self.races.contains(&(a.min(b), a.max(b)))
    }

    /// The order of the model with all that was reported put in order: one missing wait is one finding.
    fn mended(&self) -> Order {
        let mut mended = self.touches.order.clone();
        let task = |step: usize| self.touches.placed[step].task;
        for report in &self.reported {
            // A call that reads its source at once is joined with what it then comes after.
            for (a, b) in report.pairs() {
                mended.also_after(task(b), task(a));
                if self.touches.is_staged(b) {
                    mended.also_after(self.touches.placed[b].call, task(a));
                }
            }
        }
        mended
    }

    /// A race, if none is reported.
    pub fn missed(&self) -> Option<(usize, usize)> {
        self.races.first().copied().filter(|_| self.reported.is_empty())
    }

    /// A race that is still one if all that was reported is put in order, and that no report stands for.
    /// Where a third op touches the bytes before it is known what a late-bound copy copies, the two races
    /// with that one are reported, and the third race counts as put in order.
    pub fn untold(&self) -> Option<(usize, usize)> {
        let (mended, task) = (self.mended(), |step: usize| self.touches.placed[step].task);
        let are_ordered = |order: &Order, a: usize, b: usize| {
            order.past(task(b)).has(task(a)) || order.past(task(a)).has(task(b))
        };
        // Of several ops in order that race with some in order, any pair may be the one that is reported:
        // which, depends on when it is known what a late-bound copy copies.
        let stands_for = |c: usize, d: usize, a: usize, b: usize| {
            are_ordered(&self.touches.order, a, c) && are_ordered(&self.touches.order, b, d)
        };
        let is_told = |a: usize, b: usize| {
            let mut pairs = self.reported.iter().flat_map(|report| report.pairs());
            pairs.any(|(c, d)| stands_for(c, d, a, b) || stands_for(c, d, b, a))
        };
        let is_open = |&&(a, b): &&(usize, usize)| !are_ordered(&mended, a, b) && !is_told(a, b);
        self.races.iter().find(is_open).copied()
    }
}

/// The facts of one run, with the step that each belongs to.
struct Run<'a> {
    sequence: &'a Sequence,
    facts: &'a [(FactSource, Fact)],
    steps: Vec<Option<usize>>,
    history: History,
    executions: Executions,
    /// The steps that an op stands for.
    labels: Vec<Vec<usize>>,
    label_of: HashMap<OpPoint, usize>,
}

impl Run<'_> {
    fn of<'a>(sequence: &'a Sequence, facts: &'a [(FactSource, Fact)]) -> Result<Run<'a>, String> {
        let history = History::of(facts);
        let executions = Executions::of(&sequence.program, &history)?;
        let (mut labels, mut label_of) = (vec![], HashMap::new());
        for (point, op) in &history.ops {
            // The tasks of a deferred execution are told by the call that launched it.
            let by = match op.by {
                Submitter::Step(step) => executions.window(step).unwrap_or(step..=step).collect(),
                _ => vec![],
            };
            label_of.insert(*point, labels.len());
            labels.push(executions.steps.get(point).cloned().unwrap_or(by));
        }
        Ok(Run { sequence, facts, steps: steps_of(facts), history, executions, labels, label_of })
    }

    /// The host functions that have begun before a step was called: what comes before them is joined then.
    /// `None` if that was in the midst of a step.
    fn begun_functions(&self) -> Option<Vec<(usize, usize)>> {
        let joined = |fact: &Fact| match fact {
            Fact::Joined(Joined { point, how: Join::Function, .. }) => Some(*point),
            _ => None,
        };
        let mut begun = vec![];
        for (place, (_, fact)) in self.facts.iter().enumerate() {
            let Some(hold) = joined(fact).and_then(|point| self.hold_behind(point)) else { continue };
            let (before, after) = (self.judged(0..place).max(), self.judged(place..self.facts.len()).min());
            if before.is_some() && before >= after {
                return None;
            }
            // An execution is submitted where it ends.
            let first = |step| self.executions.window(step).map_or(step, |window| *window.start());
            begun.extend(after.map(|step| (hold, first(step))));
        }
        Some(begun)
    }

    /// The step that holds a stream behind this point.
    fn hold_behind(&self, point: OpPoint) -> Option<usize> {
        let function = self.history.ops.get(&OpPoint { ticket: point.ticket + 1, ..point })?;
        let Submitter::Step(step) = function.by else { return None };
        matches!(self.sequence.program.steps[step].act, Act::Hold { .. }).then_some(step)
    }

    /// The steps of facts for which it matters what was joined before.
    fn judged(&self, places: Range<usize>) -> impl Iterator<Item = usize> {
        let is_judged = |fact: &Fact| matches!(fact, Fact::Submitted(_) | Fact::Forgotten { .. });
        places.filter(move |i| is_judged(&self.facts[*i].1)).filter_map(|i| self.steps[i])
    }

    fn findings(&self, functions: &Option<(FactSource, Fact)>) -> Vec<CheckFinding> {
        let mut checker = Checker::new(CheckOptions::default());
        self.begin(&mut checker);
        functions.iter().for_each(|(source, fact)| checker.take(*source, fact));
        for (place, (source, fact)) in self.facts.iter().enumerate() {
            let mut fact = fact.clone();
            if let Some(site) = site_of(&mut fact) {
                let caller = self.steps[place].map_or(ELSEWHERE, |step| step as u64 + 1);
                *site = CallSite { caller, stack: 0, ..*site };
            }
            if let Fact::Submitted(op) = &mut fact {
                op.site.caller = OPS + self.label_of[&op.point] as u64;
            }
            if !matches!(fact, Fact::Stack { .. } | Fact::Module(_)) {
                checker.take(*source, &fact);
            }
        }
        checker.finish(|_| ProcessEnd::Itself);
        checker.findings().to_vec()
    }

    /// Streams that are older than the run have work that was joined long ago.
    fn begin(&self, checker: &mut Checker) {
        let mut firsts: HashMap<u32, u64> = HashMap::new();
        for point in self.history.ops.keys() {
            let first = firsts.entry(point.stream).or_insert(point.ticket);
            *first = point.ticket.min(*first);
        }
        let source = FactSource { process: std::process::id(), thread: 0 };
        for (stream, first) in firsts.into_iter().filter(|(_, first)| *first > 1) {
            let point = OpPoint { stream, ticket: first - 1 };
            checker.take(source, &Fact::Submitted(SubmittedOp { point, ..Default::default() }));
            checker.take(source, &Fact::Joined(Joined { point, ..Default::default() }));
        }
    }

    fn race(&self, finding: &CheckFinding) -> ReportedRace {
        let steps = |frames: &[StackFrame]| {
            let label = address_of(frames).and_then(|address| address.checked_sub(OPS));
            label.map_or(vec![], |label| self.labels[label as usize].clone())
        };
        let work = finding.work.as_ref().map_or(vec![], |work| steps(&work.stack));
        ReportedRace { access: steps(&finding.access), work, message: finding.message.clone() }
    }
}

/// The call site that a stack begins with.
fn address_of(frames: &[StackFrame]) -> Option<u64> {
    let digits = frames.first()?.position.strip_prefix("0x")?;
    u64::from_str_radix(digits, 16).ok()
}

/// The step that the thread of each fact is in.
fn steps_of(facts: &[(FactSource, Fact)]) -> Vec<Option<usize>> {
    let mut threads: HashMap<FactSource, Option<usize>> = HashMap::new();
    let step = |(source, fact): &(FactSource, Fact)| {
        let step = threads.entry(*source).or_default();
        match fact {
            Fact::Stack { number, frames } if *frames == [BEGIN] => *step = Some(*number as usize),
            Fact::Stack { frames, .. } if *frames == [END] => *step = None,
            _ => {}
        }
        *step
    };
    facts.iter().map(step).collect()
}

fn site_of(fact: &mut Fact) -> Option<&mut CallSite> {
    match fact {
        Fact::Submitted(op) => Some(&mut op.site),
        Fact::Known { site, .. } | Fact::Forgotten { site, .. } | Fact::Failure { site, .. } => Some(site),
        Fact::CaptureBegun { site, .. } | Fact::CaptureEnded { site, .. } => Some(site),
        Fact::Captured(captured) => Some(&mut captured.site),
        Fact::Launched { site, .. } => Some(site),
        _ => None,
    }
}
