//! The CUDA driver itself as a peer on the cuda backend: its copies, its batches and its rectangles.
//!
//! They go between the very memory that Ferry uses, on a stream of their own, so that what differs is who
//! submits. The context is current only while a sample is taken: a program that knows AscendCL alone has made
//! none current. `driver` declares the functions and is the only file here that calls them; it imports
//! nothing of this one.

use std::rc::Rc;
use std::time::Duration;

use ferry_abi::{Error, Result};

use crate::bytes::Bytes;
use crate::copier::Copier;
use crate::shape::{Segment, Shape};
use crate::sides::Sides;

use driver::{CudaBatch, CudaGraph, Rectangle};

pub use driver::CudaDriver;

mod driver;

/// Copies by the CUDA driver.
pub struct CudaCopier {
    cuda: Rc<CudaDriver>,
    sides: Rc<Sides>,
    name: &'static str,
    calls: CudaCalls,
}

/// The driver's event before a copy.
const BEGIN: usize = 0;
/// The driver's event behind a copy.
const END: usize = 1;

/// The calls of one submission.
enum CudaCalls {
    /// cuMemcpyAsync for each segment.
    Copies(Vec<Segment>),
    /// cuMemcpy2DAsync.
    Rectangle(Box<Rectangle>),
    /// cuMemcpyBatchAsync.
    Batch(CudaBatch),
    /// cuGraphLaunch of a graph that was captured from cuMemcpyAsync for each segment.
    Graph(CudaGraph),
}

impl CudaCopier {
    /// cuMemcpyAsync for each piece, or cuMemcpy2DAsync.
    pub fn plain(cuda: &Rc<CudaDriver>, sides: &Rc<Sides>, shape: &Shape) -> CudaCopier {
        let (dst, src) = (sides.dst.all().at() as usize, sides.src.all().at() as usize);
        let (name, calls) = match shape {
            Shape::Line(_) => ("CUDA", CudaCalls::Copies(sides.addresses(shape))),
            Shape::Segments(_) => ("CUDA loop", CudaCalls::Copies(sides.addresses(shape))),
            Shape::Grid { width, height, pitch } => (
                "CUDA 2-D",
                CudaCalls::Rectangle(Box::new(Rectangle::new(dst, src, *pitch, [*width, *height]))),
            ),
        };
        CudaCopier { cuda: cuda.clone(), sides: sides.clone(), name, calls }
    }

    /// cuGraphLaunch of a graph that was captured from cuMemcpyAsync for each piece.
    pub fn graph(cuda: &Rc<CudaDriver>, sides: &Rc<Sides>, shape: &Shape) -> Result<CudaCopier> {
        let segments = sides.addresses(shape);
        cuda.push()?;
        // SAFETY: the pieces live as long as the copier, which has the graph; the context is current.
        let graph = unsafe { cuda.capture(&segments) };
        cuda.pop()?;
        let (cuda, sides) = (cuda.clone(), sides.clone());
        Ok(CudaCopier { cuda, sides, name: "CUDA graph", calls: CudaCalls::Graph(graph?) })
    }

    /// cuMemcpyBatchAsync.
    pub fn batch(cuda: &Rc<CudaDriver>, sides: &Rc<Sides>, shape: &Shape) -> Result<CudaCopier> {
        if !cuda.has_batches() {
            let why = "no cuMemcpyBatchAsync: this driver is older than CUDA 12.8";
            return Err(Error::NotHere(why.to_owned()));
        }
        let calls = CudaCalls::Batch(CudaBatch::new(&sides.addresses(shape)));
        let (cuda, sides) = (cuda.clone(), sides.clone());
        Ok(CudaCopier { cuda, sides, name: "CUDA batch", calls })
    }
}

impl Copier for CudaCopier {
    fn name(&self) -> &'static str {
        self.name
    }

    fn submit(&mut self) -> Result<()> {
        let cuda = &*self.cuda;
        // SAFETY: all are parts of blocks that live until the stream has passed this copy, since who submits
        // also waits; `enter` has made the context current.
        unsafe {
            match &mut self.calls {
                CudaCalls::Copies(segments) => {
                    segments.iter().try_for_each(|Segment { dst, src, len }| cuda.copy(*dst, *src, *len))
                }
                CudaCalls::Rectangle(rectangle) => cuda.copy_2d(rectangle),
                CudaCalls::Batch(batch) => cuda.copy_batch(batch),
                CudaCalls::Graph(graph) => cuda.launch(graph),
            }
        }
    }

    fn wait(&mut self) -> Result<()> {
        self.cuda.synchronise()
    }

    fn wait_by_event(&mut self) -> Result<()> {
        self.cuda.record(END)?;
        self.cuda.wait_for(END)
    }

    /// The driver takes no more than about a thousand copies before it makes the caller wait.
    fn time_behind(&mut self, copies: usize) -> Result<(Duration, bool)> {
        let (cuda, (dst, src, len)) = (self.cuda.clone(), self.sides.long_copy()?);
        for _ in 0..copies {
            // SAFETY: both lie in a block that lives until the stream has passed them.
            unsafe { cuda.copy(dst as usize, src as usize, len) }?;
        }
        cuda.record(BEGIN)?;
        self.submit()?;
        cuda.record(END)?;
        let is_enough = cuda.is_outstanding(BEGIN);
        self.wait()?;
        Ok((cuda.elapsed()?, is_enough))
    }

    fn calls(&self) -> usize {
        if let CudaCalls::Copies(segments) = &self.calls { segments.len() } else { 1 }
    }

    fn target(&self) -> &dyn Bytes {
        &self.sides.dst
    }

    /// The context is current only while CUDA has its turn: a program that knows AscendCL only has made none
    /// current.
    fn enter(&mut self) -> Result<()> {
        self.cuda.push()
    }

    fn leave(&mut self) -> Result<()> {
        self.cuda.pop()
    }
}

impl Drop for CudaCopier {
    fn drop(&mut self) {
        // Where a sample failed, copies may still use the memory.
        let _ = self.cuda.synchronise();
    }
}
