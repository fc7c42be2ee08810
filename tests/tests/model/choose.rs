//! From a wish to the step it asks for: which buffers, how many bytes, which kind.

mod in_rust;
mod models;

use std::ops::Range;

use crate::api::Api;
use crate::build::Builder;
use crate::layout::Layout;
use crate::program::*;
use crate::wish::{Pick, Repair, Towards, Want, Wish};

/// Groups of slots.
const DEVICE: Range<usize> = 0..7;
const PINNED: Range<usize> = 7..10;
const HOST: Range<usize> = 7..14;
const ON: [Range<usize>; 2] = [0..4, 4..7];
const ALLOCATED: [Range<usize>; 2] = [0..3, 4..6];
const PAGES: Range<usize> = 12..14;
const WINDOWS: [usize; 2] = [3, 6];
const PHYSICAL: [Range<usize>; 2] = [14..18, 18..21];

/// A buffer, and a share of it to start at.
type Spot = (usize, u16);

impl Builder {
    /// The step a wish asks for, if there can be one. Allocates what it names.
    pub fn choose(&mut self, wish: &Wish) -> Option<Act> {
        let (thread, stream) = (wish.thread, wish.stream);
        Some(match wish.want.clone() {
            Want::Careless(want) => {
                self.careless = true;
                let act = self.choose(&Wish { want: *want, ..wish.clone() });
                self.careless = false;
                act?
            }
            Want::Copy { towards, dst, src, len, kind, sync, with_condition } => {
                let (dst, src, natural) = self.ends(wish, towards, (dst, src), sync, HOST);
                let kind = self.kind(kind, natural, towards, dst.0, src.0);
                let (dst, src) = self.pair(dst, src, len);
                let way = self.way(wish, sync, [dst, src]);
                let with_condition = with_condition && !sync && self.program.api == Api::C;
                let act = Act::Copy { dst, src, kind, way, with_condition };
                self.legal(act)?
            }
            Want::HostToHost { dst, src, len, kind } => {
                let (dst, src) = (self.spot(thread, dst, HOST), self.spot(thread, src, HOST));
                let (dst, src) = self.pair(dst, src, len);
                // documented: the synchronous copy ignores its kind
                Act::Copy { dst, src, kind: Kind(kind as i32), way: Way::Now, with_condition: false }
            }
            Want::Copy2d { towards, dst, src, width, height, gaps, sync } => {
                let sync = sync && !matches!(towards, Towards::InDevice);
                let (dst, src, kind) = self.ends(wish, towards, (dst, src), sync, HOST);
                let act = self.rectangle((dst, src), (width, height), gaps, kind, wish, sync)?;
                self.legal(act)?
            }
            Want::Batch { towards, items, how, sync } => {
                let items = self.items(wish, towards, items, sync);
                let way = self.way(wish, sync, items.iter().flat_map(|(d, s)| [*d, *s]));
                self.legal(Act::Batch { items, how, way })?
            }
            Want::Fill { dst, len, with, sync } => {
                let dst = self.filled(wish, dst, len, with, sync);
                self.legal(Act::Fill { dst, with, way: self.way(wish, sync, [dst]) })?
            }
            Want::Poke { dst, len, seed } => {
                let dst = self.spot(thread, dst, HOST);
                self.legal(Act::Poke { dst: self.pair(dst, dst, len).0, seed })?
            }
            Want::SetDesc { desc, dst, src, len } => self.description(thread, desc, (dst, src), len)?,
            Want::CopyDesc { dst } => {
                let src = dst ^ 1;
                self.descs[src]?;
                Act::CopyDesc { dst, src, stream: stream_on(DESCS[dst], stream) }
            }
            Want::PutDesc { desc, dst, src, len, run } => self.put_desc(wish, desc, (dst, src), len, run)?,
            Want::RunDesc { desc, dst, src, len, copied } => {
                let there = |s: Span| self.slots[self.program.buffers[s.buffer].slot] == Some(s.buffer);
                let alive = |s: Span| there(s) && self.oracle.layout.parts(&self.program, s).is_some();
                if !self.descs[desc].is_some_and(|(dst, src)| alive(dst) && alive(src)) {
                    let set = self.description(thread, desc, (dst, src), len)?;
                    self.place(thread, set, wish.repair).then_some(())?;
                }
                let ((dst, src), stream) = (self.descs[desc]?, stream_on(DESCS[desc], stream));
                let run = Act::RunDesc { desc, dst, src, stream };
                let run = self.legal(run).filter(|act| matches!(act, Act::RunDesc { .. }))?;
                if !copied {
                    return Some(run);
                }
                let copy = Act::CopyDesc { dst: desc ^ 1, src: desc, stream };
                self.place(thread, copy, wish.repair).then_some(())?;
                Act::RunDesc { desc: desc ^ 1, dst, src, stream }
            }
            Want::Free { slot } => self.end_of(thread, slot)?,
            Want::Map { slot, cell, fresh } => {
                let window = self.slots[WINDOWS[STREAMS[stream]]];
                let old = window.and_then(|window| self.oracle.layout.cells(window)[cell]);
                match old.map(|old| self.program.buffers[old].slot) {
                    Some(there) if fresh && self.slots[there] == old => {
                        let free = Act::Free { buffer: old? };
                        self.place(thread, free, wish.repair).then_some(())?;
                        self.mapping(thread, STREAMS[stream], there, cell)?
                    }
                    _ => self.mapping(thread, STREAMS[stream], slot, cell)?,
                }
            }
            Want::Unmap { cell } => {
                let window = self.slots[WINDOWS[STREAMS[stream]]]?;
                Act::Unmap { window, cell, physical: self.oracle.layout.cells(window)[cell]? }
            }
            Want::Register { slot, at, len } => {
                let (buffer, _) = self.spot(thread, Pick { slot, at }, PAGES);
                if self.oracle.layout.registered(buffer).is_some() {
                    self.place(thread, Act::Unregister { buffer }, wish.repair).then_some(())?;
                }
                self.registration(buffer, at, len)
            }
            Want::Unregister { slot } => {
                let buffer = self.slots[PAGES.start + slot % PAGES.len()]?;
                self.oracle.layout.registered(buffer)?;
                Act::Unregister { buffer }
            }
            Want::Land { slot } => self.landing(slot)?,
            Want::Share { slot } => self.sharing(thread, slot)?,
            Want::Astray { host, device, len, up } => self.astray(wish, (host, device), len, &up)?,
            Want::Hold => Act::Hold { gate: self.program.gates, stream },
            Want::Record { event } => Act::Record { event, stream: self.stream_for(event, stream) },
            Want::Wait { event } if !self.is_event(event) => return None,
            Want::SyncEvent { event } if !self.is_event(event) => return None,
            Want::Wait { event } => Act::Wait { event, stream: self.stream_for(event, stream) },
            Want::Reset { event } => {
                self.reset(thread, event, stream_on(EVENTS[event], stream));
                return None;
            }
            Want::SyncEvent { event } => Act::SyncEvent { event },
            Want::SyncStream => Act::SyncStream { stream },
            Want::SyncDevice => Act::SyncDevice { device: STREAMS[stream] },
            Want::Abroad { dst, src, len, byte, manner } => {
                let group = ALLOCATED[STREAMS[stream]].clone();
                let (dst, src) = (self.spot(thread, dst, group.clone()), self.spot(thread, src, group));
                let (dst, src) = self.pair(dst, src, len);
                let (kind, way) = (Kind::DEVICE_TO_DEVICE, Way::Now);
                let act = match byte {
                    Some(byte) => Act::Fill { dst, with: Pattern::Byte(byte), way },
                    None => Act::Copy { dst, src, kind, way, with_condition: false },
                };
                Act::Abroad { act: Box::new(act), manner }
            }
            Want::Halt => {
                self.barrier();
                Act::Halt { stream }
            }
            Want::Dropped(wants) => {
                self.behind(wish, wants)?;
                Act::Abort { stream }
            }
            Want::Behind(wants) => {
                self.behind(wish, wants);
                return None;
            }
            Want::Model { tasks, launches, first } => {
                self.model(wish, tasks, launches, *first);
                return None;
            }
            Want::Again { any, frees } => {
                self.again(wish, any, frees);
                return None;
            }
            Want::Renew if stream != NULL_STREAM => Act::Renew { stream },
            Want::Abort | Want::Renew => Act::Abort { stream },
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
        let slots: Vec<_> = group.filter(|slot| self.program.api.has(SLOTS[*slot].2)).collect();
        let slot = slots[pick.slot % slots.len()];
        let buffer = self.buffer(thread, slot);
        if SLOTS[slot].2 == Form::Window && self.oracle.layout.cells(buffer) == [None; CELLS] {
            self.furnish_window(thread, slot, pick);
        }
        if SLOTS[slot].2 == Form::Pages && !self.known_pages.contains(&buffer) {
            self.known_pages.insert(buffer);
            let register = self.registration(buffer, pick.at, pick.at.rotate_left(7));
            self.place(thread, register, Repair::SyncStream);
        }
        (buffer, pick.at)
    }

    /// Puts things behind a closed gate.
    fn behind(&mut self, wish: &Wish, wants: Vec<Want>) -> Option<()> {
        let hold = Act::Hold { gate: self.program.gates, stream: wish.stream };
        self.place(wish.thread, hold, wish.repair).then_some(())?;
        wants.into_iter().for_each(|want| self.grant(&Wish { want, ..wish.clone() }));
        Some(())
    }

    /// Maps some physical memories in a window, mostly next to each other and in an order of their own.
    fn furnish_window(&mut self, thread: usize, slot: usize, pick: Pick) {
        let device = usize::from(slot != WINDOWS[0]);
        for cell in 0..=1 + pick.slot / 8 % 3 {
            let physical = (pick.slot + 2 * cell) % PHYSICAL[device].len();
            if let Some(map) = self.mapping(thread, device, physical, cell) {
                self.place(thread, map, Repair::SyncStream);
            }
        }
    }

    fn registration(&self, buffer: usize, at: u16, len: u16) -> Act {
        let pages = self.program.buffers[buffer].len / PAGE;
        let from = share(at, pages - 1);
        Act::Register { buffer, bytes: from * PAGE..(from + 1 + share(len, pages - from - 1)) * PAGE }
    }

    /// Maps a physical memory of the device, in place of what is in the cell.
    fn mapping(&mut self, thread: usize, device: usize, slot: usize, cell: usize) -> Option<Act> {
        let group = &PHYSICAL[device];
        let window = self.buffer(thread, WINDOWS[device]);
        let slot = if group.contains(&slot) { slot } else { group.start + slot % group.len() };
        if let Some(old) = self.oracle.layout.cells(window)[cell] {
            let unmap = Act::Unmap { window, cell, physical: old };
            self.place(thread, unmap, Repair::SyncStream).then_some(())?;
        }
        let physical = self.buffer(thread, slot);
        Some(Act::Map { window, cell, physical })
    }

    /// Frees what is in a slot, unless it is a window where something is mapped.
    fn end_of(&mut self, thread: usize, slot: usize) -> Option<Act> {
        let buffer = self.slots[slot]?;
        let free = Act::Free { buffer };
        if self.oracle.layout.registered(buffer).is_some() {
            self.place(thread, Act::Unregister { buffer }, Repair::SyncStream).then_some(())?;
        }
        let in_use = self.oracle.layout.cells(buffer) != [None; CELLS];
        Some(if in_use { Act::Refused(Box::new(free)) } else { free })
    }

    /// A copy or fill as it is, or as one that must be refused. `None` where neither is certain.
    fn legal(&self, act: Act) -> Option<Act> {
        let (program, layout) = (&self.program, &self.oracle.layout);
        if !self.may_share(&act) {
            return None;
        }
        let whole = |rows: &Rows, (w, h): (usize, usize)| {
            let len = if h * w == 0 { 0 } else { (h - 1) * rows.pitch + w };
            Span { buffer: rows.buffer, at: rows.at, len }
        };
        let reach = match &act {
            Act::Copy2d { dst, src, width, height, .. } => {
                [dst, src].map(|rows| whole(rows, (*width, *height))).to_vec()
            }
            Act::Fill { dst, .. } | Act::Poke { dst, .. } => vec![*dst],
            _ => act.moves().iter().flat_map(|(d, s)| [*d, *s]).collect(),
        };
        if Layout::is_mapped_across(program, &act) {
            let bytes: usize = act.moves().iter().map(|(d, _)| d.len).sum();
            return (bytes > 0).then(|| Act::Refused(Box::new(act)));
        }
        let holes: Vec<_> = reach.iter().filter(|span| layout.parts(program, **span).is_none()).collect();
        if let Some(real) = layout.real(program, &act)
            && holes.is_empty()
        {
            let memmove = match &act {
                Act::Copy { dst, src, .. } => dst.buffer == src.buffer && !self.has_twins(dst.buffer),
                _ => false,
            };
            return (!real.is_tangled(memmove)).then_some(act);
        }
        // Addresses that nothing is copied from may be good or not, and so may those between rows.
        let sure = !holes.is_empty() && layout.real(program, &act).is_none();
        (sure && holes.iter().all(|span| span.len > 0)).then(|| Act::Refused(Box::new(act)))
    }

    /// Whether some physical memory is mapped in the window twice.
    fn has_twins(&self, window: usize) -> bool {
        let cells = self.oracle.layout.cells(window);
        (1..CELLS).any(|i| cells[i].is_some() && cells[..i].contains(&cells[i]))
    }

    /// The two ends of a copy and its natural kind.
    fn ends(
        &mut self,
        wish: &Wish,
        towards: Towards,
        (dst, src): (Pick, Pick),
        sync: bool,
        host: Range<usize>,
    ) -> (Spot, Spot, Kind) {
        let t = wish.thread;
        match towards {
            Towards::Device => (self.spot(t, dst, DEVICE), self.spot(t, src, host), Kind::HOST_TO_DEVICE),
            Towards::Host => (self.spot(t, dst, host), self.spot(t, src, DEVICE), Kind::DEVICE_TO_HOST),
            Towards::InDevice => {
                let near = if sync && self.program.api == Api::C {
                    DEVICE
                } else {
                    ON[STREAMS[wish.stream]].clone()
                };
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

    /// A kind that fits. In Rust it is only said whether plain memory is staged.
    fn kind(&self, any: usize, natural: Kind, towards: Towards, dst: usize, src: usize) -> Kind {
        match (self.program.api, towards) {
            (Api::C, _) => [natural, Kind::DEFAULT, self.other_kind(towards, dst, src)][any],
            (Api::Rust, Towards::Device) if any == 2 => Kind::HOST_TO_BUF_TO_DEVICE,
            (Api::Rust, _) => natural,
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
            if self.program.form(buffer) == Form::Window {
                return self.in_window(buffer, at);
            }
            let usable = self.program.buffers[buffer].usable();
            let at = match self.oracle.layout.registered(buffer) {
                Some(r) if at % 4 == 0 => before(r.start, at).max(usable.start),
                Some(r) if at % 4 == 1 => before(r.end, at).min(usable.end - 1),
                Some(r) if at % 4 == 2 => (r.start + share(at, r.len())).clamp(usable.start, usable.end),
                _ => usable.start + share(at, usable.len()),
            };
            Span { buffer, at, len: usable.end - at }
        };
        let (dst, src) = (start(dst), start(src));
        let len = share(len, dst.len.min(src.len));
        (Span { len, ..dst }, Span { len, ..src })
    }

    /// From a share of what is mapped in a window to where the next hole is; anything at all if careless.
    fn in_window(&self, buffer: usize, at: u16) -> Span {
        let len = self.program.buffers[buffer].len;
        let (cells, unit) = (self.oracle.layout.cells(buffer), len / CELLS);
        let mapped: Vec<_> = (0..CELLS).filter(|i| cells[*i].is_some()).collect();
        if self.careless || mapped.is_empty() {
            let at = share(at, len - 1);
            return Span { buffer, at, len: len - at };
        }
        let spot = share(at, mapped.len() * unit - 1);
        let cell = mapped[spot / unit];
        let end = (cell..CELLS).find(|i| cells[*i].is_none()).unwrap_or(CELLS) * unit;
        let at = if at % 2 == 1 { before((cell + 1) * unit, at) } else { cell * unit + spot % unit };
        Span { buffer, at, len: end - at }
    }

    /// A 2-D copy, cut to what fits. `None` if it would overlap itself.
    fn rectangle(
        &self,
        (dst, src): (Spot, Spot),
        (width, height): (u16, usize),
        gaps: (usize, usize),
        kind: Kind,
        wish: &Wish,
        sync: bool,
    ) -> Option<Act> {
        let (dst, src) = self.pair(dst, src, u16::MAX);
        let (room, width) = (dst.len, share(width, dst.len / 2));
        let rows = |span: Span, gap: usize| {
            // In Rust plain memory has no pitch.
            let dense = self.program.api == Api::Rust && self.program.home(span.buffer) == Home::Heap;
            let pitch = width + if dense { 0 } else { gap * (1 + width / 4) };
            Rows { buffer: span.buffer, at: span.at, pitch }
        };
        let (dst, src) = (rows(dst, gaps.0), rows(src, gaps.1));
        let fit = |r: &Rows| (room - width).checked_div(r.pitch).map_or(height, |more| more + 1);
        let height = height.min(fit(&dst)).min(fit(&src));
        let end = |r: &Rows| r.at + (height - 1) * r.pitch + width;
        let overlap = dst.buffer == src.buffer && dst.at < end(&src) && src.at < end(&dst);
        let way = self.way(wish, sync, (0..height).flat_map(|i| [dst.row(i, width), src.row(i, width)]));
        (!overlap).then_some(Act::Copy2d { dst, src, width, height, kind, way })
    }

    /// A copy for a descriptor to describe, between two buffers of its device.
    fn description(&mut self, thread: usize, desc: usize, (dst, src): (Pick, Pick), len: u16) -> Option<Act> {
        let group = || ON[DESCS[desc]].clone();
        let (dst, src) = (self.spot(thread, dst, group()), self.spot(thread, src, group()));
        let (dst, src) = self.pair(dst, src, len);
        let there = |span| self.oracle.layout.parts(&self.program, span).is_some();
        (dst.buffer != src.buffer && there(dst) && there(src)).then_some(Act::SetDesc { desc, dst, src })
    }

    /// The items of a batch, less those whose destination another one has.
    fn items(
        &mut self,
        wish: &Wish,
        towards: Towards,
        mut picks: Vec<(Pick, Pick, u16)>,
        sync: bool,
    ) -> Vec<(Span, Span)> {
        let mut items: Vec<(Span, Span)> = vec![];
        self.gather(towards, &mut picks);
        for (dst, src, len) in picks {
            let host = if self.program.api == Api::Rust { PINNED } else { HOST };
            let (dst, src, _) = self.ends(wish, towards, (dst, src), sync, host);
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

    /// What a fill fills: on a stream page-locked or the device's own memory, else also malloc memory, but by
    /// bytes.
    fn filled(&mut self, wish: &Wish, dst: Pick, len: u16, with: Pattern, sync: bool) -> Span {
        let words = matches!(with, Pattern::Word(_));
        let group = match (sync, words) {
            _ if self.program.api == Api::Rust => ON[STREAMS[wish.stream]].clone(),
            (true, false) => DEVICE.start..HOST.end,
            (true, true) => DEVICE.start..PINNED.end,
            (false, words) => match dst.slot % 4 {
                2 => PINNED,
                3 if !words => PAGES,
                _ => ON[STREAMS[wish.stream]].clone(),
            },
        };
        let spot = self.spot(wish.thread, Pick { slot: dst.slot / 4, ..dst }, group);
        let (span, _) = self.pair(spot, spot, len);
        let grain = if words { 4 } else { 1 };
        Span { at: span.at / grain * grain, len: span.len / grain * grain, ..span }
    }

    fn way(&self, wish: &Wish, sync: bool, spans: impl IntoIterator<Item = Span>) -> Way {
        let in_rust = self.program.api == Api::Rust;
        let waits = |span: Span| {
            let owned = in_rust && sync && self.program.home(span.buffer) == Home::Pinned;
            // In Rust whoever lends plain memory waits, also for nothing.
            owned || (in_rust || span.len > 0) && self.oracle.layout.is_plain(&self.program, span)
        };
        match sync && !in_rust {
            true => Way::Now,
            false if spans.into_iter().any(waits) => Way::Awaited(wish.stream),
            false => Way::On(wish.stream),
        }
    }
}

/// A little before a border, by any number, so that small copies cross it.
fn before(border: usize, any: u16) -> usize {
    border.saturating_sub(1 + usize::from(any / 4) % 60)
}

/// A stream of the device, chosen by any number.
fn stream_on(device: usize, any: usize) -> usize {
    let streams = streams_of(device);
    streams[any % streams.len()]
}

/// `part` of `whole`, rounded down; the largest part is all of it.
fn share(part: u16, whole: usize) -> usize {
    (part as usize * (whole + 1) / usize::from(u16::MAX)).min(whole)
}
