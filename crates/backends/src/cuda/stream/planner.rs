//! Which method a copy is done by: by copy engines of the GPU, or by a kernel of ours. Pure: a shape, a
//! direction and a table of numbers give the answer.
//!
//! A copy engine has the link to itself and is best for what is large or alone, but each copy that it is
//! given costs about as much as moving 150 KiB, and several together, given all pieces in one call, about 30.
//! A kernel moves a whole list for the price of one launch; it takes multiprocessors while it runs and comes
//! near the link's speed, not quite to it. Where one overtakes the other differs from GPU to GPU: the numbers
//! are in [`Constants`](super::settings::Constants), and `ferry bench --tune` measures them.

use crate::bytes::overlap::{is_overlapping, shares_bytes};
use crate::cuda::{driver::MAX_PITCH, stream::settings::Constants};
use ferry_core::Rows;

/// How many pieces at once fill the link.
const PIECES_IN_FLIGHT: usize = 128;

/// The direction of a copy, as seen from the device of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From pinned memory to a GPU.
    In,
    /// From a GPU to pinned memory.
    Out,
    /// Inside a GPU.
    Within,
    /// From one GPU to another. Kernels cannot: not every GPU reaches the memory of every other.
    Across,
}

/// What is to be copied, as far as the choice depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyShape {
    /// One row.
    Row {
        /// Whether its two ends share bytes.
        overlaps: bool,
    },
    /// Single rows, independent of each other.
    Pieces {
        /// How many.
        count: usize,
        /// Bytes of all together.
        bytes: usize,
        /// Bytes of the longest.
        most: usize,
    },
    /// Several rows of one rectangle.
    Rows {
        /// Bytes in a row.
        width: usize,
        /// Rows.
        height: usize,
        /// The power of two that every row starts at a multiple of, 16 at most.
        unit: usize,
        /// Bytes from one row of the destination to the next.
        dst_pitch: usize,
        /// Bytes from one row of the source to the next.
        src_pitch: usize,
        /// Whether its two ends may share bytes.
        overlaps: bool,
    },
}

/// The method that a copy is done by: copy engines, or one of the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyMethod {
    /// A copy engine, row by row.
    Each,
    /// Copy engines, all pieces in one call.
    Batch,
    /// A copy engine, as a rectangle.
    Rectangle,
    /// The kernel for lists of pieces.
    Launch(ListLaunch),
    /// The kernel for rectangles.
    Grid {
        /// Blocks of the launch.
        blocks: u32,
    },
    /// The kernel for ends that share bytes.
    Move,
    /// Copy engines, through memory of the host: for ends that share bytes.
    Bounce,
}

/// How a list of pieces is launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListLaunch {
    /// Threads for each piece.
    pub lanes: u32,
    /// Blocks of the launch.
    pub blocks: u32,
    /// Whether the list goes into the parameters of the kernel, which else reads it from pinned memory.
    pub is_inline: bool,
    /// Pieces that are longer than this are cut, if there are any.
    pub share: Option<usize>,
}

impl CopyShape {
    /// The shape of one rectangle.
    pub fn of(rows: &Rows) -> CopyShape {
        let Rows { dst, dst_pitch, src, src_pitch, width, height } = *rows;
        if height == 1 {
            return CopyShape::Row { overlaps: is_overlapping(dst, src, width) };
        }
        let bits = dst | dst_pitch | src | src_pitch | width | 16;
        CopyShape::Rows {
            width,
            height,
            unit: bits & bits.wrapping_neg(),
            dst_pitch,
            src_pitch,
            overlaps: shares_bytes(rows),
        }
    }
}

/// The method for a copy of this shape.
pub fn choose(shape: &CopyShape, direction: Direction, constants: &Constants) -> CopyMethod {
    match *shape {
        CopyShape::Row { overlaps: true } if constants.blocks(direction) == 0 => CopyMethod::Bounce,
        CopyShape::Row { overlaps: true } => CopyMethod::Move,
        CopyShape::Row { .. } => CopyMethod::Each,
        CopyShape::Pieces { count, bytes, most } => {
            choose_for_pieces(count, bytes, most, direction, constants)
        }
        CopyShape::Rows { .. } => choose_for_rows(shape, direction, constants),
    }
}

fn choose_for_pieces(
    count: usize,
    bytes: usize,
    most: usize,
    direction: Direction,
    constants: &Constants,
) -> CopyMethod {
    let size = bytes / count.max(1);
    let is_worth_a_launch =
        count >= constants.list_from(direction) && size < constants.engine_from(direction);
    let share = share(bytes, direction, constants);
    // No piece is cut, or each may leave a rest.
    let parts = if most <= share { count } else { count + bytes / share };
    let blocks = parts.min(constants.blocks(direction)) as u32;
    let goes_together = count >= constants.together_from && (size >= constants.together_size || blocks == 0);
    match direction {
        Direction::Across => CopyMethod::Each,
        Direction::In | Direction::Out if goes_together => CopyMethod::Batch,
        _ if !is_worth_a_launch || blocks == 0 => CopyMethod::Each,
        _ => CopyMethod::Launch(ListLaunch {
            lanes: lanes(size.min(share)),
            blocks,
            is_inline: parts <= constants.inline_most,
            share: (most > share).then_some(share),
        }),
    }
}

fn choose_for_rows(shape: &CopyShape, direction: Direction, constants: &Constants) -> CopyMethod {
    let CopyShape::Rows { width, height, unit, dst_pitch, src_pitch, overlaps } = *shape else {
        unreachable!("the caller has looked")
    };
    let (blocks, bytes) = (constants.blocks(direction) as u32, width * height);
    // What a copy engine makes of rows depends on how they lie in the host's memory.
    let host_pitch = if direction == Direction::In { src_pitch } else { dst_pitch };
    let is_for_a_kernel = match direction {
        Direction::Across => false,
        Direction::Within => {
            bytes >= constants.rows_within_bytes && constants.widths(direction).contains(&width)
        }
        _ if unit < constants.rows_unit => false,
        _ if constants.widths(direction).contains(&width) => bytes >= constants.rows_bytes,
        _ if bytes < constants.rows_other_bytes => false,
        _ if host_pitch == width => width <= constants.rows_packed_most,
        _ => host_pitch >= constants.rows_far && width <= constants.rows_far_most,
    };
    match is_for_a_kernel && !overlaps && blocks > 0 {
        true => CopyMethod::Grid { blocks },
        false if dst_pitch.max(src_pitch) <= MAX_PITCH => CopyMethod::Rectangle,
        false => CopyMethod::Each,
    }
}

/// The longest piece that a kernel is given whole: longer ones are cut, so that there are enough of them
/// under way to fill the link, or the device.
fn share(bytes: usize, direction: Direction, constants: &Constants) -> usize {
    let parts = if direction == Direction::Within { 8 * constants.blocks_within } else { PIECES_IN_FLIGHT };
    let even = bytes / parts.max(1);
    even.next_power_of_two().min(constants.share_most).max(constants.share_least)
}

/// How many threads of a kernel go to one piece, for pieces of this length on average: each reads four cells
/// of 16 bytes at once, and the shorter the pieces are the more of them are under way.
fn lanes(len: usize) -> u32 {
    if len <= 512 {
        8
    } else if len <= 1024 {
        16
    } else {
        32
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const K: usize = 1 << 10;
    const M: usize = 1 << 20;
    const ALIGNED: usize = 16;

    fn chosen(shape: CopyShape, direction: Direction) -> CopyMethod {
        let constants = Constants { blocks_within: 132, ..Constants::default() };
        in_short(choose(&shape, direction, &constants))
    }

    /// The method, without the threads of a launch and how it is cut.
    fn in_short(method: CopyMethod) -> CopyMethod {
        match method {
            CopyMethod::Launch(ListLaunch { blocks, is_inline, .. }) => launch(is_inline, blocks),
            method => method,
        }
    }

    fn launch(is_inline: bool, blocks: u32) -> CopyMethod {
        CopyMethod::Launch(ListLaunch { lanes: 0, blocks, is_inline, share: None })
    }

    fn pieces(count: usize, size: usize) -> CopyShape {
        CopyShape::Pieces { count, bytes: count * size, most: size }
    }

    /// Rows with these pitches at the host's end; those at the device's do not matter.
    fn rows(width: usize, bytes: usize, pitch: usize) -> CopyShape {
        let (dst_pitch, src_pitch) = (pitch, pitch);
        CopyShape::Rows { width, height: bytes / width, unit: ALIGNED, dst_pitch, src_pitch, overlaps: false }
    }

    /// The rows of the table in docs/performance.md, and what lies around them.
    #[test]
    fn every_measured_batch_goes_to_its_winner() {
        use CopyMethod::{Batch, Each};
        let link = launch(false, 32);
        for (direction, shape, want) in [
            (Direction::In, pieces(4096, 4 * K), link),
            (Direction::In, pieces(4096, K), link),
            (Direction::In, pieces(1024, 16 * K), link),
            (Direction::Out, pieces(4096, 4 * K), link),
            (Direction::Out, pieces(4096, K), link),
            (Direction::In, pieces(64, 4 * K), launch(true, 32)),
            (Direction::Out, pieces(64, 4 * K), launch(true, 32)),
            (Direction::In, pieces(160, 4 * K), launch(true, 32)),
            (Direction::In, pieces(161, 4 * K), link),
            (Direction::In, pieces(512, 128 * K), link),
            (Direction::Out, pieces(512, 128 * K), link),
            (Direction::In, pieces(512, 256 * K), link),
            (Direction::In, pieces(256, 512 * K), Batch),
            (Direction::In, pieces(64, 2 * M), Batch),
            (Direction::Out, pieces(2, 4 * M), Batch),
            (Direction::In, pieces(1, 4 * M), Each),
            (Direction::In, pieces(4, 64 * K), launch(true, 32)),
            (Direction::In, pieces(8, 64 * K), launch(true, 32)),
            (Direction::In, pieces(64, 128 * K), link),
            (Direction::In, pieces(3, 4 * K), Each),
            (Direction::In, pieces(4, 4 * K), launch(true, 4)),
            (Direction::In, pieces(1, 64), Each),
            (Direction::Within, pieces(4096, 4 * K), launch(false, 132)),
            (Direction::Within, pieces(64, 4 * K), launch(true, 64)),
            (Direction::Within, pieces(64, 4 * M), launch(false, 132)),
            (Direction::Within, pieces(4, 64 * M), Each),
            (Direction::Within, pieces(2, 64), launch(true, 2)),
            (Direction::Within, pieces(1, 64), Each),
            (Direction::Across, pieces(4096, 4 * K), Each),
        ] {
            assert_eq!(chosen(shape, direction), want, "{direction:?} {shape:?}");
        }
    }

    #[test]
    fn who_cannot_hand_over_all_at_once_leaves_more_to_kernels() {
        let constants = Constants::default().without_batches();
        for (size, want) in [(512 * K, launch(false, 32)), (2 * M, CopyMethod::Each)] {
            let chosen = in_short(choose(&pieces(64, size), Direction::In, &constants));
            assert_eq!(chosen, want, "{size} bytes");
        }
    }

    #[test]
    fn every_measured_rectangle_goes_to_its_winner() {
        use CopyMethod::{Grid, Rectangle};
        let (link, all) = (Grid { blocks: 32 }, Grid { blocks: 132 });
        for (width, into, out, within) in [
            (16, link, Rectangle, all),
            (32, link, Rectangle, all),
            (64, Rectangle, Rectangle, all),
            (256, Rectangle, Rectangle, all),
            (K, Rectangle, Rectangle, all),
            (4 * K, Rectangle, Rectangle, all),
            (64 * K, Rectangle, Rectangle, all),
        ] {
            for (direction, want) in
                [(Direction::In, into), (Direction::Out, out), (Direction::Within, within)]
            {
                assert_eq!(
                    chosen(rows(width, 64 * M, 2 * width), direction),
                    want,
                    "{direction:?} width {width}"
                );
                assert_eq!(
                    chosen(rows(width, 32 * K, 2 * width), direction),
                    Rectangle,
                    "few {direction:?} {width}"
                );
            }
            assert_eq!(chosen(rows(width, 64 * M, 2 * width), Direction::Across), Rectangle);
        }
        for (width, pitch, want) in [
            (16, 16, link),
            (64, 64, link),
            (256, 256, Rectangle),
            (64, 4 * K, link),
            (128, 4 * K, link),
            (K, 4 * K, Rectangle),
        ] {
            assert_eq!(chosen(rows(width, 4 * M, pitch), Direction::In), want, "width {width} pitch {pitch}");
            assert_eq!(
                chosen(rows(width, 4 * M, pitch), Direction::Out),
                want,
                "width {width} pitch {pitch}"
            );
        }
    }

    #[test]
    fn pieces_are_cut_so_that_every_thread_has_some() {
        let constants = Constants { blocks_within: 132, ..Constants::default() };
        for (direction, bytes, want) in [
            (Direction::In, 256 * K, 4 * K),
            (Direction::In, M, 8 * K),
            (Direction::In, 8 * M, 32 * K),
            (Direction::Within, 8 * M, 8 * K),
            (Direction::Within, 512 * M, 32 * K),
            (Direction::Within, 0, 4 * K),
        ] {
            assert_eq!(share(bytes, direction, &constants), want, "{direction:?} {bytes} bytes");
        }
    }

    #[test]
    fn one_row_is_the_copy_engines_unless_its_ends_meet_in_a_gpu() {
        for direction in [Direction::In, Direction::Out, Direction::Within, Direction::Across] {
            assert_eq!(chosen(CopyShape::Row { overlaps: false }, direction), CopyMethod::Each);
        }
        let row = CopyShape::Row { overlaps: true };
        assert_eq!(chosen(row, Direction::Within), CopyMethod::Move);
        assert_eq!(
            choose(&row, Direction::Within, &Constants::NO_KERNELS),
            CopyMethod::Bounce,
            "no kernels at all"
        );
    }

    #[test]
    fn what_a_kernel_does_badly_or_the_driver_not_at_all_goes_elsewhere() {
        let row = |unit, pitch, overlaps| {
            let (dst_pitch, src_pitch) = (pitch, 128);
            CopyShape::Rows { width: 32, height: M, unit, dst_pitch, src_pitch, overlaps }
        };
        for (direction, shape, want) in [
            (Direction::In, row(2, 128, false), CopyMethod::Rectangle),
            (Direction::In, row(4, 128, false), CopyMethod::Grid { blocks: 32 }),
            (Direction::Within, row(1, 128, false), CopyMethod::Grid { blocks: 132 }),
            (Direction::Within, row(16, 128, true), CopyMethod::Rectangle),
            (Direction::Within, row(16, MAX_PITCH + 1, true), CopyMethod::Each),
            (Direction::Across, row(16, MAX_PITCH + 1, false), CopyMethod::Each),
            (Direction::In, row(16, MAX_PITCH + 1, false), CopyMethod::Grid { blocks: 32 }),
        ] {
            assert_eq!(chosen(shape, direction), want, "{direction:?} {shape:?}");
        }
        let none = Constants { blocks_in: 0, ..Constants::default() };
        assert_eq!(choose(&pieces(64, K), Direction::In, &none), CopyMethod::Batch, "no blocks, no kernels");
        assert_eq!(
            choose(&pieces(64, K), Direction::In, &Constants::NO_KERNELS),
            CopyMethod::Each,
            "out of reach"
        );
        assert_eq!(choose(&rows(16, M, 32), Direction::In, &none), CopyMethod::Rectangle);
    }

    #[test]
    fn a_shape_knows_its_alignment_and_whether_its_ends_meet() {
        let rows = |dst, dst_pitch, src, src_pitch, width, height| {
            CopyShape::of(&Rows { dst, dst_pitch, src, src_pitch, width, height })
        };
        for (got, unit, overlaps) in [
            (rows(0x1000, 128, 0x9000, 64, 64, 8), 16, false),
            (rows(0x1000, 128, 0x9004, 64, 64, 8), 4, false),
            (rows(0x1000, 128, 0x9000, 64, 63, 8), 1, false),
            (rows(0x1000, 130, 0x9000, 64, 64, 8), 2, false),
            (rows(0x1000, 128, 0x1040, 128, 64, 8), 16, false),
            (rows(0x1040, 128, 0x1000, 128, 64, 8), 16, false),
            (rows(0x1000, 128, 0x1030, 128, 64, 8), 16, true),
            (rows(0x1000, 128, 0x1050, 128, 64, 8), 16, true),
            (rows(0x1000, 128, 0x1080, 128, 64, 8), 16, true),
            (rows(0x1000, 128, 0x1040, 64, 64, 8), 16, true),
            (rows(0x1000, 128, 0x1400, 128, 64, 8), 16, false),
        ] {
            let CopyShape::Rows { unit: has, overlaps: may, .. } = got else { panic!("{got:?}") };
            assert_eq!((has, may), (unit, overlaps), "{got:?}");
        }
        assert_eq!(rows(8, 8, 16, 8, 8, 1), CopyShape::Row { overlaps: false });
        assert_eq!(rows(8, 9, 16, 9, 9, 1), CopyShape::Row { overlaps: true });
    }
}
