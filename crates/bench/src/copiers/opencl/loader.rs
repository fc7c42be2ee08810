//! OpenCL's functions, found at run time, with a queue of a device that is the processor, and its buffers.

use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::rc::Rc;

use ferry_abi::{Error, Result};

use crate::bytes::Bytes;
use crate::matrix::Matrix;

/// What to install where there is none.
const INSTALL_HINT: &str = "Debian's packages pocl-opencl-icd and ocl-icd-opencl-dev bring PoCL";

/// A platform, device, context, queue, buffer or event.
pub type ClId = *mut c_void;
/// `cl_int`: 0 is success.
type ClCode = i32;
/// Events that a command waits for.
type ClEvents = *const ClId;
/// Where a rectangle begins, or how large it is: bytes, rows, slices.
type ClCorner = *const [usize; 3];

functions! {
    /// The functions of OpenCL 1.2 that are used.
    ClFunctions {
        clGetPlatformIDs: fn(u32, *mut ClId, *mut u32) -> ClCode;
        clGetDeviceIDs: fn(ClId, u64, u32, *mut ClId, *mut u32) -> ClCode;
        clGetPlatformInfo: fn(ClId, u32, usize, *mut c_void, *mut usize) -> ClCode;
        clCreateContext: fn(*const isize, u32, *const ClId, *const c_void, *mut c_void, *mut ClCode) -> ClId;
        clCreateCommandQueue: fn(ClId, ClId, u64, *mut ClCode) -> ClId;
        clCreateBuffer: fn(ClId, u64, usize, *mut c_void, *mut ClCode) -> ClId;
        clReleaseMemObject: fn(ClId) -> ClCode;
        clEnqueueWriteBuffer: fn(
            ClId, ClId, u32, usize, usize, *const c_void, u32, ClEvents, *mut ClId
        ) -> ClCode;
        clEnqueueReadBuffer: fn(
            ClId, ClId, u32, usize, usize, *mut c_void, u32, ClEvents, *mut ClId
        ) -> ClCode;
        clEnqueueCopyBuffer: fn(ClId, ClId, ClId, usize, usize, usize, u32, ClEvents, *mut ClId) -> ClCode;
        clEnqueueWriteBufferRect: fn(
            ClId, ClId, u32, ClCorner, ClCorner, ClCorner, usize, usize, usize, usize, *const c_void, u32,
            ClEvents, *mut ClId
        ) -> ClCode;
        clEnqueueReadBufferRect: fn(
            ClId, ClId, u32, ClCorner, ClCorner, ClCorner, usize, usize, usize, usize, *mut c_void, u32,
            ClEvents, *mut ClId
        ) -> ClCode;
        clEnqueueCopyBufferRect: fn(
            ClId, ClId, ClId, ClCorner, ClCorner, ClCorner, usize, usize, usize, usize, u32, ClEvents,
            *mut ClId
        ) -> ClCode;
        clEnqueueMarkerWithWaitList: fn(ClId, u32, ClEvents, *mut ClId) -> ClCode;
        clWaitForEvents: fn(u32, ClEvents) -> ClCode;
        clReleaseEvent: fn(ClId) -> ClCode;
        clFinish: fn(ClId) -> ClCode;
    }
}

/// A queue of a device that is the processor itself. It lives until the end: so do the threads behind it.
pub struct OpenCl {
    functions: ClFunctions,
    context: ClId,
    queue: ClId,
    /// The name in tables and reports.
    pub name: &'static str,
}

impl OpenCl {
    /// Looks for the loader, and there for a device that is a processor.
    pub fn open() -> Result<Rc<OpenCl>> {
        // SAFETY: the loader under its usual name; loading it runs no more than its initialisers.
        let library = unsafe { libloading::Library::new("libOpenCL.so.1") };
        let library = library.map_err(|_| missing("there is no OpenCL loader (libOpenCL.so.1)"))?;
        // SAFETY: it is an OpenCL loader, by its name.
        let functions = unsafe { ClFunctions::load(&library) };
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
    pub fn finish(&self) -> Result<()> {
        // SAFETY: the queue is ours and lives.
        check("clFinish", unsafe { (self.functions.clFinish)(self.queue) })
    }

    /// Enqueues a marker and waits for it.
    pub fn mark(&self) -> Result<()> {
        let mut event = null_mut();
        // SAFETY: the queue is ours and lives; `event` is writable.
        let code = unsafe { (self.functions.clEnqueueMarkerWithWaitList)(self.queue, 0, null(), &mut event) };
        check("clEnqueueMarkerWithWaitList", code)?;
        // SAFETY: one event, just made.
        check("clWaitForEvents", unsafe { (self.functions.clWaitForEvents)(1, &event) })?;
        // SAFETY: nothing else refers to the event.
        check("clReleaseEvent", unsafe { (self.functions.clReleaseEvent)(event) })
    }
}

/// A CPU device, of PoCL where there is a choice.
fn find(functions: &ClFunctions) -> Option<(&'static str, ClId)> {
    const PROCESSOR: u64 = 1 << 1;
    let (mut platforms, mut count) = ([null_mut(); 16], 0);
    // SAFETY: there is room for as many as said.
    let code = unsafe { (functions.clGetPlatformIDs)(16, platforms.as_mut_ptr(), &mut count) };
    let platforms = &platforms[..if code == 0 { count.min(16) as usize } else { 0 }];
    let device = |platform: &ClId| {
        let mut device = null_mut();
        // SAFETY: the platform is one of the loader's, and there is room for one device.
        let code = unsafe { (functions.clGetDeviceIDs)(*platform, PROCESSOR, 1, &mut device, null_mut()) };
        (code == 0).then(|| (platform_name(functions, *platform), device))
    };
    let mut found: Vec<(&'static str, ClId)> = platforms.iter().filter_map(device).collect();
    found.sort_by_key(|(name, _)| *name != "PoCL");
    found.first().copied()
}

fn platform_name(functions: &ClFunctions, platform: ClId) -> &'static str {
    const NAME: u32 = 0x0902;
    let mut text = [0u8; 256];
    // SAFETY: there is room for as many bytes as said.
    unsafe {
        (functions.clGetPlatformInfo)(platform, NAME, text.len(), text.as_mut_ptr().cast(), null_mut())
    };
    if String::from_utf8_lossy(&text).contains("Portable Computing Language") { "PoCL" } else { "OpenCL" }
}

/// Rectangles begin where their buffers begin.
const ORIGIN: [usize; 3] = [0; 3];

/// Memory of an OpenCL device.
pub struct ClBuffer {
    cl: Rc<OpenCl>,
    id: ClId,
    len: usize,
}

impl ClBuffer {
    /// A new one.
    pub fn new(cl: &Rc<OpenCl>, len: usize) -> Result<ClBuffer> {
        const READ_WRITE: u64 = 1;
        let mut code = 0;
        // SAFETY: the context is ours and lives; no host pointer.
        let id = unsafe { (cl.functions.clCreateBuffer)(cl.context, READ_WRITE, len, null_mut(), &mut code) };
        check("clCreateBuffer", code)?;
        Ok(ClBuffer { cl: cl.clone(), id, len })
    }

    /// # Safety
    /// `src` stays readable until the queue has passed this, or the call blocks.
    pub unsafe fn write(&self, offset: usize, src: *const c_void, len: usize, blocks: bool) -> Result<()> {
        let (call, queue) = (self.cl.functions.clEnqueueWriteBuffer, self.cl.queue);
        // SAFETY: passed on to the caller; the loader checks the bounds of the buffer.
        let code =
            unsafe { call(queue, self.id, u32::from(blocks), offset, len, src, 0, null(), null_mut()) };
        check("clEnqueueWriteBuffer", code)
    }

    /// # Safety
    /// `dst` stays writable until the queue has passed this, or the call blocks.
    pub unsafe fn read(&self, offset: usize, dst: *mut c_void, len: usize, blocks: bool) -> Result<()> {
        let (call, queue) = (self.cl.functions.clEnqueueReadBuffer, self.cl.queue);
        // SAFETY: as for `write`.
        let code =
            unsafe { call(queue, self.id, u32::from(blocks), offset, len, dst, 0, null(), null_mut()) };
        check("clEnqueueReadBuffer", code)
    }

    /// Copies from another buffer.
    pub fn copy_from(&self, offset: usize, src: &ClBuffer, src_offset: usize, len: usize) -> Result<()> {
        let (call, queue) = (self.cl.functions.clEnqueueCopyBuffer, self.cl.queue);
        // SAFETY: both buffers live; the loader checks their bounds.
        let code = unsafe { call(queue, src.id, self.id, src_offset, offset, len, 0, null(), null_mut()) };
        check("clEnqueueCopyBuffer", code)
    }

    /// Writes rows; this is the target.
    ///
    /// # Safety
    /// As for `write`, for all rows.
    pub unsafe fn write_rows(&self, src: *const c_void, rows: &Matrix) -> Result<()> {
        let (at, size, queue, none) = (&ORIGIN, &[rows.width, rows.height, 1], self.cl.queue, null_mut());
        let (here, there) = (rows.dst_pitch, rows.src_pitch);
        let call = self.cl.functions.clEnqueueWriteBufferRect;
        // SAFETY: passed on to the caller; the loader checks the bounds of the buffer.
        let code = unsafe { call(queue, self.id, 0, at, at, size, here, 0, there, 0, src, 0, null(), none) };
        check("clEnqueueWriteBufferRect", code)
    }

    /// Reads rows; this is the source.
    ///
    /// # Safety
    /// As for `read`, for all rows.
    pub unsafe fn read_rows(&self, dst: *mut c_void, rows: &Matrix) -> Result<()> {
        let (at, size, queue, none) = (&ORIGIN, &[rows.width, rows.height, 1], self.cl.queue, null_mut());
        let (here, there) = (rows.src_pitch, rows.dst_pitch);
        let call = self.cl.functions.clEnqueueReadBufferRect;
        // SAFETY: passed on to the caller; the loader checks the bounds of the buffer.
        let code = unsafe { call(queue, self.id, 0, at, at, size, here, 0, there, 0, dst, 0, null(), none) };
        check("clEnqueueReadBufferRect", code)
    }

    /// Copies rows from another buffer.
    pub fn copy_rows_from(&self, src: &ClBuffer, rows: &Matrix) -> Result<()> {
        let (at, size, queue, none) = (&ORIGIN, &[rows.width, rows.height, 1], self.cl.queue, null_mut());
        let (here, there) = (rows.dst_pitch, rows.src_pitch);
        let call = self.cl.functions.clEnqueueCopyBufferRect;
        // SAFETY: both buffers live; the loader checks their bounds.
        let code = unsafe { call(queue, src.id, self.id, at, at, size, there, 0, here, 0, 0, null(), none) };
        check("clEnqueueCopyBufferRect", code)
    }
}

impl Bytes for ClBuffer {
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

impl Drop for ClBuffer {
    fn drop(&mut self) {
        // SAFETY: made by `new` and released once; commands that use it keep it.
        unsafe { (self.cl.functions.clReleaseMemObject)(self.id) };
    }
}

/// Fails with the function's name unless it succeeded.
fn check(name: &str, code: ClCode) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(Error::Setup(format!("{name} answered {code}"))) }
}

fn missing(what: &str) -> Error {
    Error::NotHere(format!("no OpenCL peer: {what}; {INSTALL_HINT}"))
}
