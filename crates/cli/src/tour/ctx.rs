//! What every part is given: the library, devices that are set up, memory and streams on request, and a place where
//! verified bytes are counted.

use std::time::{Duration, Instant};

use super::memory::{Home, Memory};
use super::mirror::compare;
use super::stream::{Event, Stream};
use super::{Proof, Speed};
use crate::error::{Error, Result};
use crate::library::{Handle, Library, call};
use crate::terminal::Terminal;

/// The setting of a part.
pub struct Ctx {
    pub library: &'static Library,
    pub devices: usize,
    quick: bool,
    contexts: Vec<Handle>,
    terminal: Terminal,
    part: &'static str,
    verified: usize,
}

impl Ctx {
    /// Sets every device once and leaves device 0 current.
    pub fn open(library: &'static Library, quick: bool, terminal: Terminal) -> Result<Ctx> {
        let devices = library.device_count()? as usize;
        let contexts = (0..devices).map(|id| context_of(library, id)).collect::<Result<Vec<_>>>()?;
        let ctx = Ctx { library, devices, quick, contexts, terminal, part: "", verified: 0 };
        ctx.current(0)?;
        Ok(ctx)
    }

    /// Resets the devices and shuts the library down.
    pub fn close(&self) -> Result<()> {
        for id in 0..self.devices {
            self.library.reset_device(id as i32)?;
        }
        self.library.finish()
    }

    /// A new part begins: counts from zero.
    pub fn begin(&mut self, part: &'static str) {
        (self.part, self.verified) = (part, 0);
    }

    /// One of two sizes: the usual, or that of `--quick`.
    pub fn size(&self, usual: usize, quick: usize) -> usize {
        if self.quick { quick } else { usual }
    }

    /// A length at which speed means something. Odd on purpose: no rule asks for alignment.
    pub fn large(&self) -> usize {
        self.size(32 << 20, 1 << 20) + 3
    }

    /// A length at which only the bytes matter.
    pub fn small(&self) -> usize {
        self.size(4 << 20, 1 << 20) + 3
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

    /// Says so where host and device memory are one: a part is about their being apart.
    pub fn needs_a_card(&self) -> Result<()> {
        match self.library.run_mode()? {
            0 => Err(Error::NotHere("host and device memory are one here".to_owned())),
            _ => Ok(()),
        }
    }

    /// Makes device 0 current in another thread.
    pub fn entry(&self) -> impl FnOnce() -> Result<()> + Send + use<> {
        // A number here: raw pointers do not go to another thread.
        let (library, context) = (self.library, self.contexts[0] as usize);
        // SAFETY: takes a handle, which the library looks up.
        move || unsafe { call!(library, aclrtSetCurrentContext(context as Handle)) }
    }

    /// Runs `work` with `device` current, then goes back to device 0.
    pub fn on<T>(&self, device: usize, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.current(device)?;
        let outcome = work();
        self.current(0)?;
        outcome
    }

    /// Memory holding `bytes`.
    pub fn memory(&self, home: Home, bytes: &[u8]) -> Result<Memory> {
        let memory = Memory::new(self.library, home, bytes.len())?;
        memory.put(bytes)?;
        Ok(memory)
    }

    /// A new stream of the current device.
    pub fn stream(&self) -> Result<Stream> {
        Stream::new(self.library)
    }

    /// A new event of the current device.
    pub fn event(&self) -> Result<Event> {
        Event::new(self.library)
    }

    /// Fails unless `memory` is, byte for byte, what the mirror says.
    pub fn verify(&mut self, what: &str, memory: &Memory, mirror: &[u8]) -> Result<()> {
        self.verify_bytes(what, &memory.bytes()?, mirror)
    }

    /// The same for bytes already at hand.
    pub fn verify_bytes(&mut self, what: &str, seen: &[u8], mirror: &[u8]) -> Result<()> {
        compare(what, seen, mirror)?;
        self.verified += seen.len();
        Ok(())
    }

    /// Counts bytes that another process of this tour has verified.
    pub fn verified_elsewhere(&mut self, bytes: usize) {
        self.verified += bytes;
    }

    /// Shows on a terminal how far a long part is.
    pub fn progress(&self, done: usize, total: usize) {
        self.terminal.show(&format!("  {} ... {done} of {total}", self.part));
    }

    /// The proof of a part that has nothing to measure.
    pub fn proof(&self) -> Result<Proof> {
        Ok(Proof { verified: self.verified, speed: None })
    }

    /// The proof of a part that moved `bytes` in `time`.
    pub fn moved(&self, bytes: usize, time: Duration) -> Result<Proof> {
        Ok(Proof { verified: self.verified, speed: Some(Speed::Rate { bytes, time }) })
    }

    /// The proof of a part that made `count` calls in `time`.
    pub fn called(&self, count: usize, time: Duration) -> Result<Proof> {
        Ok(Proof { verified: self.verified, speed: Some(Speed::Calls { count, time }) })
    }

    /// Does `work` a few times and answers with the shortest time, which is the one least disturbed by others.
    pub fn best(&self, mut work: impl FnMut() -> Result<()>) -> Result<Duration> {
        let mut best = Duration::MAX;
        for _ in 0..self.size(5, 2) {
            let begin = Instant::now();
            work()?;
            best = best.min(begin.elapsed());
        }
        Ok(best)
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
