//! One GPU: its primary context, its kernels, its events, and memory that its kernels share with us.

use super::{
    driver::{self, Code, Driver, Handle},
    fence::Watcher,
    live::Live,
    reports::Desk,
    workers::Workers,
};
use ferry_core::{
    Result,
    sync::{Arc, Mutex, lock},
};
use std::{
    ffi::{CStr, c_void},
    sync::OnceLock,
};

/// The kernels, made of the sources of these names by regenerate.sh.
const PTX: &str = concat!(include_str!("kernels.ptx"), "\0");
const SEALED: &str = concat!(include_str!("sealed.ptx"), "\0");
const REDUCE: &str = concat!(include_str!("reduce.ptx"), "\0");

/// A GPU with its primary context, the one that CUDA's other users in the process have too.
pub struct Device {
    pub driver: Arc<Driver>,
    pub workers: Arc<Workers>,
    pub watcher: Arc<Watcher>,
    handle: i32,
    context: Handle,
    kernels: Mutex<Option<Kernels>>,
    sealing: OnceLock<[Handle; 1]>,
    reducing: OnceLock<[Handle; 2]>,
    /// Allocations that descriptors name.
    pub(super) live: Live,
    /// Desks that queues have left.
    pub(super) desks: Mutex<Vec<Desk>>,
    /// The event that the device's clock counts from; it goes with the context.
    dawn: OnceLock<Handle>,
}

/// Functions of kernels.cu.
#[derive(Clone, Copy)]
pub struct Kernels {
    /// `ferry_move`.
    pub within: Handle,
}

/// While this lives, the device's context is the calling thread's; afterwards the one before is again.
pub struct Here<'a>(&'a Device);

impl Device {
    /// Keeps the primary context of the GPU that the driver calls `ordinal`, making it if nobody has.
    pub fn open(
        driver: Arc<Driver>,
        workers: Arc<Workers>,
        watcher: Arc<Watcher>,
        ordinal: u32,
    ) -> Result<Device> {
        let (mut handle, mut context) = (0, 0);
        // SAFETY: `handle` receives the device.
        let code = unsafe { (driver.calls.cuDeviceGet)(&mut handle, ordinal as i32) };
        driver.check("cuDeviceGet", code)?;
        // SAFETY: the device is valid and `context` receives its context.
        let code = unsafe { (driver.calls.cuDevicePrimaryCtxRetain)(&mut context, handle) };
        driver.check("cuDevicePrimaryCtxRetain", code)?;
        Ok(Device {
            driver,
            workers,
            watcher,
            handle,
            context,
            kernels: Mutex::new(None),
            sealing: OnceLock::new(),
            reducing: OnceLock::new(),
            live: Live::default(),
            desks: Mutex::default(),
            dawn: OnceLock::new(),
        })
    }

    /// Makes the context the calling thread's until the result is dropped.
    pub fn enter(&self) -> Result<Here<'_>> {
        // SAFETY: the context is kept as long as `self`.
        let code = unsafe { (self.driver.calls.cuCtxPushCurrent)(self.context) };
        self.check("cuCtxPushCurrent", code)?;
        Ok(Here(self))
    }

    /// As [`Driver::check`].
    pub fn check(&self, call: &str, code: Code) -> Result<()> {
        self.driver.check(call, code)
    }

    /// The kernels, loaded when first needed. The context is current.
    pub fn kernels(&self) -> Result<Kernels> {
        let mut kernels = lock(&self.kernels);
        match *kernels {
            Some(loaded) => Ok(loaded),
            None => Ok(*kernels.insert(self.load_kernels()?)),
        }
    }

    /// The kernel of sealed.cu. The context is current.
    pub fn sealing(&self) -> Result<Handle> {
        self.loaded(&self.sealing, SEALED, [c"ferry_copy_sealed"]).map(|[sealed]| sealed)
    }

    /// The kernels of reduce.cu: for runs of elements, and for one whose bytes lie apart. The context is current.
    pub fn reducing(&self) -> Result<[Handle; 2]> {
        self.loaded(&self.reducing, REDUCE, [c"ferry_reduce", c"ferry_reduce_one"])
    }

    /// Blocks of a kernel that copies inside the device.
    pub fn blocks_within(&self) -> usize {
        132
    }

    /// Page-locked memory of our own, which goes with `cuMemFreeHost`. The context is current.
    pub fn page_locked(&self, len: usize) -> Result<Handle> {
        let mut at = 0;
        let flags = driver::HOST_PORTABLE_AND_MAPPED;
        // SAFETY: `at` receives the address.
        let code = unsafe { (self.driver.calls.cuMemHostAlloc)(&mut at, len, flags) };
        self.check("cuMemHostAlloc", code).map(|()| at)
    }

    /// A new event. The context is current.
    fn event(&self, timed: bool) -> Result<Handle> {
        let mut handle = 0;
        let flags = if timed { driver::EVENT_TIMED } else { driver::EVENT_UNTIMED };
        // SAFETY: `handle` receives the event.
        let code = unsafe { (self.driver.calls.cuEventCreate)(&mut handle, flags) };
        self.check("cuEventCreate", code).map(|()| handle)
    }

    fn record(&self, event: Handle, stream: Handle) -> Result<()> {
        // SAFETY: both are alive and of one context.
        let code = unsafe { (self.driver.calls.cuEventRecord)(event, stream) };
        self.check("cuEventRecord", code)
    }

    /// Kernels that are loaded when first needed; loading them twice does no harm.
    fn loaded<const N: usize>(
        &self,
        slot: &OnceLock<[Handle; N]>,
        text: &str,
        names: [&CStr; N],
    ) -> Result<[Handle; N]> {
        if let Some(loaded) = slot.get() {
            return Ok(*loaded);
        }
        let mut module = 0;
        // SAFETY: the text ends with a zero; the module lives as long as the context.
        let code =
            unsafe { (self.driver.calls.cuModuleLoadData)(&mut module, text.as_ptr().cast::<c_void>()) };
        self.check("cuModuleLoadData", code)?;
        let mut found = [0; N];
        for (function, name) in found.iter_mut().zip(names) {
            // SAFETY: the module is loaded and the name ends with a zero.
            let code = unsafe { (self.driver.calls.cuModuleGetFunction)(function, module, name.as_ptr()) };
            self.check("cuModuleGetFunction", code)?;
        }
        Ok(*slot.get_or_init(|| found))
    }

    fn load_kernels(&self) -> Result<Kernels> {
        let mut module = 0;
        // SAFETY: the text ends with a zero; the module lives as long as the context.
        let code =
            unsafe { (self.driver.calls.cuModuleLoadData)(&mut module, PTX.as_ptr().cast::<c_void>()) };
        self.check("cuModuleLoadData", code)?;
        let find = |name: &CStr| {
            let mut function = 0;
            // SAFETY: the module is loaded and the name ends with a zero.
            let code =
                unsafe { (self.driver.calls.cuModuleGetFunction)(&mut function, module, name.as_ptr()) };
            self.check("cuModuleGetFunction", code).map(|()| function)
        };
        Ok(Kernels { within: find(c"ferry_move")? })
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        if let Ok(_here) = self.enter() {
            self.close_desks();
        }
        // SAFETY: kept by `open`; streams, events and memory of ours hold this device and so are gone.
        unsafe { (self.driver.calls.cuDevicePrimaryCtxRelease)(self.handle) };
    }
}

impl Drop for Here<'_> {
    fn drop(&mut self) {
        let mut ours = 0;
        // SAFETY: pops what `enter` pushed: guards are dropped in the reverse order of their making.
        unsafe { (self.0.driver.calls.cuCtxPopCurrent)(&mut ours) };
    }
}

/// A point of a CUDA stream.
pub struct Event {
    device: Arc<Device>,
    handle: Handle,
}

impl Event {
    /// Marks where `stream` of this device is now. The context is current.
    pub fn record(device: &Arc<Device>, stream: Handle, timed: bool) -> Result<Arc<Event>> {
        let event = Event { device: device.clone(), handle: device.event(timed)? };
        if timed && device.dawn.get().is_none() {
            let dawn = device.event(true)?;
            device.record(dawn, stream)?;
            let _ = device.dawn.set(dawn);
        }
        device.record(event.handle, stream)?;
        Ok(Arc::new(event))
    }

    /// Whether it was reached.
    pub fn is_reached(&self) -> Result<bool> {
        let _here = self.device.enter()?;
        // SAFETY: the event is alive.
        match unsafe { (self.device.driver.calls.cuEventQuery)(self.handle) } {
            driver::NOT_READY => Ok(false),
            code => self.device.check("the GPU's work", code).map(|()| true),
        }
    }

    /// Waits until it is reached or the device has failed; [`is_reached`](Self::is_reached) tells which.
    pub fn wait(&self) {
        let Ok(_here) = self.device.enter() else { return };
        // SAFETY: the event is alive.
        unsafe { (self.device.driver.calls.cuEventSynchronize)(self.handle) };
    }

    /// Holds `stream`, of any device, until it is reached. The stream's context is current.
    pub fn hold(&self, stream: Handle) -> Result<()> {
        // SAFETY: both are alive; the driver keeps what it needs of the event.
        let code = unsafe { (self.device.driver.calls.cuStreamWaitEvent)(stream, self.handle, 0) };
        self.device.check("cuStreamWaitEvent", code)
    }

    /// Milliseconds since `start` was reached: both timed, reached, and of one device.
    pub fn ms_since(&self, start: &Event) -> Option<f64> {
        self.ms_after(start.handle)
    }

    /// Milliseconds of the device's clock when this was reached, if it is timed.
    pub fn ms(&self) -> Option<f64> {
        self.ms_after(*self.device.dawn.get()?)
    }

    fn ms_after(&self, start: Handle) -> Option<f64> {
        let _here = self.device.enter().ok()?;
        let mut ms = 0.0;
        // SAFETY: both are alive.
        let code = unsafe { (self.device.driver.calls.cuEventElapsedTime)(&mut ms, start, self.handle) };
        (code == driver::SUCCESS).then_some(f64::from(ms))
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let Ok(_here) = self.device.enter() else { return };
        // SAFETY: made by `record` and known to nobody else; the driver finishes what waits for it.
        unsafe { (self.device.driver.calls.cuEventDestroy)(self.handle) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::{fs, path::Path};

    /// What the POSIX tool `cksum` says of these bytes.
    fn cksum(bytes: &[u8]) -> u32 {
        let len = (0..8).map(|byte| (bytes.len() >> (8 * byte)) as u8);
        let len = len.take(bytes.len().ilog2() as usize / 8 + 1);
        !bytes.iter().copied().chain(len).fold(0_u32, |sum, byte| {
            (0..8).fold(sum ^ u32::from(byte) << 24, |sum, _| {
                sum << 1 ^ if sum >> 31 == 1 { 0x04c1_1db7 } else { 0 }
            })
        })
    }

    /// What regenerate.sh sums up: the flags, the headers, the source.
    fn made_of(folder: &Path, source: &str) -> Vec<u8> {
        let script = fs::read_to_string(folder.join("regenerate.sh")).expect("the script");
        let flags = script.lines().find_map(|line| line.strip_prefix("flags='")?.strip_suffix("'"));
        let headers = source.lines().filter_map(|line| line.strip_prefix("#include \"")?.strip_suffix('"'));
        let headers = headers.map(|name| fs::read_to_string(folder.join(name)).expect(name));
        let flags = format!("{}\n", flags.expect("its flags"));
        [flags].into_iter().chain(headers).chain([source.into()]).collect::<String>().into_bytes()
    }

    #[test]
    fn the_shipped_kernels_were_made_of_the_shipped_sources() {
        assert_eq!(cksum(b"123456789"), 930_766_865, "as POSIX has it");
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cuda");
        let files = fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").path());
        let sources: Vec<_> = files.filter(|path| path.extension().is_some_and(|it| it == "cu")).collect();
        assert!(!sources.is_empty(), "{}", folder.display());
        for path in sources {
            let source = fs::read_to_string(&path).expect("a source");
            let ptx = fs::read_to_string(path.with_extension("ptx")).expect("run regenerate.sh");
            let want = format!("cksum {}", cksum(&made_of(&folder, &source)));
            let first = ptx.lines().next().unwrap_or_default();
            assert!(first.ends_with(&want), "run regenerate.sh: {} wants {want}: {first}", path.display());
            let names = source.lines().filter_map(|line| line.strip_prefix("KERNEL ")?.split('(').next());
            for name in names {
                assert!(ptx.contains(&format!(".visible .entry {name}(")), "{name}");
            }
        }
    }
}
