//! The library in use: every device set once, its default context at hand, memory and streams on request.

use crate::error::{Error, Result};
use crate::library::Library;
use crate::memory::{Block, Home};
use crate::stream::{Event, Stream};
use crate::types::Handle;

/// A library whose devices are all set up.
pub struct Session {
    /// The library.
    pub library: &'static Library,
    /// How many devices there are.
    pub devices: usize,
    /// The default context of each device.
    contexts: Vec<Handle>,
}

impl Session {
    /// Sets every device once and leaves device 0 current.
    pub fn open(library: &'static Library) -> Result<Session> {
        let devices = library.device_count()? as usize;
        let contexts = (0..devices).map(|id| context_of(library, id)).collect::<Result<Vec<_>>>()?;
        let session = Session { library, devices, contexts };
        session.current(0)?;
        Ok(session)
    }

    /// Resets the devices and shuts the library down.
    pub fn close(&self) -> Result<()> {
        for id in 0..self.devices {
            self.library.reset_device(id as i32)?;
        }
        self.library.finish()
    }

    /// Makes the default context of `device` current in this thread.
    pub fn current(&self, device: usize) -> Result<()> {
        let Some(context) = self.contexts.get(device) else {
            return Err(Error::NotHere(format!("needs {} devices, there are {}", device + 1, self.devices)));
        };
        // SAFETY: takes a handle, which the library looks up.
        let code = unsafe { (self.library.functions.aclrtSetCurrentContext)(*context) };
        self.library.check("aclrtSetCurrentContext", code)
    }

    /// Makes device 0 current in another thread.
    pub fn entry(&self) -> impl Fn() -> Result<()> + Send + use<> {
        // A number here, since raw pointers are not `Send`.
        let (library, context) = (self.library, self.contexts[0] as usize);
        // SAFETY: takes a handle, which the library looks up.
        move || unsafe { crate::call!(library, aclrtSetCurrentContext(context as Handle)) }
    }

    /// Runs `work` with `device` current, then goes back to device 0.
    pub fn on<T>(&self, device: usize, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.current(device)?;
        let outcome = work();
        self.current(0)?;
        outcome
    }

    /// A new block that holds `bytes`.
    pub fn block(&self, home: Home, bytes: &[u8]) -> Result<Block> {
        let block = Block::new(self.library, home, bytes.len())?;
        block.put(bytes)?;
        Ok(block)
    }

    /// A new stream of the current device.
    pub fn stream(&self) -> Result<Stream> {
        Stream::new(self.library)
    }

    /// A new event of the current device.
    pub fn event(&self) -> Result<Event> {
        Event::new(self.library)
    }
}

fn context_of(library: &Library, device: usize) -> Result<Handle> {
    library.set_device(device as i32)?;
    let mut context: Handle = std::ptr::null_mut();
    // SAFETY: `context` is writable for the time of the call.
    let code = unsafe { (library.functions.aclrtGetCurrentContext)(&mut context) };
    library.check("aclrtGetCurrentContext", code)?;
    Ok(context)
}
