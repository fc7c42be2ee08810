//! Devices: set, reset, count, memory, peers.

use super::{context, stream::timed_out};
use crate::{
    Result,
    arguments::{limit_ms, refuse},
    capture,
    constants::*,
    error::fail,
    faults, interrupt,
    log::{self, Level, Module},
    state::{Context, Here, OpenedEngine, Primary, StreamEntry, engine},
};
use ferry_core::{Kind, sync::lock};
use std::{
    mem,
    sync::Arc,
    time::{Duration, Instant},
};

/// aclrtSetDevice: the device's default context becomes current in this thread.
pub fn set(here: &Here, id: i32) -> Result<()> {
    let engine = engine()?;
    let context = engine.primary(engine.known_device(id)?, |primary| primary.count += 1)?;
    log::write(Module::Ascendcl, Level::Info, || format!("aclrtSetDevice: device {id}"));
    here.set_context(context);
    Ok(())
}

/// aclrtResetDevice: at count 0 the default context and its streams end, after their work.
pub fn reset(here: &Here, id: i32) -> Result<()> {
    reset_to(here, id, |count| count - 1)
}

/// aclrtResetDeviceForce: as the last aclrtResetDevice, whatever the count.
pub fn reset_force(here: &Here, id: i32) -> Result<()> {
    reset_to(here, id, |_| 0)
}

fn reset_to(here: &Here, id: i32, left: impl Fn(u64) -> u64) -> Result<()> {
    let engine = engine()?;
    let device = engine.known_device(id)?;
    let state = engine.device(device)?;
    let ending = || lock(&state.primary).ending(&left).into_iter().collect();
    interrupt::before(here, ending, |context: &Arc<Context>| context::wait(here, engine, context))?;
    let mut primary = lock(&state.primary);
    if primary.count == 0 {
        let note = format!("device {id} is not set in this process (or was reset as often as it was set)");
        return Err(fail(ACL_ERROR_RT_CONTEXT_NULL, note));
    }
    primary.count = left(primary.count);
    log::write(Module::Ascendcl, Level::Info, || {
        format!("device {id} is reset, {} more to come", primary.count)
    });
    if primary.count > 0 || primary.implicit {
        return Ok(());
    }
    let context = primary.context.take();
    drop(primary);
    let note = format!("device {device} was reset");
    capture::of_device(device).iter().for_each(|capture| capture.invalidate(&note));
    context.iter().for_each(|context| context::end(engine, context));
    Ok(())
}

impl Primary {
    /// The context that ends if the count becomes what `left` makes of it.
    fn ending(&self, left: impl Fn(u64) -> u64) -> Option<Arc<Context>> {
        let ends = self.count > 0 && left(self.count) == 0 && !self.implicit;
        self.context.clone().filter(|_| ends)
    }
}

/// Every default context.
pub(crate) fn all(engine: &OpenedEngine) -> Vec<Arc<Context>> {
    engine.devices.iter().filter_map(|device| lock(&device.primary).context.clone()).collect()
}

/// Takes every default context from its device, whatever its count, and ends all peer access: for
/// aclFinalize, which ends the contexts.
pub(crate) fn take_all(engine: &OpenedEngine) -> Vec<Arc<Context>> {
    lock(&engine.peers).clear();
    engine.devices.iter().filter_map(|device| mem::take(&mut *lock(&device.primary)).context).collect()
}

/// aclrtGetDevice.
pub fn current(here: &Here) -> Result<i32> {
    Ok(here.device()? as i32)
}

/// aclrtGetDeviceCount.
pub fn count() -> Result<u32> {
    Ok(engine()?.devices.len() as u32)
}

/// aclrtGetRunMode.
pub fn run_mode() -> Result<i32> {
    Ok(match engine()?.settings.options.form {
        ferry::products::Form::Ep => ACL_HOST,
        _ => ACL_DEVICE,
    })
}

/// aclrtSynchronizeDeviceWithTimeout: for ever if -1.
pub fn synchronize_within(here: &Here, timeout: i32) -> Result<()> {
    here.need_context()?;
    wait_for_all(here, limit_ms(timeout)?)
}

/// aclrtSynchronizeDevice: waits for all streams of the current device, of every context, and reports the
/// first failure.
pub fn synchronize(here: &Here) -> Result<()> {
    wait_for_all(here, None)
}

/// Refuses a wait for a device with a capture, which breaks all captures there.
fn not_captured(device: u32) -> Result<()> {
    let captures = capture::of_device(device);
    let note = format!(
        "a stream of device {device} is captured, so that the device cannot be waited for. Ways out: do it \
         before the capture or after aclmdlRICaptureEnd; or synchronise streams that are not captured"
    );
    capture::break_all(&captures, ACL_ERROR_RT_STREAM_CAPTURED, &note).map_or(Ok(()), Err)
}

fn wait_for_all(here: &Here, limit: Option<Duration>) -> Result<()> {
    let engine = engine()?;
    let context = here.context()?;
    not_captured(context.device)?;
    faults::sync()?;
    let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
    let counts = |entry: &Arc<StreamEntry>| {
        // That another context has stopped for good is reported by calls in that context.
        let stopped = entry.context != context.handle && entry.stream.status().is_halted();
        entry.device == context.device && !stopped
    };
    let streams: Vec<_> = engine.streams.all().into_iter().filter(counts).collect();
    // Waits for what was submitted when the call began, and no more: streams that are kept busy would delay
    // it for ever.
    let all: Vec<_> = streams.iter().map(|entry| entry.stream.so_far()).collect::<Result<_, _>>()?;
    let mut first = None;
    for work in all {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        match interrupt::wait(here, left, |limit| work.wait(limit)) {
            Err(error) if interrupt::is_interrupted(&error) => return Err(error.into()),
            Err(error) if error.kind == Kind::Timeout => {
                return Err(timed_out(first.unwrap_or(error), limit, format!("device {}", context.device)));
            }
            // That one stream was aborted or has stopped is no reason to leave while others work.
            outcome => first = first.or(outcome.err()),
        }
    }
    let untold = || streams.iter().find_map(|entry| entry.stream.status().take_error());
    first.or_else(untold).map_or(Ok(()), |error| Err(error.into()))
}

/// aclrtGetMemInfo: free and total bytes. Documented: what the hardware does not have is 0 and 0, and a query
/// for HBM on hardware with DDR only answers for DDR.
pub fn memory_info(here: &Here, attr: i32) -> Result<(usize, usize)> {
    let engine = engine()?;
    let device = here.device()?;
    if !(ACL_DDR_MEM..=ACL_MEM_P2P_HUGE1G).contains(&attr) {
        return Err(refuse(format!("attr is {attr}: not a member of aclrtMemAttr (0 to 17)")));
    }
    let ddr = matches!(
        attr,
        ACL_DDR_MEM | ACL_DDR_MEM_HUGE | ACL_DDR_MEM_NORMAL | ACL_DDR_MEM_P2P_HUGE | ACL_DDR_MEM_P2P_NORMAL
    );
    if ddr && engine.settings.options.product.has_hbm {
        return Ok((0, 0));
    }
    Ok(engine.runtime.memory_info(device)?)
}

/// aclrtDeviceCanAccessPeer.
pub fn can_access_peer(device: i32, peer: i32) -> Result<bool> {
    let engine = engine()?;
    if engine.known_device(device)? == engine.known_device(peer)? {
        return Err(refuse(format!("deviceId and peerDeviceId are both {device}: they must differ")));
    }
    Ok(true)
}

/// aclrtDeviceEnablePeerAccess and aclrtDeviceDisablePeerAccess, from the current device to `peer`, one way.
pub fn set_peer_access(here: &Here, peer: i32, flags: u32, enable: bool) -> Result<()> {
    let engine = engine()?;
    let device = here.device()?;
    if flags != 0 {
        return Err(refuse(format!("flags is {flags}: it must be 0")));
    }
    let peer = engine.known_device(peer)?;
    if peer == device && enable && !engine.settings.strict {
        return Ok(()); // it has that access anyway
    }
    if peer == device {
        return Err(refuse(format!("device {peer} is the current device: a device is no peer of itself")));
    }
    let mut peers = lock(&engine.peers);
    if enable {
        peers.insert((device, peer));
    } else {
        peers.remove(&(device, peer));
    }
    Ok(())
}

/// aclrtDevicePeerAccessStatus: whether `device` may reach memory of `peer`.
pub fn peer_access_status(device: i32, peer: i32) -> Result<bool> {
    let engine = engine()?;
    let known = |id| engine.known_device(id).map_err(|error| refuse(error.note.clone()));
    let pair = (known(device)?, known(peer)?);
    if pair.0 == pair.1 {
        return Err(refuse(format!("deviceId and peerDeviceId are both {device}: they must differ")));
    }
    Ok(lock(&engine.peers).contains(&pair))
}
