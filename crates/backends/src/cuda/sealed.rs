//! Copies whose addresses are read when they run: through descriptors, by the GPU, and through pointer cells, by the host.

use super::{device::Reports, queue::Lane};
use ferry_core::{
    Indirect, Result, Ticket,
    indirect::{self, Cell},
    sync::lock,
};
use std::ptr;

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

    /// Nothing vouches for a pointer in a cell, and a wrong one would break the GPU's context. So the host reads the cells
    /// when the stream gets here, and the core checks what they hold. The lane is held, so the stream is ours.
    pub(super) fn copy_cells(&self, dst: Cell, src: Cell, through: &Indirect) -> Result<()> {
        let _here = self.device.enter()?;
        let (mut to, mut from) = (0_u64, 0_u64);
        self.copy_row((&raw mut to) as usize, dst.at, 8)?;
        self.copy_row((&raw mut from) as usize, src.at, 8)?;
        // SAFETY: the stream is alive.
        let code = unsafe { (self.device.driver.calls.cuStreamSynchronize)(self.stream) };
        self.device.check("reading the cells", code)?;
        // SAFETY: both are here, and the driver has just written them.
        let (to, from) = unsafe { (ptr::read_volatile(&to), ptr::read_volatile(&from)) };
        self.copy(&through.resolve(|addr| if addr == dst.at { to } else { from })?)
    }
}
