//! cuMemcpyBatchAsync, which drivers older than CUDA 12.8 lack, and its arguments.

use ferry_abi::{Error, Result};

use crate::shape::Segment;

use super::context::CudaDriver;
use super::table::{BatchAttributes, BatchFunction, CudaHandle};

/// The arguments of a batch call.
pub struct CudaBatch {
    dsts: Vec<usize>,
    srcs: Vec<usize>,
    sizes: Vec<usize>,
    attributes: BatchAttributes,
}

impl CudaBatch {
    /// Of segments with addresses.
    pub fn new(segments: &[Segment]) -> CudaBatch {
        CudaBatch {
            dsts: segments.iter().map(|segment| segment.dst).collect(),
            srcs: segments.iter().map(|segment| segment.src).collect(),
            sizes: segments.iter().map(|segment| segment.len).collect(),
            attributes: BatchAttributes::in_stream_order(),
        }
    }
}

impl CudaDriver {
    /// Fails where the driver has no cuMemcpyBatchAsync.
    pub fn must_have_batches(&self) -> Result<()> {
        self.batch_function().map(drop)
    }

    fn batch_function(&self) -> Result<BatchFunction> {
        let why = "no cuMemcpyBatchAsync: this driver is older than CUDA 12.8";
        self.batch.ok_or_else(|| Error::NotHere(why.to_owned()))
    }

    /// cuMemcpyBatchAsync.
    ///
    /// # Safety
    /// All addresses are of memory that lives until the stream has passed the copies, and the context is
    /// current.
    pub(super) unsafe fn copy_batch(&self, stream: CudaHandle, batch: &mut CudaBatch) -> Result<()> {
        let call = self.batch_function()?;
        let (dsts, srcs, sizes) =
            (batch.dsts.as_mut_ptr(), batch.srcs.as_mut_ptr(), batch.sizes.as_mut_ptr());
        let (count, mut first, mut failed) = (batch.sizes.len(), 0, usize::MAX);
        let attributes = &mut batch.attributes;
        // SAFETY: the arrays are as long as said; the rest is passed on to the caller.
        let code = unsafe { call(dsts, srcs, sizes, count, attributes, &mut first, 1, &mut failed, stream) };
        self.check("cuMemcpyBatchAsync", code)
    }
}
