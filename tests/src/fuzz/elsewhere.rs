//! Acts that show memory at other addresses: mapping at reserved ones, and IPC inside the process.

use std::ffi::c_char;

use super::memory::{Export, KEY, PAGE, Physical};
use super::mirror::Origin;
use super::world::{DEVICES, Outcome, World, call};
use crate::code::*;
use crate::{
    NORMAL_PAGES, aclrtFreePhysical, aclrtIpcMemClose, aclrtIpcMemGetExportKey, aclrtIpcMemImportByKey,
    aclrtMallocPhysical, aclrtMapMem, aclrtReleaseMemAddress, aclrtReserveMemAddress, aclrtUnmapMem,
    properties,
};

impl World {
    pub(super) fn map(&mut self) -> Outcome {
        match self.choose.below(8) {
            0 => self.reserve(),
            1 => self.release(),
            2 => self.allocate_physical(),
            3 => self.free_physical(),
            4 => self.unmap(),
            _ => self.map_physical(),
        }
    }

    fn reserve(&mut self) -> Outcome {
        if self.holdings.reservations.len() >= 3 {
            return Ok(());
        }
        let (mut base, size) = (0, self.choose.pick(&[16 * PAGE, 8 * PAGE, 16 * PAGE, 0]));
        let (align, flags) = match self.choose.below(8) {
            0 => (4096, 0),
            1 => (0, 2),
            _ => (0, self.choose.below(2) as u64),
        };
        let bad = size == 0 || align != 0 || flags > 1;
        let want = [self.context().err().unwrap_or(if bad { RT_PARAM_INVALID } else { SUCCESS })];
        if call!(self, want, aclrtReserveMemAddress(&raw mut base, size, align, 0, flags))? == SUCCESS {
            self.holdings.reservations.push((base, size));
        }
        Ok(())
    }

    /// Physical memory that is mapped in this reservation.
    fn mapped_in(&self, (base, len): (usize, usize)) -> bool {
        self.holdings.physicals.iter().filter_map(|p| p.at).any(|at| (base..base + len).contains(&at))
    }

    fn release(&mut self) -> Outcome {
        let all = self.holdings.reservations.clone();
        let ptr = match self.choose.below(6) {
            0 => self.bad_address(8),
            _ if !all.is_empty() => self.choose.pick(&all).0,
            _ => return Ok(()),
        };
        let known = all.iter().position(|(base, _)| *base == ptr);
        let want = [match known {
            _ if ptr == 0 => INVALID_PARAM,
            Some(i) if !self.mapped_in(all[i]) => SUCCESS,
            _ => RT_PARAM_INVALID,
        }];
        if let (SUCCESS, Some(i)) = (call!(self, want, aclrtReleaseMemAddress(ptr))?, known) {
            self.holdings.reservations.swap_remove(i);
        }
        Ok(())
    }

    fn allocate_physical(&mut self) -> Outcome {
        if self.holdings.physicals.len() >= 6 {
            return Ok(());
        }
        let device = self.choose.pick(&[0, 1, 0, 1, 0, 1, DEVICES]);
        let (mut handle, size) = (0, self.choose.pick(&[PAGE, 2 * PAGE, 3 * PAGE, PAGE, 100, 0]));
        let property = properties(NORMAL_PAGES, device);
        let bad_size = size == 0 || size % PAGE != 0;
        let want = match self.context() {
            Err(code) => vec![code],
            Ok(_) if device >= DEVICES && bad_size => vec![INVALID_DEVICEID, RT_PARAM_INVALID],
            Ok(_) if device >= DEVICES => vec![INVALID_DEVICEID],
            Ok(_) if bad_size => vec![RT_PARAM_INVALID],
            Ok(_) => vec![SUCCESS],
        };
        if call!(self, want, aclrtMallocPhysical(&raw mut handle, size, &raw const property, 0))? == SUCCESS {
            let buffer = self.mirror.add(Some(device), size);
            self.holdings.physicals.push(Physical { handle: Some(handle), buffer, at: None });
        }
        Ok(())
    }

    fn some_physical(&mut self) -> Option<usize> {
        let len = self.holdings.physicals.len();
        (len > 0).then(|| self.choose.below(len))
    }

    fn free_physical(&mut self) -> Outcome {
        let Some(i) = self.some_physical() else { return Ok(()) };
        let given = self.holdings.physicals[i].handle;
        let handle = if self.choose.one_in(8) { 77 } else { given.unwrap_or(77) };
        let want = [if Some(handle) == given { SUCCESS } else { INVALID_HANDLE }];
        if call!(self, want, aclrtFreePhysical(handle))? == SUCCESS {
            self.holdings.physicals[i].handle = None;
            self.let_go(i);
        }
        Ok(())
    }

    /// Physical memory is gone when it is neither held nor mapped.
    fn let_go(&mut self, i: usize) {
        let physical = &self.holdings.physicals[i];
        if physical.handle.is_none() && physical.at.is_none() {
            self.mirror.forget(physical.buffer);
            self.holdings.physicals.swap_remove(i);
        }
    }

    fn map_physical(&mut self) -> Outcome {
        self.before_memory_comes()?;
        let (Some(i), false) = (self.some_physical(), self.holdings.reservations.is_empty()) else {
            return self.reserve().and_then(|()| self.allocate_physical());
        };
        let reservations = self.holdings.reservations.clone();
        let (base, room) = self.choose.pick(&reservations);
        let physical = &self.holdings.physicals[i];
        let (Some(mut handle), None) = (physical.handle, physical.at) else { return Ok(()) };
        let size = self.mirror.buffer(physical.buffer).bytes.len();
        let (mut at, mut given) = (base + PAGE * self.choose.below(room / PAGE), size);
        match self.choose.below(16) {
            0 => at = self.bad_address(size),
            1 => given += PAGE,
            2 => at += 64,
            3 => handle = 77,
            _ => {}
        }
        let want = self.map_codes(at, given, size, handle);
        if call!(self, want, aclrtMapMem(at, given, 0, handle, 0))? == SUCCESS {
            let buffer = self.holdings.physicals[i].buffer;
            self.holdings.physicals[i].at = Some(at);
            self.mirror.view(at, (buffer, 0, size), Origin::Mapped);
            let spot = self.mirror.resolve(at, size).expect("what was just mapped");
            if self.mirror.read(&spot).1.contains(&false) {
                let bytes = self.some_bytes(size);
                return self.poke(at, &spot, &bytes);
            }
        }
        Ok(())
    }

    fn map_codes(&self, at: usize, given: usize, size: usize, handle: usize) -> Vec<i32> {
        if at == 0 {
            return vec![INVALID_PARAM];
        }
        if let Err(code) = self.context() {
            return vec![code];
        }
        if handle == 77 {
            return vec![INVALID_HANDLE];
        }
        let end = at.saturating_add(size);
        let inside = self.holdings.reservations.iter().any(|(base, len)| *base <= at && end <= base + len);
        let is_free = !self.mirror.views.values().any(|view| view.base < end && at < view.base + view.len);
        let good = inside && is_free && given == size && at.is_multiple_of(PAGE);
        vec![if good { SUCCESS } else { RT_PARAM_INVALID }]
    }

    fn unmap(&mut self) -> Outcome {
        let all: Vec<_> = self.holdings.physicals.iter().filter_map(|p| p.at).collect();
        let ptr = match self.choose.below(6) {
            0 => self.bad_address(8),
            _ if !all.is_empty() => self.choose.pick(&all),
            _ => return Ok(()),
        };
        self.unmap_at(ptr)
    }

    pub(super) fn unmap_at(&mut self, ptr: usize) -> Outcome {
        let known = self.holdings.physicals.iter().position(|p| p.at == Some(ptr));
        let want = [match known {
            _ if ptr == 0 => INVALID_PARAM,
            Some(_) => SUCCESS,
            None => RT_PARAM_INVALID,
        }];
        self.before_memory_goes()?;
        if let (SUCCESS, Some(i)) = (call!(self, want, aclrtUnmapMem(ptr))?, known) {
            self.mirror.views.remove(&ptr);
            self.holdings.physicals[i].at = None;
            self.let_go(i);
        }
        Ok(())
    }

    pub(super) fn share(&mut self) -> Outcome {
        match self.choose.below(4) {
            0 => self.export(),
            1 => {
                let count = self.holdings.exports.len();
                if count == 0 {
                    Ok(())
                } else {
                    let i = self.choose.below(count);
                    self.close(i)
                }
            }
            _ => self.import(),
        }
    }

    fn export(&mut self) -> Outcome {
        let blocks = self.allocated(Some(true));
        if self.holdings.exports.len() >= 3 || blocks.is_empty() {
            return Ok(());
        }
        let base = self.choose.pick(&blocks);
        if self.holdings.exports.iter().any(|export| export.base == base) {
            return Ok(());
        }
        let view = self.mirror.views[&base];
        let (mut key, mut len) = ([0u8; KEY], KEY);
        let (mut ptr, mut size) = (base, view.len);
        match self.choose.below(10) {
            0 => len = 64,
            1 => size = view.len + 1 + PAGE,
            2 => ptr = self.holdings.hole,
            _ => {}
        }
        let good = len == KEY && size == view.len && ptr == base;
        let want = [self.context().err().unwrap_or(if good { SUCCESS } else { RT_PARAM_INVALID })];
        let text = key.as_mut_ptr().cast::<c_char>();
        if call!(self, want, aclrtIpcMemGetExportKey(ptr, size, text, len, 1))? == SUCCESS {
            self.holdings.exports.push(Export { key, base, imported: None });
        }
        Ok(())
    }

    fn import(&mut self) -> Outcome {
        let count = self.holdings.exports.len();
        if count == 0 {
            return self.export();
        }
        self.before_memory_comes()?;
        let i = self.choose.below(count);
        // Access that is enabled on the way stays with the process where it cannot be taken back.
        let enabling = u64::from(self.row.has("aclrtDeviceDisablePeerAccess"));
        let (mut base, flags) = (0, self.choose.pick(&[0, enabling, 0, 2]));
        let want = [self.context().err().unwrap_or(if flags == 2 { RT_PARAM_INVALID } else { SUCCESS })];
        let key = self.holdings.exports[i].key.as_ptr().cast::<c_char>();
        if call!(self, want, aclrtIpcMemImportByKey(&raw mut base, key, flags))? != SUCCESS {
            return Ok(());
        }
        let view = self.mirror.views[&self.holdings.exports[i].base];
        let (owner, current) = (self.mirror.buffer(view.buffer).device, self.current_device());
        if let (1, Some(current), Some(owner)) = (flags, current, owner)
            && current != owner
        {
            self.peers.insert((current, owner));
        }
        if let Some((at, times)) = &mut self.holdings.exports[i].imported {
            *times += 1;
            let at = *at;
            if at != base {
                return Err(self.difference(format!("imported again, it is at {base:#x}, not {at:#x}")));
            }
            return Ok(());
        }
        self.holdings.exports[i].imported = Some((base, 1));
        let origin = if owner == current { Origin::Imported } else { Origin::Far };
        self.mirror.view(base, (view.buffer, 0, view.len), origin);
        Ok(())
    }

    /// Closes one import, or the export where there is none.
    pub(super) fn close(&mut self, i: usize) -> Outcome {
        self.before_memory_goes()?;
        let key = self.holdings.exports[i].key.as_ptr().cast::<c_char>();
        call!(self, [SUCCESS], aclrtIpcMemClose(key))?;
        match &mut self.holdings.exports[i].imported {
            Some((base, times)) if *times == 1 => {
                let base = *base;
                self.holdings.exports[i].imported = None;
                self.mirror.views.remove(&base);
            }
            Some((_, times)) => *times -= 1,
            None => drop(self.holdings.exports.swap_remove(i)),
        }
        Ok(())
    }

    pub(super) fn close_exports_of(&mut self, base: usize) -> Outcome {
        while let Some(i) = self.holdings.exports.iter().position(|export| export.base == base) {
            self.close(i)?;
        }
        Ok(())
    }
}
