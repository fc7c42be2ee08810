//! Fills: aclrtMemset and aclrtMemsetD32, asynchronous and not.

use crate::{
    Result,
    call::{not_null, refuse},
    copy::{On, Target, within},
    explain::explaining,
    state::with_here,
};
use ferry_core::{Access, Fill, Memory, Op, Plan};

/// aclrtMemset and aclrtMemsetAsync: `count` bytes become the low byte of `value`. Device or host memory, by the address.
///
/// # Safety
/// The range stays valid until the fill is done.
pub unsafe fn memset(ptr: usize, max_count: usize, value: i32, count: usize, on: On) -> Result<()> {
    explaining([("devPtr", ptr)], || {
        not_null("devPtr", ptr)?;
        with_here(|here| {
            let target = Target::find(here, on)?;
            within("count", count, "maxCount", max_count)?;
            // SAFETY: the caller's promise.
            unsafe { fill(&target, ptr, count, [value as u8; 4]) }
        })
    })
}

/// aclrtMemsetD32 and aclrtMemsetD32Async: `n` words of 32 bits. Memory of acl only; host memory is filled at once.
///
/// # Safety
/// The range stays valid until the fill is done.
pub unsafe fn memset_d32(ptr: usize, mem_size: usize, value: u32, n: usize, on: On) -> Result<()> {
    explaining([("ptr", ptr)], || {
        not_null("ptr", ptr)?;
        with_here(|here| {
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
                // Documented: a host fill is not put on the stream.
                // SAFETY: as above.
                None => unsafe { fill(&Target::find(here, On::ThisThread)?, ptr, count, pattern) },
            }
        })
    })
}

/// One op, or one for each block where the range goes through several that are mapped next to each other. A range of no bytes is
/// nowhere, as in a plan: its address is not looked up.
///
/// # Safety
/// The range stays valid until the fill is done.
unsafe fn fill(target: &Target, ptr: usize, count: usize, pattern: [u8; 4]) -> Result<()> {
    if count == 0 {
        // SAFETY: no memory takes part.
        return unsafe { target.copy(|_| Ok::<_, ferry_core::Error>(Plan::default())) }.map_err(Into::into);
    }
    target.pass(|memory| memory.place(ptr, count, Access::Write).map(|place| place.is_plain()))?;
    let (mut plain, mut done) = (false, 0);
    loop {
        let mut len = 0;
        let mut turned = pattern;
        turned.rotate_left(done % 4);
        let make = |memory: &Memory| {
            let (start, left) = (ptr + done, count - done);
            // The first look is at the whole range; after it only the next block is asked for.
            let looked_at = if done == 0 { left } else { 1 };
            let place = memory.place(start, looked_at, Access::Write)?;
            plain = place.is_plain();
            len = if plain { looked_at } else { place.room_from(start).min(left) };
            let (dst, device) = (place.engine_address(start), place.device());
            Ok::<_, ferry_core::Error>(Op::Fill(Fill { dst, len, pattern: turned, device }))
        };
        // SAFETY: the caller's promise.
        let ticket = unsafe { target.stream().submit(make) }?;
        done += len;
        if done == count {
            return target.settle(ticket, plain);
        }
    }
}
