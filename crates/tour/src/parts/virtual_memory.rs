//! Virtual memory: copies to and from reserved addresses that several pieces of physical memory are mapped
//! to.

use ferry_abi::error::refused;
use ferry_abi::memory::{self, Home, get, put};
use ferry_abi::peer::PeerAccess;
use ferry_abi::{Result, kind};

use super::mapping::{AddressRange, Physical, granularity};
use crate::ctx::Ctx;
use crate::mirror::pattern;
use crate::part::{TourPart, part};
use crate::proof::Proof;

pub const PARTS: &[TourPart] = &[
    part("to, from and inside 16 pieces, odd lengths", "pieces are one", over_pieces),
    part("mapped anew while a copy waits", "the old memory", mapped_anew),
    part("between devices: asynchronous only", "X7", between),
    part("hole, twice, release while mapped: refused", "gone when undone", mistakes),
];

/// Upload, download, and an overlapping copy by an odd number of bytes, as memmove does it.
fn over_pieces(ctx: &mut Ctx) -> Result<Proof> {
    let library = ctx.library;
    let piece = granularity(library, 0)? * ctx.size(512, 16);
    let range = AddressRange::over(library, 0, &[piece; 16])?;
    let mut mirror = pattern(1, 16 * piece);
    put(library, range.all(), &mirror)?;
    let (stream, len) = (ctx.stream()?, 15 * piece + 77);
    let bytes = pattern(2, len);
    let (source, target) = (ctx.block(Home::Locked, &bytes)?, ctx.block(Home::Locked, &pattern(3, len))?);
    let time = ctx.best(|| {
        stream.copy(range.all().part(61, len), source.all(), kind::HOST_TO_DEVICE)?;
        stream.synchronise()
    })?;
    mirror[61..61 + len].copy_from_slice(&bytes);
    ctx.verify_bytes("16 pieces", &get(library, range.all())?, &mirror)?;
    for (to, from) in [(1001, 3), (5, 4099)] {
        let (dst, src) = (range.all().part(to, len - 5000), range.all().part(from, len - 5000));
        stream.copy(dst, src, kind::DEVICE_TO_DEVICE)?;
        mirror.copy_within(from..from + len - 5000, to);
    }
    stream.copy(target.all(), range.all().part(7, len), kind::DEVICE_TO_HOST)?;
    stream.synchronise()?;
    ctx.verify_bytes("16 pieces copied over themselves", &get(library, range.all())?, &mirror)?;
    ctx.verify("what came out of them", &target, &mirror[7..7 + len])?;
    ctx.moved(len, time)
}

/// The copy was queued when the address meant the first memory, and comes out there.
fn mapped_anew(ctx: &mut Ctx) -> Result<Proof> {
    let library = ctx.library;
    let len = granularity(library, 0)? * 16;
    let (old, new, bytes) = (pattern(1, len), pattern(2, len), pattern(3, len));
    let pieces = [Physical::new(library, 0, len)?, Physical::new(library, 0, len)?];
    let (mut range, mut other) = (AddressRange::new(library, len)?, AddressRange::new(library, len)?);
    range.map(0, &pieces[0])?;
    put(library, range.all(), &old)?;
    let (source, stream) = (ctx.block(Home::Locked, &bytes)?, ctx.stream()?);
    let blocker = stream.block()?;
    stream.copy(range.all(), source.all(), kind::HOST_TO_DEVICE)?;
    range.unmap(0)?;
    range.map(0, &pieces[1])?;
    put(library, range.all(), &new)?;
    other.map(0, &pieces[0])?;
    ctx.verify_bytes("the first memory, stream held", &get(library, other.all())?, &old)?;
    blocker.unblock();
    stream.synchronise()?;
    ctx.verify_bytes("the first memory", &get(library, other.all())?, &bytes)?;
    ctx.verify_bytes("the second memory", &get(library, range.all())?, &new)?;
    // Freed and unmapped with a copy queued: it still brings out the bytes.
    let blocker = stream.block()?;
    stream.copy(source.all(), range.all(), kind::DEVICE_TO_HOST)?;
    range.unmap(0)?;
    let [_, second] = pieces;
    second.free()?;
    blocker.unblock();
    stream.synchronise()?;
    ctx.verify("what came out of unmapped memory", &source, &new)?;
    ctx.proof()
}

fn between(ctx: &mut Ctx) -> Result<Proof> {
    let library = ctx.library;
    let len = granularity(library, 0)? * 16;
    let (near, far) = (pattern(1, 2 * len), pattern(2, 2 * len));
    let peer = ctx.on(1, || ctx.block(Home::Device, &far))?;
    let range = AddressRange::over(library, 0, &[len, len])?;
    put(library, range.all(), &near)?;
    let _access = PeerAccess::enable(library, 0, 1)?;
    for (dst, src) in [(range.all(), peer.all()), (peer.all(), range.all())] {
        let at_once = memory::copy(library, dst, src, kind::DEVICE_TO_DEVICE);
        refused("a synchronous copy between devices", 107000, at_once)?;
    }
    ctx.verify_bytes("the range", &get(library, range.all())?, &near)?;
    ctx.verify("the other device's memory", &peer, &far)?;
    let stream = ctx.stream()?;
    stream.copy(range.all(), peer.all(), kind::DEVICE_TO_DEVICE)?;
    stream.fill(range.all().part(len - 8, 16), 0x5A, 16)?;
    stream.copy(peer.all(), range.all(), kind::INTER_DEVICE_TO_DEVICE)?;
    stream.synchronise()?;
    let mut mirror = far;
    mirror[len - 8..len + 8].fill(0x5A);
    ctx.verify_bytes("the range", &get(library, range.all())?, &mirror)?;
    ctx.verify("the other device's memory", &peer, &mirror)?;
    ctx.proof()
}

fn mistakes(ctx: &mut Ctx) -> Result<Proof> {
    let library = ctx.library;
    let len = granularity(library, 0)?;
    let bytes = pattern(1, 3 * len);
    let source = ctx.block(Home::Locked, &bytes)?;
    let stream = ctx.stream()?;
    let mut range = AddressRange::over(library, 0, &[len, len, len])?;
    put(library, range.all(), &bytes)?;
    range.unmap(len)?;
    let piece = Physical::new(library, 0, len)?;
    let copy = stream.copy(range.all(), source.all(), kind::HOST_TO_DEVICE);
    refused("a copy over a hole", 107000, copy)?;
    refused("mapping over what is mapped", 107000, range.map(0, &piece))?;
    refused("releasing while something is mapped", 107000, range.release())?;
    refused("physical memory of half a page", 107000, Physical::new(library, 0, len / 2).map(drop))?;
    range.map(len, &piece)?;
    piece.free()?;
    put(library, range.all().part(len, len), &bytes[len..2 * len])?;
    ctx.verify_bytes("the range, the hole filled", &get(library, range.all())?, &bytes)?;
    // SAFETY: given to the library only, which made it.
    let gone = unsafe { range.all().outlive() };
    drop(range);
    // Free memory is not compared: a GPU's driver and other programs allocate and free at any time.
    let copy = stream.copy(gone.part(0, len), source.all().part(0, len), kind::HOST_TO_DEVICE);
    refused("a copy to what was unmapped and released", 107000, copy)?;
    ctx.proof()
}
