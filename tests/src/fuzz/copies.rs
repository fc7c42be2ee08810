//! Copies of one piece: synchronous, asynchronous, and by way of a buffer.

use super::Slip;
use super::mirror::{Origin, Spot};
use super::places::Wanted;
use super::world::{Outcome, World, call};
use crate::code::*;
use crate::kind::*;
use crate::{aclrtMemcpy, aclrtMemcpyAsync, aclrtMemcpyAsyncWithCondition};

/// Most bytes of one copy.
pub(super) const MOST: usize = 1 << 21;

/// The arguments of a copy.
#[derive(Clone, Copy, Debug)]
struct Linear {
    dst: usize,
    max: usize,
    src: usize,
    count: usize,
    kind: i32,
}

/// What an accepted copy does, or the codes of a refusal.
pub(super) type Ends = Result<Option<(Spot, Spot)>, Vec<i32>>;

impl World {
    /// Arguments that mostly fit together; sometimes one is wrong.
    fn some_linear(&mut self) -> Linear {
        let kind = self.choose.pick(&[H2D, H2D, D2H, D2H, D2D, D2D, DEFAULT, BUFFERED, INNER, INTER]);
        let device = self.current_device().unwrap_or(0);
        let (to, from) = match kind {
            H2D | BUFFERED => (Wanted::Device, Wanted::Host),
            D2H => (Wanted::Host, Wanted::Device),
            D2D => (Wanted::Device, Wanted::Device),
            INNER => (Wanted::On(device), Wanted::On(device)),
            INTER => (Wanted::On(device), Wanted::On(1 - device)),
            _ => (Wanted::Any, Wanted::Any),
        };
        let (Some(to), Some(from)) = (self.some_area(to), self.some_area(from)) else {
            return Linear { dst: 1, max: 64, src: 1, count: 64, kind };
        };
        let count = self.choose.len(to.len.min(from.len).min(MOST));
        let (dst, src) = (to.base + self.offset(to.len - count), from.base + self.offset(from.len - count));
        let max = self.choose.pick(&[count, to.base + to.len - dst, usize::MAX]);
        let mut all = Linear { dst, max, src, count, kind };
        if self.choose.one_in(8) {
            self.bend(&mut all);
        }
        all
    }

    fn bend(&mut self, all: &mut Linear) {
        match self.choose.below(8) {
            0 | 1 => all.dst = self.bad_address(all.count),
            2 | 3 => all.src = self.bad_address(all.count),
            4 => all.count = self.choose.pick(&[usize::MAX, usize::MAX / 2, 1 << 40, 0]),
            5 => all.max = all.count.wrapping_sub(1),
            6 => all.kind = self.choose.pick(&[-1, 8, i32::MAX, i32::MIN, H2H, INTER, D2H]),
            _ => all.count = 0,
        }
        if self.choose.one_in(2) {
            all.max = all.max.max(all.count);
        }
    }

    /// Whether a copy by `device` may go between these, by the rules for kinds; `None` is a synchronous one.
    fn agrees(&self, to: &Spot, from: &Spot, kind: Option<i32>, device: u32) -> Vec<i32> {
        let is_far = to.origin == Origin::Far || from.origin == Origin::Far;
        let apart = matches!((to.device, from.device), (Some(a), Some(b)) if a != b);
        let inside = to.device.is_some() && from.device.is_some();
        let reaches_far = match kind {
            Some(DEFAULT) => inside && !self.is_strict,
            kind => matches!(kind, Some(D2D | INNER)),
        };
        let fits = match (kind, to.device, from.device) {
            (None, ..) => !is_far,
            (Some(DEFAULT), None, None) if !self.row.is_unified() => return vec![FEATURE_NOT_SUPPORT],
            (Some(kind), to, from) => self.fits(kind, to, from) && (!is_far || reaches_far),
        };
        let is_mapped = to.origin == Origin::Mapped || from.origin == Origin::Mapped;
        let is_open =
            |end: Option<u32>| end.is_none_or(|it| it == device || self.peers.contains(&(device, it)));
        if !fits
            || apart && !(is_open(to.device) && is_open(from.device))
            || apart && is_mapped && kind.is_none()
        {
            return vec![RT_PARAM_INVALID];
        }
        vec![SUCCESS]
    }

    fn fits(&self, kind: i32, to: Option<u32>, from: Option<u32>) -> bool {
        let apart = matches!((to, from), (Some(a), Some(b)) if a != b);
        match (kind, to, from) {
            // Where host and device memory are one, every copy is one inside the device.
            (INTER, ..) if self.row.is_unified() => apart,
            (INNER, ..) if self.row.is_unified() => !apart,
            _ if self.row.is_unified() => true,
            (H2D | BUFFERED, Some(_), None) | (D2H, None, Some(_)) | (D2D, Some(_), Some(_)) => true,
            (INNER, Some(a), Some(b)) => a == b,
            (INTER, Some(a), Some(b)) => a != b,
            (DEFAULT, to, from) => to.is_some() || from.is_some(),
            _ => false,
        }
    }

    /// What the rules say of a copy on `stream`, or of a synchronous one.
    fn linear_rules(&self, all: &Linear, stream: Option<usize>) -> Ends {
        if all.dst == 0 || all.src == 0 {
            return Err(vec![INVALID_PARAM]);
        }
        let context = self.context().map_err(|code| vec![code])?;
        let slot = stream.map(|handle| self.stream_of(handle)).transpose().map_err(|code| vec![code])?;
        let mut values = vec![];
        if stream.is_some() && !(0..8).contains(&all.kind) {
            values.push(INVALID_PARAM);
        }
        if stream.is_some() && all.kind == H2H && !self.row.is_unified() {
            values.push(FEATURE_NOT_SUPPORT);
        }
        if all.count > all.max {
            values.push(RT_PARAM_INVALID);
        }
        if !values.is_empty() {
            return Err(values);
        }
        if all.count == 0 {
            return Ok(None);
        }
        // Of memory that is not there and a direction that is not there either may be told.
        let inside_host = stream.is_some() && all.kind == DEFAULT && !self.row.is_unified();
        let bad = |code| if inside_host { vec![code, FEATURE_NOT_SUPPORT] } else { vec![code] };
        let to = self.spot(all.dst, all.count, true).map_err(bad)?;
        let from = self.spot(all.src, all.count, false).map_err(bad)?;
        let device = slot.map_or(self.contexts[context].device, |slot| self.streams[slot].device);
        match self.agrees(&to, &from, stream.map(|_| all.kind), device) {
            codes if codes == [SUCCESS] => Ok(Some((to, from))),
            codes => Err(codes),
        }
    }

    pub(super) fn copy(&mut self) -> Outcome {
        let mut all = self.some_linear();
        if self.choose.one_in(4) {
            all.kind = self.choose.pick(&[0, 1, 2, 3, 4, 5, 6, 7, 8, -1]); // documented: has no effect
        }
        let rules = self.linear_rules(&all, None);
        let want = codes(&rules);
        let raced = self.prepare(&rules, None, self.row.has("aclrtMemcpy"))?;
        let Linear { dst, max, src, count, kind } = all;
        let code = call!(self, want, aclrtMemcpy(dst, max, src, count, kind))?;
        self.moved(code, rules, raced, None);
        Ok(())
    }

    pub(super) fn copy_async(&mut self) -> Outcome {
        let (all, stream) = (self.some_linear(), self.some_stream());
        let rules = self.linear_rules(&all, Some(stream));
        let want = codes(&rules);
        if all.kind == BUFFERED && matches!(rules, Ok(Some(_))) {
            return self.copy_buffered(all, stream, rules);
        }
        let slot = self.stream_of(stream).ok();
        let waits = self.waits(&rules, slot)?;
        let raced = self.prepare(&rules, slot, true)?;
        let Linear { dst, max, src, count, kind } = all;
        let count = if self.slip == Some(Slip::LastByte) && count > 1 { count - 1 } else { count };
        let code = if self.slip == Some(Slip::Swaps) && rules.is_ok() {
            self.swapped([dst, max, src, count, kind as usize, stream])?
        } else if self.choose.one_in(4) {
            call!(self, want, aclrtMemcpyAsyncWithCondition(dst, max, src, count, kind, stream))?
        } else {
            call!(self, want, aclrtMemcpyAsync(dst, max, src, count, kind, stream))?
        };
        self.moved(code, rules, raced, slot);
        self.after_waiting(waits && code == SUCCESS, slot);
        Ok(())
    }

    /// Holds every second copy back until after the next: what an engine does that swaps two ops.
    fn swapped(&mut self, args: [usize; 6]) -> Outcome<i32> {
        let make = |[dst, max, src, count, kind, stream]: [usize; 6]| {
            aclrtMemcpyAsync(dst, max, src, count, kind as i32, stream)
        };
        let Some(held) = self.held_back.take() else {
            self.held_back = Some(args);
            return Ok(SUCCESS);
        };
        make(args);
        make(held);
        Ok(SUCCESS)
    }

    /// The bytes are taken at once, and go to the device in stream order.
    fn copy_buffered(&mut self, all: Linear, stream: usize, rules: Ends) -> Outcome {
        let (Ok(Some((to, from))), Ok(slot)) = (rules, self.stream_of(stream)) else { return Ok(()) };
        self.before_memory_comes()?; // the library's buffer
        let raced_from = self.arrange(&[(&from, false)], None, true)?;
        let raced_to = self.arrange(&[(&to, true)], Some(slot), true)?;
        let Linear { dst, max, src, count, kind } = all;
        let code = call!(self, [SUCCESS], aclrtMemcpyAsync(dst, max, src, count, kind, stream))?;
        if code == SUCCESS {
            let bytes = (!raced_from && !raced_to).then(|| self.mirror.read(&from));
            let op = self.tick(slot);
            self.wrote(&to, bytes.as_ref(), Some(op));
        }
        Ok(())
    }

    /// Whether the call returns only when its copy is done, since pageable memory takes part; then everything
    /// that could hold it up is let go, and what failed in the stream before is told before.
    pub(super) fn waits(&mut self, rules: &Ends, slot: Option<usize>) -> Outcome<bool> {
        let waits = matches!(rules, Ok(Some((to, from))) if to.is_plain() || from.is_plain());
        if let (true, Some(slot)) = (waits, slot) {
            self.before_waiting(slot)?;
        }
        Ok(waits)
    }

    pub(super) fn before_waiting(&mut self, slot: usize) -> Outcome {
        self.open_gates();
        let stream = &self.streams[slot];
        if stream.trouble != super::world::Trouble::None || stream.was_aborted {
            self.synchronize(stream.handle)?;
        }
        Ok(())
    }

    pub(super) fn after_waiting(&mut self, waited: bool, slot: Option<usize>) {
        if let (true, Some(slot)) = (waited, slot) {
            let clock = self.streams[slot].clock.clone();
            self.host.join(&clock);
        }
    }

    /// Orders a copy that will be accepted. True if it races.
    pub(super) fn prepare(&mut self, rules: &Ends, slot: Option<usize>, exists: bool) -> Outcome<bool> {
        match rules {
            Ok(Some((to, from))) if exists => self.arrange(&[(to, true), (from, false)], slot, true),
            _ => Ok(false),
        }
    }

    /// The mirror follows a copy that was accepted.
    pub(super) fn moved(&mut self, code: i32, rules: Ends, raced: bool, slot: Option<usize>) {
        let (SUCCESS, Ok(Some((to, from)))) = (code, rules) else {
            return self.moved_nothing(code, slot);
        };
        let bytes = (!raced).then(|| self.mirror.read(&from));
        let op = slot.map(|slot| self.tick(slot));
        self.reads(&from, op);
        self.wrote(&to, bytes.as_ref(), op);
    }

    /// What moves no byte may still be an op of its stream.
    pub(super) fn moved_nothing(&mut self, code: i32, slot: Option<usize>) {
        if let (SUCCESS, Some(slot)) = (code, slot) {
            self.tick(slot);
        }
    }
}

pub(super) fn codes(rules: &Ends) -> Vec<i32> {
    rules.as_ref().err().cloned().unwrap_or_else(|| vec![SUCCESS])
}
