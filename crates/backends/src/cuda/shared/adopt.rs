//! Which streams of other libraries can be shared.

use crate::cuda::{
    driver::{Current, StreamHandle},
    stream::device::Device,
};
use crate::os::probe;
use ferry_core::{Access, Kind, Result};

/// The stream that another library knows by this number, if it can be shared.
///
/// # Safety
/// As [`NativeStreams::adopt`](ferry_core::NativeStreams::adopt).
pub unsafe fn adopt(device: &Device, native: usize) -> Result<StreamHandle> {
    let current = device.enter()?;
    // SAFETY: the caller's promise.
    let stream = unsafe { StreamHandle::of_number(native) };
    if stream == StreamHandle::PER_THREAD {
        let note =
            "CUDA's per-thread default stream is another one in each thread: adopt a stream of its own";
        return Err(Kind::BadRoute.because(note));
    }
    if stream != StreamHandle::LEGACY {
        probe::accessible(native, size_of::<usize>(), Access::Read)?;
        refuse_context(&current, stream)?;
    }
    refuse_capture(&current, stream)?;
    Ok(stream)
}

/// A stream of another context, perhaps of another GPU.
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

/// A stream that is being captured takes work into a graph, to be run at an unknown time: no promise could be
/// kept.
pub fn refuse_capture(current: &Current<'_>, stream: StreamHandle) -> Result<()> {
    if !current.is_captured(stream)? {
        return Ok(());
    }
    let note = format!(
        "CUDA stream {:#x} is being captured into a graph: it takes no copies of ours meanwhile",
        stream.number()
    );
    Err(Kind::Captured.because(note))
}
