//! What the GPU does by itself, put into the stream of a lane.

use super::{
    driver::{Handle, MEMORY_UNIFIED, Rectangle},
    host::Piece,
    queue::Lane,
};
use ferry_core::{Plan, Result, Route, Rows};
use std::{ffi::c_void, ptr};

/// Threads of the one block that a kernel of ours runs as.
const THREADS: u32 = 1024;
/// The largest pitch that the driver takes.
const MAX_PITCH: usize = i32::MAX as usize;

impl Lane {
    /// A copy between device memory and page-locked or device memory.
    pub(super) fn copy(&self, plan: &Plan) -> Result<()> {
        let within = matches!(plan.route(), Route::DeviceToDevice { from, to } if from == to);
        plan.pieces().iter().try_for_each(|rows| match rows.height {
            1 if within && rows.dst.abs_diff(rows.src) < rows.width => {
                let args = [rows.dst, rows.src, rows.width].map(|arg| arg as u64);
                self.start(self.device.kernels()?.within, &args)
            }
            1 => self.copy_row(rows.dst, rows.src, rows.width),
            _ if rows.dst_pitch.max(rows.src_pitch) <= MAX_PITCH => self.copy_rectangle(&rows),
            height => (0..height).try_for_each(|row| {
                self.copy_row(rows.dst + row * rows.dst_pitch, rows.src + row * rows.src_pitch, rows.width)
            }),
        })
    }

    pub(super) fn copy_row(&self, dst: usize, src: usize, len: usize) -> Result<()> {
        // SAFETY: a row of a plan: both ranges stay valid until the op has passed.
        let code = unsafe { (self.device.driver.calls.cuMemcpyAsync)(dst, src, len, self.stream) };
        self.device.check("cuMemcpyAsync", code)
    }

    fn copy_rectangle(&self, rows: &Rows) -> Result<()> {
        let rectangle = Rectangle {
            src_type: MEMORY_UNIFIED,
            src_device: rows.src,
            src_pitch: rows.src_pitch,
            dst_type: MEMORY_UNIFIED,
            dst_device: rows.dst,
            dst_pitch: rows.dst_pitch,
            width: rows.width,
            height: rows.height,
            ..Rectangle::default()
        };
        // SAFETY: a rectangle of a plan: all rows stay valid until the op has passed.
        let code = unsafe { (self.device.driver.calls.cuMemcpy2DAsync)(&rectangle, self.stream) };
        self.device.check("cuMemcpy2DAsync", code)
    }

    /// A piece of a fill of device memory.
    pub(super) fn fill(&self, piece: Piece) -> Result<()> {
        let calls = &self.device.driver.calls;
        match piece {
            Piece::Bytes { dst, byte, count } => {
                // SAFETY: a piece of a fill: it stays valid until the op has passed.
                let code = unsafe { (calls.cuMemsetD8Async)(dst, byte, count, self.stream) };
                self.device.check("cuMemsetD8Async", code)
            }
            Piece::Words { dst, word, count } => {
                // SAFETY: as above, and aligned to its words.
                let code = unsafe { (calls.cuMemsetD32Async)(dst, word, count, self.stream) };
                self.device.check("cuMemsetD32Async", code)
            }
        }
    }

    /// Launches a kernel of ours as one block.
    pub(super) fn start(&self, kernel: Handle, args: &[u64]) -> Result<()> {
        let mut args: Vec<_> = args.iter().map(arg).collect();
        self.start_blocks(kernel, 1, &mut args)
    }

    pub(super) fn start_blocks(&self, kernel: Handle, blocks: u32, args: &mut [*mut c_void]) -> Result<()> {
        // SAFETY: the kernel takes these arguments, of these sizes, and they are copied before the call returns; what they
        // point at stays valid until the op has passed.
        let code = unsafe {
            let launch = self.device.driver.calls.cuLaunchKernel;
            launch(kernel, blocks, 1, 1, THREADS, 1, 1, 0, self.stream, args.as_mut_ptr(), ptr::null_mut())
        };
        self.device.check("cuLaunchKernel", code)
    }
}

/// Where an argument of a kernel is. The driver only reads it.
pub(super) fn arg<T>(value: &T) -> *mut c_void {
    ptr::from_ref(value).cast_mut().cast()
}
