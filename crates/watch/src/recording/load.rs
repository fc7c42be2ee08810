//! Reads a recording.

use super::decode::RecordDecoder;
use super::frame;
use super::model::{
    Allocation, CapturedTask, Location, OpResult, RecordedGraph, RecordedOp, RecordedProcess, RecordedSite,
    RecordedStream, RecordedThread, RecordedWait, RecordedWork, Recording, Rect, Step, StepAction,
};
use super::record::{Record, StepHead};
use super::step_order::sort_steps;
use super::varint::Decoder;
use crate::fact::{Awaited, End, Passed, Point};
use std::collections::HashMap;

/// A recording that was read, and where its file is damaged.
#[derive(Clone, Debug)]
pub struct LoadedRecording {
    /// What was recorded, as far as the file is good.
    pub recording: Recording,
    /// What is wrong with the file, if it is cut or damaged, and at which byte.
    pub damage: Option<String>,
}

/// Reads a recording. Fails if `file` is none, or has another version of the format; a file that is cut or
/// damaged further on is read up to there.
pub fn read(file: &[u8]) -> Result<LoadedRecording, String> {
    let mut rest = frame::open(file)?;
    let (mut loader, mut decoder) = (Loader::default(), RecordDecoder::default());
    let damage = loop {
        let at = file.len() - rest.len();
        let why = match frame::next_frame(rest) {
            Ok(None) => break None,
            Ok(Some((records, behind))) => {
                rest = behind;
                loader.take_frame(&mut decoder, &records).err()
            }
            Err(why) => Some(why),
        };
        if let Some(why) = why {
            break Some(format!(
                "the recording is damaged at byte {at} of {}: {why}. What lies before it is used",
                file.len()
            ));
        }
    };
    Ok(LoadedRecording { recording: loader.finish(), damage })
}

#[derive(Default)]
struct Loader {
    recording: Recording,
    /// What each op waits for, as it stands in the file.
    awaits: Vec<Vec<Awaited>>,
    /// What promises of a process are bound to.
    bound: HashMap<(u32, u64), Option<Point>>,
    /// For each stream, whether it was seen to be made.
    is_made: Vec<bool>,
    /// What is known of ops that were not seen to be submitted yet.
    early: HashMap<Point, Vec<Record>>,
}

impl Loader {
    fn take_frame(&mut self, decoder: &mut RecordDecoder, records: &[u8]) -> Result<(), String> {
        let mut from = Decoder::new(records);
        while let Some(record) = decoder.decode(&mut from).map_err(|malformed| malformed.0)? {
            self.take(record)?;
        }
        Ok(())
    }

    fn step(&mut self, head: &StepHead, action: StepAction) {
        let StepHead { thread, site, begin, time } = *head;
        self.recording.steps.push(Step { thread, site, begin, time, action });
    }

    fn take(&mut self, record: Record) -> Result<(), String> {
        self.check(&record)?;
        let all = &mut self.recording;
        match record {
            Record::Process => all.processes.push(RecordedProcess::default()),
            Record::Started(number, process) => {
                let has_ended = all.processes[number as usize].has_ended;
                all.processes[number as usize] = RecordedProcess { has_ended, ..process };
            }
            Record::Ended(process) => all.processes[process as usize].has_ended = true,
            Record::Thread(process) => {
                all.threads.push(RecordedThread { process, ..RecordedThread::default() });
            }
            Record::ThreadName { thread, name } => all.threads[thread as usize].name = name,
            Record::Site(site) => {
                if all.sites.is_empty() {
                    all.sites.push(RecordedSite::default());
                }
                all.sites.push(site);
            }
            Record::Stream(process) => {
                all.streams.push(RecordedStream { process, ..RecordedStream::default() });
                self.is_made.push(false);
            }
            Record::StreamMade(head, number, stream) => {
                all.streams[number as usize] = stream;
                if !std::mem::replace(&mut self.is_made[number as usize], true) {
                    self.step(&head, StepAction::MakeStream(number));
                }
            }
            Record::StreamGone(head, stream) => self.step(&head, StepAction::DropStream(stream)),
            Record::Memory(head, allocation) => {
                let is_known = allocation.origin.is_some();
                all.allocations.push(allocation);
                let number = all.allocations.len() as u32 - 1;
                if is_known {
                    self.step(&head, StepAction::Allocate(number));
                }
            }
            Record::Freed(head, allocation) => self.step(&head, StepAction::Free(allocation)),
            Record::Bound { process, promise, point } => {
                self.bound.insert((process, promise), point);
            }
            Record::Lost(count) => all.lost = all.lost.saturating_add(count),
            other => self.take_work(other),
        }
        Ok(())
    }

    fn take_work(&mut self, record: Record) {
        match record {
            Record::Submitted { head, point, awaits, work, task } => {
                let op = RecordedOp { point, work, task, ..RecordedOp::default() };
                self.submitted(&head, op, awaits);
            }
            Record::Refused { head, stream, work } => self.step(&head, StepAction::Refuse { stream, work }),
            Record::Joined { head, point, how } => self.step(&head, StepAction::Join { point, how }),
            Record::CaptureBegun { head, stream } => {
                self.recording.graphs.push(RecordedGraph { stream, ..RecordedGraph::default() });
                let graph = self.recording.graphs.len() as u32 - 1;
                self.step(&head, StepAction::BeginCapture { graph });
            }
            Record::Captured { head, task, branch, work } => {
                let tasks = &mut self.recording.graphs[task.graph as usize].tasks;
                tasks.push(CapturedTask { task: task.task, branch, work });
                self.step(&head, StepAction::Capture(task));
            }
            Record::CaptureEnded { head, graph, is_graph } => {
                self.recording.graphs[graph as usize].is_graph = is_graph;
                self.step(&head, StepAction::EndCapture { graph });
            }
            Record::Launched { head, graph, point } => self.step(&head, StepAction::Launch { graph, point }),
            Record::Call { head, blocked, code } => self.step(&head, StepAction::Call { blocked, code }),
            Record::MorePieces { point, .. }
            | Record::Begun { point, .. }
            | Record::Passed(Passed { point, .. })
            | Record::Resolved { point, .. }
            | Record::Contents { point, .. }
            | Record::Bytes { point, .. } => match self.recording.op_at(point) {
                Some(op) => self.recording.ops[op].learn(record),
                None => self.early.entry(point).or_default().push(record),
            },
            _ => unreachable!("`take` knows the other records"),
        }
    }

    fn submitted(&mut self, head: &StepHead, op: RecordedOp, awaits: Vec<Awaited>) {
        let (number, point) = (self.recording.ops.len(), op.point);
        self.recording.by_point.insert(point, number);
        self.recording.ops.push(op);
        self.awaits.push(awaits);
        self.step(head, StepAction::Submit(number));
        for early in self.early.remove(&point).unwrap_or_default() {
            self.recording.ops[number].learn(early);
        }
    }

    /// Fails if the record names something that no record introduced.
    fn check(&self, record: &Record) -> Result<(), String> {
        let all = &self.recording;
        let head = |head: &StepHead| {
            known("thread", head.thread, all.threads.len())?;
            known("site", head.site, all.sites.len().max(1))
        };
        let stream = |stream: u32| known("stream", stream, all.streams.len());
        let process = |process: u32| known("process", process, all.processes.len());
        let graph = |graph: u32| known("graph", graph, all.graphs.len());
        match record {
            Record::Process | Record::Site(_) | Record::Lost(_) => Ok(()),
            Record::Ended(number)
            | Record::Thread(number)
            | Record::Stream(number)
            | Record::Started(number, _) => process(*number),
            Record::ThreadName { thread, .. } => known("thread", *thread, all.threads.len()),
            Record::StreamMade(at, number, made) => head(at).and(stream(*number)).and(process(made.process)),
            Record::StreamGone(at, number) => head(at).and(stream(*number)),
            Record::Memory(at, memory) => head(at).and(process(memory.process)),
            Record::Freed(at, number) => head(at).and(known("allocation", *number, all.allocations.len())),
            Record::Submitted { head: at, point, awaits, work, task } => {
                let points = awaits.iter().filter_map(|awaited| match awaited {
                    Awaited::Point(point) => Some(point.stream),
                    Awaited::Later(_) | Awaited::Outside => None,
                });
                points.chain([point.stream]).try_for_each(stream)?;
                task.map_or(Ok(()), |task| graph(task.graph))?;
                head(at).and(self.check_work(work))
            }
            Record::MorePieces { point, rects } => stream(point.stream).and(self.check_rects(rects)),
            Record::Refused { head: at, stream: number, work } => {
                head(at).and(stream(*number)).and(self.check_work(work))
            }
            Record::Passed(passed) => stream(passed.point.stream),
            Record::Resolved { point, rect } => stream(point.stream).and(self.check_rects(&[*rect])),
            Record::Bound { process: number, point, .. } => {
                process(*number).and(point.map_or(Ok(()), |point| stream(point.stream)))
            }
            Record::Joined { head: at, point, .. } => head(at).and(stream(point.stream)),
            Record::CaptureBegun { head: at, stream: number } => head(at).and(number.map_or(Ok(()), stream)),
            Record::Captured { head: at, task, work, .. } => {
                head(at).and(graph(task.graph)).and(self.check_work(work))
            }
            Record::CaptureEnded { head: at, graph: number, .. } => head(at).and(graph(*number)),
            Record::Launched { head: at, graph: number, point } => {
                head(at).and(graph(*number)).and(stream(point.stream))
            }
            Record::Call { head: at, .. } => head(at),
            Record::Begun { point, .. } | Record::Contents { point, .. } | Record::Bytes { point, .. } => {
                stream(point.stream)
            }
        }
    }

    fn check_work(&self, work: &RecordedWork) -> Result<(), String> {
        if let RecordedWork::Fill { dst, .. } = work {
            known("allocation", dst.allocation, self.recording.allocations.len())?;
        }
        self.check_rects(work.rects())
    }

    fn check_rects(&self, rects: &[Rect]) -> Result<(), String> {
        let ends = rects.iter().flat_map(|rect| [rect.dst, rect.src]);
        let mut ends = ends.map(|end| end.allocation);
        ends.try_for_each(|number| known("allocation", number, self.recording.allocations.len()))
    }

    fn finish(mut self) -> Recording {
        if self.recording.sites.is_empty() {
            self.recording.sites.push(RecordedSite::default());
        }
        self.make_the_others();
        self.resolve_awaits();
        name_areas(&mut self.recording);
        sort_steps(&mut self.recording);
        self.recording
    }

    /// Streams that were made before the recording are made at its beginning.
    fn make_the_others(&mut self) {
        let first = self.recording.steps.iter().map(|step| step.begin.min(step.time)).min().unwrap_or(0);
        let missing: Vec<_> = (0..self.is_made.len()).filter(|number| !self.is_made[*number]).collect();
        if missing.is_empty() || self.recording.threads.is_empty() {
            return;
        }
        let step = |number| Step {
            thread: 0,
            site: 0,
            begin: first,
            time: first,
            action: StepAction::MakeStream(number as u32),
        };
        self.recording.steps.splice(0..0, missing.into_iter().map(step));
    }

    fn resolve_awaits(&mut self) {
        let all = &mut self.recording;
        for (op, awaits) in all.ops.iter_mut().zip(&self.awaits) {
            let process = all.streams[op.point.stream as usize].process;
            let resolve = |awaited: &Awaited| match awaited {
                Awaited::Point(point) => Some(RecordedWait::Point(*point)),
                Awaited::Outside => Some(RecordedWait::Outside),
                Awaited::Later(promise) => match self.bound.get(&(process, *promise)) {
                    Some(point) => point.map(RecordedWait::Promised),
                    None => Some(RecordedWait::Never),
                },
            };
            op.awaits = awaits.iter().filter_map(resolve).collect();
        }
    }
}

fn known(what: &str, number: u32, count: usize) -> Result<(), String> {
    match (number as usize) < count {
        true => Ok(()),
        false => Err(format!("it names {what} {number}, and {count} were introduced before")),
    }
}

impl RecordedOp {
    /// Takes what became known of the op after it was submitted.
    fn learn(&mut self, record: Record) {
        match record {
            Record::MorePieces { rects: more, .. } => {
                if let RecordedWork::Batch { rects, .. } = &mut self.work {
                    rects.extend(more);
                }
            }
            Record::Passed(Passed { begin, end, outcome, together, engine, .. }) => {
                // Without a begin of its own it began when that was told before.
                let begin = if begin == 0 { self.begun.unwrap_or(0) } else { begin };
                self.result = Some(OpResult { begin, end, outcome, together, engine });
            }
            Record::Begun { time, .. } => {
                self.begun = Some(time);
                self.result
                    .iter_mut()
                    .filter(|result| result.begin == 0)
                    .for_each(|result| result.begin = time);
            }
            Record::Resolved { rect: moved, .. } => {
                if let RecordedWork::Through { rect, .. } = &mut self.work {
                    *rect = Some(moved);
                }
            }
            Record::Contents { end: End::Source, hash, .. } => self.hashes.source = Some(hash),
            Record::Contents { end: End::Destination, hash, .. } => self.hashes.destination = Some(hash),
            Record::Bytes { end: End::Source, offset, bytes, .. } => self.learn_source(offset, &bytes),
            _ => {}
        }
    }

    /// Takes a part of the bytes that it read. Parts come in order; what is behind a gap is not used.
    fn learn_source(&mut self, offset: u64, bytes: &[u8]) {
        let source = self.source.get_or_insert_default();
        if offset == source.len() as u64 {
            source.extend_from_slice(bytes);
        }
    }
}

/// Makes allocations of the parts of pageable memory that work uses: parts that overlap are one.
fn name_areas(recording: &mut Recording) {
    let is_region: Vec<bool> = recording.allocations.iter().map(|all| all.origin.is_none()).collect();
    let mut spans: Vec<(Location, i64)> = Vec::new();
    each_span(recording, |at, len| {
        if is_region[at.allocation as usize] && len > 0 {
            spans.push((*at, at.offset.saturating_add_unsigned(len)));
        }
    });
    let areas = Areas::of(recording, &spans);
    each_span(recording, |at, _| {
        if is_region[at.allocation as usize] {
            *at = areas.locate(*at);
        }
    });
}

/// Parts of pageable memory, by where they begin in their region, with their end and the allocation that
/// they have become.
struct Areas {
    parts: Vec<(Location, i64, u32)>,
}

impl Areas {
    /// Numbers the areas in the order of their first use; the first area of a region takes its number.
    fn of(recording: &mut Recording, spans: &[(Location, i64)]) -> Areas {
        let mut order: Vec<usize> = (0..spans.len()).collect();
        order.sort_by_key(|index| spans[*index]);
        let mut merged: Vec<(usize, Location, i64)> = Vec::new();
        for index in order {
            let (at, end) = spans[index];
            match merged.last_mut() {
                Some((first, last, last_end))
                    if last.allocation == at.allocation && at.offset < *last_end =>
                {
                    *last_end = end.max(*last_end);
                    *first = index.min(*first);
                }
                _ => merged.push((index, at, end)),
            }
        }
        merged.sort_by_key(|(first, ..)| *first);
        let mut taken = vec![false; recording.allocations.len()];
        let mut parts = Vec::new();
        for (_, at, end) in merged {
            let len = end.abs_diff(at.offset);
            let region = at.allocation as usize;
            let number = if std::mem::replace(&mut taken[region], true) {
                let area = Allocation { len, ..recording.allocations[region].clone() };
                recording.allocations.push(area);
                recording.allocations.len() - 1
            } else {
                recording.allocations[region].len = len;
                region
            };
            parts.push((at, end, number as u32));
        }
        parts.sort_by_key(|(at, ..)| *at);
        Areas { parts }
    }

    fn locate(&self, at: Location) -> Location {
        let behind = self.parts.partition_point(|(start, ..)| *start <= at);
        match behind.checked_sub(1).map(|index| self.parts[index]) {
            Some((start, end, allocation)) if start.allocation == at.allocation && at.offset < end => {
                Location { allocation, offset: at.offset.wrapping_sub(start.offset) }
            }
            // Only of no bytes.
            _ => Location { offset: 0, ..at },
        }
    }
}

/// Calls `visit` with the place and the length of everything that work reads or writes.
fn each_span(recording: &mut Recording, mut visit: impl FnMut(&mut Location, u64)) {
    let ops = recording.ops.iter_mut().map(|op| &mut op.work);
    let tasks = recording.graphs.iter_mut().flat_map(|graph| &mut graph.tasks).map(|task| &mut task.work);
    let refused = recording.steps.iter_mut().filter_map(|step| match &mut step.action {
        StepAction::Refuse { work, .. } => Some(work),
        _ => None,
    });
    for work in ops.chain(tasks).chain(refused) {
        if let RecordedWork::Fill { dst, len, .. } = work {
            visit(dst, *len);
        }
        work.change_rects(|rect| {
            let spans = [rect.span(rect.dst_pitch), rect.span(rect.src_pitch)];
            visit(&mut rect.dst, spans[0]);
            visit(&mut rect.src, spans[1]);
        });
    }
}
