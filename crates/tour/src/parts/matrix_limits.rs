//! The documented limits of the matrix copy: what is just allowed, and what is refused with nothing changed.

use ferry_abi::error::refused;
use ferry_abi::memory::Home;
use ferry_abi::{Result, kind};

use crate::ctx::Ctx;
use crate::mirror::{copy_rows, pattern};
use crate::proof::Proof;

const MOST_ROWS: usize = 5 * 1024 * 1024;
const WIDEST: usize = 5_000_000;

/// Rows of one byte, every second byte of host memory.
pub fn most_rows(ctx: &mut Ctx) -> Result<Proof> {
    let from = pattern(3, MOST_ROWS * 2);
    let mut to = pattern(4, MOST_ROWS);
    let (source, target) = (ctx.block(Home::Locked, &from)?, ctx.block(Home::Device, &to)?);
    let stream = ctx.stream()?;
    let time = ctx.best(|| {
        stream.copy_2d(target.grid(1), source.grid(2), 1, MOST_ROWS, kind::HOST_TO_DEVICE)?;
        stream.synchronise()
    })?;
    copy_rows(&mut to, 1, &from, 2, 1, MOST_ROWS);
    ctx.verify("the column", &target, &to)?;
    ctx.moved(MOST_ROWS, time)
}

/// Each call breaks one rule; afterwards the target is as it was.
pub fn breaking_rules(ctx: &mut Ctx) -> Result<Proof> {
    let from = pattern(5, MOST_ROWS + 1);
    let to = pattern(6, MOST_ROWS + 1);
    let (source, target) = (ctx.block(Home::Locked, &from)?, ctx.block(Home::Device, &to)?);
    let stream = ctx.stream()?;
    for (what, pitch, width, height, kind, code) in [
        ("5242881 rows", 1, 1, MOST_ROWS + 1, kind::HOST_TO_DEVICE, 107000),
        ("rows of 5000001 bytes", WIDEST + 1, WIDEST + 1, 1, kind::HOST_TO_DEVICE, 107000),
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
