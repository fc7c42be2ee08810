//! Copies of several pieces: rectangles and batches.

use super::Slip;
use super::copies::MOST;
use super::mirror::{Origin, Spot};
use super::places::{Area, Wanted};
use super::world::{Outcome, World, call};
use crate::code::*;
use crate::kind::*;
use crate::{Arg, Batch, BatchForm, aclrtMemcpy2d, aclrtMemcpy2dAsync, aclrtMemcpyBatchAttr, location};

/// Documented for the asynchronous 2-D copy.
const MOST_HEIGHT: usize = 5 * 1024 * 1024;
const MOST_WIDTH: usize = 5_000_000;
/// Most items of a batch.
const ITEMS: usize = 20;

/// Pieces of one copy, each a destination and a source.
type Pieces = Vec<(Spot, Spot)>;

#[derive(Clone, Copy, Debug)]
struct Rectangle {
    dst: usize,
    dst_pitch: usize,
    src: usize,
    src_pitch: usize,
    width: usize,
    height: usize,
    kind: i32,
}

impl World {
    fn some_rectangle(&mut self) -> Option<Rectangle> {
        let kind = self.choose.pick(&[H2D, H2D, D2H, D2H, D2D]);
        let (to, from) = match kind {
            H2D => (Wanted::Device, Wanted::Host),
            D2H => (Wanted::Host, Wanted::Device),
            _ => (Wanted::Device, Wanted::Device),
        };
        let (to, from) = (self.some_area(to)?, self.some_area(from)?);
        let least = to.len.min(from.len).min(MOST);
        let width = self.choose.len(least.min(4096));
        let height = self.choose.len((least / width).clamp(1, 40));
        let pitch = |room: usize, extra: usize| {
            if height > 1 {
                width + extra % (room - width * height + height - 1).div_euclid(height - 1).max(1)
            } else {
                width + extra
            }
        };
        let (a, b) = (self.choose.below(64), self.choose.below(64));
        let (dst_pitch, src_pitch) = (pitch(to.len, a), pitch(from.len, b));
        let extent = |pitch: usize| (height - 1) * pitch + width;
        let place = |world: &mut Self, area: Area, pitch| {
            area.base + world.offset(area.len.saturating_sub(extent(pitch)))
        };
        let (dst, src) = (place(self, to, dst_pitch), place(self, from, src_pitch));
        let mut all = Rectangle { dst, dst_pitch, src, src_pitch, width, height, kind };
        if self.choose.one_in(8) {
            self.bend_rectangle(&mut all);
        }
        Some(all)
    }

    fn bend_rectangle(&mut self, all: &mut Rectangle) {
        match self.choose.below(10) {
            0 => all.dst = self.bad_address(all.width),
            1 => all.src = self.bad_address(all.width),
            2 => all.width = self.choose.pick(&[0, MOST_WIDTH, MOST_WIDTH + 1, usize::MAX]),
            3 => all.height = self.choose.pick(&[0, MOST_HEIGHT, MOST_HEIGHT + 1, usize::MAX]),
            4 => all.dst_pitch = self.choose.pick(&[0, all.width.wrapping_sub(1), usize::MAX, 1 << 60]),
            5 => all.src_pitch = self.choose.pick(&[0, all.width.wrapping_sub(1), usize::MAX, 1 << 60]),
            6 => all.kind = self.choose.pick(&[-1, 0, 4, 5, 6, 7, 8, i32::MAX]),
            7 => all.height += 1,
            8 => all.width += 1,
            _ => (all.dst, all.src) = (all.src, all.dst),
        }
    }

    fn rectangle_rules(&self, all: &Rectangle, stream: Option<usize>) -> Result<Pieces, Vec<i32>> {
        if all.dst == 0 || all.src == 0 {
            return Err(vec![INVALID_PARAM]);
        }
        let context = self.context().map_err(|code| vec![code])?;
        let slot = stream.map(|handle| self.stream_of(handle)).transpose().map_err(|code| vec![code])?;
        let mut values = vec![];
        let inside = self.row.is_newest() && stream.is_some();
        if !(matches!(all.kind, H2D | D2H) || all.kind == D2D && inside) {
            values.push(INVALID_PARAM);
        }
        let too_large = stream.is_some() && (all.width > MOST_WIDTH || all.height > MOST_HEIGHT);
        if all.width > all.dst_pitch || all.width > all.src_pitch || too_large {
            values.push(RT_PARAM_INVALID);
        }
        if !values.is_empty() {
            return Err(values);
        }
        if all.width == 0 || all.height == 0 {
            return Ok(vec![]);
        }
        let bad = || vec![RT_PARAM_INVALID];
        let extent = |pitch: usize| (all.height - 1).checked_mul(pitch)?.checked_add(all.width);
        let whole = |addr, pitch, writes| extent(pitch).and_then(|len| self.spot(addr, len, writes).ok());
        let to = whole(all.dst, all.dst_pitch, true).ok_or_else(bad)?;
        let from = whole(all.src, all.src_pitch, false).ok_or_else(bad)?;
        let device = slot.map_or(self.contexts[context].device, |slot| self.streams[slot].device);
        if !self.rectangle_fits(&to, &from, all.kind, device) {
            return Err(bad());
        }
        let row = |i| (to.part(i * all.dst_pitch, all.width), from.part(i * all.src_pitch, all.width));
        Ok((0..all.height).map(row).collect())
    }

    fn rectangle_fits(&self, to: &Spot, from: &Spot, kind: i32, device: u32) -> bool {
        let is_far = to.origin == Origin::Far || from.origin == Origin::Far;
        match (kind, to.device, from.device) {
            (H2D, Some(_), None) | (D2H, None, Some(_)) => !is_far,
            (D2D, Some(a), Some(b)) if a == b => true,
            (D2D, Some(a), Some(b)) => {
                let is_mapped = to.origin == Origin::Mapped || from.origin == Origin::Mapped;
                let is_open = |it| it == device || self.peers.contains(&(device, it));
                !is_mapped && is_open(a) && is_open(b)
            }
            _ => false,
        }
    }

    pub(super) fn copy_2d(&mut self) -> Outcome {
        let Some(mut all) = self.some_rectangle() else { return Ok(()) };
        let stream = (!self.choose.one_in(3)).then(|| self.some_stream());
        let rules = self.rectangle_rules(&all, stream);
        let want = rules.as_ref().err().cloned().unwrap_or_else(|| vec![SUCCESS]);
        let slot = stream.and_then(|stream| self.stream_of(stream).ok());
        let raced = self.prepare_pieces(&rules, slot, self.row.has("aclrtMemcpy2d"))?;
        if self.slip == Some(Slip::SamePitch) && all.dst_pitch > all.src_pitch {
            all.dst_pitch = all.src_pitch;
        }
        let Rectangle { dst, dst_pitch, src, src_pitch, width, height, kind } = all;
        let code = match stream {
            Some(stream) => call!(
                self,
                want,
                aclrtMemcpy2dAsync(dst, dst_pitch, src, src_pitch, width, height, kind, stream)
            )?,
            None => call!(self, want, aclrtMemcpy2d(dst, dst_pitch, src, src_pitch, width, height, kind))?,
        };
        self.moved_pieces(code, rules, raced, slot);
        Ok(())
    }

    fn prepare_pieces(
        &mut self,
        rules: &Result<Pieces, Vec<i32>>,
        slot: Option<usize>,
        exists: bool,
    ) -> Outcome<bool> {
        let Some(pieces) = rules.as_ref().ok().filter(|_| exists) else { return Ok(false) };
        if let (true, Some(slot)) = (pieces.iter().any(is_plain), slot) {
            self.before_waiting(slot)?;
        }
        let uses: Vec<_> = pieces.iter().flat_map(|(to, from)| [(to, true), (from, false)]).collect();
        self.arrange(&uses, slot, true)
    }

    /// The mirror follows; pieces are in no order, so that those which meet another's destination are
    /// unknown.
    fn moved_pieces(&mut self, code: i32, rules: Result<Pieces, Vec<i32>>, raced: bool, slot: Option<usize>) {
        let (SUCCESS, Ok(pieces)) = (code, rules) else { return };
        if pieces.is_empty() {
            return self.moved_nothing(code, slot);
        }
        let bytes: Vec<_> = pieces.iter().map(|(_, from)| self.mirror.read(from)).collect();
        let op = slot.map(|slot| self.tick(slot));
        let alone = |i: usize| {
            let (to, from) = &pieces[i];
            let others = || pieces.iter().enumerate().filter(|(j, _)| *j != i);
            !others().any(|(_, (dst, src))| dst.meets(to) || dst.meets(from) || src.meets(to))
        };
        // Most rectangles and batches lie apart, which one look at the whole tells.
        let apart = are_apart(&pieces);
        let certain: Vec<_> = (0..pieces.len()).map(|i| !raced && (apart || alone(i))).collect();
        for (((to, from), bytes), is_certain) in pieces.iter().zip(&bytes).zip(&certain) {
            self.reads(from, op);
            self.wrote(to, is_certain.then_some(bytes), op);
        }
        // Of two that meet neither is known, whichever was noted last.
        for ((to, _), _) in pieces.iter().zip(&certain).filter(|(_, is_certain)| !**is_certain) {
            self.mirror.lose(to);
        }
        self.after_waiting(pieces.iter().any(is_plain), slot);
    }

    pub(super) fn batch(&mut self) -> Outcome {
        let Some((mut batch, to_device)) = self.some_batch() else { return Ok(()) };
        let form = self.choose.pick(&BatchForm::ALL);
        let stream = self.some_stream();
        if self.choose.one_in(6) {
            self.bend_batch(&mut batch, to_device);
        }
        let rules = self.batch_rules(&batch, form.takes_stream().then_some(stream));
        let want = rules.as_ref().err().map_or(SUCCESS, |(code, _)| *code);
        let slot = self.stream_of(stream).ok().filter(|_| form.takes_stream());
        let name = match form {
            BatchForm::Sync => "aclrtMemcpyBatch",
            BatchForm::SyncV2 => "aclrtMemcpyBatchV2",
            BatchForm::Async => "aclrtMemcpyBatchAsync",
            BatchForm::AsyncV2 => "aclrtMemcpyBatchAsyncV2",
        };
        let index = rules.as_ref().err().map_or(usize::MAX, |(_, index)| *index);
        let rules = rules.map_err(|(code, _)| vec![code]);
        let raced = self.prepare_pieces(&rules, slot, self.row.has(name))?;
        let last = batch.sizes.len() - 1;
        if self.slip == Some(Slip::BatchByte) && batch.sizes[last] > 1 {
            batch.sizes[last] -= 1;
        }
        let (code, told) = batch.call(form, stream);
        let first = [batch.dsts[0], batch.srcs[0], batch.sizes[0], batch.num, batch.num_attrs, stream];
        self.judge(name, &first, &[want], code)?;
        let is_told = code != FEATURE_NOT_SUPPORT && batch.instead.is_none();
        if let Some(told) = told.filter(|told| is_told && *told != index) {
            return Err(self.difference(format!("failIndex is {told:#x}, not {index:#x}: {:?}", batch.sizes)));
        }
        self.moved_pieces(code, rules, raced, slot);
        Ok(())
    }

    fn some_batch(&mut self) -> Option<(Batch, bool)> {
        let to_device = self.choose.one_in(2);
        let device = self.choose.below(2) as u32;
        let count = self.choose.len(ITEMS);
        let mut items = vec![];
        for _ in 0..count {
            let (there, here) = (self.some_area(Wanted::Acl(device))?, self.some_area(Wanted::Host)?);
            let len = self.choose.len(there.len.min(here.len).min(4096));
            let len = if self.choose.one_in(12) { 0 } else { len };
            let ends = (there.base + self.offset(there.len - len), here.base + self.offset(here.len - len));
            items.push(if to_device { (ends.0, ends.1, len) } else { (ends.1, ends.0, len) });
        }
        let (host, there) = (location(0, self.choose.below(9) as u32), location(1, device));
        let (dst, src) = if to_device { (there, host) } else { (host, there) };
        let attr = aclrtMemcpyBatchAttr { dstLoc: dst, srcLoc: src, rsv: [0; 16] };
        let batch = Batch::of(&items, attr);
        let second = self.choose.below(count);
        Some(if second > 0 {
            (batch.with_attrs(&[(0, attr), (second, attr)]), to_device)
        } else {
            (batch, to_device)
        })
    }

    fn bend_batch(&mut self, batch: &mut Batch, to_device: bool) {
        let i = self.choose.below(batch.sizes.len());
        let size = batch.sizes[i].max(1);
        let last = batch.attrs.len() - 1;
        // Whether the attribute of an item that moves nothing is looked at is open.
        let moves_all = batch.sizes.iter().all(|size| *size > 0);
        match self.choose.below(12) {
            7..=9 if !moves_all => {}
            0 => (batch.dsts[i], batch.sizes[i], batch.maxs[i]) = (self.bad_address(size), size, size),
            1 => (batch.srcs[i], batch.sizes[i], batch.maxs[i]) = (self.bad_address(size), size, size),
            2 => batch.maxs[i] = batch.sizes[i].wrapping_sub(1),
            3 => (batch.sizes[i], batch.maxs[i]) = (usize::MAX / 2, usize::MAX),
            4 => batch.num = 0,
            5 => batch.num_attrs = self.choose.pick(&[0, batch.num + 1]),
            6 => batch.indexes[last] = self.choose.pick(&[1, batch.num, usize::MAX]),
            7 => batch.attrs[last].rsv[self.choose.below(16)] = 1,
            8 => {
                let wrong = location(self.choose.pick(&[-1, 1, 2, 3, 4, 9]), self.choose.below(3) as u32);
                if to_device { batch.attrs[last].srcLoc = wrong } else { batch.attrs[last].dstLoc = wrong }
            }
            9 => {
                let wrong = location(self.choose.pick(&[0, 1, 2]), self.choose.pick(&[0, 1, 2, u32::MAX]));
                if to_device { batch.attrs[last].dstLoc = wrong } else { batch.attrs[last].srcLoc = wrong }
            }
            10 => {
                let arg = self.choose.pick(&Arg::ARRAYS);
                batch.instead = Some((arg, 0));
            }
            _ => (batch.dsts[i], batch.srcs[i]) = (batch.srcs[i], batch.dsts[i]),
        }
        if batch.num_attrs > batch.attrs.len() {
            // As many as are said to be there.
            batch.attrs.resize(batch.num_attrs, batch.attrs[0]);
            batch.indexes.resize(batch.num_attrs, 0);
        }
    }

    /// The pieces, or the code and what failIndex says.
    fn batch_rules(&self, batch: &Batch, stream: Option<usize>) -> Result<Pieces, (i32, usize)> {
        let whole = |code| (code, usize::MAX);
        if batch.instead.is_some() {
            return Err(whole(INVALID_PARAM));
        }
        let null = |all: &[usize]| all[..batch.num].iter().position(|addr| *addr == 0);
        if let Some(index) = null(&batch.dsts).or_else(|| null(&batch.srcs)) {
            return Err((INVALID_PARAM, index));
        }
        self.context().map_err(whole)?;
        stream.map(|handle| self.stream_of(handle)).transpose().map_err(whole)?;
        let indexes = &batch.indexes[..batch.num_attrs];
        let rising = indexes.windows(2).all(|pair| pair[0] < pair[1]);
        let good =
            indexes.first() == Some(&0) && rising && indexes.last().is_some_and(|last| *last < batch.num);
        let sizes_fit = (0..batch.num).all(|i| batch.sizes[i] <= batch.maxs[i]);
        if batch.num == 0 || !good || !sizes_fit {
            return Err(whole(RT_PARAM_INVALID));
        }
        let mut pieces: Pieces = vec![];
        for i in 0..batch.num {
            let group = indexes.iter().rposition(|first| *first <= i).unwrap_or(0);
            let item = self.batch_item(batch, i, &batch.attrs[group], pieces.first());
            pieces.extend(item.map_err(|()| (RT_PARAM_INVALID, i))?);
        }
        Ok(pieces)
    }

    fn batch_item(
        &self,
        batch: &Batch,
        i: usize,
        attr: &aclrtMemcpyBatchAttr,
        first: Option<&(Spot, Spot)>,
    ) -> Result<Option<(Spot, Spot)>, ()> {
        if batch.sizes[i] == 0 {
            return Ok(None); // wherever it is
        }
        let to = self.spot(batch.dsts[i], batch.sizes[i], true).map_err(drop)?;
        let from = self.spot(batch.srcs[i], batch.sizes[i], false).map_err(drop)?;
        let is_far = to.origin == Origin::Far || from.origin == Origin::Far;
        let fits = |spot: &Spot, type_: i32, id: u32| match type_ {
            0 => spot.device.is_none(),
            1 => spot.device == Some(id),
            2 => spot.is_plain() || spot.origin == Origin::Registered,
            _ => false,
        };
        let right = attr.rsv == [0; 16]
            && !is_far
            && fits(&to, attr.dstLoc.type_, attr.dstLoc.id)
            && fits(&from, attr.srcLoc.type_, attr.srcLoc.id)
            && to.device.is_some() != from.device.is_some()
            && first.is_none_or(|(dst, _)| dst.device.is_some() == to.device.is_some());
        if right { Ok(Some((to, from))) } else { Err(()) }
    }
}

fn is_plain((to, from): &(Spot, Spot)) -> bool {
    to.is_plain() || from.is_plain()
}

/// Whether no destination meets anything of another piece, as far as a look at the pieces in order tells.
fn are_apart(pieces: &[(Spot, Spot)]) -> bool {
    let mut all: Vec<_> = pieces
        .iter()
        .flat_map(|(to, from)| {
            let ranges = |spot: &Spot, writes: bool| {
                spot.pieces.iter().map(|p| (p.buffer, p.at, p.at + p.len, writes)).collect::<Vec<_>>()
            };
            [ranges(to, true), ranges(from, false)].concat()
        })
        .collect();
    all.sort_unstable();
    let mut end = (usize::MAX, 0);
    let mut has_writes = false;
    all.iter().all(|(buffer, from, until, writes)| {
        let meets = end.0 == *buffer && *from < end.1;
        let bad = meets && (*writes || has_writes);
        has_writes = if meets { has_writes || *writes } else { *writes };
        end = (*buffer, if meets { end.1.max(*until) } else { *until });
        !bad
    })
}
