//! Which calls wait for their copy and which return at once, proved by a stream that is blocked.

use ferry_abi::batch::{Batch, HOST, device};
use ferry_abi::error::ensure;
use ferry_abi::memory::{self, Block, Home};
use ferry_abi::stream::Stream;
use ferry_abi::{Library, Result, kind};

use crate::ctx::Ctx;
use crate::mirror::pattern;
use crate::part::{TourPart, part};
use crate::proof::Proof;
use crate::waits::must_wait;

pub const PARTS: &[TourPart] = &[
    part("page-locked, stream held: all 4 calls return", "R2 R3 R8 R16 R24 R45 R53 N5 X3", locked),
    part("pageable, stream held: none of the 4 returns", "R7 R23 R44 N5 X3", pageable),
    part("kind 5: source freed while its copy waits", "", staged),
    part("synchronous copy past a held default stream", "N2 N4", past_streams),
];

/// Bytes of each copy.
const LEN: usize = 1 << 16;
/// Bytes of a row where the copy is one of a matrix.
const PITCH: usize = 64;

/// A copy call, made on a stream between two blocks of the same length.
type CopyCall = fn(&Library, &Stream, &Block, &Block, i32) -> Result<()>;

/// The four ways to copy between host and device on a stream.
const CALLS: [(&str, CopyCall); 4] = [
    ("aclrtMemcpyAsync", |_, stream, dst, src, kind| stream.copy(dst.all(), src.all(), kind)),
    ("aclrtMemcpyAsyncWithCondition", |_, stream, dst, src, kind| {
        stream.copy_with_condition(dst.all(), src.all(), kind)
    }),
    ("aclrtMemcpy2dAsync", |_, stream, dst, src, kind| {
        stream.copy_2d(dst.grid(PITCH), src.grid(PITCH), PITCH, LEN / PITCH, kind)
    }),
    ("aclrtMemcpyBatchAsync", |library, stream, dst, src, kind| {
        let batch = Batch::new(std::iter::once((dst.all(), src.all())));
        let to_device = kind == kind::HOST_TO_DEVICE;
        let (to, from) = if to_device { (device(0), HOST) } else { (HOST, device(0)) };
        batch.group(0, to, from).submit(library, stream)
    }),
];

/// Both directions, with the host side in `home`.
fn directions(home: Home) -> [(Home, Home, i32); 2] {
    [(Home::Device, home, kind::HOST_TO_DEVICE), (home, Home::Device, kind::DEVICE_TO_HOST)]
}

fn locked(ctx: &mut Ctx) -> Result<Proof> {
    let (before, after) = (pattern(1, LEN), pattern(2, LEN));
    for (dst, src, kind) in directions(Home::Locked) {
        let (stream, source) = (ctx.stream()?, ctx.block(src, &after)?);
        let targets = CALLS.iter().map(|_| ctx.block(dst, &before)).collect::<Result<Vec<_>>>()?;
        let blocker = stream.block()?;
        for ((_, call), target) in CALLS.iter().zip(&targets) {
            call(ctx.library, &stream, target, &source, kind)?;
        }
        ensure(!stream.is_done()?, "aclrtStreamQuery of a held stream", "not ready", "complete")?;
        for ((name, _), target) in CALLS.iter().zip(&targets) {
            ctx.verify(&format!("the target of {name} while its stream is held"), target, &before)?;
        }
        blocker.unblock();
        stream.synchronise()?;
        for ((name, _), target) in CALLS.iter().zip(&targets) {
            ctx.verify(&format!("the target of {name}"), target, &after)?;
        }
    }
    ctx.proof()
}

fn pageable(ctx: &mut Ctx) -> Result<Proof> {
    let (before, after) = (pattern(1, LEN), pattern(2, LEN));
    for (dst, src, kind) in directions(Home::Pageable) {
        for (name, call) in CALLS {
            let (stream, source, target) = (ctx.stream()?, ctx.block(src, &after)?, ctx.block(dst, &before)?);
            must_wait(name, &stream, || call(ctx.library, &stream, &target, &source, kind))?;
            ctx.verify(&format!("the target of {name} when it came back"), &target, &after)?;
        }
    }
    ctx.proof()
}

/// The stream is blocked, so the copy runs after the source was overwritten, for page-locked and pageable
/// memory alike.
fn staged(ctx: &mut Ctx) -> Result<Proof> {
    let (before, after, later) = (pattern(1, LEN), pattern(2, LEN), pattern(3, LEN));
    for home in [Home::Locked, Home::Pageable] {
        let (stream, source) = (ctx.stream()?, ctx.block(home, &after)?);
        let target = ctx.block(Home::Device, &before)?;
        let blocker = stream.block()?;
        stream.copy(target.all(), source.all(), kind::HOST_TO_BUF_TO_DEVICE)?;
        source.put(&later)?;
        source.free()?;
        ctx.verify("the target while its stream is held", &target, &before)?;
        blocker.unblock();
        stream.synchronise()?;
        ctx.verify("the target", &target, &after)?;
    }
    ctx.proof()
}

fn past_streams(ctx: &mut Ctx) -> Result<Proof> {
    let (before, after) = (pattern(1, LEN), pattern(2, LEN));
    let (target, source) = (ctx.block(Home::Device, &before)?, ctx.block(Home::Pageable, &after)?);
    let (stream, default) = (ctx.stream()?, Stream::default_of_context(ctx.library));
    let blockers = [stream.block()?, default.block()?];
    memory::copy(ctx.library, target.all(), source.all(), kind::HOST_TO_DEVICE)?;
    ctx.verify("the target while both streams are held", &target, &after)?;
    ensure(!default.is_done()?, "aclrtStreamQuery of the held default stream", "not ready", "complete")?;
    drop(blockers);
    default.synchronise()?;
    stream.synchronise()?;
    ctx.proof()
}
