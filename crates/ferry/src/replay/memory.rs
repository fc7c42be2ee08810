//! The memory of a replay: an allocation for each recorded one.

use crate::{Error, Kind, Result};
use ferry_core::{DeviceId, Home, Op, Plan, QueueOptions, Request, Rows, Runtime, Stream};
use ferry_watch::{
    fact::Origin,
    recording::{Allocation, Location, Recording},
};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Pages of allocations.
const PAGE: usize = 4096;

/// The allocations of a replay, by the number of the recorded one.
pub(super) struct ReplayMemory {
    runtime: Arc<Runtime>,
    recorded: Vec<Allocation>,
    made: Vec<OnceLock<usize>>,
    /// Memory of the host that no backend gave. It stays until the end.
    plain: Mutex<Vec<Vec<u8>>>,
    devices: u32,
    /// Copies that are waited for at once use a stream of their own for each device.
    quiet: Mutex<Vec<Option<Arc<Stream>>>>,
}

impl ReplayMemory {
    pub(super) fn new(recording: &Recording, runtime: Arc<Runtime>) -> ReplayMemory {
        let devices = runtime.backend().device_count() as u32;
        ReplayMemory {
            recorded: recording.allocations.clone(),
            made: recording.allocations.iter().map(|_| OnceLock::new()).collect(),
            plain: Mutex::default(),
            quiet: Mutex::new(vec![None; devices as usize]),
            devices,
            runtime,
        }
    }

    /// The device that takes the place of a recorded one. Where there are fewer, several have the same.
    pub(super) fn device(&self, recorded: u32) -> DeviceId {
        recorded % self.devices
    }

    /// Whether it is pageable memory, which is there from the beginning.
    pub(super) fn is_area(&self, number: u32) -> bool {
        self.recorded[number as usize].origin.is_none()
    }

    /// Makes all pageable memory.
    pub(super) fn make_areas(&self) {
        for (number, recorded) in self.recorded.iter().enumerate() {
            if recorded.origin.is_none() {
                let _ = self.made[number].set(self.plain_memory(recorded.len as usize));
            }
        }
    }

    /// Memory of this process's own, on pages of its own.
    fn plain_memory(&self, len: usize) -> usize {
        let memory = vec![0; len + PAGE];
        let base = (memory.as_ptr() as usize).next_multiple_of(PAGE);
        self.plain.lock().unwrap_or_else(PoisonError::into_inner).push(memory);
        base
    }

    /// Makes memory as the program did.
    pub(super) fn allocate(&self, number: u32) -> Result<()> {
        let recorded = &self.recorded[number as usize];
        let len = recorded.len as usize;
        let base = match (recorded.origin, recorded.device) {
            (Some(Origin::Registered), None) => {
                let base = self.plain_memory(len);
                self.runtime.register(base, len)?;
                base
            }
            (_, device) => {
                let home = device.map_or(Home::Host, |device| Home::Device(self.device(device)));
                self.runtime.alloc(&Request { home, len, page: PAGE })?.base
            }
        };
        let _ = self.made[number as usize].set(base);
        Ok(())
    }

    /// Frees memory as the program did.
    pub(super) fn free(&self, number: u32) -> Result<()> {
        match self.made[number as usize].get() {
            Some(base) => self.runtime.free(*base, |_| Ok(())).map(drop),
            None => Ok(()),
        }
    }

    /// The address of a byte.
    pub(super) fn address(&self, at: Location) -> Result<usize> {
        let base = self.made.get(at.allocation as usize).and_then(OnceLock::get);
        base.map(|base| base.wrapping_add_signed(at.offset as isize)).ok_or_else(|| never_made(at.allocation))
    }

    /// Whether the CPU can reach it.
    pub(super) fn is_host(&self, number: u32) -> bool {
        self.recorded[number as usize].device.is_none()
    }

    /// Writes bytes before it returns.
    pub(super) fn write_at_once(&self, number: u32, offset: u64, bytes: &[u8]) -> Result<()> {
        let dst = self.address(Location { allocation: number, offset: offset as i64 })?;
        match self.recorded[number as usize].device {
            // SAFETY: the bytes lie inside the allocation, since the recording's limits were checked, and the
            // flow says that nothing else is at them.
            None => unsafe { (dst as *mut u8).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) },
            Some(device) => {
                self.copy_at_once(device, Rows::linear(dst, bytes.as_ptr() as usize, bytes.len()))?
            }
        }
        Ok(())
    }

    /// Copies before it returns. The caller has borrowed plain memory for as long.
    pub(super) fn copy_at_once(&self, device: u32, rows: Rows) -> Result<()> {
        let stream = self.quiet_stream(self.device(device))?;
        let plan = |memory: &ferry_core::Memory| {
            Plan::new([rows], memory, |_, _| Ok(())).map(Op::Copy).map_err(|misfit| misfit.error)
        };
        // SAFETY: the copy has passed when this returns.
        unsafe { stream.submit(plan) }?;
        stream.synchronize(None)
    }

    fn quiet_stream(&self, device: DeviceId) -> Result<Arc<Stream>> {
        let mut quiet = self.quiet.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut quiet[device as usize] {
            Some(stream) => Ok(stream.clone()),
            none => {
                let stream = self.runtime.stream(device, QueueOptions { waited: true })?;
                Ok(none.insert(stream).clone())
            }
        }
    }
}

#[cold]
fn never_made(number: u32) -> Error {
    Kind::BadAddress.because(format!("allocation {number} of the recording was used before it was made"))
}
