//! Many copies as one piece of work: thousands of small blocks cost one submission.

use crate::{
    DeviceSlice, Error, Failed, InFlight, Kind, Result,
    extent::{Direction, Extent, KEY, Key, within},
    memory::{HostRead, HostWrite, sealed::Sealed},
    pending::{PendingUses, StreamHandle},
};
use bytemuck::Pod;
use ferry_core::{Ends, Memory, Misfit, Plan, Rows, Ticket};
use std::{
    fmt,
    marker::PhantomData,
    ops::{Bound, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive},
};

/// Pieces of device memory, each with its part of page-locked memory:
/// [`Stream::upload_batch`](crate::Stream::upload_batch) copies them all to the device,
/// [`Stream::download_batch`](crate::Stream::download_batch) all of them back.
///
/// A batch is over one page-locked buffer (or whatever else a copy can own, or a scope can lend), and a piece
/// names elements of it; or over a `Vec` of them, and a piece names the buffer too. This moves the blocks 7,
/// 2 and 5 of a cache:
///
/// ```
/// use ferry::Batch;
///
/// const BLOCK: usize = 1024;
/// let device = ferry::Runtime::new()?.device(0)?;
/// let stream = device.stream()?;
/// let cache = device.alloc_zeroed::<f32>(16 * BLOCK)?;
///
/// let mut batch = Batch::new(device.runtime().alloc_host::<f32>(3 * BLOCK)?);
/// for (place, block) in [7, 2, 5].into_iter().enumerate() {
///     let device = cache.slice(block * BLOCK..(block + 1) * BLOCK)?;
///     batch.push(device, place * BLOCK..(place + 1) * BLOCK)?;
/// }
/// let host = stream.download_batch(batch)?.wait()?;
/// # assert_eq!(host[..], [0.0; 3 * BLOCK]);
/// # Ok::<(), ferry::Error>(())
/// ```
pub struct Batch<'d, H> {
    host: H,
    pieces: Vec<BatchPiece>,
    /// The runtimes of the memory, as far as they are known: of the host's side, and of the devices'.
    owners: [usize; 2],
    /// Device memory is borrowed until the batch is submitted.
    device: PhantomData<&'d ()>,
}

/// A piece, in bytes.
#[derive(Clone, Copy)]
struct BatchPiece {
    device: usize,
    host: usize,
    len: usize,
}

/// Where a piece of a batch lies on the host: some elements (`2..5`, `..`), or a buffer of several and some
/// of its elements (`(1, 2..5)`).
///
/// ```
/// # let device = ferry::Runtime::new()?.device(0)?;
/// # let there = device.alloc::<u8>(4)?;
/// let halves = vec![device.runtime().alloc_host::<u8>(2)?, device.runtime().alloc_host::<u8>(2)?];
/// let mut batch = ferry::Batch::new(halves);
/// batch.push(there.slice(..2)?, 0..2)?;
/// batch.push(there.slice(2..)?, (1, ..))?;
/// # Ok::<(), ferry::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    buffer: usize,
    elements: (Bound<usize>, Bound<usize>),
}

macro_rules! spots {
    ($($range:ty),*) => {$(
        impl From<$range> for Spot {
            fn from(elements: $range) -> Spot {
                Spot::from((0, elements))
            }
        }
    )*};
}

spots!(
    Range<usize>,
    RangeFrom<usize>,
    RangeFull,
    RangeInclusive<usize>,
    RangeTo<usize>,
    RangeToInclusive<usize>
);

impl<R: RangeBounds<usize>> From<(usize, R)> for Spot {
    fn from((buffer, elements): (usize, R)) -> Spot {
        Spot { buffer, elements: (elements.start_bound().cloned(), elements.end_bound().cloned()) }
    }
}

/// The page-locked memory of a batch: whatever is [`HostRead`], or a `Vec` of it, or the token of an earlier
/// batch.
///
/// ```
/// # let device = ferry::Runtime::new()?.device(0)?;
/// # let (stream, there) = (device.stream()?, device.alloc_from(b"ab")?);
/// let host = vec![device.runtime().alloc_host::<u8>(1)?, device.runtime().alloc_host::<u8>(1)?];
/// let mut batch = ferry::Batch::new(host);
/// batch.push(there.slice(..1)?, (1, 0..1))?;
/// let token = stream.download_batch(batch)?;
/// let mut batch = ferry::Batch::new(token);
/// batch.push(there.slice(1..)?, (0, 0..1))?;
/// let host = stream.download_batch(batch)?.wait()?;
/// assert_eq!((host[0][0], host[1][0]), (b'b', b'a'));
/// # Ok::<(), ferry::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not page-locked host memory that a batch can use",
    note = "a batch is over a `HostBuffer<T>` or what else a copy takes, or over a `Vec` of those"
)]
pub trait HostPool: Sealed {
    /// What the memory consists of.
    type Elem: Pod;
    /// What the token holds and gives back.
    type Buffer;

    #[doc(hidden)]
    fn buffer(&mut self, index: usize, key: Key) -> Result<Extent>;

    /// Refuses what holds nothing any more.
    #[doc(hidden)]
    fn check(&mut self, key: Key) -> Result<()>;

    #[doc(hidden)]
    fn pending(&self, key: Key) -> Option<&PendingUses>;

    #[doc(hidden)]
    fn fly(self, stream: Option<StreamHandle>, ticket: Ticket, key: Key) -> InFlight<Self::Buffer>;
}

/// The page-locked memory of a batch that is downloaded: what a [`HostPool`] is made of is [`HostWrite`].
///
/// ```
/// fn is_writable(_: &impl ferry::HostPoolMut) {}
/// is_writable(&vec![ferry::Runtime::new()?.alloc_host::<u8>(1)?]);
/// # Ok::<(), ferry::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not page-locked host memory that a batch can write",
    note = "shared memory (`SharedBuffer`, `&HostSlice`) can only be uploaded"
)]
pub trait HostPoolMut: HostPool {}

fn no_buffer(index: usize, count: usize) -> crate::Error {
    Kind::OutOfBounds.because(format!("buffer {index} of a batch over {count}"))
}

impl<S: HostRead> HostPool for S {
    type Elem = S::Elem;
    type Buffer = S::Buffer;

    fn buffer(&mut self, index: usize, key: Key) -> Result<Extent> {
        if index == 0 { self.extent(key) } else { Err(no_buffer(index, 1)) }
    }

    fn check(&mut self, key: Key) -> Result<()> {
        self.extent(key).map(drop)
    }

    fn pending(&self, key: Key) -> Option<&PendingUses> {
        HostRead::pending(self, key)
    }

    fn fly(mut self, mut stream: Option<StreamHandle>, ticket: Ticket, key: Key) -> InFlight<S::Buffer> {
        self.go_on(&mut stream, ticket, key);
        HostRead::fly(self, stream, ticket, key)
    }
}

impl<S: HostWrite> HostPoolMut for S {}

impl<S> Sealed for Vec<S> {}

impl<S: HostRead<Buffer = S>> HostPool for Vec<S> {
    type Elem = S::Elem;
    type Buffer = Vec<S>;

    fn buffer(&mut self, index: usize, key: Key) -> Result<Extent> {
        let count = self.len();
        self.get_mut(index).ok_or_else(|| no_buffer(index, count))?.extent(key)
    }

    fn check(&mut self, _: Key) -> Result<()> {
        Ok(())
    }

    fn pending(&self, _: Key) -> Option<&PendingUses> {
        None
    }

    fn fly(self, stream: Option<StreamHandle>, ticket: Ticket, _: Key) -> InFlight<Vec<S>> {
        InFlight::new(self, stream, ticket)
    }
}

impl<S: HostWrite<Buffer = S>> HostPoolMut for Vec<S> {}

impl<S: HostRead<Buffer = S>> HostPool for InFlight<Vec<S>> {
    type Elem = S::Elem;
    type Buffer = Vec<S>;

    fn buffer(&mut self, index: usize, key: Key) -> Result<Extent> {
        self.held(key)?.buffer(index, key)
    }

    fn check(&mut self, key: Key) -> Result<()> {
        self.held(key).map(drop)
    }

    fn pending(&self, key: Key) -> Option<&PendingUses> {
        Some(self.uses(key))
    }

    fn fly(self, stream: Option<StreamHandle>, ticket: Ticket, _: Key) -> InFlight<Vec<S>> {
        self.then(stream, ticket)
    }
}

impl<S: HostWrite<Buffer = S>> HostPoolMut for InFlight<Vec<S>> {}

impl<'d, H: HostPool> Batch<'d, H> {
    /// A batch without pieces, over page-locked memory.
    ///
    /// ```
    /// let batch = ferry::Batch::new(ferry::Runtime::new()?.alloc_host::<u8>(100)?);
    /// assert!(batch.is_empty());
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn new(host: H) -> Batch<'d, H> {
        Batch { host, pieces: Vec::new(), owners: [0; 2], device: PhantomData }
    }

    /// Adds a piece: elements of a device, and where they are on the host. As many here as there.
    ///
    /// # Errors
    /// The numbers of elements differ, or the host's part does not exist. The piece is not added, and the
    /// batch stays as it was.
    ///
    /// ```
    /// # let device = ferry::Runtime::new()?.device(0)?;
    /// # let there = device.alloc::<u8>(4)?;
    /// let mut batch = ferry::Batch::new(device.runtime().alloc_host::<u8>(100)?);
    /// batch.push(there.slice(1..3)?, 98..100)?;
    /// assert!(batch.push(&there, 98..102).is_err(), "there are 100 elements");
    /// assert!(batch.push(&there, 0..5).is_err(), "4 elements and 5");
    /// assert_eq!(batch.len(), 1);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn push(&mut self, device: impl Into<DeviceSlice<'d, H::Elem>>, host: impl Into<Spot>) -> Result<()> {
        let (device, spot) = (device.into(), host.into());
        let whole = self.host.buffer(spot.buffer, KEY)?;
        if whole.rows != 1 {
            return Err(Kind::BadShape.because(format!("pieces lie in linear memory, and this is {whole}")));
        }
        let range = within(spot.elements, whole.cols, "elements")?;
        if range.len() != device.len() {
            let note = format!(
                "{} elements at {:#x} on the device, {} on the host",
                device.len(),
                device.addr(),
                range.len()
            );
            return Err(Kind::BadShape.because(note));
        }
        self.owners = [one_owner(self.owners[0], whole.owner)?, one_owner(self.owners[1], device.owner())?];
        let size = size_of::<H::Elem>();
        self.pieces.push(BatchPiece {
            device: device.addr(),
            host: whole.addr + range.start * size,
            len: range.len() * size,
        });
        Ok(())
    }
}

/// All pieces belong to one runtime.
fn one_owner(known: usize, new: usize) -> Result<usize> {
    if known == 0 || new == 0 || known == new {
        return Ok(known.max(new));
    }
    Err(Kind::BadRoute.because("the memory belongs to another runtime than the pieces before"))
}

impl<H> Batch<'_, H> {
    /// The number of pieces.
    ///
    /// ```
    /// assert_eq!(ferry::Batch::new(ferry::Runtime::new()?.alloc_host::<u8>(1)?).len(), 0);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Whether there are none.
    ///
    /// ```
    /// assert!(ferry::Batch::new(ferry::Runtime::new()?.alloc_host::<u8>(1)?).is_empty());
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// The page-locked memory, without the pieces.
    ///
    /// ```
    /// let batch = ferry::Batch::new(ferry::Runtime::new()?.alloc_host_from(b"abc")?);
    /// assert_eq!(batch.into_host()[..], *b"abc");
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn into_host(self) -> H {
        self.host
    }

    pub(crate) fn host(&self) -> &H {
        &self.host
    }

    pub(crate) fn host_mut(&mut self) -> &mut H {
        &mut self.host
    }

    pub(crate) fn owners(&self) -> impl Iterator<Item = usize> {
        self.owners.into_iter()
    }

    pub(crate) fn plan(&self, way: Direction, memory: &Memory) -> Result<Plan, Misfit> {
        let pieces = self.pieces.iter();
        // Each has a loop of its own, which does not ask for every piece which way it goes.
        match way {
            Direction::Up => {
                Plan::new(pieces.map(|piece| Rows::linear(piece.device, piece.host, piece.len)), memory, any)
            }
            Direction::Down => {
                Plan::new(pieces.map(|piece| Rows::linear(piece.host, piece.device, piece.len)), memory, any)
            }
        }
    }

    /// Why the plan was refused, with the number of the piece if it is about one.
    pub(crate) fn refusal(&self, Misfit { item, error }: Misfit) -> Error {
        if item < self.pieces.len() { error.kind.because(format!("piece {item}: {error}")) } else { error }
    }
}

/// Whatever the two ends of a piece are.
fn any(_: usize, _: &Ends) -> Result<()> {
    Ok(())
}

impl<H> fmt::Debug for Batch<'_, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Batch({} pieces)", self.len())
    }
}

/// What a batch that failed gives back.
impl<'d, H> Failed<Batch<'d, H>> {
    /// The page-locked memory alone.
    ///
    /// ```
    /// # let (here, there) = (ferry::Runtime::new()?, ferry::Runtime::new()?);
    /// # let (stream, far) = (here.device(0)?.stream()?, there.device(0)?.alloc::<u8>(1)?);
    /// let mut batch = ferry::Batch::new(here.alloc_host::<u8>(1)?);
    /// batch.push(&far, 0..1)?; // of another runtime
    /// let host = stream.upload_batch(batch).unwrap_err().into_host();
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn into_host(self) -> H {
        self.buffer.into_host()
    }
}
