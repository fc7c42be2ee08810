//! Processes that allocate and free all the time, and are killed at random moments, also while they start.
//!
//! What they hold is counted in one word that all of them see, a lane of 16 bits for each: a process counts a
//! block after it has it and before it gives it back, so the sum is never more than what is really held. A
//! process that is about to be killed is marked first, and its lane is left out.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use ferry_tests::children::{self, Case};
use ferry_tests::*;

use crate::{MIB, Shared};

const LANES: usize = 4;
const KILLS: usize = 200;
/// Blocks of 1 MiB that there are, and that each process would like to have.
const BLOCKS: u64 = 16;
const WANTED: u64 = 8;
/// So many allocations each process tries between two kills. None works on while another starts: that would
/// only take long.
const ROUNDS: u64 = 24;
const DOOMED: u64 = 1 << 15;

pub const CASES: [Case; 1] = [("kill processes that share", kill_processes_that_share)];

/// What the processes share besides the device.
#[derive(Default)]
struct Ledger {
    held: AtomicU64,
    /// The largest sum that anybody saw.
    most: AtomicU64,
    /// Allocations that each process tried, up to how many it may go on, and those of all that found no room.
    rounds: [AtomicU64; LANES],
    allowed: [AtomicU64; LANES],
    refused: AtomicU64,
    /// The first code that nobody expected.
    wrong: AtomicU64,
}

#[test]
fn two_hundred_kills_leave_the_budget_right() {
    if !on_host() {
        return;
    }
    let shared = Shared::new();
    let (name, folder) = shared.setting();
    let size = format!("{BLOCKS}M");
    children::run(CASES[0].0, &[(name, Some(folder)), ("FERRY_DEVICE_MEMORY", Some(&size))]);
    let mut last = shared.process("16M");
    assert_eq!(last.memory(), (BLOCKS as usize * MIB, BLOCKS as usize * MIB));
    last.ok(&format!("malloc {}", BLOCKS as usize * MIB));
}

/// This process never uses the library itself, so those that it forks may.
fn kill_processes_that_share() {
    let ledger = ledger();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut pids: Vec<i32> = (0..LANES).map(|lane| start(ledger, lane)).collect();
    for kill in 0..KILLS {
        let lane = kill % LANES;
        for (rounds, allowed) in ledger.rounds.iter().zip(&ledger.allowed) {
            allowed.store(rounds.load(SeqCst) + ROUNDS, SeqCst);
        }
        // Not more than it may: it may have gone on since.
        let rounds = ledger.allowed[lane].load(SeqCst) - next(&mut random) % ROUNDS;
        eventually("the process goes on", || ledger.rounds[lane].load(SeqCst) >= rounds);
        end(ledger, lane, pids[lane]);
        pids[lane] = start(ledger, lane);
    }
    pids.into_iter().enumerate().for_each(|(lane, pid)| end(ledger, lane, pid));
    assert_eq!(ledger.wrong.load(SeqCst), 0, "a code that nobody expected");
    assert!(ledger.most.load(SeqCst) <= BLOCKS, "{} of {BLOCKS} blocks were held", ledger.most.load(SeqCst));
    assert!(
        ledger.most.load(SeqCst) > WANTED && ledger.refused.load(SeqCst) > 0,
        "they were in each other's way"
    );
}

/// Memory that forked processes share.
fn ledger() -> &'static Ledger {
    let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, which stays; it begins with zeros, of which a ledger may consist.
    unsafe {
        let addr = libc::mmap(std::ptr::null_mut(), size_of::<Ledger>(), rights, flags, -1, 0);
        assert_ne!(addr, libc::MAP_FAILED);
        &*addr.cast()
    }
}

fn start(ledger: &'static Ledger, lane: usize) -> i32 {
    // SAFETY: the child works until it is killed and never returns into the test.
    match unsafe { libc::fork() } {
        -1 => panic!("fork failed"),
        0 => {
            let code = work(ledger, lane);
            ledger.wrong.store(code as u64, SeqCst);
            ledger.rounds[lane].fetch_add(1 << 32, SeqCst);
            // SAFETY: ends the child without running anything that belongs to the parent.
            unsafe { libc::_exit(1) }
        }
        pid => pid,
    }
}

/// Kills a process, whose blocks do not count from here on.
fn end(ledger: &Ledger, lane: usize, pid: i32) {
    ledger.held.fetch_or(DOOMED << (16 * lane), SeqCst);
    // SAFETY: a child of ours that nobody else ends or waits for.
    unsafe {
        assert_eq!(libc::kill(pid, libc::SIGKILL), 0);
        assert_eq!(libc::waitpid(pid, std::ptr::null_mut(), 0), pid);
    }
    ledger.held.fetch_and(!(0xffff << (16 * lane)), SeqCst);
}

/// Takes as many blocks as it can get and wants, and gives them back, until something goes wrong.
fn work(ledger: &Ledger, lane: usize) -> i32 {
    let one = 1 << (16 * lane);
    let mut code = aclrtSetDevice(0);
    while code == 0 {
        let mut blocks = Vec::new();
        while code == 0 && (blocks.len() as u64) < WANTED {
            eventually("this process may go on", || {
                ledger.rounds[lane].load(SeqCst) < ledger.allowed[lane].load(SeqCst)
            });
            let mut addr = 0;
            code = aclrtMalloc(&mut addr, MIB - 32, 2);
            if code == 0 {
                let held = ledger.held.fetch_add(one, SeqCst) + one;
                ledger.most.fetch_max(sum(held), SeqCst);
                blocks.push(addr);
            }
            ledger.rounds[lane].fetch_add(1, SeqCst);
        }
        if code == code::MEMORY_ALLOCATION {
            ledger.refused.fetch_add(1, SeqCst);
            code = 0;
        }
        for addr in blocks {
            ledger.held.fetch_sub(one, SeqCst);
            code = code.max(aclrtFree(addr));
        }
    }
    code
}

/// Blocks of all that are not about to be killed.
fn sum(held: u64) -> u64 {
    let lanes = (0..LANES).map(|lane| held >> (16 * lane) & 0xffff);
    lanes.filter(|lane| lane & DOOMED == 0).sum()
}

fn next(random: &mut u64) -> u64 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    *random >> 16
}
