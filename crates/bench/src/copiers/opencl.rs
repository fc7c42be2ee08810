//! OpenCL on the processor as a peer on the host backend: PoCL, or what else the loader offers.
//!
//! Another engine that copies between host memory and memory it calls a device's, by a queue of its own. Its
//! device memory is buffers of its own; the host side is a block of Ferry's, page-locked or pageable as the
//! case says. `loader` declares the functions and is the only file here that calls them; it imports nothing
//! of this one.

use std::rc::Rc;
use std::sync::Arc;

use ferry_abi::memory::{Block, Home};
use ferry_abi::{Error, Library, Result};

use crate::bytes::Bytes;
use crate::copier::Copier;
use crate::matrix::Matrix;
use crate::route::Route;
use crate::shape::{self, Segment, Shape};

use loader::ClBuffer;

pub use loader::OpenCl;

mod loader;

/// The memory on one side of a copy.
enum ClSide {
    Host(Block),
    Device(ClBuffer),
}

impl ClSide {
    fn new(cl: &Rc<OpenCl>, library: &'static Library, home: Home, len: usize) -> Result<ClSide> {
        match home {
            Home::Device => ClBuffer::new(cl, len).map(ClSide::Device),
            _ => Block::new(library, home, len).map(ClSide::Host),
        }
    }

    fn bytes(&self) -> &dyn Bytes {
        match self {
            ClSide::Host(block) => block,
            ClSide::Device(buffer) => buffer,
        }
    }
}

/// Copies by OpenCL, a call for each segment.
pub struct OpenClCopier {
    cl: Rc<OpenCl>,
    dst: ClSide,
    src: ClSide,
    shape: Arc<Shape>,
}

impl OpenClCopier {
    /// Allocates both sides and writes the source.
    pub fn new(
        cl: &Rc<OpenCl>,
        library: &'static Library,
        route: Route,
        shape: &Arc<Shape>,
        room: usize,
    ) -> Result<OpenClCopier> {
        let (dst, src) =
            (ClSide::new(cl, library, route.dst, room)?, ClSide::new(cl, library, route.src, room)?);
        shape::write_source(src.bytes())?;
        shape::spoil(dst.bytes())?;
        Ok(OpenClCopier { cl: cl.clone(), dst, src, shape: shape.clone() })
    }

    fn linear(&self, Segment { dst, src, len }: Segment) -> Result<()> {
        match (&self.dst, &self.src) {
            // SAFETY: the block lives until the queue has passed this: who submits also finishes.
            (ClSide::Device(to), ClSide::Host(from)) => unsafe {
                to.write(dst, from.part(src, len).at(), len, false)
            },
            // SAFETY: as above.
            (ClSide::Host(to), ClSide::Device(from)) => unsafe {
                from.read(src, to.part(dst, len).at(), len, false)
            },
            (ClSide::Device(to), ClSide::Device(from)) => to.copy_from(dst, from, src, len),
            (ClSide::Host(_), ClSide::Host(_)) => Err(no_such_copy()),
        }
    }

    fn rectangle(&self, rows: &Matrix) -> Result<()> {
        match (&self.dst, &self.src) {
            // SAFETY: the block holds all rows and lives until the queue has passed this.
            (ClSide::Device(to), ClSide::Host(from)) => unsafe { to.write_rows(from.all().at(), rows) },
            // SAFETY: as above.
            (ClSide::Host(to), ClSide::Device(from)) => unsafe { from.read_rows(to.all().at(), rows) },
            (ClSide::Device(to), ClSide::Device(from)) => to.copy_rows_from(from, rows),
            (ClSide::Host(_), ClSide::Host(_)) => Err(no_such_copy()),
        }
    }
}

impl Drop for OpenClCopier {
    fn drop(&mut self) {
        // Where a sample failed, commands may still use the host's side.
        let _ = self.cl.finish();
    }
}

impl Copier for OpenClCopier {
    fn name(&self) -> &'static str {
        self.cl.name
    }

    fn submit(&mut self) -> Result<()> {
        match &*self.shape {
            Shape::Line(piece) => self.linear(*piece),
            Shape::Grid(rows) => self.rectangle(rows),
            Shape::Segments(pieces) => pieces.iter().try_for_each(|piece| self.linear(*piece)),
        }
    }

    fn wait(&mut self) -> Result<()> {
        self.cl.finish()
    }

    fn wait_by_event(&mut self) -> Result<()> {
        self.cl.mark()
    }

    fn calls(&self) -> usize {
        if let Shape::Segments(pieces) = &*self.shape { pieces.len() } else { 1 }
    }

    fn targets(&self) -> Vec<&dyn Bytes> {
        vec![self.dst.bytes()]
    }
}

fn no_such_copy() -> Error {
    Error::Setup("no case copies such a shape between these sides by OpenCL".to_owned())
}
