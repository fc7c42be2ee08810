//! Copies that read their addresses when they run: through descriptors, and through pointer cells.

use super::mirror::Spot;
use super::places::Wanted;
use super::world::{Late, Outcome, Trouble, World, call};
use crate::code::*;
use crate::kind::INNER;
use crate::{
    aclrtGetMemcpyDescSize, aclrtMemcpyAsyncWithDesc, aclrtMemcpyAsyncWithOffset, aclrtSetMemcpyDesc,
};

/// A destination, a source and a count, in the user's addresses.
type Meaning = (usize, usize, usize);

impl World {
    /// The size of a descriptor; the number is the library's own.
    fn descriptor_size(&mut self) -> Outcome<Option<usize>> {
        let (mut size, is_wrong) = (0, self.choose.one_in(32));
        let kind = if is_wrong { self.choose.pick(&[-1, 0, 3, 4, 7, 8]) } else { INNER };
        let want = [if is_wrong { INVALID_PARAM } else { SUCCESS }];
        let code = call!(self, want, aclrtGetMemcpyDescSize(kind, &raw mut size))?;
        if code == SUCCESS && !(1..=4096).contains(&size) {
            return Err(self.difference(format!("a descriptor takes {size} bytes")));
        }
        Ok((code == SUCCESS).then_some(size))
    }

    /// An address in memory of the current device with room for a descriptor or a cell.
    fn some_slot(&mut self, size: usize) -> Option<usize> {
        let device = self.current_device().unwrap_or(0);
        let area = self.some_area(Wanted::Acl(device)).filter(|area| area.len >= size)?;
        let slots = area.len / size;
        Some(area.base + size * self.choose.below(slots.min(4)))
    }

    /// The device that a range is memory of; memory of acl on the host is the stream's where the two are one.
    fn is_on(&self, spot: &Spot, device: u32) -> bool {
        match spot.device {
            Some(its) => its == device,
            None => self.row.is_unified() && !spot.is_plain(),
        }
    }

    pub(super) fn set_descriptor(&mut self) -> Outcome {
        let Some(size) = self.descriptor_size()? else { return Ok(()) };
        let device = self.current_device().unwrap_or(0);
        let (Some(mut desc), Some(to), Some(from)) =
            (self.some_slot(size), self.some_area(Wanted::Acl(device)), self.some_area(Wanted::Acl(device)))
        else {
            return Ok(());
        };
        let count = self.choose.len(to.len.min(from.len).min(8192));
        let (mut dst, mut src) =
            (to.base + self.offset(to.len - count), from.base + self.offset(from.len - count));
        let mut kind = INNER;
        match self.choose.below(32) {
            0 => desc = self.bad_address(size),
            1 => dst = self.bad_address(count),
            2 => src = self.bad_address(count),
            3 => kind = self.choose.pick(&[0, 1, 3, 4, 7, 8, -1]),
            _ => {}
        }
        let rules = self.descriptor_rules((desc, size), kind, (dst, src, count));
        let want = [rules.as_ref().err().copied().unwrap_or(SUCCESS)];
        if let Ok(spot) = &rules {
            self.arrange(&[(spot, true)], None, false)?;
        }
        let code = call!(self, want, aclrtSetMemcpyDesc(desc, kind, src, dst, count, 0))?;
        if let (SUCCESS, Ok(spot)) = (code, rules) {
            let bytes = self.peek(desc, &spot)?;
            self.descriptors.insert(bytes.clone(), (dst, src, count));
            let known = vec![true; bytes.len()];
            self.wrote(&spot, Some(&(bytes, known)), None);
        }
        Ok(())
    }

    fn descriptor_rules(
        &self,
        (desc, size): (usize, usize),
        kind: i32,
        (dst, src, count): Meaning,
    ) -> Result<Spot, i32> {
        if desc == 0 || dst == 0 || src == 0 {
            return Err(INVALID_PARAM);
        }
        self.context()?;
        if kind != INNER {
            return Err(INVALID_PARAM);
        }
        let device = self.current_device().ok_or(CONTEXT_NULL)?;
        let spot = self.spot(desc, size, true)?;
        let home = spot.device.unwrap_or(device);
        let ends = (self.spot(dst, count, true)?, self.spot(src, count, false)?);
        let fits = self.is_on(&spot, home) && self.is_on(&ends.0, home) && self.is_on(&ends.1, home);
        if fits && spot.pieces.len() == 1 { Ok(spot) } else { Err(RT_PARAM_INVALID) }
    }

    pub(super) fn copy_by_descriptor(&mut self) -> Outcome {
        let Some(size) = self.descriptor_size()? else { return Ok(()) };
        let Some(mut desc) = self.some_slot(size) else { return Ok(()) };
        let (mut kind, stream) = (INNER, self.some_stream());
        match self.choose.below(32) {
            0 => desc = self.bad_address(size),
            1 => kind = self.choose.pick(&[0, 1, 3, 4, 7, 8, -1]),
            _ => {}
        }
        let slot = self.stream_of(stream);
        let cell = self.late_rules(&[(desc, size)], kind, slot, true);
        let want = [cell.as_ref().err().copied().unwrap_or(SUCCESS)];
        let meaning = match &cell {
            Ok(cells) => {
                self.arrange_cells(cells, slot)?.map(|bytes| self.descriptors.get(&bytes[0]).copied())
            }
            Err(_) => None,
        };
        if cell.is_ok() && meaning.is_none() {
            return Ok(()); // nobody knows what is in it
        }
        let plan = self.plan_late(meaning.flatten(), slot)?;
        if call!(self, want, aclrtMemcpyAsyncWithDesc(desc, kind, stream))? == SUCCESS {
            self.ran_late(cell.unwrap_or_default(), plan, slot);
        }
        Ok(())
    }

    pub(super) fn copy_by_offset(&mut self) -> Outcome {
        if !self.row.has("aclrtMemcpyAsyncWithOffset") {
            return call!(self, [SUCCESS], aclrtMemcpyAsyncWithOffset(8, 8, 0, 8, 8, 0, INNER, 0)).map(drop);
        }
        let device = self.current_device().unwrap_or(0);
        let (Some(mut dst), Some(mut src)) = (self.some_slot(8), self.some_slot(8)) else { return Ok(()) };
        let (Some(to), Some(from)) =
            (self.some_area(Wanted::Acl(device)), self.some_area(Wanted::Acl(device)))
        else {
            return Ok(());
        };
        if self.choose.below(4) != 0 {
            self.put_pointer(dst, to.base)?;
            self.put_pointer(src, from.base)?;
        }
        let mut count = self.choose.len(to.len.min(from.len).min(8192));
        let (mut to_offset, from_offset) = (self.offset(to.len - count), self.offset(from.len - count));
        let (mut max, mut kind, stream) = (count, INNER, self.some_stream());
        match self.choose.below(24) {
            0 => dst = self.bad_address(8),
            1 => src = self.bad_address(8),
            2 => kind = self.choose.pick(&[0, 1, 3, 4, 7, 8, -1]),
            3 => max = count - 1,
            4 => to_offset = usize::MAX,
            5 => (count, max) = (1 << 40, 1 << 40),
            _ => {}
        }
        let slot = self.stream_of(stream);
        let mut cells = self.late_rules(&[(dst, 8), (src, 8)], kind, slot, false);
        let bad_values = max < count || to_offset.checked_add(count).is_none();
        let value_comes_first = matches!(cells, Ok(_) | Err(RT_PARAM_INVALID));
        if bad_values && value_comes_first {
            cells = Err(RT_PARAM_INVALID);
        }
        let want = [cells.as_ref().err().copied().unwrap_or(SUCCESS)];
        let pointers = match &cells {
            Ok(cells) => self.arrange_cells(cells, slot)?,
            Err(_) => None,
        };
        if cells.is_ok() && pointers.is_none() {
            return Ok(());
        }
        let meaning = pointers.map(|bytes| {
            let at = |i: usize| usize::from_ne_bytes(bytes[i][..8].try_into().expect("a cell has 8 bytes"));
            (at(0).wrapping_add(to_offset), at(1).wrapping_add(from_offset), count)
        });
        let plan = self.plan_late(meaning, slot)?;
        let code = call!(
            self,
            want,
            aclrtMemcpyAsyncWithOffset(dst, max, to_offset, src, count, from_offset, kind, stream)
        )?;
        if code == SUCCESS {
            self.ran_late(cells.unwrap_or_default(), plan, slot);
        }
        Ok(())
    }

    fn put_pointer(&mut self, cell: usize, pointer: usize) -> Outcome {
        match self.mirror.resolve(cell, 8) {
            Some(spot) => self.poke(cell, &spot, &pointer.to_ne_bytes()),
            None => Ok(()),
        }
    }

    /// The cells that a late-bound copy reads, or the code of a refusal.
    fn late_rules(
        &self,
        cells: &[(usize, usize)],
        kind: i32,
        slot: Result<usize, i32>,
        is_descriptor: bool,
    ) -> Result<Vec<Spot>, i32> {
        if cells.iter().any(|(addr, _)| *addr == 0) {
            return Err(INVALID_PARAM);
        }
        let slot = slot?;
        if kind != INNER {
            return Err(INVALID_PARAM);
        }
        let device = self.streams[slot].device;
        let one = |(addr, len): &(usize, usize)| {
            let spot = self.spot(*addr, *len, false)?;
            let fits =
                !spot.is_plain() && spot.pieces.len() == 1 && (!is_descriptor || self.is_on(&spot, device));
            if fits { Ok(spot) } else { Err(RT_PARAM_INVALID) }
        };
        cells.iter().map(one).collect()
    }

    /// Orders the reading of cells, and tells what is in them, if that is known.
    fn arrange_cells(&mut self, cells: &[Spot], slot: Result<usize, i32>) -> Outcome<Option<Vec<Vec<u8>>>> {
        for cell in cells {
            self.arrange(&[(cell, false)], slot.ok(), false)?;
        }
        let all: Vec<_> = cells.iter().map(|cell| self.mirror.read(cell)).collect();
        let is_known = all.iter().all(|(_, known)| known.iter().all(|known| *known));
        Ok(is_known.then(|| all.into_iter().map(|(bytes, _)| bytes).collect()))
    }

    /// What a late-bound copy will do: move bytes, nothing, or fail.
    fn plan_late(
        &mut self,
        meaning: Option<Meaning>,
        slot: Result<usize, i32>,
    ) -> Outcome<Option<(Spot, Spot)>> {
        let (Some((dst, src, count)), Ok(slot)) = (meaning, slot) else { return Ok(None) };
        let device = self.streams[slot].device;
        let ends = self.spot(dst, count, true).and_then(|to| Ok((to, self.spot(src, count, false)?)));
        let on_device = |spot: &Spot| self.is_on(spot, device);
        let Some((to, from)) = ends.ok().filter(|(to, from)| on_device(to) && on_device(from)) else {
            return Ok(None);
        };
        self.arrange(&[(&to, true), (&from, false)], Some(slot), false)?;
        Ok(Some((to, from)))
    }

    fn ran_late(&mut self, cells: Vec<Spot>, plan: Option<(Spot, Spot)>, slot: Result<usize, i32>) {
        let Ok(slot) = slot else { return };
        let kind = if plan.is_some() { Late::Copy } else { Late::Failing };
        self.late = self.late.max(kind);
        let op = self.tick(slot);
        cells.iter().for_each(|cell| self.reads(cell, Some(op)));
        match plan {
            Some((to, from)) => {
                let bytes = self.mirror.read(&from);
                self.reads(&from, Some(op));
                self.wrote(&to, Some(&bytes), Some(op));
            }
            None => self.streams[slot].trouble = Trouble::Certain,
        }
    }

    /// Memory is about to go: what looks addresses up when it runs must have run.
    pub(super) fn before_memory_goes(&mut self) -> Outcome {
        if self.late > Late::Nothing { self.wait_for_all() } else { Ok(()) }
    }

    /// Memory is about to come: a copy that looks addresses up when it runs would find it, and not fail.
    pub(super) fn before_memory_comes(&mut self) -> Outcome {
        if self.late == Late::Failing { self.wait_for_all() } else { Ok(()) }
    }

    /// Work is about to be dropped. If that was to write the addresses of a copy, nobody knows what the copy
    /// does.
    pub(super) fn before_work_goes(&mut self) -> Outcome {
        if self.late >= Late::Copy { self.wait_for_all() } else { Ok(()) }
    }
}
