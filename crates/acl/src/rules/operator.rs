//! Operators that the CPU runs in a stream's order, for `ferry_acl.torch`: where their bytes are.
//!
//! The caller runs the operator itself, when this has waited for what the stream had to do before it. To
//! whoever watches the process it is work of the stream: every range is read or written by an op of it, and
//! the wait is not one of the program's, so that nothing counts as joined by it.

use super::target::{On, Target};
use crate::{
    Result, constants as c,
    state::{Here, OpenedEngine},
    watched,
};
use ferry_core::{Access, Fill, Home, Memory, Op, Request, Rows};
use std::{collections::BTreeMap, sync::Mutex};

/// What an operator does with a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperatorAccess {
    /// It reads the bytes.
    Reads,
    /// It writes all of them, whatever they were.
    Replaces,
    /// It reads them and writes some.
    Changes,
}

impl From<usize> for OperatorAccess {
    /// 0 reads, 1 replaces, anything else changes.
    fn from(number: usize) -> OperatorAccess {
        match number {
            0 => OperatorAccess::Reads,
            1 => OperatorAccess::Replaces,
            _ => OperatorAccess::Changes,
        }
    }
}

/// Bytes that an operator uses.
#[derive(Clone, Copy, Debug)]
pub struct OperatorRange {
    /// The first byte, as the program calls it.
    pub addr: usize,
    /// How many.
    pub len: usize,
    /// For what.
    pub access: OperatorAccess,
}

/// Waits until everything before the operator in its stream is done, and says where the CPU finds each range:
/// 0 if it cannot use it as one piece.
pub fn run<'a>(
    here: &Here,
    stream: usize,
    ranges: impl Iterator<Item = (OperatorRange, &'a mut usize)>,
) -> Result<()> {
    let target = Target::find(here, On::Stream(stream))?;
    if let Some(part) = target.captured() {
        let note = "operators of ferry_acl.torch run on the CPU at once and cannot be captured: capture \
                    copies only, or run the operator before the capture or after it";
        return Err(part.entry.break_by(c::ACL_ERROR_RT_STREAM_CAPTURED, note.into()));
    }
    let is_watched = watched::is_watched().is_some();
    for (range, at) in ranges {
        *at = engine_address(target.engine, &range)?.unwrap_or_default();
        if is_watched && *at != 0 {
            // SAFETY: the range was just looked up, and this waits for the work below.
            unsafe { show(&target, stream, &range, *at) }?;
        }
    }
    if is_watched {
        target.stream().fence()?.wait(None)?;
    } else if !target.stream().is_idle()? {
        target.stream().so_far()?.wait(None)?;
    }
    // It stays to be reported by the program's own synchronise.
    let newest = target.stream().newest();
    target.stream().status().error_within(newest, newest).map_or(Ok(()), |error| Err(error.into()))
}

/// The engine's address of a range, if the CPU can use it as one piece.
fn engine_address(engine: &OpenedEngine, range: &OperatorRange) -> Result<Option<usize>> {
    let OperatorRange { addr, len, access } = *range;
    let access = if access == OperatorAccess::Reads { Access::Read } else { Access::Write };
    let place = engine.runtime.memory().place(addr, len, access)?;
    let is_usable = engine.runtime.backend().name() == "host" && place.room_from(addr) >= len;
    Ok(is_usable.then(|| place.engine_address(addr)))
}

/// Has the stream access the range, which the engine calls `at`, as the operator will. No byte changes that
/// the operator does not replace.
///
/// # Safety
/// The range stays valid until that is done, and nobody else uses it meanwhile.
unsafe fn show(target: &Target, stream: usize, range: &OperatorRange, at: usize) -> Result<()> {
    let OperatorRange { addr, len, access } = *range;
    if len == 0 {
        return Ok(());
    }
    if access != OperatorAccess::Replaces {
        let scratch = scratch(target, stream, len)?;
        // SAFETY: the caller's promise; the scratch memory stays.
        unsafe { target.copy(Rows::linear(scratch, addr, len), |_| Ok(())) }?;
    }
    if access == OperatorAccess::Reads {
        return Ok(());
    }
    let device = Some(target.device());
    let make =
        |_: &Memory| Ok::<_, ferry_core::Error>(Op::Fill(Fill { dst: at, len, pattern: [0; 4], device }));
    if access == OperatorAccess::Replaces {
        // SAFETY: the caller's promise.
        unsafe { target.stream().submit(make) }?;
        return Ok(());
    }
    // All of it counts as written: else what was in place before, and nobody wrote, would be a finding when
    // the result is copied out.
    target.stream().fence()?.wait(None)?;
    // SAFETY: the range was looked up, and the stream has passed all work on it.
    let kept = unsafe { std::slice::from_raw_parts(at as *const u8, len) }.to_vec();
    // SAFETY: the caller's promise.
    unsafe { target.stream().submit(make) }?;
    target.stream().fence()?.wait(None)?;
    // SAFETY: as above; the fill has passed.
    unsafe { std::ptr::copy_nonoverlapping(kept.as_ptr(), at as *mut u8, len) };
    Ok(())
}

/// Memory of the stream's device that only operators of this stream copy to. It is never freed: the program
/// has not joined the copies, and would be told of memory that is freed under way.
fn scratch(target: &Target, stream: usize, len: usize) -> Result<usize> {
    static SCRATCH: Mutex<BTreeMap<usize, (usize, usize)>> = Mutex::new(BTreeMap::new());
    let mut all = SCRATCH.lock().unwrap();
    match all.get(&stream) {
        Some(&(base, room)) if room >= len => Ok(base),
        _ => {
            let len = len.next_power_of_two().max(4096);
            let request = Request { home: Home::Device(target.device()), len, page: 4096 };
            let base = target.engine.runtime.alloc(&request)?.base;
            all.insert(stream, (base, len));
            Ok(base)
        }
    }
}
