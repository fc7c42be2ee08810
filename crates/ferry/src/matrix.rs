//! Matrices: rows of elements a pitch apart, in page-locked or device memory. Views, which copy and own
//! nothing.

use crate::{
    DeviceBuffer, DeviceSlice, HostSlice, InFlight, Result,
    extent::{Extent, Grid, Key},
    memory::{HostRead, HostWrite, OnDevice, sealed::Sealed},
    pending::StreamHandle,
};
use bytemuck::Pod;
use ferry_core::Ticket;
use std::{any::Any, fmt, ops::RangeBounds, sync::Arc};

/// A matrix in device memory. [`Stream::upload`](crate::Stream::upload),
/// [`download`](crate::Stream::download) and [`copy`](crate::Stream::copy) take it wherever they take a
/// slice; the other end has the same rows and columns, or is linear and has as many elements.
///
/// ```
/// let device = ferry::Runtime::new()?.device(0)?;
/// let stream = device.stream()?;
/// let picture = device.alloc_zeroed::<u8>(4 * 8)?;
///
/// // Two rows of three in the middle of four rows of eight.
/// let middle = picture.matrix(4, 8)?.rect(1..3, 2..5)?;
/// stream.write(middle, &[1, 2, 3, 4, 5, 6])?;
/// assert_eq!(stream.read_vec(picture.slice(8..24)?)?, [0, 0, 1, 2, 3, 0, 0, 0, 0, 0, 4, 5, 6, 0, 0, 0]);
/// # Ok::<(), ferry::Error>(())
/// ```
pub struct DeviceMatrix<'a, T> {
    /// All that the rows lie in.
    slice: DeviceSlice<'a, T>,
    grid: Grid,
}

/// A matrix in page-locked memory, to be read: [`HostSlice::matrix`]. A [`scope`](crate::Stream::scope)
/// uploads it.
///
/// ```
/// let device = ferry::Runtime::new()?.device(0)?;
/// let (stream, there) = (device.stream()?, device.alloc::<u8>(4)?);
/// let host = device.runtime().alloc_host_from(&[1_u8, 2, 3, 4, 5, 6])?;
///
/// let left = host.matrix(2, 3)?.rect(.., ..2)?;
/// stream.scope(|scope| Ok(drop(scope.upload(&there, left)?)))?;
/// assert_eq!(stream.read_vec(&there)?, [1, 2, 4, 5]);
/// # Ok::<(), ferry::Error>(())
/// ```
pub struct HostMatrix<'a, T> {
    slice: &'a HostSlice<T>,
    grid: Grid,
}

/// A matrix in page-locked memory, to be written: [`HostSlice::matrix_mut`]. A
/// [`scope`](crate::Stream::scope) downloads to it.
///
/// ```
/// let device = ferry::Runtime::new()?.device(0)?;
/// let (stream, there) = (device.stream()?, device.alloc_from(&[7_u8, 8])?);
/// let mut host = device.runtime().alloc_host::<u8>(6)?;
///
/// let middle = host.matrix_mut(2, 3)?.rect(.., 1..2)?;
/// stream.scope(|scope| Ok(drop(scope.download(middle, &there)?)))?;
/// assert_eq!(host[..], [0, 7, 0, 0, 8, 0]);
/// # Ok::<(), ferry::Error>(())
/// ```
pub struct HostMatrixMut<'a, T> {
    slice: &'a mut HostSlice<T>,
    grid: Grid,
}

/// What all three say of their shape.
macro_rules! shape {
    ($name:ident, $made:literal) => {
        impl<T> $name<'_, T> {
            /// The number of rows.
            ///
            /// ```
            #[doc = $made]
            /// assert_eq!(matrix.rows(), 2);
            /// # Ok::<(), ferry::Error>(())
            /// ```
            pub fn rows(&self) -> usize {
                self.grid.rows
            }

            /// The number of elements in a row.
            ///
            /// ```
            #[doc = $made]
            /// assert_eq!(matrix.cols(), 3);
            /// # Ok::<(), ferry::Error>(())
            /// ```
            pub fn cols(&self) -> usize {
                self.grid.cols
            }

            /// The number of elements from one row to the next.
            ///
            /// ```
            #[doc = $made]
            /// assert_eq!(matrix.pitch(), 4);
            /// # Ok::<(), ferry::Error>(())
            /// ```
            pub fn pitch(&self) -> usize {
                self.grid.pitch
            }
        }

        impl<T> fmt::Debug for $name<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let Grid { rows, cols, pitch } = self.grid;
                let mut shown = f.debug_struct(stringify!($name));
                shown.field("rows", &rows).field("cols", &cols).field("pitch", &pitch).finish_non_exhaustive()
            }
        }

        impl<T> Sealed for $name<'_, T> {}
    };
}

shape!(
    DeviceMatrix,
    "let buffer = ferry::Runtime::new()?.device(0)?.alloc::<u8>(7)?;\n\
     let matrix = buffer.matrix_pitched(2, 3, 4)?;"
);
shape!(
    HostMatrix,
    "let host = ferry::Runtime::new()?.alloc_host::<u8>(7)?;\n\
     let matrix = host.matrix_pitched(2, 3, 4)?;"
);
shape!(
    HostMatrixMut,
    "let mut host = ferry::Runtime::new()?.alloc_host::<u8>(7)?;\n\
     let matrix = host.matrix_pitched_mut(2, 3, 4)?;"
);

impl<T: Pod> DeviceBuffer<T> {
    /// `rows` rows of `cols` elements, one after the other, from the first element on.
    ///
    /// ```
    /// let buffer = ferry::Runtime::new()?.device(0)?.alloc::<f32>(12)?;
    /// assert_eq!(buffer.matrix(3, 4)?.rows(), 3);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn matrix(&self, rows: usize, cols: usize) -> Result<DeviceMatrix<'_, T>> {
        self.as_slice().matrix(rows, cols)
    }

    /// `rows` rows of `cols` elements, `pitch` elements apart, from the first element on.
    ///
    /// ```
    /// let buffer = ferry::Runtime::new()?.device(0)?.alloc::<f32>(18)?;
    /// assert_eq!(buffer.matrix_pitched(3, 4, 7)?.pitch(), 7);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn matrix_pitched(&self, rows: usize, cols: usize, pitch: usize) -> Result<DeviceMatrix<'_, T>> {
        self.as_slice().matrix_pitched(rows, cols, pitch)
    }
}

impl<'a, T: Pod> DeviceSlice<'a, T> {
    /// `rows` rows of `cols` elements, one after the other, from the first element on.
    ///
    /// ```
    /// let buffer = ferry::Runtime::new()?.device(0)?.alloc::<f32>(20)?;
    /// assert_eq!(buffer.slice(8..)?.matrix(3, 4)?.cols(), 4);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn matrix(&self, rows: usize, cols: usize) -> Result<DeviceMatrix<'a, T>> {
        self.matrix_pitched(rows, cols, cols)
    }

    /// `rows` rows of `cols` elements, `pitch` elements apart, from the first element on.
    ///
    /// ```
    /// let buffer = ferry::Runtime::new()?.device(0)?.alloc::<f32>(20)?;
    /// assert!(buffer.slice(8..)?.matrix_pitched(3, 4, 5).is_err(), "takes 14 elements of 12");
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn matrix_pitched(&self, rows: usize, cols: usize, pitch: usize) -> Result<DeviceMatrix<'a, T>> {
        Ok(DeviceMatrix::new(*self, Grid::new(rows, cols, pitch, self.len())?))
    }
}

impl<T> HostSlice<T> {
    /// `rows` rows of `cols` elements, one after the other, from the first element on.
    ///
    /// ```
    /// let host = ferry::Runtime::new()?.alloc_host_from(&[1, 2, 3, 4, 5, 6])?;
    /// assert_eq!(host.matrix(2, 3)?.row(1), Some(&[4, 5, 6][..]));
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn matrix(&self, rows: usize, cols: usize) -> Result<HostMatrix<'_, T>> {
        self.matrix_pitched(rows, cols, cols)
    }

    /// `rows` rows of `cols` elements, `pitch` elements apart, from the first element on.
    ///
    /// ```
    /// let host = ferry::Runtime::new()?.alloc_host_from(&[1, 2, 0, 3, 4])?;
    /// assert_eq!(host.matrix_pitched(2, 2, 3)?.row(1), Some(&[3, 4][..]));
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn matrix_pitched(&self, rows: usize, cols: usize, pitch: usize) -> Result<HostMatrix<'_, T>> {
        Ok(HostMatrix::new(self, Grid::new(rows, cols, pitch, self.len())?))
    }

    /// As [`matrix`](Self::matrix), to be written.
    ///
    /// ```
    /// let mut host = ferry::Runtime::new()?.alloc_host::<u8>(6)?;
    /// host.matrix_mut(2, 3)?.row_mut(1).expect("there are two").fill(9);
    /// assert_eq!(host[..], [0, 0, 0, 9, 9, 9]);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn matrix_mut(&mut self, rows: usize, cols: usize) -> Result<HostMatrixMut<'_, T>> {
        self.matrix_pitched_mut(rows, cols, cols)
    }

    /// As [`matrix_pitched`](Self::matrix_pitched), to be written.
    ///
    /// ```
    /// let device = ferry::Runtime::new()?.device(0)?;
    /// let (stream, there) = (device.stream()?, device.alloc_from(&[1_u8, 2, 3, 4])?);
    /// let mut host = device.runtime().alloc_host::<u8>(5)?;
    /// let rows = host.matrix_pitched_mut(2, 2, 3)?;
    /// stream.scope(|scope| scope.download(rows, &there).map(drop).map_err(Into::into))?;
    /// assert_eq!(host[..], [1, 2, 0, 3, 4]);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn matrix_pitched_mut(
        &mut self,
        rows: usize,
        cols: usize,
        pitch: usize,
    ) -> Result<HostMatrixMut<'_, T>> {
        let grid = Grid::new(rows, cols, pitch, self.len())?;
        Ok(HostMatrixMut::new(self, grid))
    }
}

impl<'a, T: Pod> DeviceMatrix<'a, T> {
    pub(crate) fn new(slice: DeviceSlice<'a, T>, grid: Grid) -> Self {
        DeviceMatrix { slice, grid }
    }

    /// A rectangle of it: these of its rows, and of each these columns.
    ///
    /// ```
    /// let buffer = ferry::Runtime::new()?.device(0)?.alloc::<u8>(100)?;
    /// let rect = buffer.matrix(10, 10)?.rect(2..4, 5..)?;
    /// assert_eq!((rect.rows(), rect.cols(), rect.pitch()), (2, 5, 10));
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn rect(&self, rows: impl RangeBounds<usize>, cols: impl RangeBounds<usize>) -> Result<Self> {
        let (before, grid) = self.grid.rect(rows, cols)?;
        Ok(DeviceMatrix { slice: self.slice.slice(before..before + grid.span())?, grid })
    }
}

impl<T> Clone for DeviceMatrix<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for DeviceMatrix<'_, T> {}

impl<T: Pod> OnDevice for DeviceMatrix<'_, T> {
    type Elem = T;

    #[inline]
    fn extent(&self, key: Key) -> Extent {
        let Extent { addr, owner, .. } = self.slice.extent(key);
        self.grid.at(addr, owner)
    }

    fn keepsake(&self, key: Key) -> Arc<dyn Any + Send + Sync> {
        self.slice.keepsake(key)
    }
}

impl<'a, T> HostMatrix<'a, T> {
    pub(crate) fn new(slice: &'a HostSlice<T>, grid: Grid) -> Self {
        HostMatrix { slice, grid }
    }

    /// The elements of a row, if there is such a row.
    ///
    /// ```
    /// let host = ferry::Runtime::new()?.alloc_host_from(&[1, 2, 3, 4])?;
    /// assert_eq!(host.matrix(2, 2)?.row(1), Some(&[3, 4][..]));
    /// assert_eq!(host.matrix(2, 2)?.row(2), None);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn row(&self, row: usize) -> Option<&'a [T]> {
        self.slice.get(self.grid.row(row)?)
    }

    /// A rectangle of it: these of its rows, and of each these columns.
    ///
    /// ```
    /// let host = ferry::Runtime::new()?.alloc_host_from(&[1, 2, 3, 4, 5, 6])?;
    /// assert_eq!(host.matrix(2, 3)?.rect(1.., 1..)?.row(0), Some(&[5, 6][..]));
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn rect(&self, rows: impl RangeBounds<usize>, cols: impl RangeBounds<usize>) -> Result<Self> {
        let (before, grid) = self.grid.rect(rows, cols)?;
        Ok(HostMatrix { slice: self.slice.slice(before..before + grid.span())?, grid })
    }
}

impl<T> Clone for HostMatrix<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for HostMatrix<'_, T> {}

impl<T: Pod> HostRead for HostMatrix<'_, T> {
    type Elem = T;
    type Buffer = Self;

    #[inline]
    fn extent(&mut self, _: Key) -> Result<Extent> {
        Ok(self.grid.at(self.slice.as_ptr() as usize, 0))
    }

    #[inline]
    fn fly(self, stream: Option<StreamHandle>, ticket: Ticket, _: Key) -> InFlight<Self> {
        InFlight::new(self, stream, ticket)
    }
}

impl<'a, T> HostMatrixMut<'a, T> {
    pub(crate) fn new(slice: &'a mut HostSlice<T>, grid: Grid) -> Self {
        HostMatrixMut { slice, grid }
    }

    /// The elements of a row, if there is such a row.
    ///
    /// ```
    /// let mut host = ferry::Runtime::new()?.alloc_host_from(&[1, 2, 3, 4])?;
    /// let mut matrix = host.matrix_mut(2, 2)?;
    /// matrix.row_mut(0).expect("there are two")[1] = 9;
    /// assert!(matrix.row_mut(2).is_none());
    /// assert_eq!(host[..], [1, 9, 3, 4]);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn row_mut(&mut self, row: usize) -> Option<&mut [T]> {
        self.slice.get_mut(self.grid.row(row)?)
    }

    /// A rectangle of it: these of its rows, and of each these columns.
    ///
    /// ```
    /// let mut host = ferry::Runtime::new()?.alloc_host::<u8>(6)?;
    /// host.matrix_mut(2, 3)?.rect(1.., 1..)?.row_mut(0).expect("there is one").fill(5);
    /// assert_eq!(host[..], [0, 0, 0, 0, 5, 5]);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn rect(self, rows: impl RangeBounds<usize>, cols: impl RangeBounds<usize>) -> Result<Self> {
        let (before, grid) = self.grid.rect(rows, cols)?;
        Ok(HostMatrixMut { slice: self.slice.slice_mut(before..before + grid.span())?, grid })
    }
}

impl<T: Pod> HostRead for HostMatrixMut<'_, T> {
    type Elem = T;
    type Buffer = Self;

    #[inline]
    fn extent(&mut self, _: Key) -> Result<Extent> {
        Ok(self.grid.at(self.slice.as_mut_ptr() as usize, 0))
    }

    #[inline]
    fn fly(self, stream: Option<StreamHandle>, ticket: Ticket, _: Key) -> InFlight<Self> {
        InFlight::new(self, stream, ticket)
    }
}

impl<T: Pod> HostWrite for HostMatrixMut<'_, T> {}
