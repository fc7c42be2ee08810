//! Task groups: parts of a captured model whose arguments can be changed later.
//!
//! Groups are made of operators, and there are none here: a group is empty, and so is its update.

use crate::{
    Result,
    arguments::refuse,
    capture,
    constants::*,
    error::fail,
    handles::{HandleKind, Handles},
    state::Here,
};
use ferry_core::sync::lock;
use std::{
    collections::HashMap,
    sync::{LazyLock, Mutex},
};

/// A task group that was closed.
struct TaskGroup {
    handle: usize,
}

impl HandleKind for TaskGroup {
    const TAG: usize = 8;
}

static GROUPS: Handles<TaskGroup> = Handles::new();

/// The groups that are being updated, by the handle of the stream.
static UPDATES: LazyLock<Mutex<HashMap<usize, usize>>> = LazyLock::new(Mutex::default);

/// aclmdlRICaptureTaskGrpBegin.
pub fn begin(here: &Here, stream: usize) -> Result<()> {
    let entry = here.stream(stream)?;
    captured(entry.handle)?.open_group(entry.handle)
}

/// aclmdlRICaptureTaskGrpEnd: the handle of the group.
pub fn end(here: &Here, stream: usize) -> Result<usize> {
    let entry = here.stream(stream)?;
    captured(entry.handle)?.close_group(entry.handle)?;
    Ok(GROUPS.insert(|handle| TaskGroup { handle }).handle)
}

/// The capture of a stream.
fn captured(stream: usize) -> Result<std::sync::Arc<capture::CaptureEntry>> {
    let part = capture::of_stream(stream).filter(|part| part.entry.mode.is_some());
    part.map(|part| part.entry)
        .ok_or_else(|| fail(ACL_ERROR_RT_STREAM_NOT_CAPTURED, format!("stream {stream:#x} is not captured")))
}

/// aclmdlRICaptureTaskUpdateBegin.
pub fn update_begin(here: &Here, stream: usize, group: usize) -> Result<()> {
    let entry = here.stream(stream)?;
    if let Some(part) = capture::of_stream(entry.handle) {
        let note = format!(
            "stream {:#x} is captured: update on another one ({})",
            entry.handle,
            part.entry.describe()
        );
        return Err(fail(ACL_ERROR_RT_STREAM_CAPTURED, note));
    }
    let group = GROUPS.get(group).ok_or_else(|| refuse(format!("{group:#x} is no task group")))?;
    let mut updates = lock(&UPDATES);
    if updates.contains_key(&entry.handle) || updates.values().any(|other| *other == group.handle) {
        let note = format!("stream {:#x} or group {:#x} is being updated", entry.handle, group.handle);
        return Err(fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS, note));
    }
    updates.insert(entry.handle, group.handle);
    Ok(())
}

/// aclmdlRICaptureTaskUpdateEnd.
pub fn update_end(here: &Here, stream: usize) -> Result<()> {
    let entry = here.stream(stream)?;
    match lock(&UPDATES).remove(&entry.handle) {
        Some(_) => Ok(()),
        None => {
            let note = format!("stream {:#x} updates no task group", entry.handle);
            Err(fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS, note))
        }
    }
}
