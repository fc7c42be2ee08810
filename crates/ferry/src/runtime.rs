//! A runtime and its devices: where streams and memory come from.

use crate::{Kind, Options, Result, engine};
use ferry_core::{Block, DeviceId, Home, Op, Plan, QueueOptions, Request, Rows, Stream as CoreStream};
use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

const NORMAL_PAGE: usize = 4 << 10;
const HUGE_PAGE: usize = 2 << 20;

/// A backend and all that was made with it. A handle, cheap to clone: streams, buffers and events hold one
/// too, so the last of them to go closes the runtime. Several runtimes know nothing of each other.
///
/// ```
/// use ferry::{Options, Runtime};
///
/// let options = Options { devices: Some(4), device_memory: Some(64 << 20), ..Default::default() };
/// let runtime = Runtime::open(&options)?;
/// assert_eq!(runtime.device_count(), 4);
/// # Ok::<(), ferry::Error>(())
/// ```
#[derive(Clone)]
pub struct Runtime {
    pub(crate) shared: Arc<RuntimeInner>,
}

/// What the handles of one runtime share.
pub(crate) struct RuntimeInner {
    pub(crate) core: ferry_core::Runtime,
    pub(crate) options: Options,
    devices: Vec<Traffic>,
}

/// The streams of one device.
#[derive(Default)]
struct Traffic {
    /// Streams that users hold.
    open: AtomicUsize,
    /// Streams for calls that wait at once; who needs one takes it.
    quiet: Mutex<Vec<Arc<CoreStream>>>,
}

/// One of a runtime's devices. A handle, cheap to clone.
///
/// ```
/// let device = ferry::Runtime::new()?.device(0)?;
/// let info = device.memory_info()?;
/// println!("device {} has {} of {} bytes free", device.id(), info.free, info.total);
/// # Ok::<(), ferry::Error>(())
/// ```
#[derive(Clone)]
pub struct Device {
    runtime: Runtime,
    id: DeviceId,
}

/// What [`Device::memory_info`] tells, in bytes.
///
/// ```
/// let info = ferry::Runtime::new()?.device(0)?.memory_info()?;
/// assert!(info.free <= info.total);
/// # Ok::<(), ferry::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryInfo {
    /// What can be allocated. Freed memory that copies in flight still use is not free.
    pub free: usize,
    /// All there is.
    pub total: usize,
}

impl Runtime {
    /// Opens what the environment asks for ([`Options::from_env`]): without any settings, two devices of the
    /// host backend.
    ///
    /// ```
    /// let runtime = ferry::Runtime::new()?;
    /// println!("{} devices of the {} backend", runtime.device_count(), runtime.backend());
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn new() -> Result<Runtime> {
        Runtime::open(&Options::from_env()?)
    }

    /// Opens what the options ask for.
    ///
    /// ```
    /// use ferry::{BackendName, Kind, Options, Runtime};
    ///
    /// match Runtime::open(&Options { backend: BackendName::Cuda, ..Default::default() }) {
    ///     Ok(runtime) => println!("{} GPUs", runtime.device_count()),
    ///     Err(error) => println!("no GPU here: {error}"),
    /// }
    /// ```
    pub fn open(options: &Options) -> Result<Runtime> {
        let core = engine::open(options)?;
        let devices = (0..core.backend().device_count()).map(|_| Traffic::default()).collect();
        Ok(Runtime { shared: Arc::new(RuntimeInner { core, options: options.clone(), devices }) })
    }

    /// The name of the backend.
    ///
    /// ```
    /// let runtime = ferry::Runtime::open(&Default::default())?;
    /// assert_eq!(runtime.backend(), "host");
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn backend(&self) -> &'static str {
        self.shared.core.backend().name()
    }

    /// What it was opened with.
    ///
    /// ```
    /// let runtime = ferry::Runtime::open(&ferry::Options::default().soc("Ascend310P3")?)?;
    /// assert_eq!(runtime.options().product.tag, "INF");
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn options(&self) -> &Options {
        &self.shared.options
    }

    /// How many devices there are; they are numbered from 0.
    ///
    /// ```
    /// assert!(ferry::Runtime::new()?.device_count() > 0);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn device_count(&self) -> usize {
        self.shared.devices.len()
    }

    /// A device by its number.
    ///
    /// ```
    /// let runtime = ferry::Runtime::new()?;
    /// assert_eq!(runtime.device(0)?.id(), 0);
    /// assert_eq!(runtime.device(1000).unwrap_err().kind, ferry::Kind::NoDevice);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn device(&self, id: u32) -> Result<Device> {
        match self.device_count() {
            count if (id as usize) < count => Ok(Device::of(self.clone(), id)),
            count => Err(no_device(id, count)),
        }
    }

    /// All devices.
    ///
    /// ```
    /// for device in ferry::Runtime::new()?.devices() {
    ///     println!("{device:?}: {:?}", device.memory_info()?);
    /// }
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn devices(&self) -> impl Iterator<Item = Device> {
        let runtime = self.clone();
        (0..self.device_count() as u32).map(move |id| Device::of(runtime.clone(), id))
    }
}

#[cold]
fn no_device(id: u32, count: usize) -> crate::Error {
    Kind::NoDevice.because(match count {
        0 => format!("there is no device {id}: this runtime has none"),
        1 => format!("there is no device {id}: there is one, device 0"),
        _ => format!("there is no device {id}: there are {count}, from 0 to {}", count - 1),
    })
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Runtime({} devices, {})", self.device_count(), self.backend())
    }
}

impl Device {
    pub(crate) fn of(runtime: Runtime, id: DeviceId) -> Device {
        Device { runtime, id }
    }

    pub(crate) fn shared(&self) -> &Arc<RuntimeInner> {
        &self.runtime.shared
    }

    /// Its number.
    ///
    /// ```
    /// assert_eq!(ferry::Runtime::new()?.device(1)?.id(), 1);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The runtime it belongs to.
    ///
    /// ```
    /// let device = ferry::Runtime::new()?.device(0)?;
    /// let host = device.runtime().alloc_host::<u8>(100)?;
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Free and total memory.
    ///
    /// ```
    /// let device = ferry::Runtime::new()?.device(0)?;
    /// let before = device.memory_info()?.free;
    /// let buffer = device.alloc::<u8>(1 << 20)?;
    /// assert!(device.memory_info()?.free <= before - (1 << 20));
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn memory_info(&self) -> Result<MemoryInfo> {
        let (free, total) = self.shared().core.memory_info(self.id)?;
        Ok(MemoryInfo { free, total })
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Device) -> bool {
        self.id == other.id && Arc::ptr_eq(self.shared(), other.shared())
    }
}

impl Eq for Device {}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({} of {:?})", self.id, self.runtime)
    }
}

impl RuntimeInner {
    /// Memory for `len` elements. What prefers huge pages takes normal ones where those run short.
    pub(crate) fn alloc<T>(&self, home: Home, len: usize) -> Result<Block> {
        let too_much = || Kind::OutOfMemory.because(format!("{len} elements of {} bytes", size_of::<T>()));
        let bytes = len.checked_mul(size_of::<T>()).filter(|bytes| *bytes <= isize::MAX as usize);
        let len = bytes.ok_or_else(too_much)?.max(1);
        let least = NORMAL_PAGE.max(align_of::<T>());
        let page =
            if len > HUGE_PAGE / 2 && matches!(home, Home::Device(_)) { HUGE_PAGE.max(least) } else { least };
        self.core.alloc(&Request { home, len, page }).or_else(|error| match error.kind {
            Kind::OutOfMemory if page > least => self.core.alloc(&Request { home, len, page: least }),
            _ => Err(error),
        })
    }

    /// Submits something to a stream that is not in use now, and waits for it.
    pub(crate) fn at_once(
        &self,
        device: DeviceId,
        submit: impl FnOnce(&CoreStream) -> Result<()>,
    ) -> Result<()> {
        let quiet = &self.devices[device as usize].quiet;
        let spare = quiet.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let stream = spare.map_or_else(|| self.core.stream(device, QueueOptions { waited: true }), Ok)?;
        let submitted = submit(&stream);
        let waited = crate::pending::synchronize(&stream);
        quiet.lock().unwrap_or_else(PoisonError::into_inner).push(stream);
        submitted.and(waited)
    }

    /// Copies these rows, of which the host side may be plain memory that the caller has borrowed, before it
    /// returns.
    pub(crate) fn copy_at_once(&self, device: DeviceId, rows: Rows) -> Result<()> {
        self.at_once(device, |core| {
            let plan = |memory: &ferry_core::Memory| Plan::new([rows], memory, |_, _| Ok(())).map(Op::Copy);
            // SAFETY: `at_once` returns when the op has passed, and the caller's borrow lasts until then.
            unsafe { core.submit(plan) }.map(drop).map_err(|misfit| misfit.error)
        })
    }
}

/// One of the streams that the product allows on a device; given back when dropped.
pub(crate) struct StreamQuota {
    pub(crate) runtime: Arc<RuntimeInner>,
    device: DeviceId,
}

impl StreamQuota {
    pub(crate) fn take(runtime: &Arc<RuntimeInner>, device: DeviceId) -> Result<StreamQuota> {
        let (open, most) = (&runtime.devices[device as usize].open, runtime.options.product.max_streams);
        if open.fetch_add(1, Ordering::Relaxed) < most {
            return Ok(StreamQuota { runtime: runtime.clone(), device });
        }
        open.fetch_sub(1, Ordering::Relaxed);
        let soc = runtime.options.product.soc;
        Err(Kind::LimitReached.because(format!("device {device} has {most} streams, all that {soc} has")))
    }
}

impl Drop for StreamQuota {
    fn drop(&mut self) {
        self.runtime.devices[self.device as usize].open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The number by which extents know their runtime.
pub(crate) fn owner(runtime: &Arc<RuntimeInner>) -> usize {
    Arc::as_ptr(runtime) as usize
}
