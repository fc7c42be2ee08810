//! Task groups: parts of a captured model whose arguments can be changed later.
//!
//! Groups are made of operators, and there are none here: a group is empty, and so is its update. With
//! `FERRY_TASK_GROUPS=copies` it may have copies and fills.

use crate::{
    Result,
    capture::{self, StreamPart},
    constants::*,
    error::fail,
    state::{Here, engine},
};

/// aclmdlRICaptureTaskGrpBegin.
pub fn begin(here: &Here, stream: usize) -> Result<()> {
    let part = captured(here.stream(stream)?.handle)?;
    part.entry.open_group(part.stream)
}

/// aclmdlRICaptureTaskGrpEnd: the handle of the group.
pub fn end(here: &Here, stream: usize) -> Result<usize> {
    let part = captured(here.stream(stream)?.handle)?;
    Ok(capture::close_group(engine()?, &*here.context()?, &part)?.handle)
}

/// The part of a stream in its capture.
fn captured(stream: usize) -> Result<StreamPart> {
    capture::of_stream(stream).filter(|part| part.entry.mode.is_some()).ok_or_else(|| {
        let note = format!("stream {stream:#x} is not captured: call aclmdlRICaptureBegin first");
        fail(ACL_ERROR_RT_STREAM_NOT_CAPTURED, note)
    })
}

/// aclmdlRICaptureTaskUpdateBegin.
pub fn update_begin(here: &Here, stream: usize, group: usize) -> Result<()> {
    capture::begin_update(&here.stream(stream)?, group)
}

/// aclmdlRICaptureTaskUpdateEnd: the update is a task of the stream.
pub fn update_end(here: &Here, stream: usize) -> Result<()> {
    capture::end_update(&here.stream(stream)?)
}
