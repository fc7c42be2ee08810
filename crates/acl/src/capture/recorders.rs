//! How streams come into a capture and leave it, and what takes their work meanwhile.

use super::{
    entry::{CaptureEntry, StreamPart, TaskKind, TaskLine, engine_error},
    mode::CaptureMode,
    registry::{of_context, with},
};
use crate::{
    Error, Result,
    constants::*,
    error::fail,
    state::{Context, Here, OpenedEngine, StreamEntry, StreamSlot},
};
use ferry_core::{Branch, Footprint, Graph, Op, QueueOptions, Recorder, Unjoined};
use std::sync::Arc;

/// Takes the work of a captured stream.
struct BranchRecorder(StreamPart);

impl Recorder for BranchRecorder {
    fn record(&self, op: Op, footprint: Footprint) -> ferry_core::Result<()> {
        let StreamPart { entry, branch, stream } = &self.0;
        let kind = if matches!(op, Op::Fill(_)) { TaskKind::Fill } else { TaskKind::Copy };
        let line = TaskLine { stream: *stream, kind };
        let added = entry.add(line, |recording| {
            if recording.op(*branch, op, footprint) { Ok(()) } else { Err(uncaptured(&self.0)) }
        });
        added.map_err(|error| engine_error(&error))
    }

    fn refusal(&self) -> ferry_core::Error {
        engine_error(&uncaptured(&self.0))
    }
}

/// The error of work that no graph can have.
fn uncaptured(part: &StreamPart) -> Error {
    let note =
        format!("stream {:#x} is captured, and this cannot be: {}", part.stream, part.entry.describe());
    fail(ACL_ERROR_RT_STREAM_CAPTURED, note)
}

/// Refuses the work of the default stream of a context with a capture.
struct DefaultRecorder {
    context: usize,
}

impl Recorder for DefaultRecorder {
    fn record(&self, _: Op, _: Footprint) -> ferry_core::Result<()> {
        Err(self.refusal())
    }

    fn refusal(&self) -> ferry_core::Error {
        engine_error(&default_stream_used(self.context))
    }
}

/// The error of work on the default stream of a context with a capture, which it breaks.
pub(super) fn default_stream_used(context: usize) -> Error {
    let note = "the default stream takes no work while a stream of its context is captured: use a stream of \
                aclrtCreateStream, or wait for the end of the capture";
    let captures = of_context(context);
    captures.iter().skip(1).for_each(|capture| capture.invalidate(note));
    let code = ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT;
    captures.first().map_or_else(|| fail(code, note), |capture| capture.break_by(code, note.into()))
}

/// Begins a capture on a stream that is not the default one; `model` is what it becomes.
pub(crate) fn begin(
    here: &Here,
    engine: &'static OpenedEngine,
    (context, stream): (&Context, &Arc<StreamEntry>),
    model: usize,
    mode: CaptureMode,
) -> Result<Arc<CaptureEntry>> {
    let memory = engine.runtime.memory();
    let place = (context.handle, context.device);
    let entry = Arc::new(CaptureEntry::new(here, memory, place, (model, stream.handle), Some(mode)));
    with(|registry| {
        if let Some((_, part)) = registry.streams.get(&stream.handle) {
            let note = format!("stream {:#x} is captured already: {}", stream.handle, part.entry.describe());
            return Err(fail(ACL_ERROR_RT_STREAM_CAPTURED, note));
        }
        let part = new_part(engine, context, &entry, stream, ACL_ERROR_RT_NO_STREAM_RESOURCE)?;
        registry.captures.push(entry.clone());
        registry.streams.insert(stream.handle, (stream.clone(), part.clone()));
        if let Ok(default) = context.default_stream() {
            default.stream.divert(Some(Arc::new(DefaultRecorder { context: context.handle })));
        }
        stream.stream.divert(Some(Arc::new(BranchRecorder(part))));
        Ok(entry.clone())
    })
}

/// A graph that is built, without streams at first.
pub(crate) fn build(
    here: &Here,
    engine: &OpenedEngine,
    context: &Context,
    model: usize,
) -> Arc<CaptureEntry> {
    let place = (context.handle, context.device);
    Arc::new(CaptureEntry::new(here, engine.runtime.memory(), place, (model, 0), None))
}

/// The stream takes part in the capture from here on.
pub(crate) fn join(
    engine: &'static OpenedEngine,
    context: &Context,
    entry: &Arc<CaptureEntry>,
    stream: &Arc<StreamEntry>,
) -> Result<StreamPart> {
    if stream.is_default {
        return Err(default_stream_used(entry.context));
    }
    with(|registry| {
        if let Some((_, part)) = registry.streams.get(&stream.handle) {
            let note = format!("stream {:#x} is captured already: {}", stream.handle, part.entry.describe());
            return Err(fail(ACL_ERROR_STREAM_CAPTURE_CONFLICT, note));
        }
        let part = new_part(engine, context, entry, stream, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL)?;
        registry.streams.insert(stream.handle, (stream.clone(), part.clone()));
        stream.stream.divert(Some(Arc::new(BranchRecorder(part.clone()))));
        Ok(part)
    })
}

/// A graph that is built takes no more tasks.
pub(crate) fn complete(entry: &CaptureEntry) {
    drop(entry.end());
}

/// The stream leaves a graph that is built: it is as before.
pub(crate) fn release(stream: &StreamEntry) {
    with(|registry| registry.streams.remove(&stream.handle));
    stream.stream.divert(None);
}

/// A branch for a stream: executions run it on a stream of the graph's own, which counts among those of the
/// device.
fn new_part(
    engine: &'static OpenedEngine,
    context: &Context,
    entry: &Arc<CaptureEntry>,
    stream: &StreamEntry,
    code: i32,
) -> Result<StreamPart> {
    let slot: StreamSlot =
        engine.stream_slot(context.device).map_err(|error| fail(code, error.note.clone()))?;
    let inner = engine.runtime.stream_under(Some(&context.halt), context.device, QueueOptions::default())?;
    let branch: Branch = entry.recording.branch(inner);
    entry.recording.keep(Box::new(slot));
    Ok(StreamPart { entry: entry.clone(), branch, stream: stream.handle })
}

/// Ends a capture, whatever comes of it: its streams are as before, and the graph is what was recorded.
pub(crate) fn end(context: &Context, entry: &Arc<CaptureEntry>) -> Result<Arc<Graph>> {
    let is_part = |part: &StreamPart| Arc::ptr_eq(&part.entry, entry);
    let streams: Vec<_> = with(|registry| {
        registry.captures.retain(|capture| !Arc::ptr_eq(capture, entry));
        let streams: Vec<_> =
            registry.streams.extract_if(|_, (_, part)| is_part(part)).map(|(_, it)| it).collect();
        streams.iter().for_each(|(stream, _)| stream.stream.divert(None));
        if !registry.captures.iter().any(|capture| capture.context == context.handle)
            && let Ok(default) = context.default_stream()
        {
            default.stream.divert(None);
        }
        streams
    });
    let group = entry.group();
    let broken = entry.end();
    let graph = entry.recording.finish();
    if let Some(why) = broken {
        let note = format!("the capture was broken: {why} ({})", entry.describe());
        return Err(fail(ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, note));
    }
    if let Some(stream) = group {
        let note = format!("the task group of stream {stream:#x} is still open ({})", entry.describe());
        return Err(fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS, note));
    }
    graph.map_err(|Unjoined(branch)| unjoined(&streams, branch, entry))
}

/// The error of a stream whose work does not lead back.
fn unjoined(streams: &[(Arc<StreamEntry>, StreamPart)], branch: Branch, entry: &CaptureEntry) -> Error {
    let stream = streams.iter().find(|(_, part)| part.branch == branch).map_or(0, |(_, part)| part.stream);
    let note = format!(
        "stream {stream:#x} joined the capture and has work that does not lead back to stream {:#x}: record \
         an event behind it and have the capturing stream wait for that event ({})",
        entry.main,
        entry.describe()
    );
    fail(ACL_ERROR_RT_STREAM_UNJOINED, note)
}
