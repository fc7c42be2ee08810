//! Copies whose addresses are read when they run: through descriptors, by the GPU, and through pointer cells or where memory is
//! mapped, by the host.

use super::{device::Reports, queue::Lane};
use ferry_core::{
    Indirect, Result, Ticket,
    indirect::{self, DESCRIPTOR_WORDS, Through},
    sync::lock,
};
use std::sync::atomic::{AtomicU64, Ordering};

impl Lane {
    /// The descriptor is read by a kernel when it runs. Its seal says that the core has checked what it names.
    pub(super) fn copy_sealed(&self, ticket: Ticket, at: usize, through: Indirect) -> Result<()> {
        let kernels = self.device.kernels()?;
        let reports = match self.reports.get() {
            Some(reports) => reports,
            None => self.reports.get_or_init({
                let made = Reports::new(&self.device)?;
                || made
            }),
        };
        let key = through.memory.seal_key();
        let [mark, ..] = indirect::seal(key, 0, 0, 0);
        lock(&self.ledger).expect(ticket, at, through);
        self.start(kernels.sealed, &[at as u64, mark, key, reports.at() as u64, ticket])
    }

    /// Nothing vouches for a pointer in a cell, and a wrong one would break the GPU's context; and mapped memory is not where
    /// its addresses say. So the host reads the addresses when the stream gets here, and the core checks and translates them.
    /// The lane is held, so the stream is ours.
    pub(super) fn copy_read(&self, through: &Indirect) -> Result<()> {
        let _here = self.device.enter()?;
        let at: Vec<usize> = match through.through {
            Through::Descriptor { at, .. } => (0..DESCRIPTOR_WORDS).map(|index| at + 8 * index).collect(),
            Through::Cells { dst, src, .. } => vec![dst.at, src.at],
        };
        let words: Vec<AtomicU64> = at.iter().map(|_| AtomicU64::new(0)).collect();
        for (word, at) in words.iter().zip(&at) {
            self.copy_row(word.as_ptr() as usize, *at, 8)?;
        }
        // SAFETY: the stream is alive.
        let code = unsafe { (self.device.driver.calls.cuStreamSynchronize)(self.stream) };
        self.device.check("reading the addresses of a copy", code)?;
        let word = |addr| at.iter().position(|at| *at == addr).map(|index| &words[index]);
        self.copy(&through.resolve(|addr| word(addr).expect("read above").load(Ordering::Relaxed))?)
    }
}
