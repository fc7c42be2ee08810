//! Acts that make memory and give it back: allocation and registration.

use super::copies::MOST;
use super::mirror::{Island, Origin};
use super::places::Wanted;
use super::world::{Outcome, World, call};
use crate::code::*;
use crate::{
    Home, Memory, aclrtFree, aclrtFreeHost, aclrtFreeHostWithDevSync, aclrtFreePhysical,
    aclrtFreeWithDevSync, aclrtHostRegisterV2, aclrtHostUnregister, aclrtMalloc, aclrtMallocAlign32,
    aclrtMallocCached, aclrtMallocConfig, aclrtMallocHost, aclrtMallocWithCfg, aclrtPointerGetAttributes,
    aclrtPtrAttributes, aclrtReleaseMemAddress, page_size,
};

/// Most blocks of aclrtMalloc and aclrtMallocHost at a time.
const BLOCKS: usize = 24;
/// Addresses that were freed and are still tried.
const FREED: usize = 32;
const PINNED: u32 = 0x1000_0000;
pub(super) const PAGE: usize = 4096;
const NO_CONFIG: *mut aclrtMallocConfig = std::ptr::null_mut();
/// Bytes of an export key.
pub(super) const KEY: usize = 65;
/// Pages of an island.
const ISLAND: usize = 4;

/// Physical memory: the handle, if it was not freed; where it is mapped, if it is.
pub(super) struct Physical {
    pub(super) handle: Option<usize>,
    pub(super) buffer: usize,
    pub(super) at: Option<usize>,
}

/// An exported allocation, and how often it is imported.
pub(super) struct Export {
    pub(super) key: [u8; KEY],
    pub(super) base: usize,
    pub(super) imported: Option<(usize, usize)>,
}

#[derive(Default)]
pub(super) struct Holdings {
    pub(super) freed: Vec<usize>,
    /// A page where nothing is mapped.
    pub(super) hole: usize,
    /// Reserved addresses: base and length.
    pub(super) reservations: Vec<(usize, usize)>,
    pub(super) physicals: Vec<Physical>,
    pub(super) exports: Vec<Export>,
    /// Mappings of the process's own, and what is to be unmapped at the end.
    own: Vec<Memory>,
}

impl World {
    /// Pages of the process with holes between them; one may only be read.
    pub(super) fn make_islands(&mut self) {
        for writable in [true, true, true, false] {
            let page = page_size();
            let all = Memory::new(Home::Mapped, (ISLAND + 2) * page);
            let land = all.part(page, ISLAND * page);
            land.fill(0x3c);
            forbid(all.addr, page, libc::PROT_NONE);
            forbid(land.addr + land.len, page, libc::PROT_NONE);
            if !writable {
                forbid(land.addr, land.len, libc::PROT_READ);
            }
            let buffer = self.mirror.add(None, land.len);
            self.mirror.islands.push(Island { base: land.addr, len: land.len, buffer, writable });
            let spot = self.mirror.resolve(land.addr, land.len).expect("an island that was just made");
            self.mirror.write(&spot, &(vec![0x3c; land.len], vec![true; land.len]));
            self.holdings.hole = land.addr + land.len;
            self.holdings.own.push(all);
        }
    }

    pub(super) fn allocated(&self, device: Option<bool>) -> Vec<usize> {
        let is = |base: &usize| device.is_none_or(|it| self.device_of(*base).is_some() == it);
        let all = self.mirror.views_by_age().into_iter().filter(|view| view.origin == Origin::Allocated);
        all.map(|view| view.base).filter(is).collect()
    }

    fn device_of(&self, base: usize) -> Option<u32> {
        self.mirror.views.get(&base).and_then(|view| self.mirror.buffer(view.buffer).device)
    }

    pub(super) fn allocate(&mut self) -> Outcome {
        if self.allocated(None).len() >= BLOCKS {
            return self.free();
        }
        self.before_memory_comes()?;
        let size = match self.choose.below(40) {
            0 => self.choose.pick(&[0, 1 << 44, usize::MAX, usize::MAX - 31]),
            1 => MOST + self.choose.below(1 << 20),
            2..=8 => self.choose.len(1 << 16),
            _ => self.choose.len(8192),
        };
        if self.choose.one_in(3) { self.allocate_host(size) } else { self.allocate_device(size) }
    }

    fn allocation_code(&self, size: usize) -> Vec<i32> {
        match (self.context(), size) {
            (Err(code), _) => vec![code],
            (_, 0) => vec![RT_PARAM_INVALID],
            (_, size) if size > 1 << 40 => vec![MEMORY_ALLOCATION],
            _ => vec![SUCCESS],
        }
    }

    fn allocate_host(&mut self, size: usize) -> Outcome {
        let mut base = 0;
        let want = self.allocation_code(size);
        let code = call!(self, want, aclrtMallocHost(&raw mut base, size))?;
        if code == SUCCESS { self.add_block(base, size, None) } else { Ok(()) }
    }

    fn allocate_device(&mut self, size: usize) -> Outcome {
        let (mut base, how) = (0, self.choose.below(5));
        let policy = self.choose.pick(&[0, 1, 2, 0, 2, 3, 4, 5]);
        let mut want = self.allocation_code(size);
        if policy > 2 && self.row.tag == "200I" && want != [CONTEXT_NULL] {
            want = vec![FEATURE_NOT_SUPPORT, RT_PARAM_INVALID]; // which of two wrong values is told is open
            if size != 0 {
                want.pop();
            }
        }
        if how == 4 && policy > 2 && want != [CONTEXT_NULL] {
            want = vec![RT_PARAM_INVALID]; // cached memory has fewer policies
        }
        let code = match how {
            0 => call!(self, want, aclrtMallocAlign32(&raw mut base, size, policy))?,
            1 => call!(self, want, aclrtMallocWithCfg(&raw mut base, size, policy, NO_CONFIG))?,
            4 => call!(self, want, aclrtMallocCached(&raw mut base, size, policy))?,
            _ => call!(self, want, aclrtMalloc(&raw mut base, size, policy))?,
        };
        if code != SUCCESS {
            return Ok(());
        }
        // Documented: rounded up to 32 bytes, and 32 more but on 950 and by aclrtMallocAlign32.
        let pad = if how == 0 || self.row.tag == "950" { 0 } else { 32 };
        let device = self.current_device();
        self.add_block(base, size.next_multiple_of(32) + pad, device)
    }

    fn add_block(&mut self, base: usize, len: usize, device: Option<u32>) -> Outcome {
        let is_aligned = base != 0 && base.is_multiple_of(64);
        let end = base.wrapping_add(len);
        let meets = self.mirror.views.range(..end).next_back().is_some_and(|(_, v)| v.base + v.len > base);
        if meets || !is_aligned && !self.row.is_unified() {
            return Err(self.difference(format!("{len} bytes at {base:#x} are no memory of their own")));
        }
        let buffer = self.mirror.add(device, len);
        self.mirror.view(base, (buffer, 0, len), Origin::Allocated);
        if self.choose.one_in(12) {
            return Ok(()); // what is in it stays unknown
        }
        let bytes = self.some_bytes(len);
        let spot = self.mirror.resolve(base, len).expect("a block that was just made");
        self.poke(base, &spot, &bytes)
    }

    /// Bytes that tell which block and which place in it they are for.
    pub(super) fn some_bytes(&mut self, len: usize) -> Vec<u8> {
        crate::pattern(len, self.choose.word() as u8)
    }

    pub(super) fn free(&mut self) -> Outcome {
        let is_device = self.choose.one_in(2);
        let (good, all) = (self.allocated(Some(is_device)), self.allocated(None));
        let ptr = match self.choose.below(16) {
            0 => self.bad_address(8),
            1 => self.some_area(Wanted::Any).map_or(1, |area| area.base + self.choose.pick(&[0, 1, 64])),
            2 if !all.is_empty() => self.choose.pick(&all),
            _ if !good.is_empty() => self.choose.pick(&good),
            _ => 0,
        };
        self.free_at(ptr, is_device)
    }

    pub(super) fn free_at(&mut self, ptr: usize, is_device: bool) -> Outcome {
        let is_good = self.allocated(Some(is_device)).contains(&ptr);
        let syncs = self.choose.one_in(8);
        let mut want = vec![match (ptr, is_device) {
            (0, true) => INVALID_PARAM,
            (0, false) => SUCCESS,
            _ if is_good => SUCCESS,
            _ => RT_PARAM_INVALID,
        }];
        if syncs && self.current.is_none() && ptr != 0 && !is_device {
            want = vec![CONTEXT_NULL]; // which device to wait for is the context's
        }
        if is_good {
            self.close_exports_of(ptr)?;
            self.before_memory_goes()?;
        }
        if syncs {
            self.open_gates();
        }
        let code = match (is_device, syncs) {
            (true, false) => call!(self, want, aclrtFree(ptr))?,
            (true, true) => call!(self, want, aclrtFreeWithDevSync(ptr))?,
            (false, false) => call!(self, want, aclrtFreeHost(ptr))?,
            (false, true) => call!(self, want, aclrtFreeHostWithDevSync(ptr))?,
        };
        if code == SUCCESS && is_good {
            let view = self.mirror.views.remove(&ptr).expect("a block that was there");
            self.mirror.forget(view.buffer);
            self.gone(ptr);
        }
        Ok(())
    }

    /// An address to be tried again. Only of ranges that the library keeps: others may be anybody's soon.
    fn gone(&mut self, addr: usize) {
        if self.holdings.freed.len() == FREED {
            let other = self.choose.below(FREED);
            self.holdings.freed.swap_remove(other);
        }
        self.holdings.freed.push(addr);
    }

    pub(super) fn register(&mut self) -> Outcome {
        self.before_memory_comes()?;
        let islands = self.mirror.islands.clone();
        let island = self.choose.pick(&islands[..3]);
        let pages = 1 + self.choose.below(ISLAND);
        let first = self.choose.below(ISLAND - pages + 1);
        let (mut ptr, mut len) = (island.base + first * PAGE, pages * PAGE);
        let mut flag = self.choose.pick(&[PINNED, PINNED, PINNED | 2]);
        match self.choose.below(12) {
            0 => ptr += 64,
            1 => len = 0,
            2 => flag = self.choose.pick(&[0, 1, 4, 0x2000_0000, PINNED | 4]),
            3 => (ptr, len) = (self.holdings.hole, PAGE),
            4 => ptr = 0,
            _ => {}
        }
        let want = self.register_codes(ptr, len, flag);
        let end = ptr.saturating_add(len);
        let is_taken = self.registered().iter().any(|(base, size)| *base < end && ptr < base + size);
        if call!(self, want, aclrtHostRegisterV2(ptr, len, flag))? == SUCCESS && !is_taken {
            self.mirror.view(ptr, (island.buffer, ptr - island.base, len), Origin::Registered);
        }
        Ok(())
    }

    fn registered(&self) -> Vec<(usize, usize)> {
        let all = self.mirror.views_by_age().into_iter().filter(|view| view.origin == Origin::Registered);
        all.map(|view| (view.base, view.len)).collect()
    }

    fn register_codes(&self, ptr: usize, len: usize, flag: u32) -> Vec<i32> {
        if ptr == 0 {
            return vec![INVALID_PARAM];
        }
        if let Err(code) = self.context() {
            return vec![code];
        }
        let mut codes = vec![];
        let known = PINNED | 2;
        match flag {
            0 => codes.push(RT_PARAM_INVALID),
            flag if flag & !known != 0 => codes.extend([RT_PARAM_INVALID, FEATURE_NOT_SUPPORT]),
            _ => {}
        }
        if len == 0 {
            codes.push(RT_PARAM_INVALID);
        }
        if !ptr.is_multiple_of(PAGE) {
            codes.push(ADDR_UNALIGNED);
        }
        if !codes.is_empty() {
            return codes;
        }
        let end = ptr + len;
        if self.registered().iter().any(|(base, size)| *base < end && ptr < base + size) {
            return vec![ALREADY_REGISTERED];
        }
        let is_there = self.mirror.resolve(ptr, len).is_some_and(|spot| spot.writable);
        vec![if is_there { SUCCESS } else { RT_PARAM_INVALID }]
    }

    pub(super) fn unregister(&mut self) -> Outcome {
        let all: Vec<_> = self.registered().iter().map(|(base, _)| *base).collect();
        let ptr = match self.choose.below(8) {
            0 => self.bad_address(8),
            1 if !all.is_empty() => self.choose.pick(&all) + PAGE,
            _ if !all.is_empty() => self.choose.pick(&all),
            _ => self.holdings.hole,
        };
        let is_good = all.contains(&ptr);
        let want = [match ptr {
            0 => INVALID_PARAM,
            _ if is_good => SUCCESS,
            _ => NOT_REGISTERED,
        }];
        self.before_memory_goes()?;
        if call!(self, want, aclrtHostUnregister(ptr))? == SUCCESS && is_good {
            self.mirror.views.remove(&ptr);
        }
        Ok(())
    }

    pub(super) fn attributes(&mut self) -> Outcome {
        let area = self.some_area(Wanted::Any);
        let ptr = match (self.choose.below(4), area) {
            (0, _) | (_, None) => self.bad_address(1),
            (_, Some(area)) => area.base + self.offset(area.len - 1),
        };
        let mut got = aclrtPtrAttributes::default();
        let want = [if ptr == 0 { INVALID_PARAM } else { SUCCESS }];
        let code = call!(self, want, aclrtPointerGetAttributes(ptr, &raw mut got))?;
        let spot = self.mirror.resolve(ptr, 1);
        let right = match &spot {
            Some(spot) if spot.is_plain() => (2, 0),
            Some(spot) => spot.device.map_or((0, 0), |device| (1, device)),
            None => (2, 0),
        };
        let told = (got.location.type_, got.location.id);
        // What is just behind a block may count as its own or as nobody's.
        let is_certain = spot.is_some() || self.mirror.around(ptr.wrapping_sub(1)).is_none();
        if code == SUCCESS && is_certain && told != right {
            return Err(self.difference(format!("the location of {ptr:#x} is {told:?}, not {right:?}")));
        }
        Ok(())
    }

    /// Gives everything back.
    pub(super) fn give_back(&mut self) -> Outcome {
        while !self.holdings.exports.is_empty() {
            self.close(0)?;
        }
        while let Some(at) = self.holdings.physicals.iter().find_map(|physical| physical.at) {
            self.unmap_at(at)?;
        }
        for physical in std::mem::take(&mut self.holdings.physicals) {
            if let Some(handle) = physical.handle {
                call!(self, [SUCCESS], aclrtFreePhysical(handle))?;
            }
        }
        for (base, _) in std::mem::take(&mut self.holdings.reservations) {
            call!(self, [SUCCESS], aclrtReleaseMemAddress(base))?;
        }
        for (base, _) in self.registered() {
            call!(self, [SUCCESS], aclrtHostUnregister(base))?;
            self.mirror.views.remove(&base);
        }
        for base in self.allocated(None) {
            let is_device = self.device_of(base).is_some();
            self.free_at(base, is_device)?;
        }
        for memory in std::mem::take(&mut self.holdings.own) {
            memory.free();
        }
        Ok(())
    }
}

fn forbid(addr: usize, len: usize, access: i32) {
    // SAFETY: pages of a mapping that this module made and nobody has seen yet.
    assert_eq!(unsafe { libc::mprotect(addr as *mut libc::c_void, len, access) }, 0);
}
