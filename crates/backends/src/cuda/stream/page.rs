//! Lists that plans are written into at once: slots of a device, so that nothing is copied before a kernel reads them.

use crate::bytes::nontemporal;
use crate::cuda::{
    device::Device,
    stream::ring::{Entry, FEW, Loan, ROOM},
};
use ferry_core::{Line, Sheet, sync::Arc};
use std::{any::Any, mem::MaybeUninit};

/// A slot for the list of a plan.
pub struct Page {
    loan: Loan,
    // After the loan, whose memory is the device's.
    device: Arc<Device>,
}

impl Page {
    /// One for so many lines, if a kernel would read that many as a list and there is one to spare.
    pub fn lend(device: &Arc<Device>, lines: usize) -> Option<Page> {
        let is_read = (FEW + 1..=ROOM).contains(&lines);
        let loan = if is_read { device.lend().ok().flatten()? } else { return None };
        Some(Page { loan, device: device.clone() })
    }

    /// The slot behind a sheet, if it is one of this device.
    pub fn of(sheet: Box<dyn Sheet>, device: &Arc<Device>) -> Result<Loan, Box<dyn Sheet>> {
        let is_ours = (&*sheet as &dyn Any)
            .downcast_ref::<Page>()
            .is_some_and(|page| Arc::ptr_eq(&page.device, device));
        if !is_ours {
            return Err(sheet);
        }
        let page = (sheet as Box<dyn Any>).downcast::<Page>().expect("looked at above");
        Ok(page.loan)
    }
}

impl Sheet for Page {
    fn write(&mut self, lines: &[Line]) -> bool {
        self.loan.add(Entry::of(lines))
    }

    fn room(&mut self) -> &mut [MaybeUninit<Line>] {
        self.loan.room()
    }

    unsafe fn wrote(&mut self, count: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.loan.wrote(count) };
    }

    fn settle(&self) {
        nontemporal::fence();
    }

    fn lines(&self) -> &[Line] {
        self.loan.lines()
    }
}
