//! A call that can be left from outside: its frame keeps the registers that a caller expects back, and where
//! it lies is told while the call lasts. Only frames of plain loops lie above it, so leaving them skips no
//! destructor.

use std::ffi::c_void;

/// Loops deeper than this are none of ours: a handler of the program's interrupted one, and it is the one
/// that faulted. A signal's own frame is larger. Unoptimised loops take more.
const DEEPEST: usize = if cfg!(debug_assertions) { 64 << 10 } else { 1 << 10 };

/// Whether this machine's frames can be left.
pub const IS_KNOWN: bool = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));

/// Calls `body` with `data`. While that runs, `place` holds the address of the frame, otherwise zero. Returns
/// whether the call was left.
///
/// # Safety
/// `body` may be called with `data`, and may be left wherever it touches memory.
#[inline]
pub unsafe fn enter(body: unsafe extern "C" fn(*mut c_void), data: *mut c_void, place: *mut usize) -> bool {
    // SAFETY: the caller's promise.
    unsafe { machine::enter(body, data, place) != 0 }
}

/// Has the handler's thread go on where the call at `frame` returns, if it can be inside of that. Returns
/// whether it does.
///
/// # Safety
/// `context` is the one that the kernel gave the handler, and `frame` what `enter` of this thread told.
pub unsafe fn leave(context: *mut c_void, frame: usize) -> bool {
    // SAFETY: the caller's promise.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    let depth = frame.wrapping_sub(machine::stack_pointer(context));
    let is_inside = frame != 0 && depth <= DEEPEST;
    if is_inside {
        machine::go_on(context, frame);
    }
    is_inside
}

#[cfg(target_arch = "x86_64")]
mod machine {
    use std::{arch::naked_asm, ffi::c_void};

    /// The flag by which strings of bytes are moved downwards; compiled code expects it to be clear.
    const DOWNWARDS: i64 = 1 << 10;

    #[unsafe(naked)]
    pub unsafe extern "C" fn enter(
        body: unsafe extern "C" fn(*mut c_void),
        data: *mut c_void,
        place: *mut usize,
    ) -> usize {
        naked_asm!(
            ".cfi_startproc",
            "push rbp",
            ".cfi_adjust_cfa_offset 8",
            "push rbx",
            ".cfi_adjust_cfa_offset 8",
            "push r12",
            ".cfi_adjust_cfa_offset 8",
            "push r13",
            ".cfi_adjust_cfa_offset 8",
            "push r14",
            ".cfi_adjust_cfa_offset 8",
            "push r15",
            ".cfi_adjust_cfa_offset 8",
            "push rdx",
            ".cfi_adjust_cfa_offset 8",
            "mov [rdx], rsp",
            "mov rax, rdi",
            "mov rdi, rsi",
            "call rax",
            // `body` has kept all registers but this.
            "pop rdx",
            ".cfi_adjust_cfa_offset -8",
            "mov qword ptr [rdx], 0",
            "xor eax, eax",
            "add rsp, 48",
            ".cfi_adjust_cfa_offset -48",
            "ret",
            ".cfi_endproc",
        )
    }

    /// Returns from `enter` in place of `body`, whose caller's registers are still in the frame.
    #[unsafe(naked)]
    unsafe extern "C" fn land() {
        naked_asm!(
            "pop rdx",
            "mov qword ptr [rdx], 0",
            "mov eax, 1",
            "pop r15",
            "pop r14",
            "pop r13",
            "pop r12",
            "pop rbx",
            "pop rbp",
            "ret",
        )
    }

    pub fn stack_pointer(context: &libc::ucontext_t) -> usize {
        context.uc_mcontext.gregs[libc::REG_RSP as usize] as usize
    }

    pub fn go_on(context: &mut libc::ucontext_t, frame: usize) {
        let registers = &mut context.uc_mcontext.gregs;
        registers[libc::REG_RSP as usize] = frame as i64;
        registers[libc::REG_RIP as usize] = land as *const () as i64;
        registers[libc::REG_EFL as usize] &= !DOWNWARDS;
    }
}

#[cfg(target_arch = "aarch64")]
mod machine {
    use std::{arch::naked_asm, ffi::c_void};

    #[unsafe(naked)]
    pub unsafe extern "C" fn enter(
        body: unsafe extern "C" fn(*mut c_void),
        data: *mut c_void,
        place: *mut usize,
    ) -> usize {
        naked_asm!(
            ".cfi_startproc",
            "stp x29, x30, [sp, #-176]!",
            ".cfi_def_cfa_offset 176",
            ".cfi_offset x29, -176",
            ".cfi_offset x30, -168",
            "stp x19, x20, [sp, #16]",
            "stp x21, x22, [sp, #32]",
            "stp x23, x24, [sp, #48]",
            "stp x25, x26, [sp, #64]",
            "stp x27, x28, [sp, #80]",
            "stp d8, d9, [sp, #96]",
            "stp d10, d11, [sp, #112]",
            "stp d12, d13, [sp, #128]",
            "stp d14, d15, [sp, #144]",
            "str x2, [sp, #160]",
            "mov x9, sp",
            "str x9, [x2]",
            "mov x8, x0",
            "mov x0, x1",
            "blr x8",
            // `body` has kept all registers but these.
            "ldr x2, [sp, #160]",
            "str xzr, [x2]",
            "mov x0, #0",
            "ldp x29, x30, [sp], #176",
            ".cfi_def_cfa_offset 0",
            "ret",
            ".cfi_endproc",
        )
    }

    /// Returns from `enter` in place of `body`, whose caller's registers are still in the frame.
    #[unsafe(naked)]
    unsafe extern "C" fn land() {
        naked_asm!(
            "ldr x2, [sp, #160]",
            "str xzr, [x2]",
            "mov x0, #1",
            "ldp x19, x20, [sp, #16]",
            "ldp x21, x22, [sp, #32]",
            "ldp x23, x24, [sp, #48]",
            "ldp x25, x26, [sp, #64]",
            "ldp x27, x28, [sp, #80]",
            "ldp d8, d9, [sp, #96]",
            "ldp d10, d11, [sp, #112]",
            "ldp d12, d13, [sp, #128]",
            "ldp d14, d15, [sp, #144]",
            "ldp x29, x30, [sp], #176",
            "ret",
        )
    }

    pub fn stack_pointer(context: &libc::ucontext_t) -> usize {
        context.uc_mcontext.sp as usize
    }

    pub fn go_on(context: &mut libc::ucontext_t, frame: usize) {
        context.uc_mcontext.sp = frame as u64;
        context.uc_mcontext.pc = land as *const () as u64;
    }
}

/// Elsewhere a fault takes its course.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod machine {
    use std::ffi::c_void;

    pub unsafe fn enter(body: unsafe extern "C" fn(*mut c_void), data: *mut c_void, _: *mut usize) -> usize {
        // SAFETY: the caller's promise.
        unsafe { body(data) };
        0
    }

    pub fn stack_pointer(_: &libc::ucontext_t) -> usize {
        0
    }

    pub fn go_on(_: &mut libc::ucontext_t, _: usize) {}
}
