//! The end of a system call without a breakpoint: a restartable sequence (rseq) of the thread's.
//!
//! A thread that was taken off the CPU inside a sequence of instructions that it has named goes on at the
//! abort address of that sequence; the kernel looks when the thread returns to the program. A thread that
//! waits for a page inside a system call was taken off the CPU. So the monitor names, in its place, a
//! sequence of one instruction, the one behind the call: the thread goes to a stub of ours when the call has
//! returned. No signal is sent that could interrupt the call. The stub is a breakpoint instruction, whose
//! handler sends the thread back.
//!
//! A program's own sequences are not disturbed: none may have a system call in it. It needs a C library that
//! registers its threads (glibc 2.35 and later), and a kernel that looks behind system calls, too; that is
//! tried once.

use super::place::{self, ThreadPlace};

/// How many stubs there are.
pub const STUBS: usize = 64;

/// The address behind the call whose end the stub `number` is, if the program stands behind that stub.
pub fn returns_to(number: usize) -> u64 {
    sequence::returns_to(number)
}

/// Has the thread go to the stub `number` when it leaves the call that it is in. False if it cannot be, or if
/// the thread has left it.
pub fn place_stub(number: usize, thread: i32, place: ThreadPlace) -> bool {
    let call = place.system_call.map(|call| call.number);
    // Behind a call that changes the mask a breakpoint instruction may end the program.
    let is_possible = call.is_some_and(|call| call != libc::SYS_rt_sigprocmask);
    is_possible && sequence::place_stub(number, thread, place.pc, || place::of_thread(thread) == Some(place))
}

/// Whether the thread still goes to the stub `number` when it leaves its call.
pub fn is_placed(number: usize, thread: i32) -> bool {
    sequence::is_placed(number, thread)
}

/// The stub that the interrupted thread has come to.
pub fn stub_at(context: &libc::ucontext_t) -> Option<usize> {
    sequence::stub_at(context)
}

/// Has the thread go on there.
pub fn go_on_at(context: &mut libc::ucontext_t, pc: u64) {
    sequence::go_on_at(context, pc);
}

#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
mod sequence {
    use super::{STUBS, place};
    use std::{
        arch::{asm, global_asm},
        ffi::{CStr, c_void},
        sync::{
            OnceLock,
            atomic::{AtomicU64, Ordering},
        },
    };

    /// The kernel's `struct rseq_cs`.
    #[repr(C, align(32))]
    struct Sequence {
        version_and_flags: AtomicU64,
        start: AtomicU64,
        len: AtomicU64,
        abort: AtomicU64,
    }

    static SEQUENCES: [Sequence; STUBS] = [const { Sequence::new() }; STUBS];
    /// Where the stubs return to.
    static RETURNS: [AtomicU64; STUBS] = [const { AtomicU64::new(0) }; STUBS];

    /// Bytes from one stub to the next, and of what the kernel wants to see in front of each.
    const STRIDE: usize = 16;
    const SIGNATURE: usize = 4;

    // Each stub goes back by itself if the program has put another handler in the place of ours. The function
    // tries whether the kernel looks behind system calls: it names a sequence of one instruction behind
    // nanosleep.
    global_asm!(
        ".pushsection .text",
        ".globl ferry_call_end_stubs",
        ".hidden ferry_call_end_stubs",
        ".p2align 4",
        "ferry_call_end_stubs:",
        ".set ferry_stub_number, 0",
        ".rept 64",
        ".long 0x53053053",
        "int3",
        "jmp qword ptr [rip + {returns} + 8 * ferry_stub_number]",
        ".p2align 4",
        ".set ferry_stub_number, ferry_stub_number + 1",
        ".endr",
        ".globl ferry_try_call_end",
        ".hidden ferry_try_call_end",
        "ferry_try_call_end:",
        "lea rax, [rip + 2f]",
        "mov [rsi + 8], rax",
        "mov qword ptr [rsi + 16], 1",
        "lea rax, [rip + 3f]",
        "mov [rsi + 24], rax",
        "mov [rdi], rsi",
        "mov rdi, rdx",
        "xor esi, esi",
        "mov eax, 35",
        "syscall",
        "2:",
        "xor eax, eax",
        "ret",
        ".long 0x53053053",
        "3:",
        "mov eax, 1",
        "ret",
        ".popsection",
        returns = sym RETURNS,
    );

    const _: () = assert!(STUBS == 64, "as many stubs are there");

    unsafe extern "C" {
        static ferry_call_end_stubs: [u8; STUBS * STRIDE];
        fn ferry_try_call_end(
            named: *mut u64,
            sequence: *const Sequence,
            pause: *const libc::timespec,
        ) -> i32;
    }

    impl Sequence {
        const fn new() -> Sequence {
            let [version_and_flags, start, len, abort] = [const { AtomicU64::new(0) }; 4];
            Sequence { version_and_flags, start, len, abort }
        }

        fn addr(&self) -> u64 {
            (&raw const *self).addr() as u64
        }
    }

    fn stub(number: usize) -> usize {
        (&raw const ferry_call_end_stubs).addr() + number * STRIDE + SIGNATURE
    }

    pub fn returns_to(number: usize) -> u64 {
        RETURNS[number].load(Ordering::SeqCst)
    }

    pub fn place_stub(number: usize, thread: i32, pc: u64, is_there: impl FnOnce() -> bool) -> bool {
        let Some(named) = named_by(thread) else { return false };
        let (sequence, before) = (&SEQUENCES[number], named.load(Ordering::SeqCst));
        RETURNS[number].store(pc, Ordering::SeqCst);
        sequence.start.store(pc, Ordering::SeqCst);
        sequence.len.store(1, Ordering::SeqCst);
        sequence.abort.store(stub(number) as u64, Ordering::SeqCst);
        // A thread that has gone on, since another one had the page opened, may have named one of its own.
        is_there()
            && named.compare_exchange(before, sequence.addr(), Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    pub fn is_placed(number: usize, thread: i32) -> bool {
        named_by(thread).is_some_and(|named| named.load(Ordering::SeqCst) == SEQUENCES[number].addr())
    }

    pub fn stub_at(context: &libc::ucontext_t) -> Option<usize> {
        // Behind the breakpoint instruction.
        let offset = (context.uc_mcontext.gregs[libc::REG_RIP as usize] as usize).wrapping_sub(stub(0) + 1);
        (offset.is_multiple_of(STRIDE) && offset / STRIDE < STUBS).then_some(offset / STRIDE)
    }

    pub fn go_on_at(context: &mut libc::ucontext_t, pc: u64) {
        context.uc_mcontext.gregs[libc::REG_RIP as usize] = pc as i64;
    }

    /// Where things of a thread lie.
    struct ThreadLayout {
        /// From the thread pointer to the list of robust mutexes, which the kernel tells of any thread.
        robust_list: usize,
        /// From the thread pointer to the address of the sequence that it has named.
        named: usize,
    }

    /// The word where a thread names its sequence.
    fn named_by(thread: i32) -> Option<&'static AtomicU64> {
        static LAYOUT: OnceLock<Option<ThreadLayout>> = OnceLock::new();
        let layout = LAYOUT.get_or_init(|| layout().filter(is_looked_at)).as_ref()?;
        let pointer = robust_list(thread)?.wrapping_sub(layout.robust_list);
        // The thread control block has its own address in two places.
        let [first, _, third] = place::read_words(pointer)?;
        let [before, _] = place::read_words(pointer.wrapping_add(layout.named) - 8)?;
        // Behind the CPU at the start: the CPU, which is negative where no sequences are registered.
        let is_registered = (before >> 32) as i32 >= 0;
        (first == pointer && third == pointer && is_registered)
            // SAFETY: a word of the thread's control block, which is aligned, and stays as long as the
            // thread: that waits inside a system call.
            .then(|| unsafe { AtomicU64::from_ptr(pointer.wrapping_add(layout.named) as *mut u64) })
    }

    /// By this thread, if the C library has registered it.
    fn layout() -> Option<ThreadLayout> {
        /// Of `struct rseq`.
        const NAMED: usize = 8;
        let symbol = |name: &CStr| {
            // SAFETY: asks for a symbol by its name.
            let at = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
            (!at.is_null()).then_some(at)
        };
        let size = symbol(c"__rseq_size")?.cast::<u32>();
        let offset = symbol(c"__rseq_offset")?.cast::<isize>();
        // SAFETY: the C library's, of these types.
        let (size, offset) = unsafe { (*size, *offset) };
        let robust_list = robust_list(0)?.wrapping_sub(thread_pointer());
        (size > 0).then(|| ThreadLayout { robust_list, named: (offset as usize).wrapping_add(NAMED) })
    }

    /// Whether the kernel looks behind system calls, tried with this thread.
    fn is_looked_at(layout: &ThreadLayout) -> bool {
        const TRIES: usize = 3;
        let named = thread_pointer().wrapping_add(layout.named) as *mut u64;
        let pause = libc::timespec { tv_sec: 0, tv_nsec: 100_000 };
        (0..TRIES).any(|_| {
            // SAFETY: the word of this thread, which is in no sequence; all that is named outlives the call.
            let is_aborted = unsafe { ferry_try_call_end(named, &raw const SEQUENCES[0], &raw const pause) };
            // SAFETY: as above; nothing is named any more.
            unsafe { named.write_volatile(0) };
            is_aborted == 1
        })
    }

    fn thread_pointer() -> usize {
        let pointer: usize;
        // SAFETY: the first word of the thread control block is its address.
        unsafe { asm!("mov {}, fs:[0]", out(reg) pointer, options(nostack, readonly, preserves_flags)) };
        pointer
    }

    fn robust_list(thread: i32) -> Option<usize> {
        let (mut head, mut len) = (std::ptr::null_mut::<c_void>(), 0_usize);
        let (to, size) = (&raw mut head, &raw mut len);
        // SAFETY: writes to two locals.
        let done = unsafe { libc::syscall(libc::SYS_get_robust_list, thread, to, size) };
        (done == 0 && !head.is_null()).then(|| head.addr())
    }
}

#[cfg(not(all(target_arch = "x86_64", target_env = "gnu")))]
mod sequence {
    pub fn returns_to(_: usize) -> u64 {
        0
    }

    pub fn place_stub(_: usize, _: i32, _: u64, _: impl FnOnce() -> bool) -> bool {
        false
    }

    pub fn is_placed(_: usize, _: i32) -> bool {
        false
    }

    pub fn stub_at(_: &libc::ucontext_t) -> Option<usize> {
        None
    }

    pub fn go_on_at(_: &mut libc::ucontext_t, _: u64) {}
}
