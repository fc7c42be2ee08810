//! The other calls that make memory, and those that wait for the device before they free it.

use std::ffi::c_void;

use ferry_abi::memory::{self, Home, Span};
use ferry_abi::{Library, MallocAttribute, MallocConfig, Result, call, kind};

use crate::ctx::Ctx;
use crate::mirror::pattern;
use crate::part::Part;
use crate::proof::Proof;
use crate::waits::must_wait;

pub const PARTS: &[Part] = &[
    Part {
        what: "Align32, Cached, and three with settings",
        proves: "copies both ways",
        everywhere: false,
        run: made,
    },
    Part {
        what: "FreeWithDevSync waits for a held stream",
        proves: "device and host",
        everywhere: false,
        run: freed,
    },
];

/// Memory that one of these calls made, freed on drop.
struct Block {
    library: &'static Library,
    at: *mut c_void,
    is_host: bool,
}

impl Block {
    fn span(&self, len: usize) -> Span<'_> {
        // SAFETY: the library made the memory, at least this long, and is the only one that is given the
        // span.
        unsafe { Span::of(self, self.at, len) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let functions = &self.library.functions;
        let free = if self.is_host { functions.aclrtFreeHost } else { functions.aclrtFree };
        // SAFETY: takes an address, which the library looks up.
        unsafe { free(self.at) };
    }
}

/// Which of the calls makes host memory.
const HOST: usize = 4;

/// The five calls; settings are the module and, on a device, its number.
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
    Ok(Block { library, at, is_host })
}

fn made(ctx: &mut Ctx) -> Result<Proof> {
    let (library, len) = (ctx.library, ctx.small());
    let stream = ctx.stream()?;
    let blocks = (0..=HOST).map(|which| make(library, which, len)).collect::<Result<Vec<_>>>()?;
    for (seed, block) in (1..).zip(&blocks) {
        memory::put(library, block.span(len), &pattern(seed, len))?;
    }
    // From each to the next, and out of the last: every block is a source and a target.
    let first = ctx.memory(Home::Device, &pattern(9, len))?;
    stream.copy(first.all(), blocks[HOST].span(len), kind::HOST_TO_DEVICE)?;
    stream.copy(blocks[HOST].span(len), blocks[0].span(len), kind::DEVICE_TO_HOST)?;
    for pair in blocks[..HOST].windows(2) {
        stream.copy(pair[0].span(len), pair[1].span(len), kind::DEVICE_TO_DEVICE)?;
    }
    stream.copy(blocks[HOST - 1].span(len), first.all(), kind::DEVICE_TO_DEVICE)?;
    stream.synchronise()?;
    for (block, seed) in blocks.iter().zip([2, 3, 4, 5, 1]) {
        let seen = memory::get(library, block.span(len))?;
        ctx.verify_bytes("memory of one of the calls", &seen, &pattern(seed, len))?;
    }
    ctx.proof()
}

fn freed(ctx: &mut Ctx) -> Result<Proof> {
    let (library, len) = (ctx.library, 1 << 16);
    let bytes = pattern(1, len);
    for is_host in [false, true] {
        let (source, target) = (ctx.memory(Home::Locked, &bytes)?, ctx.memory(Home::Device, &vec![0; len])?);
        let stream = ctx.stream()?;
        let block = std::mem::ManuallyDrop::new(make(library, if is_host { HOST } else { 0 }, len)?);
        must_wait("freeing after the device", &stream, || {
            let (span, functions) = (block.span(len), &library.functions);
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
            library.check("FreeWithDevSync", unsafe { free(block.at) })
        })?;
        ctx.verify("the target when it came back", &target, &bytes)?;
    }
    ctx.proof()
}
