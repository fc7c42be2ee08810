//! What counts for the whole process: locked pages, and mappings. Each case is a child process.

use ferry_tests::children::{self, Case};
use ferry_tests::kind::H2D;
use ferry_tests::*;

use crate::{MAPPED, PAGE, PINNED, mine};

/// Cases that count for the whole process.
pub const CASES: [Case; 2] =
    [("pages are locked", pages_are_locked), ("rounds leave nothing", rounds_leave_nothing)];

#[test]
fn pages_are_locked_by_the_process() {
    children::run(CASES[0].0, &[]);
}

#[test]
fn registering_again_and_again_leaves_nothing() {
    children::run(CASES[1].0, &[]);
}

/// Bytes of this process that are locked in memory.
fn locked_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells");
    let line = status.lines().find_map(|line| line.strip_prefix("VmLck:")).expect("a line for locked memory");
    line.split_whitespace().next().expect("a number").parse().expect("a number")
}

/// Registered memory is locked in memory, where the limits of the process allow it, and unlocked again.
fn pages_are_locked() {
    let memory = mine(16 * PAGE);
    memory.fill(1);
    // SAFETY: locking changes no byte.
    let allowed = unsafe { libc::mlock(memory.addr as *const _, memory.len) == 0 };
    // SAFETY: as above.
    unsafe { libc::munlock(memory.addr as *const _, memory.len) };
    let before = locked_kib();
    if !allowed {
        return;
    }
    let stream = stream();
    for round in 0..3 {
        ok(aclrtHostRegisterV2(memory.addr, memory.len, PINNED));
        assert_eq!(locked_kib(), before + 64, "round {round}");
        // Registered anew while a copy holds the old registration: the new one stays locked when that ends.
        let (device, gate) = (Memory::device(64), block(stream));
        ok(aclrtMemcpyAsync(device.addr, 64, memory.addr, 64, H2D, stream));
        ok(aclrtHostUnregister(memory.addr));
        ok(aclrtHostRegisterV2(memory.addr, memory.len, PINNED));
        gate.unblock();
        finish(stream);
        ok(device.free()); // gives back what can be given back
        assert_eq!(locked_kib(), before + 64, "registered anew, round {round}");
        ok(aclrtHostUnregister(memory.addr));
        ok(Memory::device(64).free());
        assert_eq!(locked_kib(), before, "round {round}");
    }
}

fn rounds_leave_nothing() {
    let memory = mine(4 * PAGE);
    let lines = || std::fs::read_to_string("/proc/self/maps").expect("Linux tells").lines().count();
    let round = |_| {
        ok(aclrtHostRegisterV2(memory.addr, 4 * PAGE, PINNED | MAPPED));
        ok(aclrtHostUnregister(memory.addr));
        let mut device = 0;
        ok(aclrtHostRegister(memory.addr, 4 * PAGE, 0, &mut device));
        ok(aclrtHostUnregister(memory.addr));
    };
    (0..100).for_each(round);
    let before = lines();
    // A driver takes its time.
    (0..if on_host() { 5000 } else { 500 }).for_each(round);
    assert!(lines() <= before + 4, "{before} mappings became {}", lines());
}
