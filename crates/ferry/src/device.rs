//! Device memory: a handle that may be cloned, and slices of it. The CPU never sees the bytes.

use crate::{
    Device, Kind, Result, Runtime,
    extent::{Extent, KEY, Key, join, within},
    fill::fill_op,
    memory::{Element, OnDevice, sealed::Sealed},
    runtime::{RuntimeInner, owner},
};
use bytemuck::Pod;
use ferry_core::{DeviceId, Home};
use std::{any::Any, fmt, marker::PhantomData, ops::RangeBounds, sync::Arc};

/// Device memory for some elements: a shared handle, cheap to clone. The memory is freed with the last clone;
/// copies that were submitted before then still run.
///
/// A shared handle is enough to write, since only streams touch the bytes, and each in order. What two
/// streams do is in no order unless an [`Event`](crate::Event) puts it in one: bytes that both write, or that
/// one writes while the other reads, come out unspecified, and nothing worse happens.
///
/// ```
/// let device = ferry::Runtime::new()?.device(0)?;
/// let stream = device.stream()?;
/// let buffer = device.alloc_from(&[1_u32, 2, 3, 4])?;
///
/// stream.copy(buffer.slice(..2)?, buffer.slice(2..)?)?;
/// assert_eq!(stream.read_vec(&buffer)?, [3, 4, 3, 4]);
/// # Ok::<(), ferry::Error>(())
/// ```
pub struct DeviceBuffer<T> {
    block: Arc<Allocation>,
    len: usize,
    elements: PhantomData<fn() -> T>,
}

/// An allocation on a device.
pub(crate) struct Allocation {
    base: usize,
    device: DeviceId,
    runtime: Arc<RuntimeInner>,
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // No handle to it is left. The memory itself is used again when every copy submitted by now has
        // passed.
        let freed = self.runtime.core.free(self.base, |_| Ok(()));
        debug_assert!(freed.is_ok(), "{freed:?}");
    }
}

/// Some elements of a [`DeviceBuffer`]. A copy is as good as the original.
///
/// ```
/// let device = ferry::Runtime::new()?.device(0)?;
/// let stream = device.stream()?;
/// let buffer = device.alloc_zeroed::<u8>(4)?;
/// let middle = buffer.slice(1..3)?;
/// stream.write(middle, &[7, 8])?;
/// assert_eq!(stream.read_vec(&buffer)?, [0, 7, 8, 0]);
/// # Ok::<(), ferry::Error>(())
/// ```
pub struct DeviceSlice<'a, T> {
    block: &'a Arc<Allocation>,
    addr: usize,
    len: usize,
    elements: PhantomData<fn() -> T>,
}

impl Device {
    /// Memory for `len` elements, of unspecified bytes.
    ///
    /// ```
    /// let buffer = ferry::Runtime::new()?.device(0)?.alloc::<f32>(1000)?;
    /// assert_eq!(buffer.len(), 1000);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn alloc<T: Element>(&self, len: usize) -> Result<DeviceBuffer<T>> {
        DeviceBuffer::new(self, len)
    }

    /// Memory for `len` elements, all bytes 0. Waits until they are.
    ///
    /// ```
    /// let device = ferry::Runtime::new()?.device(0)?;
    /// let buffer = device.alloc_zeroed::<u16>(3)?;
    /// assert_eq!(device.stream()?.read_vec(&buffer)?, [0; 3]);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn alloc_zeroed<T: Element>(&self, len: usize) -> Result<DeviceBuffer<T>> {
        let buffer = self.alloc::<T>(len)?;
        self.shared().at_once(self.id(), |core| {
            let fill =
                |memory: &ferry_core::Memory| fill_op(memory, buffer.addr(), len * size_of::<T>(), [0; 4]);
            // SAFETY: the range is known memory, which stays until the op has passed.
            unsafe { core.submit(fill) }.map(drop)
        })?;
        Ok(buffer)
    }

    /// Memory with a copy of these elements. Waits until they are there.
    ///
    /// ```
    /// let device = ferry::Runtime::new()?.device(0)?;
    /// let buffer = device.alloc_from(&[1_u16, 2, 3])?;
    /// assert_eq!(device.stream()?.read_vec(&buffer)?, [1, 2, 3]);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn alloc_from<T: Element>(&self, elements: &[T]) -> Result<DeviceBuffer<T>> {
        let buffer = self.alloc::<T>(elements.len())?;
        let rows = join(buffer.extent(KEY), Extent::of_slice(elements), size_of::<T>())?;
        self.shared().copy_at_once(self.id(), rows)?;
        Ok(buffer)
    }
}

impl<T: Pod> DeviceBuffer<T> {
    pub(crate) fn new(device: &Device, len: usize) -> Result<DeviceBuffer<T>> {
        let runtime = device.shared();
        let base = runtime.alloc::<T>(Home::Device(device.id()), len)?.base;
        let block = Arc::new(Allocation { base, device: device.id(), runtime: runtime.clone() });
        Ok(DeviceBuffer { block, len, elements: PhantomData })
    }

    /// All of it.
    ///
    /// ```
    /// let buffer = ferry::Runtime::new()?.device(0)?.alloc::<f32>(10)?;
    /// assert_eq!(buffer.as_slice().len(), 10);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn as_slice(&self) -> DeviceSlice<'_, T> {
        DeviceSlice { block: &self.block, addr: self.block.base, len: self.len, elements: PhantomData }
    }

    /// The elements `range`.
    ///
    /// ```
    /// let buffer = ferry::Runtime::new()?.device(0)?.alloc::<f32>(10)?;
    /// assert_eq!(buffer.slice(3..5)?.len(), 2);
    /// assert_eq!(buffer.slice(3..11).unwrap_err().to_string(), "3..11 is not a part of 10 elements");
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<DeviceSlice<'_, T>> {
        self.as_slice().slice(range)
    }
}

impl<T> DeviceBuffer<T> {
    /// The number of elements.
    ///
    /// ```
    /// assert_eq!(ferry::Runtime::new()?.device(0)?.alloc::<f32>(10)?.len(), 10);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    ///
    /// ```
    /// assert!(ferry::Runtime::new()?.device(0)?.alloc::<f32>(0)?.is_empty());
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The device whose memory it is.
    ///
    /// ```
    /// let buffer = ferry::Runtime::new()?.device(1)?.alloc::<u8>(1)?;
    /// assert_eq!(buffer.device().id(), 1);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn device(&self) -> Device {
        Device::of(Runtime { shared: self.block.runtime.clone() }, self.block.device)
    }

    /// The device address of the first element, as other libraries know it. The CPU cannot follow it.
    ///
    /// ```
    /// assert_ne!(ferry::Runtime::new()?.device(0)?.alloc::<u8>(1)?.addr(), 0);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn addr(&self) -> usize {
        self.block.base
    }
}

impl<T> Clone for DeviceBuffer<T> {
    /// Another handle to the same memory.
    fn clone(&self) -> Self {
        DeviceBuffer { block: self.block.clone(), ..*self }
    }
}

impl<T> fmt::Debug for DeviceBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceBuffer({} elements at {:#x} on device {})", self.len, self.addr(), self.block.device)
    }
}

impl<'a, T: Pod> DeviceSlice<'a, T> {
    /// The elements `range` of it.
    ///
    /// ```
    /// let buffer = ferry::Runtime::new()?.device(0)?.alloc::<f32>(10)?;
    /// assert_eq!(buffer.slice(2..8)?.slice(4..)?.len(), 2);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<DeviceSlice<'a, T>> {
        let range = within(range, self.len, "elements")?;
        Ok(DeviceSlice { addr: self.addr + range.start * size_of::<T>(), len: range.len(), ..*self })
    }

    /// These bytes as elements of another type, if they are a whole number of those.
    ///
    /// ```
    /// let device = ferry::Runtime::new()?.device(0)?;
    /// let buffer = device.alloc_from(&[1.0_f32])?;
    /// assert_eq!(device.stream()?.read_vec(buffer.as_slice().cast::<u8>()?)?, 1.0_f32.to_ne_bytes());
    /// assert!(buffer.as_slice().cast::<u64>().is_err());
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn cast<U: Element>(&self) -> Result<DeviceSlice<'a, U>> {
        let (bytes, size) = (self.len * size_of::<T>(), size_of::<U>());
        let len =
            if size == 0 { (bytes == 0).then_some(0) } else { (bytes % size == 0).then_some(bytes / size) };
        let Some(len) = len else {
            let note = format!("{bytes} bytes are not a whole number of elements of {size} bytes");
            return Err(Kind::BadShape.because(note));
        };
        Ok(DeviceSlice { block: self.block, addr: self.addr, len, elements: PhantomData })
    }
}

impl<T> DeviceSlice<'_, T> {
    /// The number of elements.
    ///
    /// ```
    /// let buffer = ferry::Runtime::new()?.device(0)?.alloc::<f32>(10)?;
    /// assert_eq!(buffer.slice(4..)?.len(), 6);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    ///
    /// ```
    /// let buffer = ferry::Runtime::new()?.device(0)?.alloc::<f32>(10)?;
    /// assert!(buffer.slice(10..)?.is_empty());
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The device address of the first element.
    ///
    /// ```
    /// let buffer = ferry::Runtime::new()?.device(0)?.alloc::<f32>(10)?;
    /// assert_eq!(buffer.slice(4..)?.addr(), buffer.addr() + 16);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn addr(&self) -> usize {
        self.addr
    }

    /// The device whose memory it is.
    ///
    /// ```
    /// let buffer = ferry::Runtime::new()?.device(1)?.alloc::<f32>(10)?;
    /// assert_eq!(buffer.slice(4..)?.device().id(), 1);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn device(&self) -> Device {
        Device::of(Runtime { shared: self.block.runtime.clone() }, self.block.device)
    }

    pub(crate) fn device_id(&self) -> DeviceId {
        self.block.device
    }

    pub(crate) fn block(&self) -> &Arc<Allocation> {
        self.block
    }

    pub(crate) fn owner(&self) -> usize {
        owner(&self.block.runtime)
    }
}

impl<T> Clone for DeviceSlice<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for DeviceSlice<'_, T> {}

impl<T> fmt::Debug for DeviceSlice<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceSlice({} elements at {:#x} on device {})", self.len, self.addr, self.block.device)
    }
}

impl<'a, T: Pod> From<&'a DeviceBuffer<T>> for DeviceSlice<'a, T> {
    fn from(buffer: &'a DeviceBuffer<T>) -> Self {
        buffer.as_slice()
    }
}

impl<T> Sealed for DeviceSlice<'_, T> {}
impl<T> Sealed for DeviceBuffer<T> {}
impl<D: Sealed + ?Sized> Sealed for &D {}

impl<T: Pod> OnDevice for DeviceBuffer<T> {
    type Elem = T;

    #[inline]
    fn extent(&self, _: Key) -> Extent {
        Extent::linear(self.block.base, self.len, owner(&self.block.runtime))
    }

    fn keepsake(&self, _: Key) -> Arc<dyn Any + Send + Sync> {
        self.block.clone()
    }
}

impl<T: Pod> OnDevice for DeviceSlice<'_, T> {
    type Elem = T;

    #[inline]
    fn extent(&self, _: Key) -> Extent {
        Extent::linear(self.addr, self.len, self.owner())
    }

    fn keepsake(&self, _: Key) -> Arc<dyn Any + Send + Sync> {
        self.block.clone()
    }
}

impl<D: OnDevice> OnDevice for &D {
    type Elem = D::Elem;

    #[inline]
    fn extent(&self, key: Key) -> Extent {
        (**self).extent(key)
    }

    fn keepsake(&self, key: Key) -> Arc<dyn Any + Send + Sync> {
        (**self).keepsake(key)
    }
}
