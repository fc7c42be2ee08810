//! The state of the process, opened at first use, and the state of each thread.

use crate::{
    Error, Result, constants as c,
    context::Context,
    error::fail,
    event::EventEntry,
    explain::Graves,
    fault,
    handles::Handles,
    report::Reports,
    settings::{Settings, settings},
    stream::StreamEntry,
};
use ferry_core::{QueueOptions, Runtime, Stream};
use std::{
    cell::{Cell, RefCell},
    collections::HashSet,
    ptr,
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
    pub(crate) reports: Reports,
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
        reports: Reports::default(),
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
            cell.set(Here::settle_in());
        }
        // SAFETY: set by `settle_in` to a leaked box, which `leave` frees only after it has set the cell to null on this
        // thread, and no call of this thread is under way when its keys are destroyed.
        body(unsafe { &*cell.get() })
    })
}

/// Counts the calls of this thread, for "freed 12 calls ago".
#[inline]
pub(crate) fn count_call() {
    let _ = with_here(|here| {
        here.calls.set(here.calls.get() + 1);
        Ok(())
    });
}

/// How often a thread's keys are destroyed again before its state goes: other keys' destructors may still call us.
const LAST_ROUND: u32 = 3;

/// Called when a thread ends, with its state.
unsafe extern "C" fn leave(here: *mut libc::c_void) {
    let here = here.cast::<Here>();
    // SAFETY: the key holds what `settle_in` stored: a live state of this thread.
    let round = unsafe { &(*here).round };
    round.set(round.get() + 1);
    if round.get() < LAST_ROUND {
        // SAFETY: the key exists, and this asks for one more round.
        unsafe { libc::pthread_setspecific(leave_key(), here.cast()) };
        return;
    }
    HERE.with(|cell| cell.set(ptr::null()));
    // SAFETY: made by `Box::into_raw`, and nobody can reach it any more.
    drop(unsafe { Box::from_raw(here) });
}

fn leave_key() -> libc::pthread_key_t {
    static KEY: OnceLock<libc::pthread_key_t> = OnceLock::new();
    *KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: the key is written, and the destructor takes what this module stores under it.
        unsafe { libc::pthread_key_create(&mut key, Some(leave)) };
        key
    })
}

impl Here {
    fn settle_in() -> *const Here {
        static BORN: AtomicU64 = AtomicU64::new(0);
        let here = Box::into_raw(Box::new(Here {
            context: RefCell::default(),
            stream: RefCell::default(),
            messages: RefCell::default(),
            shown: RefCell::default(),
            calls: Cell::new(0),
            number: BORN.fetch_add(1, Ordering::Relaxed),
            quiet: RefCell::default(),
            round: Cell::new(0),
        }));
        // SAFETY: the key exists; its destructor frees the state when the thread ends.
        unsafe { libc::pthread_setspecific(leave_key(), here.cast()) };
        here
    }
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
