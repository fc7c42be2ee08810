//! 64-bit cells of device memory that streams write and wait for: aclrtValueWrite and aclrtValueWait.

use super::{
    fill::on_device,
    target::{On, Target},
};
use crate::{
    Result,
    arguments::{not_null, refuse},
    capture::TaskKind,
    constants::*,
    error::fail,
    explain::explaining,
    interrupt,
    state::Here,
    waits::{self, Until},
};
use ferry_core::{Access, Gate, Home, Request, Rows, Stream};
use std::sync::Arc;

/// Bytes of a cell.
const CELL: usize = 8;

/// aclrtValueWrite: the cell becomes `value` when the stream gets there.
///
/// # Safety
/// The cell stays valid until the stream has passed the write.
pub unsafe fn write(here: &Here, addr: usize, value: u64, flag: u32, stream: usize) -> Result<()> {
    explaining(here, [("devAddr", addr)], || {
        not_null("devAddr", addr)?;
        let target = Target::find(here, On::Stream(stream))?;
        if flag != 0 {
            return Err(refuse(format!("flag is {flag}: it is reserved and must be 0")));
        }
        cell(&target, addr, Access::Write)?;
        // SAFETY: the caller's promise.
        unsafe { put(&target, addr, value) }
    })
}

/// Copies the value from memory of our own in one store, so that no reader sees half of it.
///
/// # Safety
/// As `write`.
unsafe fn put(target: &Target, addr: usize, value: u64) -> Result<()> {
    let runtime = &target.engine.runtime;
    let request = Request { home: Home::Host, len: CELL, page: 4096 };
    let source = interrupt::find_room(target.here, |patience| runtime.alloc_within(&request, patience))?;
    // SAFETY: page-locked memory that was just allocated, and is not shared yet.
    unsafe { (source.at as *mut u64).write(value) };
    let part = target.captured();
    let barrier = || part.iter().for_each(|part| part.entry.recording.barrier(part.branch));
    // What was copied before the value is there when the value is.
    barrier();
    // SAFETY: the source stays until the copy has passed, though it is freed below; the cell is promised.
    let put = unsafe { target.copy(Rows::linear(addr, source.base, CELL), |_| Ok(())) };
    barrier();
    if put.is_ok() {
        part.iter().for_each(|part| part.entry.relabel(part.stream, TaskKind::ValueWrite(addr)));
    }
    target.free_behind(source.base)?;
    put
}

/// aclrtValueWait: later work of the stream waits until the cell is as `flag` says. The cell is polled from
/// when the stream gets there.
pub fn wait(here: &Here, addr: usize, value: u64, flag: u32, stream: usize) -> Result<()> {
    explaining(here, [("devAddr", addr)], || {
        not_null("devAddr", addr)?;
        let target = Target::find(here, On::Stream(stream))?;
        drop(condition(flag, value)?);
        cell(&target, addr, Access::Read)?;
        let runtime = &target.engine.runtime;
        let block = move |stream: &Arc<Stream>| {
            let until = Until::Value(addr, condition(flag, value)?);
            waits::block(runtime, stream, Gate::new(), until)?;
            Ok(())
        };
        match target.captured() {
            Some(part) => part.each(TaskKind::ValueWait(addr), block),
            None => block(target.stream()),
        }
    })
}

/// Documented for each flag; `GEQ` compares as signed numbers that may wrap around.
fn condition(flag: u32, value: u64) -> Result<Box<dyn Fn(u64) -> bool + Send>> {
    Ok(match i32::try_from(flag) {
        Ok(ACL_STREAM_WAIT_VALUE_GEQ) => Box::new(move |cell| cell.wrapping_sub(value) as i64 >= 0),
        Ok(ACL_STREAM_WAIT_VALUE_EQ) => Box::new(move |cell| cell == value),
        Ok(ACL_STREAM_WAIT_VALUE_AND) => Box::new(move |cell| cell & value != 0),
        Ok(ACL_STREAM_WAIT_VALUE_NOR) => Box::new(move |cell| !(cell | value) != 0),
        _ => {
            let valid = "ACL_STREAM_WAIT_VALUE_GEQ (0), _EQ (1), _AND (2) or _NOR (3)";
            return Err(refuse(format!("flag is {flag}: give {valid}")));
        }
    })
}

/// Refuses what is no cell of the stream's device.
fn cell(target: &Target, addr: usize, access: Access) -> Result<()> {
    if !addr.is_multiple_of(CELL) {
        let note = format!("devAddr is {addr:#x}: it must be a multiple of {CELL}");
        return Err(fail(ACL_ERROR_RT_ADDR_UNALIGNED, note));
    }
    on_device("devAddr", target, addr, CELL, access)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_as_documented() {
        for (flag, value, yes, no) in [
            (0, 5, &[5, 6, 5 + (i64::MAX as u64)][..], &[4, 0, u64::MAX][..]),
            (0, u64::MAX, &[u64::MAX, 0, 1], &[u64::MAX - 1]),
            (1, 7, &[7], &[0, 6, u64::MAX]),
            (2, 6, &[2, 4, 6, u64::MAX], &[0, 1, 8]),
            (3, 1, &[0, 1, u64::MAX - 1 - 2], &[u64::MAX, u64::MAX - 1]),
        ] {
            let is_met = condition(flag, value).expect("a flag");
            yes.iter().for_each(|cell| assert!(is_met(*cell), "{cell:#x} for flag {flag} and {value:#x}"));
            no.iter().for_each(|cell| assert!(!is_met(*cell), "{cell:#x} for flag {flag} and {value:#x}"));
        }
        assert!(condition(4, 0).is_err());
    }
}
