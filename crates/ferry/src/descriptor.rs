//! Copies whose ends are read when they run.

use crate::{
    Device, DeviceBuffer, DeviceSlice, Kind, Result,
    device::Allocation,
    extent::{Extent, KEY, join},
    memory::OnDevice,
};
use bytemuck::Pod;
use ferry_core::indirect::{DESCRIPTOR_WORDS, seal};
use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

/// A copy inside a device, written down in device memory: [`Stream::run`](crate::Stream::run) reads it when its turn comes, not when it
/// is submitted. So a copy that is queued already can be pointed elsewhere, by [`set`](Self::set) or by an earlier copy of the
/// stream that writes one descriptor over another.
///
/// ```
/// let device = ferry::Runtime::new()?.device(0)?;
/// let stream = device.stream()?;
/// let (old, new, to) = (device.alloc_from(b"old")?, device.alloc_from(b"new")?, device.alloc::<u8>(3)?);
/// let (descriptor, spare) = (device.descriptor()?, device.descriptor()?);
/// descriptor.set(&to, &old)?;
/// spare.set(&to, &new)?;
///
/// stream.copy(descriptor.as_slice(), spare.as_slice())?;
/// stream.run(&descriptor)?;
/// assert_eq!(stream.read_vec(&to)?, *b"new");
/// # Ok::<(), ferry::Error>(())
/// ```
pub struct Descriptor {
    words: DeviceBuffer<u64>,
    /// What it names stays allocated as long as it does.
    ends: Mutex<[Option<Arc<Allocation>>; 2]>,
}

impl Descriptor {
    pub(crate) fn new(device: &Device) -> Result<Descriptor> {
        Ok(Descriptor { words: device.alloc_zeroed(DESCRIPTOR_WORDS)?, ends: Mutex::default() })
    }

    /// From here on the descriptor says: copy `src` to `dst`. All three are on one device. Copies that were submitted and have
    /// not run yet do what it says now.
    ///
    /// ```
    /// let device = ferry::Runtime::new()?.device(0)?;
    /// let (from, to) = (device.alloc_from(&[1_u8, 2])?, device.alloc::<u8>(1)?);
    /// let descriptor = device.descriptor()?;
    /// descriptor.set(&to, from.slice(1..)?)?;
    /// assert!(descriptor.set(&to, &from).is_err(), "2 elements into 1");
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn set<'a, T: Pod>(
        &self,
        dst: impl Into<DeviceSlice<'a, T>>,
        src: impl Into<DeviceSlice<'a, T>>,
    ) -> Result<()> {
        let (dst, src, device) = (dst.into(), src.into(), self.words.device());
        let runtime = device.shared();
        for (name, end) in [("destination", &dst), ("source", &src)] {
            if end.owner() != crate::extent::owner(runtime) {
                return Err(
                    Kind::BadRoute.because(format!("the {name}, {end:?}, belongs to another runtime"))
                );
            }
            if end.device_id() != device.id() {
                let note = format!("the {name} is {end:?}, the descriptor is on device {}", device.id());
                return Err(Kind::BadRoute.because(note));
            }
        }
        let copy = join(dst.extent(KEY), src.extent(KEY), size_of::<T>())?;
        let words = seal(runtime.core.memory().seal_key(), copy.dst, copy.src, copy.width);
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        runtime.copy_at_once(device.id(), join(self.words.extent(KEY), Extent::of_slice(&words), 8)?)?;
        *ends = [Some(dst.block().clone()), Some(src.block().clone())];
        Ok(())
    }

    /// Where it is written down: plain device memory, which may be copied like any other.
    ///
    /// ```
    /// let descriptor = ferry::Runtime::new()?.device(0)?.descriptor()?;
    /// println!("a descriptor takes {} words", descriptor.as_slice().len());
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn as_slice(&self) -> DeviceSlice<'_, u64> {
        self.words.as_slice()
    }
}

impl fmt::Debug for Descriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Descriptor(at {:#x} on device {})", self.words.addr(), self.as_slice().device_id())
    }
}
