//! Device pointers that the CPU touched, told to a function of ours before the signal takes its course.
//!
//! The function allocates and locks, which a signal handler may not. So a thread of ours calls it, while the
//! faulting thread waits in its handler, though not for ever: the signal takes its course in any case.

use std::{
    cell::UnsafeCell,
    ffi::c_void,
    io,
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering},
    },
};

use super::answer::{MAX_FRAMES, pc, walk};
use crate::os::{fault, threads::end::spawn_deaf};

const IDLE: u32 = 0;
const FILLING: u32 = 1;
const FILLED: u32 = 2;
/// Milliseconds that the faulting thread waits.
const MOST_WAITS: u32 = 500;

/// A device pointer that the CPU touched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevicePointer {
    /// The system's number of the thread that touched it.
    pub thread: u32,
    /// The address.
    pub address: usize,
    /// Whether it was written, as far as the CPU says.
    pub is_write: bool,
    /// The stack, from the instruction itself on.
    pub frames: Vec<u64>,
}

/// What a handler leaves for the thread; its owner is known by the state.
struct PointerSlot {
    state: AtomicU32,
    thread: AtomicU32,
    address: AtomicUsize,
    is_write: AtomicBool,
    frames: UnsafeCell<[u64; MAX_FRAMES]>,
    used: AtomicUsize,
}

// SAFETY: the frames have one owner at a time, by the state.
unsafe impl Sync for PointerSlot {}

static SLOT: PointerSlot = PointerSlot {
    state: AtomicU32::new(IDLE),
    thread: AtomicU32::new(0),
    address: AtomicUsize::new(0),
    is_write: AtomicBool::new(false),
    frames: UnsafeCell::new([0; MAX_FRAMES]),
    used: AtomicUsize::new(0),
};
static TOLD: OnceLock<()> = OnceLock::new();
/// Has an interpreter write its lines.
static LINES: OnceLock<fn()> = OnceLock::new();

/// Has `with` be called for each device pointer that the CPU touches from here on, and `lines` in the handler
/// before it.
pub fn tell_pointers(with: fn(DevicePointer), lines: fn()) -> io::Result<()> {
    if TOLD.set(()).is_err() {
        return Ok(());
    }
    let _ = LINES.set(lines);
    fault::tell_pointers_to(tell);
    spawn_deaf("ferry-pointers", 1 << 20, move || {
        loop {
            match SLOT.state.load(Ordering::Acquire) {
                FILLED => pass_on(with),
                state => sleep_on(state, None),
            }
        }
    })
}

fn pass_on(with: fn(DevicePointer)) {
    let used = SLOT.used.load(Ordering::Relaxed);
    // SAFETY: filled, and the handler waits.
    let frames = unsafe { &*SLOT.frames.get() }[..used].to_vec();
    let (address, is_write) = (SLOT.address.load(Ordering::Relaxed), SLOT.is_write.load(Ordering::Relaxed));
    let thread = SLOT.thread.load(Ordering::Relaxed);
    ferry_core::fence::survives(|| with(DevicePointer { thread, address, is_write, frames }));
    SLOT.state.store(IDLE, Ordering::Release);
    wake();
}

/// Called by the handler.
///
/// # Safety
/// `context` is the kernel's.
unsafe fn tell(address: usize, context: *mut c_void) {
    // Another thread may be dying at the same time: one of them is enough.
    if SLOT.state.compare_exchange(IDLE, FILLING, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        return;
    }
    // SAFETY: the caller's promise.
    let context = unsafe { &*context.cast::<libc::ucontext_t>() };
    // SAFETY: takes nothing and touches no memory.
    SLOT.thread.store(unsafe { libc::gettid() } as u32, Ordering::Relaxed);
    SLOT.address.store(address, Ordering::Relaxed);
    SLOT.is_write.store(is_write(context), Ordering::Relaxed);
    if let Some(lines) = LINES.get() {
        lines();
    }
    // SAFETY: the slot is this thread's.
    SLOT.used.store(walk(pc(context), unsafe { &mut *SLOT.frames.get() }), Ordering::Relaxed);
    SLOT.state.store(FILLED, Ordering::Release);
    wake();
    for _ in 0..MOST_WAITS {
        if SLOT.state.load(Ordering::Acquire) != FILLED {
            break;
        }
        sleep_on(FILLED, Some(1_000_000));
    }
}

fn sleep_on(state: u32, nanos: Option<i64>) {
    let limit = nanos.map(|tv_nsec| libc::timespec { tv_sec: 0, tv_nsec });
    let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let wait = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: waits at a word of ours.
    unsafe { libc::syscall(libc::SYS_futex, SLOT.state.as_ptr(), wait, state, limit) };
}

fn wake() {
    let wake = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: wakes whoever waits at a word of ours.
    unsafe { libc::syscall(libc::SYS_futex, SLOT.state.as_ptr(), wake, i32::MAX) };
}

/// Whether the fault was a write: the CPU's error code of a page fault has it in its second bit.
#[cfg(target_arch = "x86_64")]
fn is_write(context: &libc::ucontext_t) -> bool {
    context.uc_mcontext.gregs[libc::REG_ERR as usize] & 2 != 0
}

#[cfg(not(target_arch = "x86_64"))]
fn is_write(_: &libc::ucontext_t) -> bool {
    false
}
