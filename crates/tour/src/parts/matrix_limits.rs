//! The documented limits of 2-D copies: the largest that is allowed, and what is refused with nothing
//! changed.

use ferry_abi::error::refused;
use ferry_abi::memory::Home;
use ferry_abi::{Result, kind};

use crate::ctx::Ctx;
use crate::mirror::{copy_rows, pattern};
use crate::proof::Proof;

/// How many rows a copy may have.
const ROW_LIMIT: usize = 5 * 1024 * 1024;
/// How many bytes a row may have.
const WIDTH_LIMIT: usize = 5_000_000;

/// Rows of one byte, every second byte of host memory.
pub fn most_rows(ctx: &mut Ctx) -> Result<Proof> {
    let from = pattern(3, ROW_LIMIT * 2);
    let mut to = pattern(4, ROW_LIMIT);
    let (source, target) = (ctx.block(Home::Locked, &from)?, ctx.block(Home::Device, &to)?);
    let stream = ctx.stream()?;
    let time = ctx.best(|| {
        stream.copy_2d(target.grid(1), source.grid(2), 1, ROW_LIMIT, kind::HOST_TO_DEVICE)?;
        stream.synchronise()
    })?;
    copy_rows(&mut to, 1, &from, 2, 1, ROW_LIMIT);
    ctx.verify("the column", &target, &to)?;
    ctx.moved(ROW_LIMIT, time)
}

/// Each call breaks one rule; afterwards the target is as it was.
pub fn breaking_rules(ctx: &mut Ctx) -> Result<Proof> {
    let from = pattern(5, ROW_LIMIT + 1);
    let to = pattern(6, ROW_LIMIT + 1);
    let (source, target) = (ctx.block(Home::Locked, &from)?, ctx.block(Home::Device, &to)?);
    let stream = ctx.stream()?;
    for (what, pitch, width, height, kind, code) in [
        ("5242881 rows", 1, 1, ROW_LIMIT + 1, kind::HOST_TO_DEVICE, 107000),
        ("rows of 5000001 bytes", WIDTH_LIMIT + 1, WIDTH_LIMIT + 1, 1, kind::HOST_TO_DEVICE, 107000),
        ("rows wider than their pitch", 8, 9, 16, kind::HOST_TO_DEVICE, 107000),
        ("host to host", 64, 64, 16, kind::HOST_TO_HOST, 100000),
        ("a kind left to the library", 64, 64, 16, kind::DEFAULT, 100000),
        ("a kind that does not exist", 64, 64, 16, 8, 100000),
    ] {
        let outcome = stream.copy_2d(target.grid(pitch), source.grid(pitch), width, height, kind);
        refused(what, code, outcome)?;
    }
    stream.synchronise()?;
    ctx.verify("the target of refused copies", &target, &to)?;
    ctx.proof()
}
