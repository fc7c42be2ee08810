//! What every part is given: the library in use, sizes, and the count of verified bytes.

use std::ops::Deref;
use std::time::{Duration, Instant};

use ferry_abi::memory::Block;
use ferry_abi::session::Session;
use ferry_abi::{Error, Library, Result};
use ferry_terminal::Terminal;

use crate::mirror::compare;
use crate::proof::{Proof, Speed};

/// The setting of a part.
pub struct Ctx {
    session: Session,
    quick: bool,
    terminal: Terminal,
    part: &'static str,
    verified: usize,
}

/// A part calls the methods of the session as its own.
impl Deref for Ctx {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

impl Ctx {
    /// Sets every device once and leaves device 0 current.
    pub fn open(library: &'static Library, quick: bool, terminal: Terminal) -> Result<Ctx> {
        Ok(Ctx { session: Session::open(library)?, quick, terminal, part: "", verified: 0 })
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

    /// Fails with `NotHere` on boards, where host and device memory are one.
    pub fn needs_a_card(&self) -> Result<()> {
        match self.library.run_mode()? {
            0 => Err(Error::NotHere("host and device memory are one here".to_owned())),
            _ => Ok(()),
        }
    }

    /// Fails unless `memory` is, byte for byte, what the mirror says.
    pub fn verify(&mut self, what: &str, memory: &Block, mirror: &[u8]) -> Result<()> {
        self.verify_bytes(what, &memory.bytes()?, mirror)
    }

    /// Fails unless the bytes `seen` are what the mirror says.
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

    /// Does `work` a few times and returns the shortest time, which is the least disturbed.
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
