//! Whether a range lies on the calling thread's stack. That can be accessed without asking the kernel, and
//! most output arguments are there.

use std::{cell::Cell, hint::black_box, mem::MaybeUninit, ops::Range};

/// No more of a stack than this is taken for one. Where stacks have no limit, all up to the next mapping
/// counts as the first thread's, and the heap grows there later, with stacks of users in it perhaps.
const MAX_STACK: usize = 64 << 20;

thread_local! {
    /// Where this thread's stack is; empty if it is unknown. `None` before it was looked for.
    static STACK: Cell<Option<(usize, usize)>> = const { Cell::new(None) };
}

/// Whether a range lies in that part of the calling thread's stack that is in use. One that does not may do
/// so all the same.
pub fn is_on_stack(addr: usize, len: usize) -> bool {
    let mark = 0_u8;
    let here = black_box(&raw const mark) as usize;
    // A thread that is at its end, or on a stack of its user's, is not told.
    let (bottom, top) = STACK.try_with(find).unwrap_or_default();
    bottom <= here && here <= addr && addr <= top && len <= top - addr
}

fn find(stack: &Cell<Option<(usize, usize)>>) -> (usize, usize) {
    stack.get().unwrap_or_else(|| {
        let Range { start, end } = ask_for_stack();
        stack.set(Some((start, end)));
        (start, end)
    })
}

/// Asks where the stack of this thread is.
#[cold]
fn ask_for_stack() -> Range<usize> {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let (mut bottom, mut size) = (std::ptr::null_mut(), 0);
    // SAFETY: `attributes` receives those of a thread that lives, and is made void again.
    unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return 0..0;
        }
        let code = libc::pthread_attr_getstack(attributes.as_ptr(), &mut bottom, &mut size);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        if code == 0 { upper_part(bottom as usize, size) } else { 0..0 }
    }
}

fn upper_part(bottom: usize, size: usize) -> Range<usize> {
    let top = bottom + size;
    top - size.min(MAX_STACK)..top
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[inline(never)]
    fn deeper() -> usize {
        let local = [0_u8; 64];
        black_box(&local).as_ptr() as usize
    }

    #[test]
    fn a_stack_without_limit_is_not_taken_for_all_below_it() {
        assert_eq!(upper_part(0x10_0000, 8 << 20), 0x10_0000..0x90_0000);
        let (bottom, top) = (0x562e_c8bb_0000, 0x7ffd_0a83_e000);
        assert_eq!(upper_part(bottom, top - bottom), top - MAX_STACK..top);
    }

    #[test]
    fn what_callers_have_on_the_stack_is_known_and_nothing_else() {
        let check = || {
            let (local, heap) = ([0_u8; 64], vec![0_u8; 64]);
            let at = black_box(&local).as_ptr() as usize;
            let (bottom, top) = STACK.with(find);
            assert!(bottom < at && at < top);
            assert!(is_on_stack(at, 64) && is_on_stack(at, top - at));
            assert!(!is_on_stack(at, top - at + 1) && !is_on_stack(at, usize::MAX), "past its end");
            assert!(!is_on_stack(bottom, 1), "not in use, and perhaps not there");
            assert!(!is_on_stack(heap.as_ptr() as usize, 64));
            assert!(!is_on_stack(0, 8) && !is_on_stack(usize::MAX, 1));
            deeper()
        };
        let elsewhere = std::thread::spawn(check).join().expect("checked");
        check();
        assert!(!is_on_stack(elsewhere, 1), "another thread's");
    }
}
