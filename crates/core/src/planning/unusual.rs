//! Pieces of which an end is not simply found in one block of the address table: plain host memory, memory of
//! other libraries, ranges that go through several mapped blocks.

use crate::{
    Access, Block, Ends, Kind, Memory, Origin, Place, Plan, Result, Rows, memory::Known, plan::Order,
    table::GRANULE,
};

impl Plan {
    /// Adds a rectangle of which an end is not simply found in one block, and says what the two belong to.
    #[cold]
    pub(super) fn add_unusual(
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
        let Unusual { rows, ends, spans: [dst_span, src_span], inspected } = unusual;
        self.plain |= ends.dst.is_plain() || ends.src.is_plain();
        for place in [&ends.dst, &ends.src] {
            if let Place::Known(block) = place {
                self.touch(block);
            }
        }
        if inspected[0] == Inspected::Start {
            touch(memory, &ends.dst, rows.dst, rows.dst_pitch, &rows, dst_span, Access::Write)?;
        }
        if inspected[1] == Inspected::Start {
            touch(memory, &ends.src, rows.src, rows.src_pitch, &rows, src_span, Access::Read)?;
        }
        if inspected.contains(&Inspected::Pieces) {
            return self.add_pieces(&rows, &ends, memory);
        }
        self.pieces.push(rows.between(&ends));
        Ok(())
    }

    /// Adds a rectangle of which an end goes through several mapped blocks: as many rows at once as lie in
    /// one block at each end, and rows that cross a border in parts.
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
}

/// Whether a piece writes what a later one reads. The user's addresses do not tell: physical memory may be
/// mapped more than once.
fn overtakes(pieces: &[Rows]) -> bool {
    let mut written: Vec<_> = pieces.iter().map(Rows::written).zip(0..).collect();
    written.sort_unstable();
    pieces.iter().enumerate().any(|(reader, rows)| {
        let (start, end) = rows.read();
        let below = written.partition_point(|((first, _), _)| *first < end);
        let meeting = written[..below].iter().rev().take_while(|((_, last), _)| *last > start);
        meeting.into_iter().any(|(_, writer)| *writer < reader)
    })
}

/// A rectangle of which an end is not simply found in one block: plain host memory, memory of another
/// library, a range through several mapped blocks, or a block that was being written during the lookup.
struct Unusual {
    rows: Rows,
    ends: Ends,
    spans: [usize; 2],
    inspected: [Inspected; 2],
}

impl Unusual {
    /// Where each end starts decides the route. Plain host memory is probed last, since that costs a system
    /// call and faults pages in.
    #[cold]
    fn find(rows: Rows, memory: &Memory) -> Result<Unusual> {
        let spans = [rows.span(rows.dst, rows.dst_pitch)?, rows.span(rows.src, rows.src_pitch)?];
        let (dst, dst_part) = start_of(memory, rows.dst, spans[0], Access::Write)?;
        let (src, src_part) = start_of(memory, rows.src, spans[1], Access::Read)?;
        Ok(Unusual { rows, ends: Ends { dst, src }, spans, inspected: [dst_part, src_part] })
    }
}

/// How much of a range has been looked up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inspected {
    /// All of it: one block.
    Whole,
    /// All of it: blocks mapped next to each other.
    Pieces,
    /// Its first byte.
    Start,
}

/// What a range belongs to, before any plain host memory is probed, and how much of it has been looked up.
fn start_of(memory: &Memory, addr: usize, span: usize, access: Access) -> Result<(Place, Inspected)> {
    match memory.known(addr, span)? {
        Known::Whole(block) => Ok((Place::Known(block), Inspected::Whole)),
        Known::Pieces(block) => Ok((Place::Known(block), Inspected::Pieces)),
        Known::Pageable => Ok((Place::Plain, Inspected::Start)),
        Known::Not => Ok((memory.beyond(addr, access)?, Inspected::Start)),
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

/// Makes sure of a range of which only the first byte was looked up. Plain host memory must be accessible:
/// the whole span, or, where the gaps between rows have nothing behind them, each row.
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
        let contains = |block: &Block| block.translate(addr, span).is_some();
        let is_whole = |place| match place {
            Place::Known(whole) => contains(&whole) && whole.home == block.home,
            Place::Plain => false,
        };
        let is_there = contains(block) || is_whole(memory.place(addr, span, access)?);
        return if is_there { Ok(()) } else { Err(block.left_by(addr, span)) };
    }
    // Probing faults pages in: whole pages between two rows are not the copy's to fault in.
    if rows.height == 1 || pitch - rows.width < 2 * GRANULE {
        let whole = memory.plain(addr, span, access);
        if whole.is_ok() || pitch == rows.width {
            return whole;
        }
    }
    (0..rows.height).try_for_each(|row| memory.plain(addr + row * pitch, rows.width, access))
}
