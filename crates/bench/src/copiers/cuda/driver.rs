//! The CUDA driver's functions, found at run time, and a stream of a GPU's primary context.
//!
//! Declared here once more, beside the backend's: a peer that shared the backend's would share its mistakes.

use std::ffi::{CStr, c_char, c_void};
use std::ptr::null_mut;
use std::rc::Rc;
use std::time::Duration;

use ferry_abi::{Error, Result};

use crate::shape::Segment;

/// `CUresult`: 0 is success.
type CuResult = i32;
/// A context, stream or event of the driver.
type CudaHandle = usize;

functions! {
    /// The functions of the driver that are used.
    CudaFunctions {
        cuGetErrorName: fn(CuResult, *mut *const c_char) -> CuResult;
        cuDriverGetVersion: fn(*mut i32) -> CuResult;
        cuDeviceGet: fn(*mut i32, i32) -> CuResult;
        cuDeviceGetName: fn(*mut c_char, i32, i32) -> CuResult;
        cuDevicePrimaryCtxRetain: fn(*mut CudaHandle, i32) -> CuResult;
        cuCtxPushCurrent_v2: fn(CudaHandle) -> CuResult;
        cuCtxPopCurrent_v2: fn(*mut CudaHandle) -> CuResult;
        cuStreamCreate: fn(*mut CudaHandle, u32) -> CuResult;
        cuStreamSynchronize: fn(CudaHandle) -> CuResult;
        cuEventCreate: fn(*mut CudaHandle, u32) -> CuResult;
        cuEventRecord: fn(CudaHandle, CudaHandle) -> CuResult;
        cuEventQuery: fn(CudaHandle) -> CuResult;
        cuEventSynchronize: fn(CudaHandle) -> CuResult;
        cuEventElapsedTime: fn(*mut f32, CudaHandle, CudaHandle) -> CuResult;
        cuMemcpyAsync: fn(usize, usize, usize, CudaHandle) -> CuResult;
        cuMemcpy2DAsync_v2: fn(*const Rectangle, CudaHandle) -> CuResult;
    }
}

functions! {
    /// The functions for graphs, which a driver may lack.
    GraphFunctions {
        cuStreamBeginCapture_v2: fn(CudaHandle, i32) -> CuResult;
        cuStreamEndCapture: fn(CudaHandle, *mut CudaHandle) -> CuResult;
        cuGraphInstantiateWithFlags: fn(*mut CudaHandle, CudaHandle, u64) -> CuResult;
        cuGraphUpload: fn(CudaHandle, CudaHandle) -> CuResult;
        cuGraphLaunch: fn(CudaHandle, CudaHandle) -> CuResult;
    }
}

/// cuMemcpyBatchAsync as it is since CUDA 12.8: targets, sources, lengths, how many; attributes, the piece
/// that each begins with, how many; which piece failed; the stream.
type BatchFunction = unsafe extern "C" fn(
    *mut usize,
    *mut usize,
    *mut usize,
    usize,
    *mut BatchAttributes,
    *mut usize,
    usize,
    *mut usize,
    CudaHandle,
) -> CuResult;
/// cuGetProcAddress since CUDA 12.0: the name, where the function goes, the version it is wanted in, flags,
/// what was found.
type LookupFunction = unsafe extern "C" fn(*const c_char, *mut *mut c_void, i32, u64, *mut i32) -> CuResult;

/// A rectangle to move, as the driver wants it.
#[repr(C)]
#[derive(Default)]
pub struct Rectangle {
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
struct BatchAttributes {
    source_order: u32,
    source_hint: [i32; 2],
    target_hint: [i32; 2],
    flags: u32,
}

/// The arguments of a batch call.
pub struct CudaBatch {
    dsts: Vec<usize>,
    srcs: Vec<usize>,
    sizes: Vec<usize>,
    attributes: BatchAttributes,
}

/// A graph that can be launched.
pub struct CudaGraph(CudaHandle);

/// The driver, and a stream of the GPU's primary context, which is also the context of Ferry's backend.
/// Neither is released before the process ends.
pub struct CudaDriver {
    functions: CudaFunctions,
    graphs: Option<GraphFunctions>,
    batch: Option<BatchFunction>,
    context: CudaHandle,
    stream: CudaHandle,
    events: [CudaHandle; 2],
    /// The GPU and the newest CUDA that the driver knows.
    pub about: String,
}

impl CudaDriver {
    /// Looks for the driver and opens a GPU.
    pub fn open(ordinal: i32) -> Result<Rc<CudaDriver>> {
        // SAFETY: the driver under its usual name, which our library has loaded as well.
        let library = unsafe { libloading::Library::new("libcuda.so.1") };
        let library = library.map_err(|error| missing(&error.to_string()))?;
        // SAFETY: it is a CUDA driver, by its name.
        let functions =
            unsafe { CudaFunctions::load(&library) }.map_err(|error| missing(&error.to_string()))?;
        let batch = find_batch(&library);
        // SAFETY: as above.
        let graphs = unsafe { GraphFunctions::load(&library) }.ok();
        std::mem::forget(library);
        let mut cuda = CudaDriver {
            functions,
            graphs,
            batch,
            context: 0,
            stream: 0,
            events: [0; 2],
            about: String::new(),
        };
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
    pub fn push(&self) -> Result<()> {
        // SAFETY: the context lives until the end.
        self.check("cuCtxPushCurrent", unsafe { (self.functions.cuCtxPushCurrent_v2)(self.context) })
    }

    /// Takes back a `push`.
    pub fn pop(&self) -> Result<()> {
        let mut popped = 0;
        // SAFETY: `popped` is writable.
        self.check("cuCtxPopCurrent", unsafe { (self.functions.cuCtxPopCurrent_v2)(&mut popped) })
    }

    /// Whether there is a cuMemcpyBatchAsync.
    pub fn has_batches(&self) -> bool {
        self.batch.is_some()
    }

    /// cuMemcpyAsync.
    ///
    /// # Safety
    /// Both addresses are of memory that lives until the stream has passed the copy, and the context is
    /// current.
    pub unsafe fn copy(&self, dst: usize, src: usize, len: usize) -> Result<()> {
        // SAFETY: passed on to the caller.
        self.check("cuMemcpyAsync", unsafe { (self.functions.cuMemcpyAsync)(dst, src, len, self.stream) })
    }

    /// cuMemcpy2DAsync.
    ///
    /// # Safety
    /// As for `copy`, for all rows.
    pub unsafe fn copy_2d(&self, rectangle: &Rectangle) -> Result<()> {
        // SAFETY: passed on to the caller.
        let code = unsafe { (self.functions.cuMemcpy2DAsync_v2)(rectangle, self.stream) };
        self.check("cuMemcpy2DAsync", code)
    }

    /// cuMemcpyBatchAsync, where there is one.
    ///
    /// # Safety
    /// As for `copy`, for all segments.
    pub unsafe fn copy_batch(&self, batch: &mut CudaBatch) -> Result<()> {
        let call = self.batch.ok_or_else(|| missing("no cuMemcpyBatchAsync"))?;
        let (dsts, srcs, sizes) =
            (batch.dsts.as_mut_ptr(), batch.srcs.as_mut_ptr(), batch.sizes.as_mut_ptr());
        let (count, mut first, mut failed) = (batch.sizes.len(), 0, usize::MAX);
        let attributes = &mut batch.attributes;
        // SAFETY: the arrays are as long as said; the rest is passed on to the caller.
        let code =
            unsafe { call(dsts, srcs, sizes, count, attributes, &mut first, 1, &mut failed, self.stream) };
        self.check("cuMemcpyBatchAsync", code)
    }

    /// A graph of cuMemcpyAsync for each segment, on the device already. It is never destroyed.
    ///
    /// # Safety
    /// As for `copy`, for as long as the graph is launched.
    pub unsafe fn capture(&self, segments: &[Segment]) -> Result<CudaGraph> {
        /// CU_STREAM_CAPTURE_MODE_RELAXED: other threads of the process do what they like.
        const RELAXED: i32 = 2;
        let functions = self.graph_functions()?;
        let (mut graph, mut executable) = (0, 0);
        // SAFETY: the stream lives until the end, and what is written to is writable; the rest is passed on.
        unsafe {
            self.check("cuStreamBeginCapture", (functions.cuStreamBeginCapture_v2)(self.stream, RELAXED))?;
            let copied = segments.iter().try_for_each(|piece| self.copy(piece.dst, piece.src, piece.len));
            self.check("cuStreamEndCapture", (functions.cuStreamEndCapture)(self.stream, &mut graph))?;
            copied?;
            let code = (functions.cuGraphInstantiateWithFlags)(&mut executable, graph, 0);
            self.check("cuGraphInstantiate", code)?;
            self.check("cuGraphUpload", (functions.cuGraphUpload)(executable, self.stream))?;
        }
        self.synchronise()?;
        Ok(CudaGraph(executable))
    }

    /// cuGraphLaunch.
    ///
    /// # Safety
    /// As for `capture`.
    pub unsafe fn launch(&self, graph: &CudaGraph) -> Result<()> {
        let launch = self.graph_functions()?.cuGraphLaunch;
        // SAFETY: passed on to the caller.
        self.check("cuGraphLaunch", unsafe { launch(graph.0, self.stream) })
    }

    fn graph_functions(&self) -> Result<&GraphFunctions> {
        self.graphs.as_ref().ok_or_else(|| missing("this driver has no graphs"))
    }

    /// Records one of the two events behind all that was submitted.
    pub fn record(&self, event: usize) -> Result<()> {
        // SAFETY: both live until the end.
        let code = unsafe { (self.functions.cuEventRecord)(self.events[event], self.stream) };
        self.check("cuEventRecord", code)
    }

    /// Waits for what was submitted before an event was recorded.
    pub fn wait_for(&self, event: usize) -> Result<()> {
        // SAFETY: the event lives until the end.
        let code = unsafe { (self.functions.cuEventSynchronize)(self.events[event]) };
        self.check("cuEventSynchronize", code)
    }

    /// Whether what was submitted before an event was recorded is still outstanding.
    pub fn is_outstanding(&self, event: usize) -> bool {
        const NOT_READY: CuResult = 600;
        // SAFETY: the event lives until the end.
        (unsafe { (self.functions.cuEventQuery)(self.events[event]) }) == NOT_READY
    }

    /// The time between the two events, which have been recorded and reached.
    pub fn elapsed(&self) -> Result<Duration> {
        let (mut ms, [begin, end]) = (0.0, self.events);
        // SAFETY: `ms` is writable, and both events live until the end.
        let code = unsafe { (self.functions.cuEventElapsedTime)(&mut ms, begin, end) };
        self.check("cuEventElapsedTime", code)?;
        Ok(Duration::from_secs_f64(f64::from(ms) / 1e3))
    }

    /// Waits for all that was submitted.
    pub fn synchronise(&self) -> Result<()> {
        // SAFETY: the stream lives until the end.
        self.check("cuStreamSynchronize", unsafe { (self.functions.cuStreamSynchronize)(self.stream) })
    }

    fn check(&self, name: &str, code: CuResult) -> Result<()> {
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

/// Finds cuMemcpyBatchAsync with the arguments of CUDA 12.8. It has other ones since CUDA 13.0; the driver
/// keeps both, and the version selects one.
fn find_batch(library: &libloading::Library) -> Option<BatchFunction> {
    const VERSION: i32 = 12080;
    // SAFETY: the type is the prototype that the driver gives this name.
    let lookup = *unsafe { library.get::<LookupFunction>(b"cuGetProcAddress_v2\0") }.ok()?;
    let (mut found, mut status) = (null_mut(), 0);
    // SAFETY: the name is a string, and what is written to is writable.
    let code = unsafe { lookup(c"cuMemcpyBatchAsync".as_ptr(), &mut found, VERSION, 0, &mut status) };
    let found = (code == 0 && status == 0 && !found.is_null()).then_some(found)?;
    // SAFETY: it is the function of this name in this version, and so of this type.
    Some(unsafe { std::mem::transmute::<*mut c_void, BatchFunction>(found) })
}

impl CudaBatch {
    /// Of segments with addresses.
    pub fn new(segments: &[Segment]) -> CudaBatch {
        /// Sources are read in stream order, as Ferry reads them.
        const IN_STREAM_ORDER: u32 = 1;
        CudaBatch {
            dsts: segments.iter().map(|segment| segment.dst).collect(),
            srcs: segments.iter().map(|segment| segment.src).collect(),
            sizes: segments.iter().map(|segment| segment.len).collect(),
            attributes: BatchAttributes { source_order: IN_STREAM_ORDER, ..BatchAttributes::default() },
        }
    }
}

impl Rectangle {
    /// Rows of `width` bytes, as far apart on both sides.
    pub fn new(dst_device: usize, src_device: usize, pitch: usize, [width, height]: [usize; 2]) -> Rectangle {
        /// CU_MEMORYTYPE_UNIFIED: the address says where the memory is.
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

fn missing(what: &str) -> Error {
    Error::NotHere(format!("no CUDA peer: {what}"))
}

#[cfg(test)]
mod tests {
    use super::{BatchAttributes, Rectangle};

    #[test]
    fn what_the_driver_reads_is_laid_out_as_it_documents() {
        assert_eq!((size_of::<Rectangle>(), size_of::<BatchAttributes>()), (128, 24));
    }
}
