//! Events of the driver: points of streams.

use std::sync::Arc;
use std::time::Duration;

use ferry_abi::Result;

use super::context::CudaDriver;
use super::table::{CuResult, CudaHandle};

/// An event, destroyed when dropped.
pub struct CudaEvent {
    cuda: Arc<CudaDriver>,
    handle: CudaHandle,
}

impl CudaEvent {
    /// One that remembers when it was reached.
    pub fn timed(cuda: &Arc<CudaDriver>) -> Result<CudaEvent> {
        CudaEvent::new(cuda, 0)
    }

    /// One that streams wait for.
    pub fn untimed(cuda: &Arc<CudaDriver>) -> Result<CudaEvent> {
        const DISABLE_TIMING: u32 = 2;
        CudaEvent::new(cuda, DISABLE_TIMING)
    }

    /// One whose waiting thread sleeps.
    pub fn of_sleepers(cuda: &Arc<CudaDriver>) -> Result<CudaEvent> {
        const BLOCKING_SYNC: u32 = 1;
        const DISABLE_TIMING: u32 = 2;
        CudaEvent::new(cuda, BLOCKING_SYNC | DISABLE_TIMING)
    }

    fn new(cuda: &Arc<CudaDriver>, flags: u32) -> Result<CudaEvent> {
        let mut handle = 0;
        cuda.within(|| {
            // SAFETY: `handle` is writable, and the context is current.
            cuda.check("cuEventCreate", unsafe { (cuda.functions.cuEventCreate)(&mut handle, flags) })
        })?;
        Ok(CudaEvent { cuda: cuda.clone(), handle })
    }

    pub(super) fn handle(&self) -> CudaHandle {
        self.handle
    }

    /// Waits for what was submitted before it was recorded.
    pub fn synchronise(&self) -> Result<()> {
        // SAFETY: the event lives.
        let code = unsafe { (self.cuda.functions.cuEventSynchronize)(self.handle) };
        self.cuda.check("cuEventSynchronize", code)
    }

    /// Whether what was submitted before it was recorded is still outstanding.
    pub fn is_outstanding(&self) -> bool {
        const NOT_READY: CuResult = 600;
        // SAFETY: the event lives.
        (unsafe { (self.cuda.functions.cuEventQuery)(self.handle) }) == NOT_READY
    }

    /// The time from another one, where both are timed and have been reached.
    pub fn since(&self, begin: &CudaEvent) -> Result<Duration> {
        let (mut ms, ask) = (0.0, self.cuda.functions.cuEventElapsedTime);
        // SAFETY: `ms` is writable, and both events live.
        self.cuda.check("cuEventElapsedTime", unsafe { ask(&mut ms, begin.handle, self.handle) })?;
        Ok(Duration::from_secs_f64(f64::from(ms) / 1e3))
    }
}

impl Drop for CudaEvent {
    fn drop(&mut self) {
        let _ = self.cuda.within(|| {
            // SAFETY: made by `new` and destroyed once; the driver keeps what streams still need of it.
            let code = unsafe { (self.cuda.functions.cuEventDestroy_v2)(self.handle) };
            self.cuda.check("cuEventDestroy", code)
        });
    }
}
