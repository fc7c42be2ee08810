//! The CUDA driver itself, as a peer on the cuda backend: its copies one by one, its batches, its rectangles,
//! on a stream of its own and between the very memory that ours uses. Found at run time; nothing is linked.

use std::ffi::{CStr, c_char, c_void};
use std::ptr::null_mut;
use std::rc::Rc;
use std::time::Duration;

use ferry_abi::{Error, Result};

use crate::block::{Bytes, Sides};
use crate::lane::{Front, Lane};
use crate::shape::{Piece, Shape};

type Code = i32;
/// A context, stream or event of the driver.
type Handle = usize;

/// Declares the functions that are used and how each is found.
macro_rules! functions {
    ($($name:ident: fn($($arg:ty),*);)*) => {
        #[allow(non_snake_case)]
        struct Functions { $($name: unsafe extern "C" fn($($arg),*) -> Code,)* }

        impl Functions {
            /// # Safety
            /// The library is a CUDA driver.
            unsafe fn load(library: &libloading::Library) -> std::result::Result<Functions, libloading::Error> {
                Ok(Functions { $(
                    // SAFETY: the type is the prototype that the driver gives this name.
                    $name: *unsafe { library.get(concat!(stringify!($name), "\0").as_bytes()) }?,
                )* })
            }
        }
    };
}

functions! {
    cuGetErrorName: fn(Code, *mut *const c_char);
    cuDriverGetVersion: fn(*mut i32);
    cuDeviceGet: fn(*mut i32, i32);
    cuDeviceGetName: fn(*mut c_char, i32, i32);
    cuDevicePrimaryCtxRetain: fn(*mut Handle, i32);
    cuCtxPushCurrent_v2: fn(Handle);
    cuCtxPopCurrent_v2: fn(*mut Handle);
    cuStreamCreate: fn(*mut Handle, u32);
    cuStreamSynchronize: fn(Handle);
    cuEventCreate: fn(*mut Handle, u32);
    cuEventRecord: fn(Handle, Handle);
    cuEventQuery: fn(Handle);
    cuEventSynchronize: fn(Handle);
    cuEventElapsedTime: fn(*mut f32, Handle, Handle);
    cuMemcpyAsync: fn(usize, usize, usize, Handle);
    cuMemcpy2DAsync_v2: fn(*const Rectangle, Handle);
}

/// cuMemcpyBatchAsync as it is since CUDA 12.8: targets, sources, lengths, how many; attributes, the piece
/// that each begins with, how many; which piece failed; the stream.
type Batch = unsafe extern "C" fn(
    *mut usize,
    *mut usize,
    *mut usize,
    usize,
    *mut Attributes,
    *mut usize,
    usize,
    *mut usize,
    Handle,
) -> Code;
/// cuGetProcAddress since CUDA 12.0: the name, where the function goes, the version it is wanted in, flags,
/// what was found.
type Lookup = unsafe extern "C" fn(*const c_char, *mut *mut c_void, i32, u64, *mut i32) -> Code;

/// A rectangle to move, as the driver wants it.
#[repr(C)]
#[derive(Default)]
struct Rectangle {
    src_x: usize,
    src_y: usize,
    src_type: u32,
    src_host: usize,
    src_device: usize,
    src_array: usize,
    src_pitch: usize,
    dst_x: usize,
    dst_y: usize,
    dst_type: u32,
    dst_host: usize,
    dst_device: usize,
    dst_array: usize,
    dst_pitch: usize,
    width: usize,
    height: usize,
}

/// How the pieces of a batch are read, as the driver wants it.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Attributes {
    source_order: u32,
    source_hint: [i32; 2],
    target_hint: [i32; 2],
    flags: u32,
}

/// The driver, and a stream of a GPU's primary context, which is also the one that our backend uses. Both
/// live until the end.
pub struct Cuda {
    functions: Functions,
    batch: Option<Batch>,
    context: Handle,
    stream: Handle,
    events: [Handle; 2],
    /// The GPU and the newest CUDA that the driver knows.
    pub about: String,
}

impl Cuda {
    /// Looks for the driver and opens a GPU.
    pub fn open(ordinal: i32) -> Result<Rc<Cuda>> {
        // SAFETY: the driver under its usual name, which our library has loaded as well.
        let library = unsafe { libloading::Library::new("libcuda.so.1") };
        let library = library.map_err(|error| missing(&error.to_string()))?;
        // SAFETY: it is a CUDA driver, by its name.
        let functions = unsafe { Functions::load(&library) }.map_err(|error| missing(&error.to_string()))?;
        let batch = find_batch(&library);
        std::mem::forget(library);
        let mut cuda = Cuda { functions, batch, context: 0, stream: 0, events: [0; 2], about: String::new() };
        cuda.set_up(ordinal)?;
        Ok(Rc::new(cuda))
    }

    fn set_up(&mut self, ordinal: i32) -> Result<()> {
        const NON_BLOCKING: u32 = 1;
        let (mut device, functions) = (0, &self.functions);
        // SAFETY: what is written to is writable; our library has initialised the driver.
        self.check("cuDeviceGet", unsafe { (functions.cuDeviceGet)(&mut device, ordinal) })?;
        self.about = self.describe(device)?;
        let (mut context, functions) = (0, &self.functions);
        // SAFETY: the device is one of the driver's.
        let code = unsafe { (functions.cuDevicePrimaryCtxRetain)(&mut context, device) };
        self.check("cuDevicePrimaryCtxRetain", code)?;
        self.context = context;
        self.push()?;
        let mut stream = 0;
        // SAFETY: the context is current.
        let code = unsafe { (self.functions.cuStreamCreate)(&mut stream, NON_BLOCKING) };
        self.check("cuStreamCreate", code)?;
        self.stream = stream;
        for index in 0..self.events.len() {
            let mut event = 0;
            // SAFETY: the context is current; no flag: the event remembers when it was reached.
            self.check("cuEventCreate", unsafe { (self.functions.cuEventCreate)(&mut event, 0) })?;
            self.events[index] = event;
        }
        self.pop()
    }

    fn describe(&self, device: i32) -> Result<String> {
        let (mut version, mut name) = (0, [0u8; 128]);
        // SAFETY: `version` is writable.
        let code = unsafe { (self.functions.cuDriverGetVersion)(&mut version) };
        self.check("cuDriverGetVersion", code)?;
        let room = name.len() as i32;
        // SAFETY: there is room for as many bytes as said.
        let code = unsafe { (self.functions.cuDeviceGetName)(name.as_mut_ptr().cast(), room, device) };
        self.check("cuDeviceGetName", code)?;
        let name = CStr::from_bytes_until_nul(&name).unwrap_or_default().to_string_lossy();
        Ok(format!("{name}, CUDA {}.{}", version / 1000, version % 1000 / 10))
    }

    /// Makes the context current in this thread.
    fn push(&self) -> Result<()> {
        // SAFETY: the context lives until the end.
        self.check("cuCtxPushCurrent", unsafe { (self.functions.cuCtxPushCurrent_v2)(self.context) })
    }

    /// Takes back a `push`.
    fn pop(&self) -> Result<()> {
        let mut popped = 0;
        // SAFETY: `popped` is writable.
        self.check("cuCtxPopCurrent", unsafe { (self.functions.cuCtxPopCurrent_v2)(&mut popped) })
    }

    fn record(&self, event: Handle) -> Result<()> {
        // SAFETY: both live until the end.
        self.check("cuEventRecord", unsafe { (self.functions.cuEventRecord)(event, self.stream) })
    }

    fn synchronise(&self) -> Result<()> {
        // SAFETY: the stream lives until the end.
        self.check("cuStreamSynchronize", unsafe { (self.functions.cuStreamSynchronize)(self.stream) })
    }

    fn check(&self, name: &str, code: Code) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        let mut at: *const c_char = std::ptr::null();
        // SAFETY: `at` is writable; what is written to it is a string that lives as long as the driver.
        let known = unsafe { (self.functions.cuGetErrorName)(code, &mut at) } == 0 && !at.is_null();
        // SAFETY: as above.
        let text = if known { unsafe { CStr::from_ptr(at) }.to_string_lossy() } else { "unknown".into() };
        Err(Error::Setup(format!("{name} answered {code} ({text})")))
    }
}

/// The function has had other arguments since CUDA 13.0, and the driver keeps either: one is named by its
/// version.
fn find_batch(library: &libloading::Library) -> Option<Batch> {
    const VERSION: i32 = 12080;
    // SAFETY: the type is the prototype that the driver gives this name.
    let lookup = *unsafe { library.get::<Lookup>(b"cuGetProcAddress_v2\0") }.ok()?;
    let (mut found, mut status) = (null_mut(), 0);
    // SAFETY: the name is a string, and what is written to is writable.
    let code = unsafe { lookup(c"cuMemcpyBatchAsync".as_ptr(), &mut found, VERSION, 0, &mut status) };
    let found = (code == 0 && status == 0 && !found.is_null()).then_some(found)?;
    // SAFETY: it is the function of this name in this version, and so of this type.
    Some(unsafe { std::mem::transmute::<*mut c_void, Batch>(found) })
}

/// The same copies by CUDA.
pub struct Peer {
    cuda: Rc<Cuda>,
    sides: Rc<Sides>,
    name: &'static str,
    calls: Calls,
    front: Front,
}

/// What is called.
enum Calls {
    Copies(Vec<Piece>),
    Rectangle(Box<Rectangle>),
    Batch(Batch, Arrays),
}

/// The arguments of a batch call.
struct Arrays {
    dsts: Vec<usize>,
    srcs: Vec<usize>,
    sizes: Vec<usize>,
    attributes: Attributes,
}

impl Peer {
    /// cuMemcpyAsync for each piece, or cuMemcpy2DAsync.
    pub fn plain(cuda: &Rc<Cuda>, sides: &Rc<Sides>, shape: &Shape) -> Peer {
        let (dst, src) = (sides.dst.at() as usize, sides.src.at() as usize);
        let (name, calls) = match shape {
            Shape::Line(_) => ("CUDA", Calls::Copies(addresses(sides, shape))),
            Shape::Pieces(_) => ("CUDA loop", Calls::Copies(addresses(sides, shape))),
            Shape::Grid { width, height, pitch } => {
                ("CUDA 2-D", Calls::Rectangle(Box::new(Rectangle::new(dst, src, *pitch, [*width, *height]))))
            }
        };
        Peer { cuda: cuda.clone(), sides: sides.clone(), name, calls, front: Front::new() }
    }

    /// cuMemcpyBatchAsync.
    pub fn batch(cuda: &Rc<Cuda>, sides: &Rc<Sides>, shape: &Shape) -> Result<Peer> {
        let none = || Error::NotHere("no cuMemcpyBatchAsync: this driver is older than CUDA 12.8".to_owned());
        let batch = cuda.batch.ok_or_else(none)?;
        let calls = Calls::Batch(batch, Arrays::new(&addresses(sides, shape)));
        let (cuda, sides) = (cuda.clone(), sides.clone());
        Ok(Peer { cuda, sides, name: "CUDA batch", calls, front: Front::new() })
    }
}

/// Pieces with addresses in place of offsets.
fn addresses(sides: &Sides, shape: &Shape) -> Vec<Piece> {
    let place = |Piece { dst, src, len }: Piece| Piece {
        dst: sides.dst.part(dst, len) as usize,
        src: sides.src.part(src, len) as usize,
        len,
    };
    shape.pieces().map(place).collect()
}

impl Rectangle {
    fn new(dst_device: usize, src_device: usize, pitch: usize, [width, height]: [usize; 2]) -> Rectangle {
        /// Where an address lies is found by the address itself.
        const UNIFIED: u32 = 4;
        Rectangle {
            src_type: UNIFIED,
            src_device,
            src_pitch: pitch,
            dst_type: UNIFIED,
            dst_device,
            dst_pitch: pitch,
            width,
            height,
            ..Rectangle::default()
        }
    }
}

impl Arrays {
    fn new(pieces: &[Piece]) -> Arrays {
        /// Sources are read when the stream gets there, as ours are.
        const IN_STREAM_ORDER: u32 = 1;
        Arrays {
            dsts: pieces.iter().map(|piece| piece.dst).collect(),
            srcs: pieces.iter().map(|piece| piece.src).collect(),
            sizes: pieces.iter().map(|piece| piece.len).collect(),
            attributes: Attributes { source_order: IN_STREAM_ORDER, ..Attributes::default() },
        }
    }

    /// # Safety
    /// The pieces lie in memory that lives until the stream has passed them.
    unsafe fn submit(&mut self, batch: Batch, stream: Handle) -> Code {
        let (dsts, srcs, sizes) = (self.dsts.as_mut_ptr(), self.srcs.as_mut_ptr(), self.sizes.as_mut_ptr());
        let (count, mut first, mut failed) = (self.sizes.len(), 0, usize::MAX);
        // SAFETY: the arrays are as long as said; the rest is passed on to the caller.
        unsafe { batch(dsts, srcs, sizes, count, &mut self.attributes, &mut first, 1, &mut failed, stream) }
    }
}

impl Lane for Peer {
    fn name(&self) -> &'static str {
        self.name
    }

    fn submit(&mut self) -> Result<()> {
        let (cuda, stream) = (&*self.cuda, self.cuda.stream);
        match &mut self.calls {
            Calls::Copies(pieces) => pieces.iter().try_for_each(|Piece { dst, src, len }| {
                // SAFETY: both are parts of blocks that live until the stream has passed this copy: who
                // submits also waits.
                let code = unsafe { (cuda.functions.cuMemcpyAsync)(*dst, *src, *len, stream) };
                cuda.check("cuMemcpyAsync", code)
            }),
            Calls::Rectangle(rectangle) => {
                // SAFETY: as above; the blocks are as long as all rows.
                let code = unsafe { (cuda.functions.cuMemcpy2DAsync_v2)(&**rectangle, stream) };
                cuda.check("cuMemcpy2DAsync", code)
            }
            // SAFETY: as above.
            Calls::Batch(batch, arrays) => unsafe {
                cuda.check("cuMemcpyBatchAsync", arrays.submit(*batch, stream))
            },
        }
    }

    fn wait(&mut self) -> Result<()> {
        self.cuda.synchronise()
    }

    fn wait_by_event(&mut self) -> Result<()> {
        let (cuda, event) = (&self.cuda, self.cuda.events[1]);
        cuda.record(event)?;
        // SAFETY: the event lives until the end.
        cuda.check("cuEventSynchronize", unsafe { (cuda.functions.cuEventSynchronize)(event) })
    }

    /// As ours. The driver takes no more than about a thousand copies before it makes the caller wait.
    fn time_alone(&mut self) -> Result<Duration> {
        let mut front = std::mem::replace(&mut self.front, Front::new());
        let time = front.sample(|copies| self.time_behind(copies));
        self.front = front;
        time
    }

    fn calls(&self) -> usize {
        if let Calls::Copies(pieces) = &self.calls { pieces.len() } else { 1 }
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

impl Peer {
    /// Puts so many long copies in front, and says whether they were not done before all was handed over.
    fn time_behind(&mut self, copies: usize) -> Result<(Duration, bool)> {
        const NOT_READY: Code = 600;
        let (cuda, [begin, end]) = (self.cuda.clone(), self.cuda.events);
        let (dst, src, len) = self.sides.long_copy()?;
        for _ in 0..copies {
            // SAFETY: both lie in a block that lives until the stream has passed them.
            let code =
                unsafe { (cuda.functions.cuMemcpyAsync)(dst as usize, src as usize, len, cuda.stream) };
            cuda.check("cuMemcpyAsync", code)?;
        }
        cuda.record(begin)?;
        self.submit()?;
        cuda.record(end)?;
        // SAFETY: the event lives until the end.
        let is_enough = unsafe { (cuda.functions.cuEventQuery)(begin) } == NOT_READY;
        self.wait()?;
        let mut ms = 0.0;
        // SAFETY: `ms` is writable, and both events have been recorded and reached.
        cuda.check("cuEventElapsedTime", unsafe {
            (cuda.functions.cuEventElapsedTime)(&mut ms, begin, end)
        })?;
        Ok((Duration::from_secs_f64(f64::from(ms) / 1e3), is_enough))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Where a sample failed, copies may still use the memory.
        let _ = self.cuda.synchronise();
    }
}

fn missing(what: &str) -> Error {
    Error::NotHere(format!("no CUDA peer: {what}"))
}

#[cfg(test)]
mod tests {
    use super::{Attributes, Rectangle};

    #[test]
    fn what_the_driver_reads_is_laid_out_as_it_documents() {
        assert_eq!((size_of::<Rectangle>(), size_of::<Attributes>()), (128, 24));
    }
}
