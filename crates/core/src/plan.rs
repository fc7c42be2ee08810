//! A copy that has been checked. A `Plan` cannot exist unless its bounds, pitches and route are right.

pub(crate) mod linear;
mod many;
mod runs;

use crate::{
    Access, DeviceId, Error, Kind, Memory, Origin, Place, Result, SegmentSink,
    memory::{Block, Known},
    pieces::{Pieces, Sizes, Store},
    table::GRANULE,
    uses::Touched,
};
pub use linear::Linear;
use many::Many;
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
    /// The index of the piece; `usize::MAX` if it is about none of them.
    pub item: usize,
    /// Why it was refused.
    pub error: Error,
}

/// A checked copy in the engine's addresses: one rectangle, or the pieces of a batch, in no particular order. One copy that was
/// cut where its memory is mapped piece by piece is done in the order given, since its ends may overlap.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    pieces: Store,
    /// None as long as there are no pieces.
    route: Option<Route>,
    /// Whether pieces have routes between several devices.
    mixed: bool,
    plain: bool,
    order: Order,
    /// Which registered memory takes part.
    touched: Touched,
}

/// In which order the pieces of a plan are to be done, and lie in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Order {
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
    fn span(self, start: usize, pitch: usize) -> Result<usize> {
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
            format!("{height} rows of {width} bytes, pitch {pitch}, from {start:#x} wrap round the end of the address space")
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
    /// own rules for piece `item`, which are about the homes and origins of its ends: it is not asked again where these are as
    /// they were for the last piece between two known blocks. It is asked before any plain host memory is touched. A piece of no
    /// bytes is nowhere: its addresses are not looked up, and `fits` need not be asked.
    #[inline]
    pub fn new(
        pieces: impl IntoIterator<Item = Rows>,
        memory: &Memory,
        fits: impl FnMut(usize, &Ends) -> Result<()>,
    ) -> Result<Plan, Misfit> {
        let mut plan = Plan::default();
        plan.extend(0, pieces, memory, fits)?;
        Ok(plan)
    }

    /// Adds pieces, of which the first is number `first` of all. `fits` is asked anew.
    #[inline]
    pub fn extend(
        &mut self,
        first: usize,
        pieces: impl IntoIterator<Item = Rows>,
        memory: &Memory,
        mut fits: impl FnMut(usize, &Ends) -> Result<()>,
    ) -> Result<(), Misfit> {
        let mut pieces = pieces.into_iter();
        let Some(rows) = pieces.next() else { return Ok(()) };
        match pieces.next() {
            None => self.add(first, rows, memory, &mut fits).map_err(|error| Misfit { item: first, error }),
            Some(second) => self.add_many(first, [rows, second], pieces, memory, fits),
        }
    }

    /// As [`extend`](Self::extend), for runs in arrays, which are planned faster.
    pub fn extend_runs(
        &mut self,
        first: usize,
        runs: &Runs,
        memory: &Memory,
        mut fits: impl FnMut(usize, &Ends) -> Result<()>,
    ) -> Result<(), Misfit> {
        if let ([dst], [src], [len]) = (runs.dsts, runs.srcs, runs.lens) {
            runs.are_sound().map_err(|unsound| Misfit { item: first, ..unsound })?;
            let rows = Rows::linear(*dst, *src, *len);
            return self.add(first, rows, memory, &mut fits).map_err(|error| Misfit { item: first, error });
        }
        let mut many = Many::new(self, first, runs.lens.len(), memory, fits);
        many.add_runs(runs)?;
        many.flush();
        self.pieces.finish();
        Ok(())
    }

    #[inline(never)]
    fn add_many(
        &mut self,
        first: usize,
        two: [Rows; 2],
        others: impl Iterator<Item = Rows>,
        memory: &Memory,
        fits: impl FnMut(usize, &Ends) -> Result<()>,
    ) -> Result<(), Misfit> {
        let mut many = Many::new(self, first, 2 + others.size_hint().1.unwrap_or(0), memory, fits);
        many.add_all(two.into_iter())?;
        many.add_all(others)?;
        many.flush();
        self.pieces.finish();
        Ok(())
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
        if dst_span == 0 {
            return Ok(());
        }
        let table = memory.table();
        let (Some(dst), Some(src)) = (table.holding(rows.dst, dst_span), table.holding(rows.src, src_span))
        else {
            return self.add_unusual(item, rows, memory, fits).map(drop);
        };
        let ends = Ends { dst: Place::Known(dst), src: Place::Known(src) };
        fits(item, &ends)?;
        self.take_route(ends.route())?;
        self.touch(&dst);
        self.touch(&src);
        self.pieces.push(rows.between(&ends));
        Ok(())
    }

    /// A piece begins or ends in this block.
    #[inline(always)]
    fn touch(&mut self, block: &Block) {
        if block.origin == Origin::Registered {
            self.touched.add(block.base);
        }
    }

    /// Which registered memory takes part; the plan forgets that.
    #[inline]
    pub(crate) fn take_touched(&mut self) -> Touched {
        mem::take(&mut self.touched)
    }

    /// Adds a rectangle of which an end is not simply found in one block, and says what the two belong to.
    #[cold]
    fn add_unusual(
        &mut self,
        item: usize,
        rows: Rows,
        memory: &Memory,
        fits: &mut dyn FnMut(usize, &Ends) -> Result<()>,
    ) -> Result<Ends> {
        let unusual = Unusual::find(rows, memory)?;
        let ends = unusual.ends;
        fits(item, &ends)?;
        self.take_route(ends.route())?;
        self.take_unusual(unusual, memory)?;
        Ok(ends)
    }

    /// Adds what was found, which the caller has agreed to.
    #[cold]
    fn take_unusual(&mut self, unusual: Unusual, memory: &Memory) -> Result<()> {
        let Unusual { rows, ends, spans: [dst_span, src_span], seen } = unusual;
        self.plain |= ends.dst.is_plain() || ends.src.is_plain();
        for place in [&ends.dst, &ends.src] {
            if let Place::Known(block) = place {
                self.touch(block);
            }
        }
        if seen[0] == Seen::Start {
            touch(memory, &ends.dst, rows.dst, rows.dst_pitch, &rows, dst_span, Access::Write)?;
        }
        if seen[1] == Seen::Start {
            touch(memory, &ends.src, rows.src, rows.src_pitch, &rows, src_span, Access::Read)?;
        }
        if seen.contains(&Seen::Pieces) {
            return self.add_pieces(&rows, &ends, memory);
        }
        self.pieces.push(rows.between(&ends));
        Ok(())
    }

    /// Takes the route of a piece: all pieces have one kind of route.
    #[inline]
    fn take_route(&mut self, route: Route) -> Result<()> {
        let before = *self.route.get_or_insert(route);
        if mem::discriminant(&route) != mem::discriminant(&before) {
            return Err(Kind::BadRoute.because(format!("{route:?} among pieces that are {before:?}")));
        }
        self.mixed |= route != before;
        self.route = Some(route);
        Ok(())
    }

    /// Adds a rectangle of which an end goes through several mapped blocks: as many rows at once as lie in one block at each
    /// end, and rows that cross a border in parts.
    #[cold]
    fn add_pieces(&mut self, rows: &Rows, ends: &Ends, memory: &Memory) -> Result<()> {
        let first = self.pieces().len();
        let mut row = 0;
        while row < rows.height {
            let (mut dst, mut src) = (rows.dst + row * rows.dst_pitch, rows.src + row * rows.src_pitch);
            let (to, from) = (room_at(memory, &ends.dst, dst)?, room_at(memory, &ends.src, src)?);
            let fit =
                |room: usize, pitch| if room < rows.width { 0 } else { (room - rows.width) / pitch + 1 };
            let height = fit(to.1, rows.dst_pitch).min(fit(from.1, rows.src_pitch)).min(rows.height - row);
            if height > 0 {
                self.pieces.push(Rows { dst: to.0, src: from.0, height, ..*rows }.straightened());
                row += height;
                continue;
            }
            let mut left = rows.width;
            while left > 0 {
                let (to, from) = (room_at(memory, &ends.dst, dst)?, room_at(memory, &ends.src, src)?);
                let len = left.min(to.1).min(from.1);
                self.pieces.push(Rows::linear(to.0, from.0, len));
                (dst, src, left) = (dst + len, src + len, left - len);
            }
            row += 1;
        }
        // As a whole copy would: from the end, if it would write over what it has yet to read.
        let pieces = &mut self.pieces.rows()[first..];
        let is_backward = overtakes(pieces);
        if is_backward {
            pieces.reverse();
        }
        self.order = if is_backward { Order::Backward } else { Order::Forward };
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

    /// Between which kinds of memory the bytes move; of the devices, those of the last piece. Inside the host, if there are none.
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

    /// The sink that holds all pieces, if the backend brought one and they are segments. What the backend takes out of it the
    /// plan does not have any more.
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
    fn between(self, ends: &Ends) -> Rows {
        let (dst, src) = (ends.dst.engine_address(self.dst), ends.src.engine_address(self.src));
        Rows { dst, src, ..self }.straightened()
    }

    /// Rows that touch on both sides are one long row.
    fn straightened(self) -> Rows {
        if self.dst_pitch == self.width && self.src_pitch == self.width {
            Rows::linear(self.dst, self.src, self.bytes())
        } else {
            self
        }
    }
}

/// Whether a piece writes what a later one reads. The user's addresses do not tell: physical memory may be mapped more than once.
fn overtakes(pieces: &[Rows]) -> bool {
    let span =
        |start: usize, pitch: usize, rows: &Rows| (start, start + (rows.height - 1) * pitch + rows.width);
    let mut written: Vec<_> =
        pieces.iter().map(|rows| span(rows.dst, rows.dst_pitch, rows)).zip(0..).collect();
    written.sort_unstable();
    pieces.iter().enumerate().any(|(reader, rows)| {
        let (start, end) = span(rows.src, rows.src_pitch, rows);
        let below = written.partition_point(|((first, _), _)| *first < end);
        let meeting = written[..below].iter().rev().take_while(|((_, last), _)| *last > start);
        meeting.into_iter().any(|(_, writer)| *writer < reader)
    })
}

/// A rectangle of which an end is not simply found in one block: plain host memory, memory of another library, a range through
/// several mapped blocks, or one whose block was being written while we looked.
struct Unusual {
    rows: Rows,
    ends: Ends,
    spans: [usize; 2],
    seen: [Seen; 2],
}

impl Unusual {
    /// Where each end starts decides the route; whether plain host memory can be touched is asked last, since asking costs a
    /// system call and brings pages in.
    #[cold]
    fn find(rows: Rows, memory: &Memory) -> Result<Unusual> {
        let spans = [rows.span(rows.dst, rows.dst_pitch)?, rows.span(rows.src, rows.src_pitch)?];
        let (dst, dst_seen) = start_of(memory, rows.dst, spans[0], Access::Write)?;
        let (src, src_seen) = start_of(memory, rows.src, spans[1], Access::Read)?;
        Ok(Unusual { rows, ends: Ends { dst, src }, spans, seen: [dst_seen, src_seen] })
    }
}

/// How much of a range has been looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// All of it: one block.
    Whole,
    /// All of it: blocks mapped next to each other.
    Pieces,
    /// Its first byte.
    Start,
}

/// What a range belongs to, with no plain host memory touched yet, and how much of it has been looked at.
fn start_of(memory: &Memory, addr: usize, span: usize, access: Access) -> Result<(Place, Seen)> {
    match memory.known(addr, span)? {
        Known::Whole(block) => Ok((Place::Known(block), Seen::Whole)),
        Known::Pieces(block) => Ok((Place::Known(block), Seen::Pieces)),
        Known::Pageable => Ok((Place::Plain, Seen::Start)),
        Known::Not => Ok((memory.beyond(addr, access)?, Seen::Start)),
    }
}

/// The engine's address of `addr`, and how many bytes follow it there.
fn room_at(memory: &Memory, place: &Place, addr: usize) -> Result<(usize, usize)> {
    let Place::Known(Block { origin: Origin::Mapped, home, .. }) = place else {
        return Ok((place.engine_address(addr), usize::MAX));
    };
    match memory.table().find(addr) {
        Some(block) if (block.origin, block.home) == (Origin::Mapped, *home) => {
            let offset = addr - block.base;
            Ok((block.at + offset, block.len - offset))
        }
        _ => Err(Kind::BadAddress.because(format!("{addr:#x} was unmapped while the copy was planned"))),
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
        // Memory of another library was looked up by its first byte only, and may be several blocks in a row.
        let holds = |block: &Block| block.translate(addr, span).is_some();
        let is_there = holds(block)
            || matches!(memory.place(addr, span, access)?, Place::Known(whole) if holds(&whole) && whole.home == block.home);
        return if is_there { Ok(()) } else { Err(block.left_by(addr, span)) };
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
