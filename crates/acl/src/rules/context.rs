//! Contexts: made, destroyed, made current. Each has a device, a default stream and the streams made while it
//! was current.

use super::graph;
use crate::{
    Result,
    arguments::refuse,
    constants as c,
    error::fail,
    interrupt,
    state::{Context, Here, OpenedEngine, engine},
};
use ferry_core::JoinKind;
use std::sync::Arc;

/// Waits for the streams of a context, whatever comes of their work. Fails if a signal ended that.
pub(crate) fn wait(here: &Here, engine: &OpenedEngine, context: &Context) -> Result<()> {
    for entry in engine.streams.all().iter().filter(|entry| entry.context == context.handle) {
        let work = entry.stream.fence()?;
        match interrupt::wait(here, None, |limit| work.wait(limit)) {
            Err(error) if interrupt::is_interrupted(&error) => return Err(error.into()),
            Err(_) => {}
            Ok(()) => engine.runtime.joined(&*work, JoinKind::Wait),
        }
    }
    Ok(())
}

/// Ends a context with its captures, streams and models, after their work.
pub(crate) fn end(engine: &OpenedEngine, context: &Context) {
    graph::abandon(context);
    engine.end_context(context);
    graph::end_all(context);
}

/// aclrtCreateContext: makes a context and makes it current.
pub fn create(here: &Here, device: i32) -> Result<usize> {
    let engine = engine()?;
    let context = engine.make_context(engine.known_device(device)?, true)?;
    let handle = context.handle;
    here.set_context(context);
    Ok(handle)
}

/// aclrtDestroyContext: explicit ones only.
pub fn destroy(here: &Here, handle: usize) -> Result<()> {
    let engine = engine()?;
    let context = find(engine, handle)?;
    if !context.explicit {
        return Err(refuse(format!(
            "context {handle:#x} is the default one of device {}: use aclrtResetDevice",
            context.device
        )));
    }
    interrupt::before(here, || vec![context.clone()], |context| wait(here, engine, context))?;
    end(engine, &context);
    Ok(())
}

/// aclrtSetCurrentContext.
pub fn set_current(here: &Here, handle: usize) -> Result<()> {
    here.set_context(find(engine()?, handle)?);
    Ok(())
}

/// aclrtGetCurrentContext.
pub fn current(here: &Here) -> Result<usize> {
    Ok(here.context()?.handle)
}

fn find(engine: &OpenedEngine, handle: usize) -> Result<Arc<Context>> {
    engine.contexts.get(handle).ok_or_else(|| {
        fail(c::ACL_ERROR_RT_INVALID_HANDLE, format!("{handle:#x} is no context, or one that was destroyed"))
    })
}
