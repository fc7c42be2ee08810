//! Ours: the copies of a case through the C ABI, as a program would call it.

use std::ffi::c_void;
use std::rc::Rc;
use std::time::Duration;

use ferry_abi::batch::{HOST, device};
use ferry_abi::memory::Home;
use ferry_abi::session::Session;
use ferry_abi::stream::{Event, Stream};
use ferry_abi::{BatchAttribute, Library, Result, call, kind};

use crate::block::{Block, Bytes, Route, Sides};
use crate::lane::{Front, Lane};
use crate::shape::{Piece, Shape};

/// How pieces are handed over.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// In one call for all of them.
    Together,
    /// In a call for each.
    Each,
    /// In a call for each, which names a descriptor in device memory.
    Descriptors,
}

/// Ours.
pub struct Ours {
    library: &'static Library,
    stream: Stream,
    /// Around the copy, and behind it.
    events: [Event; 2],
    sides: Rc<Sides>,
    kind: i32,
    calls: Calls,
    front: Front,
}

/// What is called.
enum Calls {
    Copies(Vec<Copy>),
    Rectangle { width: usize, height: usize, pitch: usize },
    Batch(Arrays),
    Descriptors(Descriptors),
}

/// The arguments of a plain copy.
struct Copy {
    dst: *mut c_void,
    src: *mut c_void,
    len: usize,
}

/// The arguments of a batch call.
struct Arrays {
    dsts: Vec<*mut c_void>,
    srcs: Vec<*mut c_void>,
    sizes: Vec<usize>,
    attribute: BatchAttribute,
}

impl Ours {
    /// Copies between the two sides.
    pub fn new(
        session: &Session,
        route: Route,
        shape: &Shape,
        form: Form,
        sides: &Rc<Sides>,
    ) -> Result<Ours> {
        let library = session.library;
        let calls = match (shape, form) {
            (Shape::Grid { width, height, pitch }, _) => {
                Calls::Rectangle { width: *width, height: *height, pitch: *pitch }
            }
            (Shape::Pieces(_), Form::Together) => Calls::Batch(Arrays::new(sides, shape, route)),
            (_, Form::Descriptors) => Calls::Descriptors(Descriptors::new(library, sides, shape)?),
            _ => Calls::Copies(shape.pieces().map(|piece| Copy::new(sides, piece)).collect()),
        };
        let (stream, events) = (session.stream()?, [session.event()?, session.event()?]);
        let front = Front::new();
        Ok(Ours { library, stream, events, sides: sides.clone(), kind: route.kind, calls, front })
    }
}

impl Lane for Ours {
    fn name(&self) -> &'static str {
        "ferry"
    }

    fn submit(&mut self) -> Result<()> {
        let (library, kind, stream) = (self.library, self.kind, self.stream.handle());
        match &mut self.calls {
            Calls::Copies(copies) => copies.iter().try_for_each(|Copy { dst, src, len }| {
                // SAFETY: both are parts of blocks that live until the stream has passed this copy: who
                // submits also waits.
                unsafe { call!(library, aclrtMemcpyAsync(*dst, *len, *src, *len, kind, stream)) }
            }),
            Calls::Rectangle { width, height, pitch } => {
                let (dst, src) = (self.sides.dst.at(), self.sides.src.at());
                // SAFETY: as above; the blocks are as long as all rows.
                unsafe {
                    call!(
                        library,
                        aclrtMemcpy2dAsync(dst, *pitch, src, *pitch, *width, *height, kind, stream)
                    )
                }
            }
            Calls::Batch(arrays) => arrays.submit(library, &self.stream),
            Calls::Descriptors(descriptors) => descriptors.submit(library, &self.stream),
        }
    }

    fn wait(&mut self) -> Result<()> {
        self.stream.synchronise()
    }

    fn wait_by_event(&mut self) -> Result<()> {
        self.stream.record(&self.events[1])?;
        self.events[1].synchronise()
    }

    /// The stream is busy with something else while the calls are made.
    fn time_alone(&mut self) -> Result<Duration> {
        let mut front = std::mem::replace(&mut self.front, Front::new());
        let time = front.sample(|copies| self.time_behind(copies));
        self.front = front;
        time
    }

    fn calls(&self) -> usize {
        match &self.calls {
            Calls::Copies(copies) => copies.len(),
            Calls::Descriptors(descriptors) => descriptors.count,
            Calls::Rectangle { .. } | Calls::Batch(_) => 1,
        }
    }

    fn target(&self) -> &dyn Bytes {
        &self.sides.dst
    }
}

impl Ours {
    /// Puts so many long copies in front, and says whether they were not done before all was handed over.
    fn time_behind(&mut self, copies: usize) -> Result<(Duration, bool)> {
        let (library, stream) = (self.library, self.stream.handle());
        let (dst, src, len) = self.sides.long_copy()?;
        for _ in 0..copies {
            // SAFETY: both lie in a block that lives until the stream has passed them.
            unsafe { call!(library, aclrtMemcpyAsync(dst, len, src, len, kind::DEVICE_TO_DEVICE, stream)) }?;
        }
        self.stream.record(&self.events[0])?;
        self.submit()?;
        self.stream.record(&self.events[1])?;
        let is_enough = !self.events[0].is_done()?;
        self.wait()?;
        let ms = self.events[1].ms_since(&self.events[0])?;
        Ok((Duration::from_secs_f64(f64::from(ms) / 1e3), is_enough))
    }
}

impl Copy {
    fn new(sides: &Sides, Piece { dst, src, len }: Piece) -> Copy {
        Copy { dst: sides.dst.part(dst, len), src: sides.src.part(src, len), len }
    }
}

impl Arrays {
    fn new(sides: &Sides, shape: &Shape, route: Route) -> Arrays {
        let place = |home| if home == Home::Device { device(route.device) } else { HOST };
        Arrays {
            dsts: shape.pieces().map(|piece| sides.dst.part(piece.dst, piece.len)).collect(),
            srcs: shape.pieces().map(|piece| sides.src.part(piece.src, piece.len)).collect(),
            sizes: shape.pieces().map(|piece| piece.len).collect(),
            attribute: BatchAttribute { dst: place(route.dst), src: place(route.src), reserved: [0; 16] },
        }
    }

    fn submit(&mut self, library: &Library, stream: &Stream) -> Result<()> {
        let (mut first, mut failed) = (0, 0);
        let (sizes, count) = (self.sizes.as_mut_ptr(), self.sizes.len());
        let (dsts, srcs) = (self.dsts.as_mut_ptr(), self.srcs.as_mut_ptr());
        // SAFETY: the arrays are as long as said, and the pieces lie in blocks that live until the stream has
        // passed them.
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
    fn new(library: &'static Library, sides: &Sides, shape: &Shape) -> Result<Descriptors> {
        let mut each = 0;
        // SAFETY: `each` is writable for the time of the call.
        unsafe { call!(library, aclrtGetMemcpyDescSize(kind::INNER_DEVICE_TO_DEVICE, &mut each)) }?;
        let each = each.next_multiple_of(64);
        let count = shape.count();
        let memory = Block::new(library, Home::Device, each * count)?;
        for (index, piece) in shape.pieces().enumerate() {
            let Copy { dst, src, len } = Copy::new(sides, piece);
            let (at, none) = (memory.part(index * each, each), std::ptr::null_mut());
            let kind = kind::INNER_DEVICE_TO_DEVICE;
            // SAFETY: all three are parts of live blocks; the last argument is reserved and NULL.
            unsafe { call!(library, aclrtSetMemcpyDesc(at, kind, src, dst, len, none)) }?;
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
