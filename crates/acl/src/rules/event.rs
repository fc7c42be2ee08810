//! Events: created, recorded, waited for and timed.
//!
//! An event is a handle of an event of the engine, with what the documents ask for besides: which function
//! made it, its flags, its number among those of the device. What several processes share of one is
//! `ipc_event.rs`'s. Events in captures, which join streams, and events between a model and streams outside
//! are `event/captured.rs`'s: that knows this module, and this one asks it only whether an event is captured.

mod captured;

pub use super::ipc_event::EVENT_HANDLE;
use super::ipc_event::{CompleteRecord, SharedEvent};
use crate::{
    Error, Result,
    arguments::{limit_ms, refuse},
    capture::{self, CaptureEntry},
    constants::{self as c, *},
    error::fail,
    faults, functions,
    handles::{HandleKind, Handles},
    interrupt,
    state::{Here, OpenedEngine, StreamEntry, engine},
    waits::{self, Until},
    watched,
};
use captured::{CapturedRecord, ExternalFlag, ExternalUse};
pub use captured::{record_with_flag, wait_with_flag};
use ferry_core::{Event, Fence, Gate, JoinKind, Kind, Mark, Stream, Ticket};
use ferry_watch::site;
use std::{
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

/// An event of a device.
pub struct EventEntry {
    handle: usize,
    device: u32,
    event: Event,
    flags: u32,
    made: EventMaker,
    /// The latest record in a capture; it counts until that ends.
    captured: Mutex<Option<CapturedRecord>>,
    /// What models wait for, if it is an external event.
    flag: Arc<ExternalFlag>,
    /// Whether aclrtRecordEvent has recorded it.
    is_recorded_plainly: AtomicBool,
    /// The captures of models that use it for streams outside, and how.
    external: Mutex<Vec<(Weak<CaptureEntry>, ExternalUse)>>,
    /// What several processes share of it, if they do.
    ipc: Option<SharedEvent>,
}

/// The function that made an event; the three kinds differ in what may be asked of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventMaker {
    /// aclrtCreateEvent.
    Plain,
    /// aclrtCreateEventWithFlag.
    WithFlag,
    /// aclrtCreateEventExWithFlag: counts as complete before it is first recorded; not for the older queries.
    ExWithFlag,
}

impl HandleKind for EventEntry {
    const TAG: usize = 3;
}

/// The events of the process.
static EVENTS: Handles<EventEntry> = Handles::new();

const ALL_FLAGS: u32 = (ACL_EVENT_SYNC
    | ACL_EVENT_CAPTURE_STREAM_PROGRESS
    | ACL_EVENT_TIME_LINE
    | ACL_EVENT_DEVICE_USE_ONLY
    | ACL_EVENT_EXTERNAL
    | ACL_EVENT_IPC) as u32;

/// What aclrtCreateEvent gives: cross-stream waiting and timing.
const PLAIN_FLAGS: u32 = (ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | ACL_EVENT_TIME_LINE) as u32;

/// aclrtCreateEvent.
pub fn create_plain(here: &Here) -> Result<usize> {
    create(here, PLAIN_FLAGS, EventMaker::Plain)
}

/// aclrtCreateEventWithFlag, aclrtCreateEventExWithFlag.
pub fn create(here: &Here, flags: u32, made: EventMaker) -> Result<usize> {
    let engine = engine()?;
    let device = here.device()?;
    // No flag at all is taken for what aclrtCreateEvent gives.
    let flags = if flags == 0 && !engine.settings.strict { PLAIN_FLAGS } else { flags };
    let alone = [ACL_EVENT_EXTERNAL as u32, ACL_EVENT_IPC as u32].into_iter().find(|flag| flags & flag != 0);
    if flags == 0 || flags & !ALL_FLAGS != 0 || alone.is_some_and(|flag| flags != flag) {
        return Err(refuse(format!(
            "flag is {flags:#x}: give a combination of ACL_EVENT_SYNC (0x1), CAPTURE_STREAM_PROGRESS (0x2), \
             TIME_LINE (0x8) and DEVICE_USE_ONLY (0x10), or EXTERNAL (0x20) or IPC (0x40) alone"
        )));
    }
    let ipc = match flags == ACL_EVENT_IPC as u32 {
        true => Some(create_ipc(made)?),
        false => None,
    };
    insert(engine, device, flags, made, ipc)
}

/// An event of several processes. Documented: made by one function only, and not on every product.
fn create_ipc(made: EventMaker) -> Result<SharedEvent> {
    if made != EventMaker::ExWithFlag {
        return Err(refuse("flag is ACL_EVENT_IPC (0x40), which is for aclrtCreateEventExWithFlag only"));
    }
    functions::aclrtIpcGetEventHandle.allowed()?;
    SharedEvent::new()
}

/// Adds an event to the table, if the device may have one more.
fn insert(
    engine: &OpenedEngine,
    device: u32,
    flags: u32,
    made: EventMaker,
    ipc: Option<SharedEvent>,
) -> Result<usize> {
    let most = engine.settings.options.product.max_events;
    let state = engine.device(device)?;
    if state.events.fetch_add(1, Ordering::Relaxed) >= most {
        state.events.fetch_sub(1, Ordering::Relaxed);
        return Err(fail(
            c::ACL_ERROR_RT_NO_EVENT_RESOURCE,
            format!("device {device} has {most} events, the most there can be"),
        ));
    }
    let make = |handle| EventEntry {
        handle,
        device,
        event: Event::new(),
        flags,
        made,
        captured: Mutex::default(),
        flag: Arc::default(),
        is_recorded_plainly: AtomicBool::new(false),
        external: Mutex::default(),
        ipc,
    };
    Ok(EVENTS.insert(make).handle)
}

/// aclrtDestroyEvent: never blocks.
pub fn destroy(handle: usize) -> Result<()> {
    let engine = engine()?;
    let entry = EVENTS.remove(handle).ok_or_else(|| unknown(handle))?;
    entry.event.end();
    entry.flag.end(handle);
    if let Some(ipc) = &entry.ipc {
        ipc.end();
    }
    engine.device(entry.device)?.events.fetch_sub(1, Ordering::Relaxed);
    Ok(())
}

/// aclrtRecordEvent.
pub fn record(here: &Here, handle: usize, stream: usize) -> Result<()> {
    let stream = here.stream(stream)?;
    let entry = find(handle)?;
    if let Some(ipc) = &entry.ipc {
        entry.not_for_captured(&stream)?;
        return ipc.record(&stream.stream);
    }
    entry.same_device(stream.device)?;
    match capture::of_stream(stream.handle) {
        Some(part) => entry.record_captured(&part),
        None => entry.record_now(&stream.stream),
    }
}

/// aclrtResetEvent: a task of the stream. From there on the event counts as not recorded; waits that are
/// called from now on wait for the next record.
pub fn reset(here: &Here, handle: usize, stream: usize) -> Result<()> {
    let stream = here.stream(stream)?;
    let entry = find(handle)?.of_one_process("aclrtResetEvent")?;
    entry.same_device(stream.device)?;
    if let Some(part) = capture::of_stream(stream.handle) {
        return entry.reset_captured(&part);
    }
    if engine()?.settings.strict {
        entry.may_be_reset()?;
    }
    entry.not_captured("reset outside of the capture")?;
    if entry.is_external() {
        entry.flag.clear_on(&stream.stream)?;
    }
    Ok(entry.event.reset(&stream.stream)?)
}

/// aclrtStreamWaitEvent: later work of the stream waits for what the event has captured by now.
pub fn stream_wait(here: &Here, stream: usize, handle: usize) -> Result<()> {
    let stream = here.stream(stream)?;
    let entry = find(handle)?;
    if let Some(ipc) = &entry.ipc {
        entry.not_for_captured(&stream)?;
        capture::check_default(&stream)?;
        return match ipc.latest()? {
            // A reader of facts learns of a wait for another process although it is over.
            None if site::is_on() => {
                let over = Gate::new();
                over.open();
                Ok(stream.stream.wait_for(over).map(drop)?)
            }
            None => Ok(()),
            Some(latest) => Ok(wait_within_limit(&stream.stream, handle, latest).map(drop)?),
        };
    }
    entry.same_device(stream.device)?;
    if capture::any() && entry.wait_captured(here, &stream)? {
        return Ok(());
    }
    entry.needs_sync("streams cannot wait for it")?;
    block_within_limit(&entry, &stream.stream)
}

/// What aclrtSetOpWaitTimeout set last, in seconds; 0 is no limit.
static WAIT_LIMIT: AtomicU32 = AtomicU32::new(0);

/// aclrtSetOpWaitTimeout: how long streams wait for events at most that they are told to wait for from here
/// on.
pub fn limit_waits(seconds: u32) {
    WAIT_LIMIT.store(seconds, Ordering::Relaxed);
}

/// The longest that a wait for an event may take from now on, in seconds; 0 is no limit.
fn wait_limit() -> u32 {
    WAIT_LIMIT.load(Ordering::Relaxed)
}

/// Later work of the stream waits for the latest record of the event, within the limit.
fn block_within_limit(entry: &EventEntry, stream: &Arc<Stream>) -> Result<()> {
    Ok(entry.event.block_by(stream, |what| wait_within_limit(stream, entry.handle, what))?)
}

/// Has the stream wait for `what`, but if it takes longer than the limit its work fails and it goes on.
fn wait_within_limit(
    stream: &Arc<Stream>,
    handle: usize,
    what: Arc<dyn Fence>,
) -> ferry_core::Result<Ticket> {
    let seconds = wait_limit();
    if seconds == 0 {
        return stream.wait_for(what);
    }
    let gate = Gate::behind(what.point());
    let ticket = block_within(stream, gate.clone(), (handle, seconds), Box::new(|| true))?;
    if let Some(point) = gate.stands_for() {
        stream.tell_bound(&gate, Some(point));
    }
    what.when_done(Box::new(move || gate.open()));
    Ok(ticket)
}

/// Has the stream wait for the gate of an event for so many seconds at most. `withdraw` is as in
/// [`Until::Limit`].
fn block_within(
    stream: &Arc<Stream>,
    gate: Arc<Gate>,
    (handle, seconds): (usize, u32),
    withdraw: Box<dyn Fn() -> bool + Send>,
) -> ferry_core::Result<Ticket> {
    let engine = engine().map_err(|error| Kind::Native(error.code).because(error.note.clone()))?;
    let note = format!(
        "aclrtStreamWaitEvent: event {handle:#x} was not complete after {seconds} s, the limit of \
         aclrtSetOpWaitTimeout"
    );
    let error = Kind::Native(c::ACL_ERROR_RT_WAIT_TIMEOUT).because(note);
    let until = Until::Limit { limit: Duration::from_secs(seconds.into()), error, withdraw };
    waits::block(&engine.runtime, stream, gate, until)
}

/// aclrtQueryEventStatus: the recorded-status number.
pub fn query_status(handle: usize) -> Result<i32> {
    let complete = find_asked(handle)?.is_complete();
    Ok(if complete { ACL_EVENT_RECORDED_STATUS_COMPLETE } else { ACL_EVENT_RECORDED_STATUS_NOT_READY })
}

/// aclrtQueryEvent: the status number of the deprecated query, not for the newest events.
pub fn query(handle: usize) -> Result<i32> {
    let entry = find_asked(handle)?.older("aclrtQueryEvent")?;
    Ok(if entry.is_complete() { ACL_EVENT_STATUS_COMPLETE } else { ACL_EVENT_STATUS_NOT_READY })
}

/// aclrtQueryEventWaitStatus: complete when no stream waits, or will wait, for the event because of a call so
/// far.
pub fn query_waits(handle: usize) -> Result<i32> {
    let entry = find_asked(handle)?.older("aclrtQueryEventWaitStatus")?;
    if entry.event.is_waited_for() {
        return Ok(ACL_EVENT_WAIT_STATUS_NOT_READY);
    }
    entry.event.awaited().iter().for_each(|record| known_done(&**record));
    Ok(ACL_EVENT_WAIT_STATUS_COMPLETE)
}

/// aclrtSynchronizeEventWithTimeout: for ever if -1.
pub fn synchronize_within(here: &Here, handle: usize, timeout: i32) -> Result<()> {
    find(handle)?;
    synchronize(here, handle, limit_ms(timeout)?)
}

/// aclrtSynchronizeEvent.
pub fn synchronize(here: &Here, handle: usize, limit: Option<Duration>) -> Result<()> {
    let entry = find_asked(handle)?;
    faults::sync()?;
    let latest = match &entry.ipc {
        Some(ipc) => ipc.latest()?,
        None => entry.event.latest().map(|mark| mark as Arc<dyn Fence>),
    };
    let Some(latest) = latest else {
        entry.ipc.iter().filter_map(SharedEvent::completed).for_each(|record| joined(&record));
        return Ok(());
    };
    interrupt::wait(here, limit, |limit| latest.wait(limit)).map_err(|error| match (error.kind, limit) {
        (Kind::Timeout, Some(limit)) => {
            let note = format!("event {handle:#x} is not complete after {} ms", limit.as_millis());
            fail(c::ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, note)
        }
        _ => error.into(),
    })?;
    match latest.point() {
        // A record of another process is a gate.
        None if entry.ipc.is_some() => watched::joined_outside(),
        _ => engine()?.runtime.joined(&*latest, JoinKind::Wait),
    }
    Ok(())
}

/// The calling thread has learnt that a record of an event of several processes is complete.
fn joined(record: &CompleteRecord) {
    match record {
        CompleteRecord::None => {}
        CompleteRecord::Foreign => watched::joined_outside(),
        CompleteRecord::Own(fence) => known_done(&**fence),
    }
}

/// The calling thread has learnt that a record of this process is complete.
fn known_done(record: &dyn Fence) {
    if let Ok(engine) = engine() {
        engine.runtime.joined(record, JoinKind::Query);
    }
}

/// aclrtEventElapsedTime in milliseconds.
pub fn elapsed_ms(start: usize, end: usize) -> Result<f32> {
    let timed = |handle| find_asked(handle)?.of_one_process("aclrtEventElapsedTime");
    let (first, second) = (timed(start)?, timed(end)?);
    let invalid = |note| fail(c::ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, note);
    if first.device != second.device {
        return Err(invalid(format!(
            "event {start:#x} is of device {}, event {end:#x} is of device {}: each device has a clock of \
             its own",
            first.device, second.device
        )));
    }
    let (first, second) = (first.timed()?, second.timed()?);
    // Asked, and not only for their times: a schedule that keeps work back does some when it is asked.
    let are_done = second.is_done() && first.is_done();
    let elapsed = second
        .elapsed_ms(&*first)
        .filter(|_| are_done)
        .ok_or_else(|| invalid("both events must be complete: synchronise first".into()))?;
    known_done(&*first);
    known_done(&*second);
    if elapsed < 0.0 {
        let note = format!("event {end:#x} was reached {} ms before event {start:#x}", -elapsed);
        return Err(fail(c::ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL, note));
    }
    Ok(elapsed as f32)
}

/// aclrtEventGetTimestamp: microseconds of the device's clock.
pub fn timestamp_us(handle: usize) -> Result<u64> {
    let entry = find_asked(handle)?.of_one_process("aclrtEventGetTimestamp")?;
    let mark = entry.timed()?;
    if !mark.is_done() {
        let note = format!("event {handle:#x} is not complete: synchronise first");
        return Err(fail(c::ACL_ERROR_RT_EVENT_NOT_COMPLETE, note));
    }
    known_done(&*mark);
    mark.reached_us().ok_or_else(|| {
        let note = format!("event {handle:#x} took no time: the work it was recorded behind was dropped");
        fail(c::ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, note)
    })
}

/// aclrtGetEventId: a small number that no other living event of the process has.
pub fn id(handle: usize) -> Result<u32> {
    let entry = find(handle)?.of_one_process("aclrtGetEventId")?;
    Ok(Handles::<EventEntry>::index(entry.handle) as u32)
}

/// aclrtIpcGetEventHandle: what other processes open the event by, the same each time.
pub fn export_handle(handle: usize) -> Result<[u8; EVENT_HANDLE]> {
    let entry = find(handle)?;
    let Some(ipc) = &entry.ipc else {
        let note = format!("event {handle:#x} was made without ACL_EVENT_IPC (0x40)");
        return Err(refuse(note));
    };
    ipc.export(handle, engine()?.physical[entry.device as usize])
}

/// aclrtIpcOpenEventHandle: the event of another process, or one of this process once more.
pub fn open_handle(here: &Here, handle: &[u8; EVENT_HANDLE]) -> Result<usize> {
    let engine = engine()?;
    let device = here.device()?;
    let ipc = SharedEvent::open(here, handle)?;
    insert(engine, device, ACL_EVENT_IPC as u32, EventMaker::ExWithFlag, Some(ipc))
}

impl EventEntry {
    /// Whether everything it captured was done without a failure.
    fn is_complete(&self) -> bool {
        if let Some(ipc) = &self.ipc {
            let completed = ipc.completed();
            completed.iter().for_each(joined);
            return completed.is_some();
        }
        match self.event.latest() {
            None => self.made == EventMaker::ExWithFlag,
            Some(mark) if mark.is_done() => {
                known_done(&*mark);
                !mark.failed()
            }
            Some(_) => false,
        }
    }

    /// Documented: events of several processes are not captured.
    fn not_for_captured(&self, stream: &StreamEntry) -> Result<()> {
        if capture::of_stream(stream.handle).is_none() {
            return Ok(());
        }
        let note = format!(
            "event {:#x} is one of ACL_EVENT_IPC, and stream {:#x} is captured: it cannot be recorded or \
             waited for there",
            self.handle, stream.handle
        );
        Err(refuse(note))
    }

    /// Itself, unless it is an event of several processes, which the function does not take.
    fn of_one_process(self: Arc<Self>, function: &str) -> Result<Arc<Self>> {
        if self.ipc.is_none() {
            return Ok(self);
        }
        Err(refuse(format!("event {:#x} is one of ACL_EVENT_IPC: it is not for {function}", self.handle)))
    }

    /// Itself, unless it was made by aclrtCreateEventExWithFlag, whose events the older functions do not
    /// take.
    fn older(self: Arc<Self>, function: &str) -> Result<Arc<Self>> {
        if self.made == EventMaker::ExWithFlag { Err(self.not_for(function)) } else { Ok(self) }
    }

    /// Documented: only events of aclrtCreateEventWithFlag with ACL_EVENT_SYNC are reset; what happens to
    /// others is undefined.
    fn may_be_reset(&self) -> Result<()> {
        if self.made != EventMaker::WithFlag {
            return Err(self.not_for("aclrtResetEvent"));
        }
        self.needs_sync("streams can neither wait for it nor reset it")
    }

    fn not_for(&self, function: &str) -> Error {
        let maker = match self.made {
            EventMaker::Plain => "aclrtCreateEvent",
            EventMaker::WithFlag => "aclrtCreateEventWithFlag",
            EventMaker::ExWithFlag => "aclrtCreateEventExWithFlag",
        };
        refuse(format!("event {:#x} was made by {maker}: it is not for {function}", self.handle))
    }

    fn needs_sync(&self, else_what: &str) -> Result<()> {
        if self.flags & ACL_EVENT_SYNC as u32 != 0 {
            return Ok(());
        }
        Err(refuse(format!("event {:#x} was made without ACL_EVENT_SYNC: {else_what}", self.handle)))
    }

    fn same_device(&self, device: u32) -> Result<()> {
        if self.device == device {
            return Ok(());
        }
        let note =
            format!("event {:#x} is of device {}, the stream of device {device}", self.handle, self.device);
        Err(fail(c::ACL_ERROR_RT_STREAM_CONTEXT, note))
    }

    fn timed(&self) -> Result<Arc<dyn Mark>> {
        let missing =
            |why| fail(c::ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, format!("event {:#x} {why}", self.handle));
        if self.flags & ACL_EVENT_TIME_LINE as u32 == 0 {
            return Err(missing("was made without ACL_EVENT_TIME_LINE"));
        }
        self.event.latest().ok_or_else(|| missing("was never recorded, or was reset since"))
    }
}

fn find(handle: usize) -> Result<Arc<EventEntry>> {
    engine()?; // says first if nothing can be opened
    EVENTS.get(handle).ok_or_else(|| unknown(handle))
}

/// The event of this handle, unless it was recorded in a capture that has not ended.
fn find_asked(handle: usize) -> Result<Arc<EventEntry>> {
    let entry = find(handle)?;
    entry.not_captured("waited for or queried")?;
    Ok(entry)
}

fn unknown(handle: usize) -> Error {
    fail(c::ACL_ERROR_RT_INVALID_HANDLE, format!("{handle:#x} is no event, or one that was destroyed"))
}
