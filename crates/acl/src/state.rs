//! The state of the process, opened at first use, and the state of each thread.

use crate::{
    Error, Result, constants as c,
    context::Context,
    error::fail,
    event::EventEntry,
    explain::Graves,
    fault,
    handles::Handles,
    settings::{Settings, settings},
    stream::StreamEntry,
};
use ferry_core::{QueueOptions, Runtime, Stream};
use std::{
    cell::{Cell, RefCell},
    collections::HashSet,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};

/// Everything of the process.
pub struct Engine {
    pub(crate) runtime: Runtime,
    pub(crate) settings: &'static Settings,
    pub(crate) devices: Vec<DeviceState>,
    pub(crate) contexts: Handles<Context>,
    pub(crate) streams: Handles<StreamEntry>,
    pub(crate) events: Handles<EventEntry>,
    pub(crate) peers: Mutex<HashSet<(u32, u32)>>,
    pub(crate) graves: Graves,
}

/// What the process holds of one device.
#[derive(Default)]
pub struct DeviceState {
    pub(crate) primary: Mutex<Primary>,
    pub(crate) streams: AtomicUsize,
    pub(crate) events: AtomicUsize,
}

/// The default context of a device and how often aclrtSetDevice asked for it.
#[derive(Default)]
pub struct Primary {
    pub(crate) count: u64,
    pub(crate) context: Option<Arc<Context>>,
}

/// The engine of this process, opened by the first call that needs it.
pub fn engine() -> Result<&'static Engine> {
    static ENGINE: OnceLock<Result<Engine>> = OnceLock::new();
    ENGINE.get_or_init(open).as_ref().map_err(Clone::clone)
}

fn open() -> Result<Engine> {
    let settings = settings()?;
    let runtime = ferry::open(&settings.options)?;
    let devices = (0..runtime.backend().device_count()).map(|_| DeviceState::default()).collect();
    let engine = Engine {
        runtime,
        settings,
        devices,
        contexts: Handles::default(),
        streams: Handles::default(),
        events: Handles::default(),
        peers: Mutex::default(),
        graves: Graves::default(),
    };
    // SAFETY: the handler only stores to an atomic.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    if settings.fault_note {
        fault::install();
    }
    if settings.verbose {
        eprintln!("{}", engine.describe());
    }
    Ok(engine)
}

static FORKED: AtomicBool = AtomicBool::new(false);

extern "C" fn in_child() {
    FORKED.store(true, Ordering::Relaxed);
}

/// In the child of a process that used Ferry there are no workers and no devices: every call says so.
#[inline]
pub(crate) fn not_forked() -> Result<()> {
    if !FORKED.load(Ordering::Relaxed) {
        return Ok(());
    }
    let note = "this process was forked from one that uses Ferry: devices do not survive a fork; use acl after exec, or \
                initialise it in the child only";
    Err(fail(c::ACL_ERROR_RT_CONTEXT_NULL, note))
}

impl Engine {
    fn describe(&self) -> String {
        let (name, count) = (self.runtime.backend().name(), self.devices.len());
        let memory = self.runtime.memory_info(0).map_or(0, |(_, total)| total >> 20);
        format!(
            "ferry {}: backend {name}, SoC {}, {count} device{} of {memory} MiB, library {}",
            env!("CARGO_PKG_VERSION"),
            self.settings.soc,
            if count == 1 { "" } else { "s" },
            library_path()
        )
    }

    pub(crate) fn device(&self, id: u32) -> Result<&DeviceState> {
        self.devices.get(id as usize).ok_or_else(|| bad_device(i64::from(id), self.devices.len()))
    }
}

pub(crate) fn bad_device(id: i64, count: usize) -> Error {
    fail(
        c::ACL_ERROR_RT_INVALID_DEVICEID,
        format!("device {id} does not exist: there are {count}, numbered from 0"),
    )
}

/// The file this code was loaded from.
fn library_path() -> String {
    // SAFETY: plain data for dladdr to fill.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: any address may be asked about; the name stays valid while the library is loaded, and it is never unloaded.
    let found = unsafe { libc::dladdr(library_path as *const libc::c_void, &mut info) } != 0
        && !info.dli_fname.is_null();
    if !found {
        return "?".into();
    }
    // SAFETY: dladdr gave a C string.
    unsafe { std::ffi::CStr::from_ptr(info.dli_fname) }.to_string_lossy().into_owned()
}

/// The state of a thread.
pub struct Here {
    pub(crate) context: RefCell<Option<Arc<Context>>>,
    pub(crate) stream: RefCell<Option<Arc<StreamEntry>>>,
    pub(crate) messages: RefCell<Vec<String>>,
    pub(crate) shown: RefCell<Option<std::ffi::CString>>,
    pub(crate) calls: Cell<u64>,
    pub(crate) number: u64,
    quiet: RefCell<Vec<Arc<Stream>>>,
}

thread_local! {
    static HERE: Here = {
        static BORN: AtomicU64 = AtomicU64::new(0);
        Here {
            context: RefCell::default(),
            stream: RefCell::default(),
            messages: RefCell::default(),
            shown: RefCell::default(),
            calls: Cell::new(0),
            number: BORN.fetch_add(1, Ordering::Relaxed),
            quiet: RefCell::default(),
        }
    };
}

/// The state of this thread. A thread that is being torn down has none.
pub fn with_here<T>(body: impl FnOnce(&Here) -> Result<T>) -> Result<T> {
    HERE.try_with(body).unwrap_or_else(|_| Err(fail(c::ACL_ERROR_RT_CONTEXT_NULL, "this thread is ending")))
}

/// Counts the calls of this thread, for "freed 12 calls ago".
#[inline]
pub(crate) fn count_call() {
    let _ = HERE.try_with(|here| here.calls.set(here.calls.get() + 1));
}

impl Here {
    /// The current context, alive.
    pub(crate) fn context(&self) -> Result<Arc<Context>> {
        match &*self.context.borrow() {
            Some(context) if context.is_alive() => Ok(context.clone()),
            Some(_) => Err(fail(
                c::ACL_ERROR_RT_CONTEXT_NULL,
                "the current context of this thread was destroyed, or its device was reset: call aclrtSetDevice or \
                 aclrtSetCurrentContext again",
            )),
            None => Err(fail(
                c::ACL_ERROR_RT_CONTEXT_NULL,
                "this thread has no current context: call aclrtSetDevice or aclrtSetCurrentContext first",
            )),
        }
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
