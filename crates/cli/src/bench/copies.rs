//! Copies of data through the C ABI: one call (or, by descriptor, one call per piece) and a synchronise.

use std::ffi::c_void;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::block::{Block, Route};
use super::shape::{self, Shape};
use super::trial::Contender;
use crate::error::Result;
use crate::library::{BatchAttribute, Library, call};
use crate::tour::batch_call::{HOST, device};
use crate::tour::ctx::Ctx;
use crate::tour::memory::Home;
use crate::tour::stream::{Stream, kind};

/// Ours.
pub struct Ours {
    library: &'static Library,
    stream: Stream,
    route: Route,
    dst: Block,
    src: Block,
    shape: Arc<Shape>,
    form: Form,
    repeats: usize,
    waits_for_each: bool,
}

/// How many pieces are given to the library.
enum Form {
    /// There is one, or they are rows.
    One,
    Batch(Arrays),
    Descriptors(Descriptors),
}

/// The arguments of a batch call.
struct Arrays {
    dsts: Vec<*mut c_void>,
    srcs: Vec<*mut c_void>,
    sizes: Vec<usize>,
    attribute: BatchAttribute,
}

impl Ours {
    /// Allocates both sides and writes the source.
    pub fn new(ctx: &Ctx, route: Route, shape: &Arc<Shape>, room: usize) -> Result<Ours> {
        let library = ctx.library;
        let dst = ctx.on(route.device, || Block::new(library, route.dst, room))?;
        let src = Block::new(library, route.src, room)?;
        shape::write_source(&src)?;
        shape::spoil(&dst)?;
        let form = match &**shape {
            Shape::Pieces(_) if route.kind == kind::INNER_DEVICE_TO_DEVICE => {
                Form::Descriptors(Descriptors::new(library, &dst, &src, shape)?)
            }
            Shape::Pieces(_) => Form::Batch(Arrays::new(&dst, &src, shape, route)),
            _ => Form::One,
        };
        let (stream, repeats) = (ctx.stream()?, repeats(shape));
        Ok(Ours {
            library,
            stream,
            route,
            dst,
            src,
            shape: shape.clone(),
            form,
            repeats,
            waits_for_each: true,
        })
    }

    /// So many copies make a sample; they are handed over one after the other, and waited for once.
    pub fn in_a_row(self, repeats: usize) -> Ours {
        Ours { repeats, waits_for_each: false, ..self }
    }

    fn submit(&mut self) -> Result<()> {
        let (library, kind, stream) = (self.library, self.route.kind, self.stream.handle());
        match &*self.shape {
            Shape::Line(piece) => {
                let (dst, src) = (self.dst.part(piece.dst, piece.len), self.src.part(piece.src, piece.len));
                // SAFETY: both parts are in blocks that live until the stream has passed this copy: `sample` waits.
                unsafe { call!(library, aclrtMemcpyAsync(dst, piece.len, src, piece.len, kind, stream)) }
            }
            Shape::Grid { width, height, pitch } => {
                let (dst, src) = (self.dst.at(), self.src.at());
                // SAFETY: as above; the blocks are as long as all rows.
                unsafe {
                    call!(
                        library,
                        aclrtMemcpy2dAsync(dst, *pitch, src, *pitch, *width, *height, kind, stream)
                    )
                }
            }
            Shape::Pieces(_) => match &mut self.form {
                Form::Batch(arrays) => arrays.submit(library, &self.stream),
                Form::Descriptors(descriptors) => descriptors.submit(library, &self.stream),
                Form::One => unreachable!("pieces have a form of their own"),
            },
        }
    }
}

impl Arrays {
    fn new(dst: &Block, src: &Block, shape: &Shape, route: Route) -> Arrays {
        let pieces = || (0..shape.count()).map(|index| shape.piece(index));
        let place = |home| if home == Home::Device { device(route.device) } else { HOST };
        Arrays {
            dsts: pieces().map(|piece| dst.part(piece.dst, piece.len)).collect(),
            srcs: pieces().map(|piece| src.part(piece.src, piece.len)).collect(),
            sizes: pieces().map(|piece| piece.len).collect(),
            attribute: BatchAttribute { dst: place(route.dst), src: place(route.src), reserved: [0; 16] },
        }
    }

    fn submit(&mut self, library: &Library, stream: &Stream) -> Result<()> {
        let (mut first, mut failed) = (0, 0);
        let (sizes, count) = (self.sizes.as_mut_ptr(), self.sizes.len());
        let (dsts, srcs) = (self.dsts.as_mut_ptr(), self.srcs.as_mut_ptr());
        // SAFETY: the arrays are as long as said, and the pieces lie in blocks that live until the stream has passed them.
        unsafe {
            call!(
                library,
                aclrtMemcpyBatchAsync(
                    dsts,
                    sizes,
                    srcs,
                    sizes,
                    count,
                    &mut self.attribute,
                    &mut first,
                    1,
                    &mut failed,
                    stream.handle()
                )
            )
        }
    }
}

/// Descriptors in device memory, one for each piece.
struct Descriptors {
    memory: Block,
    each: usize,
    count: usize,
}

impl Descriptors {
    fn new(library: &'static Library, dst: &Block, src: &Block, shape: &Shape) -> Result<Descriptors> {
        let mut each = 0;
        // SAFETY: `each` is writable for the time of the call.
        unsafe { call!(library, aclrtGetMemcpyDescSize(kind::INNER_DEVICE_TO_DEVICE, &mut each)) }?;
        let each = each.next_multiple_of(64);
        let count = shape.count();
        let memory = Block::new(library, Home::Device, each * count)?;
        for index in 0..count {
            let piece = shape.piece(index);
            let (to, from) = (dst.part(piece.dst, piece.len), src.part(piece.src, piece.len));
            let (at, none) = (memory.part(index * each, each), std::ptr::null_mut());
            let kind = kind::INNER_DEVICE_TO_DEVICE;
            // SAFETY: all three are parts of live blocks; the last argument is reserved and NULL.
            unsafe { call!(library, aclrtSetMemcpyDesc(at, kind, from, to, piece.len, none)) }?;
        }
        Ok(Descriptors { memory, each, count })
    }

    fn submit(&self, library: &Library, stream: &Stream) -> Result<()> {
        for index in 0..self.count {
            let (at, kind) = (self.memory.part(index * self.each, self.each), kind::INNER_DEVICE_TO_DEVICE);
            // SAFETY: the descriptor and what it names live until the stream has passed the copy.
            unsafe { call!(library, aclrtMemcpyAsyncWithDesc(at, kind, stream.handle())) }?;
        }
        Ok(())
    }
}

impl Contender for Ours {
    fn name(&self) -> &'static str {
        "ferry"
    }

    fn sample(&mut self) -> Result<Duration> {
        let begin = Instant::now();
        for _ in 0..self.repeats {
            self.submit()?;
            if self.waits_for_each {
                self.stream.synchronise()?;
            }
        }
        if !self.waits_for_each {
            self.stream.synchronise()?;
        }
        Ok(begin.elapsed() / self.repeats as u32)
    }

    fn spoil(&mut self) -> Result<()> {
        shape::spoil(&self.dst)
    }

    fn check(&mut self) -> Result<usize> {
        self.shape.check(self.name(), &self.dst)
    }
}

/// Small copies are repeated until a sample has moved so many bytes: the clock would be most of what it shows.
pub fn repeats(shape: &Shape) -> usize {
    const SAMPLE: usize = 4 << 20;
    (SAMPLE / shape.bytes().max(1)).clamp(1, 256)
}
