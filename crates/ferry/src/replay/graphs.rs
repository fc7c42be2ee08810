//! Graphs of a replay: captured again, as their executions were recorded, and launched as often.

use super::Pass;
use crate::{Kind, Result};
use ferry_core::{
    Branch, Capture, Edge, Error, Footprint, Graph, Op, QueueOptions, Recorder as CoreRecorder, Stream,
};
use ferry_watch::recording::{GraphLaunch, RecordedOp, RecordedWait, RecordedWork};
use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, atomic::Ordering},
};

/// Puts what is submitted to a stream into a branch of a capture.
struct RecaptureBranch {
    capture: Arc<Capture>,
    branch: Branch,
}

impl CoreRecorder for RecaptureBranch {
    fn record(&self, op: Op, footprint: Footprint) -> Result<()> {
        if self.capture.op(self.branch, op, footprint) { Ok(()) } else { Err(self.refusal()) }
    }

    fn refusal(&self) -> Error {
        Kind::Captured.because("the recording has work in a graph that no graph can have")
    }
}

/// A capture of a graph that is under way.
struct Recapture<'a> {
    pass: &'a Pass<'a>,
    capture: Arc<Capture>,
    /// The branch and the stream of each recorded stream.
    branches: HashMap<u32, (Branch, Arc<Stream>)>,
    edges: HashMap<usize, Edge>,
}

impl Pass<'_> {
    /// Captures a graph as its first execution was recorded. Nothing if it was never launched.
    pub(super) fn recapture(&self, graph: u32) -> Result<()> {
        let Some(launch) = self.replay.launches.all.iter().find(|launch| launch.graph == graph) else {
            return Ok(());
        };
        let capture = Arc::new(Capture::new(self.runtime.memory().clone()));
        if let Some(stream) = self.streams[launch.stream as usize].get() {
            capture.begins(stream);
        }
        let mut recapture =
            Recapture { pass: self, capture, branches: HashMap::new(), edges: HashMap::new() };
        let captured = recapture.tasks(launch);
        recapture.branches.values().for_each(|(_, stream)| stream.divert(None));
        captured?;
        let made = recapture.capture.finish().map_err(|unjoined| {
            let note = format!("branch {} of graph {graph} of the recording leads nowhere", unjoined.0);
            Kind::Captured.because(note)
        })?;
        let _ = self.graphs[graph as usize].set(made);
        Ok(())
    }

    /// Launches the execution that this op begins. Nothing if another op began it.
    pub(super) fn launch(&self, launch: &GraphLaunch) -> Result<()> {
        let graph = self.graphs[launch.graph as usize].get();
        let graph: &Arc<Graph> =
            graph.ok_or_else(|| Kind::Captured.because("a graph of the recording is launched uncaptured"))?;
        let stream = self.streams[launch.stream as usize].get();
        let stream = stream.ok_or_else(|| Kind::Captured.because("a graph is launched before its stream"))?;
        if self.options.is_checked {
            launch.ops.iter().try_for_each(|op| self.write_sources(*op))?;
            for op in &launch.ops {
                self.checks.inject(&self.replay.flow.injected[*op], stream, &self.memory)?;
            }
        }
        let ticket = graph.execute(stream)?;
        let last = match self.options.is_checked {
            true => {
                let left = self.replay.flow.left_by(&self.replay.recording, &launch.ops);
                let op = *launch.ops.last().unwrap_or(&0);
                self.checks.submit(op, left, stream, &self.memory)?.unwrap_or(ticket)
            }
            false => ticket,
        };
        self.note_tickets(launch, stream, ticket);
        for op in &launch.ops {
            self.tickets[*op].store(last, Ordering::Release);
            if let Some(gate) = self.gates.get(op) {
                gate.bind(stream.fence_after(last));
            }
        }
        Ok(())
    }

    /// Notes the tickets by which the ops of an execution are observed: they are the newest of their streams.
    fn note_tickets(&self, launch: &GraphLaunch, launching: &Arc<Stream>, ticket: u64) {
        let mut next: HashMap<u32, u64> = HashMap::new();
        for op in launch.ops.iter().rev() {
            let number = self.replay.recording.ops[*op].point.stream;
            let newest = || match number == launch.stream {
                true => ticket,
                false => self.streams[number as usize].get().unwrap_or(launching).newest(),
            };
            let own = next.entry(number).or_insert_with(newest);
            self.own_tickets[*op].store(*own, Ordering::Relaxed);
            *own = own.saturating_sub(1);
        }
    }
}

impl Recapture<'_> {
    fn tasks(&mut self, launch: &GraphLaunch) -> Result<()> {
        let recording = &self.pass.replay.recording;
        let targets = launch.ops.iter().flat_map(|op| &recording.ops[*op].awaits);
        let targets: HashSet<usize> = targets.filter_map(|wait| self.target(wait)).collect();
        // The first branch is that of the launching stream, whatever comes first.
        self.branch(launch, launch.stream)?;
        for op in &launch.ops {
            let recorded = &recording.ops[*op];
            let (branch, stream) = self.branch(launch, recorded.point.stream)?;
            self.task(recorded, branch, &stream)?;
            // The copies were coalesced when they were recorded.
            self.capture.barrier(branch);
            if targets.contains(op) {
                self.edges.insert(*op, self.capture.record(branch));
            }
        }
        Ok(())
    }

    fn task(&self, recorded: &RecordedOp, branch: Branch, stream: &Arc<Stream>) -> Result<()> {
        let waits = recorded.awaits.iter().filter_map(|wait| self.target(wait));
        waits.filter_map(|op| self.edges.get(&op)).for_each(|edge| self.capture.wait(branch, *edge));
        match &recorded.work {
            RecordedWork::Nothing | RecordedWork::Mark => Ok(()),
            RecordedWork::Function => {
                self.capture.call(branch, Arc::new(|| ()));
                Ok(())
            }
            work => self.pass.submit_work(stream, work, Vec::new()).map(drop),
        }
    }

    fn target(&self, wait: &RecordedWait) -> Option<usize> {
        match wait {
            RecordedWait::Point(point) => self.pass.replay.recording.op_at(*point),
            _ => None,
        }
    }

    /// The branch of a recorded stream, and the stream that is diverted for it.
    fn branch(&mut self, launch: &GraphLaunch, number: u32) -> Result<(Branch, Arc<Stream>)> {
        if let Some((branch, stream)) = self.branches.get(&number) {
            return Ok((*branch, stream.clone()));
        }
        let device = self.pass.replay.recording.streams[number as usize].device;
        let own = self.pass.streams[number as usize].get().filter(|_| number != launch.stream);
        let stream = match own {
            Some(stream) => stream.clone(),
            None => self.pass.runtime.stream(self.pass.memory.device(device), QueueOptions::default())?,
        };
        let branch = self.capture.branch(stream.clone());
        let recorder = RecaptureBranch { capture: self.capture.clone(), branch };
        stream.divert(Some(Arc::new(recorder)));
        self.branches.insert(number, (branch, stream.clone()));
        Ok((branch, stream))
    }
}
