//! One GPU: its primary context, its kernels, and what its queues share.

use crate::cuda::{
    coalesce::sender::Sender,
    descriptors::reports::Sealing,
    driver::errors,
    driver::{self, Code, Driver, Handle},
    memory::registered::Registered,
    order::fence::Watcher,
    order::queue::Lane,
    shared::bounce::Bounces,
    shared::holds::Holds,
    shared::latch::Words,
    staging::crew::Desks,
    stream::bell::Bells,
    stream::events::Events,
    stream::ring::{Lists, Loan},
    stream::settings::{Constants, Settings},
    stream::streams::Spares,
    workers::Workers,
};
use crate::{litter::Litter, os::threads::cancel::Cancelling};
use ferry_core::{
    Error, Result,
    sync::{Apart, Arc, Mutex},
};
use std::{
    ffi::{CStr, c_void},
    fmt,
    sync::OnceLock,
};

/// The kernels, made of the sources of these names by regenerate.sh.
const PTX: &str = concat!(include_str!("kernels/kernels.ptx"), "\0");
const REDUCE: &str = concat!(include_str!("kernels/reduce.ptx"), "\0");

/// A GPU with its primary context, the one that CUDA's other users in the process have too.
pub struct Device {
    pub driver: Arc<Driver>,
    pub workers: Arc<Workers>,
    /// Functions of the user's that will not run.
    pub litter: Arc<Litter>,
    pub watcher: Arc<Watcher>,
    /// The planner's numbers for this GPU.
    pub constants: Apart<Constants>,
    lists: Lists,
    pub bells: Bells,
    /// Where copies of pageable memory are staged.
    pub desks: Desks,
    handle: i32,
    pub context: Handle,
    /// Of streams that are shared with other libraries, those of other devices too.
    pub holds: Arc<Holds>,
    /// What the driver has page-locked for all devices.
    pub registered: Arc<Mutex<Registered>>,
    /// For those streams.
    pub words: Words,
    /// Whoever submits looks at it.
    lost: Apart<OnceLock<Error>>,
    kernels: OnceLock<[Handle; 4]>,
    reducing: OnceLock<[Handle; 2]>,
    pub spares: Spares,
    /// For copies that go through memory of the host.
    pub bounces: Bounces,
    /// For descriptors that the GPU reads.
    pub sealing: Sealing,
    pub events: Events,
    pub sender: Arc<Sender<Lane>>,
}

/// Functions of kernels.cu.
#[derive(Clone, Copy)]
pub struct Kernels {
    /// `ferry_move`.
    pub within: Handle,
    /// `ferry_pieces`.
    pub pieces: Handle,
    /// `ferry_pieces_inline`.
    pub few: Handle,
    /// `ferry_rows`.
    pub rows: Handle,
}

/// While this lives, the device's context is the calling thread's; afterwards the one before is again. The thread cannot be cancelled
/// meanwhile: it may be in the short way of a copy, which lets it, and the driver makes system calls.
pub struct Here<'a> {
    device: &'a Device,
    cancelling: Cancelling,
}

impl Device {
    /// Keeps the primary context of the GPU that the driver calls `ordinal`, making it if nobody has.
    pub fn open(
        driver: Arc<Driver>,
        workers: Arc<Workers>,
        watcher: Arc<Watcher>,
        holds: Arc<Holds>,
        registered: Arc<Mutex<Registered>>,
        ordinal: u32,
        settings: &Settings,
    ) -> Result<Device> {
        let (mut handle, mut context) = (0, 0);
        // SAFETY: `handle` receives the device.
        let code = unsafe { (driver.calls.cuDeviceGet)(&mut handle, ordinal as i32) };
        driver.check("cuDeviceGet", code)?;
        // SAFETY: the device is valid and `context` receives its context.
        let code = unsafe { (driver.calls.cuDevicePrimaryCtxRetain)(&mut context, handle) };
        driver.check("cuDevicePrimaryCtxRetain", code)?;
        const GUESS: i32 = 32;
        let multiprocessors = attribute(&driver, handle, driver::MULTIPROCESSORS).unwrap_or(GUESS);
        let constants = settings.constants.on(multiprocessors.max(1) as usize);
        Ok(Device {
            driver,
            workers,
            litter: Arc::default(),
            watcher,
            constants: Apart(constants),
            lists: Lists::default(),
            bells: Bells::default(),
            desks: Desks::new(settings.stagers),
            handle,
            context,
            holds,
            registered,
            words: Words::default(),
            lost: Apart::default(),
            kernels: OnceLock::new(),
            reducing: OnceLock::new(),
            spares: Spares::default(),
            bounces: Bounces::default(),
            sealing: Sealing::default(),
            events: Events::default(),
            sender: Arc::default(),
        })
    }

    /// Whether its streams can wait for a number in memory, as far as the driver says.
    pub fn can_hold_streams(&self) -> bool {
        let is_refused = attribute(&self.driver, self.handle, driver::STREAMS_WAIT_FOR_NUMBERS) == Some(0);
        self.driver.calls.cuStreamWaitValue64.is_some() && !is_refused
    }

    /// Makes the context the calling thread's until the result is dropped. Fails at once if the device is lost.
    pub fn enter(&self) -> Result<Here<'_>> {
        if let Some(why) = self.lost() {
            return Err(why.clone());
        }
        let cancelling = Cancelling::off();
        // SAFETY: the context is kept as long as `self`.
        let code = unsafe { (self.driver.calls.cuCtxPushCurrent)(self.context) };
        self.check("cuCtxPushCurrent", code).inspect_err(|_| cancelling.back_unseen())?;
        Ok(Here { device: self, cancelling })
    }

    /// As [`Driver::check`], and remembers what broke the device for good.
    #[inline]
    pub fn check(&self, call: impl fmt::Display, code: Code) -> Result<()> {
        match code {
            driver::SUCCESS => Ok(()),
            code => Err(self.error(call, code)),
        }
    }

    #[cold]
    fn error(&self, call: impl fmt::Display, code: Code) -> Error {
        let error = self.driver.error(call, code);
        if errors::meaning(code).is_final {
            return self.lost.get_or_init(|| error).clone();
        }
        error
    }

    /// What broke the device for good, if something has: the first thing that was seen, and what every later call answers.
    #[inline]
    pub fn lost(&self) -> Option<&Error> {
        self.lost.get()
    }

    /// Does what cannot fail but for the device's own end, and then need not be done.
    pub fn unless_lost(&self, task: impl FnOnce(&Here<'_>) -> Result<()>) -> Result<()> {
        let done = self.enter().and_then(|here| task(&here));
        if self.lost().is_some() { Ok(()) } else { done }
    }

    /// The kernels, loaded when first needed. The context is current.
    pub fn kernels(&self) -> Result<Kernels> {
        let names = [c"ferry_move", c"ferry_pieces", c"ferry_pieces_inline", c"ferry_rows"];
        let [within, pieces, few, rows] = self.loaded(&self.kernels, PTX, names)?;
        Ok(Kernels { within, pieces, few, rows })
    }

    /// Whether copies have to do without kernels: a stream is held, and the driver would wait for it to load them. That is so of
    /// a device that was opened while the stream was held. The context is current.
    pub fn lacks_kernels(&self) -> bool {
        let may_lack = self.kernels.get().is_none() && self.holds.beforehand.is_wanted();
        may_lack && self.holds.unless_held(|| self.kernels()).is_none() && self.kernels.get().is_none()
    }

    /// The kernels of reduce.cu: for runs of elements, and for one whose bytes lie apart. The context is current.
    pub fn reducing(&self) -> Result<[Handle; 2]> {
        self.loaded(&self.reducing, REDUCE, [c"ferry_reduce", c"ferry_reduce_one"])
    }

    /// Room for a list of pieces, if there is some.
    pub fn lend(&self) -> Result<Option<Loan>> {
        self.lists.lend(|len| {
            let _here = self.enter()?;
            self.page_locked(len)
        })
    }

    /// Page-locked memory of our own, which goes with `Driver::give_page_locked`. The context is current.
    pub fn page_locked(&self, len: usize) -> Result<Handle> {
        let taken = self.driver.take_page_locked(len);
        self.check("cuMemHostAlloc", taken.err().unwrap_or(driver::SUCCESS))?;
        Ok(taken.unwrap_or_default())
    }

    /// Memory of this device for ourselves, which goes with `Driver::give_device_memory`. The context is current.
    pub fn own_memory(&self, len: usize) -> Result<Handle> {
        let taken = self.driver.take_device_memory(len);
        self.check("cuMemAlloc", taken.err().unwrap_or(driver::SUCCESS))?;
        Ok(taken.unwrap_or_default())
    }

    /// Loads everything that is otherwise loaded when first needed: the driver waits for all streams when it loads a kernel, and
    /// for one that we hold it would wait for ever. The context is current.
    pub fn load_all(&self) -> Result<()> {
        self.kernels()?;
        self.sealing()?;
        self.reducing()?;
        self.live()?;
        self.stock_streams()
    }

    /// Kernels of a text, which ends with a zero, loaded when first needed; to load them twice does no harm.
    pub fn loaded<const N: usize>(
        &self,
        slot: &OnceLock<[Handle; N]>,
        text: &str,
        names: [&CStr; N],
    ) -> Result<[Handle; N]> {
        if let Some(loaded) = slot.get() {
            return Ok(*loaded);
        }
        let mut module = 0;
        let text = text.as_ptr().cast::<c_void>();
        // SAFETY: the text ends with a zero; the module lives as long as the context.
        let mut load = || unsafe { (self.driver.calls.cuModuleLoadData)(&mut module, text) };
        let code = match self.holds.unless_held(&mut load) {
            Some(code) => code,
            // Whoever holds a stream may have loaded them just before.
            None if slot.get().is_some() => driver::SUCCESS,
            None => self.holds.when_none(load),
        };
        if let Some(loaded) = slot.get() {
            return Ok(*loaded);
        }
        self.check("cuModuleLoadData", code)?;
        let mut found = [0; N];
        for (function, name) in found.iter_mut().zip(names) {
            // SAFETY: the module is loaded and the name ends with a zero.
            let code = unsafe { (self.driver.calls.cuModuleGetFunction)(function, module, name.as_ptr()) };
            self.check("cuModuleGetFunction", code)?;
        }
        Ok(*slot.get_or_init(|| found))
    }
}

/// What the driver says of a GPU, if it does.
fn attribute(driver: &Driver, device: i32, which: i32) -> Option<i32> {
    let (ask, mut value) = (driver.calls.cuDeviceGetAttribute?, 0);
    // SAFETY: `value` receives the number.
    let code = unsafe { ask(&mut value, which, device) };
    (code == driver::SUCCESS).then_some(value)
}

impl Drop for Device {
    fn drop(&mut self) {
        let words = self.words.pages();
        if let Ok(_here) = self.enter() {
            self.events.give_back(&self.driver);
            for list in self.lists.close().into_iter().chain(self.bells.close()) {
                // SAFETY: made by `page_locked`, and every kernel that knew it has said that it is through.
                unsafe { self.driver.give_page_locked(list) };
            }
            for page in words {
                // SAFETY: allocated by `Words`; the queues that used them hold this device and so are gone.
                unsafe { self.driver.give_page_locked(page) };
            }
            self.desks.close(&self.driver);
            self.sealing.close(&self.driver);
            self.bounces.close(&self.driver);
            self.spares.close(&self.driver);
        }
        // SAFETY: kept by `open`; streams, events and memory of ours hold this device and so are gone.
        unsafe { (self.driver.calls.cuDevicePrimaryCtxRelease)(self.handle) };
    }
}

impl Drop for Here<'_> {
    fn drop(&mut self) {
        let mut ours = 0;
        // SAFETY: pops what `enter` pushed: guards are dropped in the reverse order of their making.
        unsafe { (self.device.driver.calls.cuCtxPopCurrent)(&mut ours) };
        self.cancelling.back_unseen();
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
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cuda/kernels");
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
