use super::*;
use std::{hint::black_box, ptr, thread};

const LEN: usize = 3 * 4096;

/// Three pages, of which the middle one is not mapped.
fn pages_with_a_hole() -> usize {
    let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: fresh addresses, of which nobody else knows.
    unsafe {
        let at = libc::mmap(ptr::null_mut(), LEN, rights, flags, -1, 0) as usize;
        assert_eq!(libc::munmap((at + 4096) as *mut _, 4096), 0);
        at
    }
}

/// Three pages, of which the middle one is protected: no mapping that another test makes meanwhile can move
/// in.
fn pages_with_a_guard() -> usize {
    let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: fresh addresses, of which no other code knows.
    unsafe {
        let at = libc::mmap(ptr::null_mut(), LEN, rights, flags, -1, 0) as usize;
        assert_eq!(libc::mprotect((at + 4096) as *mut _, 4096, libc::PROT_NONE), 0);
        at
    }
}

/// Reads bytes one by one, guarded, with every register in use.
fn sum(at: usize, len: usize) -> Result<u64, Fault> {
    let touches = |addr| is_in(&(at..at + len), addr);
    // SAFETY: a plain loop.
    unsafe {
        guarded(touches, || (at..at + len).map(|byte| u64::from(ptr::read_volatile(byte as *const u8))).sum())
    }
}

#[test]
fn a_loop_ends_where_it_faults_and_its_caller_goes_on() {
    install();
    let at = pages_with_a_hole();
    let kept: [u64; 12] = black_box(std::array::from_fn(|index| index as u64 * 7 + 1));
    for round in 0..100_u64 {
        assert_eq!(sum(at, 4096), Ok(0));
        let fault = sum(at + round as usize, LEN - round as usize).expect_err("a hole");
        assert_eq!((fault.addr, fault.signal, fault.code), (at + 4096, libc::SIGSEGV, SEGV_MAPERR));
        let all = kept.iter().zip(1_u64..).map(|(kept, index)| kept * index).sum::<u64>();
        assert_eq!(black_box(all), 4082, "what the caller keeps in registers");
    }
}

#[test]
fn threads_fault_on_their_own() {
    install();
    let at = pages_with_a_guard();
    let work =
        || (0..200).all(|_| sum(at, LEN).is_err_and(|fault| fault.addr == at + 4096) && sum(at, 1) == Ok(0));
    for _ in 0..3 {
        thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(work)).collect();
            assert!(threads.into_iter().all(|thread| thread.join().expect("it lives")));
        });
    }
}

#[test]
fn a_failure_says_what_was_done_where_and_why() {
    let rows =
        [Rows::linear(0x10_0000, 0x20_0000, 64), Rows { height: 3, ..Rows::linear(0x30_0000, 0x40_0010, 8) }];
    let pieces = Pieces::Rows(&rows);
    let say = |addr, signal, code| Fault { addr, signal, code }.of_copy(pieces).note.to_string();
    let not_mapped = say(0x20_0010, libc::SIGSEGV, SEGV_MAPERR);
    assert!(not_mapped.contains("a copy of 64 bytes from 0x200000 ended early"), "{not_mapped}");
    assert!(not_mapped.contains("0x200010 cannot be read: it is not mapped"), "{not_mapped}");
    let protected = say(0x30_0004, libc::SIGSEGV, SEGV_ACCERR);
    assert!(
        protected.contains("3 rows of 8 bytes to 0x300000")
            && protected.contains("written: it is mapped, but"),
        "{protected}"
    );
    assert!(say(0x40_0000, libc::SIGBUS, libc::BUS_ADRERR).contains("the file behind it ends"));
    assert!(covers(pieces, 0x10_003f) && !covers(pieces, 0x10_0040) && !covers(pieces, 0xf_ffff));
}
