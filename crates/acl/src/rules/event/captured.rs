//! Events in captures: records and waits that join streams, and events between a model and streams outside.

use super::{
    EventEntry, EventMaker, block_within, block_within_limit, find, record, stream_wait, wait_limit,
};
use crate::{
    Result,
    arguments::refuse,
    capture::{self, CaptureEntry, StreamPart, TaskKind},
    constants::*,
    error::fail,
    state::{Here, StreamEntry, engine},
};
use ferry_core::{Edge, Gate, Kind, Stream, Ticket, sync::lock};
use std::{
    mem,
    sync::{Arc, Mutex, Weak, atomic::Ordering},
};

/// A record in a capture.
pub(super) struct CapturedRecord {
    capture: Weak<CaptureEntry>,
    /// `None` if it was reset since.
    edge: Option<Edge>,
}

/// aclrtRecordEventWithFlag: with flag 1 a task of a model, whose executions record the event for streams
/// outside.
pub fn record_with_flag(here: &Here, handle: usize, stream: usize, flag: u32) -> Result<()> {
    if flag == 0 {
        return record(here, handle, stream);
    }
    let (entry, part) = external_use(here, handle, stream, flag, ExternalUse::Record)?;
    part.each(TaskKind::EventRecord(handle), move |stream| Ok(entry.event.record(stream)?))
}

/// aclrtStreamWaitEventWithFlag: with flag 1 a task of a model, whose executions wait for what was recorded
/// outside.
pub fn wait_with_flag(here: &Here, stream: usize, handle: usize, timeout: u32, flag: u32) -> Result<()> {
    if timeout != 0 {
        return Err(refuse(format!("timeout is {timeout}: it must be 0")));
    }
    if flag == 0 {
        return stream_wait(here, stream, handle);
    }
    let (entry, part) = external_use(here, handle, stream, flag, ExternalUse::Wait)?;
    part.each(TaskKind::EventWait(handle), move |stream| block_within_limit(&entry, stream))
}

/// What a model does with an event of streams outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExternalUse {
    Record,
    Wait,
}

/// The event and the part of the stream in its capture, if a model may use the event so.
fn external_use(
    here: &Here,
    handle: usize,
    stream: usize,
    flag: u32,
    how: ExternalUse,
) -> Result<(Arc<EventEntry>, StreamPart)> {
    if flag != 1 {
        return Err(refuse(format!("flag is {flag}: give 0, or 1 for an event of streams outside")));
    }
    let stream = here.stream(stream)?;
    let entry = find(handle)?;
    entry.same_device(stream.device)?;
    if (entry.made, entry.flags) != (EventMaker::ExWithFlag, ACL_EVENT_SYNC as u32) {
        return Err(refuse(format!(
            "event {handle:#x} was not made by aclrtCreateEventExWithFlag with ACL_EVENT_SYNC alone"
        )));
    }
    let part = capture::of_stream(stream.handle).ok_or_else(|| {
        let note = format!("stream {:#x} is not captured: flag 1 is for captured streams", stream.handle);
        fail(ACL_ERROR_RT_STREAM_NOT_CAPTURED, note)
    })?;
    let is_captured = entry.captured_by().is_some();
    if is_captured || how == ExternalUse::Record && entry.is_recorded_plainly.load(Ordering::Relaxed) {
        let place = if is_captured { "in a capture" } else { "before" };
        return Err(refuse(format!(
            "event {handle:#x} was recorded by aclrtRecordEvent {place}: flag 1 needs an event of its own"
        )));
    }
    entry.use_in(&part.entry, how)?;
    Ok((entry, part))
}

/// Events in captures.
impl EventEntry {
    /// The capture that recorded it last, if that has not ended, and the record.
    pub(super) fn captured_by(&self) -> Option<(Arc<CaptureEntry>, Option<Edge>)> {
        if !capture::any() {
            return None;
        }
        // The capture is asked without this lock: it has its own when it records an event.
        let record = lock(&self.captured).as_ref().map(|record| (record.capture.upgrade(), record.edge));
        let (capture, edge) = record?;
        Some((capture.filter(|capture| capture.is_active())?, edge))
    }

    /// Refuses a use of an event that is captured, which breaks the capture.
    pub(super) fn not_captured(&self, use_of_it: &str) -> Result<()> {
        let Some((capture, _)) = self.captured_by() else { return Ok(()) };
        let (place, times) = match capture.is_built() {
            true => ("a model", "after aclmdlRIBuildEnd"),
            false => ("a capture", "before the capture or after aclmdlRICaptureEnd"),
        };
        let note = format!(
            "event {:#x} was recorded in {place}, so that it cannot be {use_of_it}. Ways out: do it {times}; \
             or use another event",
            self.handle
        );
        Err(capture.break_by(ACL_ERROR_RT_EVENT_CAPTURED, note))
    }

    /// Says that two captures cannot share it.
    fn of_another(&self, other: &CaptureEntry) -> String {
        let (event, other) = (self.handle, other.describe());
        format!("event {event:#x} was recorded in another capture, and two captures cannot share it: {other}")
    }

    /// A record that is not captured.
    pub(super) fn record_now(&self, stream: &Stream) -> Result<()> {
        self.not_captured("recorded outside of the capture")?;
        self.event.record(stream)?;
        self.is_recorded_plainly.store(true, Ordering::Relaxed);
        if self.is_external()
            && let Some(mark) = self.event.latest()
        {
            let flag = self.flag.clone();
            flag.expect_record();
            mark.when_done(Box::new(move || flag.set()));
        }
        Ok(())
    }

    pub(super) fn is_external(&self) -> bool {
        self.flags & ACL_EVENT_EXTERNAL as u32 != 0
    }

    /// Refuses what cannot be recorded in a capture.
    pub(super) fn can_be_recorded(&self) -> Result<()> {
        if !self.is_external() {
            return Ok(());
        }
        let made = "was made with ACL_EVENT_EXTERNAL";
        Err(refuse(format!("event {:#x} {made}: it is not recorded in a capture", self.handle)))
    }

    pub(super) fn record_captured(&self, part: &StreamPart) -> Result<()> {
        self.can_be_recorded()?;
        if let Some((other, _)) = self.captured_by().filter(|(other, _)| !Arc::ptr_eq(other, &part.entry)) {
            let note = self.of_another(&other);
            return Err(part.entry.break_by(ACL_ERROR_STREAM_CAPTURE_CONFLICT, note));
        }
        part.add(TaskKind::EventRecord(self.handle), |recording, branch| {
            let edge = Some(recording.record(branch));
            *lock(&self.captured) = Some(CapturedRecord { capture: Arc::downgrade(&part.entry), edge });
        })
    }

    pub(super) fn reset_captured(&self, part: &StreamPart) -> Result<()> {
        let kind = TaskKind::EventReset(self.handle);
        if self.is_external() {
            let flag = self.flag.clone();
            return part.each(kind, move |stream| Ok(flag.clear_on(stream)?));
        }
        self.can_be_recorded()?;
        part.add(kind, |recording, branch| {
            recording.barrier(branch);
            *lock(&self.captured) = Some(CapturedRecord { capture: Arc::downgrade(&part.entry), edge: None });
        })
    }

    /// A wait that takes part in a capture: true if it was recorded. A stream that waits for a record of a
    /// capture joins that capture.
    pub(super) fn wait_captured(&self, here: &Here, stream: &Arc<StreamEntry>) -> Result<bool> {
        let (part, record) = (capture::of_stream(stream.handle), self.captured_by());
        if !self.is_external() {
            self.needs_sync("streams cannot wait for it")?;
        }
        if let Some(part) = &part {
            part.entry.takes_tasks_of(stream.handle)?;
        }
        let (part, edge) = match (part, record) {
            (None, None) => return capture::check_default(stream).map(|()| false),
            (Some(part), None) if self.is_external() => {
                let (flag, event) = (self.flag.clone(), self.handle);
                part.each(TaskKind::EventWait(event), move |stream| Ok(flag.wait_on(stream, event)?))?;
                return Ok(true);
            }
            (None, Some((capture, edge))) => {
                (capture::join(engine()?, &*here.context()?, &capture, stream)?, edge)
            }
            (Some(part), Some((capture, edge))) if Arc::ptr_eq(&part.entry, &capture) => (part, edge),
            (Some(part), Some((other, _))) => {
                let note = self.of_another(&other);
                other.invalidate(&note);
                return Err(part.entry.break_by(ACL_ERROR_STREAM_CAPTURE_CONFLICT, note));
            }
            (Some(part), None) => (part, None),
        };
        let Some(edge) = edge else {
            let note = format!(
                "stream {:#x} is captured, and event {:#x} was not recorded in that capture. Ways out: \
                 record it on a captured stream first; wait for it before the capture; or make it with \
                 ACL_EVENT_EXTERNAL, if each execution is to wait for a new record",
                stream.handle, self.handle
            );
            return Err(part.entry.break_by(ACL_ERROR_RT_CAPTURE_DEPENDENCY, note));
        };
        part.add(TaskKind::EventWait(self.handle), |recording, branch| recording.wait(branch, edge))?;
        Ok(true)
    }

    /// Notes that the model of a capture uses it for streams outside. Documented: in one way only.
    fn use_in(&self, capture: &Arc<CaptureEntry>, how: ExternalUse) -> Result<()> {
        let mut uses = lock(&self.external);
        uses.retain(|(capture, _)| capture.strong_count() > 0);
        match uses.iter().find(|(known, _)| known.as_ptr() == Arc::as_ptr(capture)) {
            None => uses.push((Arc::downgrade(capture), how)),
            Some((_, other)) if *other == how => (),
            Some((_, other)) => {
                let event = self.handle;
                return Err(refuse(format!("event {event:#x}: {how:?} and {other:?} in one capture")));
            }
        }
        Ok(())
    }
}

/// What models wait for, in place of a mark, when an event is external: a bit that records set and that a
/// task of the model clears.
#[derive(Default)]
pub(super) struct ExternalFlag(Mutex<FlagState>);

#[derive(Default)]
struct FlagState {
    is_set: bool,
    /// How many records are to set it that were submitted before now.
    records: usize,
    waiting: Vec<FlagWait>,
    /// What waits fail with for which no record can come any more, since the event is destroyed.
    ended: Option<ferry_core::Error>,
}

impl FlagState {
    /// What waits that are left fail with, if no record can come.
    fn failure(&self) -> Option<ferry_core::Error> {
        self.ended.clone().filter(|_| self.records == 0)
    }
}

/// A stream that has come to a wait: its op `ticket`, which passes when the gate is open.
struct FlagWait {
    stream: Arc<Stream>,
    ticket: Ticket,
    gate: Arc<Gate>,
}

impl FlagWait {
    /// Whether nothing waits for the gate any more, since the stream was aborted.
    fn is_dropped(&self) -> bool {
        self.stream.status().is_dropped(self.ticket)
    }

    /// Lets the stream go on.
    fn end(self, failure: Option<ferry_core::Error>) {
        if let Some(error) = failure.filter(|_| !self.is_dropped()) {
            self.stream.status().fail_at(self.ticket, error);
        }
        self.gate.open();
    }
}

impl ExternalFlag {
    /// A record was submitted: [`set`](Self::set) follows.
    fn expect_record(&self) {
        lock(&self.0).records += 1;
    }

    fn set(&self) {
        let mut state = lock(&self.0);
        state.is_set = true;
        state.records -= 1;
        let waiting = mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(|wait| wait.end(None));
    }

    /// The event is destroyed: executions that wait for a record which nobody can make any more fail.
    pub(super) fn end(&self, event: usize) {
        let note = format!(
            "event {event:#x}, which the model waits for, was destroyed: no record of it can come. Keep an \
             event of ACL_EVENT_EXTERNAL as long as its models are executed"
        );
        let mut state = lock(&self.0);
        state.ended = Some(Kind::Native(ACL_ERROR_RT_PARAM_INVALID).because(note));
        let Some(failure) = state.failure() else { return };
        let waiting = mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(|wait| wait.end(Some(failure.clone())));
    }

    /// Opens the gate when the flag is set.
    fn open_when_set(&self, wait: FlagWait) {
        let mut state = lock(&self.0);
        let failure = if state.is_set { None } else { state.failure() };
        if !state.is_set && failure.is_none() {
            state.waiting.retain(|wait| !wait.is_dropped());
            return state.waiting.push(wait);
        }
        drop(state);
        wait.end(failure);
    }

    /// Takes back the wait of this gate. False if it does not wait, or no longer.
    fn withdraw(&self, gate: &Arc<Gate>) -> bool {
        let mut state = lock(&self.0);
        let found = state.waiting.iter().position(|wait| Arc::ptr_eq(&wait.gate, gate));
        found.map(|index| state.waiting.swap_remove(index)).is_some()
    }

    /// Later work of the stream waits until the flag is set, from when the stream comes here, within the
    /// limit of aclrtSetOpWaitTimeout.
    fn wait_on(self: &Arc<Self>, stream: &Arc<Stream>, event: usize) -> ferry_core::Result<()> {
        let (gate, limit) = (Gate::new(), wait_limit());
        let block = |gate: Arc<Gate>| match limit {
            0 => stream.wait_for(gate),
            _ => {
                let (flag, withdrawn) = (self.clone(), gate.clone());
                let withdraw = Box::new(move || flag.withdraw(&withdrawn));
                block_within(stream, gate, (event, limit), withdraw)
            }
        };
        let flag = self.clone();
        in_turn(stream, &gate, block, move |wait| flag.open_when_set(wait))
    }

    /// Clears the flag when the stream comes here.
    pub(super) fn clear_on(self: &Arc<Self>, stream: &Arc<Stream>) -> ferry_core::Result<()> {
        let flag = self.clone();
        let clear = move |wait: FlagWait| {
            lock(&flag.0).is_set = false;
            wait.end(None);
        };
        in_turn(stream, &Gate::new(), |gate| stream.wait_for(gate), clear)
    }
}

/// Runs `then` when the stream comes here, which goes on when the gate is open; `block` has it wait for the
/// gate. If the stream drops it, by an abort or because it has stopped, `then` does not run: what was dropped
/// uses no record up.
fn in_turn(
    stream: &Arc<Stream>,
    gate: &Arc<Gate>,
    block: impl FnOnce(Arc<Gate>) -> ferry_core::Result<Ticket>,
    then: impl FnOnce(FlagWait) + Send + 'static,
) -> ferry_core::Result<()> {
    let before = stream.fence()?;
    let ticket = block(gate.clone())?;
    let wait = FlagWait { stream: stream.clone(), ticket, gate: gate.clone() };
    before.when_done(Box::new(move || match wait.is_dropped() {
        true => wait.end(None),
        false => then(wait),
    }));
    Ok(())
}
