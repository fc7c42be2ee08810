//! Task groups that were closed, and their updates: a stream on which a group is being updated hands its
//! work to the update and not to its queue.

use super::{
    entry::{StreamPart, TaskKind, engine_error, not_in_group},
    registry::{of_stream, transition, update_of_stream, with},
};
use crate::{
    Error, Result,
    arguments::refuse,
    constants::*,
    error::fail,
    handles::{HandleKind, Handles},
    settings::settings,
    state::{Context, OpenedEngine, StreamEntry},
};
use ferry_core::{Footprint, Op, OpGroup, OpList, QueueOptions, Recorder, Stream, sync::lock};
use std::{
    any::Any,
    mem,
    sync::{Arc, Mutex},
};

/// A task group that was closed.
pub(crate) struct TaskGroup {
    /// Its handle.
    pub(crate) handle: usize,
    /// The model that it is part of.
    model: usize,
    /// Its ops; `None` if there are none.
    ops: Option<Arc<OpGroup>>,
}

impl HandleKind for TaskGroup {
    const TAG: usize = 8;
}

static GROUPS: Handles<TaskGroup> = Handles::new();

/// Closes the task group that is open on a captured stream.
pub(crate) fn close_group(
    engine: &'static OpenedEngine,
    context: &Context,
    part: &StreamPart,
) -> Result<Arc<TaskGroup>> {
    let ops = part.entry.close_group(part.stream)?;
    let group = if ops.is_empty() {
        None
    } else {
        let stream = group_stream(engine, context, part).map_err(|error| {
            part.entry.break_by(error.code, format!("the task group is lost: {}", error.note))
        })?;
        let group = Arc::new(OpGroup::new(engine.runtime.memory().clone(), stream, ops));
        part.entry.recording.group(part.branch, group.clone());
        Some(group)
    };
    let model = part.entry.model;
    Ok(GROUPS.insert(|handle| TaskGroup { handle, model, ops: group }))
}

/// A stream that runs the ops of a group, and counts among those of the device.
fn group_stream(engine: &'static OpenedEngine, context: &Context, part: &StreamPart) -> Result<Arc<Stream>> {
    let slot = engine.stream_slot(context.device)?;
    let stream = engine.runtime.stream_under(Some(&context.halt), context.device, QueueOptions::default())?;
    part.entry.recording.keep(Box::new(slot));
    Ok(stream)
}

/// The model ends, and its task groups with it.
pub(crate) fn forget_groups(model: usize) {
    let groups = GROUPS.all().into_iter().filter(|group| group.model == model);
    groups.for_each(|group| drop(GROUPS.remove(group.handle)));
}

/// An update that has begun.
pub(crate) struct GroupUpdate {
    /// The context of its stream.
    pub(super) context: usize,
    stream: usize,
    group: Arc<TaskGroup>,
    ops: Mutex<OpList>,
}

/// Takes the work of a stream on which a group is being updated.
struct UpdateRecorder(Arc<GroupUpdate>);

impl Recorder for UpdateRecorder {
    fn record(&self, op: Op, footprint: Footprint) -> ferry_core::Result<()> {
        let takes_copies = settings().is_ok_and(|settings| settings.groups_take_copies);
        let kind = TaskKind::of(&op);
        if !takes_copies {
            return Err(engine_error(&not_in_group(kind)));
        }
        if lock(&self.0.ops).push(op, footprint) { Ok(()) } else { Err(self.refusal()) }
    }

    fn refusal(&self) -> ferry_core::Error {
        let note = format!(
            "stream {:#x} updates a task group, which takes the tasks of a group only: call \
             aclmdlRICaptureTaskUpdateEnd first",
            self.0.stream
        );
        engine_error(&fail(ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT, note))
    }
}

impl GroupUpdate {
    /// Keeps something for as long as the new ops are there.
    pub(crate) fn keep(&self, what: Box<dyn Any + Send + Sync>) {
        lock(&self.ops).keep(what);
    }

    /// The error of a copy or fill of pageable memory.
    pub(super) fn is_pageable(&self) -> Error {
        let note = format!(
            "stream {:#x} updates a task group: host memory that is not page-locked cannot be part of a \
             model. Ways out: allocate it with aclrtMallocHost, or register it with aclrtHostRegister",
            self.stream
        );
        fail(ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC, note)
    }
}

/// Begins to update a group on a stream.
pub(crate) fn begin_update(stream: &Arc<StreamEntry>, group: usize) -> Result<()> {
    let _transition = transition();
    if let Some(part) = of_stream(stream.handle) {
        let note =
            format!("stream {:#x} is captured: update the group on a stream that is not", stream.handle);
        return Err(part.entry.refusal(ACL_ERROR_RT_STREAM_CAPTURED, &note));
    }
    let group = GROUPS
        .get(group)
        .ok_or_else(|| refuse(format!("{group:#x} is no task group, or one whose model was destroyed")))?;
    if update_of_stream(stream.handle).is_some() {
        let note = format!("stream {:#x} updates a task group already", stream.handle);
        return Err(not_now(note));
    }
    let other = with(|registry| {
        registry.updates.values().find(|other| other.group.handle == group.handle).map(|other| other.stream)
    });
    if let Some(other) = other {
        let note = format!("task group {:#x} is being updated on stream {other:#x}", group.handle);
        return Err(not_now(note));
    }
    if stream.stream.recorder().is_some() {
        let note = "the default stream takes no work while a stream of its context is captured: update the \
                    group on another one";
        return Err(fail(ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT, note));
    }
    let update = Arc::new(GroupUpdate {
        context: stream.context,
        stream: stream.handle,
        group,
        ops: Mutex::default(),
    });
    with(|registry| registry.updates.insert(stream.handle, update.clone()));
    stream.stream.divert(Some(Arc::new(UpdateRecorder(update))));
    Ok(())
}

/// Ends the update on a stream: from where the stream is now, executions run the new ops.
pub(crate) fn end_update(stream: &Arc<StreamEntry>) -> Result<()> {
    let Some(update) = take_update(stream) else {
        let note = format!(
            "stream {:#x} updates no task group: call aclmdlRICaptureTaskUpdateBegin first",
            stream.handle
        );
        return Err(not_now(note));
    };
    let new = mem::take(&mut *lock(&update.ops));
    let old = update.group.ops.as_ref().map(|group| group.ops());
    if !old.as_ref().map_or(new.is_empty(), |old| old.is_like(&new)) {
        let note = format!(
            "task group {:#x} has {} tasks, the update has {}: it must have as many, of the same kinds in \
             the same order. The group is unchanged",
            update.group.handle,
            old.map_or(0, |old| old.len()),
            new.len()
        );
        return Err(fail(ACL_ERROR_RT_MODEL_UPDATE_FAILED, note));
    }
    if let Some(group) = update.group.ops.clone() {
        stream.stream.call_internal(move |_| group.replace(new))?;
    }
    Ok(())
}

/// Ends the update on a stream, which changes nothing: the stream ends.
pub(crate) fn cancel_update(stream: &StreamEntry) {
    drop(take_update(stream));
}

fn take_update(stream: &StreamEntry) -> Option<Arc<GroupUpdate>> {
    update_of_stream(stream.handle)?;
    let _transition = transition();
    let update = with(|registry| registry.updates.remove(&stream.handle))?;
    stream.stream.divert(None);
    Some(update)
}

fn not_now(note: String) -> Error {
    fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS, note)
}
