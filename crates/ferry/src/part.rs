//! A part of an owned buffer, which travels with the buffer: what an owned copy of less than the whole is
//! made of.

use crate::{
    Failed, InFlight, Result,
    extent::{Extent, Grid, Key, within},
    memory::{HostRead, sealed::Sealed},
    pending::StreamHandle,
};
use ferry_core::Ticket;
use std::{fmt, ops::RangeBounds};

/// What has parts: all of a [`HostBuffer`](crate::HostBuffer) or of a [`SharedBuffer`](crate::SharedBuffer).
///
/// ```
/// fn has_parts(_: &impl ferry::Whole) {}
/// has_parts(&ferry::Runtime::new()?.alloc_host::<u8>(1)?);
/// # Ok::<(), ferry::Error>(())
/// ```
pub trait Whole: HostRead<Buffer = Self> {
    #[doc(hidden)]
    fn elements(&self) -> usize;
}

/// An owned buffer of which copies use a part only: some elements, or the rows of a matrix.
/// [`HostBuffer::into_slice`][slice] and [`HostBuffer::into_matrix`][matrix] make one;
/// [`into_inner`](Self::into_inner) is the buffer again.
///
/// [slice]: crate::HostBuffer::into_slice
/// [matrix]: crate::HostBuffer::into_matrix
///
/// ```
/// let device = ferry::Runtime::new()?.device(0)?;
/// let (stream, there) = (device.stream()?, device.alloc_from(b"xx")?);
/// let part = device.runtime().alloc_host_from(b"a hat")?.into_slice(1..3)?;
///
/// let part = stream.download(part, &there)?.wait()?;
/// assert_eq!(part.into_inner()[..], *b"axxat");
/// # Ok::<(), ferry::Error>(())
/// ```
pub struct Part<B> {
    buffer: B,
    /// Elements before the first.
    before: usize,
    grid: Grid,
}

pub(crate) fn slice<B: Whole>(buffer: B, range: impl RangeBounds<usize>) -> Result<Part<B>, Failed<B>> {
    match within(range, buffer.elements(), "elements") {
        Ok(range) => {
            let grid = Grid { rows: 1, cols: range.len(), pitch: range.len() };
            Ok(Part { buffer, before: range.start, grid })
        }
        Err(error) => Err(Failed { error, buffer }),
    }
}

pub(crate) fn matrix<B: Whole>(
    buffer: B,
    rows: usize,
    cols: usize,
    pitch: usize,
) -> Result<Part<B>, Failed<B>> {
    match Grid::new(rows, cols, pitch, buffer.elements()) {
        Ok(grid) => Ok(Part { buffer, before: 0, grid }),
        Err(error) => Err(Failed { error, buffer }),
    }
}

impl<B> Part<B> {
    /// The whole buffer.
    ///
    /// ```
    /// let part = ferry::Runtime::new()?.alloc_host_from(b"a hat")?.into_slice(1..3)?;
    /// assert_eq!(part.into_inner().len(), 5);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn into_inner(self) -> B {
        self.buffer
    }

    /// A rectangle of it: these of its rows, and of each these columns.
    ///
    /// ```
    /// # let device = ferry::Runtime::new()?.device(0)?;
    /// # let (stream, there) = (device.stream()?, device.alloc::<u8>(2)?);
    /// let picture = device.runtime().alloc_host_from(&[1_u8, 2, 3, 4, 5, 6])?.into_matrix(2, 3, 3)?;
    /// stream.upload(&there, picture.rect(.., 1..2)?)?.wait()?;
    /// assert_eq!(stream.read_vec(&there)?, [2, 5]);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn rect(
        self,
        rows: impl RangeBounds<usize>,
        cols: impl RangeBounds<usize>,
    ) -> Result<Part<B>, Failed<Part<B>>> {
        match self.grid.rect(rows, cols) {
            Ok((before, grid)) => Ok(Part { before: self.before + before, grid, ..self }),
            Err(error) => Err(Failed { error, buffer: self }),
        }
    }
}

impl<B> fmt::Debug for Part<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Grid { rows, cols, pitch } = self.grid;
        let mut shown = f.debug_struct("Part");
        shown.field("start", &self.before).field("rows", &rows).field("cols", &cols).field("pitch", &pitch);
        shown.finish_non_exhaustive()
    }
}

impl<B> Sealed for Part<B> {}

impl<B: Whole> HostRead for Part<B> {
    type Elem = B::Elem;
    type Buffer = Self;

    #[inline]
    fn extent(&mut self, key: Key) -> Result<Extent> {
        let whole = self.buffer.extent(key)?;
        Ok(self.grid.at(whole.addr + self.before * size_of::<B::Elem>(), whole.owner))
    }

    #[inline]
    fn fly(self, stream: Option<StreamHandle>, ticket: Ticket, _: Key) -> InFlight<Self> {
        InFlight::new(self, stream, ticket)
    }
}

impl<B: Whole> InFlight<B> {
    /// This token, of which the next copy uses the elements `range` only.
    ///
    /// ```
    /// # let device = ferry::Runtime::new()?.device(0)?;
    /// # let (stream, there) = (device.stream()?, device.alloc_from(&[1_u8, 2])?);
    /// let token = stream.upload(&there, device.runtime().alloc_host_from(&[8_u8, 9])?)?;
    /// let token = stream.download(token.into_slice(..1)?, there.slice(1..)?)?;
    /// let host = token.into_inner().wait()?;
    /// assert_eq!(host[..], [9, 9]);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn into_slice(self, range: impl RangeBounds<usize>) -> Result<InFlight<Part<B>>, Failed<Self>> {
        self.map(|buffer| slice(buffer, range))
    }

    /// This token, of which the next copy uses `rows` rows of `cols` elements, `pitch` elements apart.
    ///
    /// ```
    /// # let device = ferry::Runtime::new()?.device(0)?;
    /// # let (stream, there) = (device.stream()?, device.alloc_from(&[1_u8, 2, 3, 4])?);
    /// let token = stream.upload(&there, device.runtime().alloc_host_from(&[0_u8; 4])?)?;
    /// stream.write(&there, &[1, 2, 3, 4])?;
    /// let token = stream.download(token.into_matrix(2, 1, 2)?, there.slice(..2)?)?;
    /// let host = token.into_inner().wait()?;
    /// assert_eq!(host[..], [1, 0, 2, 0]);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn into_matrix(
        self,
        rows: usize,
        cols: usize,
        pitch: usize,
    ) -> Result<InFlight<Part<B>>, Failed<Self>> {
        self.map(|buffer| matrix(buffer, rows, cols, pitch))
    }
}

impl<B> InFlight<Part<B>> {
    /// This token, of which the next copy uses a rectangle: these of its rows, and of each these columns.
    ///
    /// ```
    /// # let device = ferry::Runtime::new()?.device(0)?;
    /// # let (stream, there) = (device.stream()?, device.alloc_from(&[1_u8, 2])?);
    /// let picture = device.runtime().alloc_host::<u8>(6)?.into_matrix(2, 3, 3)?;
    /// let token = stream.download(picture.rect(.., ..1)?, &there)?;
    /// let token = token.into_inner().into_matrix(2, 3, 3)?.rect(.., 1..2)?;
    /// let host = stream.download(token, &there)?.into_inner().wait()?;
    /// assert_eq!(host[..], [1, 1, 0, 2, 2, 0]);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn rect(
        self,
        rows: impl RangeBounds<usize>,
        cols: impl RangeBounds<usize>,
    ) -> Result<InFlight<Part<B>>, Failed<Self>> {
        self.map(|part| part.rect(rows, cols))
    }

    /// The token of the whole buffer.
    ///
    /// ```
    /// # let device = ferry::Runtime::new()?.device(0)?;
    /// # let (stream, there) = (device.stream()?, device.alloc_from(&[5_u8; 2])?);
    /// let part = device.runtime().alloc_host::<u8>(4)?.into_slice(1..3)?;
    /// let host = stream.download(part, &there)?.into_inner().wait()?;
    /// assert_eq!(host[..], [0, 5, 5, 0]);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn into_inner(self) -> InFlight<B> {
        self.replace(Part::into_inner)
    }
}
