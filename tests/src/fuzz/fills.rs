//! Fills and reductions.

use super::Slip;
use super::copies::{Ends, MOST, codes};
use super::mirror::{Bytes, Spot};
use super::places::Wanted;
use super::world::{Outcome, World, call};
use crate::code::*;
use crate::{aclrtMemset, aclrtMemsetAsync, aclrtMemsetD32, aclrtMemsetD32Async, aclrtReduceAsync};

impl World {
    pub(super) fn fill(&mut self) -> Outcome {
        let Some(area) = self.some_area(Wanted::Any) else { return Ok(()) };
        let count = self.choose.len(area.len.min(MOST));
        let (mut ptr, mut count) = (area.base + self.offset(area.len - count), count);
        let mut max = self.choose.pick(&[count, usize::MAX]);
        match self.choose.below(24) {
            0 | 1 => ptr = self.bad_address(count),
            2 => max = count - 1,
            3 => count = self.choose.pick(&[0, usize::MAX, 1 << 40]),
            _ => {}
        }
        let stream = self.choose.one_in(2).then(|| self.some_stream());
        let value = self.choose.word();
        match self.choose.one_in(3) {
            true => self.fill_words(ptr, max, value as u32, count, stream),
            false => self.fill_bytes(ptr, max, value as i32, count, stream),
        }
    }

    /// What is filled, if anything, or the codes of a refusal.
    fn fill_rules(
        &self,
        ptr: usize,
        max: usize,
        count: Option<usize>,
        stream: Option<usize>,
    ) -> Result<Option<Spot>, i32> {
        if ptr == 0 {
            return Err(INVALID_PARAM);
        }
        self.context()?;
        stream.map(|handle| self.stream_of(handle)).transpose()?;
        let count = count.filter(|count| *count <= max).ok_or(RT_PARAM_INVALID)?;
        if count == 0 { Ok(None) } else { self.spot(ptr, count, true).map(Some) }
    }

    fn fill_bytes(
        &mut self,
        ptr: usize,
        max: usize,
        value: i32,
        count: usize,
        stream: Option<usize>,
    ) -> Outcome {
        let rules = self.fill_rules(ptr, max, Some(count), stream);
        let want = [rules.as_ref().err().copied().unwrap_or(SUCCESS)];
        let slot = stream.and_then(|stream| self.stream_of(stream).ok());
        let raced = self.prepare_fill(&rules, slot)?;
        let code = match stream {
            Some(stream) => call!(self, want, aclrtMemsetAsync(ptr, max, value, count, stream))?,
            None => call!(self, want, aclrtMemset(ptr, max, value, count))?,
        };
        self.filled(code, rules, raced, slot, &[value as u8]);
        Ok(())
    }

    fn fill_words(
        &mut self,
        ptr: usize,
        max: usize,
        value: u32,
        count: usize,
        stream: Option<usize>,
    ) -> Outcome {
        let n = if count > MOST { count } else { count / 4 };
        let mut rules = self.fill_rules(ptr, max, n.checked_mul(4), stream);
        if matches!(&rules, Ok(Some(spot)) if spot.is_plain()) {
            rules = Err(RT_PARAM_INVALID); // documented: only memory of aclrtMalloc and aclrtMallocHost
        }
        let want = [rules.as_ref().err().copied().unwrap_or(SUCCESS)];
        // Documented: a fill of host memory is not put on the stream.
        let is_host = matches!(&rules, Ok(Some(spot)) if spot.device.is_none());
        let slot = stream.filter(|_| !is_host).and_then(|stream| self.stream_of(stream).ok());
        let exists = self.row.has("aclrtMemsetD32");
        let raced = if exists { self.prepare_fill(&rules, slot)? } else { false };
        let given = if self.slip == Some(Slip::LowByte) { u32::from(value as u8) } else { value };
        let code = match stream {
            Some(stream) => call!(self, want, aclrtMemsetD32Async(ptr, max, given, n, stream))?,
            None => call!(self, want, aclrtMemsetD32(ptr, max, given, n))?,
        };
        self.filled(code, rules, raced, slot, &value.to_ne_bytes());
        Ok(())
    }

    fn prepare_fill(&mut self, rules: &Result<Option<Spot>, i32>, slot: Option<usize>) -> Outcome<bool> {
        let Ok(Some(spot)) = rules else { return Ok(false) };
        if let (true, Some(slot)) = (spot.is_plain(), slot) {
            self.before_waiting(slot)?;
        }
        self.arrange(&[(spot, true)], slot, true)
    }

    fn filled(
        &mut self,
        code: i32,
        rules: Result<Option<Spot>, i32>,
        raced: bool,
        slot: Option<usize>,
        with: &[u8],
    ) {
        let (SUCCESS, Ok(Some(spot))) = (code, rules) else {
            return self.moved_nothing(code, slot);
        };
        let len = spot.pieces.iter().map(|piece| piece.len).sum();
        let bytes: Bytes = (with.iter().copied().cycle().take(len).collect(), vec![true; len]);
        let op = slot.map(|slot| self.tick(slot));
        self.wrote(&spot, (!raced).then_some(&bytes), op);
        self.after_waiting(spot.is_plain(), slot);
    }
}

/// What aclrtReduceAsync takes: the type, bytes of an element, and the products that lack it.
const TYPES: [(i32, usize, &[&str]); 7] = [
    (0, 4, &[]),
    (1, 2, &["TRN"]),
    (6, 2, &["TRN"]),
    (2, 1, &["TRN", "INF"]),
    (3, 4, &["TRN", "INF"]),
    (27, 2, &["TRN", "INF", "200I"]),
    (8, 4, &["TRN", "INF", "200I", "A2", "A3"]),
];

impl World {
    pub(super) fn reduce(&mut self) -> Outcome {
        let device = self.current_device().unwrap_or(0);
        let kind = self.choose.pick(&[10, 10, 10, 11, 12, 13, 9, -1]);
        let (data_type, size, _) = self.choose.pick(&TYPES);
        let data_type = if self.choose.one_in(24) { 100 } else { data_type };
        let wanted = if self.choose.one_in(16) { Wanted::Any } else { Wanted::Acl(device) };
        let (Some(to), Some(from)) = (self.some_area(wanted), self.some_area(wanted)) else { return Ok(()) };
        let mut count = self.choose.len(to.len.min(from.len).min(MOST));
        if !self.choose.one_in(12) {
            count = count / size * size;
        }
        let (mut dst, mut src) =
            (to.base + self.offset(to.len - count), from.base + self.offset(from.len - count));
        match self.choose.below(24) {
            0 => dst = self.bad_address(count),
            1 => src = self.bad_address(count),
            _ => {}
        }
        let stream = self.some_stream();
        let rules = self.reduce_rules((dst, src, count), kind, data_type, stream);
        let want = codes(&rules);
        let slot = self.stream_of(stream).ok();
        let raced = self.prepare(&rules, slot, true)?;
        let code = call!(self, want, aclrtReduceAsync(dst, src, count as u64, kind, data_type, stream, 0))?;
        if let (SUCCESS, Ok(None)) = (code, &rules) {
            self.moved_nothing(code, slot);
        } else if let (SUCCESS, Ok(Some((to, from)))) = (code, rules) {
            let bytes = combine(kind, data_type, &self.mirror.read(&to), &self.mirror.read(&from));
            let is_certain = !raced && !to.meets(&from);
            let op = slot.map(|slot| self.tick(slot));
            self.reads(&from, op);
            // The destination is read, too: who writes a byte of an element meanwhile changes the bytes
            // beside it, by a carry.
            self.reads(&to, op);
            self.wrote(&to, bytes.as_ref().filter(|_| is_certain), op);
        }
        Ok(())
    }

    fn reduce_rules(
        &self,
        (dst, src, count): (usize, usize, usize),
        kind: i32,
        data_type: i32,
        stream: usize,
    ) -> Ends {
        if dst == 0 || src == 0 {
            return Err(vec![INVALID_PARAM]);
        }
        let slot = self.stream_of(stream).map_err(|code| vec![code])?;
        let mut values = vec![];
        let only_sums = matches!(self.row.tag, "INF" | "TRN");
        match kind {
            10 => {}
            11 | 12 if !only_sums => {}
            11..=13 => values.push(FEATURE_NOT_SUPPORT),
            _ => values.push(INVALID_PARAM),
        }
        let size = TYPES.iter().find(|row| row.0 == data_type && !row.2.contains(&self.row.tag));
        match size {
            None => values.push(FEATURE_NOT_SUPPORT),
            Some((_, size, _)) if !count.is_multiple_of(*size) => values.push(RT_PARAM_INVALID),
            Some(_) => {}
        }
        if !values.is_empty() {
            return Err(values);
        }
        if count == 0 {
            return Ok(None);
        }
        let bad = |code| vec![code];
        let (to, from) =
            (self.spot(dst, count, true).map_err(bad)?, self.spot(src, count, false).map_err(bad)?);
        let here = |spot: &Spot| match spot.device {
            Some(device) => device == self.streams[slot].device,
            None => self.row.is_unified() && !spot.is_plain(),
        };
        if here(&to) && here(&from) { Ok(Some((to, from))) } else { Err(vec![RT_PARAM_INVALID]) }
    }
}

/// What the destination becomes. Half-precision floats are left to the tests of reductions: `None`.
fn combine(kind: i32, data_type: i32, to: &Bytes, from: &Bytes) -> Option<Bytes> {
    macro_rules! integers {
        ($int:ty) => {
            elements(to, from, |a, b| {
                let (a, b) = (<$int>::from_ne_bytes(a), <$int>::from_ne_bytes(b));
                let sum = match kind {
                    10 => a.wrapping_add(b),
                    11 => a.max(b),
                    _ => a.min(b),
                };
                (sum.to_ne_bytes(), true)
            })
        };
    }
    Some(match data_type {
        0 => elements(to, from, |a, b| {
            let (a, b) = (f32::from_ne_bytes(a), f32::from_ne_bytes(b));
            let sum = match kind {
                10 => a + b,
                11 => a.max(b),
                _ => a.min(b),
            };
            // Which NaN, and which of two zeros, is open.
            (sum.to_ne_bytes(), !a.is_nan() && !b.is_nan() && !sum.is_nan() && sum != 0.0)
        }),
        2 => integers!(i8),
        3 => integers!(i32),
        6 => integers!(i16),
        8 => integers!(u32),
        _ => return None,
    })
}

/// Combines element by element; the flag says whether the outcome is certain.
fn elements<const N: usize>(
    to: &Bytes,
    from: &Bytes,
    combine: impl Fn([u8; N], [u8; N]) -> ([u8; N], bool),
) -> Bytes {
    let (mut bytes, mut known) = (vec![], vec![]);
    for at in (0..to.0.len()).step_by(N) {
        let element = |all: &Bytes| -> [u8; N] { std::array::from_fn(|i| all.0[at + i]) };
        let (outcome, is_certain) = combine(element(to), element(from));
        bytes.extend(outcome);
        let is_known = is_certain && (at..at + N).all(|i| to.1[i] && from.1[i]);
        known.extend([is_known; N]);
    }
    (bytes, known)
}
