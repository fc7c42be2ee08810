//! FERRY_SCHEDULE: what a program that forgot to wait sees under each schedule, and that waiting, asking and
//! being called back are enough for work to be done. Each case is a child process: this program again, told
//! by FERRY_TEST_CASE what to do.

use std::collections::BTreeSet;
use std::ffi::c_void;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use ferry_tests::kind::{D2D, D2H};
use ferry_tests::*;

const LEN: usize = 4096;
const OLD: u8 = 1;
const NEW: u8 = 2;
const SEEDS: u64 = 24;

type Case = (&'static str, fn() -> String);

const CASES: &[Case] = &[
    ("unwaited", unwaited),
    ("unwaited 64 MiB", || unwaited_bytes(64 << 20)),
    ("stream query", || polled(|stream, _| stream_status(stream) == STREAM_COMPLETE)),
    ("event query", || polled(|_, event| event_status(event) == EVENT_COMPLETE)),
    ("function", called),
    ("a wait lets go what it needs and no more", needed_only),
    ("a full queue", full_queue),
    ("free", freed),
    ("notify", notified),
    ("two streams", two_streams),
    ("batch", overlapping_batch),
    ("large", large),
    ("many calls", many_calls),
];

/// Runs a case under a schedule, in a process of its own. What it found.
fn run(case: &str, schedule: &str, seed: u64) -> String {
    let program = std::env::current_exe().expect("Linux knows which program runs");
    let mut child = Command::new(&program);
    child.args(["--ignored", "--exact", "one_case", "--nocapture"]).env("FERRY_TEST_CASE", case);
    child.env("FERRY_SCHEDULE", schedule).env("FERRY_SEED", seed.to_string());
    let done = child.output().expect("this program can be started");
    let (said, stderr) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success() && said.contains("1 passed"), "{case}, {schedule} {seed}: {said}{stderr}");
    let found = said.lines().find_map(|line| line.split_once("found "));
    found.map(|(_, found)| found.to_owned()).unwrap_or_else(|| panic!("{case}: {said}"))
}

/// The child's part.
#[test]
#[ignore = "run by the others"]
fn one_case() {
    let name = std::env::var("FERRY_TEST_CASE").expect("the parent says which case");
    let (_, case) = CASES.iter().find(|case| case.0 == name).expect("a case of this name");
    println!("found {}", case());
}

#[test]
fn a_program_that_forgets_to_wait_reads_old_bytes_when_late_and_new_ones_when_early() {
    for case in ["unwaited", "unwaited 64 MiB"] {
        for _ in 0..3 {
            assert_eq!(run(case, "late", 0), OLD.to_string(), "{case}");
            assert_eq!(run(case, "early", 0), NEW.to_string(), "{case}");
        }
    }
}

#[test]
fn asking_is_enough_and_so_is_a_function() {
    for case in ["stream query", "event query", "function", "notify", "full queue"] {
        let case = CASES.iter().map(|known| known.0).find(|known| known.ends_with(case)).expect("a case");
        for schedule in ["late", "early", "shuffle"] {
            assert_eq!(run(case, schedule, 3), "done", "{case} {schedule}");
        }
    }
}

#[test]
fn late_work_is_kept_until_it_is_needed_and_no_longer() {
    assert_eq!(run("a wait lets go what it needs and no more", "late", 0), "[2, 2, 1]");
    assert_eq!(run("free", "late", 0), OLD.to_string(), "giving memory back waits for nothing");
}

#[test]
fn shuffled_streams_run_in_both_orders_and_a_seed_always_in_one() {
    for (case, at_least) in
        [("two streams", 2), ("batch", 3), ("large", 3), ("unwaited", 2), ("many calls", SEEDS as usize / 2)]
    {
        let found: Vec<_> = (0..SEEDS).map(|seed| run(case, "shuffle", seed)).collect();
        let different: BTreeSet<_> = found.iter().collect();
        assert!(different.len() >= at_least, "{case}: {different:?}");
        let again: Vec<_> = (0..SEEDS).map(|seed| run(case, "shuffle", seed)).collect();
        assert_eq!(found, again, "{case}: the same seeds, the same orders");
    }
}

/// A device buffer with new bytes and a host buffer with old ones; the copy to the host is submitted.
fn submitted(len: usize) -> (usize, Memory) {
    use_device();
    let (stream, device, host) = (stream(), Memory::device(len), Memory::pinned(len));
    device.fill(NEW);
    host.fill(OLD);
    ok(aclrtMemcpyAsync(host.addr, len, device.addr, len, D2H, stream));
    (stream, host)
}

/// The byte of host memory that the CPU reads now.
fn seen(host: &Memory, at: usize) -> u8 {
    // SAFETY: inside the memory; a copy may write it at the same time.
    unsafe { ((host.addr + at) as *const u8).read_volatile() }
}

fn unwaited() -> String {
    unwaited_bytes(LEN)
}

/// What the CPU reads after a copy that it did not wait for.
fn unwaited_bytes(len: usize) -> String {
    let (stream, host) = submitted(len);
    let seen = seen(&host, len - 1);
    finish(stream);
    host.assert_all(NEW, "waited for");
    seen.to_string()
}

/// Asks until the work is done.
fn polled(is_done: impl Fn(usize, usize) -> bool) -> String {
    let (stream, host) = submitted(LEN);
    let event = event();
    ok(aclrtRecordEvent(event, stream));
    eventually("a query lets work proceed", || is_done(stream, event));
    host.assert_all(NEW, "seen to be done");
    "done".into()
}

static CALLED: AtomicBool = AtomicBool::new(false);

/// Waits for a function in a way that the library does not see.
fn called() -> String {
    extern "C" fn note(_: *mut c_void) {
        CALLED.store(true, Ordering::Release);
    }
    let (stream, host) = submitted(LEN);
    ok(aclrtLaunchHostFunc(stream, Some(note), 0));
    eventually("the function runs", || CALLED.load(Ordering::Acquire));
    host.assert_all(NEW, "what is before a function is done when it runs");
    "done".into()
}

/// Three streams, the first behind the second: what the CPU reads of each after a wait for the first.
fn needed_only() -> String {
    let [(first, a), (second, b), (_, c)] = [LEN; 3].map(submitted);
    let event = event();
    ok(aclrtRecordEvent(event, second));
    ok(aclrtStreamWaitEvent(first, event));
    finish(first);
    format!("{:?}", [a, b, c].map(|host| seen(&host, 0)))
}

/// More copies than any queue holds, of which nobody waits for the first.
fn full_queue() -> String {
    let (stream, host) = submitted(LEN);
    let (from, to) = (Memory::device(64), Memory::pinned(64));
    for _ in 0..5000 {
        ok(aclrtMemcpyAsync(to.addr, 64, from.addr, 64, D2H, stream));
    }
    eventually("the first copy has run", || seen(&host, 0) == NEW);
    finish(stream);
    "done".into()
}

/// What the CPU reads after memory was allocated and given back, so often that a worker that was woken by it
/// would have been there.
fn freed() -> String {
    let (_, host) = submitted(LEN);
    for _ in 0..5000 {
        ok(Memory::device(LEN).free());
        ok(Memory::pinned(LEN).free());
    }
    seen(&host, 0).to_string()
}

/// A stream waits for what another one records, and only the first is waited for.
fn notified() -> String {
    let (behind, host) = submitted(LEN);
    let (other, mut notify) = (stream(), 0);
    ok(aclrtCreateNotify(&mut notify, 0));
    ok(aclrtWaitAndResetNotify(notify, behind, 0));
    ok(aclrtRecordNotify(notify, other));
    finish(behind);
    host.assert_all(NEW, "before the wait");
    "done".into()
}

/// Two streams write to the same bytes with nothing between them: whose bytes stay.
fn two_streams() -> String {
    use_device();
    let target = Memory::device(LEN);
    let mut streams = Vec::new();
    for value in 1..=2 {
        let (stream, source) = (stream(), Memory::device(LEN));
        source.fill(value);
        ok(aclrtMemcpyAsync(target.addr, LEN, source.addr, LEN, D2D, stream));
        streams.push(stream);
    }
    streams.into_iter().for_each(finish);
    format!("{:?}", &target.read()[..1])
}

/// The pieces of a batch write to the same bytes: whose stay.
fn overlapping_batch() -> String {
    use_device();
    let (stream, target, source) = (stream(), Memory::pinned(LEN), Memory::device(8 * LEN));
    source.write(&(0..8).flat_map(|value| [value; LEN]).collect::<Vec<u8>>());
    let pieces: Vec<_> = (0..8).map(|index| (target.addr, source.addr + index * LEN, LEN)).collect();
    let (code, _) = Batch::of(&pieces, DEVICE_TO_HOST).call(BatchForm::Async, stream);
    ok(code);
    finish(stream);
    format!("{:?}", &target.read()[..1])
}

/// Four streams copy over each other, with events between some, and are asked now and then: the bytes that
/// stay, and the answers.
fn many_calls() -> String {
    use_device();
    let target = Memory::device(16 * LEN);
    let streams: [usize; 4] = std::array::from_fn(|_| stream());
    let sources: [Memory; 4] = std::array::from_fn(|index| {
        let source = Memory::device(LEN);
        source.fill(index as u8);
        source
    });
    let mut answers = String::new();
    for round in 0..64 {
        let (stream, source) = (streams[round % 4], sources[round % 4]);
        let place = target.addr + round / 3 % 16 * LEN;
        ok(aclrtMemcpyAsync(place, LEN, source.addr, LEN, D2D, stream));
        if round % 5 == 0 {
            let event = event();
            ok(aclrtRecordEvent(event, stream));
            ok(aclrtStreamWaitEvent(streams[(round + 1) % 4], event));
            answers += &event_status(event).to_string();
        }
        if round % 3 == 0 {
            answers += &stream_status(streams[round / 3 % 4]).to_string();
        }
    }
    streams.into_iter().for_each(finish);
    let bytes = target.read();
    bytes.chunks(LEN).for_each(|chunk| answers += &chunk[0].to_string());
    answers
}

/// Two streams copy 4 MiB to the same place: which of the two wrote each of 64 parts of it last.
fn large() -> String {
    use_device();
    const LARGE: usize = 4 << 20;
    let target = Memory::device(LARGE);
    let streams = [1, 2].map(|value| {
        let (stream, source) = (stream(), Memory::device(LARGE));
        source.fill(value);
        ok(aclrtMemcpyAsync(target.addr, LARGE, source.addr, LARGE, D2D, stream));
        stream
    });
    streams.into_iter().for_each(finish);
    target.read().chunks(LARGE / 64).map(|part| part[0].to_string()).collect()
}
