//! The copies of a case through the C ABI of libascendcl.so, as a program would call it.

use std::cell::OnceCell;
use std::ffi::c_void;
use std::rc::Rc;
use std::time::Duration;

use ferry_abi::batch::{HOST, device};
use ferry_abi::memory::{Block, Home};
use ferry_abi::session::Session;
use ferry_abi::stream::{Event, Stream};
use ferry_abi::{BatchAttribute, Handle, Library, Result, call, kind};

use crate::bytes::Bytes;
use crate::copier::{Copier, Submission};
use crate::matrix::Matrix;
use crate::route::Route;
use crate::shape::{Segment, Shape};
use crate::sides::Sides;

/// Ferry's own copies.
pub struct AclCopier {
    library: &'static Library,
    stream: Stream,
    /// Waits for the first one, where streams are joined, or has every other copy; made when it is first
    /// used.
    second: OnceCell<Stream>,
    /// Recorded before the copy and behind it.
    events: [Event; 2],
    sides: Rc<Sides>,
    kind: i32,
    name: &'static str,
    calls: AclCalls,
}

/// The calls of one submission.
enum AclCalls {
    /// aclrtMemcpyAsync for each segment.
    Copies(Vec<Segment>),
    /// The same to two streams in turn.
    InTurn(Vec<Segment>),
    /// aclrtMemcpy for each segment.
    Synchronous(Vec<Segment>),
    /// aclrtMemcpy2dAsync.
    Rectangle(Matrix),
    /// aclrtMemcpyBatchAsync.
    Batch(BatchArrays),
    /// aclrtMemcpyAsyncWithDesc for each segment.
    Descriptors(Descriptors),
    /// aclmdlRIExecuteAsync of a model that was captured from aclrtMemcpyAsync for each segment.
    Graph(Model),
}

/// The arguments of a batch call. Addresses are numbers, since raw pointers are not `Send`.
pub struct BatchArrays {
    dsts: Vec<usize>,
    srcs: Vec<usize>,
    sizes: Vec<usize>,
    attribute: BatchAttribute,
}

impl AclCopier {
    /// Copies between the two sides.
    pub fn new(
        session: &Session,
        route: Route,
        shape: &Shape,
        form: Submission,
        sides: &Rc<Sides>,
    ) -> Result<AclCopier> {
        let library = session.library;
        let calls = match (shape, form) {
            (Shape::Grid(rows), _) => AclCalls::Rectangle(*rows),
            (Shape::Segments(_), Submission::Together) => {
                AclCalls::Batch(BatchArrays::new(&sides.addresses(shape), route))
            }
            (_, Submission::Descriptors) => {
                AclCalls::Descriptors(Descriptors::new(library, &sides.addresses(shape))?)
            }
            (_, Submission::InTurn) => AclCalls::InTurn(sides.addresses(shape)),
            (_, Submission::Synchronous) => AclCalls::Synchronous(sides.addresses(shape)),
            _ => AclCalls::Copies(sides.addresses(shape)),
        };
        let (stream, events) = (session.stream()?, [session.event()?, session.event()?]);
        let (sides, kind) = (sides.clone(), route.kind);
        let mut copier =
            AclCopier { library, stream, second: OnceCell::new(), events, sides, kind, name: "ferry", calls };
        if form == Submission::Graph {
            copier.capture()?;
        }
        Ok(copier)
    }

    /// Itself, by another name.
    pub fn named(self, name: &'static str) -> AclCopier {
        AclCopier { name, ..self }
    }

    /// The second stream.
    fn second(&self) -> Result<&Stream> {
        if self.second.get().is_none() {
            drop(self.second.set(Stream::new(self.library)?));
        }
        Ok(self.second.get().expect("made above"))
    }

    /// Submits the copy to this stream.
    fn submit_to(&mut self, stream: Handle) -> Result<()> {
        let (library, kind) = (self.library, self.kind);
        let copy = |Segment { dst, src, len }: &Segment, stream| {
            // SAFETY: both are parts of blocks that live until the stream has passed this copy: who submits
            // also waits.
            unsafe { call!(library, aclrtMemcpyAsync(*dst as _, *len, *src as _, *len, kind, stream)) }
        };
        match &mut self.calls {
            AclCalls::Copies(copies) => copies.iter().try_for_each(|segment| copy(segment, stream)),
            AclCalls::InTurn(_) => self.submit_in_turn(copy),
            AclCalls::Synchronous(copies) => copies.iter().try_for_each(|Segment { dst, src, len }| {
                // SAFETY: both are parts of blocks that live, and the copy is done when the call returns.
                unsafe { call!(library, aclrtMemcpy(*dst as _, *len, *src as _, *len, kind)) }
            }),
            AclCalls::Rectangle(rows) => {
                let Matrix { width, height, dst_pitch, src_pitch } = *rows;
                let (dst, src) = (self.sides.dst.all().at(), self.sides.src.all().at());
                // SAFETY: as above; the blocks are as long as all rows.
                unsafe {
                    call!(
                        library,
                        aclrtMemcpy2dAsync(dst, dst_pitch, src, src_pitch, width, height, kind, stream)
                    )
                }
            }
            // SAFETY: as above.
            AclCalls::Batch(arrays) => unsafe { arrays.submit(library, stream) },
            AclCalls::Descriptors(descriptors) => descriptors.submit(library, stream),
            AclCalls::Graph(model) => {
                // SAFETY: the model and what it copies live until the stream has passed this.
                unsafe { call!(library, aclmdlRIExecuteAsync(model.model, stream)) }
            }
        }
    }

    /// Submits every other segment to the second stream.
    fn submit_in_turn(&self, copy: impl Fn(&Segment, Handle) -> Result<()>) -> Result<()> {
        let AclCalls::InTurn(copies) = &self.calls else { return Ok(()) };
        let streams = [self.stream.handle(), self.second()?.handle()];
        copies.iter().zip(streams.into_iter().cycle()).try_for_each(|(segment, stream)| copy(segment, stream))
    }

    /// Captures the calls: from here on the model is what is submitted.
    fn capture(&mut self) -> Result<()> {
        const GLOBAL: i32 = 0;
        let (library, stream, mut model) = (self.library, self.stream.handle(), std::ptr::null_mut());
        // SAFETY: the stream lives; only one thread uses it.
        unsafe { call!(library, aclmdlRICaptureBegin(stream, GLOBAL)) }?;
        let captured = self.submit();
        // SAFETY: as above; what is written to is writable.
        unsafe { call!(library, aclmdlRICaptureEnd(stream, &mut model)) }?;
        captured?;
        self.calls = AclCalls::Graph(Model { library, model });
        Ok(())
    }
}

impl Copier for AclCopier {
    fn name(&self) -> &'static str {
        self.name
    }

    fn submit(&mut self) -> Result<()> {
        let stream = self.stream.handle();
        self.submit_to(stream)
    }

    fn wait(&mut self) -> Result<()> {
        self.stream.synchronise()?;
        if let AclCalls::InTurn(_) = self.calls { self.wait_joined() } else { Ok(()) }
    }

    fn wait_by_event(&mut self) -> Result<()> {
        self.stream.record(&self.events[1])?;
        self.events[1].synchronise()
    }

    fn submit_joined(&mut self) -> Result<()> {
        self.submit()?;
        self.stream.record(&self.events[1])?;
        let second = self.second()?;
        second.wait_for(&self.events[1])?;
        let second = second.handle();
        self.submit_to(second)
    }

    fn wait_joined(&mut self) -> Result<()> {
        self.second.get().map_or(Ok(()), Stream::synchronise)
    }

    fn submit_around_function(&mut self) -> Result<()> {
        self.submit()?;
        // SAFETY: takes a handle, which the library looks up, and a function that ignores its argument.
        unsafe {
            let stream = self.stream.handle();
            call!(self.library, aclrtLaunchHostFunc(stream, nothing, std::ptr::null_mut()))
        }?;
        self.submit()
    }

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

    fn calls(&self) -> usize {
        match &self.calls {
            AclCalls::Copies(copies) | AclCalls::InTurn(copies) | AclCalls::Synchronous(copies) => {
                copies.len()
            }
            AclCalls::Descriptors(descriptors) => descriptors.count,
            AclCalls::Rectangle(_) | AclCalls::Batch(_) | AclCalls::Graph(_) => 1,
        }
    }

    fn targets(&self) -> Vec<&dyn Bytes> {
        vec![&self.sides.dst]
    }
}

/// A host function with nothing to do.
unsafe extern "C" fn nothing(_: *mut c_void) {}

/// A captured model.
struct Model {
    library: &'static Library,
    model: *mut c_void,
}

impl Drop for Model {
    fn drop(&mut self) {
        // SAFETY: the model was captured here and is destroyed once.
        let _ = unsafe { call!(self.library, aclmdlRIDestroy(self.model)) };
    }
}

impl BatchArrays {
    /// Of segments with addresses.
    pub fn new(segments: &[Segment], route: Route) -> BatchArrays {
        let place = |home| if home == Home::Device { device(route.device) } else { HOST };
        BatchArrays {
            dsts: segments.iter().map(|segment| segment.dst).collect(),
            srcs: segments.iter().map(|segment| segment.src).collect(),
            sizes: segments.iter().map(|segment| segment.len).collect(),
            attribute: BatchAttribute { dst: place(route.dst), src: place(route.src), reserved: [0; 16] },
        }
    }

    /// aclrtMemcpyBatchAsync.
    ///
    /// # Safety
    /// The pieces lie in blocks that live until the stream has passed them.
    pub unsafe fn submit(&mut self, library: &Library, stream: Handle) -> Result<()> {
        let (mut first, mut failed) = (0, 0);
        let (sizes, count) = (self.sizes.as_mut_ptr(), self.sizes.len());
        let (dsts, srcs) = (self.dsts.as_mut_ptr().cast(), self.srcs.as_mut_ptr().cast());
        // SAFETY: the arrays are as long as said; the rest is passed on to the caller.
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
                    stream
                )
            )
        }
    }
}

/// Copy descriptors in device memory, one for each segment.
struct Descriptors {
    memory: Block,
    each: usize,
    count: usize,
}

impl Descriptors {
    fn new(library: &'static Library, segments: &[Segment]) -> Result<Descriptors> {
        let mut each = 0;
        // SAFETY: `each` is writable for the time of the call.
        unsafe { call!(library, aclrtGetMemcpyDescSize(kind::INNER_DEVICE_TO_DEVICE, &mut each)) }?;
        let each = each.next_multiple_of(64);
        let count = segments.len();
        let memory = Block::new(library, Home::Device, each * count)?;
        for (index, Segment { dst, src, len }) in segments.iter().enumerate() {
            let (at, none) = (memory.part(index * each, each).at(), std::ptr::null_mut());
            let kind = kind::INNER_DEVICE_TO_DEVICE;
            // SAFETY: all three are parts of live blocks; the last argument is reserved and NULL.
            unsafe { call!(library, aclrtSetMemcpyDesc(at, kind, *src as _, *dst as _, *len, none)) }?;
        }
        Ok(Descriptors { memory, each, count })
    }

    fn submit(&self, library: &Library, stream: Handle) -> Result<()> {
        for index in 0..self.count {
            let (at, kind) =
                (self.memory.part(index * self.each, self.each).at(), kind::INNER_DEVICE_TO_DEVICE);
            // SAFETY: the descriptor and what it names live until the stream has passed the copy.
            unsafe { call!(library, aclrtMemcpyAsyncWithDesc(at, kind, stream)) }?;
        }
        Ok(())
    }
}
