//! A thread that waits for a page answers where it is: the monitor sends it a signal, whose handler finds the
//! accessing instruction in its context, walks the stack from there, and opens the page.
//!
//! One question at a time: the monitor asks, waits for the answer for a while, and takes the question back if
//! none came. The thread goes on when what it said is written down, so that it is known if the access was the
//! last thing that the program did. The handler uses its own stack, system calls and atomics. SIGURG is what
//! is sent, since programs ignore it and debuggers pass it on without a word.

use super::{
    chain::ChainedHandler,
    moving,
    operand::{OperandAddress, Registers},
    place::{self, ThreadStatus},
    step,
    uffd::Uffd,
};
use crate::os::page::page_size;
use std::{
    cell::UnsafeCell,
    ffi::c_void,
    io, mem,
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// The signal.
pub const SIGNAL: i32 = libc::SIGURG;
/// Frames that are kept of a stack.
pub const MAX_FRAMES: usize = 64;
/// How long the monitor waits for an answer of a thread that was stopped, and of one that is slow: where
/// much is to do it may get no CPU for long.
const PATIENCE: Duration = Duration::from_millis(500);
const MOST_PATIENCE: Duration = Duration::from_secs(3);
/// When it is first looked whether the thread does something else.
const SOON: Duration = Duration::from_millis(2);

const IDLE: u32 = 0;
const ASKED: u32 = 1;
const ANSWERING: u32 = 2;
const ANSWERED: u32 = 3;
/// The thread is somewhere else: a handler of the program's was about to begin.
const ELSEWHERE: u32 = 4;
/// Milliseconds that a thread waits in its handler until what it said is written down.
const MOST_WAITS: u32 = 200;

/// The question and its answer. The frames and registers belong to the handler while it answers, otherwise to
/// the monitor.
struct QuestionSlot {
    state: AtomicU32,
    thread: AtomicI32,
    page: AtomicUsize,
    /// The instruction that the thread waits at.
    pc: AtomicU64,
    wants_stack: AtomicBool,
    may_step: AtomicBool,
    elsewhere: UnsafeCell<Option<Elsewhere>>,
    has_stepped: AtomicBool,
    frames: UnsafeCell<[u64; MAX_FRAMES]>,
    used: AtomicUsize,
    registers: UnsafeCell<Registers>,
    /// Called with the descriptor of a file for lines of an interpreter.
    lines: OnceLock<fn()>,
}

// SAFETY: the frames and registers have one owner at a time, by the state.
unsafe impl Sync for QuestionSlot {}

static SLOT: QuestionSlot = QuestionSlot {
    state: AtomicU32::new(IDLE),
    thread: AtomicI32::new(0),
    page: AtomicUsize::new(0),
    pc: AtomicU64::new(0),
    wants_stack: AtomicBool::new(false),
    may_step: AtomicBool::new(false),
    elsewhere: UnsafeCell::new(None),
    has_stepped: AtomicBool::new(false),
    frames: UnsafeCell::new([0; MAX_FRAMES]),
    used: AtomicUsize::new(0),
    registers: UnsafeCell::new([0; 16]),
    lines: OnceLock::new(),
};
/// A handler has begun to answer and never ended: the program left it by a jump. Nobody is asked any more.
static IS_BROKEN: AtomicBool = AtomicBool::new(false);
static BEFORE: ChainedHandler = ChainedHandler::new();
static UFFD: OnceLock<&'static Uffd> = OnceLock::new();

unsafe extern "C" {
    fn _Unwind_Backtrace(visit: extern "C" fn(*mut c_void, *mut c_void) -> i32, list: *mut c_void) -> i32;
    fn _Unwind_GetIP(frame: *mut c_void) -> usize;
}

/// What is asked of a thread.
pub struct Question {
    /// The thread, which waits for a page and is in no system call.
    pub thread: i32,
    /// The page.
    pub page: usize,
    /// The instruction that it waits at.
    pub pc: u64,
    /// Whether the stack is wanted.
    pub wants_stack: bool,
    /// Whether the thread may be stepped over the instruction.
    pub may_step: bool,
    /// How the instruction can be done in the engine's view of the same bytes.
    pub elsewhere: Option<Elsewhere>,
}

/// An operand that can be had elsewhere.
#[derive(Clone, Copy)]
pub struct Elsewhere {
    /// How its address is made.
    pub operand: OperandAddress,
    /// Its address.
    pub at: usize,
    /// What is added to its base for the other address.
    pub by: usize,
}

/// What a thread answered.
pub struct StackAnswer {
    /// The stack, the instruction first; empty if it was not wanted.
    pub frames: Vec<u64>,
    /// Whether the page is armed again afterwards.
    pub has_stepped: bool,
    /// Its registers at the instruction.
    pub registers: Registers,
}

/// What becomes of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The thread has answered, and opens the page.
    Answered,
    /// It did not, and never will.
    Silent,
    /// It does not wait any more: a signal of the program's has come, and the access is tried again when that
    /// was handled.
    Elsewhere,
}

/// Has threads be able to answer. `lines` is called by the handler before the stack is walked, if that is
/// wanted; it may use system calls alone.
pub fn install(uffd: &'static Uffd, lines: fn()) -> bool {
    let _ = (UFFD.set(uffd), SLOT.lines.set(lines));
    // The unwinder finds its tables now, and not first in a handler.
    walk(0, &mut [0; MAX_FRAMES]);
    BEFORE.install(SIGNAL, on_signal)
}

/// Whether the thread does not block the signal.
pub fn can_reach(status: &ThreadStatus) -> bool {
    status.blocked >> (SIGNAL - 1) & 1 == 0
}

/// Asks a thread, which goes on when `tell` returns. Now and then `has_left` is asked whether the thread does
/// something else, and cannot answer before that is done.
pub fn ask(question: &Question, has_left: impl Fn() -> bool, tell: impl FnOnce(StackAnswer)) -> Asked {
    if IS_BROKEN.load(Ordering::Relaxed) || !ChainedHandler::is_installed(SIGNAL, on_signal) {
        return Asked::Silent;
    }
    SLOT.thread.store(question.thread, Ordering::Relaxed);
    SLOT.page.store(question.page, Ordering::Relaxed);
    SLOT.pc.store(question.pc, Ordering::Relaxed);
    SLOT.wants_stack.store(question.wants_stack, Ordering::Relaxed);
    SLOT.may_step.store(question.may_step, Ordering::Relaxed);
    // SAFETY: no handler answers now, so that it is the monitor's.
    unsafe { *SLOT.elsewhere.get() = question.elsewhere };
    SLOT.state.store(ASKED, Ordering::Release);
    let asked = if send(question.thread).is_ok() { wait(question.thread, has_left) } else { Asked::Silent };
    if asked == Asked::Answered {
        let used = SLOT.used.load(Ordering::Relaxed);
        // SAFETY: the handler does not use them any more.
        let (frames, registers) = unsafe { ((&*SLOT.frames.get())[..used].to_vec(), *SLOT.registers.get()) };
        tell(StackAnswer { frames, has_stepped: SLOT.has_stepped.load(Ordering::Relaxed), registers });
    }
    SLOT.state.store(IDLE, Ordering::Release);
    wake();
    asked
}

/// Waits for an answer; if none comes the question is taken back.
fn wait(thread: i32, has_left: impl Fn() -> bool) -> Asked {
    let (since, mut patience) = (Instant::now(), PATIENCE);
    let take_back = || SLOT.state.compare_exchange(ASKED, IDLE, Ordering::AcqRel, Ordering::Acquire).is_ok();
    loop {
        match SLOT.state.load(Ordering::Acquire) {
            ANSWERED => return Asked::Answered,
            ELSEWHERE => return Asked::Elsewhere,
            ASKED if since.elapsed() > SOON && has_left() && take_back() => return Asked::Elsewhere,
            ASKED if since.elapsed() > patience => {
                let is_slow = place::status_of(thread).is_some_and(|status| !status.is_stopped);
                if is_slow && patience < MOST_PATIENCE {
                    patience += PATIENCE;
                } else if take_back() {
                    return Asked::Silent;
                }
            }
            ANSWERING if since.elapsed() > MOST_PATIENCE + PATIENCE => {
                IS_BROKEN.store(true, Ordering::Relaxed);
                return Asked::Silent;
            }
            state => sleep_on(state),
        }
    }
}

/// Sleeps until the state is no longer this, or a millisecond long.
fn sleep_on(state: u32) {
    let limit = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
    // SAFETY: waits at a word of ours.
    unsafe {
        let wait = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        libc::syscall(libc::SYS_futex, SLOT.state.as_ptr(), wait, state, &raw const limit)
    };
}

/// Sends the signal with the address of the slot, by which the handler knows it.
fn send(thread: i32) -> io::Result<()> {
    #[repr(C)]
    struct Info {
        signal: i32,
        errno: i32,
        code: i32,
        padding: i32,
        process: i32,
        user: u32,
        value: usize,
        rest: [u64; 12],
    }
    const { assert!(size_of::<Info>() == size_of::<libc::siginfo_t>()) };
    // SAFETY: asks for numbers.
    let (process, user) = unsafe { (libc::getpid(), libc::getuid()) };
    let value = (&raw const SLOT).addr();
    let (signal, code) = (SIGNAL, libc::SI_QUEUE);
    let info = Info { signal, errno: 0, code, padding: 0, process, user, value, rest: [0; 12] };
    // SAFETY: the layout is the kernel's for a signal with a value.
    match unsafe { libc::syscall(libc::SYS_rt_tgsigqueueinfo, process, thread, SIGNAL, &raw const info) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

unsafe extern "C" fn on_signal(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel gives a valid siginfo, and one of a queued signal has a value.
    let is_ours = unsafe {
        (*info).si_code == libc::SI_QUEUE && (*info).si_value().sival_ptr.addr() == (&raw const SLOT).addr()
    };
    if !is_ours {
        // SAFETY: as the kernel gave them. The default action is to ignore it.
        unsafe { BEFORE.call(signal, info, context) };
        return;
    }
    // SAFETY: the calling thread's own, which the interrupted code may be about to read.
    let errno = unsafe { *libc::__errno_location() };
    // SAFETY: asks for a number.
    let is_asked = SLOT.thread.load(Ordering::Relaxed) == unsafe { libc::gettid() }
        && SLOT.state.compare_exchange(ASKED, ANSWERING, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    if is_asked {
        // SAFETY: the kernel's context, and the slot is this thread's.
        unsafe { answer(context) };
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// # Safety
/// `context` is the kernel's, and the slot is in the state in which it belongs to this thread.
unsafe fn answer(context: *mut c_void) {
    let page = SLOT.page.load(Ordering::Relaxed);
    // The kernel gives a thread several signals at once, the last of them first: then this interrupts a
    // handler of the program's at its first instruction.
    // SAFETY: the kernel's context.
    if pc(unsafe { &*context.cast::<libc::ucontext_t>() }) != SLOT.pc.load(Ordering::Relaxed) {
        SLOT.state.store(ELSEWHERE, Ordering::Release);
        return wake();
    }
    let mut used = 0;
    if SLOT.wants_stack.load(Ordering::Relaxed) {
        if let Some(lines) = SLOT.lines.get() {
            lines();
        }
        // SAFETY: the kernel's context.
        let pc = pc(unsafe { &*context.cast::<libc::ucontext_t>() });
        // SAFETY: the slot is this thread's.
        used = walk(pc, unsafe { &mut *SLOT.frames.get() });
    }
    // SAFETY: the kernel's context; the slot is this thread's.
    unsafe { *SLOT.registers.get() = registers(&*context.cast::<libc::ucontext_t>()) };
    let may_step = SLOT.may_step.load(Ordering::Relaxed);
    // SAFETY: the slot is this thread's.
    let (elsewhere, registers) = unsafe { (*SLOT.elsewhere.get(), &*SLOT.registers.get()) };
    let elsewhere = elsewhere.filter(|it| may_step && it.operand.of(registers) == it.at);
    // SAFETY: the kernel's context, and this is the instruction that the operand is of.
    let is_elsewhere =
        elsewhere.is_some_and(|it| unsafe { step::begin_elsewhere(context, it.operand, it.by) });
    // SAFETY: the kernel's context.
    let has_stepped = is_elsewhere || may_step && unsafe { step::begin(context, page) };
    SLOT.used.store(used, Ordering::Relaxed);
    SLOT.has_stepped.store(has_stepped, Ordering::Relaxed);
    SLOT.state.store(ANSWERED, Ordering::Release);
    wake();
    // Not for ever: the monitor may wait for a lock that this thread has.
    for _ in 0..MOST_WAITS {
        if SLOT.state.load(Ordering::Acquire) != ANSWERED {
            break;
        }
        sleep_on(ANSWERED);
    }
    if let Some(uffd) = UFFD.get().filter(|_| !is_elsewhere) {
        moving::open_pages(uffd, &(page..page + page_size()));
    }
}

fn wake() {
    let wake = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: wakes whoever waits at a word of ours.
    unsafe { libc::syscall(libc::SYS_futex, SLOT.state.as_ptr(), wake, 1) };
}

/// What the unwinder has found so far.
struct Walk<'a> {
    pc: u64,
    is_found: bool,
    frames: &'a mut [u64; MAX_FRAMES],
    used: usize,
}

/// The stack of this thread from the interrupted instruction on; that alone if the unwinder does not come so
/// far. Says how many frames there are.
pub(in crate::os) fn walk(pc: u64, frames: &mut [u64; MAX_FRAMES]) -> usize {
    let mut walk = Walk { pc, is_found: false, frames, used: 0 };
    // SAFETY: the function gets the list, and only during the call.
    unsafe { _Unwind_Backtrace(visit, (&raw mut walk).cast()) };
    if walk.used == 0 {
        (walk.frames[0], walk.used) = (pc + 1, 1);
    }
    walk.used
}

extern "C" fn visit(frame: *mut c_void, walk: *mut c_void) -> i32 {
    const GO_ON: i32 = 0;
    const STOP: i32 = 5;
    // SAFETY: `walk` passes itself, and the unwinder a frame.
    let (walk, address) = unsafe { (&mut *walk.cast::<Walk>(), _Unwind_GetIP(frame) as u64) };
    let is_first = !walk.is_found && address == walk.pc;
    walk.is_found |= is_first;
    if !walk.is_found {
        return GO_ON;
    }
    if walk.used == MAX_FRAMES || address == 0 {
        return STOP;
    }
    walk.frames[walk.used] = address + u64::from(is_first);
    walk.used += 1;
    GO_ON
}

#[cfg(target_arch = "x86_64")]
fn registers(context: &libc::ucontext_t) -> Registers {
    super::operand::IN_CONTEXT.map(|number| context.uc_mcontext.gregs[number as usize] as u64)
}

#[cfg(not(target_arch = "x86_64"))]
fn registers(_: &libc::ucontext_t) -> Registers {
    [0; 16]
}

#[cfg(target_arch = "x86_64")]
pub(in crate::os) fn pc(context: &libc::ucontext_t) -> u64 {
    context.uc_mcontext.gregs[libc::REG_RIP as usize] as u64
}

#[cfg(target_arch = "aarch64")]
pub(in crate::os) fn pc(context: &libc::ucontext_t) -> u64 {
    context.uc_mcontext.pc
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(in crate::os) fn pc(_: &libc::ucontext_t) -> u64 {
    0
}

const _: () = assert!(mem::size_of::<libc::siginfo_t>() == 128);
