//! Contexts: each has a device, a default stream and the streams made while it was current.

use crate::{
    Result,
    call::refuse,
    constants as c,
    error::fail,
    handles::Named,
    interrupt,
    params::Params,
    state::{Engine, bad_device, engine, with_here},
    stream::StreamEntry,
};
use ferry_core::Halt;
use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, Ordering},
};

/// A context of a device.
pub struct Context {
    pub(crate) handle: usize,
    pub(crate) device: u32,
    pub(crate) params: Params,
    explicit: bool,
    alive: AtomicBool,
    /// What stops all streams of the context when one that is to do so fails.
    pub(crate) halt: Arc<Halt>,
    default_stream: OnceLock<Arc<StreamEntry>>,
}

impl Named for Context {
    const TAG: usize = 1;
}

impl Context {
    /// A context with its default stream.
    pub(crate) fn make(engine: &Engine, device: u32, explicit: bool) -> Result<Arc<Context>> {
        let context = engine.contexts.insert(|handle| Context {
            handle,
            device,
            params: Params::default(),
            explicit,
            alive: AtomicBool::new(true),
            halt: Halt::new(),
            default_stream: OnceLock::new(),
        });
        match StreamEntry::make(engine, &context, 0, true) {
            Ok(stream) => {
                let _ = context.default_stream.set(stream);
                engine.account(device).enter();
                Ok(context)
            }
            Err(error) => {
                engine.contexts.remove(context.handle);
                Err(error)
            }
        }
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.alive.load(Ordering::Acquire)
    }

    pub(crate) fn default_stream(&self) -> Result<Arc<StreamEntry>> {
        self.default_stream.get().cloned().ok_or_else(|| refuse("the context has no default stream"))
    }

    /// Waits for the streams of the context, whatever comes of their work. Fails if a signal ended that.
    pub(crate) fn wait(&self, engine: &Engine) -> Result<()> {
        for entry in engine.streams.all().iter().filter(|entry| entry.context == self.handle) {
            let work = entry.stream.fence()?;
            match interrupt::wait(None, |limit| work.wait(limit)) {
                Err(error) if interrupt::is_interrupted(&error) => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    }

    /// Waits for the streams of the context and takes them and itself out of the tables.
    pub(crate) fn end(&self, engine: &Engine) -> Result<()> {
        if self.alive.swap(false, Ordering::AcqRel) {
            engine.account(self.device).leave();
        }
        engine.contexts.remove(self.handle);
        for stream in engine.streams.all() {
            if stream.context == self.handle {
                let _ = stream.stream.synchronize(None);
                stream.end(engine);
            }
        }
        Ok(())
    }
}

/// aclrtCreateContext: makes a context and makes it current.
pub fn create(device: i32) -> Result<usize> {
    let engine = engine()?;
    let id = u32::try_from(device).map_err(|_| bad_device(device.into(), engine.devices.len()))?;
    engine.device(id)?;
    let context = Context::make(engine, id, true)?;
    let handle = context.handle;
    with_here(|here| {
        *here.context.borrow_mut() = Some(context);
        Ok(handle)
    })
}

/// aclrtDestroyContext: explicit ones only.
pub fn destroy(handle: usize) -> Result<()> {
    let engine = engine()?;
    let context = find(engine, handle)?;
    if !context.explicit {
        return Err(refuse(format!(
            "context {handle:#x} is the default one of device {}: use aclrtResetDevice",
            context.device
        )));
    }
    interrupt::before(|| vec![context.clone()], |context| context.wait(engine))?;
    context.end(engine)
}

/// aclrtSetCurrentContext.
pub fn set_current(handle: usize) -> Result<()> {
    let context = find(engine()?, handle)?;
    with_here(|here| {
        *here.context.borrow_mut() = Some(context);
        Ok(())
    })
}

/// aclrtGetCurrentContext.
pub fn current() -> Result<usize> {
    with_here(|here| Ok(here.context()?.handle))
}

fn find(engine: &Engine, handle: usize) -> Result<Arc<Context>> {
    engine.contexts.get(handle).ok_or_else(|| {
        fail(c::ACL_ERROR_RT_INVALID_HANDLE, format!("{handle:#x} is no context, or one that was destroyed"))
    })
}
