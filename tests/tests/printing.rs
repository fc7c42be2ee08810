//! Whatever becomes of what the library prints, no call fails because of it and no program ends.

use std::ffi::c_void;

use ferry_tests::children::{self, Case};
use ferry_tests::*;

const CASES: &[Case] = &[("full", full), ("closed", closed), ("gone", gone)];

/// The child's part.
#[test]
#[ignore = "run by the other"]
fn one_case() {
    children::play(CASES);
}

#[test]
fn what_cannot_be_printed_is_lost_and_nothing_else() {
    for (name, _) in CASES {
        for printing in ["FERRY_VERBOSE", "ASCEND_LOG_PRINT_TO_STDOUT"] {
            let level = ("ASCEND_GLOBAL_LOG_LEVEL", Some("0"));
            children::run(name, &[(printing, Some("1")), level]);
        }
    }
}

/// Uses the library while standard output and error are other files; -1 is none.
fn with_outputs(file: i32) {
    // SAFETY: descriptors of this process, which has one thread that prints; both are put back.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        let kept = [1, 2].map(|number| (number, libc::dup(number)));
        for (number, _) in kept {
            if file < 0 {
                libc::close(number)
            } else {
                libc::dup2(file, number)
            };
        }
        let codes = [aclInit(std::ptr::null()), aclrtSetDevice(0), aclrtSetDevice(9999), aclFinalize()];
        for (number, old) in kept {
            libc::dup2(old, number);
        }
        assert_eq!(codes, [0, 0, code::INVALID_DEVICEID, 0]);
    }
}

fn full() {
    // SAFETY: a constant path.
    let file = unsafe { libc::open(c"/dev/full".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC) };
    assert!(file > 2);
    with_outputs(file);
}

fn closed() {
    with_outputs(-1);
}

/// A pipe whose reader has gone.
fn gone() {
    let mut ends = [0; 2];
    // SAFETY: room for two descriptors.
    assert_eq!(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }, 0);
    // SAFETY: made just now.
    unsafe { libc::close(ends[0]) };
    with_outputs(ends[1]);
    // SAFETY: our own byte to our own pipe, after the default action was put back.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        assert_eq!(libc::write(ends[1], (&raw const ends).cast::<c_void>(), 1), -1);
    }
}
