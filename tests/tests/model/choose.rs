//! From a wish to the step it asks for: which buffers, how many bytes, which kind.

use std::ops::Range;

use crate::build::Builder;
use crate::program::*;
use crate::wish::{Pick, Towards, Want, Wish};

/// Groups of slots.
const DEVICE: Range<usize> = 0..5;
const PINNED: Range<usize> = 5..8;
const HOST: Range<usize> = 5..10;
const ON: [Range<usize>; 2] = [0..3, 3..5];

/// A buffer, and a share of it to start at.
type Spot = (usize, u16);

impl Builder {
    /// The step a wish asks for, if there can be one. Allocates what it names.
    pub fn choose(&mut self, wish: &Wish) -> Option<Act> {
        let (thread, stream) = (wish.thread, wish.stream);
        Some(match wish.want.clone() {
            Want::Copy { towards, dst, src, len, kind, sync, with_condition } => {
                let (dst, src, natural) = self.ends(wish, towards, (dst, src), sync);
                let kind = [natural, Kind::DEFAULT, self.other_kind(towards, dst.0, src.0)][kind];
                let (dst, src) = self.pair(dst, src, len);
                Act::Copy { dst, src, kind, way: way(wish, sync), with_condition: with_condition && !sync }
            }
            Want::HostToHost { dst, src, len, kind } => {
                let (dst, src) = (self.spot(thread, dst, HOST), self.spot(thread, src, HOST));
                let (dst, src) = self.pair(dst, src, len);
                // documented: the synchronous copy ignores its kind
                Act::Copy { dst, src, kind: Kind(kind as i32), way: Way::Now, with_condition: false }
            }
            Want::Copy2d { towards, dst, src, width, height, gaps, sync } => {
                let sync = sync && !matches!(towards, Towards::InDevice);
                let (dst, src, kind) = self.ends(wish, towards, (dst, src), sync);
                self.rectangle((dst, src), (width, height), gaps, kind, way(wish, sync))?
            }
            Want::Batch { towards, items, how, sync } => {
                Act::Batch { items: self.items(wish, towards, items, sync), how, way: way(wish, sync) }
            }
            Want::Fill { dst, len, with, sync } => {
                let dst = self.filled(wish, dst, len, with, sync);
                Act::Fill { dst, with, way: way(wish, sync) }
            }
            Want::Poke { dst, len, seed } => {
                let dst = self.spot(thread, dst, HOST);
                Act::Poke { dst: self.pair(dst, dst, len).0, seed }
            }
            Want::SetDesc { desc, dst, src, len } => self.description(thread, desc, (dst, src), len)?,
            Want::CopyDesc { dst } => {
                let src = dst ^ 1;
                self.descs[src]?;
                Act::CopyDesc { dst, src, stream: stream_on(DESCS[dst], stream) }
            }
            Want::RunDesc { desc, dst, src, len, copied } => {
                let alive = |s: Span| self.slots[self.program.buffers[s.buffer].slot] == Some(s.buffer);
                if !self.descs[desc].is_some_and(|(dst, src)| alive(dst) && alive(src)) {
                    let set = self.description(thread, desc, (dst, src), len)?;
                    self.place(thread, set, wish.repair).then_some(())?;
                }
                let ((dst, src), stream) = (self.descs[desc]?, stream_on(DESCS[desc], stream));
                if !copied {
                    return Some(Act::RunDesc { desc, dst, src, stream });
                }
                let copy = Act::CopyDesc { dst: desc ^ 1, src: desc, stream };
                self.place(thread, copy, wish.repair).then_some(())?;
                Act::RunDesc { desc: desc ^ 1, dst, src, stream }
            }
            Want::Free { slot } => Act::Free { buffer: self.slots[slot]? },
            Want::Hold => Act::Hold { gate: self.program.gates, stream },
            Want::Record { event } => Act::Record { event, stream: stream_on(EVENTS[event], stream) },
            Want::Wait { event } => Act::Wait { event, stream: stream_on(EVENTS[event], stream) },
            Want::SyncEvent { event } => Act::SyncEvent { event },
            Want::SyncStream => Act::SyncStream { stream },
            Want::SyncDevice => Act::SyncDevice { device: STREAMS[stream] },
            Want::Barrier => {
                self.barrier();
                return None;
            }
            Want::Release => {
                self.release(thread);
                return None;
            }
        })
    }

    fn spot(&mut self, thread: usize, pick: Pick, group: Range<usize>) -> Spot {
        (self.buffer(thread, group.start + pick.slot % group.len()), pick.at)
    }

    /// The two ends of a copy and its natural kind.
    fn ends(
        &mut self,
        wish: &Wish,
        towards: Towards,
        (dst, src): (Pick, Pick),
        sync: bool,
    ) -> (Spot, Spot, Kind) {
        let t = wish.thread;
        match towards {
            Towards::Device => (self.spot(t, dst, DEVICE), self.spot(t, src, HOST), Kind::HOST_TO_DEVICE),
            Towards::Host => (self.spot(t, dst, HOST), self.spot(t, src, DEVICE), Kind::DEVICE_TO_HOST),
            Towards::InDevice => {
                let near = if sync { DEVICE } else { ON[STREAMS[wish.stream]].clone() };
                let dst = self.spot(t, dst, near.clone());
                // From the same buffer, from one of a peer, or from any of the device that does the work.
                let src = match src.slot {
                    0..15 => (dst.0, src.at),
                    15..30 => self.spot(t, src, DEVICE),
                    _ => self.spot(t, src, near),
                };
                (dst, src, Kind::DEVICE_TO_DEVICE)
            }
        }
    }

    /// A kind that fits besides the natural one and DEFAULT.
    fn other_kind(&self, towards: Towards, dst: usize, src: usize) -> Kind {
        match towards {
            Towards::Device => Kind::HOST_TO_BUF_TO_DEVICE,
            Towards::Host => Kind::DEVICE_TO_HOST,
            Towards::InDevice if self.program.home(dst) == self.program.home(src) => {
                Kind::INNER_DEVICE_TO_DEVICE
            }
            Towards::InDevice => Kind::INTER_DEVICE_TO_DEVICE,
        }
    }

    /// Two spans of one length: `len` is its share of what is left behind both starts.
    fn pair(&self, dst: Spot, src: Spot, len: u16) -> (Span, Span) {
        let start = |(buffer, at): Spot| {
            let usable = self.program.buffers[buffer].len - 2 * GUARD;
            let at = share(at, usable);
            Span { buffer, at: GUARD + at, len: usable - at }
        };
        let (dst, src) = (start(dst), start(src));
        let len = share(len, dst.len.min(src.len));
        (Span { len, ..dst }, Span { len, ..src })
    }

    /// A 2-D copy, cut to what fits. `None` if it would overlap itself.
    fn rectangle(
        &self,
        (dst, src): (Spot, Spot),
        (width, height): (u16, usize),
        gaps: (usize, usize),
        kind: Kind,
        way: Way,
    ) -> Option<Act> {
        let (dst, src) = self.pair(dst, src, u16::MAX);
        let (room, width) = (dst.len, share(width, dst.len / 2));
        let rows = |span: Span, gap: usize| Rows {
            buffer: span.buffer,
            at: span.at,
            pitch: width + gap * (1 + width / 4),
        };
        let (dst, src) = (rows(dst, gaps.0), rows(src, gaps.1));
        let fit = |r: &Rows| (room - width).checked_div(r.pitch).map_or(height, |more| more + 1);
        let height = height.min(fit(&dst)).min(fit(&src));
        let end = |r: &Rows| r.at + (height - 1) * r.pitch + width;
        let overlap = dst.buffer == src.buffer && dst.at < end(&src) && src.at < end(&dst);
        (!overlap).then_some(Act::Copy2d { dst, src, width, height, kind, way })
    }

    /// A copy for a descriptor to describe, between two buffers of its device.
    fn description(&mut self, thread: usize, desc: usize, (dst, src): (Pick, Pick), len: u16) -> Option<Act> {
        let group = || ON[DESCS[desc]].clone();
        let (dst, src) = (self.spot(thread, dst, group()), self.spot(thread, src, group()));
        let (dst, src) = self.pair(dst, src, len);
        (dst.buffer != src.buffer).then_some(Act::SetDesc { desc, dst, src })
    }

    /// The items of a batch, less those whose destination another one has.
    fn items(
        &mut self,
        wish: &Wish,
        towards: Towards,
        picks: Vec<(Pick, Pick, u16)>,
        sync: bool,
    ) -> Vec<(Span, Span)> {
        let mut items: Vec<(Span, Span)> = vec![];
        for (dst, src, len) in picks {
            let (dst, src, _) = self.ends(wish, towards, (dst, src), sync);
            let (dst, src) = self.pair(dst, src, len);
            let taken = |(other, _): &(Span, Span)| {
                other.buffer == dst.buffer && other.at < dst.at + dst.len && dst.at < other.at + other.len
            };
            if !items.iter().any(taken) {
                items.push((dst, src));
            }
        }
        items
    }

    /// What a fill fills: on a stream page-locked or the device's own memory, else also malloc memory, but by bytes.
    fn filled(&mut self, wish: &Wish, dst: Pick, len: u16, with: Pattern, sync: bool) -> Span {
        let words = matches!(with, Pattern::Word(_));
        let group = match (sync, words) {
            (true, false) => 0..SLOTS.len(),
            (true, true) => DEVICE.start..PINNED.end,
            _ => [&ON[STREAMS[wish.stream]], &PINNED][dst.slot % 3 / 2].clone(),
        };
        let spot = self.spot(wish.thread, Pick { slot: dst.slot / 3, ..dst }, group);
        let (span, _) = self.pair(spot, spot, len);
        let grain = if words { 4 } else { 1 };
        Span { at: span.at / grain * grain, len: span.len / grain * grain, ..span }
    }
}

fn way(wish: &Wish, sync: bool) -> Way {
    if sync { Way::Now } else { Way::On(wish.stream) }
}

/// A stream of the device, chosen by any number.
fn stream_on(device: usize, any: usize) -> usize {
    let streams: Vec<_> = (0..STREAMS.len()).filter(|s| STREAMS[*s] == device).collect();
    streams[any % streams.len()]
}

/// `part` of `whole`, rounded down; the largest part is all of it.
fn share(part: u16, whole: usize) -> usize {
    (part as usize * (whole + 1) / usize::from(u16::MAX)).min(whole)
}
