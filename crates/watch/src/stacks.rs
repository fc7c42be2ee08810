//! Whole stacks of calls, for readers that want them: the return addresses above a call, each stack told
//! once and known by its number from then on.
//!
//! The unwinder of the C library walks them. Most calls of a program come again with the stack that they
//! had, which is seen without walking it (`known.rs`). Interpreted programs say the lines of their stacks
//! themselves.

mod known;

use crate::{
    fact::{Fact, Line},
    local::{Local, local},
    modules,
    writer::FactWriter,
};
use known::{ReturnSlot, StackStart};
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
    fn _Unwind_GetCFA(frame: *mut c_void) -> usize;
}

/// The number of the stack of a call of `function` that returns to `caller`; 0 if there is none.
#[cold]
#[inline(never)]
pub(crate) fn number(local: &Local, writer: &FactWriter, function: u16, caller: u64) -> u32 {
    let here = 0_u8;
    let start = StackStart { caller, function, pointer: (&raw const here).addr() };
    known::find(start).unwrap_or_else(|| {
        let slots = above(caller);
        let number = number_of(local, writer, slots.iter().map(|slot| slot.address).collect());
        known::keep(start, &slots, number);
        number
    })
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
fn above(caller: u64) -> Vec<ReturnSlot> {
    let mut frames = walk();
    let first = frames.iter().position(|frame| frame.address == caller).unwrap_or(frames.len());
    frames.drain(..first);
    frames.truncate(MAX_FRAMES);
    frames
}

/// All return addresses of this thread, as many as are kept twice over.
fn walk() -> Vec<ReturnSlot> {
    let mut frames: Vec<ReturnSlot> = Vec::with_capacity(2 * MAX_FRAMES);
    // SAFETY: the function gets the list, and only during the call.
    unsafe { _Unwind_Backtrace(visit, (&raw mut frames).cast()) };
    frames
}

extern "C" fn visit(frame: *mut c_void, list: *mut c_void) -> i32 {
    const GO_ON: i32 = 0;
    const STOP: i32 = 5;
    // SAFETY: `above` passes its list, and the unwinder a frame; the list has room, so that nothing is
    // allocated.
    let (frames, address, end) =
        unsafe { (&mut *list.cast::<Vec<ReturnSlot>>(), _Unwind_GetIP(frame), _Unwind_GetCFA(frame)) };
    // Above the outermost frame the unwinder is nowhere.
    if frames.len() == frames.capacity() || address == 0 {
        return STOP;
    }
    // The frame below ends behind its return address, which leads to this one.
    frames.push(ReturnSlot { at: end.wrapping_sub(size_of::<usize>()), address: address as u64 });
    GO_ON
}
