//! The checker: finds memory that is touched while a copy in flight owns it, from the facts of a program.
//!
//! A copy is in flight from its call until the host has joined it, whether or not its bytes have moved: no
//! finding depends on timing. `call_order` hands facts on in the order of the program's calls, `order` knows
//! what comes before what, `races` which ops touch the same bytes, `written` which device bytes nobody wrote,
//! `memory` what is allocated; `process` puts them together for one process. The CPU's own accesses come as
//! facts that name the op ([`Fact::Access`]).
//!
//! Findings get their names here: each is symbolised when it is first seen, since a process may become
//! another program later. One mistake is one finding; what is seen again is counted.
//! Arrows: it knows facts, names and blocks; commands know it.

mod accesses;
mod call_order;
mod captures;
mod ended;
pub mod finding;
mod frees;
mod frontiers;
pub mod joins;
mod memory;
mod messages;
mod names;
mod op;
mod order;
mod process;
mod races;
mod raw;
mod recent;
mod shared;
mod tasks;
mod uses;
mod written;

use std::collections::HashMap;
use std::sync::Arc;

use crate::blocks::BlockMap;
use crate::fact::{CallSite, Fact, FactReader, FactSource, Work};
use crate::symbols::{CodePlace, Symbols};
use accesses::Resolution;
use call_order::CallOrders;
pub use finding::{CheckFinding, FindingId, FindingSeverity, FoundWork, StackFrame, TimelineSpot};
use names::CheckNames;
pub use names::CheckOptions;
use process::ProcessCheck;
pub use process::ProcessEnd;
use raw::{Mended, RawFinding, RawNote, RawPlace};
use shared::SharedRaces;

/// Takes the facts of a program and of all that it starts, and says what is wrong.
#[derive(Default)]
pub struct Checker {
    options: CheckOptions,
    symbols: Symbols,
    blocks: BlockMap,
    calls: CallOrders,
    processes: HashMap<u32, ProcessCheck>,
    /// Memory that processes share.
    shared: SharedRaces,
    findings: Vec<CheckFinding>,
    /// The finding of each id with these two stacks, the first of which is of this process.
    by_stack: HashMap<(FindingId, u32, StackPair), usize>,
    /// The finding of each id with these two paths of calls, of all processes or of one.
    by_path: HashMap<(FindingId, Option<u32>, [String; 2]), usize>,
    /// Sentences about what could not be seen, each once.
    unseen: Vec<String>,
    /// How often memory in flight was left accessible.
    opened: u64,
    lost: u64,
    left_out: Option<IsLeftOut>,
    has_seen_calls: bool,
}

/// Two stacks as numbers, and the process of the second if it is another one.
type StackPair = ([u64; 2], Option<u32>);

/// Whether a finding is left out of the report.
type IsLeftOut = Box<dyn Fn(&CheckFinding) -> bool>;

impl FactReader for Checker {
    fn take(&mut self, source: FactSource, fact: &Fact) {
        if let Fact::Started(_) = fact {
            // The process has become another program.
            self.finish_process(source.process, ProcessEnd::Itself);
        }
        self.symbols.take(source, fact);
        self.blocks.take(source, fact);
        match fact {
            Fact::Started(_) => self.has_seen_calls = true,
            Fact::Lost { count } => self.lost += count,
            Fact::Opened { .. } => self.opened += 1,
            Fact::Unseen { reason } if !self.unseen.contains(reason) => self.unseen.push(reason.clone()),
            _ => {}
        }
        let process = self.processes.entry(source.process).or_default();
        process.has_ended |= matches!(fact, Fact::Ended { .. });
        let is_launch = self.is_launch(source, fact);
        if self.calls.add(source, fact, is_launch) {
            return self.judge(source, fact, Resolution::NOT_LATE);
        }
        while let Some(next) = self.calls.next(source.process) {
            self.judge(next.source, &next.fact, next.resolved);
        }
    }
}

impl Checker {
    /// One that looks for these.
    pub fn new(options: CheckOptions) -> Checker {
        Checker { options, ..Checker::default() }
    }

    /// A copy that nobody has waited for gives one finding, the first. One for which this is true does not
    /// count as that: what comes behind it is found as if it were not there.
    pub fn leaving_out(self, is_left_out: impl Fn(&CheckFinding) -> bool + 'static) -> Checker {
        Checker { left_out: Some(Box::new(is_left_out)), ..self }
    }

    /// All processes are over; `end` says how, of those that have not said that they exit.
    pub fn finish(&mut self, end: impl Fn(u32) -> ProcessEnd) {
        let mut processes: Vec<u32> = self.processes.keys().copied().collect();
        processes.sort_unstable();
        for process in &processes {
            let has_ended = self.processes.get(process).is_some_and(|check| check.has_ended);
            self.finish_process(*process, if has_ended { ProcessEnd::Itself } else { end(*process) });
        }
        // Another run may follow, with as many processes again.
        self.symbols.forget_all();
        (self.blocks, self.shared) = Default::default();
        self.sort();
    }

    /// What was found, in the order of time.
    pub fn findings(&self) -> &[CheckFinding] {
        &self.findings
    }

    /// What the wanted processes did since somebody last asked. If it is seen again it is another finding,
    /// with the stacks of that time.
    pub fn tell(&mut self, is_wanted: impl Fn(u32) -> bool) -> Vec<&CheckFinding> {
        let is_new = |finding: &CheckFinding| !finding.is_told && is_wanted(finding.pid);
        let first = self.findings.iter().position(is_new).unwrap_or(self.findings.len());
        let told: Vec<usize> =
            (first..self.findings.len()).filter(|index| is_new(&self.findings[*index])).collect();
        told.iter().for_each(|index| self.findings[*index].is_told = true);
        self.by_stack.retain(|_, index| told.binary_search(index).is_err());
        self.by_path.retain(|_, index| told.binary_search(index).is_err());
        told.into_iter().map(|index| &self.findings[index]).collect()
    }

    /// Whether any process has used the library.
    pub fn has_seen_calls(&self) -> bool {
        self.has_seen_calls
    }

    /// The processes that were seen.
    pub fn processes(&self) -> impl Iterator<Item = u32> {
        self.processes.keys().copied()
    }

    /// Sentences about what could not be seen.
    pub fn unseen(&self) -> &[String] {
        &self.unseen
    }

    /// How often memory in flight was left accessible, so that accesses to it were not seen.
    pub fn opened(&self) -> u64 {
        self.opened
    }

    /// How many facts were lost.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Puts findings into the order of time; what is seen of them later, in another run, is still counted.
    fn sort(&mut self) {
        let mut order: Vec<usize> = (0..self.findings.len()).collect();
        order.sort_by_key(|index| self.findings[*index].time);
        let mut places = vec![0; order.len()];
        order.iter().enumerate().for_each(|(place, index)| places[*index] = place);
        self.findings.sort_by_key(|finding| finding.time);
        let indices = self.by_stack.values_mut().chain(self.by_path.values_mut());
        indices.for_each(|index| *index = places[*index]);
    }

    /// Whether a fact submits a function of the library's own that will submit the tasks of a graph.
    fn is_launch(&self, source: FactSource, fact: &Fact) -> bool {
        let Fact::Submitted(op) = fact else { return false };
        let call = || self.symbols.function(source.process, op.site.function).unwrap_or_default();
        op.work == Work::Function && op.task.is_none() && names::executes_graph(call())
    }

    /// Looks at a fact whose turn has come.
    fn judge(&mut self, source: FactSource, fact: &Fact, resolved: Resolution) {
        self.judge_by(source.process, |process, names, found| {
            process.take(names, (source, fact), resolved, found);
        });
        if let Fact::Joined(joined) = fact {
            self.judge_by(source.process, |process, names, found| process.joined(names, joined, found));
        }
    }

    fn judge_by(
        &mut self,
        number: u32,
        judge: impl FnOnce(&mut ProcessCheck, &CheckNames, &mut Vec<RawFinding>),
    ) {
        let mut found = Vec::new();
        let process = self.processes.entry(number).or_default();
        let names = CheckNames {
            symbols: &self.symbols,
            blocks: &self.blocks,
            options: self.options,
            process: number,
        };
        judge(process, &names, &mut found);
        for access in std::mem::take(&mut process.shared) {
            found.extend(self.shared.add(&names, number, access));
        }
        let mut mended = Vec::new();
        for raw in found {
            if raw.mended.is_by(&mended) {
                continue;
            }
            let is_left_out = self.add(number, &raw);
            if let Mended::Order(earlier, later) = &raw.mended
                && !is_left_out
            {
                mended.push((earlier.clone(), later.clone()));
            }
            if let Some(process) = self.processes.get_mut(&number) {
                process.told(&raw, is_left_out);
            }
        }
    }

    fn finish_process(&mut self, number: u32, end: ProcessEnd) {
        for left in self.calls.finish(number) {
            self.judge(left.source, &left.fact, left.resolved);
        }
        if !self.processes.contains_key(&number) {
            return;
        }
        self.judge_by(number, |process, names, found| process.end(names, found));
        self.judge_by(number, |process, names, found| process.finish(names, end, found));
        self.processes.remove(&number);
        // The next program with this number counts its stacks anew.
        self.by_stack.retain(|(_, process, (_, other)), _| *process != number && *other != Some(number));
    }

    /// Counts what was seen before; else symbolises it. Whether it is left out of the report.
    fn add(&mut self, process: u32, raw: &RawFinding) -> bool {
        let key = (raw.id, process, stacks(raw));
        let known = self.by_stack.get(&key).copied();
        if known.is_none() && raw.is_repeated {
            return false;
        }
        let index = match known {
            Some(index) => {
                self.findings[index].count += 1;
                index
            }
            None => self.add_new(process, raw),
        };
        self.by_stack.insert(key, index);
        self.left_out.as_ref().is_some_and(|is_left_out| is_left_out(&self.findings[index]))
    }

    /// Symbolises a finding. Says which it is: one with other stacks may have the same path of calls.
    fn add_new(&mut self, process: u32, raw: &RawFinding) -> usize {
        let finding = self.name(process, raw);
        let work = finding.work.as_ref().map(|work| &work.stack[..]).unwrap_or_default();
        let mut paths = StackFrame::paths(&finding.access, work);
        if finding.id == FindingId::StreamRace {
            paths.sort_unstable();
        }
        let next = self.findings.len();
        let only = self.options.by_process.then_some(process);
        let index = *self.by_path.entry((finding.id, only, paths)).or_insert(next);
        match self.findings.get_mut(index) {
            Some(known) => known.count += 1,
            None => self.findings.push(finding),
        }
        index
    }

    fn name(&mut self, process: u32, raw: &RawFinding) -> CheckFinding {
        let mut message = raw.message.clone();
        for RawNote { text, site, process: other } in &raw.notes {
            let stack = self.stack_of(other.unwrap_or(process), *site);
            let place = StackFrame::place(&stack).map(|frame| format!(" {text} at {}.", frame.position));
            message.push_str(&place.unwrap_or_default());
        }
        if let RawPlace::Before(site) = raw.access {
            let call = self.symbols.function(process, site.function).unwrap_or_default().to_owned();
            let place = self.symbols.place(process, site.caller).position();
            message.push_str(&format!(" It happened before {call} at {place}; the line is not known."));
        }
        let access = match raw.access {
            RawPlace::Call(site) => self.stack_of(process, site),
            RawPlace::Before(_) => Vec::new(),
            RawPlace::Program { stack, .. } => {
                let frames = self.symbols.stack(process, stack).to_vec();
                self.frames(process, &frames)
            }
        };
        let (thread, call) = match raw.access {
            RawPlace::Call(site) | RawPlace::Before(site) => (None, Some(site)),
            RawPlace::Program { thread, .. } => (Some(thread), None),
        };
        let spot = TimelineSpot { process, thread, call, op: raw.op };
        let work = raw.work.map(|work| {
            let process = work.process.unwrap_or(process);
            let call = self.symbols.function(process, work.site.function).unwrap_or_default().to_owned();
            let spot = TimelineSpot { process, thread: None, call: Some(work.site), op: work.op };
            let stream = work.op.map(|point| point.stream);
            FoundWork { call, stream, stack: self.stack_of(process, work.site), spot }
        });
        let by_address = || {
            let (address, _) = raw.bytes.filter(|_| raw.is_program_address)?;
            self.blocks.named(process, address).map(|block| block.site)
        };
        let allocation = raw.allocation.or_else(by_address);
        let allocation = allocation.map(|site| self.stack_of(process, site));
        CheckFinding {
            id: raw.id,
            severity: raw.severity,
            message,
            remedy: raw.remedy,
            bytes: raw.bytes,
            pid: process,
            time: raw.time,
            access,
            spot,
            work,
            allocation,
            count: 1,
            is_told: false,
        }
    }

    /// The stack of a call, or its innermost frame if that is all that is known.
    fn stack_of(&mut self, process: u32, site: CallSite) -> Vec<StackFrame> {
        let frames = self.symbols.stack(process, site.stack).to_vec();
        let frames = if frames.is_empty() && site.caller != 0 { vec![site.caller] } else { frames };
        self.frames(process, &frames)
    }

    fn frames(&mut self, process: u32, addresses: &[u64]) -> Vec<StackFrame> {
        let frame = |place: &Arc<CodePlace>| StackFrame {
            function: place.function.clone(),
            file: place.file.clone(),
            line: place.line,
            position: place.position(),
            code: (!place.module.is_empty()).then(|| (place.module.clone(), place.offset)),
        };
        let mut frames = Vec::new();
        for address in addresses.iter().filter(|address| **address != 0) {
            frames.extend(self.symbols.places(process, *address).iter().map(frame));
        }
        frames
    }
}

/// The stacks of where it went wrong and of what it collides with, as numbers; of a call without one the
/// return address, which is no number of a stack.
fn stacks(raw: &RawFinding) -> StackPair {
    let of = |site: CallSite| if site.stack == 0 { site.caller } else { u64::from(site.stack) };
    let access = match raw.access {
        RawPlace::Call(site) | RawPlace::Before(site) => of(site),
        RawPlace::Program { stack, .. } => u64::from(stack),
    };
    let (mut both, other) =
        ([access, raw.work.map_or(0, |work| of(work.site))], raw.work.and_then(|work| work.process));
    if raw.id == FindingId::StreamRace && other.is_none() {
        both.sort_unstable();
    }
    (both, other)
}

#[cfg(test)]
mod tests;
