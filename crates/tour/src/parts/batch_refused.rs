//! Batches that are refused: one wrong copy refuses all of them, and failIndex says which it was.

use ferry_abi::batch::{Batch, HOST, device};
use ferry_abi::error::{ensure, refused};
use ferry_abi::memory::{Block, BlockPart, Home};
use ferry_abi::{Location, Result};

use crate::ctx::Ctx;
use crate::mirror::pattern;
use crate::proof::Proof;

/// Copies in each batch.
const COUNT: usize = 16;
/// Bytes of each copy.
const PIECE_LEN: usize = 256;

/// The index of the wrong copy.
const WRONG: usize = 7;

/// Copy 7 goes the other way, or its memory is not what its attribute says.
pub fn wrong_item(ctx: &mut Ctx) -> Result<Proof> {
    let stage = Stage::new(ctx)?;
    let (on_device, nowhere) = (device(0), device(ctx.devices));
    let managed = Location { id: 0, kind: 3 };
    let swap = |(i, (dst, src)): (usize, (_, _))| if i == WRONG { (src, dst) } else { (dst, src) };
    for (what, batch) in [
        (
            "a copy in the other direction",
            Batch::new(stage.copies().enumerate().map(swap)).group(0, on_device, HOST),
        ),
        ("a device that is not the memory's", stage.split(nowhere, HOST)),
        ("host memory said to be of a device", stage.split(on_device, on_device)),
        ("device memory said to be the host's", stage.split(HOST, HOST)),
        ("managed memory, which there is not", stage.split(managed, HOST)),
    ] {
        stage.refuses(ctx, what, &batch, WRONG)?;
    }
    stage.unchanged(ctx)
}

/// The arrays contradict each other, which is no single copy's fault.
pub fn wrong_groups(ctx: &mut Ctx) -> Result<Proof> {
    let stage = Stage::new(ctx)?;
    let groups = |firsts: &[usize]| {
        firsts.iter().fold(Batch::new(stage.copies()), |batch, first| batch.group(*first, device(0), HOST))
    };
    let too_many: Vec<usize> = (0..=COUNT).collect();
    for (what, firsts) in [
        ("no attributes", &[][..]),
        ("a first group that does not start at 0", &[1][..]),
        ("groups that do not increase", &[0, 5, 5][..]),
        ("groups that go back", &[0, 9, 3][..]),
        ("a group after the last copy", &[0, COUNT][..]),
        ("more groups than copies", &too_many[..]),
    ] {
        stage.refuses(ctx, what, &groups(firsts), usize::MAX)?;
    }
    let empty = Batch::new(std::iter::empty()).group(0, device(0), HOST);
    stage.refuses(ctx, "no copies", &empty, usize::MAX)?;
    stage.unchanged(ctx)
}

/// Sixteen blocks to be copied to device 0, had the batch been right.
struct Stage {
    target: Block,
    source: Block,
}

impl Stage {
    fn new(ctx: &Ctx) -> Result<Stage> {
        let target = ctx.block(Home::Device, &pattern(1, COUNT * PIECE_LEN))?;
        let source = ctx.block(Home::Locked, &pattern(2, COUNT * PIECE_LEN))?;
        Ok(Stage { target, source })
    }

    fn copies(&self) -> impl Iterator<Item = (BlockPart<'_>, BlockPart<'_>)> {
        (0..COUNT)
            .map(|i| (self.target.part(i * PIECE_LEN, PIECE_LEN), self.source.part(i * PIECE_LEN, PIECE_LEN)))
    }

    /// Good up to the wrong copy, where another attribute begins.
    fn split(&self, dst: Location, src: Location) -> Batch<'_> {
        Batch::new(self.copies()).group(0, device(0), HOST).group(WRONG, dst, src)
    }

    fn refuses(&self, ctx: &Ctx, what: &str, batch: &Batch, index: usize) -> Result<()> {
        let stream = ctx.stream()?;
        let (outcome, failed) = batch.try_submit(ctx.library, &stream);
        refused(what, 107000, outcome)?;
        let name = |index| if index == usize::MAX { "SIZE_MAX".to_owned() } else { format!("{index}") };
        ensure(failed == index, &format!("failIndex of {what}"), name(index), name(failed))?;
        stream.synchronise()
    }

    fn unchanged(&self, ctx: &mut Ctx) -> Result<Proof> {
        ctx.verify("the target of refused batches", &self.target, &pattern(1, COUNT * PIECE_LEN))?;
        ctx.verify("the source of refused batches", &self.source, &pattern(2, COUNT * PIECE_LEN))?;
        ctx.proof()
    }
}
