//! A copy that has been checked. A `Plan` cannot exist unless its bounds, pitches and route are right.

use crate::{Access, DeviceId, Error, Kind, Memory, Place, Result, table::GRANULE};
use smallvec::SmallVec;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Inside the host.
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
    /// The index of the piece.
    pub item: usize,
    /// Why it was refused.
    pub error: Error,
}

/// A checked copy in the engine's addresses: one rectangle, or the pieces of a batch, in no particular order.
#[derive(Clone, Debug)]
pub struct Plan {
    rows: SmallVec<[Rows; 1]>,
    route: Route,
    plain: bool,
}

impl From<Error> for Misfit {
    fn from(error: Error) -> Self {
        Misfit { item: 0, error }
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
    fn span(&self, start: usize, pitch: usize) -> Result<usize> {
        if self.width == 0 || self.height == 0 {
            return Ok(0);
        }
        if pitch < self.width {
            return Err(Kind::BadShape
                .because(format!("a pitch of {pitch} bytes is less than the width of {}", self.width)));
        }
        (self.height - 1)
            .checked_mul(pitch)
            .and_then(|rest| rest.checked_add(self.width))
            .filter(|span| start.checked_add(*span).is_some())
            .ok_or_else(|| {
                let (width, height) = (self.width, self.height);
                Kind::BadShape.because(format!(
                    "{height} rows of {width} bytes, pitch {pitch}, from {start:#x} wrap round the end of the address space"
                ))
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
    /// The only way to make a plan: every range is looked up, as a range, and must be what it says. `fits` adds the caller's
    /// own rules for piece `item`; it is asked before any plain host memory is touched.
    pub fn new(
        pieces: impl IntoIterator<Item = Rows>,
        memory: &Memory,
        mut fits: impl FnMut(usize, &Ends) -> Result<()>,
    ) -> Result<Plan, Misfit> {
        let mut plan = Plan { rows: SmallVec::new(), route: Route::HostToHost, plain: false };
        for (item, rows) in pieces.into_iter().enumerate() {
            plan.add(item, rows, memory, &mut fits).map_err(|error| Misfit { item, error })?;
        }
        Ok(plan)
    }

    #[inline]
    fn add(
        &mut self,
        item: usize,
        rows: Rows,
        memory: &Memory,
        fits: &mut impl FnMut(usize, &Ends) -> Result<()>,
    ) -> Result<()> {
        let (dst_span, src_span) =
            (rows.span(rows.dst, rows.dst_pitch)?, rows.span(rows.src, rows.src_pitch)?);
        // Where each end starts decides the route; whether plain host memory can be touched is asked last, since asking
        // costs a system call and brings pages in.
        let (dst, dst_whole) = start_of(memory, rows.dst, dst_span, Access::Write)?;
        let (src, src_whole) = start_of(memory, rows.src, src_span, Access::Read)?;
        let ends = Ends { dst, src };
        fits(item, &ends)?;
        let route = ends.route();
        if item > 0 && std::mem::discriminant(&route) != std::mem::discriminant(&self.route) {
            return Err(Kind::BadRoute.because(format!("{route:?} among pieces that are {:?}", self.route)));
        }
        self.route = route;
        self.plain |= ends.dst.is_plain() || ends.src.is_plain();
        if dst_span == 0 {
            return Ok(());
        }
        if !dst_whole {
            touch(memory, &ends.dst, rows.dst, rows.dst_pitch, &rows, dst_span, Access::Write)?;
        }
        if !src_whole {
            touch(memory, &ends.src, rows.src, rows.src_pitch, &rows, src_span, Access::Read)?;
        }
        let (dst, src) = (ends.dst.engine_address(rows.dst), ends.src.engine_address(rows.src));
        self.rows.push(Rows { dst, src, ..rows }.straightened());
        Ok(())
    }

    /// The pieces, none of them empty.
    pub fn rows(&self) -> &[Rows] {
        &self.rows
    }

    /// Between which kinds of memory the bytes move.
    pub fn route(&self) -> Route {
        self.route
    }

    /// Whether pageable host memory takes part.
    pub fn is_plain(&self) -> bool {
        self.plain
    }

    /// How many bytes are moved.
    pub fn bytes(&self) -> usize {
        self.rows.iter().map(Rows::bytes).sum()
    }
}

impl Rows {
    /// Rows that touch on both sides are one long row.
    fn straightened(self) -> Rows {
        if self.dst_pitch == self.width && self.src_pitch == self.width {
            Rows::linear(self.dst, self.src, self.bytes())
        } else {
            self
        }
    }
}

/// What a range belongs to, with no plain host memory touched yet, and whether all of it has been looked at.
#[inline(always)]
fn start_of(memory: &Memory, addr: usize, span: usize, access: Access) -> Result<(Place, bool)> {
    match memory.known(addr, span) {
        Some(known) => Ok((Place::Known(known?), true)),
        None => Ok((memory.place(addr, 0, access)?, false)),
    }
}

/// Makes sure of a range of which only the first byte was looked at. Plain host memory must be accessible: the whole span, or, where the gaps between rows have nothing behind
/// them, each row.
fn touch(
    memory: &Memory,
    place: &Place,
    addr: usize,
    pitch: usize,
    rows: &Rows,
    span: usize,
    access: Access,
) -> Result<()> {
    if let Place::Known(block) = place {
        // Memory of another library was looked up by its first byte only.
        return block.translate(addr, span).map(drop).ok_or_else(|| block.left_by(addr, span));
    }
    // Asking brings pages in: whole pages between two rows are not the copy's to bring in.
    if rows.height == 1 || pitch - rows.width < 2 * GRANULE {
        let whole = memory.plain(addr, span, access);
        if whole.is_ok() || pitch == rows.width {
            return whole;
        }
    }
    (0..rows.height).try_for_each(|row| memory.plain(addr + row * pitch, rows.width, access))
}
