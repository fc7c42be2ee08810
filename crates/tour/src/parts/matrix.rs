//! 2-D copies: rows with a pitch on either side. The padding between rows is verified too.

use ferry_abi::memory::{Grid, Home};
use ferry_abi::{Error, Library, Result, kind, library};

use crate::ctx::Ctx;
use crate::mirror::{copy_rows, pattern};
use crate::part::{TourPart, part};
use crate::proof::Proof;

use super::matrix_limits;

pub const PARTS: &[TourPart] = &[
    part("rows to the device, page-locked", "R1 R4 R6 R9 R11-R13 R17", to_device),
    part("rows from the device, page-locked", "R4 R6 R9 R11-R13", to_host),
    part("pageable, both ways: done on return", "R6 R7 R9", pageable),
    part("rows between blocks of the device", "N14", on_device),
    part("the synchronous call, both ways", "R12 R13", synchronous),
    part("5,242,880 rows, the most there may be", "R14", matrix_limits::most_rows),
    part("refused: more rows, wide rows, other kinds", "R9 R14 R17 N13 N15", matrix_limits::breaking_rules),
];

/// One side of a matrix copy.
struct MatrixSide {
    home: Home,
    pitch: usize,
}

const DEVICE: MatrixSide = MatrixSide { home: Home::Device, pitch: 6144 };
const LOCKED: MatrixSide = MatrixSide { home: Home::Locked, pitch: 6007 };
const PAGEABLE: MatrixSide = MatrixSide { home: Home::Pageable, pitch: 6001 };
/// Bytes of a row.
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
    let outcome = asynchronous(ctx, MatrixSide { pitch: 6016, ..DEVICE }, DEVICE, kind::DEVICE_TO_DEVICE);
    outcome.map_err(|error| match error.code() {
        // Documented: older products take the other two kinds only.
        Some(100000) if library::is_other_product() => {
            Error::NotHere("this product copies no rows inside a device".to_owned())
        }
        _ => error,
    })
}

/// Pageable memory is compared without synchronising: the call has waited.
fn asynchronous(ctx: &mut Ctx, dst: MatrixSide, src: MatrixSide, kind: i32) -> Result<Proof> {
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
    dst: MatrixSide,
    src: MatrixSide,
    mut copy: impl FnMut(Grid, Grid, usize) -> Result<()>,
) -> Result<Proof> {
    let height = ctx.size(6000, 128);
    let from = pattern(1, height * src.pitch);
    let mut to = pattern(2, height * dst.pitch);
    let (source, target) = (ctx.block(src.home, &from)?, ctx.block(dst.home, &to)?);
    let time = ctx.best(|| copy(target.grid(dst.pitch), source.grid(src.pitch), height))?;
    copy_rows(&mut to, dst.pitch, &from, src.pitch, WIDTH, height);
    ctx.verify("the target matrix", &target, &to)?;
    ctx.verify("the source matrix", &source, &from)?;
    ctx.moved(WIDTH * height, time)
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
