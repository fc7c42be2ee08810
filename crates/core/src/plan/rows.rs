//! Rectangles of bytes, the routes between kinds of memory, and refusals: what plans are made of and asked
//! for with.

use crate::{DeviceId, Error, Kind, Place, Result};

/// A rectangle of bytes to move; a linear copy is one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// First byte of the destination.
    pub dst: usize,
    /// Bytes from one destination row to the next.
    pub dst_pitch: usize,
    /// First byte of the source.
    pub src: usize,
    /// Bytes from one source row to the next.
    pub src_pitch: usize,
    /// Bytes in a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
}

/// Between which kinds of memory a plan moves bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Route {
    /// Inside the host.
    #[default]
    HostToHost,
    /// To a device.
    HostToDevice {
        /// The device written to.
        to: DeviceId,
    },
    /// From a device.
    DeviceToHost {
        /// The device read from.
        from: DeviceId,
    },
    /// Inside a device, or from one to another.
    DeviceToDevice {
        /// The device read from.
        from: DeviceId,
        /// The device written to.
        to: DeviceId,
    },
}

/// What the two ends of one piece belong to.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    /// What the destination belongs to.
    pub dst: Place,
    /// What the source belongs to.
    pub src: Place,
}

/// A refused piece: which one of the batch, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// The index of the piece; `usize::MAX` if the refusal is about none of them.
    pub item: usize,
    /// Why it was refused.
    pub error: Error,
}

impl From<Error> for Misfit {
    fn from(error: Error) -> Self {
        Misfit { item: usize::MAX, error }
    }
}

impl Rows {
    /// `len` bytes in one piece.
    pub fn linear(dst: usize, src: usize, len: usize) -> Self {
        Rows { dst, dst_pitch: len, src, src_pitch: len, width: len, height: 1 }
    }

    /// How many bytes are moved.
    pub fn bytes(&self) -> usize {
        self.width * self.height
    }

    /// From the first to behind the last byte that is written, gaps between rows included. The rectangle has
    /// been checked.
    pub(crate) fn written(&self) -> (usize, usize) {
        self.range(self.dst, self.dst_pitch)
    }

    /// From the first to behind the last byte that is read, as [`written`](Self::written).
    pub(crate) fn read(&self) -> (usize, usize) {
        self.range(self.src, self.src_pitch)
    }

    fn range(&self, start: usize, pitch: usize) -> (usize, usize) {
        (start, start + self.height.saturating_sub(1) * pitch + self.width)
    }

    /// Distance from the first byte to the end of the last row: the last row needs its width, not its pitch.
    #[inline]
    pub(crate) fn span(self, start: usize, pitch: usize) -> Result<usize> {
        if self.width == 0 || self.height == 0 {
            return Ok(0);
        }
        (self.height - 1)
            .checked_mul(pitch)
            .and_then(|rest| rest.checked_add(self.width))
            .filter(|span| pitch >= self.width && start.checked_add(*span).is_some())
            .ok_or_else(|| self.has_no_span(start, pitch))
    }

    #[cold]
    fn has_no_span(self, start: usize, pitch: usize) -> Error {
        let (width, height) = (self.width, self.height);
        Kind::BadShape.because(if pitch < width {
            format!("a pitch of {pitch} bytes is less than the width of {width}")
        } else {
            format!(
                "{height} rows of {width} bytes, pitch {pitch}, from {start:#x} wrap round the end of the \
                 address space"
            )
        })
    }
}

impl Ends {
    /// The route between the two.
    pub fn route(&self) -> Route {
        match (self.src.device(), self.dst.device()) {
            (None, None) => Route::HostToHost,
            (None, Some(to)) => Route::HostToDevice { to },
            (Some(from), None) => Route::DeviceToHost { from },
            (Some(from), Some(to)) => Route::DeviceToDevice { from, to },
        }
    }
}

impl Rows {
    /// The rectangle in the engine's addresses; each end lies in one piece.
    #[inline]
    pub(crate) fn between(self, ends: &Ends) -> Rows {
        let (dst, src) = (ends.dst.engine_address(self.dst), ends.src.engine_address(self.src));
        Rows { dst, src, ..self }.straightened()
    }

    /// Rows that are contiguous on both sides become one long row.
    pub(crate) fn straightened(self) -> Rows {
        if self.dst_pitch == self.width && self.src_pitch == self.width {
            Rows::linear(self.dst, self.src, self.bytes())
        } else {
            self
        }
    }
}
