//! A copy into the middle of a block: what is around the target must stay as it was.

use ferry_abi::Result;
use ferry_abi::memory::{Block, BlockPart, Home};

use crate::ctx::Ctx;
use crate::mirror::pattern;
use crate::proof::Proof;

/// The mirror of a block with a margin before and after the part that a copy may write.
pub struct Around {
    pub bytes: Vec<u8>,
    len: usize,
}

impl Around {
    // Odd on purpose: no rule asks for alignment.
    const MARGIN: usize = 61;

    /// Room for `len` bytes, and a margin on both sides.
    pub fn new(seed: u64, len: usize) -> Around {
        Around { bytes: pattern(seed, len + 2 * Around::MARGIN), len }
    }

    /// The part that may be written.
    pub fn inside<'m>(&self, memory: &'m Block) -> BlockPart<'m> {
        memory.part(Around::MARGIN, self.len)
    }

    /// Writes that part of the mirror.
    pub fn write(&mut self, bytes: &[u8]) {
        self.bytes[Around::MARGIN..][..self.len].copy_from_slice(bytes);
    }
}

/// Copies between memory of two sorts and verifies the target, what is around it, and the source.
pub fn copied(
    ctx: &mut Ctx,
    len: usize,
    dst: Home,
    src: Home,
    mut copy: impl FnMut(BlockPart, BlockPart) -> Result<()>,
) -> Result<Proof> {
    let (mut to, from) = (Around::new(1, len), pattern(2, len));
    let (target, source) = (ctx.block(dst, &to.bytes)?, ctx.block(src, &from)?);
    let time = ctx.best(|| copy(to.inside(&target), source.all()))?;
    to.write(&from);
    ctx.verify("the target", &target, &to.bytes)?;
    ctx.verify("the source", &source, &from)?;
    ctx.moved(len, time)
}
