//! Page-locked host memory: a buffer that is owned, one that is shared to be read, and slices of both.

use crate::{
    Failed, InFlight, Kind, Part, Result, Runtime,
    extent::{Extent, Key, within},
    memory::{Element, HostRead, HostWrite, sealed::Sealed},
    part::{self, Whole},
    pending::StreamHandle,
    runtime::{RuntimeInner, owner},
};
use bytemuck::Pod;
use ferry_core::{Home, Ticket};
use std::{
    fmt,
    marker::PhantomData,
    ops::{Deref, DerefMut, RangeBounds},
    ptr::NonNull,
    slice,
    sync::Arc,
};

/// Page-locked host memory, owned, as `Vec` owns plain memory. Copies of it are asynchronous:
/// [`Stream::upload`] and [`Stream::download`] take the buffer and give a token, and the buffer comes back
/// from the token. It reads and writes like a slice.
///
/// [`Runtime::alloc_host`] and [`Runtime::alloc_host_from`] make one. Dropping it frees it; nothing else has
/// to be done first.
///
/// [`Stream::upload`]: crate::Stream::upload
/// [`Stream::download`]: crate::Stream::download
///
/// ```
/// let runtime = ferry::Runtime::new()?;
/// let mut host = runtime.alloc_host::<f32>(100)?;
/// host[7] = 1.5;
/// host[10..20].fill(2.0);
/// assert_eq!(host.iter().sum::<f32>(), 21.5);
/// # Ok::<(), ferry::Error>(())
/// ```
pub struct HostBuffer<T> {
    memory: Pinned,
    len: usize,
    elements: PhantomData<T>,
}

/// An allocation of page-locked memory.
struct Pinned {
    base: usize,
    runtime: Arc<RuntimeInner>,
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // No reference to it is left. The memory itself is used again when every copy submitted by now
        // has passed.
        let freed = self.runtime.core.free(self.base, |_| Ok(()));
        debug_assert!(freed.is_ok(), "{freed:?}");
    }
}

impl Runtime {
    /// Page-locked host memory for `len` elements, all bytes 0.
    ///
    /// ```
    /// let host = ferry::Runtime::new()?.alloc_host::<f32>(3)?;
    /// assert_eq!(host[..], [0.0; 3]);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn alloc_host<T: Element>(&self, len: usize) -> Result<HostBuffer<T>> {
        HostBuffer::zeroed(&self.shared, len)
    }

    /// Page-locked host memory with a copy of these elements.
    ///
    /// ```
    /// let host = ferry::Runtime::new()?.alloc_host_from(&[1.0, 2.0])?;
    /// assert_eq!(host[..], [1.0, 2.0]);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn alloc_host_from<T: Element>(&self, elements: &[T]) -> Result<HostBuffer<T>> {
        HostBuffer::copied(&self.shared, elements)
    }
}

impl<T: Pod> HostBuffer<T> {
    /// Memory for `len` elements, of unspecified bytes.
    pub(crate) fn stale(runtime: &Arc<RuntimeInner>, len: usize) -> Result<HostBuffer<T>> {
        let block = runtime.alloc::<T>(Home::Host, len)?;
        let memory = Pinned { base: block.base, runtime: runtime.clone() };
        match NonNull::new(block.base as *mut T) {
            Some(first) if first.is_aligned() => Ok(HostBuffer { memory, len, elements: PhantomData }),
            _ => {
                let note =
                    format!("elements aligned to {} bytes, and {:#x} is not", align_of::<T>(), block.base);
                Err(Kind::Unsupported.because(note))
            }
        }
    }

    pub(crate) fn zeroed(runtime: &Arc<RuntimeInner>, len: usize) -> Result<HostBuffer<T>> {
        let buffer = Self::stale(runtime, len)?;
        // SAFETY: the allocation holds `len` elements, and all bytes of 0 are an element.
        unsafe { buffer.first().write_bytes(0, len) };
        Ok(buffer)
    }

    pub(crate) fn copied(runtime: &Arc<RuntimeInner>, elements: &[T]) -> Result<HostBuffer<T>> {
        let mut buffer = Self::stale(runtime, elements.len())?;
        buffer.copy_from_slice(elements);
        Ok(buffer)
    }

    fn whole(&self) -> Extent {
        Extent::linear(self.memory.base, self.len, owner(&self.memory.runtime))
    }

    /// The runtime that made it.
    ///
    /// ```
    /// let host = ferry::Runtime::new()?.alloc_host::<u8>(1)?;
    /// assert!(host.runtime().device_count() > 0);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn runtime(&self) -> Runtime {
        Runtime { shared: self.memory.runtime.clone() }
    }

    /// Gives up writing: the result can be cloned, read from everywhere and uploaded many times at once.
    ///
    /// ```
    /// # let device = ferry::Runtime::new()?.device(0)?;
    /// # let (stream, other) = (device.stream()?, device.stream()?);
    /// # let (a, b) = (device.alloc::<u8>(3)?, device.alloc::<u8>(3)?);
    /// let shared = device.runtime().alloc_host_from(b"abc")?.share();
    /// let first = stream.upload(&a, shared.clone())?;
    /// let second = other.upload(&b, shared.clone())?;
    /// assert_eq!(shared[..], *b"abc", "readable while it is in flight");
    /// # (first.wait()?, second.wait()?);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn share(self) -> SharedBuffer<T> {
        SharedBuffer(Arc::new(self))
    }

    /// The buffer, of which the next copy uses the elements `range` only.
    ///
    /// ```
    /// # let device = ferry::Runtime::new()?.device(0)?;
    /// # let (stream, there) = (device.stream()?, device.alloc::<u8>(2)?);
    /// let part = device.runtime().alloc_host_from(b"a hat")?.into_slice(2..4)?;
    /// let part = stream.upload(&there, part)?.wait()?;
    /// assert_eq!(stream.read_vec(&there)?, *b"ha");
    /// assert_eq!(part.into_inner()[..], *b"a hat");
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn into_slice(self, range: impl RangeBounds<usize>) -> Result<Part<Self>, Failed<Self>> {
        part::slice(self, range)
    }

    /// The buffer, of which the next copy uses `rows` rows of `cols` elements, `pitch` elements apart.
    ///
    /// ```
    /// # let device = ferry::Runtime::new()?.device(0)?;
    /// # let (stream, there) = (device.stream()?, device.alloc::<u8>(4)?);
    /// // The first two columns of a matrix of three.
    /// let part = device.runtime().alloc_host_from(&[1_u8, 2, 0, 3, 4, 0])?.into_matrix(2, 2, 3)?;
    /// stream.upload(&there, part)?.wait()?;
    /// assert_eq!(stream.read_vec(&there)?, [1, 2, 3, 4]);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn into_matrix(self, rows: usize, cols: usize, pitch: usize) -> Result<Part<Self>, Failed<Self>> {
        part::matrix(self, rows, cols, pitch)
    }
}

impl<T> HostBuffer<T> {
    /// The first element. Not null, and aligned, even if there are no elements.
    fn first(&self) -> *mut T {
        self.memory.base as *mut T
    }
}

impl<T> Deref for HostBuffer<T> {
    type Target = HostSlice<T>;

    fn deref(&self) -> &HostSlice<T> {
        // SAFETY: the allocation holds `len` elements, which live as long as the buffer.
        HostSlice::new(unsafe { slice::from_raw_parts(self.first(), self.len) })
    }
}

impl<T> DerefMut for HostBuffer<T> {
    fn deref_mut(&mut self) -> &mut HostSlice<T> {
        // SAFETY: as above, and there is no other borrow of the buffer.
        HostSlice::new_mut(unsafe { slice::from_raw_parts_mut(self.first(), self.len) })
    }
}

impl<T: fmt::Debug> fmt::Debug for HostBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (***self).fmt(f)
    }
}

impl<T> Sealed for HostBuffer<T> {}

impl<T: Pod> HostRead for HostBuffer<T> {
    type Elem = T;
    type Buffer = Self;

    #[inline]
    fn extent(&mut self, _: Key) -> Result<Extent> {
        Ok(self.whole())
    }

    #[inline]
    fn fly(self, stream: Option<StreamHandle>, ticket: Ticket, _: Key) -> InFlight<Self> {
        InFlight::new(self, stream, ticket)
    }
}

impl<T: Pod> HostWrite for HostBuffer<T> {}

impl<T: Pod> Whole for HostBuffer<T> {
    fn elements(&self) -> usize {
        self.len
    }
}

/// Page-locked host memory that many may read and none may write: [`HostBuffer::share`]. Cloning it is cheap.
///
/// ```
/// let shared = ferry::Runtime::new()?.alloc_host_from(&[1, 2, 3])?.share();
/// let other = shared.clone();
/// drop(shared);
/// assert_eq!(other.iter().sum::<i32>(), 6);
/// # Ok::<(), ferry::Error>(())
/// ```
// There is no way back to a buffer that can be written: a token that was dropped may still have a copy
// reading this.
pub struct SharedBuffer<T>(Arc<HostBuffer<T>>);

impl<T: Pod> SharedBuffer<T> {
    /// The buffer, of which the next copy uses the elements `range` only.
    ///
    /// ```
    /// # let device = ferry::Runtime::new()?.device(0)?;
    /// # let (stream, there) = (device.stream()?, device.alloc::<u8>(2)?);
    /// let shared = device.runtime().alloc_host_from(b"a hat")?.share();
    /// stream.upload(&there, shared.into_slice(2..4)?)?.wait()?;
    /// assert_eq!(stream.read_vec(&there)?, *b"ha");
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn into_slice(self, range: impl RangeBounds<usize>) -> Result<Part<Self>, Failed<Self>> {
        part::slice(self, range)
    }

    /// The buffer, of which the next copy uses `rows` rows of `cols` elements, `pitch` elements apart.
    ///
    /// ```
    /// # let device = ferry::Runtime::new()?.device(0)?;
    /// # let (stream, there) = (device.stream()?, device.alloc::<u8>(4)?);
    /// let shared = device.runtime().alloc_host_from(&[1_u8, 2, 0, 3, 4, 0])?.share();
    /// stream.upload(&there, shared.into_matrix(2, 2, 3)?)?.wait()?;
    /// assert_eq!(stream.read_vec(&there)?, [1, 2, 3, 4]);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn into_matrix(self, rows: usize, cols: usize, pitch: usize) -> Result<Part<Self>, Failed<Self>> {
        part::matrix(self, rows, cols, pitch)
    }
}

impl<T> Clone for SharedBuffer<T> {
    fn clone(&self) -> Self {
        SharedBuffer(self.0.clone())
    }
}

impl<T> Deref for SharedBuffer<T> {
    type Target = HostSlice<T>;

    fn deref(&self) -> &HostSlice<T> {
        &self.0
    }
}

impl<T: fmt::Debug> fmt::Debug for SharedBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T> Sealed for SharedBuffer<T> {}

impl<T: Pod> HostRead for SharedBuffer<T> {
    type Elem = T;
    type Buffer = Self;

    #[inline]
    fn extent(&mut self, _: Key) -> Result<Extent> {
        Ok(self.0.whole())
    }

    #[inline]
    fn fly(self, stream: Option<StreamHandle>, ticket: Ticket, _: Key) -> InFlight<Self> {
        InFlight::new(self, stream, ticket)
    }
}

impl<T: Pod> Whole for SharedBuffer<T> {
    fn elements(&self) -> usize {
        self.0.len
    }
}

/// A part of page-locked memory, as `[T]` is a part of a `Vec`: always behind a reference. It reads and
/// writes like a slice, and a [`scope`](crate::Stream::scope) takes it for a copy.
///
/// ```
/// let device = ferry::Runtime::new()?.device(0)?;
/// let (stream, there) = (device.stream()?, device.alloc::<u8>(4)?);
/// let mut host = device.runtime().alloc_host_from(b"left....")?;
///
/// let (left, right) = host.split_at_mut(4)?;
/// stream.scope(|scope| {
///     scope.upload(&there, &*left)?;
///     scope.download(right, &there)?;
///     Ok(())
/// })?;
/// assert_eq!(host[..], *b"leftleft");
/// # Ok::<(), ferry::Error>(())
/// ```
#[repr(transparent)]
pub struct HostSlice<T>([T]);

impl<T> HostSlice<T> {
    /// The elements, which are page-locked.
    fn new(elements: &[T]) -> &HostSlice<T> {
        // SAFETY: the two have one representation, and the lifetime stays.
        unsafe { &*(elements as *const [T] as *const HostSlice<T>) }
    }

    fn new_mut(elements: &mut [T]) -> &mut HostSlice<T> {
        // SAFETY: as above.
        unsafe { &mut *(elements as *mut [T] as *mut HostSlice<T>) }
    }

    /// The elements `range`.
    ///
    /// ```
    /// let host = ferry::Runtime::new()?.alloc_host_from(b"a hat")?;
    /// assert_eq!(host.slice(2..)?[..], *b"hat");
    /// assert_eq!(host.slice(2..6).unwrap_err().to_string(), "2..6 is not a part of 5 elements");
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<&HostSlice<T>> {
        Ok(HostSlice::new(&self.0[within(range, self.0.len(), "elements")?]))
    }

    /// The elements `range`, to be written.
    ///
    /// ```
    /// let mut host = ferry::Runtime::new()?.alloc_host_from(b"a hat")?;
    /// host.slice_mut(2..3)?[0] = b'c';
    /// assert_eq!(host[..], *b"a cat");
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> Result<&mut HostSlice<T>> {
        let range = within(range, self.0.len(), "elements")?;
        Ok(HostSlice::new_mut(&mut self.0[range]))
    }

    /// The elements before `mid`, and the rest.
    ///
    /// ```
    /// let mut host = ferry::Runtime::new()?.alloc_host_from(&[1, 2, 3])?;
    /// let (first, rest) = host.split_at_mut(1)?;
    /// first[0] = rest[1];
    /// assert_eq!(host[..], [3, 2, 3]);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn split_at_mut(&mut self, mid: usize) -> Result<(&mut HostSlice<T>, &mut HostSlice<T>)> {
        within(..mid, self.0.len(), "elements")?;
        let (before, rest) = self.0.split_at_mut(mid);
        Ok((HostSlice::new_mut(before), HostSlice::new_mut(rest)))
    }

    /// The elements before `mid`, and the rest, to be read.
    ///
    /// ```
    /// let host = ferry::Runtime::new()?.alloc_host_from(&[1, 2, 3])?;
    /// let (first, rest) = host.split_at(1)?;
    /// assert_eq!((first.len(), rest.len()), (1, 2));
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn split_at(&self, mid: usize) -> Result<(&HostSlice<T>, &HostSlice<T>)> {
        Ok((self.slice(..mid)?, self.slice(mid..)?))
    }

    /// Parts of `size` elements, of which the last may be shorter, to be read. None if `size` is 0.
    ///
    /// ```
    /// let host = ferry::Runtime::new()?.alloc_host_from(&[1, 2, 3, 4, 5])?;
    /// assert_eq!(host.chunks(2).map(|chunk| chunk.len()).collect::<Vec<_>>(), [2, 2, 1]);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn chunks(&self, size: usize) -> impl Iterator<Item = &HostSlice<T>> {
        let whole = if size == 0 { &[] } else { &self.0 };
        whole.chunks(size.max(1)).map(HostSlice::new)
    }

    /// Parts of `size` elements, of which the last may be shorter. None if `size` is 0.
    ///
    /// ```
    /// let mut host = ferry::Runtime::new()?.alloc_host::<u8>(5)?;
    /// for (number, chunk) in host.chunks_mut(2).enumerate() {
    ///     chunk.fill(number as u8);
    /// }
    /// assert_eq!(host[..], [0, 0, 1, 1, 2]);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn chunks_mut(&mut self, size: usize) -> impl Iterator<Item = &mut HostSlice<T>> {
        let whole = if size == 0 { &mut [] } else { &mut self.0 };
        whole.chunks_mut(size.max(1)).map(HostSlice::new_mut)
    }
}

impl<T> Deref for HostSlice<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T> DerefMut for HostSlice<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

impl<T: fmt::Debug> fmt::Debug for HostSlice<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Iterating and comparing, as slices do, for what owns elements and for what is a part of them.
macro_rules! like_slices {
    ($($name:ident),*) => {$(
        impl<'a, T> IntoIterator for &'a $name<T> {
            type Item = &'a T;
            type IntoIter = slice::Iter<'a, T>;

            fn into_iter(self) -> slice::Iter<'a, T> {
                self.iter()
            }
        }

        impl<T: PartialEq, O: Deref<Target = HostSlice<T>>> PartialEq<O> for $name<T> {
            fn eq(&self, other: &O) -> bool {
                self[..] == other[..]
            }
        }
    )*};
}

like_slices!(HostBuffer, SharedBuffer, HostSlice);

impl<'a, T> IntoIterator for &'a mut HostBuffer<T> {
    type Item = &'a mut T;
    type IntoIter = slice::IterMut<'a, T>;

    fn into_iter(self) -> slice::IterMut<'a, T> {
        self.iter_mut()
    }
}

impl<'a, T> IntoIterator for &'a mut HostSlice<T> {
    type Item = &'a mut T;
    type IntoIter = slice::IterMut<'a, T>;

    fn into_iter(self) -> slice::IterMut<'a, T> {
        self.iter_mut()
    }
}

impl<T: Pod> HostRead for &SharedBuffer<T> {
    type Elem = T;
    type Buffer = Self;

    fn extent(&mut self, _: Key) -> Result<Extent> {
        Ok(Extent::of_slice(self))
    }

    fn fly(self, stream: Option<StreamHandle>, ticket: Ticket, _: Key) -> InFlight<Self> {
        InFlight::new(self, stream, ticket)
    }
}

/// The borrows of a slice or buffer that a scope takes: `&` to read, `&mut` to write as well.
macro_rules! borrows {
    ($($name:ident),*) => {$(
        impl<T> Sealed for &mut $name<T> {}

        impl<T: Pod> HostRead for &$name<T> {
            type Elem = T;
            type Buffer = Self;

            #[inline]
            fn extent(&mut self, _: Key) -> Result<Extent> {
                Ok(Extent::of_slice(self))
            }

            #[inline]
            fn fly(self, stream: Option<StreamHandle>, ticket: Ticket, _: Key) -> InFlight<Self> {
                InFlight::new(self, stream, ticket)
            }
        }

        impl<T: Pod> HostRead for &mut $name<T> {
            type Elem = T;
            type Buffer = Self;

            #[inline]
            fn extent(&mut self, _: Key) -> Result<Extent> {
                Ok(Extent::linear(self.as_mut_ptr() as usize, self.len(), 0))
            }

            #[inline]
            fn fly(self, stream: Option<StreamHandle>, ticket: Ticket, _: Key) -> InFlight<Self> {
                InFlight::new(self, stream, ticket)
            }
        }

        impl<T: Pod> HostWrite for &mut $name<T> {}
    )*};
}

impl<T> Sealed for HostSlice<T> {}

borrows!(HostBuffer, HostSlice);

impl<T: Pod> HostWrite for Part<HostBuffer<T>> {}
