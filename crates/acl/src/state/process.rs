//! The state of the process: the engine, opened by the first call that needs it, and its devices.

use super::{
    context::Context,
    duplicate,
    stream::{CoreLimits, StreamEntry},
};
use crate::{
    Error, Result, constants as c,
    error::fail,
    fork::OWNER,
    handles::Handles,
    log::{self, Level, Module},
    settings::{Settings, settings},
};
use ferry::engine::{
    VISIBLE, fork,
    usage::{Account, Usage},
};
use ferry_core::{Runtime, sync::lock};
use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicI32, AtomicUsize},
    },
};

/// The engine of the process and the tables that every call starts from.
pub struct OpenedEngine {
    /// The engine itself: memory and streams without AscendCL's rules.
    pub(crate) runtime: Runtime,
    /// Tells other processes how much of each device this one uses.
    usage: Arc<Usage>,
    /// What the environment said when the engine was opened.
    pub(crate) settings: &'static Settings,
    /// The devices that this process sees.
    pub(crate) devices: Vec<DeviceState>,
    /// The number that each device has on this machine, whatever this process sees of it: what two processes
    /// mean by a device.
    pub(crate) physical: Vec<u32>,
    /// Contexts by handle.
    pub(crate) contexts: Handles<Context>,
    /// Streams by handle.
    pub(crate) streams: Handles<StreamEntry>,
    /// Pairs of devices of which the first may reach memory of the second.
    pub(crate) peers: Mutex<HashSet<(u32, u32)>>,
}

/// What the process has of one device.
#[derive(Default)]
pub struct DeviceState {
    /// Its default context.
    pub(crate) primary: Mutex<Primary>,
    /// How many streams it has.
    pub(crate) streams: AtomicUsize,
    /// How many events it has.
    pub(crate) events: AtomicUsize,
    /// How many notifies it has.
    pub(crate) notifies: AtomicUsize,
    /// aclrtFloatOverflowMode.
    pub(crate) sat_mode: AtomicI32,
    /// Limits of cores for this process.
    pub(crate) limits: CoreLimits,
}

/// The default context of a device and how often aclrtSetDevice asked for it.
#[derive(Default)]
pub struct Primary {
    /// Calls of aclrtSetDevice that were not undone.
    pub(crate) count: u64,
    /// The context, while there is one.
    pub(crate) context: Option<Arc<Context>>,
    /// Whether threads that chose no device use it: then it stays whatever the count.
    pub(crate) implicit: bool,
}

static ENGINE: OnceLock<OpenedEngine> = OnceLock::new();

/// The engine of this process, opened by the first call that needs it. If that fails, the next call tries
/// again.
pub fn engine() -> Result<&'static OpenedEngine> {
    ENGINE.get().map_or_else(open_first, Ok)
}

/// The engine if a call has opened it.
pub(crate) fn opened() -> Option<&'static OpenedEngine> {
    ENGINE.get()
}

/// Whether this copy of the library has been used. A second copy in the process refuses then
/// (`duplicate.rs`).
pub fn in_use() -> bool {
    opened().is_some()
}

#[cold]
fn open_first() -> Result<&'static OpenedEngine> {
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

fn open() -> Result<OpenedEngine> {
    duplicate::none_in_use()?;
    let settings = settings()?;
    let usage = Usage::new(settings.options.backend);
    let runtime = ferry::engine::open_telling(&settings.options, &usage)?;
    let count = runtime.backend().device_count();
    let devices = (0..count).map(|_| DeviceState::default()).collect();
    let engine = OpenedEngine {
        runtime,
        usage,
        settings,
        devices,
        physical: physical(settings, count as u32),
        contexts: Handles::new(),
        streams: Handles::new(),
        peers: Mutex::default(),
    };
    if settings.fault_note {
        ferry::engine::explain_faults();
    }
    log::write(Module::Runtime, Level::Info, || engine.describe());
    warn_of_cut_list(&engine);
    warn_of_schedule(settings);
    if settings.verbose {
        // One write for the line and its end, since processes may share a terminal. If it cannot be written,
        // it is lost and nothing else happens.
        let line = engine.describe() + "\n";
        log::print(libc::STDERR_FILENO, line.as_bytes());
    }
    Ok(engine)
}

/// The devices of this process by their numbers on this machine. The visible ones ascend, so those that exist
/// are the first.
fn physical(settings: &Settings, count: u32) -> Vec<u32> {
    match &settings.options.visible {
        None => (0..count).collect(),
        Some(visible) => visible.iter().copied().take(count as usize).collect(),
    }
}

/// A list of devices that was not taken whole is no error, but seldom meant.
fn warn_of_cut_list(engine: &OpenedEngine) {
    let Ok(list) = std::env::var(VISIBLE) else { return };
    let taken = engine.physical.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    if taken != list {
        log::write(Module::Runtime, Level::Warning, || {
            format!("{VISIBLE} is '{list}': only '{taken}' of it makes sense here")
        });
    }
}

/// A GPU keeps to no schedule: who asked for one must know.
fn warn_of_schedule(settings: &Settings) {
    let (backend, schedule) = (settings.options.backend, settings.options.schedule);
    if let Some(order) = schedule.filter(|_| backend != ferry::BackendName::Host) {
        let line = format!("ferry: FERRY_SCHEDULE={order} has no effect on the {backend} backend\n");
        log::print(libc::STDERR_FILENO, line.as_bytes());
    }
}

impl OpenedEngine {
    /// What was opened, in one line for a person.
    pub(crate) fn describe(&self) -> String {
        let (name, count) = (self.runtime.backend().name(), self.devices.len());
        let memory = self.runtime.memory_info(0).map_or(0, |(_, total)| total >> 20);
        format!(
            "ferry {}: backend {name}{}, SoC {}, {count} device{} of {memory} MiB, library {}",
            env!("CARGO_PKG_VERSION"),
            ferry::engine::footprint(&self.settings.options),
            self.settings.options.soc,
            if count == 1 { "" } else { "s" },
            duplicate::this_library()
        )
    }

    /// Whether host and device memory are one: boards, and control CPUs.
    pub(crate) fn is_unified(&self) -> bool {
        self.settings.options.is_unified()
    }

    /// What other processes are told of a device.
    pub(crate) fn account(&self, device: u32) -> Account {
        self.usage.of_device(self.physical[device as usize])
    }

    /// The device of this number, if there is one.
    pub(crate) fn known_device(&self, id: i32) -> Result<u32> {
        let count = self.devices.len();
        u32::try_from(id).ok().filter(|id| (*id as usize) < count).ok_or_else(|| bad_device(id.into(), count))
    }

    /// The state of a device, if there is one of this number.
    pub(crate) fn device(&self, id: u32) -> Result<&DeviceState> {
        self.devices.get(id as usize).ok_or_else(|| bad_device(i64::from(id), self.devices.len()))
    }
}

/// The error for a device that does not exist.
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
