//! Whole stacks of calls, for readers that want them: the return addresses above a call, each stack told
//! once.

use crate::{
    fact::{Fact, Line},
    local::{Local, local},
    modules,
    writer::FactWriter,
};
use std::{
    collections::HashMap,
    ffi::c_void,
    sync::{Mutex, PoisonError},
};

/// Frames that are kept of a stack.
const MAX_FRAMES: usize = 64;
/// Stacks that are told of in one process; calls with others have none.
const MAX_STACKS: usize = 1 << 16;

unsafe extern "C" {
    fn _Unwind_Backtrace(visit: extern "C" fn(*mut c_void, *mut c_void) -> i32, list: *mut c_void) -> i32;
    fn _Unwind_GetIP(frame: *mut c_void) -> usize;
}

/// The number of the stack of a call that returns to `caller`; 0 if there is none.
#[cold]
pub(crate) fn number(local: &Local, writer: &FactWriter, caller: u64) -> u32 {
    number_of(local, writer, above(caller))
}

/// Has a reader know a stack that was taken elsewhere, the innermost frame first, and says its number; 0 if
/// there are too many.
pub fn tell(writer: &FactWriter, frames: Vec<u64>) -> u32 {
    local(|local| number_of(local, writer, frames))
}

fn number_of(local: &Local, writer: &FactWriter, frames: Vec<u64>) -> u32 {
    static NUMBERS: Mutex<Option<HashMap<Vec<u64>, u32>>> = Mutex::new(None);
    let mut numbers = NUMBERS.lock().unwrap_or_else(PoisonError::into_inner);
    let numbers = numbers.get_or_insert_default();
    if let Some(number) = numbers.get(&frames) {
        return *number;
    }
    if frames.is_empty() || numbers.len() >= MAX_STACKS {
        return 0;
    }
    let number = numbers.len() as u32 + 1;
    let addresses = frames.iter().filter(|frame| **frame & Line::ADDRESS == 0);
    addresses.for_each(|frame| modules::tell(local, writer, *frame));
    writer.write(&Fact::Stack { number, frames: frames.clone() });
    numbers.insert(frames, number);
    number
}

/// The return addresses of this thread from `caller` on; none if that is not among them.
fn above(caller: u64) -> Vec<u64> {
    let mut frames: Vec<u64> = Vec::with_capacity(2 * MAX_FRAMES);
    // SAFETY: the function gets the list, and only during the call.
    unsafe { _Unwind_Backtrace(visit, (&raw mut frames).cast()) };
    let first = frames.iter().position(|frame| *frame == caller).unwrap_or(frames.len());
    frames.drain(..first);
    frames.truncate(MAX_FRAMES);
    frames
}

extern "C" fn visit(frame: *mut c_void, list: *mut c_void) -> i32 {
    const GO_ON: i32 = 0;
    const STOP: i32 = 5;
    // SAFETY: `above` passes its list, and the unwinder a frame; the list has room, so that nothing is
    // allocated.
    let (frames, address) = unsafe { (&mut *list.cast::<Vec<u64>>(), _Unwind_GetIP(frame)) };
    if frames.len() == frames.capacity() {
        return STOP;
    }
    frames.push(address as u64);
    GO_ON
}
