//! Notifies: a stream records one, and another stream, of any device, waits for that.
//!
//! Unlike an event a notify has no time and cannot be asked: it is one bit on the device, which a record
//! sets and a wait uses up. What the bit does with waits that come first is `notify/bit.rs`. A wait of a
//! stream is a wait for a gate, so no thread stands still for it; a record is a function of the stream, so
//! that it has happened when a synchronise of the stream returns.
//!
//! [`record_on`] and [`wait_on`] submit to a stream as often as they are called and check no argument: the
//! rules are in [`record`] and [`wait`].

mod bit;

use crate::{
    Error, Result,
    arguments::refuse,
    capture::{self, TaskKind},
    constants::{self as c, *},
    error::fail,
    handles::{HandleKind, Handles},
    state::{Here, engine},
    waits::{self, Until},
};
use bit::{NotifyBit, NotifyWait};
use ferry_core::{Gate, Kind, Stream};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

/// A notify of a device.
pub struct NotifyEntry {
    handle: usize,
    device: u32,
    bit: Arc<NotifyBit>,
}

impl HandleKind for NotifyEntry {
    const TAG: usize = 6;
}

/// The notifies of the process.
static NOTIFIES: Handles<NotifyEntry> = Handles::new();

/// aclrtCreateNotify: a notify of the current device.
pub fn create(here: &Here, flag: u64) -> Result<usize> {
    let engine = engine()?;
    let device = here.device()?;
    if flag > ACL_NOTIFY_DEVICE_USE_ONLY as u64 {
        return Err(refuse(format!(
            "flag is {flag:#x}: give ACL_NOTIFY_DEFAULT (0) or ACL_NOTIFY_DEVICE_USE_ONLY (1)"
        )));
    }
    let most = engine.settings.options.product.max_notifies;
    let state = engine.device(device)?;
    if state.notifies.fetch_add(1, Ordering::Relaxed) >= most {
        state.notifies.fetch_sub(1, Ordering::Relaxed);
        return Err(fail(
            c::ACL_ERROR_RT_NO_NOTIFY_RESOURCE,
            format!("device {device} has {most} notifies, the most there can be"),
        ));
    }
    Ok(NOTIFIES.insert(|handle| NotifyEntry { handle, device, bit: Arc::default() }).handle)
}

/// aclrtDestroyNotify: never blocks. Waits that are pending fail.
pub fn destroy(handle: usize) -> Result<()> {
    let engine = engine()?;
    let entry = NOTIFIES.remove(handle).ok_or_else(|| unknown(handle))?;
    let note = format!("aclrtWaitAndResetNotify: notify {handle:#x} was destroyed before it was recorded");
    entry.bit.end(Kind::Native(c::ACL_ERROR_RT_PARAM_INVALID).because(note));
    engine.device(entry.device)?.notifies.fetch_sub(1, Ordering::Relaxed);
    Ok(())
}

/// aclrtRecordNotify: when the stream gets here, one wait is released.
pub fn record(here: &Here, handle: usize, stream: usize) -> Result<()> {
    let stream = here.stream(stream)?;
    let entry = find(handle)?;
    match capture::of_stream(stream.handle) {
        Some(part) => part.each(TaskKind::NotifyRecord(handle), move |stream| record_on(&entry, stream)),
        None => record_on(&entry, &stream.stream),
    }
}

/// Has a stream record a notify.
pub(crate) fn record_on(entry: &Arc<NotifyEntry>, stream: &Arc<Stream>) -> Result<()> {
    let bit = entry.bit.clone();
    stream.call(move || bit.record())?;
    Ok(())
}

/// aclrtWaitAndResetNotify: later work of the stream waits for a record, `timeout` seconds at most; 0 is no
/// limit.
pub fn wait(here: &Here, handle: usize, stream: usize, timeout: u32) -> Result<()> {
    let stream = here.stream(stream)?;
    let entry = find(handle)?;
    match capture::of_stream(stream.handle) {
        Some(part) => part.each(TaskKind::NotifyWait(handle), move |stream| wait_on(&entry, stream, timeout)),
        None => wait_on(&entry, &stream.stream, timeout),
    }
}

/// Has a stream wait for a notify and use its record up.
pub(crate) fn wait_on(entry: &Arc<NotifyEntry>, stream: &Arc<Stream>, timeout: u32) -> Result<()> {
    let gate = Gate::new();
    let ticket = match timeout {
        0 => stream.wait_for(gate.clone())?,
        _ => waits::block(&engine()?.runtime, stream, gate.clone(), entry.until(&gate, timeout))?,
    };
    let (bit, wait) = (entry.bit.clone(), NotifyWait { gate, stream: stream.clone(), ticket });
    stream.fence_after(ticket - 1).when_done(Box::new(move || bit.arrive(wait)));
    Ok(())
}

/// aclrtGetNotifyId: a small number that no other living notify of the process has.
pub fn id(handle: usize) -> Result<u32> {
    Ok(Handles::<NotifyEntry>::index(find(handle)?.handle) as u32)
}

/// aclrtNotifyBatchReset: takes back records that no wait has used up. All of the notifies, or none.
pub fn reset(handles: &[usize]) -> Result<()> {
    if handles.is_empty() {
        return Err(refuse("num is 0: give the number of notifies in the array"));
    }
    let at = |(index, handle): (usize, &usize)| find(*handle).map_err(|error| error.and(place(index)));
    let entries = handles.iter().enumerate().map(at).collect::<Result<Vec<_>>>()?;
    entries.iter().for_each(|entry| entry.bit.reset());
    Ok(())
}

fn place(index: usize) -> String {
    format!("it is notifies[{index}]")
}

impl NotifyEntry {
    /// The limit of a wait for the gate.
    fn until(&self, gate: &Arc<Gate>, seconds: u32) -> Until {
        let note = format!(
            "aclrtWaitAndResetNotify: notify {:#x} was not recorded within {seconds} s, the timeout of the \
             wait",
            self.handle
        );
        let (bit, gate) = (self.bit.clone(), gate.clone());
        Until::Limit {
            limit: Duration::from_secs(seconds.into()),
            error: Kind::Native(c::ACL_ERROR_RT_WAIT_TIMEOUT).because(note),
            withdraw: Box::new(move || bit.withdraw(&gate)),
        }
    }
}

fn find(handle: usize) -> Result<Arc<NotifyEntry>> {
    engine()?; // says first if nothing can be opened
    NOTIFIES.get(handle).ok_or_else(|| unknown(handle))
}

fn unknown(handle: usize) -> Error {
    fail(c::ACL_ERROR_RT_INVALID_HANDLE, format!("{handle:#x} is no notify, or one that was destroyed"))
}
