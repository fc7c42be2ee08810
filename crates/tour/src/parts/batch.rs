//! Batches: thousands of scattered pieces in one call, described by groups of attributes.

use ferry_abi::batch::{Batch, HOST, UNREGISTERED, device};
use ferry_abi::memory::{Block, Home};
use ferry_abi::{Location, Result};

use crate::ctx::Ctx;
use crate::mirror::pattern;
use crate::part::{TourPart, part};
use crate::proof::Proof;

use super::batch_refused;

pub const PARTS: &[TourPart] = &[
    part("4096 blocks out, page-locked, groups {0,1500}", "R41-R43 R46-R50 R54 R56 R58", to_device),
    part("4096 blocks back, page-locked", "R42 R43 R46 R47 R49 R56 R63", to_host),
    part("pageable, both ways: done on return", "R43 R44", pageable),
    part("the synchronous form, and both V2 forms", "R47 R49 R56", other_forms),
    part("refused, failIndex 7: wrong copy or attribute", "R51 R54 R63", batch_refused::wrong_item),
    part("refused, SIZE_MAX: groups that break rules", "R52 R54 R57 R59-R62", batch_refused::wrong_groups),
];

/// Copies in each batch.
const COUNT: usize = 4096;
/// The first copy that the second group of attributes describes.
const SECOND_GROUP: usize = 1500;

fn to_device(ctx: &mut Ctx) -> Result<Proof> {
    let mut scatter = Scatter::new(ctx, Home::Locked)?;
    let stream = ctx.stream()?;
    let batch = scatter.to_device([HOST, HOST]);
    let time = ctx.best(|| {
        batch.submit(ctx.library, &stream)?;
        stream.synchronise()
    })?;
    let total = batch.total();
    scatter.now_on_device();
    scatter.verify(ctx)?;
    ctx.moved(total, time)
}

fn to_host(ctx: &mut Ctx) -> Result<Proof> {
    let mut scatter = Scatter::new(ctx, Home::Locked)?;
    let stream = ctx.stream()?;
    let batch = scatter.to_host([HOST, HOST]);
    let time = ctx.best(|| {
        batch.submit(ctx.library, &stream)?;
        stream.synchronise()
    })?;
    let total = batch.total();
    scatter.now_on_host();
    scatter.verify(ctx)?;
    ctx.moved(total, time)
}

/// Nothing is synchronised: the calls have waited. Pageable memory may be described as HOST or UNREGISTERED.
fn pageable(ctx: &mut Ctx) -> Result<Proof> {
    let mut scatter = Scatter::new(ctx, Home::Pageable)?;
    let stream = ctx.stream()?;
    let batch = scatter.to_device([HOST, UNREGISTERED]);
    let (total, time) = (batch.total(), ctx.best(|| batch.submit(ctx.library, &stream))?);
    scatter.now_on_device();
    scatter.verify(ctx)?;
    let mut scatter = Scatter::new(ctx, Home::Pageable)?;
    scatter.to_host([UNREGISTERED, HOST]).submit(ctx.library, &stream)?;
    scatter.now_on_host();
    scatter.verify(ctx)?;
    ctx.moved(total, time)
}

fn other_forms(ctx: &mut Ctx) -> Result<Proof> {
    let stream = ctx.stream()?;
    let mut scatter = Scatter::new(ctx, Home::Locked)?;
    let batch = scatter.to_device([HOST, HOST]);
    let (total, time) = (batch.total(), ctx.best(|| batch.run(ctx.library))?);
    scatter.now_on_device();
    scatter.verify(ctx)?;
    let mut scatter = Scatter::new(ctx, Home::Pageable)?;
    scatter.to_host([HOST, HOST]).run_v2(ctx.library)?;
    scatter.now_on_host();
    scatter.verify(ctx)?;
    let mut scatter = Scatter::new(ctx, Home::Locked)?;
    scatter.to_device([HOST, HOST]).submit_v2(ctx.library, &stream)?;
    stream.synchronise()?;
    scatter.now_on_device();
    scatter.verify(ctx)?;
    ctx.moved(total, time)
}

/// The offsets of a piece on both sides. Pieces of the first group are on device 0, the others on the last
/// device.
struct ScatteredPiece {
    group: usize,
    host: usize,
    device: usize,
    len: usize,
}

/// Pieces in host memory and in memory of one or two devices, in different orders and with gaps, and their
/// mirrors.
struct Scatter {
    pieces: Vec<ScatteredPiece>,
    ids: [usize; 2],
    host: (Block, Vec<u8>),
    device: [(Block, Vec<u8>); 2],
}

impl Scatter {
    fn new(ctx: &Ctx, home: Home) -> Result<Scatter> {
        let longest = ctx.size(8192, 256);
        let slot = longest + 24;
        let place = |i: usize| ScatteredPiece {
            group: usize::from(i >= SECOND_GROUP),
            host: i * 2731 % COUNT * slot + i % 7,
            device: (i * 1237 + 5) % COUNT * slot + i % 13,
            // Piece 99 is empty, which is allowed.
            len: if i == 99 { 0 } else { longest - i % 61 },
        };
        let ids = [0, ctx.devices - 1];
        let mirror = |seed| pattern(seed, COUNT * slot);
        let on = |id: usize, seed| ctx.on(id, || Ok((ctx.block(Home::Device, &mirror(seed))?, mirror(seed))));
        Ok(Scatter {
            pieces: (0..COUNT).map(place).collect(),
            ids,
            host: (ctx.block(home, &mirror(1))?, mirror(1)),
            device: [on(ids[0], 2)?, on(ids[1], 3)?],
        })
    }

    fn to_device(&self, host: [Location; 2]) -> Batch<'_> {
        let copies = self.pieces.iter().map(|piece| {
            let device = self.device[piece.group].0.part(piece.device, piece.len);
            (device, self.host.0.part(piece.host, piece.len))
        });
        let ids = self.ids.map(device);
        Batch::new(copies).group(0, ids[0], host[0]).group(SECOND_GROUP, ids[1], host[1])
    }

    fn to_host(&self, host: [Location; 2]) -> Batch<'_> {
        let copies = self.pieces.iter().map(|piece| {
            let device = self.device[piece.group].0.part(piece.device, piece.len);
            (self.host.0.part(piece.host, piece.len), device)
        });
        let ids = self.ids.map(device);
        Batch::new(copies).group(0, host[0], ids[0]).group(SECOND_GROUP, host[1], ids[1])
    }

    fn now_on_device(&mut self) {
        for piece in &self.pieces {
            let source = &self.host.1[piece.host..][..piece.len];
            self.device[piece.group].1[piece.device..][..piece.len].copy_from_slice(source);
        }
    }

    fn now_on_host(&mut self) {
        for piece in &self.pieces {
            let source = &self.device[piece.group].1[piece.device..][..piece.len];
            self.host.1[piece.host..][..piece.len].copy_from_slice(source);
        }
    }

    fn verify(&self, ctx: &mut Ctx) -> Result<()> {
        ctx.verify("host memory", &self.host.0, &self.host.1)?;
        ctx.verify("memory of the first group's device", &self.device[0].0, &self.device[0].1)?;
        ctx.verify("memory of the second group's device", &self.device[1].0, &self.device[1].1)
    }
}
