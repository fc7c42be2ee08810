//! What can be an end of a copy. Three traits, which this crate alone implements: [`HostRead`],
//! [`HostWrite`], [`OnDevice`]; and what memory consists of.

use crate::{
    InFlight, Result,
    extent::{Extent, Key},
    pending::{PendingUses, StreamHandle},
};
use bytemuck::Pod;
use ferry_core::Ticket;
use std::{any::Any, sync::Arc};

pub(crate) mod sealed {
    /// Keeps the traits of this module to this crate: copies rely on what their methods say.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` cannot implement a trait that `ferry` keeps to itself",
        label = "not a type of `ferry`",
        note = "copies rely on what these types are: use a `HostBuffer<T>` or a `DeviceBuffer<T>`"
    )]
    pub trait Sealed {}
}

/// What memory consists of: any [`bytemuck::Pod`], by a name whose compiler message says what is wrong with a
/// type.
///
/// ```
/// fn bytes_of<T: ferry::Element>(count: usize) -> usize {
///     count * size_of::<T>()
/// }
/// assert_eq!(bytes_of::<[f32; 4]>(2), 32);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not plain data",
    label = "cannot be an element of memory that copies write",
    note = "elements are `bytemuck::Pod`: numbers, arrays of them, and `repr(C)` structs of those, without \
        padding, references or `bool`",
    note = "a type of your own becomes one by deriving or implementing `bytemuck::Pod`"
)]
pub trait Element: Pod {}

#[diagnostic::do_not_recommend]
impl<T: Pod> Element for T {}

/// Page-locked host memory that a copy may read.
///
/// What is owned goes along with the copy and comes back from the [`InFlight`](crate::InFlight) token:
/// [`HostBuffer`](crate::HostBuffer), [`SharedBuffer`](crate::SharedBuffer), a [`Part`](crate::Part) of
/// either, or the token of an earlier copy. What is borrowed (`&HostSlice`, `&mut HostSlice`,
/// [`HostMatrix`](crate::HostMatrix), [`HostMatrixMut`](crate::HostMatrixMut)) can be lent inside a
/// [`scope`](crate::Stream::scope).
///
/// ```
/// use ferry::{Device, DeviceBuffer, HostRead, InFlight, Result, Stream};
///
/// /// Works for whatever owns page-locked memory.
/// fn send<S: HostRead<Elem = f32> + 'static>(
///     stream: &Stream,
///     to: &DeviceBuffer<f32>,
///     what: S,
/// ) -> Result<InFlight<S::Buffer>> {
///     Ok(stream.upload(to, what)?)
/// }
/// # let device = ferry::Runtime::new()?.device(0)?;
/// # let (stream, to) = (device.stream()?, device.alloc::<f32>(4)?);
/// # let host = device.runtime().alloc_host_from(&[1.0_f32; 4])?;
/// let token = send(&stream, &to, host)?;
/// let host = send(&stream, &to, token)?.wait()?;
/// # assert_eq!(host[..], [1.0; 4]);
/// # Ok::<(), ferry::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not page-locked host memory that a copy can use",
    label = "page-locked memory is expected here",
    note = "an asynchronous copy takes a `HostBuffer<T>`, a `SharedBuffer<T>`, a `Part` of one, or the \
        `InFlight` token of an earlier copy",
    note = "a plain slice is copied by `Stream::write` and `Stream::read`, which wait until the copy is done",
    note = "page-locked memory can be lent, instead of given away, inside `Stream::scope`"
)]
pub trait HostRead: sealed::Sealed + Sized {
    /// What the memory consists of.
    type Elem: Pod;
    /// What the token holds and gives back.
    type Buffer;

    #[doc(hidden)]
    fn extent(&mut self, key: Key) -> Result<Extent>;

    /// The copy that still uses the memory.
    #[doc(hidden)]
    #[inline]
    fn pending(&self, key: Key) -> Option<&PendingUses> {
        let _ = key;
        None
    }

    /// The op `ticket` uses the memory too: told before `fly`. Its stream is given, unless that is the one of
    /// `pending`.
    #[doc(hidden)]
    #[inline]
    fn go_on(&mut self, stream: &mut Option<StreamHandle>, ticket: Ticket, key: Key) {
        let _ = (stream, ticket, key);
    }

    /// The token of the op `ticket`.
    #[doc(hidden)]
    fn fly(self, stream: Option<StreamHandle>, ticket: Ticket, key: Key) -> InFlight<Self::Buffer>;
}

/// Page-locked host memory that a copy may write: what [`HostRead`] lists, except what is shared.
///
/// ```
/// # let device = ferry::Runtime::new()?.device(0)?;
/// # let (stream, from) = (device.stream()?, device.alloc_from(&[5_u8; 16])?);
/// fn is_writable(_: &impl ferry::HostWrite) {}
///
/// let host = device.runtime().alloc_host::<u8>(16)?;
/// is_writable(&host);
/// let token = stream.download(host, &from)?;
/// is_writable(&token);
/// # token.wait()?;
/// # Ok::<(), ferry::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not page-locked host memory that a copy can write",
    label = "memory to write is expected here",
    note = "a download takes a `HostBuffer<T>`, a `Part` of one, or the `InFlight` token of an earlier copy",
    note = "inside `Stream::scope` it also takes what is lent: `&mut HostBuffer<T>`, `&mut HostSlice<T>` or \
        `HostMatrixMut<T>`",
    note = "shared memory (`SharedBuffer`, `&HostSlice`, `HostMatrix`) can only be read",
    note = "a plain `&mut [T]` is written by `Stream::read`, which waits until the copy is done"
)]
pub trait HostWrite: HostRead {}

/// Device memory: `&DeviceBuffer`, [`DeviceSlice`](crate::DeviceSlice),
/// [`DeviceMatrix`](crate::DeviceMatrix). A shared handle is enough to read and to write it, since the CPU
/// never sees it and a stream keeps its copies in order.
///
/// ```
/// use ferry::{OnDevice, Result, Stream};
///
/// fn clear(stream: &Stream, what: impl OnDevice<Elem = u32>) -> Result<()> {
///     stream.fill(what, 0)
/// }
/// # let device = ferry::Runtime::new()?.device(0)?;
/// # let (stream, buffer) = (device.stream()?, device.alloc_from(&[1_u32; 8])?);
/// clear(&stream, buffer.slice(2..4)?)?;
/// assert_eq!(stream.read_vec(&buffer)?, [1, 1, 0, 0, 1, 1, 1, 1]);
/// # Ok::<(), ferry::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not device memory",
    label = "device memory is expected here",
    note = "give a `&DeviceBuffer<T>`, a `DeviceSlice<T>` or a `DeviceMatrix<T>`; the destination comes first"
)]
pub trait OnDevice: sealed::Sealed {
    /// What the memory consists of.
    type Elem: Pod;

    #[doc(hidden)]
    fn extent(&self, key: Key) -> Extent;

    /// A handle of the allocation, which keeps it from being freed.
    #[doc(hidden)]
    fn keepsake(&self, key: Key) -> Arc<dyn Any + Send + Sync>;
}
