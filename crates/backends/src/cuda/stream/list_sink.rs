//! Lists that plans are written into at once, in slots of a device, so that nothing is copied before a kernel
//! reads them.

use crate::bytes::nontemporal;
use crate::cuda::{
    stream::device::Device,
    stream::list_slots::{INLINE_MAX, LIST_MAX, ListSlot},
    stream::list_writer,
};
use ferry_core::{Chunk, Segment, SegmentSink, Sizes, sync::Arc};
use std::any::Any;

/// A slot for the list of a plan.
pub struct ListSink {
    /// None once it was taken out of its plan.
    slot: Option<ListSlot>,
    // After the slot, whose memory is the device's.
    device: Arc<Device>,
}

impl ListSink {
    /// One for so many segments, if a kernel would read that many as a list and there is one to spare.
    pub fn lend(device: &Arc<Device>, segments: usize) -> Option<ListSink> {
        let is_read = (INLINE_MAX + 1..=LIST_MAX).contains(&segments);
        let slot = if is_read { device.list_slot().ok().flatten()? } else { return None };
        Some(ListSink { slot: Some(slot), device: device.clone() })
    }

    /// The slot behind a sink, if it is one of this device. The sink is empty from here on.
    pub fn take(sink: &mut dyn SegmentSink, device: &Arc<Device>) -> Option<ListSlot> {
        let list = sink.native().downcast_mut::<ListSink>()?;
        if Arc::ptr_eq(&list.device, device) { list.slot.take() } else { None }
    }
}

impl SegmentSink for ListSink {
    fn extend(&mut self, segments: &[Segment]) -> bool {
        self.slot.as_mut().is_some_and(|slot| slot.add(segments))
    }

    #[inline]
    fn extend_chunk(&mut self, chunk: &Chunk<'_>) -> Option<Sizes> {
        let slot = self.slot.as_mut()?;
        let sizes = list_writer::write_chunk(slot.room().first_chunk_mut()?, chunk)?;
        // SAFETY: a whole chunk was written.
        unsafe { slot.wrote(Chunk::LEN) };
        Some(sizes)
    }

    fn finish(&mut self) {
        nontemporal::fence();
    }

    fn segments(&self) -> &[Segment] {
        self.slot.as_ref().map_or(&[], ListSlot::segments)
    }

    fn native(&mut self) -> &mut dyn Any {
        self
    }
}
