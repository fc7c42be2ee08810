//! The descriptors of the process are the program's: what the library keeps open is out of the way of the
//! standard ones, and the program may close all of it and open its own files under the same numbers. Each
//! case is a process of its own.
//!
//! On the host backend only: on a GPU the driver keeps descriptors of its own, and those are not the
//! library's to place or to miss.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ferry_tests::children::{self, Case};
use ferry_tests::code::*;
use ferry_tests::kind::*;
use ferry_tests::*;

const CASES: [Case; 4] = [
    ("standard descriptors closed", standard_descriptors_closed),
    ("all descriptors closed", all_descriptors_closed),
    ("no descriptor at first", no_descriptor_at_first),
    ("no descriptor for the log at first", no_descriptor_for_the_log_at_first),
];

/// The child's part.
#[test]
#[ignore = "run by the others"]
fn one_case() {
    children::play(&CASES);
}

/// Runs a case with logs in a folder of its own, which is gone when it has passed; the lines of the logs.
#[track_caller]
fn run(case: &str) -> Vec<String> {
    let name = format!("descriptors-{}-{}", case.replace(' ', "-"), std::process::id());
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let level = ["ASCEND_GLOBAL_LOG_LEVEL", "ASCEND_MODULE_LOG_LEVEL"].map(|name| (name, None));
    children::run(case, &[&level[..], &[("ASCEND_PROCESS_LOG_PATH", folder.to_str())]].concat());
    let files = fs::read_dir(folder.join("debug/plog")).expect("a folder of logs");
    let lines = files.flat_map(|file| {
        let text = fs::read_to_string(file.expect("an entry").path()).expect("a log");
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    });
    let lines = lines.collect();
    fs::remove_dir_all(&folder).expect("our own folder");
    lines
}

/// A call that fails, so that there is something to log.
fn fails() -> i32 {
    aclrtSetDevice(4711)
}

/// Exports memory to everybody who knows the key.
fn exported(addr: usize, len: usize) -> (i32, [u8; 65]) {
    let mut key = [0; 65];
    let code = aclrtIpcMemGetExportKey(addr, len, key.as_mut_ptr().cast(), 65, 1);
    (code, key)
}

fn imported(key: &[u8; 65]) -> (i32, usize) {
    let mut addr = 0;
    let code = aclrtIpcMemImportByKey(&mut addr, key.as_ptr().cast(), 0);
    (code, addr)
}

/// Closes the standard descriptors, runs `body`, and gives them back.
fn without_standard_descriptors<T>(body: impl FnOnce() -> T) -> T {
    let copies = [0, 1, 2].map(|fd| {
        // SAFETY: descriptors of this process, which nobody else uses meanwhile.
        let copy = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 100) };
        assert!(copy >= 100);
        copy
    });
    for fd in 0..3 {
        // SAFETY: as above.
        assert_eq!(unsafe { libc::close(fd) }, 0);
    }
    let value = body();
    for (fd, copy) in (0..).zip(copies) {
        // SAFETY: as above.
        assert_eq!(unsafe { libc::dup2(copy, fd) }, fd);
    }
    value
}

fn is_open(fd: RawFd) -> bool {
    // SAFETY: asks for flags.
    unsafe { libc::fcntl(fd, libc::F_GETFD) >= 0 }
}

const LEN: usize = 4 << 20;

/// Everything that the library opens a file for, with the codes of its calls.
fn everything() -> (Vec<i32>, bool) {
    let (data, mut back, mut device) = (vec![7u8; LEN], vec![0u8; LEN], 0);
    let mut codes = vec![aclrtSetDevice(0), aclrtMalloc(&mut device, LEN, 0)];
    codes.push(aclrtMemcpy(device, LEN, data.as_ptr() as usize, LEN, H2D));
    codes.push(if fails() == INVALID_DEVICEID { 0 } else { -1 });
    let (code, key) = exported(device, LEN);
    let (imports, there) = imported(&key);
    codes.extend([code, imports]);
    codes.push(aclrtMemcpy(back.as_mut_ptr() as usize, LEN, there, LEN, D2H));
    codes.extend([aclrtIpcMemClose(key.as_ptr().cast()), aclrtFree(device)]);
    (codes, back == data)
}

/// The standard descriptors that stay open. A thread of the library's, which serves what was exported, takes
/// them for moments, so they count as closed when they have been for a while.
fn kept_standard_descriptors() -> Vec<RawFd> {
    let began = Instant::now();
    let mut taken = began;
    loop {
        let open: Vec<RawFd> = (0..3).filter(|fd| is_open(*fd)).collect();
        if !open.is_empty() {
            taken = Instant::now();
        }
        if taken.elapsed() > Duration::from_millis(50) || began.elapsed() > Duration::from_secs(10) {
            return open;
        }
        std::thread::yield_now();
    }
}

fn standard_descriptors_closed() {
    let stop = AtomicBool::new(false);
    let (codes, same, printed, open) = without_standard_descriptors(|| {
        std::thread::scope(|scope| {
            // A thread that prints all the while: with nothing behind the descriptors every try fails.
            let printer = scope.spawn(|| {
                let mut printed = 0;
                while !stop.load(Ordering::Relaxed) {
                    // SAFETY: writes a byte of ours, or fails.
                    printed +=
                        (0..3).filter(|fd| unsafe { libc::write(*fd, c"x".as_ptr().cast(), 1) } > 0).count();
                }
                printed
            });
            let (codes, same) = everything();
            stop.store(true, Ordering::Relaxed);
            let printed = printer.join().unwrap_or(usize::MAX);
            (codes, same, printed, kept_standard_descriptors())
        })
    });
    assert!(codes.iter().all(|code| *code == 0) && same, "{codes:?}, the same bytes: {same}");
    assert_eq!(
        (printed, open),
        (0, vec![]),
        "what was printed into the library's files, and what it keeps there"
    );
}

#[test]
fn nothing_that_is_printed_lands_in_the_librarys_files() {
    if on_host() {
        assert_eq!(run("standard descriptors closed").len(), 1);
    }
}

/// The program's own files, one for every number that was in use.
struct Own(Vec<(File, u64)>);

impl Own {
    const TEXT: &[u8] = &[b'x'; 64 << 10];

    /// Closes every descriptor but the standard ones, and opens files in their place.
    fn in_place_of_all() -> Own {
        let last = (3..1024).rev().find(|fd| is_open(*fd)).expect("the library has some");
        for fd in 3..=last {
            // SAFETY: what a program does that becomes a daemon.
            unsafe { libc::close(fd) };
        }
        Own((3..=last).map(|_| Own::file()).collect())
    }

    fn file() -> (File, u64) {
        // SAFETY: the name is a C string, and the descriptor is new.
        let mut file = unsafe { File::from_raw_fd(libc::memfd_create(c"program's".as_ptr(), 0)) };
        file.write_all(Own::TEXT).expect("memory");
        let inode = file.metadata().expect("a file").ino();
        (file, inode)
    }

    /// Asserts that nobody has closed, written or emptied any of them.
    fn assert_untouched(self) {
        for (mut file, inode) in self.0 {
            let fd = file.as_raw_fd();
            let facts = file.metadata().unwrap_or_else(|why| panic!("descriptor {fd}: {why}"));
            assert_eq!(
                (facts.ino(), facts.blocks()),
                (inode, Own::TEXT.len() as u64 / 512),
                "descriptor {fd}"
            );
            let mut text = vec![0; Own::TEXT.len() + 1];
            assert_eq!(file.read_at(&mut text, 0).expect("readable"), Own::TEXT.len(), "descriptor {fd}");
            assert_eq!(&text[..Own::TEXT.len()], Own::TEXT, "descriptor {fd}");
            assert_eq!(file.read(&mut text).expect("readable"), 0, "descriptor {fd} was not moved");
        }
    }
}

fn all_descriptors_closed() {
    use_device();
    let (device, other) = (Memory::device(1 << 20), Memory::device(1 << 20));
    device.fill(5);
    assert_eq!(fails(), INVALID_DEVICEID);
    let (code, key) = exported(device.addr, device.len);
    ok(code);
    let (code, there) = imported(&key);
    ok(code);

    let own = Own::in_place_of_all();
    assert_eq!(fails(), INVALID_DEVICEID);
    let copied = device.read();
    ok(aclrtMemcpy(other.addr, other.len, there, other.len, D2D));
    other.assert_all(5, "imported memory is still there");
    ok(aclrtIpcMemClose(key.as_ptr().cast()));
    // The memory's file cannot be handed to another process any more: what needs it says so.
    let (code, again) = exported(other.addr, other.len);
    assert!(
        code != 0 && message().is_some_and(|said| said.contains("closed descriptor")),
        "exported: {code}"
    );
    let (code, _) = imported(&again);
    assert_ne!(code, 0);
    ok(aclrtFree(device.addr));
    ok(aclrtFree(other.addr));
    assert!(copied.iter().all(|byte| *byte == 5));
    // What was lent is kept until its importer, this process, ends: nobody can hear any more that it is done
    // with it.
    assert_eq!(
        resident_kib("ferry:device0-memory"),
        device.len >> 10,
        "what was freed is the system's again"
    );
    own.assert_untouched();
}

/// How much of the mappings of this name is in memory.
fn resident_kib(name: &str) -> usize {
    let text = fs::read_to_string("/proc/self/smaps").expect("the mappings of this process");
    let mut is_named = false;
    let mut sum = 0;
    for line in text.lines() {
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["Rss:", kib, "kB"] if is_named => sum += kib.parse::<usize>().expect("a number"),
            [range, ..] if range.contains('-') => is_named = line.contains(name),
            _ => {}
        }
    }
    sum
}

#[test]
fn the_programs_files_in_place_of_the_librarys_are_not_touched() {
    if on_host() {
        let lines = run("all descriptors closed");
        let logged = lines.iter().filter(|line| line.contains("4711")).count();
        assert_eq!(logged, 2, "before and after: {lines:#?}");
    }
}

/// Runs `body` without a descriptor to be had.
fn without_descriptors<T>(body: impl FnOnce() -> T) -> T {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is written.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) }, 0);
    // SAFETY: the limit is valid for the call.
    let set =
        |soft| unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &libc::rlimit { rlim_cur: soft, ..limit }) };
    assert_eq!(set(3), 0);
    let value = body();
    assert_eq!(set(limit.rlim_cur), 0);
    value
}

fn no_descriptor_at_first() {
    let (code, said) = without_descriptors(|| (aclrtSetDevice(0), message().unwrap_or_default()));
    assert!(code != 0 && said.contains("open files"), "{code}: {said}");
    ok(aclrtSetDevice(0));
    Memory::device(4096).fill(1);
    // For the logs, which are looked at.
    assert_eq!(fails(), INVALID_DEVICEID);
}

#[test]
fn a_first_call_that_failed_for_want_of_a_descriptor_is_no_verdict() {
    if on_host() {
        let lines = run("no descriptor at first");
        assert!(lines.iter().any(|line| line.contains("4711")), "{lines:#?}");
    }
}

fn no_descriptor_for_the_log_at_first() {
    use_device();
    without_descriptors(|| assert_eq!(fails(), INVALID_DEVICEID));
    assert_eq!(fails(), INVALID_DEVICEID);
}

#[test]
fn logs_begin_when_there_is_a_descriptor_for_them() {
    if on_host() {
        let lines = run("no descriptor for the log at first");
        assert_eq!(lines.len(), 1, "one is lost: {lines:#?}");
    }
}
