//! How streams come into a capture and leave it, and what takes their work meanwhile.

use super::{
    entry::{CaptureEntry, StreamPart, TaskKind, TaskLine, break_all, engine_error},
    mode::CaptureMode,
    registry::{captured_stream, of_capture, of_context, of_stream, transition, update_of_stream, with},
};
use crate::{
    Error, Result,
    constants::*,
    error::fail,
    state::{Context, Here, OpenedEngine, StreamEntry, StreamSlot},
    watched,
};
use ferry_core::{Branch, Footprint, Graph, Op, QueueOptions, Recorder, Unjoined};
use ferry_watch::fact::StreamPurpose;
use std::sync::{Arc, atomic::Ordering};

/// Takes the work of a captured stream.
struct BranchRecorder(StreamPart);

impl Recorder for BranchRecorder {
    fn record(&self, op: Op, footprint: Footprint) -> ferry_core::Result<()> {
        let StreamPart { entry, branch, stream } = &self.0;
        let kind = TaskKind::of(&op);
        let line = TaskLine { stream: *stream, kind };
        let added = entry.add_op(line, (*branch, op, footprint), || uncaptured(&self.0));
        added.map_err(|error| engine_error(&error))
    }

    fn refusal(&self) -> ferry_core::Error {
        engine_error(&uncaptured(&self.0))
    }
}

/// The error of work that no graph can have.
fn uncaptured(part: &StreamPart) -> Error {
    let note = match part.entry.is_built() {
        true => format!("stream {:#x} is bound to a model, and this call cannot be part of one", part.stream),
        false => format!("stream {:#x} is captured, and this call cannot be", part.stream),
    };
    part.entry.refusal(ACL_ERROR_RT_STREAM_CAPTURED, &note)
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

/// Refuses a call on the default stream of a context with a capture: for calls that may have nothing to
/// submit. All others are refused by the recorder.
pub(crate) fn check_default(stream: &StreamEntry) -> Result<()> {
    if !stream.is_default || of_context(stream.context).is_empty() {
        return Ok(());
    }
    Err(default_stream_used(stream.context))
}

/// The error of work on the default stream of a context with a capture, which it breaks.
pub(super) fn default_stream_used(context: usize) -> Error {
    let note = "the default stream takes no work while a stream of its context is captured. Ways out: use a \
                stream of aclrtCreateStream; or submit before the capture or after it";
    let code = ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT;
    break_all(&of_context(context), code, note).unwrap_or_else(|| fail(code, note))
}

/// A capture that no stream takes part in yet; `model` is what it becomes, `main` the stream that it is to
/// begin on. Without a mode: a graph that is built, which has no such stream.
pub(crate) fn draft(
    here: &Here,
    engine: &OpenedEngine,
    context: &Context,
    (model, main): (usize, usize),
    mode: Option<CaptureMode>,
) -> Arc<CaptureEntry> {
    let place = (context.handle, context.device);
    Arc::new(CaptureEntry::new(here, engine.runtime.memory(), place, (model, main), mode))
}

/// Begins a capture on a stream that is not the default one.
pub(crate) fn begin(
    engine: &'static OpenedEngine,
    (context, stream): (&Context, &Arc<StreamEntry>),
    entry: &Arc<CaptureEntry>,
) -> Result<()> {
    let _transition = transition();
    if let Some(part) = of_stream(stream.handle) {
        return Err(captured_already(ACL_ERROR_RT_STREAM_CAPTURED, &part));
    }
    not_updating(stream)?;
    let default = context.default_stream()?;
    // Its work goes to the update, and could not be refused.
    not_updating(&default)?;
    let part = new_part(engine, context, entry, stream, ACL_ERROR_RT_NO_STREAM_RESOURCE)?;
    with(|registry| {
        registry.captures.push(entry.clone());
        registry.streams.insert(stream.handle, (stream.clone(), part.clone()));
    });
    default.stream.divert(Some(Arc::new(DefaultRecorder { context: context.handle })));
    entry.recording.begins(&stream.stream);
    stream.stream.divert(Some(Arc::new(BranchRecorder(part))));
    Ok(())
}

fn captured_already(code: i32, part: &StreamPart) -> Error {
    part.entry.refusal(code, &format!("stream {:#x} is captured already", part.stream))
}

/// Refuses a stream on which a task group is being updated: its work goes to the update.
fn not_updating(stream: &StreamEntry) -> Result<()> {
    if update_of_stream(stream.handle).is_none() {
        return Ok(());
    }
    let note =
        format!("stream {:#x} updates a task group: call aclmdlRICaptureTaskUpdateEnd first", stream.handle);
    Err(fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS, note))
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
    let _transition = transition();
    if let Some(part) = of_stream(stream.handle) {
        return Err(captured_already(ACL_ERROR_STREAM_CAPTURE_CONFLICT, &part));
    }
    entry.takes_tasks_of(stream.handle)?;
    not_updating(stream)?;
    let part = new_part(engine, context, entry, stream, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL)?;
    with(|registry| registry.streams.insert(stream.handle, (stream.clone(), part.clone())));
    if let Some(main) = captured_stream(entry.main) {
        let follow = main.settings.cache_op_info.load(Ordering::Relaxed);
        stream.settings.cache_op_info.store(follow, Ordering::Relaxed);
    }
    stream.stream.divert(Some(Arc::new(BranchRecorder(part.clone()))));
    Ok(part)
}

/// A graph that is built takes no more tasks.
pub(crate) fn complete(entry: &CaptureEntry) {
    drop(entry.end());
}

/// The stream leaves a graph that is built: it is as before.
pub(crate) fn release(stream: &StreamEntry) {
    let _transition = transition();
    stream.stream.divert(None);
    with(|registry| registry.streams.remove(&stream.handle));
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
    let slot: StreamSlot = engine.stream_slot(context.device).map_err(|error| {
        let note = format!(
            "{}. A captured graph keeps one for each stream that took part in its capture, until \
             aclmdlRIDestroy: destroy graphs, or streams, that are no longer used",
            error.note
        );
        fail(code, note)
    })?;
    let inner = engine.runtime.stream_under(Some(&context.halt), context.device, QueueOptions::default())?;
    watched::name_stream(&inner, StreamPurpose::Graph, stream.handle);
    let branch: Branch = entry.recording.branch(inner);
    entry.recording.keep(Box::new(slot));
    Ok(StreamPart { entry: entry.clone(), branch, stream: stream.handle })
}

/// The streams of a capture, and the part of each.
pub(crate) type CaptureStreams = Vec<(Arc<StreamEntry>, StreamPart)>;

/// The streams leave the capture and are as before: the caller ends it. `None` if another thread does, or has
/// done so.
pub(crate) fn leave(context: &Context, entry: &Arc<CaptureEntry>) -> Option<CaptureStreams> {
    let _transition = transition();
    let is_entry = |capture: &Arc<CaptureEntry>| Arc::ptr_eq(capture, entry);
    with(|registry| {
        let place = registry.captures.iter().position(is_entry)?;
        Some(registry.captures.remove(place))
    })?;
    let streams = of_capture(entry);
    streams.iter().for_each(|(stream, _)| stream.stream.divert(None));
    with(|registry| registry.streams.retain(|_, (_, part)| !is_entry(&part.entry)));
    if of_context(context.handle).is_empty()
        && let Ok(default) = context.default_stream()
    {
        default.stream.divert(None);
    }
    Some(streams)
}

/// Ends a capture that its streams have left: the graph is what was recorded.
pub(crate) fn end(entry: &Arc<CaptureEntry>, streams: &CaptureStreams) -> Result<Arc<Graph>> {
    let group = entry.group();
    let broken = entry.end();
    let graph = entry.recording.finish();
    if let Some(why) = broken {
        let note = format!(
            "the capture has ended without a model, since it was broken before, {why}. Capture again without \
             that"
        );
        return Err(entry.refusal(ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, &note));
    }
    if let Some(stream) = group {
        let note = format!(
            "the capture has ended without a model, since the task group of stream {stream:#x} is open: call \
             aclmdlRICaptureTaskGrpEnd before"
        );
        return Err(entry.refusal(ACL_ERROR_STREAM_TASK_GROUP_STATUS, &note));
    }
    graph.map_err(|Unjoined(branch)| unjoined(streams, branch, entry))
}

/// The error of a stream whose work does not lead back.
fn unjoined(streams: &[(Arc<StreamEntry>, StreamPart)], branch: Branch, entry: &CaptureEntry) -> Error {
    let stream = streams.iter().find(|(_, part)| part.branch == branch).map_or(0, |(_, part)| part.stream);
    let note = format!(
        "stream {stream:#x} joined the capture and has work that does not lead back to stream {:#x}: record \
         an event behind it and have the capturing stream wait for that event, and submit nothing more",
        entry.main
    );
    entry.refusal(ACL_ERROR_RT_STREAM_UNJOINED, &note)
}
