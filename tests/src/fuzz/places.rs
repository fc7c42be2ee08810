//! Addresses for calls: of memory that is there, and of every kind that must be refused.

use super::mirror::{Origin, Spot};
use super::world::World;
use crate::code::*;

/// Memory that a call could name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    pub(super) base: usize,
    pub(super) len: usize,
    pub(super) device: Option<u32>,
    pub(super) origin: Origin,
}

/// Which memory a call is meant for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Any,
    Host,
    Device,
    On(u32),
    /// Memory of aclrtMalloc, or of aclrtMallocHost where that is device memory, too.
    Acl(u32),
}

impl World {
    fn areas(&self, wanted: Wanted) -> Vec<Area> {
        let views = self.mirror.views_by_age().into_iter().map(|view| {
            let device = self.mirror.buffer(view.buffer).device;
            Area { base: view.base, len: view.len, device, origin: view.origin }
        });
        let islands = self.mirror.islands.iter().map(|island| Area {
            base: island.base,
            len: island.len,
            device: None,
            origin: Origin::Plain,
        });
        let fits = |area: &Area| match wanted {
            Wanted::Any => true,
            Wanted::Host => area.device.is_none(),
            Wanted::Device => area.device.is_some(),
            Wanted::On(device) => area.device == Some(device),
            Wanted::Acl(device) => area.device == Some(device) && area.origin != Origin::Far,
        };
        views.chain(islands).filter(fits).collect()
    }

    pub(super) fn some_area(&mut self, wanted: Wanted) -> Option<Area> {
        let all = self.areas(wanted);
        (!all.is_empty()).then(|| self.choose.pick(&all))
    }

    /// An offset in `room + len` bytes at which `len` fit: the ends are likely.
    pub(super) fn offset(&mut self, room: usize) -> usize {
        match self.choose.below(4) {
            0 => 0,
            1 => room,
            _ => self.choose.below(room + 1),
        }
    }

    /// An address for `len` bytes that is very likely wrong.
    pub(super) fn bad_address(&mut self, len: usize) -> usize {
        let area = self.some_area(Wanted::Any);
        // What lies around mapped and imported memory may be anybody's, and right to be used.
        let alone =
            area.filter(|area| !matches!(area.origin, Origin::Mapped | Origin::Imported | Origin::Far));
        let freed = self.holdings.freed.len();
        match (self.choose.below(8), alone.or(area)) {
            (0, Some(area)) => (area.base + area.len + 1).saturating_sub(len).max(area.base),
            (1, Some(area)) if alone.is_some() => area.base - 1,
            (2, Some(area)) if alone.is_some() => area.base + area.len,
            (3, _) if freed > 0 => self.holdings.freed[self.choose.below(freed)],
            (4, _) => self.holdings.hole,
            (5, _) if !self.holdings.reservations.is_empty() => {
                let all: Vec<_> = self.holdings.reservations.iter().map(|r| r.0).collect();
                self.choose.pick(&all)
            }
            (6, _) => 0,
            _ => self.choose.pick(&[1, 8, usize::MAX, usize::MAX - 63, 0xdead_0000_0000_0000, 1 << 46]),
        }
    }

    /// What a range is for a call that reads or writes it, or the code of a refusal.
    pub(super) fn spot(&self, addr: usize, len: usize, writes: bool) -> Result<Spot, i32> {
        let found = self.mirror.resolve(addr, len).filter(|spot| spot.writable || !writes);
        found.ok_or(RT_PARAM_INVALID)
    }
}
