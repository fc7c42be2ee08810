//! Streams of other libraries: which of them can be shared.

use crate::cuda::{
    driver::{Current, StreamHandle},
    stream::cuda_stream::{Stream, StreamKind},
    stream::device::Device,
};
use crate::os::probe;
use ferry_core::{Access, DeviceId, Kind, Result, sync::Arc};

impl Stream {
    /// The stream that another library knows by this number, if it can be shared.
    ///
    /// # Safety
    /// As [`NativeStreams::adopt`](ferry_core::NativeStreams::adopt).
    pub unsafe fn adopt(device: &Arc<Device>, device_id: DeviceId, native: usize) -> Result<Arc<Stream>> {
        let current = device.enter()?;
        // SAFETY: the caller's promise.
        let handle = unsafe { StreamHandle::of_number(native) };
        if handle == StreamHandle::PER_THREAD {
            let note =
                "CUDA's per-thread default stream is another one in each thread: adopt a stream of its own";
            return Err(Kind::BadRoute.because(note));
        }
        if handle != StreamHandle::LEGACY {
            probe::accessible(native, size_of::<usize>(), Access::Read)?;
            refuse_context(&current, handle)?;
        }
        refuse_capture(&current, handle)?;
        Ok(Stream::over(device, device_id, handle, StreamKind::Shared { is_theirs: true }))
    }

    /// Refuses a stream that is being captured: it takes work into a graph, to be run at an unknown time, and
    /// no promise could be kept.
    pub fn refuse_capture(&self) -> Result<()> {
        refuse_capture(&self.device().enter()?, self.handle)
    }
}

/// Refuses a stream of another context, perhaps of another GPU.
fn refuse_context(current: &Current<'_>, stream: StreamHandle) -> Result<()> {
    let (own, number) = (current.context().handle(), stream.number());
    let Some(context) = current.context_of(stream)?.filter(|context| *context != own) else {
        return Ok(());
    };
    let note = format!(
        "CUDA stream {number:#x} belongs to context {context:#x}: it must be of the primary context of the \
         current device's GPU, {own:#x}"
    );
    Err(Kind::BadRoute.because(note))
}

fn refuse_capture(current: &Current<'_>, stream: StreamHandle) -> Result<()> {
    if !current.is_captured(stream)? {
        return Ok(());
    }
    let note = format!(
        "CUDA stream {:#x} is being captured into a graph: it takes no copies of ours meanwhile",
        stream.number()
    );
    Err(Kind::Captured.because(note))
}
