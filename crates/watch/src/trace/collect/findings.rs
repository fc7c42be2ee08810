//! Ties findings of the checker to the tables of the trace: the thread, the call and the op of each.

use super::{CLOCK_SLACK, Tracer, push};
use crate::check::{CheckFinding, TimelineSpot};
use crate::fact::{CallSite, Nanos};
use crate::trace::model::{TracedFinding, TracedSpot, TracedStream, TracedThread};

impl Tracer {
    /// Adds what a checker has found in the same facts. To be called when it has them all.
    pub fn add_findings(&mut self, findings: &[&CheckFinding]) {
        let traced = findings.iter().map(|&finding| {
            let access = self.spot(&finding.spot, finding.time);
            let work = finding.work.as_ref().map(|work| self.spot(&work.spot, finding.time));
            TracedFinding { finding: finding.clone(), access, work: work.unwrap_or_default() }
        });
        self.model.findings = Some(traced.collect());
    }

    fn spot(&mut self, spot: &TimelineSpot, time: Nanos) -> TracedSpot {
        let time = spot.call.map_or(time, |site| site.begin);
        let Some(process) = self.process_at(spot.process, time) else { return TracedSpot::default() };
        let op = spot.op.and_then(|point| {
            let is_it = |stream: &TracedStream| (stream.process, stream.number) == (process, point.stream);
            let stream = self.model.streams.iter().position(is_it)?;
            self.ops.get(&(stream as u32, point.ticket)).copied()
        });
        let call = spot.call.and_then(|site| self.call_at(process, &site));
        let call = call.or_else(|| self.model.ops[op? as usize].call.filter(|_| spot.thread.is_none()));
        let of_call = call.map(|call| self.model.calls[call as usize].thread);
        let thread = of_call.or_else(|| spot.thread.map(|number| self.accessing_thread(process, number)));
        TracedSpot { thread, call, op }
    }

    /// The process that had a number at some moment: the last one that had started.
    fn process_at(&self, number: u32, time: Nanos) -> Option<u32> {
        let all = || self.model.processes.iter().enumerate().filter(|(_, process)| process.number == number);
        let found = all().rfind(|(_, process)| process.started <= time).or_else(|| all().next());
        found.map(|(index, _)| index as u32)
    }

    /// The call of a process that began at a site's moment, or nearly so.
    fn call_at(&self, process: u32, site: &CallSite) -> Option<u32> {
        let calls = self.model.calls.iter().enumerate().filter(|(_, call)| {
            (call.function, call.caller) == (site.function, site.caller)
                && call.begin.abs_diff(site.begin) <= CLOCK_SLACK
                && self.model.threads[call.thread as usize].process == process
        });
        calls.min_by_key(|(_, call)| call.begin.abs_diff(site.begin)).map(|(index, _)| index as u32)
    }

    /// The entry of a thread, which may never have called anything.
    fn accessing_thread(&mut self, process: u32, number: u32) -> u32 {
        let known = self.model.threads.iter().position(|it| (it.process, it.number) == (process, number));
        let entry = || TracedThread { process, number, ..TracedThread::default() };
        known.map_or_else(|| push(&mut self.model.threads, entry()), |index| index as u32)
    }
}
