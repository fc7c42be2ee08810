//! The other allocation functions, and those that synchronise the device before they free.

use ferry_abi::memory::{self, Block, Home};
use ferry_abi::{Library, MallocAttribute, MallocConfig, Result, call, kind};

use crate::ctx::Ctx;
use crate::mirror::pattern;
use crate::part::{TourPart, part};
use crate::proof::Proof;
use crate::waits::must_wait;

pub const PARTS: &[TourPart] = &[
    part("Align32, Cached, and three with settings", "copies both ways", made),
    part("FreeWithDevSync waits for a held stream", "device and host", freed),
];

/// The index of the call that allocates host memory.
const HOST: usize = 4;

/// Allocates by one of five calls; attributes are the module and, on a device, its number.
fn make(library: &'static Library, which: usize, len: usize) -> Result<Block> {
    const HUGE_FIRST: i32 = 0;
    const MODULE: MallocAttribute = MallocAttribute { attribute: 1, value: [33, 0] };
    let mut settings = [MODULE, MallocAttribute { attribute: 2, value: [0, 0] }];
    let is_host = which == HOST;
    let mut config = MallocConfig { attributes: settings.as_mut_ptr(), count: if is_host { 1 } else { 2 } };
    let mut at = std::ptr::null_mut();
    // SAFETY: `at` is writable, and the settings are there, for the time of each call.
    unsafe {
        match which {
            0 => call!(library, aclrtMallocAlign32(&mut at, len, HUGE_FIRST)),
            1 => call!(library, aclrtMallocCached(&mut at, len, HUGE_FIRST)),
            2 => call!(library, aclrtMallocWithCfg(&mut at, len, HUGE_FIRST, &mut config)),
            3 => call!(library, aclrtMallocForTaskScheduler(&mut at, len, HUGE_FIRST, &mut config)),
            _ => call!(library, aclrtMallocHostWithCfg(&mut at, len as u64, &mut config)),
        }
    }?;
    let home = if is_host { Home::Locked } else { Home::Device };
    // SAFETY: the call has just allocated this, and nothing else knows it.
    Ok(unsafe { Block::adopt(library, home, at, len) })
}

fn made(ctx: &mut Ctx) -> Result<Proof> {
    let (library, len) = (ctx.library, ctx.small());
    let stream = ctx.stream()?;
    let blocks = (0..=HOST).map(|which| make(library, which, len)).collect::<Result<Vec<_>>>()?;
    for (seed, block) in (1..).zip(&blocks) {
        memory::put(library, block.all(), &pattern(seed, len))?;
    }
    // From each to the next, and out of the last: every block is a source and a target.
    let first = ctx.block(Home::Device, &pattern(9, len))?;
    stream.copy(first.all(), blocks[HOST].all(), kind::HOST_TO_DEVICE)?;
    stream.copy(blocks[HOST].all(), blocks[0].all(), kind::DEVICE_TO_HOST)?;
    for pair in blocks[..HOST].windows(2) {
        stream.copy(pair[0].all(), pair[1].all(), kind::DEVICE_TO_DEVICE)?;
    }
    stream.copy(blocks[HOST - 1].all(), first.all(), kind::DEVICE_TO_DEVICE)?;
    stream.synchronise()?;
    for (block, seed) in blocks.iter().zip([2, 3, 4, 5, 1]) {
        let seen = memory::get(library, block.all())?;
        ctx.verify_bytes("memory of one of the calls", &seen, &pattern(seed, len))?;
    }
    ctx.proof()
}

fn freed(ctx: &mut Ctx) -> Result<Proof> {
    let (library, len) = (ctx.library, 1 << 16);
    let bytes = pattern(1, len);
    for is_host in [false, true] {
        let (source, target) = (ctx.block(Home::Locked, &bytes)?, ctx.block(Home::Device, &vec![0; len])?);
        let stream = ctx.stream()?;
        let block = std::mem::ManuallyDrop::new(make(library, if is_host { HOST } else { 0 }, len)?);
        must_wait("freeing after the device", &stream, || {
            let (span, functions) = (block.all(), &library.functions);
            if is_host {
                stream.copy(target.all(), source.all(), kind::HOST_TO_DEVICE)?;
                stream.copy(span, target.all(), kind::DEVICE_TO_HOST)?;
            } else {
                stream.copy(span, source.all(), kind::HOST_TO_DEVICE)?;
                stream.copy(target.all(), span, kind::DEVICE_TO_DEVICE)?;
            }
            let free =
                if is_host { functions.aclrtFreeHostWithDevSync } else { functions.aclrtFreeWithDevSync };
            // SAFETY: takes an address, which the library looks up.
            library.check("FreeWithDevSync", unsafe { free(block.all().at()) })
        })?;
        ctx.verify("the target when it came back", &target, &bytes)?;
    }
    ctx.proof()
}
