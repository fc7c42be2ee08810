//! Graphs of the driver, which it may lack.

use ferry_abi::{Error, Result};

use crate::shape::Segment;

use super::context::CudaDriver;
use super::stream::CudaStream;
use super::table::{CudaHandle, GraphFunctions};

/// A graph that can be launched. It is never destroyed.
pub struct CudaGraph(CudaHandle);

impl CudaStream {
    /// A graph of cuMemcpyAsync for each segment, on the device already.
    ///
    /// # Safety
    /// As for `copy`, for as long as the graph is launched.
    pub unsafe fn capture(&self, segments: &[Segment]) -> Result<CudaGraph> {
        /// CU_STREAM_CAPTURE_MODE_RELAXED: other threads of the process do what they like.
        const RELAXED: i32 = 2;
        let (cuda, stream) = (self.driver(), self.handle());
        let functions = cuda.graph_functions()?;
        let (mut graph, mut executable) = (0, 0);
        // SAFETY: the stream lives, and what is written to is writable; the rest is passed on.
        unsafe {
            cuda.check("cuStreamBeginCapture", (functions.cuStreamBeginCapture_v2)(stream, RELAXED))?;
            let copied = segments.iter().try_for_each(|piece| self.copy(piece.dst, piece.src, piece.len));
            cuda.check("cuStreamEndCapture", (functions.cuStreamEndCapture)(stream, &mut graph))?;
            copied?;
            let code = (functions.cuGraphInstantiateWithFlags)(&mut executable, graph, 0);
            cuda.check("cuGraphInstantiate", code)?;
            cuda.check("cuGraphUpload", (functions.cuGraphUpload)(executable, stream))?;
        }
        self.synchronise()?;
        Ok(CudaGraph(executable))
    }

    /// cuGraphLaunch.
    ///
    /// # Safety
    /// As for `capture`.
    pub unsafe fn launch_graph(&self, graph: &CudaGraph) -> Result<()> {
        let launch = self.driver().graph_functions()?.cuGraphLaunch;
        // SAFETY: passed on to the caller.
        self.driver().check("cuGraphLaunch", unsafe { launch(graph.0, self.handle()) })
    }
}

impl CudaDriver {
    fn graph_functions(&self) -> Result<&GraphFunctions> {
        self.graphs.as_ref().ok_or_else(|| Error::NotHere("this driver has no graphs".to_owned()))
    }
}
