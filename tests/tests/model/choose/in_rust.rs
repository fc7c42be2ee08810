//! What programs in Rust do with page-locked memory that others do not.

use super::{DEVICE, PINNED, stream_on};
use crate::api::Api;
use crate::build::Builder;
use crate::program::*;
use crate::wish::{Pick, Towards, Wish};

impl Builder {
    /// Takes back what is in a slot, if a copy has it.
    pub(super) fn landing(&self, slot: usize) -> Option<Act> {
        let buffer = self.slots[PINNED.start + slot % PINNED.len()]?;
        Some(Act::Land { buffers: self.oracle.order.lent.together(buffer)? })
    }

    pub(super) fn sharing(&mut self, thread: usize, slot: usize) -> Option<Act> {
        let (buffer, _) = self.spot(thread, Pick { slot, at: 0 }, PINNED);
        (!self.oracle.order.lent.is_shared(buffer)).then_some(Act::Share { buffer })
    }

    /// A buffer goes from one stream to another, which drops its copy: who takes it back, or takes it on,
    /// waits for the first one too.
    pub(super) fn astray(
        &mut self,
        wish: &Wish,
        (host, device): (Pick, Pick),
        len: u16,
        up: &[bool],
    ) -> Option<Act> {
        let (thread, stream) = (wish.thread, wish.stream);
        let any = |n: usize| (stream + n) % USER_STREAMS;
        let others = [any(1 + host.slot % (USER_STREAMS - 1)), any(device.slot)];
        // So that the first copy is still to come when the buffer is asked for.
        let hold = Act::Hold { gate: self.program.gates, stream: others[0] };
        self.place(thread, hold, wish.repair).then_some(())?;
        self.hand_on(wish, (host, device), len, up[0], others[0])?;
        self.hand_on(wish, (host, device), len, up[1], stream)?;
        self.place(thread, Act::Abort { stream }, wish.repair).then_some(())?;
        if let Some(up) = up.get(2) {
            self.hand_on(wish, (host, device), len, *up, others[1])?;
        }
        self.landing(host.slot)
    }

    /// A copy of page-locked memory, up to the device or down from it, that is not waited for.
    fn hand_on(
        &mut self,
        wish: &Wish,
        (host, device): (Pick, Pick),
        len: u16,
        up: bool,
        stream: usize,
    ) -> Option<()> {
        let (near, far) = (self.spot(wish.thread, host, PINNED), self.spot(wish.thread, device, DEVICE));
        let ((dst, src), kind) = match up {
            true => (self.pair(far, near, len), Kind::HOST_TO_DEVICE),
            false => (self.pair(near, far, len), Kind::DEVICE_TO_HOST),
        };
        let copy = Act::Copy { dst, src, kind, way: Way::On(stream), with_condition: false };
        let copy = self.legal(copy)?;
        self.place(wish.thread, copy, wish.repair).then_some(())
    }

    /// A descriptor that a stream sets, and runs then if that is asked for.
    pub(super) fn put_desc(
        &mut self,
        wish: &Wish,
        desc: usize,
        ends: (Pick, Pick),
        len: u16,
        run: bool,
    ) -> Option<Act> {
        let stream = stream_on(DESCS[desc], wish.stream);
        let Act::SetDesc { dst, src, .. } = self.description(wish.thread, desc, ends, len)? else {
            return None;
        };
        let put = Act::PutDesc { desc, dst, src, stream };
        if !run {
            return Some(put);
        }
        self.place(wish.thread, put, wish.repair).then_some(())?;
        Some(Act::RunDesc { desc, dst, src, stream })
    }

    /// The host's slots of a batch: one buffer, those that are in flight together, or any.
    pub(super) fn gather(&self, towards: Towards, picks: &mut [(Pick, Pick, u16)]) {
        if self.program.api == Api::C {
            return;
        }
        let away = self.oracle.order.lent.some_together();
        let slot = |b: &usize| self.program.buffers[*b].slot - PINNED.start;
        let group = away.as_ref().map_or(vec![0, 1], |buffers| buffers.iter().map(slot).collect());
        let (first, how) = (picks[0], picks[0].2 % 3);
        for (i, (dst, src, _)) in picks.iter_mut().enumerate() {
            let (host, first) = match towards {
                Towards::Device => (src, first.1),
                _ => (dst, first.0),
            };
            match how {
                0 => host.slot = first.slot,
                2 if away.is_none() => {}
                _ => host.slot = group[i % group.len()],
            }
        }
    }

    /// What is shared is only read, and a batch takes it with nothing else.
    pub(super) fn may_share(&self, act: &Act) -> bool {
        let shared = |span: &Span| self.oracle.order.lent.is_shared(span.buffer);
        let moves = act.moves();
        let reads = moves.iter().filter(|(_, src)| shared(src)).count();
        !matches!(act, Act::Poke { dst, .. } if shared(dst))
            && !moves.iter().any(|(dst, _)| shared(dst))
            && (reads == 0 || reads == moves.len())
    }

    /// A stream that may record or wait for an event: in Rust events belong to no device.
    pub(super) fn stream_for(&self, event: usize, any: usize) -> usize {
        if self.program.api == Api::Rust { any } else { stream_on(EVENTS[event], any) }
    }

    /// Whether there is such an event: in Rust it is there once it is recorded.
    pub(super) fn is_event(&self, event: usize) -> bool {
        self.program.api == Api::C || self.oracle.order.is_recorded(event)
    }
}
