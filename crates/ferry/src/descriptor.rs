//! Copies whose ends are read when they run.
//!
//! The words of a descriptor are device memory that no safe program can reach: whoever could write them could
//! write any address that the device can.

use crate::{
    Device, DeviceBuffer, DeviceSlice, Element, HostBuffer, Kind, Result, Stream,
    device::Allocation,
    extent::{Extent, KEY, join},
    memory::OnDevice,
    runtime::owner,
};
use ferry_core::{
    Access, DeviceId, Error, Indirect, Memory, Op, Stream as CoreStream, Ticket,
    indirect::{DESCRIPTOR_WORDS, Through},
};
use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// A copy inside a device, written down in device memory: [`Stream::run`] reads it when its turn comes, not
/// when it is submitted. So a copy that is queued already can be pointed elsewhere: at once by
/// [`set`](Self::set), or in stream order by [`Stream::set_descriptor`].
///
/// ```
/// let device = ferry::Runtime::new()?.device(0)?;
/// let stream = device.stream()?;
/// let (old, new, to) = (device.alloc_from(b"old")?, device.alloc_from(b"new")?, device.alloc::<u8>(3)?);
/// let descriptor = device.descriptor()?;
/// descriptor.set(&to, &old)?;
///
/// stream.set_descriptor(&descriptor, &to, &new)?;
/// stream.run(&descriptor)?;
/// assert_eq!(stream.read_vec(&to)?, *b"new");
/// # Ok::<(), ferry::Error>(())
/// ```
pub struct Descriptor {
    words: DeviceBuffer<u64>,
    /// What the words name, or may come to name: allocated as long as that is so.
    named: Mutex<Vec<NamedEnds>>,
}

/// The ends of one setting, and the op that writes it down; none if it was written at once.
struct NamedEnds {
    ends: [Arc<Allocation>; 2],
    by: Option<(Arc<CoreStream>, Ticket)>,
}

impl NamedEnds {
    /// Whether the same stream has named the same ends.
    fn is_again(&self, [dst, src]: &[Arc<Allocation>; 2], stream: &Arc<CoreStream>) -> bool {
        let is_same = Arc::ptr_eq(&self.ends[0], dst) && Arc::ptr_eq(&self.ends[1], src);
        is_same && self.by.as_ref().is_some_and(|(by, _)| Arc::ptr_eq(by, stream))
    }

    /// Whether it will not be written any more.
    fn is_past(&self) -> bool {
        self.by.as_ref().is_none_or(|(stream, ticket)| stream.has_passed(*ticket))
    }
}

impl Device {
    /// A descriptor of copies inside this device, not set yet.
    ///
    /// ```
    /// let device = ferry::Runtime::new()?.device(0)?;
    /// let descriptor = device.descriptor()?;
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn descriptor(&self) -> Result<Descriptor> {
        Descriptor::new(self)
    }
}

impl Descriptor {
    pub(crate) fn new(device: &Device) -> Result<Descriptor> {
        Ok(Descriptor { words: device.alloc_zeroed(DESCRIPTOR_WORDS)?, named: Mutex::default() })
    }

    /// From here on the descriptor says: copy `src` to `dst`. All three are on one device. Copies that were
    /// submitted and have not run yet do what it says now; one that runs at this very moment may find half of
    /// it written and fail.
    ///
    /// ```
    /// let device = ferry::Runtime::new()?.device(0)?;
    /// let (from, to) = (device.alloc_from(&[1_u8, 2])?, device.alloc::<u8>(1)?);
    /// let descriptor = device.descriptor()?;
    /// descriptor.set(&to, from.slice(1..)?)?;
    /// assert!(descriptor.set(&to, &from).is_err(), "2 elements into 1");
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn set<'a, T: Element>(
        &self,
        dst: impl Into<DeviceSlice<'a, T>>,
        src: impl Into<DeviceSlice<'a, T>>,
    ) -> Result<()> {
        let (words, ends) = self.seal(dst.into(), src.into())?;
        let (mut named, device) = (self.named(), self.words.device());
        // What was written down by now is about to be overwritten; what is still queued comes later.
        let overwritten: Vec<_> = named.extract_if(.., |named| named.is_past()).collect();
        named.push(NamedEnds { ends, by: None });
        let rows = join(self.words.extent(KEY), Extent::of_slice(&words), size_of::<u64>())?;
        let written = device.shared().copy_at_once(device.id(), rows);
        if written.is_err() {
            named.extend(overwritten);
        }
        written
    }

    /// The words of a copy, and what it names.
    fn seal<T: Element>(
        &self,
        dst: DeviceSlice<'_, T>,
        src: DeviceSlice<'_, T>,
    ) -> Result<([u64; DESCRIPTOR_WORDS], [Arc<Allocation>; 2])> {
        let device = self.words.device();
        for (name, end) in [("destination", &dst), ("source", &src)] {
            if end.owner() != owner(device.shared()) {
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
        let words = device.shared().core.memory().seal(copy.dst, copy.src, copy.width)?;
        Ok((words, [dst.block().clone(), src.block().clone()]))
    }

    fn named(&self) -> MutexGuard<'_, Vec<NamedEnds>> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn words(&self) -> DeviceSlice<'_, u64> {
        self.words.as_slice()
    }

    fn device_id(&self) -> DeviceId {
        self.words().device_id()
    }
}

impl Stream {
    /// Copies what the descriptor says when its turn comes. If it was never set, or names memory that is gone
    /// by then, nothing is copied, and [`synchronize`](Self::synchronize) tells.
    ///
    /// ```
    /// # let device = ferry::Runtime::new()?.device(0)?;
    /// # let stream = device.stream()?;
    /// let descriptor = device.descriptor()?;
    /// stream.run(&descriptor)?;
    /// assert_eq!(stream.synchronize().unwrap_err().kind, ferry::Kind::BadDescriptor);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn run(&self, descriptor: &Descriptor) -> Result<()> {
        let (words, device) = (descriptor.words(), self.core().device());
        self.is_ours(&words.extent(KEY))?;
        if words.device_id() != device {
            let note = format!("{descriptor:?} is not on the stream's device, which is {device}");
            return Err(Kind::BadRoute.because(note));
        }
        let make = |memory: &Memory| {
            let at = memory.place(words.addr(), 8 * words.len(), Access::Read)?.engine_address(words.addr());
            let through = Through::Descriptor { at, user: words.addr() };
            Ok::<_, Error>(Op::CopyThrough(Indirect { call: "Stream::run", device, through }))
        };
        // SAFETY: the op reads the descriptor, which is known memory; what it names is looked up when it
        // runs.
        unsafe { self.core().submit(make) }.map(drop)
    }

    /// As [`Descriptor::set`], in stream order: when the stream comes to it, the descriptor is written; what
    /// runs before finds what it said until then. What is named this way stays allocated until
    /// [`Descriptor::set`] is called, or the descriptor is dropped.
    ///
    /// ```
    /// let device = ferry::Runtime::new()?.device(0)?;
    /// let stream = device.stream()?;
    /// let (a, b, to) = (device.alloc_from(b"a")?, device.alloc_from(b"b")?, device.alloc::<u8>(2)?);
    /// let descriptor = device.descriptor()?;
    /// stream.set_descriptor(&descriptor, to.slice(..1)?, &a)?;
    /// stream.run(&descriptor)?;
    /// stream.set_descriptor(&descriptor, to.slice(1..)?, &b)?;
    /// stream.run(&descriptor)?;
    /// assert_eq!(stream.read_vec(&to)?, *b"ab");
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn set_descriptor<'a, T: Element>(
        &self,
        descriptor: &Descriptor,
        dst: impl Into<DeviceSlice<'a, T>>,
        src: impl Into<DeviceSlice<'a, T>>,
    ) -> Result<()> {
        let (words, ends) = descriptor.seal(dst.into(), src.into())?;
        let runtime = self.device().shared().clone();
        let mut named = descriptor.named();
        let token = self.upload(descriptor.words(), HostBuffer::copied(&runtime, &words)?)?;
        let by = Some((self.core().clone(), token.ticket()));
        // An abort may drop this one, so nothing that was named before is let go of; but the same ends need
        // be there once.
        match named.iter_mut().find(|named| named.is_again(&ends, self.core())) {
            Some(again) => again.by = by,
            None => named.push(NamedEnds { ends, by }),
        }
        Ok(())
    }
}

impl fmt::Debug for Descriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Descriptor(at {:#x} on device {})", self.words.addr(), self.device_id())
    }
}
