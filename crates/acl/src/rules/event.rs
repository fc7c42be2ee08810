//! Events: created, recorded, waited for and timed.

use crate::{
    Error, Result,
    arguments::{limit_ms, refuse},
    constants::{self as c, *},
    error::fail,
    handles::{HandleKind, Handles},
    interrupt,
    state::{Here, OpenedEngine, StreamEntry, engine},
    waits::{self, Until},
};
use ferry_core::{Event, Gate, Kind, Mark};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
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
    let most = engine.settings.options.product.max_events;
    let state = engine.device(device)?;
    if state.events.fetch_add(1, Ordering::Relaxed) >= most {
        state.events.fetch_sub(1, Ordering::Relaxed);
        return Err(fail(
            c::ACL_ERROR_RT_NO_EVENT_RESOURCE,
            format!("device {device} has {most} events, the most there can be"),
        ));
    }
    let make = |handle| EventEntry { handle, device, event: Event::new(), flags, made };
    Ok(EVENTS.insert(make).handle)
}

/// aclrtDestroyEvent: never blocks.
pub fn destroy(handle: usize) -> Result<()> {
    let engine = engine()?;
    let entry = EVENTS.remove(handle).ok_or_else(|| unknown(handle))?;
    entry.event.end();
    engine.device(entry.device)?.events.fetch_sub(1, Ordering::Relaxed);
    Ok(())
}

/// aclrtRecordEvent.
pub fn record(here: &Here, handle: usize, stream: usize) -> Result<()> {
    let stream = here.stream(stream)?;
    let entry = find(handle)?;
    entry.same_device(stream.device)?;
    Ok(entry.event.record(&stream.stream)?)
}

/// aclrtResetEvent: a task of the stream. From there on the event counts as not recorded; waits that are
/// called from now on wait for the next record.
pub fn reset(here: &Here, handle: usize, stream: usize) -> Result<()> {
    let stream = here.stream(stream)?;
    let entry = find(handle)?;
    entry.same_device(stream.device)?;
    if engine()?.settings.strict {
        entry.may_be_reset()?;
    }
    Ok(entry.event.reset(&stream.stream)?)
}

/// aclrtStreamWaitEvent: later work of the stream waits for what the event has captured by now.
pub fn stream_wait(here: &Here, stream: usize, handle: usize) -> Result<()> {
    let stream = here.stream(stream)?;
    let entry = find(handle)?;
    entry.same_device(stream.device)?;
    entry.needs_sync("streams cannot wait for it")?;
    match WAIT_LIMIT.load(Ordering::Relaxed) {
        0 => Ok(entry.event.block(&stream.stream)?),
        seconds => wait_within(engine()?, &stream, &entry, seconds),
    }
}

/// What aclrtSetOpWaitTimeout set last, in seconds; 0 is no limit.
static WAIT_LIMIT: AtomicU32 = AtomicU32::new(0);

/// aclrtSetOpWaitTimeout: how long streams wait for events at most that they are told to wait for from here
/// on.
pub fn limit_waits(seconds: u32) {
    WAIT_LIMIT.store(seconds, Ordering::Relaxed);
}

/// As `Event::block`, but if it takes longer the stream's work fails and goes on.
fn wait_within(
    engine: &'static OpenedEngine,
    stream: &StreamEntry,
    entry: &EventEntry,
    seconds: u32,
) -> Result<()> {
    let note = format!(
        "aclrtStreamWaitEvent: event {:#x} was not complete after {seconds} s, the limit of \
         aclrtSetOpWaitTimeout",
        entry.handle
    );
    let timed_out = Kind::Native(c::ACL_ERROR_RT_WAIT_TIMEOUT).because(note);
    Ok(entry.event.block_by(&stream.stream, |what| {
        let gate = Gate::new();
        let limit = Duration::from_secs(seconds.into());
        let until = Until::Limit { limit, error: timed_out, withdraw: Box::new(|| true) };
        let ticket = waits::block(&engine.runtime, &stream.stream, gate.clone(), until)?;
        what.when_done(Box::new(move || gate.open()));
        Ok(ticket)
    })?)
}

/// aclrtQueryEventStatus: the recorded-status number.
pub fn query_status(handle: usize) -> Result<i32> {
    let complete = find(handle)?.is_complete();
    Ok(if complete { ACL_EVENT_RECORDED_STATUS_COMPLETE } else { ACL_EVENT_RECORDED_STATUS_NOT_READY })
}

/// aclrtQueryEvent: the status number of the deprecated query, not for the newest events.
pub fn query(handle: usize) -> Result<i32> {
    let entry = find(handle)?.older("aclrtQueryEvent")?;
    Ok(if entry.is_complete() { ACL_EVENT_STATUS_COMPLETE } else { ACL_EVENT_STATUS_NOT_READY })
}

/// aclrtQueryEventWaitStatus: complete when no stream waits, or will wait, for the event because of a call so
/// far.
pub fn query_waits(handle: usize) -> Result<i32> {
    let entry = find(handle)?.older("aclrtQueryEventWaitStatus")?;
    let waits = entry.event.is_waited_for();
    Ok(if waits { ACL_EVENT_WAIT_STATUS_NOT_READY } else { ACL_EVENT_WAIT_STATUS_COMPLETE })
}

/// aclrtSynchronizeEventWithTimeout: for ever if -1.
pub fn synchronize_within(here: &Here, handle: usize, timeout: i32) -> Result<()> {
    find(handle)?;
    synchronize(here, handle, limit_ms(timeout)?)
}

/// aclrtSynchronizeEvent.
pub fn synchronize(here: &Here, handle: usize, limit: Option<Duration>) -> Result<()> {
    let entry = find(handle)?;
    let Some(mark) = entry.event.latest() else { return Ok(()) };
    interrupt::wait(here, limit, |limit| mark.wait(limit)).map_err(|error| match (error.kind, limit) {
        (Kind::Timeout, Some(limit)) => {
            let note = format!("event {handle:#x} is not complete after {} ms", limit.as_millis());
            fail(c::ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, note)
        }
        _ => error.into(),
    })
}

/// aclrtEventElapsedTime in milliseconds.
pub fn elapsed_ms(start: usize, end: usize) -> Result<f32> {
    let (first, second) = (find(start)?, find(end)?);
    let invalid = |note| fail(c::ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, note);
    if first.device != second.device {
        return Err(invalid(format!(
            "event {start:#x} is of device {}, event {end:#x} is of device {}: each device has a clock of \
             its own",
            first.device, second.device
        )));
    }
    let (first, second) = (first.timed()?, second.timed()?);
    let elapsed = second
        .elapsed_ms(&*first)
        .ok_or_else(|| invalid("both events must be complete: synchronise first".into()))?;
    if elapsed < 0.0 {
        let note = format!("event {end:#x} was reached {} ms before event {start:#x}", -elapsed);
        return Err(fail(c::ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL, note));
    }
    Ok(elapsed as f32)
}

/// aclrtEventGetTimestamp: microseconds of the device's clock.
pub fn timestamp_us(handle: usize) -> Result<u64> {
    let entry = find(handle)?;
    let mark = entry.timed()?;
    if !mark.is_done() {
        let note = format!("event {handle:#x} is not complete: synchronise first");
        return Err(fail(c::ACL_ERROR_RT_EVENT_NOT_COMPLETE, note));
    }
    mark.reached_us().ok_or_else(|| {
        let note = format!("event {handle:#x} took no time: the work it was recorded behind was dropped");
        fail(c::ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, note)
    })
}

impl EventEntry {
    /// Whether everything it captured was done without a failure.
    fn is_complete(&self) -> bool {
        match self.event.latest() {
            None => self.made == EventMaker::ExWithFlag,
            Some(mark) => mark.is_done() && !mark.failed(),
        }
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

fn unknown(handle: usize) -> Error {
    fail(c::ACL_ERROR_RT_INVALID_HANDLE, format!("{handle:#x} is no event, or one that was destroyed"))
}
