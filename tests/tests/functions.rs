//! What a host function finds on the thread that runs it.

use std::ffi::c_void;
use std::fs;
use std::process::Command;
use std::sync::Mutex;

use ferry_tests::*;

static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn blocked_signals(status: &str) -> String {
    status.lines().find_map(|line| line.strip_prefix("SigBlk:")).expect("Linux says").trim().to_owned()
}

/// Notes which signals are blocked here, and in a program that is started from here.
///
/// # Safety
/// None needed: the argument is not used.
unsafe extern "C" fn look(_: *mut c_void) {
    let here = fs::read_to_string("/proc/thread-self/status").expect("a thread has a status");
    let child = Command::new("cat").arg("/proc/self/status").output().expect("cat runs");
    let child = String::from_utf8_lossy(&child.stdout).into_owned();
    SEEN.lock().unwrap().extend([here, child].map(|status| blocked_signals(&status)));
}

/// Makes these, and no others, the signals that this thread blocks.
fn block(signals: &[i32]) {
    // SAFETY: the set is initialised before it is used, and all signals exist.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        signals.iter().for_each(|signal| assert_eq!(libc::sigaddset(&mut set, *signal), 0));
        assert_eq!(libc::pthread_sigmask(libc::SIG_SETMASK, &set, std::ptr::null_mut()), 0);
    }
}

#[test]
fn signals_are_those_of_the_thread_that_launched() {
    use_device();
    let stream = stream();
    let none = "0000000000000000";
    for (signals, want) in
        [(&[][..], none), (&[libc::SIGUSR1, libc::SIGTERM], "0000000000004200"), (&[], none)]
    {
        block(signals);
        ok(aclrtLaunchHostFunc(stream, Some(look), 0));
        block(&[]);
        finish(stream);
        assert_eq!(SEEN.lock().unwrap().drain(..).collect::<Vec<_>>(), [want, want], "{signals:?}");
    }
}
