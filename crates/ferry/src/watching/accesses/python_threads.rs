//! The interpreter's state of a thread that has submitted nothing, such as a worker that writes what others
//! have copied.
//!
//! A thread inside a system call cannot be asked. The interpreter has a list of the states of its threads,
//! and each says which thread it is of, by the address of its descriptor in the C library, which has the
//! system's number of the thread. Where these two fields are, the first thread that submits an op tells by
//! its own state. All is read by checked reads, as frames are.

use ferry_backends::os::trap::read_for_monitor;
use std::{
    ffi::c_void,
    sync::atomic::{AtomicU64, Ordering},
};

/// Bytes of a state, or of a descriptor, that are searched.
const SEARCHED: u64 = 2048;
/// States that are looked at.
const MOST_STATES: usize = 4096;
/// Where a state names the next one, in all versions from 3.9 to 3.14: behind the previous one.
const NEXT: u64 = 8;

pub(super) type MainInterpreter = unsafe extern "C" fn() -> *mut c_void;
pub(super) type FirstThread = unsafe extern "C" fn(*mut c_void) -> *mut c_void;

/// The list of states, and where their fields are.
pub(super) struct PythonThreads {
    main: MainInterpreter,
    first: FirstThread,
    /// In a state: the address of the thread's descriptor; 0 if not known.
    descriptor: AtomicU64,
    /// In a descriptor: the number of the thread; 0 if not known.
    number: AtomicU64,
}

impl PythonThreads {
    pub(super) fn new(main: MainInterpreter, first: FirstThread) -> PythonThreads {
        PythonThreads { main, first, descriptor: AtomicU64::new(0), number: AtomicU64::new(0) }
    }

    /// Learns where the fields are from the state of the calling thread, which has this number.
    pub(super) fn learn(&self, state: u64, thread: i32) {
        if self.descriptor.load(Ordering::Relaxed) != 0 {
            return;
        }
        // SAFETY: asks for a number.
        let own = unsafe { libc::pthread_self() };
        let number = (4..SEARCHED).step_by(4).find(|at| read_number(own + at) == Some(thread));
        let descriptor = (8..SEARCHED).step_by(8).find(|at| read_word(state + at) == Some(own));
        if let (Some(number), Some(descriptor)) = (number, descriptor) {
            self.number.store(number, Ordering::Relaxed);
            self.descriptor.store(descriptor, Ordering::Release);
        }
    }

    /// The state of a thread of the main interpreter.
    pub(super) fn state_of(&self, thread: i32) -> Option<u64> {
        let descriptor = Some(self.descriptor.load(Ordering::Acquire)).filter(|at| *at != 0)?;
        let number = self.number.load(Ordering::Relaxed);
        // SAFETY: functions of the interpreter's C interface, each of which reads one variable.
        let first = unsafe {
            let main = (self.main)();
            if main.is_null() { main } else { (self.first)(main) }
        };
        let next = |state: &u64| read_word(state + NEXT).filter(|state| *state != 0);
        let states = std::iter::successors(Some(first.addr() as u64).filter(|state| *state != 0), next);
        let is_its = |state: &u64| {
            let own = read_word(state + descriptor);
            own.and_then(|own| read_number(own.checked_add(number)?)) == Some(thread)
        };
        states.take(MOST_STATES).find(is_its)
    }
}

fn read_word(at: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    (read_for_monitor(at, &mut bytes) == bytes.len()).then(|| u64::from_ne_bytes(bytes))
}

fn read_number(at: u64) -> Option<i32> {
    let mut bytes = [0; 4];
    (read_for_monitor(at, &mut bytes) == bytes.len()).then(|| i32::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread state: the previous and the next one, and in the fifth word the descriptor of its thread.
    type State = [u64; 8];

    unsafe extern "C" fn main() -> *mut c_void {
        FIRST.load(Ordering::Relaxed) as *mut c_void
    }

    unsafe extern "C" fn first(main: *mut c_void) -> *mut c_void {
        main
    }

    static FIRST: AtomicU64 = AtomicU64::new(0);

    #[test]
    fn a_thread_that_told_nothing_is_found_by_the_fields_of_one_that_did() {
        let threads = PythonThreads::new(main, first);
        // SAFETY: asks for numbers.
        let (own, own_number) = unsafe { (libc::pthread_self(), libc::gettid()) };
        let (ask, asked) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            // SAFETY: asks for numbers.
            ask.send(unsafe { (libc::pthread_self(), libc::gettid()) }).expect("a listener");
            let _ = ended.recv();
        });
        let (descriptor, number) = asked.recv().expect("an answer");
        let others: State = [0, 0, 0, 0, descriptor, 0, 0, 0];
        let owns: State = [0, others.as_ptr() as u64, 0, 0, own, 0, 0, 0];
        // Of a thread whose descriptor cannot be read.
        let nowhere: State = [0, owns.as_ptr() as u64, 0, 0, 16, 0, 0, 0];
        FIRST.store(nowhere.as_ptr() as u64, Ordering::Relaxed);
        assert_eq!(threads.state_of(number), None, "nobody has told where the fields are");
        threads.learn(owns.as_ptr() as u64, own_number);
        assert_eq!(threads.state_of(number), Some(others.as_ptr() as u64));
        assert_eq!(threads.state_of(own_number), Some(owns.as_ptr() as u64));
        assert_eq!(threads.state_of(1), None);
        drop(end);
        other.join().expect("a thread that ends");
    }
}
