//! Handles of the driver's objects, each of a type of its own. A handle is a copy of a number: that it is
//! still alive is promised where it is made from a number and where its object is destroyed, which are the
//! unsafe functions of this layer; so whatever only uses a handle is safe.

use super::table::Handle;

/// A CUDA stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamHandle(pub(super) Handle);

/// A CUDA event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventHandle(pub(super) Handle);

/// A function of a loaded module that runs on the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelHandle(pub(super) Handle);

#[cfg(all(test, not(loom)))]
impl EventHandle {
    /// A handle that no driver has made, for tests that have no driver.
    pub fn of_nothing(number: usize) -> EventHandle {
        EventHandle(number)
    }
}

impl StreamHandle {
    /// The default stream of the whole process.
    pub const LEGACY: StreamHandle = StreamHandle(1);
    /// The default stream of the calling thread, which is another one in each thread.
    pub const PER_THREAD: StreamHandle = StreamHandle(2);

    /// The stream that another library knows by this number; 0 is the default stream.
    ///
    /// # Safety
    /// It is a stream, and it stays alive as long as this handle is used.
    pub unsafe fn of_number(number: usize) -> StreamHandle {
        if number == 0 { StreamHandle::LEGACY } else { StreamHandle(number) }
    }

    /// The number that other libraries know the stream by.
    pub fn number(self) -> usize {
        self.0
    }
}
