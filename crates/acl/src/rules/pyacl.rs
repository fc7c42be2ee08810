//! Rules of pyACL's pages that the pages of C do not have. They are AscendCL's rules like the others, and
//! need the tables of the process to be checked, so they are here; the interpreter is known to the Python
//! module alone.

use super::{
    copy::Async,
    kinds::CopyKind,
    target::{On, Target, between},
};
use crate::{
    Result,
    arguments::{not_null, refuse, within},
    constants as c,
    error::fail,
    fork::is_forked,
    state::{Here, opened},
};
use ferry_core::{Access, Block, Ends, Home, Origin, Place, Rows};
use std::cell::Cell;

/// Documented for pyACL: both addresses of a copy with condition.
const ALIGNMENT: usize = 64;

/// acl.rt.memcpy_async_with_condition, by the letter of its page (R20 to R34): both addresses are aligned,
/// and host memory that acl did not allocate makes the call wait, even where it was registered as
/// page-locked.
///
/// # Safety
/// Both ranges stay valid until the copy is done.
pub unsafe fn memcpy_async_with_condition(here: &Here, copy: Async) -> Result<()> {
    use CopyKind::*;
    const KINDS: &[CopyKind] = &[HostToHost, HostToDevice, DeviceToHost, DeviceToDevice, Default];
    let Async { dst, dest_max, src, count, kind, stream } = copy;
    between(here, dst, src, || {
        let target = Target::find(here, On::Stream(stream))?;
        let kind = CopyKind::try_from(kind)?.only(KINDS)?.not_inside_host(target.engine)?;
        within("count", count, "destMax", dest_max)?;
        aligned("dst", dst)?;
        aligned("src", src)?;
        let foreign = Cell::new(false);
        let fits = |ends: &Ends| {
            foreign.set(is_foreign(&ends.dst) || is_foreign(&ends.src));
            kind.agrees(ends, target.engine, target.device())
        };
        // SAFETY: the caller's promise.
        unsafe { target.copy_waiting_if(|_| foreign.get(), Rows::linear(dst, src, count), fits) }
    })
}

/// Host memory that acl did not allocate.
fn is_foreign(place: &Place) -> bool {
    matches!(place, Place::Plain | Place::Known(Block { origin: Origin::Registered, .. }))
}

fn aligned(name: &str, addr: usize) -> Result<()> {
    if addr.is_multiple_of(ALIGNMENT) {
        return Ok(());
    }
    let note = format!(
        "{name} {addr:#x} is {} bytes past a multiple of {ALIGNMENT}, and acl.rt.memcpy_async_with_condition \
         takes aligned addresses only; what acl.rt.malloc and acl.rt.malloc_host return is aligned, and \
         acl.rt.memcpy_async takes any address",
        addr % ALIGNMENT
    );
    Err(fail(c::ACL_ERROR_RT_ADDR_UNALIGNED, note))
}

/// Refuses `len` bytes that the CPU may not read, or also write: device memory, where that is apart, what is
/// not mapped, and of acl's own memory what is not allocated.
pub fn host_range(addr: usize, len: usize, write: bool) -> Result<()> {
    let access = if write { Access::Write } else { Access::Read };
    not_null("ptr", addr)?;
    if let Some(engine) = opened().filter(|_| !is_forked()) {
        let memory = engine.runtime.memory();
        let on_a_device = |block: &Block| matches!(block.home, Home::Device(_)) && !engine.is_unified();
        if let Some(block) = memory.table().find(addr).filter(on_a_device) {
            let note = format!(
                "ptr {addr:#x} is in {block}, which the host cannot reach: copy it to host memory first \
                 (acl.rt.memcpy)"
            );
            return Err(refuse(note));
        }
        // As for a copy: inside one allocation, and none that was freed.
        memory.place(addr, len, access).map_err(|why| refuse(format!("ptr: {why}")))?;
        // What acl has allocated is there, and a probe of it would pass for an access of the program's.
        let is_allocated = |block: Block| block.origin == Origin::Allocated;
        if memory.table().find(addr).is_some_and(is_allocated) {
            return Ok(());
        }
    }
    ferry::engine::probe::accessible(addr, len, access).map_err(|why| refuse(format!("ptr: {why}")))
}
