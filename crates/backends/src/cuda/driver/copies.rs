//! Copies and fills in a stream. All of them return when the work is in the stream, but for pageable memory,
//! where the driver may block until the copy is done.

use super::{
    context::Current,
    errors::meaning,
    handles::StreamHandle,
    table::{BatchAttributes, Rectangle, SUCCESS},
};
use ferry_core::{Result, Rows};

/// The largest pitch that the driver takes.
pub const MAX_PITCH: usize = i32::MAX as usize;

impl Current<'_> {
    /// Copies `len` bytes from `src` to `dst`.
    ///
    /// # Safety
    /// Both ranges stay valid until the stream has done it.
    pub unsafe fn copy(&self, dst: usize, src: usize, len: usize, stream: StreamHandle) -> Result<()> {
        // SAFETY: the caller's promise.
        let code = unsafe { (self.driver().calls.cuMemcpyAsync)(dst, src, len, stream.0) };
        self.check(format_args!("cuMemcpyAsync of {len} bytes from {src:#x} to {dst:#x}"), code)
    }

    /// Copies a rectangle in one call, or row by row where its pitch is more than the driver takes.
    ///
    /// # Safety
    /// All rows stay valid until the stream has done it.
    pub unsafe fn copy_rows(&self, rows: &Rows, stream: StreamHandle) -> Result<()> {
        let Rows { dst, dst_pitch, src, src_pitch, width, height } = *rows;
        if height == 1 || dst_pitch.max(src_pitch) > MAX_PITCH {
            return (0..height).try_for_each(|row| {
                // SAFETY: the caller's promise.
                unsafe { self.copy(dst + row * dst_pitch, src + row * src_pitch, width, stream) }
            });
        }
        // SAFETY: the caller's promise.
        let code = unsafe { (self.driver().calls.cuMemcpy2DAsync)(&Rectangle::from(rows), stream.0) };
        let call =
            format_args!("cuMemcpy2DAsync of {height} rows of {width} bytes from {src:#x} to {dst:#x}");
        self.check(call, code)
    }

    /// Copies many segments in one call, by several copy engines. False if the driver has no such call or
    /// does not take the segments: what it may have begun is in the stream.
    ///
    /// # Safety
    /// All segments stay valid until the stream has done it.
    pub unsafe fn copy_batch(&self, [dsts, srcs, lens]: [&[usize]; 3], stream: StreamHandle) -> Result<bool> {
        let Some(copy) = self.driver().copy_batch else { return Ok(false) };
        assert!(dsts.len() == srcs.len() && srcs.len() == lens.len(), "one of each for every segment");
        let (attributes, first, mut failed) = (BatchAttributes::IN_STREAM_ORDER, 0, 0);
        let ends = (dsts.as_ptr(), srcs.as_ptr(), lens.as_ptr());
        // SAFETY: arrays of one length, with attributes for all segments, copied before the call returns. The
        // caller vouches for what they say.
        let code = unsafe {
            copy(ends.0, ends.1, ends.2, dsts.len(), &attributes, &first, 1, &mut failed, stream.0)
        };
        match meaning(code).is_final {
            true => self.check("cuMemcpyBatchAsync", code).map(|()| true),
            false => Ok(code == SUCCESS),
        }
    }

    /// Whether [`copy_batch`](Self::copy_batch) can do anything.
    pub fn has_copy_batch(&self) -> bool {
        self.driver().copy_batch.is_some()
    }

    /// Sets `count` bytes of device memory.
    ///
    /// # Safety
    /// They stay valid until the stream has done it.
    pub unsafe fn fill_bytes(&self, dst: usize, byte: u8, count: usize, stream: StreamHandle) -> Result<()> {
        // SAFETY: the caller's promise.
        let code = unsafe { (self.driver().calls.cuMemsetD8Async)(dst, byte, count, stream.0) };
        self.check(format_args!("cuMemsetD8Async of {count} bytes at {dst:#x}"), code)
    }

    /// Sets `count` words of device memory.
    ///
    /// # Safety
    /// They stay valid until the stream has done it, and are aligned.
    pub unsafe fn fill_words(&self, dst: usize, word: u32, count: usize, stream: StreamHandle) -> Result<()> {
        // SAFETY: the caller's promise.
        let code = unsafe { (self.driver().calls.cuMemsetD32Async)(dst, word, count, stream.0) };
        self.check(format_args!("cuMemsetD32Async of {count} words at {dst:#x}"), code)
    }
}
