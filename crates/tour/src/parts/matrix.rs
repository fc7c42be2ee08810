//! Matrix copies: rows with a pitch on either side. The padding between rows is verified too.

use ferry_abi::memory::{Home, Memory};
use ferry_abi::stream::{Grid, Stream};
use ferry_abi::{Error, Library, Result, kind, library};

use crate::ctx::Ctx;
use crate::mirror::{copy_rows, pattern};
use crate::part::Part;
use crate::proof::Proof;

use super::matrix_limits;

pub const PARTS: &[Part] = &[
    Part {
        what: "rows to the device, page-locked",
        proves: "R1 R4 R6 R9 R11-R13 R17",
        everywhere: false,
        run: to_device,
    },
    Part {
        what: "rows from the device, page-locked",
        proves: "R4 R6 R9 R11-R13",
        everywhere: false,
        run: to_host,
    },
    Part {
        what: "pageable, both ways: done on return",
        proves: "R6 R7 R9",
        everywhere: false,
        run: pageable,
    },
    Part { what: "rows between blocks of the device", proves: "N14", everywhere: false, run: on_device },
    Part { what: "the synchronous call, both ways", proves: "R12 R13", everywhere: false, run: synchronous },
    Part {
        what: "5,242,880 rows, the most there may be",
        proves: "R14",
        everywhere: false,
        run: matrix_limits::most_rows,
    },
    Part {
        what: "refused: more rows, wide rows, other kinds",
        proves: "R9 R14 R17 N13 N15",
        everywhere: false,
        run: matrix_limits::breaking_rules,
    },
];

/// One side of a matrix copy.
struct Side {
    home: Home,
    pitch: usize,
}

const DEVICE: Side = Side { home: Home::Device, pitch: 6144 };
const LOCKED: Side = Side { home: Home::Locked, pitch: 6007 };
const PAGEABLE: Side = Side { home: Home::Pageable, pitch: 6001 };
const WIDTH: usize = 6000;

fn to_device(ctx: &mut Ctx) -> Result<Proof> {
    asynchronous(ctx, DEVICE, LOCKED, kind::HOST_TO_DEVICE)
}

fn to_host(ctx: &mut Ctx) -> Result<Proof> {
    asynchronous(ctx, LOCKED, DEVICE, kind::DEVICE_TO_HOST)
}

fn pageable(ctx: &mut Ctx) -> Result<Proof> {
    asynchronous(ctx, DEVICE, PAGEABLE, kind::HOST_TO_DEVICE)?;
    asynchronous(ctx, PAGEABLE, DEVICE, kind::DEVICE_TO_HOST)
}

fn on_device(ctx: &mut Ctx) -> Result<Proof> {
    let outcome = asynchronous(ctx, Side { pitch: 6016, ..DEVICE }, DEVICE, kind::DEVICE_TO_DEVICE);
    outcome.map_err(|error| match error.code() {
        // Documented: older products take the other two kinds only.
        Some(100000) if library::is_other_product() => {
            Error::NotHere("this product copies no rows inside a device".to_owned())
        }
        _ => error,
    })
}

/// Pageable memory is looked at without synchronising: the call has waited.
fn asynchronous(ctx: &mut Ctx, dst: Side, src: Side, kind: i32) -> Result<Proof> {
    let waits = [dst.home, src.home].contains(&Home::Pageable);
    let stream = ctx.stream()?;
    rows(ctx, dst, src, |dst, src, height| {
        stream.copy_2d(dst, src, WIDTH, height, kind)?;
        if waits { Ok(()) } else { stream.synchronise() }
    })
}

fn synchronous(ctx: &mut Ctx) -> Result<Proof> {
    let library = ctx.library;
    let both = |ctx: &mut Ctx, dst, src, kind| {
        rows(ctx, dst, src, |dst, src, height| copy_2d(library, dst, src, WIDTH, height, kind))
    };
    both(ctx, DEVICE, PAGEABLE, kind::HOST_TO_DEVICE)?;
    both(ctx, LOCKED, DEVICE, kind::DEVICE_TO_HOST)
}

/// Copies a matrix between the two sides and verifies both, padding included.
fn rows(
    ctx: &mut Ctx,
    dst: Side,
    src: Side,
    mut copy: impl FnMut(Grid, Grid, usize) -> Result<()>,
) -> Result<Proof> {
    let height = ctx.size(6000, 128);
    let from = pattern(1, height * src.pitch);
    let mut to = pattern(2, height * dst.pitch);
    let (source, target) = (ctx.memory(src.home, &from)?, ctx.memory(dst.home, &to)?);
    let grid = |memory, pitch| whole(memory, pitch);
    let time = ctx.best(|| copy(grid(&target, dst.pitch), grid(&source, src.pitch), height))?;
    copy_rows(&mut to, dst.pitch, &from, src.pitch, WIDTH, height);
    ctx.verify("the target matrix", &target, &to)?;
    ctx.verify("the source matrix", &source, &from)?;
    ctx.moved(WIDTH * height, time)
}

/// A block seen as rows.
pub fn whole(memory: &Memory, pitch: usize) -> Grid<'_> {
    Grid { span: memory.all(), pitch }
}

/// aclrtMemcpy2d: returns when the copy is done.
fn copy_2d(library: &Library, dst: Grid, src: Grid, width: usize, height: usize, kind: i32) -> Result<()> {
    dst.assert_holds(width, height);
    src.assert_holds(width, height);
    let (to, from) = (dst.span.at(), src.span.at());
    let call = library.functions.aclrtMemcpy2d;
    // SAFETY: both matrices lie inside their spans, and the call is over before either borrow ends.
    let code = unsafe { call(to, dst.pitch, from, src.pitch, width, height, kind) };
    library.check("aclrtMemcpy2d", code)
}

/// Submits one matrix copy to the device on `stream`, for parts that block it.
pub fn submit(stream: &Stream, dst: &Memory, src: &Memory, kind: i32) -> Result<()> {
    const PITCH: usize = 64;
    let height = dst.len().min(src.len()) / PITCH;
    stream.copy_2d(whole(dst, PITCH), whole(src, PITCH), PITCH, height, kind)
}
