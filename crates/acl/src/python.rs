//! What only the Python module asks for: the rules of pyACL's own pages, and what it needs to leave well alone.

use crate::{
    Result,
    call::{not_null, refuse},
    constants as c,
    copy::{On, Target, within},
    error::fail,
    explain::with_addresses,
    kinds::CopyKind,
    state::{self, opened, with_here},
};
use ferry_core::{Access, Block, Ends, Home, Op, Origin, Place, Plan, Rows};
use std::cell::Cell;

/// Documented for pyACL: both addresses of a copy with condition.
const ALIGNMENT: usize = 64;

/// acl.rt.memcpy_async_with_condition, by the letter of its page (R20 to R34): both addresses are aligned, and host memory that
/// acl did not allocate makes the call wait, even where it was registered as page-locked.
///
/// # Safety
/// Both ranges stay valid until the copy is done.
pub unsafe fn memcpy_async_with_condition(
    dst: usize,
    dest_max: usize,
    src: usize,
    count: usize,
    kind: i32,
    stream: usize,
) -> Result<()> {
    use CopyKind::*;
    const KINDS: &[CopyKind] = &[HostToHost, HostToDevice, DeviceToHost, DeviceToDevice, Default];
    let body = || {
        not_null("dst", dst)?;
        not_null("src", src)?;
        with_here(|here| {
            let target = Target::find(here, On::Stream(stream))?;
            let kind = CopyKind::try_from(kind)?.only(KINDS)?.not_inside_host(target.engine)?;
            within("count", count, "destMax", dest_max)?;
            aligned("dst", dst)?;
            aligned("src", src)?;
            let foreign = Cell::new(false);
            let fits = |_, ends: &Ends| {
                foreign.set(is_foreign(&ends.dst) || is_foreign(&ends.src));
                kind.agrees(ends, target.engine, target.device())
            };
            let plan = |memory: &_| {
                Plan::new(Some(Rows::linear(dst, src, count)), memory, fits).map_err(|misfit| misfit.error)
            };
            target.pass(|memory| plan(memory).map(|_| foreign.get()))?;
            // SAFETY: the caller's promise.
            let ticket = unsafe { target.stream().submit(|memory| plan(memory).map(Op::Copy))? };
            target.settle(ticket, foreign.get())
        })
    };
    body().map_err(|error| with_addresses(error, &[("dst", dst), ("src", src)]))
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
        "{name} {addr:#x} is {} bytes past a multiple of {ALIGNMENT}, and acl.rt.memcpy_async_with_condition takes aligned \
         addresses only; what acl.rt.malloc and acl.rt.malloc_host return is aligned, and acl.rt.memcpy_async takes any address",
        addr % ALIGNMENT
    );
    Err(fail(c::ACL_ERROR_RT_ADDR_UNALIGNED, note))
}

/// Whether the CPU may read, or also write, `len` bytes: not device memory, where that is apart, nothing that is not mapped, and
/// of acl's own memory only what is allocated.
pub fn host_range(addr: usize, len: usize, write: bool) -> Result<()> {
    let access = if write { Access::Write } else { Access::Read };
    not_null("ptr", addr)?;
    if let Some(engine) = opened().filter(|_| !state::is_forked()) {
        let memory = engine.runtime.memory();
        let on_a_device = |block: &Block| matches!(block.home, Home::Device(_)) && !engine.is_unified();
        if let Some(block) = memory.table().find(addr).filter(on_a_device) {
            let note = format!(
                "ptr {addr:#x} is in {block}, which the host cannot reach: copy it to host memory first (acl.rt.memcpy)"
            );
            return Err(refuse(note));
        }
        // As for a copy: inside one allocation, and none that was freed.
        memory.place(addr, len, access).map_err(|why| refuse(format!("ptr: {why}")))?;
    }
    ferry::engine::probe::accessible(addr, len, access).map_err(|why| refuse(format!("ptr: {why}")))
}

/// Drops all work of all streams, and returns when none of it touches memory any more: a language runtime that ends takes
/// memory away that copies in flight would use.
pub fn stop() {
    if let Some(engine) = opened().filter(|_| !state::is_forked()) {
        engine.streams.all().iter().for_each(|entry| entry.stream.abort());
    }
}

/// Whether this copy of the library has been used. A second one refuses then.
pub fn in_use() -> bool {
    opened().is_some()
}
