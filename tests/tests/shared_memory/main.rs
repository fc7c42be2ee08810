//! Device memory that the processes of a user share (FERRY_DEVICE_SHARED): what one takes is missing to the
//! others, and comes back however it ends. Only devices of memory and threads need this: a GPU is shared by
//! itself.
//!
//! Every test has a folder of its own, so that it shares with nobody but its own processes.

mod kills;
mod process;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use ferry_tests::children;
use ferry_tests::code::*;
use ferry_tests::*;
use process::{Orphan, Process};

const MIB: usize = 1 << 20;
const ALL: usize = 64 * MIB;
const MOST: usize = 40 * MIB;

/// A folder in memory by which the processes of one test find each other.
struct Shared(PathBuf);

impl Shared {
    fn new() -> Shared {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let folder = PathBuf::from(format!("/dev/shm/ferry-test-{}-{number}", std::process::id()));
        std::fs::create_dir(&folder).expect("a new folder in memory");
        Shared(folder)
    }

    /// What makes processes share by this folder.
    fn setting(&self) -> (&'static str, &str) {
        ("FERRY_DEVICE_SHARED", self.0.to_str().expect("text"))
    }

    /// A process with devices of this size.
    #[track_caller]
    fn process(&self, size: &str) -> Process {
        Process::with(&[self.setting(), ("FERRY_DEVICE_MEMORY", size)])
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn what_one_takes_is_missing_to_the_others() {
    if !on_host() {
        return;
    }
    let shared = Shared::new();
    let (mut one, mut two) = (shared.process("64M"), shared.process("64M"));
    assert_eq!((one.memory(), two.memory()), ((ALL, ALL), (ALL, ALL)));
    let large = one.ok(&format!("malloc {MOST}"));
    assert_eq!((one.free_bytes(), two.free_bytes()), (ALL - MOST, ALL - MOST));
    let words = ["device 0", "25165824 of 67108864 are free", "other processes have 41943040"];
    two.refused(&format!("malloc {}", ALL - MOST + 4096), MEMORY_ALLOCATION, &words);
    let rest = two.ok(&format!("malloc {}", ALL - MOST));
    assert_eq!((one.free_bytes(), two.free_bytes()), (0, 0));
    one.refused(
        "malloc 4096",
        MEMORY_ALLOCATION,
        &["0 of 67108864 are free", "other processes have 25165824"],
    );
    // What lies in host memory, and the other device, are something else.
    two.ok("page-locked 1000000");
    two.ok("register 1000000");
    two.ok("device 1");
    two.ok(&format!("malloc {ALL}"));
    two.ok("device 0");
    one.ok(&format!("free {large}"));
    assert_eq!((one.free_bytes(), two.free_bytes()), (MOST, MOST));
    two.ok(&format!("free {rest}"));
    assert_eq!((one.free_bytes(), two.free_bytes()), (ALL, ALL));
}

#[test]
fn physical_memory_counts_and_imported_memory_does_not() {
    if !on_host() {
        return;
    }
    let shared = Shared::new();
    let (mut one, mut two) = (shared.process("64M"), shared.process("64M"));
    let handle = one.ok(&format!("physical {MIB}"));
    assert_eq!(two.free_bytes(), ALL - MIB);
    one.ok(&format!("free-physical {handle}"));
    let addr = one.ok(&format!("malloc {MOST}"));
    let key = one.ok(&format!("export {addr} 4096"));
    two.ok(&format!("import {key}"));
    assert_eq!((one.free_bytes(), two.free_bytes()), (ALL - MOST, ALL - MOST), "counted where it was made");
    one.kill();
    assert_eq!(two.free_bytes(), ALL, "who made it is gone");
}

#[test]
fn devices_are_private_unless_they_are_shared() {
    if !on_host() {
        return;
    }
    let shared = Shared::new();
    let mut one = shared.process("64M");
    let mut alone = Process::with(&[("FERRY_DEVICE_MEMORY", "64M"), ("FERRY_DEVICE_SHARED", "0")]);
    let elsewhere = Shared::new();
    let mut others = elsewhere.process("64M");
    one.ok(&format!("malloc {MOST}"));
    assert_eq!((alone.free_bytes(), others.free_bytes()), (ALL, ALL));
    alone.ok(&format!("malloc {ALL}"));
    others.ok(&format!("malloc {ALL}"));
    assert_eq!(one.free_bytes(), ALL - MOST);
}

#[test]
fn however_a_process_ends_its_memory_comes_back() {
    if !on_host() {
        return;
    }
    let shared = Shared::new();
    let mut watcher = shared.process("64M");
    for end in ["exit", "_exit", "crash"] {
        let mut one = shared.process("64M");
        one.ok(&format!("malloc {MOST}"));
        assert_eq!(watcher.free_bytes(), ALL - MOST);
        one.tell(end);
        one.dead();
        assert_eq!(watcher.free_bytes(), ALL, "{end}, and nobody has waited for it");
    }
    let mut one = shared.process("64M");
    one.ok(&format!("malloc {MOST}"));
    one.kill();
    assert_eq!(watcher.free_bytes(), ALL, "killed");
    watcher.ok(&format!("malloc {ALL}"));
}

#[test]
fn a_process_that_becomes_another_program_has_given_back() {
    if !on_host() {
        return;
    }
    let shared = Shared::new();
    let (mut watcher, mut one) = (shared.process("64M"), shared.process("64M"));
    one.ok(&format!("malloc {MOST}"));
    assert_eq!(watcher.free_bytes(), ALL - MOST);
    one.ok("exec");
    assert_eq!(watcher.free_bytes(), ALL);
}

#[test]
fn a_program_that_closes_all_descriptors_keeps_what_it_has() {
    if !on_host() {
        return;
    }
    let shared = Shared::new();
    let (mut watcher, mut one) = (shared.process("64M"), shared.process("64M"));
    one.ok(&format!("malloc {MOST}"));
    one.ok("close-descriptors");
    assert_eq!(watcher.free_bytes(), ALL - MOST);
    let more = one.ok(&format!("malloc {MIB}"));
    assert_eq!(watcher.free_bytes(), ALL - MOST - MIB);
    one.ok(&format!("free {more}"));
    assert_eq!((watcher.free_bytes(), one.free_bytes()), (ALL - MOST, ALL - MOST));
    one.kill();
    assert_eq!(watcher.free_bytes(), ALL);
}

#[test]
fn a_forked_child_holds_nothing_of_its_dead_parent() {
    if !on_host() {
        return;
    }
    let shared = Shared::new();
    let (mut watcher, mut one) = (shared.process("64M"), shared.process("64M"));
    one.ok(&format!("malloc {MOST}"));
    let _orphan = Orphan(one.ok("fork").parse().expect("a pid"));
    assert_eq!(watcher.free_bytes(), ALL - MOST);
    one.kill();
    assert_eq!(watcher.free_bytes(), ALL);
}

#[test]
fn the_first_ones_size_counts_until_all_are_gone() {
    if !on_host() {
        return;
    }
    let shared = Shared::new();
    let mut first = shared.process("64M");
    let mut second = shared.process("128M");
    assert_eq!(second.memory(), (ALL, ALL));
    first.kill();
    let mut third =
        Process::with(&[shared.setting(), ("FERRY_DEVICE_MEMORY", "32M"), ("FERRY_DEVICES", "3")]);
    assert_eq!(third.memory(), (ALL, ALL), "one of the earlier ones is left");
    third.ok("device 2");
    assert_eq!(third.memory().1, 32 * MIB, "no other has this device");
    second.kill();
    third.kill();
    assert_eq!(shared.process("32M").memory(), (32 * MIB, 32 * MIB), "all are gone");
}

#[test]
fn a_device_is_known_by_its_number_on_the_machine() {
    if !on_host() {
        return;
    }
    let shared = Shared::new();
    let mut all = shared.process("64M");
    let mut second_only = Process::with(&[
        shared.setting(),
        ("FERRY_DEVICE_MEMORY", "64M"),
        ("ASCEND_RT_VISIBLE_DEVICES", "1"),
    ]);
    second_only.ok(&format!("malloc {MOST}"));
    assert_eq!(all.free_bytes(), ALL);
    all.ok("device 1");
    assert_eq!(all.free_bytes(), ALL - MOST);
}

#[test]
fn a_file_that_is_not_ours_is_refused() {
    if !on_host() {
        return;
    }
    let shared = Shared::new();
    let mut one = shared.process("64M");
    one.ok("malloc 4096");
    let file =
        std::fs::read_dir(&shared.0).expect("our folder").next().expect("a file").expect("a name").path();
    let target = shared.0.join("target");
    std::fs::write(&target, "somebody's").expect("written");
    std::fs::remove_file(&file).expect("there until now");
    std::os::unix::fs::symlink(&target, &file).expect("a link");
    one.refused("malloc 4096", INVALID_PARAM, &["FERRY_DEVICE_SHARED", file.to_str().expect("text")]);
    let mut two = Process::without_device(&[shared.setting()]);
    two.refused("device 0", INVALID_PARAM, &["FERRY_DEVICE_SHARED", file.to_str().expect("text")]);
    assert_eq!(std::fs::read_to_string(&target).expect("still there"), "somebody's");

    std::fs::remove_file(&file).expect("the link");
    std::fs::copy(&target, &file).expect("a file for all to read");
    let mut three = Process::without_device(&[shared.setting()]);
    three.refused("device 0", INVALID_PARAM, &["alone can write"]);
    one.refused("memory", DRV_INTERNAL_ERROR, &["another file"]);

    let mut nowhere = Process::without_device(&[("FERRY_DEVICE_SHARED", "/nowhere/at/all")]);
    nowhere.refused("device 0", INVALID_PARAM, &["FERRY_DEVICE_SHARED", "/nowhere/at/all"]);
}

/// The part of a child that needs no pipe.
#[test]
#[ignore = "run by the other tests"]
fn one_case() {
    children::play(&kills::CASES);
}

#[test]
fn a_gpu_is_shared_by_itself() {
    if on_host() {
        return;
    }
    let mut one = Process::without_device(&[("FERRY_DEVICE_SHARED", "1")]);
    one.refused("device 0", INVALID_PARAM, &["FERRY_DEVICE_SHARED", "FERRY_BACKEND=host"]);
}
