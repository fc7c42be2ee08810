//! The CUDA driver itself as a peer on the cuda backend: its copies, its batches and its rectangles.
//!
//! They go between the very memory that Ferry uses, on streams of their own, so that what differs is who
//! submits. The context is current only while a sample is taken: a program that knows AscendCL alone has made
//! none current. `driver` declares the functions, and its files are the only ones here that call them; it
//! imports nothing of this one.

use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ferry_abi::Result;
use ferry_abi::memory::Home;

use crate::bytes::Bytes;
use crate::copier::{Copier, Submission};
use crate::route::Route;
use crate::shape::{Segment, Shape};
use crate::sides::Sides;

use driver::{CudaEvent, CudaGraph, Rectangle};

pub use driver::{CudaBatch, CudaDriver, CudaStream};

mod driver;
pub mod product;

/// Copies by the CUDA driver.
pub struct CudaCopier {
    cuda: Arc<CudaDriver>,
    stream: CudaStream,
    /// What is waited for by event or timed: before a copy, behind it.
    events: [CudaEvent; 2],
    second: OnceCell<SecondStream>,
    sides: Rc<Sides>,
    name: &'static str,
    calls: CudaCalls,
}

/// A second stream, made when it is first used, and an event of the first that it waits for.
struct SecondStream {
    stream: CudaStream,
    event: CudaEvent,
}

/// The driver's event before a copy.
const BEGIN: usize = 0;
/// The driver's event behind a copy.
const END: usize = 1;

/// The calls of one submission.
enum CudaCalls {
    /// cuMemcpyAsync for each segment.
    Copies(Vec<Segment>),
    /// The same to two streams in turn.
    InTurn(Vec<Segment>),
    /// cuMemcpyHtoD or cuMemcpyDtoH for each segment.
    Synchronous { segments: Vec<Segment>, to_device: bool },
    /// cuMemcpy2DAsync.
    Rectangle(Box<Rectangle>),
    /// cuMemcpyBatchAsync.
    Batch(CudaBatch),
    /// cuGraphLaunch of a graph that was captured from cuMemcpyAsync for each segment.
    Graph(CudaGraph),
}

impl CudaCopier {
    fn new(
        cuda: &Arc<CudaDriver>,
        sides: &Rc<Sides>,
        name: &'static str,
        calls: CudaCalls,
    ) -> Result<CudaCopier> {
        let (stream, second) = (CudaStream::new(cuda)?, OnceCell::new());
        let events = [CudaEvent::timed(cuda)?, CudaEvent::timed(cuda)?];
        let (cuda, sides) = (cuda.clone(), sides.clone());
        Ok(CudaCopier { cuda, stream, events, second, sides, name, calls })
    }

    /// A call for each piece, or cuMemcpy2DAsync.
    pub fn plain(
        cuda: &Arc<CudaDriver>,
        route: Route,
        shape: &Shape,
        form: Submission,
        sides: &Rc<Sides>,
    ) -> Result<CudaCopier> {
        let segments = || sides.addresses(shape);
        let (name, calls) = match (shape, form) {
            (Shape::Grid(rows), _) => {
                let (dst, src) = (sides.dst.all().at() as usize, sides.src.all().at() as usize);
                ("CUDA 2-D", CudaCalls::Rectangle(Box::new(Rectangle::new(dst, src, rows))))
            }
            (_, Submission::Synchronous) => {
                let to_device = route.dst == Home::Device;
                ("CUDA", CudaCalls::Synchronous { segments: segments(), to_device })
            }
            (_, Submission::InTurn) => ("CUDA loop", CudaCalls::InTurn(segments())),
            (Shape::Line(_), _) => ("CUDA", CudaCalls::Copies(segments())),
            (Shape::Segments(_), _) => ("CUDA loop", CudaCalls::Copies(segments())),
        };
        CudaCopier::new(cuda, sides, name, calls)
    }

    /// cuGraphLaunch of a graph that was captured from cuMemcpyAsync for each piece.
    pub fn graph(cuda: &Arc<CudaDriver>, shape: &Shape, sides: &Rc<Sides>) -> Result<CudaCopier> {
        let segments = sides.addresses(shape);
        let mut copier = CudaCopier::new(cuda, sides, "CUDA graph", CudaCalls::Copies(Vec::new()))?;
        // SAFETY: the pieces live as long as the copier, which has the graph; the context is current.
        let graph = cuda.within(|| unsafe { copier.stream.capture(&segments) })?;
        copier.calls = CudaCalls::Graph(graph);
        Ok(copier)
    }

    /// cuMemcpyBatchAsync.
    pub fn batch(cuda: &Arc<CudaDriver>, shape: &Shape, sides: &Rc<Sides>) -> Result<CudaCopier> {
        cuda.must_have_batches()?;
        let calls = CudaCalls::Batch(CudaBatch::new(&sides.addresses(shape)));
        CudaCopier::new(cuda, sides, "CUDA batch", calls)
    }

    /// Itself, by another name.
    pub fn named(mut self, name: &'static str) -> CudaCopier {
        self.name = name;
        self
    }
}

impl SecondStream {
    fn of<'a>(place: &'a OnceCell<SecondStream>, cuda: &Arc<CudaDriver>) -> Result<&'a SecondStream> {
        if place.get().is_none() {
            let (stream, event) = (CudaStream::new(cuda)?, CudaEvent::untimed(cuda)?);
            drop(place.set(SecondStream { stream, event }));
        }
        Ok(place.get().expect("made above"))
    }
}

/// Submits a call.
///
/// # Safety
/// What it copies lives until the streams have passed it, and the context is current.
unsafe fn submit(calls: &mut CudaCalls, stream: &CudaStream, second: Option<&CudaStream>) -> Result<()> {
    // SAFETY: passed on to the caller, in all of these.
    unsafe {
        match calls {
            CudaCalls::Copies(segments) => {
                segments.iter().try_for_each(|Segment { dst, src, len }| stream.copy(*dst, *src, *len))
            }
            CudaCalls::InTurn(segments) => {
                let streams = [stream, second.unwrap_or(stream)].into_iter().cycle();
                segments
                    .iter()
                    .zip(streams)
                    .try_for_each(|(one, stream)| stream.copy(one.dst, one.src, one.len))
            }
            CudaCalls::Synchronous { segments, to_device: true } => segments
                .iter()
                .try_for_each(|Segment { dst, src, len }| stream.driver().copy_to_device(*dst, *src, *len)),
            CudaCalls::Synchronous { segments, to_device: false } => segments
                .iter()
                .try_for_each(|Segment { dst, src, len }| stream.driver().copy_from_device(*dst, *src, *len)),
            CudaCalls::Rectangle(rectangle) => stream.copy_2d(rectangle),
            CudaCalls::Batch(batch) => stream.copy_batch(batch),
            CudaCalls::Graph(graph) => stream.launch_graph(graph),
        }
    }
}

impl Copier for CudaCopier {
    fn name(&self) -> &'static str {
        self.name
    }

    fn submit(&mut self) -> Result<()> {
        let is_for_two = matches!(self.calls, CudaCalls::InTurn(_));
        let second =
            if is_for_two { Some(&SecondStream::of(&self.second, &self.cuda)?.stream) } else { None };
        // SAFETY: all are parts of blocks that live until the streams have passed this copy, since who
        // submits also waits; `enter` has made the context current.
        unsafe { submit(&mut self.calls, &self.stream, second) }
    }

    fn wait(&mut self) -> Result<()> {
        self.stream.synchronise()?;
        if let CudaCalls::InTurn(_) = self.calls { self.wait_joined() } else { Ok(()) }
    }

    fn wait_by_event(&mut self) -> Result<()> {
        self.stream.record(&self.events[END])?;
        self.events[END].synchronise()
    }

    fn submit_joined(&mut self) -> Result<()> {
        self.submit()?;
        let SecondStream { stream, event } = SecondStream::of(&self.second, &self.cuda)?;
        self.stream.record(event)?;
        stream.wait_for(event)?;
        // SAFETY: as for `submit`; who submits also waits for the second stream.
        unsafe { submit(&mut self.calls, stream, None) }
    }

    fn wait_joined(&mut self) -> Result<()> {
        self.second.get().map_or(Ok(()), |second| second.stream.synchronise())
    }

    fn submit_around_function(&mut self) -> Result<()> {
        self.submit()?;
        self.stream.call_nothing()?;
        self.submit()
    }

    /// The driver takes no more than about a thousand copies before it makes the caller wait.
    fn time_behind(&mut self, copies: usize) -> Result<(Duration, bool)> {
        let (dst, src, len) = self.sides.long_copy()?;
        for _ in 0..copies {
            // SAFETY: both lie in a block that lives until the stream has passed them.
            unsafe { self.stream.copy(dst as usize, src as usize, len) }?;
        }
        self.stream.record(&self.events[BEGIN])?;
        self.submit()?;
        self.stream.record(&self.events[END])?;
        let is_enough = self.events[BEGIN].is_outstanding();
        self.wait()?;
        Ok((self.events[END].since(&self.events[BEGIN])?, is_enough))
    }

    fn calls(&self) -> usize {
        match &self.calls {
            CudaCalls::Copies(segments)
            | CudaCalls::InTurn(segments)
            | CudaCalls::Synchronous { segments, .. } => segments.len(),
            CudaCalls::Rectangle(_) | CudaCalls::Batch(_) | CudaCalls::Graph(_) => 1,
        }
    }

    fn targets(&self) -> Vec<&dyn Bytes> {
        vec![&self.sides.dst]
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
