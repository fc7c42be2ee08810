//! The state of the process, opened at first use, and the state of each thread.

use crate::{
    Error, Result, constants as c,
    context::Context,
    device,
    error::fail,
    event::EventEntry,
    exceptions::Exception,
    explain::Graves,
    handles::Handles,
    interrupt::Check,
    keys,
    log::{self, Level, Module},
    register::Registrations,
    report::{Reports, Turns},
    settings::{Settings, settings},
    stream::StreamEntry,
    twin,
    virtual_memory::{PhysicalEntry, mapped::Mapped},
};
use ferry::{
    BackendName,
    engine::{
        VISIBLE, fork,
        threads::{cancel::Cancelling, end},
        usage::{Account, Usage},
    },
};
use ferry_core::{QueueOptions, Runtime, Stream};
use std::{
    cell::{Cell, RefCell},
    collections::HashSet,
    ffi::CStr,
    ptr,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicI32, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
};

/// Everything of the process.
pub struct Engine {
    pub(crate) runtime: Runtime,
    /// What other processes are told.
    usage: Arc<Usage>,
    pub(crate) settings: &'static Settings,
    pub(crate) devices: Vec<DeviceState>,
    /// The number that each device has on this machine, whatever this process sees of it: what two processes mean by a device.
    pub(crate) physical: Vec<u32>,
    pub(crate) contexts: Handles<Context>,
    pub(crate) streams: Handles<StreamEntry>,
    pub(crate) events: Handles<EventEntry>,
    pub(crate) peers: Mutex<HashSet<(u32, u32)>>,
    pub(crate) graves: Graves,
    pub(crate) registered: Registrations,
    pub(crate) physicals: Handles<PhysicalEntry>,
    pub(crate) mapped: Mutex<Mapped>,
    pub(crate) exceptions: Handles<Exception>,
    pub(crate) reports: Reports,
}

/// What the process holds of one device.
#[derive(Default)]
pub struct DeviceState {
    pub(crate) primary: Mutex<Primary>,
    pub(crate) streams: AtomicUsize,
    pub(crate) events: AtomicUsize,
    pub(crate) sat_mode: AtomicI32,
    /// Limits of cores, by aclrtDevResLimitType; 0 where none was set.
    pub(crate) limits: [AtomicU32; 2],
}

/// The default context of a device and how often aclrtSetDevice asked for it.
#[derive(Default)]
pub struct Primary {
    pub(crate) count: u64,
    pub(crate) context: Option<Arc<Context>>,
    /// Threads that chose no device use it, so it stays whatever the count.
    pub(crate) implicit: bool,
}

/// The engine of this process, opened by the first call that needs it. If that fails, the next call tries again.
pub fn engine() -> Result<&'static Engine> {
    ENGINE.get().map_or_else(open_first, Ok)
}

/// The engine if a call has opened it.
pub(crate) fn opened() -> Option<&'static Engine> {
    ENGINE.get()
}

static ENGINE: OnceLock<Engine> = OnceLock::new();
/// Set in the process that has opened the engine, or is about to.
static OWNER: fork::Mark = fork::Mark::new();

#[cold]
fn open_first() -> Result<&'static Engine> {
    static OPENING: Mutex<()> = Mutex::new(());
    let _turn = lock(&OPENING);
    if let Some(engine) = opened() {
        return Ok(engine);
    }
    fork::watch().and_then(|()| OWNER.set()).map_err(|why| {
        fail(c::ACL_ERROR_RT_DRV_INTERNAL_ERROR, format!("telling forked children apart: {why}"))
    })?;
    let engine = open().inspect_err(|_| OWNER.unset())?;
    Ok(ENGINE.get_or_init(|| engine))
}

fn open() -> Result<Engine> {
    twin::none_in_use()?;
    let settings = settings()?;
    let usage = Usage::new(settings.options.backend);
    let runtime = ferry::engine::open_telling(&settings.options, &usage)?;
    let count = runtime.backend().device_count();
    let devices = (0..count).map(|_| DeviceState::default()).collect();
    let engine = Engine {
        runtime,
        usage,
        settings,
        devices,
        physical: physical(settings, count as u32),
        contexts: Handles::default(),
        streams: Handles::default(),
        events: Handles::default(),
        peers: Mutex::default(),
        graves: Graves::default(),
        registered: Registrations::default(),
        physicals: Handles::default(),
        mapped: Mutex::default(),
        exceptions: Handles::default(),
        reports: Reports::default(),
    };
    if settings.fault_note {
        ferry::engine::explain_faults();
    }
    log::write(Module::Runtime, Level::Info, || engine.describe());
    warn_of_cut_list(&engine);
    if settings.verbose {
        // One write for the line and its end: processes that share a terminal would mix them. Whoever asked for the line and has no
        // room for it loses it, and nothing else.
        let line = engine.describe() + "\n";
        log::print(libc::STDERR_FILENO, line.as_bytes());
    }
    Ok(engine)
}

/// The devices of this process by their numbers on this machine. The visible ones ascend, so those that exist are the first.
fn physical(settings: &Settings, count: u32) -> Vec<u32> {
    match &settings.options.visible {
        None => (0..count).collect(),
        Some(visible) => visible.iter().copied().take(count as usize).collect(),
    }
}

/// A list of devices that was not taken whole is no error, but seldom meant.
fn warn_of_cut_list(engine: &Engine) {
    let Ok(list) = std::env::var(VISIBLE) else { return };
    let taken = engine.physical.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    if taken != list {
        log::write(Module::Runtime, Level::Warning, || {
            format!("{VISIBLE} is '{list}': only '{taken}' of it makes sense here")
        });
    }
}

/// Whether this process is the child of one that used Ferry, however it was made: there are no workers and no devices, and every
/// call says so.
#[inline]
pub(crate) fn is_forked() -> bool {
    OWNER.is_child()
}

/// What it says.
pub(crate) const FORKED: &CStr =
    c"this process was forked from one that uses Ferry: devices do not survive a fork; use acl after exec, or initialise it in the \
      child only";

impl Engine {
    pub(crate) fn describe(&self) -> String {
        let (name, count) = (self.runtime.backend().name(), self.devices.len());
        let memory = self.runtime.memory_info(0).map_or(0, |(_, total)| total >> 20);
        format!(
            "ferry {}: backend {name}{}, SoC {}, {count} device{} of {memory} MiB, library {}",
            env!("CARGO_PKG_VERSION"),
            self.copies(),
            self.settings.options.soc,
            if count == 1 { "" } else { "s" },
            library_path()
        )
    }

    /// What copies take from other work of a GPU.
    fn copies(&self) -> String {
        let constants = &self.settings.options.cuda.constants;
        match self.settings.options.backend {
            BackendName::Cuda => {
                format!(" (copy kernels of {} blocks in, {} out)", constants.blocks_in, constants.blocks_out)
            }
            BackendName::Host => String::new(),
        }
    }

    /// Whether host and device memory are one: boards, and control CPUs.
    pub(crate) fn is_unified(&self) -> bool {
        self.settings.options.is_unified()
    }

    /// What other processes are told of a device.
    pub(crate) fn account(&self, device: u32) -> Account {
        self.usage.of_device(self.physical[device as usize])
    }

    pub(crate) fn device(&self, id: u32) -> Result<&DeviceState> {
        self.devices.get(id as usize).ok_or_else(|| bad_device(i64::from(id), self.devices.len()))
    }
}

/// The device of this number, if there is one.
pub(crate) fn known_device(engine: &Engine, id: i32) -> Result<u32> {
    let count = engine.devices.len();
    u32::try_from(id).ok().filter(|id| (*id as usize) < count).ok_or_else(|| bad_device(id.into(), count))
}

pub(crate) fn bad_device(id: i64, count: usize) -> Error {
    let mut note = match count {
        0 => format!("device {id} does not exist: no device is visible"),
        _ => format!("device {id} does not exist: there are {count}, numbered from 0"),
    };
    if let Ok(list) = std::env::var(VISIBLE) {
        note += &format!("; {VISIBLE} is '{list}', chosen from the devices of FERRY_DEVICES (or the GPUs)");
    }
    fail(c::ACL_ERROR_RT_INVALID_DEVICEID, note)
}

/// The file this code was loaded from.
fn library_path() -> String {
    library_of(library_path as *const libc::c_void)
}

/// The file that a function was loaded from.
pub(crate) fn library_of(function: *const libc::c_void) -> String {
    // SAFETY: plain data for dladdr to fill.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: any address may be asked about; the name stays valid while the library is loaded, and it is never unloaded.
    let found = unsafe { libc::dladdr(function, &mut info) } != 0 && !info.dli_fname.is_null();
    if !found {
        return "?".into();
    }
    // SAFETY: dladdr gave a C string.
    unsafe { std::ffi::CStr::from_ptr(info.dli_fname) }.to_string_lossy().into_owned()
}

/// The device of threads that never chose one; below 0 is none.
static DEFAULT_DEVICE: AtomicI64 = AtomicI64::new(-1);

/// Gives threads that never chose a device this one, or none any more.
pub(crate) fn set_default_device(id: Option<u32>) {
    DEFAULT_DEVICE.store(id.map_or(-1, i64::from), Ordering::Relaxed);
}

fn default_device() -> Option<u32> {
    u32::try_from(DEFAULT_DEVICE.load(Ordering::Relaxed)).ok()
}

/// The state of a thread.
pub struct Here {
    pub(crate) context: RefCell<Option<Arc<Context>>>,
    /// The stream it used last, for the next time.
    pub(crate) stream: Cell<Option<Arc<StreamEntry>>>,
    /// The handle of the context that it has without having asked for one, or 0.
    implicit: Cell<usize>,
    pub(crate) messages: RefCell<Vec<String>>,
    pub(crate) shown: RefCell<Option<std::ffi::CString>>,
    /// The code of the last call that failed.
    pub(crate) last_error: Cell<i32>,
    pub(crate) calls: Cell<u64>,
    pub(crate) number: u64,
    /// What its waits ask between two slices, if a signal may end them.
    pub(crate) check: Cell<Option<Check>>,
    quiet: RefCell<Vec<Arc<Stream>>>,
    /// What aclrtProcessReport is at.
    pub(crate) turns: Turns,
    /// A function of the user's is hearing of failures on it.
    pub(crate) tells: Cell<bool>,
    /// The stream whose limits of cores the thread uses, or 0.
    pub(crate) limits_of: Cell<usize>,
    round: Cell<u32>,
}

thread_local! {
    /// The state of this thread, or null. A plain pointer: it can be read while the thread's other locals are being torn down,
    /// since destructors of C++ objects and of thread keys still free memory then.
    static HERE: Cell<*const Here> = const { Cell::new(ptr::null()) };
}

/// The state of this thread, made at first use.
pub fn with_here<T>(body: impl FnOnce(&Here) -> Result<T>) -> Result<T> {
    HERE.with(|cell| {
        if cell.get().is_null() {
            cell.set(Here::settle_in()?);
        }
        // SAFETY: set by `settle_in` to a leaked box, which `leave` frees only after it has set the cell to null on this
        // thread, and no call of this thread is under way when its keys are destroyed.
        body(unsafe { &*cell.get() })
    })
}

/// Runs a call's short way, if the state of this thread is there; it counts if that returns true.
#[inline(always)]
pub(crate) fn with_settled(short: impl FnOnce(&Here) -> bool) -> bool {
    let here = HERE.get();
    // SAFETY: as in `with_here`.
    let Some(here) = (unsafe { here.as_ref() }) else { return false };
    let is_done = short(here);
    if is_done {
        here.count_call();
    }
    is_done
}

/// The current device of this thread.
pub(crate) fn current_device() -> Result<u32> {
    with_here(|here| Ok(here.context()?.device))
}

/// Refuses a thread that has no current context.
pub(crate) fn need_context() -> Result<()> {
    with_here(|here| here.context().map(drop))
}

/// How often a thread's keys are destroyed again before its state goes: other keys' destructors may still call us.
const LAST_ROUND: u32 = 3;

/// Called when a thread ends, with its state. The thread may have been cancelled and not know it yet.
unsafe extern "C" fn leave(here: *mut libc::c_void) {
    let cancelling = Cancelling::off();
    // SAFETY: the key holds what `settle_in` stored: a live state of this thread.
    unsafe { leave_once(here.cast()) };
    cancelling.back_unseen();
}

/// # Safety
/// `here` is the live state of this thread.
unsafe fn leave_once(here: *mut Here) {
    // SAFETY: the caller's promise.
    let round = unsafe { &(*here).round };
    round.set(round.get() + 1);
    if round.get() == 1 && !is_forked() {
        end::thread_leaves();
    }
    let asks_again = |key| keys::store(key, here.cast()).is_ok();
    if round.get() < LAST_ROUND && keys::take(leave).is_ok_and(asks_again) {
        return;
    }
    HERE.with(|cell| cell.set(ptr::null()));
    // SAFETY: made by `Box::into_raw`, and nobody can reach it any more.
    drop(unsafe { Box::from_raw(here) });
}

/// Called when the library is loaded: takes what other libraries might leave nothing of. What fails now is tried again by the first call.
pub fn load() {
    drop(keys::take(leave));
    drop(fork::watch());
}

impl Here {
    fn settle_in() -> Result<*const Here> {
        static BORN: AtomicU64 = AtomicU64::new(0);
        let key = keys::take(leave)?;
        let here = Box::into_raw(Box::new(Here {
            context: RefCell::default(),
            stream: Cell::default(),
            implicit: Cell::new(0),
            messages: RefCell::default(),
            shown: RefCell::default(),
            last_error: Cell::new(c::ACL_SUCCESS),
            calls: Cell::new(0),
            number: BORN.fetch_add(1, Ordering::Relaxed),
            check: Cell::new(None),
            quiet: RefCell::default(),
            turns: Turns::default(),
            tells: Cell::new(false),
            limits_of: Cell::new(0),
            round: Cell::new(0),
        }));
        keys::store(key, here.cast()).inspect_err(|_| {
            // SAFETY: made above, and nobody else has seen it.
            drop(unsafe { Box::from_raw(here) });
        })?;
        Ok(here)
    }
}

impl Here {
    /// For "freed 12 calls ago".
    #[inline(always)]
    pub(crate) fn count_call(&self) {
        self.calls.set(self.calls.get() + 1);
    }

    /// The current context, alive.
    pub(crate) fn context(&self) -> Result<Arc<Context>> {
        if let Some(context) = &*self.context.borrow()
            && context.is_alive()
        {
            return Ok(context.clone());
        }
        self.implicit_context()
    }

    /// The default context of the default device, for a thread that never chose one itself; it becomes current.
    #[cold]
    fn implicit_context(&self) -> Result<Arc<Context>> {
        let had = self.context.borrow().as_ref().map(|context| context.handle);
        let chose = had.is_some_and(|handle| handle != self.implicit.get());
        if let Some(id) = default_device().filter(|_| !chose) {
            let context = device::primary(engine()?, id, |primary| primary.implicit = true)?;
            self.implicit.set(context.handle);
            return Ok(self.context.borrow_mut().insert(context).clone());
        }
        let note = match had {
            Some(_) => {
                "the current context of this thread was destroyed, or its device was reset: call aclrtSetDevice or \
                 aclrtSetCurrentContext again"
            }
            None => "this thread has no current context: call aclrtSetDevice or aclrtSetCurrentContext first",
        };
        Err(fail(c::ACL_ERROR_RT_CONTEXT_NULL, note))
    }

    /// The hidden stream of this thread and device, on which synchronous calls run: never behind other streams' work, not
    /// counted among the streams, and not waited for by a device synchronise.
    pub(crate) fn quiet(&self, engine: &Engine, device: u32) -> Result<Arc<Stream>> {
        let mut quiet = self.quiet.borrow_mut();
        if let Some(stream) = quiet.iter().find(|stream| stream.device() == device) {
            return Ok(stream.clone());
        }
        let stream = engine.runtime.stream(device, QueueOptions { waited: true })?;
        quiet.push(stream.clone());
        Ok(stream)
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
