//! aclrtMemcpyAsyncWithCondition: asynchronous for memory that the library allocated, blocking for any other.

use ferry_abi::error::{NOT_SUPPORTED, refused};
use ferry_abi::memory::Home;
use ferry_abi::{Result, kind};

use super::around::{Around, copied};
use crate::ctx::Ctx;
use crate::mirror::pattern;
use crate::part::{TourPart, part};
use crate::proof::Proof;

pub const PARTS: &[TourPart] = &[
    part("page-locked, to the device and back", "R20 R25 R28", locked),
    part("pageable, both ways: done on return", "R20 R23 R28", pageable),
    part("kind 3, and kind 4 (from the addresses)", "R27", kinds),
    part("refused with 207000: host to host", "R28 R33", host_to_host),
];

fn locked(ctx: &mut Ctx) -> Result<Proof> {
    let len = ctx.large();
    let stream = ctx.stream()?;
    let mut both = |dst, src, kind| {
        copied(ctx, len, dst, src, |dst, src| {
            stream.copy_with_condition(dst, src, kind)?;
            stream.synchronise()
        })
    };
    both(Home::Device, Home::Locked, kind::HOST_TO_DEVICE)?;
    both(Home::Locked, Home::Device, kind::DEVICE_TO_HOST)
}

fn pageable(ctx: &mut Ctx) -> Result<Proof> {
    let len = ctx.large();
    let stream = ctx.stream()?;
    let mut both =
        |dst, src, kind| copied(ctx, len, dst, src, |dst, src| stream.copy_with_condition(dst, src, kind));
    both(Home::Device, Home::Pageable, kind::HOST_TO_DEVICE)?;
    both(Home::Pageable, Home::Device, kind::DEVICE_TO_HOST)
}

fn kinds(ctx: &mut Ctx) -> Result<Proof> {
    let len = ctx.small();
    let stream = ctx.stream()?;
    let mut each = |dst, src, kind| {
        copied(ctx, len, dst, src, |dst, src| {
            stream.copy_with_condition(dst, src, kind)?;
            stream.synchronise()
        })
    };
    each(Home::Device, Home::Locked, kind::DEFAULT)?;
    each(Home::Locked, Home::Device, kind::DEFAULT)?;
    each(Home::Device, Home::Device, kind::DEFAULT)?;
    each(Home::Device, Home::Device, kind::DEVICE_TO_DEVICE)?;
    ctx.proof()
}

fn host_to_host(ctx: &mut Ctx) -> Result<Proof> {
    ctx.needs_a_card()?;
    let stream = ctx.stream()?;
    for (dst, src) in [(Home::Locked, Home::Locked), (Home::Pageable, Home::Pageable)] {
        let (to, from) = (Around::new(1, 4096), pattern(2, 4096));
        let (target, source) = (ctx.block(dst, &to.bytes)?, ctx.block(src, &from)?);
        let outcome = stream.copy_with_condition(to.inside(&target), source.all(), kind::HOST_TO_HOST);
        refused("host to host", NOT_SUPPORTED, outcome)?;
        stream.synchronise()?;
        ctx.verify("the target of a refused copy", &target, &to.bytes)?;
    }
    ctx.proof()
}
