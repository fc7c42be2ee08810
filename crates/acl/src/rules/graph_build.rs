//! Models that are built stream by stream: aclmdlRIBuildBegin and its relatives.
//!
//! A bound stream hands its tasks to the model until it is unbound. Streams bound as heads begin with an
//! execution; the others begin when a task of another stream activates them.

use super::graph::{ModelEntry, ModelState, create, find};
use crate::{
    Result,
    arguments::refuse,
    capture::{self, CaptureEntry, StreamPart, TaskKind, TaskLine},
    constants::*,
    error::fail,
    state::{Here, StreamEntry, engine},
};
use ferry_core::{Branch, sync::lock};
use std::sync::{Arc, LazyLock, Mutex};

/// Streams that are bound to models.
static BOUND: LazyLock<Mutex<Vec<BoundStream>>> = LazyLock::new(Mutex::default);

/// A stream that is bound to a model.
struct BoundStream {
    model: usize,
    stream: Arc<StreamEntry>,
    branch: Branch,
    is_head: bool,
    /// aclmdlRIEndTask was called.
    is_complete: bool,
}

/// aclmdlRIBuildBegin: the model.
pub fn begin(here: &Here, flag: u32) -> Result<usize> {
    let engine = engine()?;
    if flag != 0 {
        return Err(refuse(format!("flag is {flag}: it is reserved and must be 0")));
    }
    let context = here.context()?;
    let model = create(context.clone());
    *lock(&model.state) =
        ModelState::Recording(capture::draft(here, engine, &context, (model.handle, 0), None));
    Ok(model.handle)
}

/// The recording of a model that is being built.
fn recording(model: &ModelEntry) -> Result<Arc<CaptureEntry>> {
    recorded_in(&lock(&model.state), model)
}

fn recorded_in(state: &ModelState, model: &ModelEntry) -> Result<Arc<CaptureEntry>> {
    match state {
        ModelState::Recording(capture) if capture.is_built() => Ok(capture.clone()),
        _ => Err(refuse(format!("model {:#x} is not being built", model.handle))),
    }
}

/// aclmdlRIBindStream.
pub fn bind(here: &Here, model: usize, stream: usize, flag: u32) -> Result<()> {
    let engine = engine()?;
    let model = find(model)?;
    let recording = recording(&model)?;
    let is_head = match i32::try_from(flag).unwrap_or(-1) {
        ACL_MODEL_STREAM_FLAG_HEAD => true,
        ACL_MODEL_STREAM_FLAG_DEFAULT => false,
        _ => return Err(refuse(format!("flag is {flag:#x}: give 0 (head) or 0x7fffffff (default)"))),
    };
    let entry = here.stream(stream)?;
    if entry.flags & ACL_STREAM_PERSISTENT as u32 == 0 {
        let note = format!("stream {:#x} was not made with ACL_STREAM_PERSISTENT", entry.handle);
        return Err(refuse(note));
    }
    // From here on: a model that is destroyed meanwhile finds the stream, or has ended before it joins.
    let mut bound = lock(&BOUND);
    let StreamPart { branch, .. } = capture::join(engine, &model.context, &recording, &entry)?;
    bound.push(BoundStream { model: model.handle, stream: entry, branch, is_head, is_complete: false });
    Ok(())
}

/// aclmdlRIEndTask: the stream has all of its tasks.
pub fn end_task(here: &Here, model: usize, stream: usize) -> Result<()> {
    let model = find(model)?;
    recording(&model)?;
    let entry = here.stream(stream)?;
    let mut bound = lock(&BOUND);
    let found = bound.iter_mut().find(|it| it.model == model.handle && it.stream.handle == entry.handle);
    found.ok_or_else(|| not_bound(&entry, &model))?.is_complete = true;
    Ok(())
}

/// aclmdlRIBuildEnd: the model can be executed, and its streams take no more tasks.
pub fn end(model: usize) -> Result<()> {
    let model = find(model)?;
    // Held to the end: of two calls, or a call and a destroy, the second finds what the first has made.
    let mut state = lock(&model.state);
    let recording = recorded_in(&state, &model)?;
    let bound = lock(&BOUND);
    let mine: Vec<_> = bound.iter().filter(|it| it.model == model.handle).collect();
    if let Some(open) = mine.iter().find(|it| !it.is_complete) {
        let note = format!("stream {:#x} has no aclmdlRIEndTask", open.stream.handle);
        return Err(refuse(note));
    }
    if mine.is_empty() {
        return Err(refuse(format!("model {:#x} has no streams", model.handle)));
    }
    if !mine.iter().any(|it| it.is_head) {
        let note = format!(
            "no stream of model {:#x} begins with an execution: bind one with flag 0 (head)",
            model.handle
        );
        return Err(refuse(note));
    }
    recording.recording.build(mine.iter().filter(|it| it.is_head).map(|it| it.branch).collect());
    if let Some(stuck) = recording.recording.stuck() {
        let stream = mine.iter().find(|it| it.branch == stuck).map_or(0, |it| it.stream.handle);
        let note = format!(
            "stream {stream:#x} waits for an event of a stream that nothing activates: executions would not \
             end. Activate that one with aclrtActiveStream, from a stream that begins before it"
        );
        return Err(refuse(note));
    }
    drop(bound);
    capture::complete(&recording);
    let graph = recording.recording.finish().map_err(|_| refuse("the model is not joined"))?;
    *lock(&model.lines) = recording.take_lines();
    *state = ModelState::Ready { graph, is_built: true };
    Ok(())
}

/// aclmdlRIUnbindStream: the stream is as before.
pub fn unbind(here: &Here, model: usize, stream: usize) -> Result<()> {
    let model = find(model)?;
    let entry = here.stream(stream)?;
    let mut bound = lock(&BOUND);
    let place = bound.iter().position(|it| it.model == model.handle && it.stream.handle == entry.handle);
    bound.remove(place.ok_or_else(|| not_bound(&entry, &model))?);
    capture::release(&entry);
    Ok(())
}

/// The model is destroyed: its streams are as before.
pub(super) fn unbind_all(model: &ModelEntry) {
    let mut bound = lock(&BOUND);
    bound.iter().filter(|it| it.model == model.handle).for_each(|it| capture::release(&it.stream));
    bound.retain(|it| it.model != model.handle);
}

/// The context ends, and its streams with it: also those that are bound to models of other contexts.
pub(super) fn unbind_context(context: usize) {
    let mut bound = lock(&BOUND);
    bound.iter().filter(|it| it.stream.context == context).for_each(|it| capture::release(&it.stream));
    bound.retain(|it| it.stream.context != context);
}

fn not_bound(entry: &StreamEntry, model: &ModelEntry) -> crate::Error {
    refuse(format!("stream {:#x} is not bound to model {:#x}", entry.handle, model.handle))
}

/// aclrtActiveStream: a bound stream begins when another one comes here.
pub fn activate(here: &Here, active: usize, stream: usize) -> Result<()> {
    let (active, entry) = (here.stream(active)?, here.stream(stream)?);
    let is_bound = |part: &StreamPart| part.entry.is_built();
    let parts = (capture::of_stream(active.handle), capture::of_stream(entry.handle));
    let (Some(to), Some(from)) = (parts.0.filter(is_bound), parts.1.filter(is_bound)) else {
        return Err(refuse("both streams must be bound to one model that is being built"));
    };
    if !Arc::ptr_eq(&to.entry, &from.entry) {
        let note = format!("streams {:#x} and {:#x} belong to different models", active.handle, entry.handle);
        return Err(fail(ACL_ERROR_STREAM_CAPTURE_CONFLICT, note));
    }
    not_a_head(&active, from.entry.model)?;
    if active.handle == entry.handle {
        let note = format!(
            "stream {:#x} would activate itself: it never begins. Have another stream do that",
            active.handle
        );
        return Err(refuse(note));
    }
    let line = TaskLine { stream: from.stream, kind: TaskKind::StreamActive(active.handle) };
    from.entry.add(line, |recording| match recording.start(to.branch, from.branch) {
        true => Ok(()),
        false => Err(refuse(format!(
            "stream {:#x} is activated already: it begins once in an execution",
            active.handle
        ))),
    })
}

/// Refuses a stream that begins with the model.
fn not_a_head(active: &StreamEntry, model: usize) -> Result<()> {
    let is_it = |it: &&BoundStream| it.model == model && it.stream.handle == active.handle;
    match lock(&BOUND).iter().find(is_it) {
        Some(bound) if bound.is_head => Err(refuse(format!(
            "stream {:#x} begins with the model, since it was bound with flag 0 (head): nothing can activate \
             it. Bind it with flag 0x7fffffff (default)",
            active.handle
        ))),
        _ => Ok(()),
    }
}
