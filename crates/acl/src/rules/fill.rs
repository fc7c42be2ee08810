//! Fills: aclrtMemset and aclrtMemsetD32, asynchronous and not.

use super::target::{On, Target};
use crate::{
    Result,
    arguments::{not_null, refuse, within},
    constants::*,
    error::fail,
    explain::explaining,
    state::Here,
};
use ferry_core::{Access, Fill, Memory, Op, Plan};

/// aclrtMemset and aclrtMemsetAsync: `count` bytes become the low byte of `value`. Device or host memory, by
/// the address.
///
/// # Safety
/// The range stays valid until the fill is done.
pub unsafe fn memset(
    here: &Here,
    ptr: usize,
    max_count: usize,
    value: i32,
    count: usize,
    on: On,
) -> Result<()> {
    explaining(here, [("devPtr", ptr)], || {
        not_null("devPtr", ptr)?;
        let target = Target::find(here, on)?;
        within("count", count, "maxCount", max_count)?;
        // SAFETY: the caller's promise.
        unsafe { fill(&target, ptr, count, [value as u8; 4]) }
    })
}

/// aclrtMemsetD32 and aclrtMemsetD32Async: `n` words of 32 bits. Memory of acl only; host memory is filled at
/// once.
///
/// # Safety
/// The range stays valid until the fill is done.
pub unsafe fn memset_d32(
    here: &Here,
    ptr: usize,
    mem_size: usize,
    value: u32,
    n: usize,
    on: On,
) -> Result<()> {
    explaining(here, [("ptr", ptr)], || {
        not_null("ptr", ptr)?;
        let target = Target::find(here, on)?;
        let count = n.checked_mul(4).ok_or_else(|| refuse(format!("N is {n}: 4 * N overflows")))?;
        within("4 * N", count, "memSize", mem_size)?;
        let pattern = value.to_ne_bytes();
        if count == 0 {
            // SAFETY: no memory takes part.
            return unsafe { fill(&target, ptr, 0, pattern) };
        }
        let place = target.engine.runtime.memory().place(ptr, count, Access::Write)?;
        if place.is_plain() {
            return Err(refuse("ptr must be memory of aclrtMalloc or aclrtMallocHost"));
        }
        match place.device() {
            // SAFETY: the caller's promise.
            Some(_) => unsafe { fill(&target, ptr, count, pattern) },
            // SAFETY: as above.
            None if matches!(on, On::ThisThread) => unsafe { fill(&target, ptr, count, pattern) },
            // A captured one is: it runs with the model.
            // SAFETY: as above.
            None if target.captured().is_some() => unsafe { fill(&target, ptr, count, pattern) },
            // Documented: a host fill is not put on the stream.
            // SAFETY: as above.
            None => unsafe { fill(&Target::inside(here)?, ptr, count, pattern) },
        }
    })
}

/// One op, or one for each block where the range goes through several that are mapped next to each other. A
/// range of no bytes is not looked up, as in a plan.
///
/// # Safety
/// The range stays valid until the fill is done.
unsafe fn fill(target: &Target, ptr: usize, count: usize, pattern: [u8; 4]) -> Result<()> {
    if count == 0 {
        let nothing = |_: &Memory| Ok::<_, ferry_core::Error>(Plan::default());
        // SAFETY: no memory takes part.
        let (must_wait, ticket) = unsafe { target.submit_plan(nothing, Plan::is_plain) }?;
        return target.wait_if(must_wait, ticket);
    }
    target.wait_before(|memory| memory.place(ptr, count, Access::Write).map(|place| place.is_plain()))?;
    let (mut plain, mut done) = (false, 0);
    loop {
        let mut len = 0;
        let mut turned = pattern;
        turned.rotate_left(done % 4);
        let make = |memory: &Memory| {
            let (start, left) = (ptr + done, count - done);
            // The whole range is looked up first; after that only the next block.
            let asked = if done == 0 { left } else { 1 };
            let place = memory.place(start, asked, Access::Write)?;
            plain = place.is_plain();
            target.check_capture(plain)?;
            len = if plain { asked } else { place.room_from(start).min(left) };
            let (dst, device) = (place.engine_address(start), place.device());
            Ok::<_, ferry_core::Error>(Op::Fill(Fill { dst, len, pattern: turned, device }))
        };
        // SAFETY: the caller's promise.
        let ticket = unsafe { target.stream().submit(make) }?;
        done += len;
        if done == count {
            return target.wait_if(plain, ticket);
        }
    }
}

/// Documented: bytes of an overflow status.
const OVERFLOW_STATUS: usize = 64;

/// aclrtGetOverflowStatus: writes that nothing overflowed, in stream order. There are no operators here that
/// could overflow.
///
/// # Safety
/// The range stays valid until the fill is done.
pub unsafe fn overflow_status(here: &Here, addr: usize, size: usize, stream: usize) -> Result<()> {
    explaining(here, [("outputAddr", addr)], || {
        not_null("outputAddr", addr)?;
        let target = Target::find(here, On::Stream(stream))?;
        if size != OVERFLOW_STATUS {
            return Err(refuse(format!(
                "outputSize is {size}: an overflow status has {OVERFLOW_STATUS} bytes"
            )));
        }
        on_device("outputAddr", &target, addr, size, Access::Write)?;
        // SAFETY: the caller's promise.
        unsafe { fill(&target, addr, size, [0; 4]) }
    })
}

/// aclrtCmoAsync: checks the arguments of a cache hint, and does no more: there is no cache.
pub fn cache_hint(here: &Here, addr: usize, size: usize, kind: i32, stream: usize) -> Result<()> {
    explaining(here, [("src", addr)], || {
        not_null("src", addr)?;
        let target = Target::find(here, On::Stream(stream))?;
        match kind {
            ACL_RT_CMO_TYPE_PREFETCH => {}
            ACL_RT_CMO_TYPE_WRITEBACK..=ACL_RT_CMO_TYPE_FLUSH => {
                let note = format!("cmoType is {kind}: only ACL_RT_CMO_TYPE_PREFETCH (0) is supported");
                return Err(fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, note));
            }
            other => {
                return Err(refuse(format!("cmoType is {other}: not a member of aclrtCmoType (0 to 3)")));
            }
        }
        on_device("src", &target, addr, size, Access::Read)?;
        // SAFETY: no memory takes part.
        unsafe { fill(&target, addr, 0, [0; 4]) }
    })
}

/// Refuses a range that is not memory of the stream's device.
pub(crate) fn on_device(name: &str, target: &Target, addr: usize, len: usize, access: Access) -> Result<()> {
    let place = target.engine.runtime.memory().place(addr, len, access)?;
    if place.device() == Some(target.device()) {
        return Ok(());
    }
    Err(refuse(format!("{name} must be memory of device {}, the stream's", target.device())))
}
