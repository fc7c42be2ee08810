//! Lists that plans are written into at once: slots of a device, so that nothing is copied before a kernel reads them.

use crate::bytes::nontemporal;
use crate::cuda::{
    device::Device,
    stream::list_writer,
    stream::ring::{Entry, FEW, Loan, ROOM},
};
use ferry_core::{Chunk, Segment, SegmentSink, Sizes, sync::Arc};
use std::any::Any;

/// A slot for the list of a plan.
pub struct Page {
    /// None once it was taken out of its plan.
    loan: Option<Loan>,
    // After the loan, whose memory is the device's.
    device: Arc<Device>,
}

impl Page {
    /// One for so many segments, if a kernel would read that many as a list and there is one to spare.
    pub fn lend(device: &Arc<Device>, segments: usize) -> Option<Page> {
        let is_read = (FEW + 1..=ROOM).contains(&segments);
        let loan = if is_read { device.lend().ok().flatten()? } else { return None };
        Some(Page { loan: Some(loan), device: device.clone() })
    }

    /// The slot behind a sink, if it is one of this device. The sink is empty from here on.
    pub fn take(sink: &mut dyn SegmentSink, device: &Arc<Device>) -> Option<Loan> {
        let page = sink.native().downcast_mut::<Page>()?;
        if Arc::ptr_eq(&page.device, device) { page.loan.take() } else { None }
    }
}

impl SegmentSink for Page {
    fn extend(&mut self, segments: &[Segment]) -> bool {
        self.loan.as_mut().is_some_and(|loan| loan.add(Entry::of(segments)))
    }

    #[inline]
    fn extend_chunk(&mut self, chunk: &Chunk<'_>) -> Option<Sizes> {
        let loan = self.loan.as_mut()?;
        let sizes = list_writer::write_chunk(loan.room().first_chunk_mut()?, chunk)?;
        // SAFETY: a whole chunk was written.
        unsafe { loan.wrote(Chunk::LEN) };
        Some(sizes)
    }

    fn finish(&mut self) {
        nontemporal::fence();
    }

    fn segments(&self) -> &[Segment] {
        self.loan.as_ref().map_or(&[], Loan::segments)
    }

    fn native(&mut self) -> &mut dyn Any {
        self
    }
}
