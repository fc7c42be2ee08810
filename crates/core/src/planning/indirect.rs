//! Sealing descriptors, and planning late-bound copies when a backend has read their addresses.

use crate::{
    Block, DeviceId, Ends, Home, Kind, Memory, Place, Plan, Recent, Result, Rows, Segment,
    indirect::{DESCRIPTOR_WORDS, Resolver, seal},
};

impl Memory {
    /// The words of a descriptor of this copy, in the user's addresses. The caller has checked that the copy
    /// could run now.
    pub fn seal(&self, dst: usize, src: usize, len: usize) -> Result<[u64; DESCRIPTOR_WORDS]> {
        let stamps = match len {
            0 => [0; 2],
            _ => [self.stamp(src)?, self.stamp(dst)?],
        };
        Ok(seal(self.seal_key(), src as u64, dst as u64, len as u64, stamps))
    }

    /// The backend's stamp of the block around `addr`; 0 for memory of other libraries, whose lifetime is not
    /// known here.
    fn stamp(&self, addr: usize) -> Result<u64> {
        let Some(block) = self.table().find(addr) else { return Ok(0) };
        let Some(watch) = self.backend().block_watch() else { return Ok(0) };
        let stamp = watch.stamp(&block)?;
        // Freed meanwhile, and the backend may have been told of that before it was asked for the stamp: it
        // is told again. Where a block begins at the same address again the stamp is that one's, and goes
        // with it.
        if self.table().find(addr).is_none_or(|now| now.base != block.base) {
            watch.forgotten(&block);
        }
        Ok(stamp)
    }
}

impl Resolver for Memory {
    fn plan(&self, (dst, src, len): (usize, usize, usize), device: DeviceId) -> Result<Plan> {
        let rows = Rows::linear(dst, src, len);
        Plan::new([rows], self, |_, ends| self.are_inside(ends, device)).map_err(|misfit| misfit.error)
    }

    fn plan_linear(
        &self,
        ends: (usize, usize, usize),
        device: DeviceId,
        recent: &mut Recent,
    ) -> Option<Segment> {
        let fits = |ends: &Ends| self.are_inside(ends, device).is_ok();
        let copy = recent.find(ends, device as i32, self.table(), fits, |_| ())?;
        Some(copy.segment())
    }

    fn seal_key(&self) -> u64 {
        self.seal_key()
    }

    fn engine_address(&self, addr: usize) -> Option<usize> {
        self.table().look_up(addr, 1).map(|part| part.engine_address(addr))
    }

    fn has_mappings(&self) -> bool {
        self.has_mappings()
    }
}

impl Memory {
    /// Whether both ends lie in `device`.
    fn are_inside(&self, ends: &Ends, device: DeviceId) -> Result<()> {
        let fits = |place: &Place| match place {
            Place::Known(Block { home: Home::Host, .. }) => self.is_unified(),
            other => other.device() == Some(device),
        };
        if fits(&ends.dst) && fits(&ends.src) {
            return Ok(());
        }
        Err(Kind::BadRoute.because(format!(
            "both ends must lie in device {device}; the destination is {}, the source is {}",
            ends.dst, ends.src
        )))
    }
}
