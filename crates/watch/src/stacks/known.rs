//! Stacks that a thread has walked lately, so that a call in a loop is not unwound again.
//!
//! An unwinder takes a microsecond or more for a stack. But where the return addresses of a stack lie is
//! decided by the code of its functions, so the same call with the same stack pointer has the same stack if
//! every return address is still where it was. They are compared from the innermost on: each one that is
//! there says that the frame above it is there, too.

use std::cell::RefCell;

/// Stacks that a thread keeps; deeper ones than this are not kept.
const KEPT: usize = 8;
const MAX_KEPT_FRAMES: usize = super::MAX_FRAMES;

/// What decides a stack, but for the frames above its innermost.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct StackStart {
    /// Where the call returns to.
    pub(super) caller: u64,
    /// The function that is called, by its number.
    pub(super) function: u16,
    /// The stack pointer in it, at some point of it that is always the same.
    pub(super) pointer: usize,
}

/// A return address and where it lies.
#[derive(Clone, Copy)]
pub(super) struct ReturnSlot {
    pub(super) at: usize,
    pub(super) address: u64,
}

impl ReturnSlot {
    const NONE: ReturnSlot = ReturnSlot { at: 0, address: 0 };
}

#[derive(Clone, Copy)]
struct KnownStack {
    start: StackStart,
    /// Its number; 0 if there is none here.
    number: u32,
    count: usize,
    slots: [ReturnSlot; MAX_KEPT_FRAMES],
}

impl KnownStack {
    const NONE: KnownStack = KnownStack {
        start: StackStart { caller: 0, function: 0, pointer: 0 },
        number: 0,
        count: 0,
        slots: [ReturnSlot::NONE; MAX_KEPT_FRAMES],
    };

    fn is_still_there(&self) -> bool {
        self.slots[..self.count].iter().all(|slot| {
            // SAFETY: the stack pointer is that of the walk, and all frames below this one are the same as
            // then: so this one is there, and its return address was in this place.
            unsafe { (slot.at as *const u64).read_volatile() == slot.address }
        })
    }
}

// It has no destructor, so that it can be used while the thread ends. A signal handler that makes calls of
// its own finds it borrowed, and does without.
thread_local! {
    static KNOWN: RefCell<[KnownStack; KEPT]> = const { RefCell::new([KnownStack::NONE; KEPT]) };
}

/// The number of the stack, if this thread has walked it lately.
pub(super) fn find(start: StackStart) -> Option<u32> {
    let find = |all: &RefCell<[KnownStack; KEPT]>| {
        let all = all.try_borrow().ok()?;
        let known = &all[place(start)];
        (known.number != 0 && known.start == start && known.is_still_there()).then_some(known.number)
    };
    KNOWN.try_with(find).ok().flatten()
}

/// Keeps a stack that was walked. A frame whose return address is not where frames have it is a signal's:
/// such a stack is not kept.
pub(super) fn keep(start: StackStart, slots: &[ReturnSlot], number: u32) {
    // SAFETY: the walk has just read the return address of this frame, which is below those that run.
    let is_read = |slot: &ReturnSlot| unsafe { (slot.at as *const u64).read_volatile() } == slot.address;
    let is_above = |pair: &[ReturnSlot]| pair[0].at < pair[1].at;
    let is_plain = slots.windows(2).all(is_above) && slots.iter().all(is_read);
    if number == 0 || slots.is_empty() || slots.len() > MAX_KEPT_FRAMES || !is_plain {
        return;
    }
    let _ = KNOWN.try_with(|all| {
        let Ok(mut all) = all.try_borrow_mut() else { return };
        let known = &mut all[place(start)];
        (known.start, known.number, known.count) = (start, number, slots.len());
        known.slots[..slots.len()].copy_from_slice(slots);
    });
}

fn place(start: StackStart) -> usize {
    (start.caller as usize ^ start.pointer >> 4) % KEPT
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::stacks::walk;
    use std::hint::black_box;

    /// Whether the stack is known, before and after it was kept as `number`.
    #[inline(never)]
    fn meets(start: StackStart, number: u32) -> [Option<u32>; 2] {
        let (before, mut slots) = (find(start), walk());
        // What the walk itself has called is gone.
        let here = black_box(0_u8);
        slots.retain(|slot| slot.at > (&raw const here).addr());
        assert!(slots.len() > 3, "{}", slots.len());
        keep(start, &slots, number);
        black_box([before, find(start)])
    }

    #[inline(never)]
    fn one_way(start: StackStart, number: u32) -> [Option<u32>; 2] {
        black_box(meets(start, number))
    }

    #[inline(never)]
    fn another_way(start: StackStart, number: u32) -> [Option<u32>; 2] {
        black_box(meets(start, number))
    }

    #[test]
    fn a_stack_is_known_again_only_if_every_frame_of_it_is_the_same() {
        let start = StackStart { caller: 7, function: 1, pointer: 4096 };
        let ways = [one_way, another_way].map(|way: fn(StackStart, u32) -> [Option<u32>; 2]| way);
        for (round, (way, before)) in
            [(0, None), (0, Some(1)), (1, None), (1, Some(2)), (0, None)].into_iter().enumerate()
        {
            let way = black_box(way);
            let known = black_box(ways[way])(start, way as u32 + 1);
            assert_eq!(known, [before, Some(way as u32 + 1)], "{round}");
        }
        assert_eq!(find(StackStart { function: 2, ..start }), None);
    }
}
