//! Copies of pageable memory.

use super::queue::Lane;
use ferry_core::{Plan, Result, Route};
use std::ptr;

impl Lane {
    /// A copy between pageable memory and a device. The driver refuses ranges that are page-locked in part; those go through a
    /// buffer of ours, piece by piece.
    pub(super) fn copy_plain(&self, plan: &Plan) -> Result<()> {
        self.copy(plan).or_else(|why| match plan.route() {
            Route::HostToDevice { .. } => self.copy_staged(plan, true),
            Route::DeviceToHost { .. } => self.copy_staged(plan, false),
            _ => Err(why),
        })
    }

    fn copy_staged(&self, plan: &Plan, to_device: bool) -> Result<()> {
        const PIECE: usize = 1 << 20;
        let mut buffer =
            vec![0_u8; plan.pieces().iter().map(|rows| rows.width).max().unwrap_or(0).min(PIECE)];
        let at = buffer.as_mut_ptr() as usize;
        for rows in plan.pieces().iter() {
            let pieces = |row| (0..rows.width).step_by(PIECE).map(move |done| (row, done));
            for (row, done) in (0..rows.height).flat_map(pieces) {
                let (dst, src) =
                    (rows.dst + row * rows.dst_pitch + done, rows.src + row * rows.src_pitch + done);
                let len = PIECE.min(rows.width - done);
                if to_device {
                    // SAFETY: a piece of a row of the plan, which is host memory here, into a buffer that is as long.
                    unsafe { ptr::copy_nonoverlapping(src as *const u8, at as *mut u8, len) };
                    self.copy_row(dst, at, len)?;
                } else {
                    self.copy_row(at, src, len)?;
                }
                // SAFETY: the stream is alive.
                let code = unsafe { (self.device.driver.calls.cuStreamSynchronize)(self.stream) };
                self.device.check("cuStreamSynchronize", code)?;
                if !to_device {
                    // SAFETY: as above, the other way.
                    unsafe { ptr::copy_nonoverlapping(at as *const u8, dst as *mut u8, len) };
                }
            }
        }
        Ok(())
    }
}
