//! A copy that has been checked, as data. A `Plan` cannot exist unless its bounds, pitches and route are
//! right: the folder `planning` is the only place that makes one.
//!
//! A plan holds one rectangle, several, or a list of segments (`pieces.rs`), all in the engine's addresses.
//! This folder knows the address table's results, and neither memory nor backends.

pub(crate) mod linear;
pub(crate) mod pieces;
pub(crate) mod runs;

use crate::{DeviceId, Error, Kind, Origin, Place, Result, SegmentSink, block::Block, uses::Touched};
pub use linear::Linear;
use pieces::{Pieces, Sizes, Store};
pub use runs::{Chunk, Runs};
use std::mem;

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

/// A checked copy in the engine's addresses: one rectangle, or the pieces of a batch, in no particular order.
/// One copy that was cut where its memory is mapped piece by piece is done in the order given, since its ends
/// may overlap.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    pub(crate) pieces: Store,
    /// None as long as there are no pieces.
    pub(crate) route: Option<Route>,
    /// Whether pieces have routes between several devices.
    mixed: bool,
    pub(crate) plain: bool,
    pub(crate) order: Order,
    /// Which registered memory takes part.
    pub(crate) touched: Touched,
}

/// In which order the pieces of a plan are to be done, and lie in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Order {
    #[default]
    Any,
    /// As the copy goes on.
    Forward,
    /// From its end.
    Backward,
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

impl Plan {
    /// A piece begins or ends in this block.
    #[inline(always)]
    pub(crate) fn touch(&mut self, block: &Block) {
        if block.origin == Origin::Registered {
            self.touched.add(block.base);
        }
    }

    /// Which registered memory takes part. The plan does not know it any more afterwards.
    #[inline]
    pub(crate) fn take_touched(&mut self) -> Touched {
        mem::take(&mut self.touched)
    }

    /// Adds the route of a piece: all pieces have the same kind of route.
    #[inline]
    pub(crate) fn take_route(&mut self, route: Route) -> Result<()> {
        let before = *self.route.get_or_insert(route);
        if mem::discriminant(&route) != mem::discriminant(&before) {
            return Err(Kind::BadRoute.because(format!("{route:?} among pieces that are {before:?}")));
        }
        self.mixed |= route != before;
        self.route = Some(route);
        Ok(())
    }

    /// Whether the pieces must be done one after the other, in the order given.
    pub fn is_ordered(&self) -> bool {
        self.order != Order::Any
    }

    /// Whether that is the order from the end of the copy to its start.
    pub(crate) fn is_backward(&self) -> bool {
        self.order == Order::Backward
    }

    /// The pieces, none of them empty.
    #[inline]
    pub fn pieces(&self) -> Pieces<'_> {
        self.pieces.view()
    }

    /// Between which kinds of memory the bytes move; of the devices, those of the last piece. Inside the
    /// host, if there are none.
    pub fn route(&self) -> Route {
        self.route.unwrap_or_default()
    }

    /// Whether all pieces have one route, between the same devices.
    pub fn has_one_route(&self) -> bool {
        !self.mixed
    }

    /// Whether pageable host memory takes part.
    pub fn is_plain(&self) -> bool {
        self.plain
    }

    /// The sink that holds all pieces, if the backend brought one and they are segments. What the backend
    /// takes out of it the plan does not have any more.
    pub fn sink(&mut self) -> Option<&mut dyn SegmentSink> {
        self.pieces.sink()
    }

    /// How many bytes are moved.
    pub fn bytes(&self) -> usize {
        self.sizes().bytes
    }

    /// How many bytes are moved, by all pieces and by the longest.
    pub fn sizes(&self) -> Sizes {
        self.pieces.sizes()
    }
}

impl Rows {
    /// The same in the engine's addresses; each end lies in one piece.
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
