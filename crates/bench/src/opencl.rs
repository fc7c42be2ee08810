//! OpenCL on the processor, as a peer: PoCL, or whatever the loader offers. Found at run time; nothing is
//! linked.

use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::rc::Rc;
use std::sync::Arc;

use ferry_abi::memory::Home;
use ferry_abi::{Error, Library, Result};

use crate::block::{Block, Bytes, Route};
use crate::lane::Lane;
use crate::shape::{self, Piece, Shape};

/// What to do where there is none.
const MISSING: &str = "Debian's packages pocl-opencl-icd and ocl-icd-opencl-dev bring PoCL";

type Id = *mut c_void;
type Code = i32;
type Events = *const Id;
type Corner = *const [usize; 3];

/// Declares the functions that are used and how each is found.
macro_rules! functions {
    ($($name:ident: fn($($arg:ty),*) -> $ret:ty;)*) => {
        #[allow(non_snake_case)]
        struct Functions { $($name: unsafe extern "C" fn($($arg),*) -> $ret,)* }

        impl Functions {
            /// # Safety
            /// The library is an OpenCL loader.
            unsafe fn load(library: &libloading::Library) -> std::result::Result<Functions, libloading::Error> {
                Ok(Functions { $(
                    // SAFETY: the type is the prototype that OpenCL 1.2 gives this name.
                    $name: *unsafe { library.get(concat!(stringify!($name), "\0").as_bytes()) }?,
                )* })
            }
        }
    };
}

functions! {
    clGetPlatformIDs: fn(u32, *mut Id, *mut u32) -> Code;
    clGetDeviceIDs: fn(Id, u64, u32, *mut Id, *mut u32) -> Code;
    clGetPlatformInfo: fn(Id, u32, usize, *mut c_void, *mut usize) -> Code;
    clCreateContext: fn(*const isize, u32, *const Id, *const c_void, *mut c_void, *mut Code) -> Id;
    clCreateCommandQueue: fn(Id, Id, u64, *mut Code) -> Id;
    clCreateBuffer: fn(Id, u64, usize, *mut c_void, *mut Code) -> Id;
    clReleaseMemObject: fn(Id) -> Code;
    clEnqueueWriteBuffer: fn(Id, Id, u32, usize, usize, *const c_void, u32, Events, *mut Id) -> Code;
    clEnqueueReadBuffer: fn(Id, Id, u32, usize, usize, *mut c_void, u32, Events, *mut Id) -> Code;
    clEnqueueCopyBuffer: fn(Id, Id, Id, usize, usize, usize, u32, Events, *mut Id) -> Code;
    clEnqueueWriteBufferRect: fn(
        Id, Id, u32, Corner, Corner, Corner, usize, usize, usize, usize, *const c_void, u32, Events, *mut Id
    ) -> Code;
    clEnqueueReadBufferRect: fn(
        Id, Id, u32, Corner, Corner, Corner, usize, usize, usize, usize, *mut c_void, u32, Events, *mut Id
    ) -> Code;
    clEnqueueCopyBufferRect: fn(
        Id, Id, Id, Corner, Corner, Corner, usize, usize, usize, usize, u32, Events, *mut Id
    ) -> Code;
    clEnqueueMarkerWithWaitList: fn(Id, u32, Events, *mut Id) -> Code;
    clWaitForEvents: fn(u32, Events) -> Code;
    clReleaseEvent: fn(Id) -> Code;
    clFinish: fn(Id) -> Code;
}

/// A queue of a device that is the processor itself. It lives until the end: so do the threads behind it.
pub struct OpenCl {
    functions: Functions,
    context: Id,
    queue: Id,
    /// What the tables call it.
    pub name: &'static str,
}

impl OpenCl {
    /// Looks for the loader, and there for a device that is a processor.
    pub fn open() -> Result<Rc<OpenCl>> {
        // SAFETY: the loader under its usual name; loading it runs no more than its initialisers.
        let library = unsafe { libloading::Library::new("libOpenCL.so.1") };
        let library = library.map_err(|_| missing("there is no OpenCL loader (libOpenCL.so.1)"))?;
        // SAFETY: it is an OpenCL loader, by its name.
        let functions = unsafe { Functions::load(&library) };
        let functions =
            functions.map_err(|error| missing(&format!("the OpenCL loader is too old ({error})")))?;
        std::mem::forget(library);
        let (name, device) =
            find(&functions).ok_or_else(|| missing("OpenCL finds no device that is a processor"))?;
        let mut code = 0;
        // SAFETY: one device, which the loader gave; no properties, no callback.
        let context =
            unsafe { (functions.clCreateContext)(null(), 1, &device, null(), null_mut(), &mut code) };
        check("clCreateContext", code)?;
        // SAFETY: the context and its device; no properties: commands run in order.
        let queue = unsafe { (functions.clCreateCommandQueue)(context, device, 0, &mut code) };
        check("clCreateCommandQueue", code)?;
        Ok(Rc::new(OpenCl { functions, context, queue, name }))
    }

    /// Waits for all that was enqueued.
    fn finish(&self) -> Result<()> {
        // SAFETY: the queue is ours and lives.
        check("clFinish", unsafe { (self.functions.clFinish)(self.queue) })
    }

    /// Enqueues a marker and waits for it.
    fn mark(&self) -> Result<()> {
        let mut event = null_mut();
        // SAFETY: the queue is ours and lives; `event` is writable.
        let code = unsafe { (self.functions.clEnqueueMarkerWithWaitList)(self.queue, 0, null(), &mut event) };
        check("clEnqueueMarkerWithWaitList", code)?;
        // SAFETY: one event, just made.
        check("clWaitForEvents", unsafe { (self.functions.clWaitForEvents)(1, &event) })?;
        // SAFETY: nobody else has it.
        check("clReleaseEvent", unsafe { (self.functions.clReleaseEvent)(event) })
    }
}

/// A CPU device, of PoCL where there is a choice.
fn find(functions: &Functions) -> Option<(&'static str, Id)> {
    const PROCESSOR: u64 = 1 << 1;
    let (mut platforms, mut count) = ([null_mut(); 16], 0);
    // SAFETY: there is room for as many as said.
    let code = unsafe { (functions.clGetPlatformIDs)(16, platforms.as_mut_ptr(), &mut count) };
    let platforms = &platforms[..if code == 0 { count.min(16) as usize } else { 0 }];
    let device = |platform: &Id| {
        let mut device = null_mut();
        // SAFETY: the platform is one of the loader's, and there is room for one device.
        let code = unsafe { (functions.clGetDeviceIDs)(*platform, PROCESSOR, 1, &mut device, null_mut()) };
        (code == 0).then(|| (platform_name(functions, *platform), device))
    };
    let mut found: Vec<(&'static str, Id)> = platforms.iter().filter_map(device).collect();
    found.sort_by_key(|(name, _)| *name != "PoCL");
    found.first().copied()
}

fn platform_name(functions: &Functions, platform: Id) -> &'static str {
    const NAME: u32 = 0x0902;
    let mut text = [0u8; 256];
    // SAFETY: there is room for as many bytes as said.
    unsafe {
        (functions.clGetPlatformInfo)(platform, NAME, text.len(), text.as_mut_ptr().cast(), null_mut())
    };
    if String::from_utf8_lossy(&text).contains("Portable Computing Language") { "PoCL" } else { "OpenCL" }
}

/// Memory of an OpenCL device.
struct Buffer {
    cl: Rc<OpenCl>,
    id: Id,
    len: usize,
}

impl Buffer {
    fn new(cl: &Rc<OpenCl>, len: usize) -> Result<Buffer> {
        const READ_WRITE: u64 = 1;
        let mut code = 0;
        // SAFETY: the context is ours and lives; no host pointer.
        let id = unsafe { (cl.functions.clCreateBuffer)(cl.context, READ_WRITE, len, null_mut(), &mut code) };
        check("clCreateBuffer", code)?;
        Ok(Buffer { cl: cl.clone(), id, len })
    }

    /// # Safety
    /// `src` stays readable until the queue has passed this, or the call blocks.
    unsafe fn write(&self, offset: usize, src: *const c_void, len: usize, blocks: bool) -> Result<()> {
        let (call, queue) = (self.cl.functions.clEnqueueWriteBuffer, self.cl.queue);
        // SAFETY: passed on to the caller; the loader checks the bounds of the buffer.
        let code =
            unsafe { call(queue, self.id, u32::from(blocks), offset, len, src, 0, null(), null_mut()) };
        check("clEnqueueWriteBuffer", code)
    }

    /// # Safety
    /// `dst` stays writable until the queue has passed this, or the call blocks.
    unsafe fn read(&self, offset: usize, dst: *mut c_void, len: usize, blocks: bool) -> Result<()> {
        let (call, queue) = (self.cl.functions.clEnqueueReadBuffer, self.cl.queue);
        // SAFETY: as for `write`.
        let code =
            unsafe { call(queue, self.id, u32::from(blocks), offset, len, dst, 0, null(), null_mut()) };
        check("clEnqueueReadBuffer", code)
    }
}

impl Bytes for Buffer {
    fn len(&self) -> usize {
        self.len
    }

    fn put(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        // SAFETY: the call blocks.
        unsafe { self.write(offset, bytes.as_ptr().cast(), bytes.len(), true) }
    }

    fn get(&self, offset: usize, bytes: &mut [u8]) -> Result<()> {
        // SAFETY: the call blocks.
        unsafe { self.read(offset, bytes.as_mut_ptr().cast(), bytes.len(), true) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: made by `new` and released once; commands that use it keep it.
        unsafe { (self.cl.functions.clReleaseMemObject)(self.id) };
    }
}

/// Either side of a copy.
enum Side {
    Host(Block),
    Device(Buffer),
}

impl Side {
    fn new(cl: &Rc<OpenCl>, library: &'static Library, home: Home, len: usize) -> Result<Side> {
        match home {
            Home::Device => Buffer::new(cl, len).map(Side::Device),
            _ => Block::new(library, home, len).map(Side::Host),
        }
    }

    fn bytes(&self) -> &dyn Bytes {
        match self {
            Side::Host(block) => block,
            Side::Device(buffer) => buffer,
        }
    }
}

/// The same copies by OpenCL: one call each, pieces one by one, and a finish.
pub struct Peer {
    cl: Rc<OpenCl>,
    dst: Side,
    src: Side,
    shape: Arc<Shape>,
}

impl Peer {
    /// Allocates both sides and writes the source.
    pub fn new(
        cl: &Rc<OpenCl>,
        library: &'static Library,
        route: Route,
        shape: &Arc<Shape>,
        room: usize,
    ) -> Result<Peer> {
        let (dst, src) = (Side::new(cl, library, route.dst, room)?, Side::new(cl, library, route.src, room)?);
        shape::write_source(src.bytes())?;
        shape::spoil(dst.bytes())?;
        Ok(Peer { cl: cl.clone(), dst, src, shape: shape.clone() })
    }

    fn linear(&self, Piece { dst, src, len }: Piece) -> Result<()> {
        match (&self.dst, &self.src) {
            // SAFETY: the block lives until the queue has passed this: who submits also finishes.
            (Side::Device(to), Side::Host(from)) => unsafe { to.write(dst, from.part(src, len), len, false) },
            // SAFETY: as above.
            (Side::Host(to), Side::Device(from)) => unsafe { from.read(src, to.part(dst, len), len, false) },
            (Side::Device(to), Side::Device(from)) => {
                let (call, queue) = (self.cl.functions.clEnqueueCopyBuffer, self.cl.queue);
                // SAFETY: both buffers live; the loader checks their bounds.
                let code = unsafe { call(queue, from.id, to.id, src, dst, len, 0, null(), null_mut()) };
                check("clEnqueueCopyBuffer", code)
            }
            (Side::Host(_), Side::Host(_)) => Err(no_such_copy()),
        }
    }

    fn rectangle(&self, width: usize, height: usize, pitch: usize) -> Result<()> {
        let (origin, size) = ([0; 3], [width, height, 1]);
        let (functions, queue) = (&self.cl.functions, self.cl.queue);
        match (&self.dst, &self.src) {
            (Side::Device(to), Side::Host(from)) => {
                let (call, src) = (functions.clEnqueueWriteBufferRect, from.at());
                // SAFETY: the block holds all rows and lives until the queue has passed this.
                let code = unsafe {
                    call(
                        queue,
                        to.id,
                        0,
                        &origin,
                        &origin,
                        &size,
                        pitch,
                        0,
                        pitch,
                        0,
                        src,
                        0,
                        null(),
                        null_mut(),
                    )
                };
                check("clEnqueueWriteBufferRect", code)
            }
            (Side::Host(to), Side::Device(from)) => {
                let (call, dst) = (functions.clEnqueueReadBufferRect, to.at());
                // SAFETY: as above.
                let code = unsafe {
                    call(
                        queue,
                        from.id,
                        0,
                        &origin,
                        &origin,
                        &size,
                        pitch,
                        0,
                        pitch,
                        0,
                        dst,
                        0,
                        null(),
                        null_mut(),
                    )
                };
                check("clEnqueueReadBufferRect", code)
            }
            (Side::Device(to), Side::Device(from)) => {
                let (call, at) = (functions.clEnqueueCopyBufferRect, &origin);
                // SAFETY: both buffers live; the loader checks their bounds.
                let code = unsafe {
                    call(queue, from.id, to.id, at, at, &size, pitch, 0, pitch, 0, 0, null(), null_mut())
                };
                check("clEnqueueCopyBufferRect", code)
            }
            (Side::Host(_), Side::Host(_)) => Err(no_such_copy()),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Where a sample failed, commands may still use the host's side.
        let _ = self.cl.finish();
    }
}

impl Lane for Peer {
    fn name(&self) -> &'static str {
        self.cl.name
    }

    fn submit(&mut self) -> Result<()> {
        match &*self.shape {
            Shape::Line(piece) => self.linear(*piece),
            Shape::Grid { width, height, pitch } => self.rectangle(*width, *height, *pitch),
            Shape::Pieces(pieces) => pieces.iter().try_for_each(|piece| self.linear(*piece)),
        }
    }

    fn wait(&mut self) -> Result<()> {
        self.cl.finish()
    }

    fn wait_by_event(&mut self) -> Result<()> {
        self.cl.mark()
    }

    fn calls(&self) -> usize {
        if let Shape::Pieces(pieces) = &*self.shape { pieces.len() } else { 1 }
    }

    fn target(&self) -> &dyn Bytes {
        self.dst.bytes()
    }
}

fn check(name: &str, code: Code) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(Error::Setup(format!("{name} answered {code}"))) }
}

fn missing(what: &str) -> Error {
    Error::NotHere(format!("no OpenCL peer: {what}; {MISSING}"))
}

fn no_such_copy() -> Error {
    Error::Setup("no case copies such a shape between these sides by OpenCL".to_owned())
}
