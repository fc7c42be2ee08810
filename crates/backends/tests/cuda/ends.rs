//! Waiting for the end of a stream: by a number that the stream writes, and by the driver where it cannot.

use super::*;
use std::ffi::{CString, c_char};

/// How often this process has called a function of the driver; the stand-in knows.
pub fn calls(name: &str) -> Option<u64> {
    // SAFETY: the driver is loaded already.
    let driver = unsafe { libloading::Library::new("libcuda.so.1") }.ok()?;
    // SAFETY: the function of this name in tests/standin, and so of this type.
    let count =
        unsafe { driver.get::<unsafe extern "C" fn(*const c_char) -> u64>(b"cuStandinCalls") }.ok()?;
    let name = CString::new(name).expect("no zero in it");
    // SAFETY: the name ends with a zero.
    Some(unsafe { count(name.as_ptr()) })
}

/// How often each of these is called by `work`; `None`, with a line, over a driver that does not count.
pub fn counted<const N: usize>(names: [&str; N], work: impl FnOnce()) -> Option<[u64; N]> {
    let before = names.map(calls);
    work();
    if before.contains(&None) {
        eprintln!("not counted: this driver does not say how often it is called");
        return None;
    }
    let after = names.map(calls);
    Some(std::array::from_fn(|index| after[index].unwrap_or(0) - before[index].unwrap_or(0)))
}

const ROUNDS: u64 = 100;

/// Copies fresh bytes to the device and back, and waits for each copy.
fn go_round(gpu: &Runtime, stream: &Stream) {
    let (there, near) = (device(gpu, 4096), locked(gpu, &[0; 4096]));
    for round in 0..ROUNDS / 2 {
        let want = noise(round as usize, 4096);
        // SAFETY: page-locked memory that nothing in flight uses.
        unsafe { ptr::copy_nonoverlapping(want.as_ptr(), near.base as *mut u8, 4096) };
        linear(stream, there.base, near.base, 4096);
        stream.synchronize(MINUTE).expect("done");
        // SAFETY: as above.
        unsafe { ptr::write_bytes(near.base as *mut u8, 0, 4096) };
        linear(stream, near.base, there.base, 4096);
        stream.synchronize(if round % 2 == 0 { None } else { MINUTE }).expect("done");
        assert!(read(&near) == want, "round {round}");
    }
}

#[test]
fn a_wait_for_the_end_of_a_stream_is_ended_by_a_number() {
    lost::in_child("ends::numbers", &[]);
}

#[test]
#[ignore = "run by a_wait_for_the_end_of_a_stream_is_ended_by_a_number"]
fn numbers() {
    let Some(gpu) = gpu("numbers") else { return };
    let names = ["cuStreamWriteValue64", "cuEventRecord"];
    let stream = stream(&gpu);
    if let Some([numbers, events]) = counted(names, || go_round(&gpu, &stream)) {
        // On a busy machine the work may be done before the thread looks, or take its time.
        assert!(numbers > 0 && events < ROUNDS / 2, "{numbers} numbers, {events} events");
    }
    let waited = gpu.stream(0, QueueOptions { waited: true }).expect("a stream");
    if let Some([numbers, events]) = counted(names, || go_round(&gpu, &waited)) {
        assert_eq!(numbers, ROUNDS, "the submitter puts them there");
        assert!(events < ROUNDS / 2, "{events} events");
    }
    // Kernels of other streams may not get past one that is held, and so may numbers.
    self::stream(&gpu).share().expect("shared");
    if let Some([numbers, ..]) = counted(names, || go_round(&gpu, &stream)) {
        assert_eq!(numbers, 0, "where a stream may be held");
    }
}

/// Where streams write no numbers, or the driver refuses one, it is asked instead.
#[test]
fn a_wait_does_without_numbers() {
    for refuses in [("STANDIN_NO_WAITS", "1"), ("STANDIN_FAIL", "cuStreamWriteValue64:3:801")] {
        lost::in_child("ends::refused", &[refuses]);
    }
}

#[test]
#[ignore = "run by a_wait_does_without_numbers"]
fn refused() {
    let Some(gpu) = gpu("refused") else { return };
    let waited = gpu.stream(0, QueueOptions { waited: true }).expect("a stream");
    let numbers = counted(["cuStreamWriteValue64"], || {
        go_round(&gpu, &waited);
        go_round(&gpu, &stream(&gpu));
    });
    assert!(numbers.is_none_or(|[numbers]| numbers <= 3), "{numbers:?}: asked again");
}

/// The number is never written: the work before it failed, or it did itself.
#[test]
fn a_number_that_never_comes_is_not_waited_for_for_ever() {
    for turn in 1..=4 {
        lost::in_child("ends::never", &[("STANDIN_FAIL", &format!("work:{turn}:700"))]);
    }
}

#[test]
#[ignore = "run by a_number_that_never_comes_is_not_waited_for_for_ever"]
fn never() {
    let Some(gpu) = gpu("never") else { return };
    let (there, near) = (device(&gpu, 4096), locked(&gpu, &[0; 4096]));
    let waited = gpu.stream(0, QueueOptions { waited: true }).expect("a stream");
    let plan = |memory: &ferry_core::Memory| {
        let plan = Plan::new([Rows::linear(there.base, near.base, 4096)], memory, |_, _| Ok(()));
        plan.map(Op::Copy).map_err(|misfit| misfit.error)
    };
    for (stream, limit) in [(&waited, None), (&stream(&gpu), None), (&stream(&gpu), MINUTE)] {
        // SAFETY: page-locked memory, which outlives the stream's work.
        let submitted = unsafe { stream.submit::<Error>(plan) };
        if let Err(why) = submitted.map(drop).and_then(|()| stream.synchronize(limit)) {
            return assert_eq!(why.kind, Kind::Fault, "{why}");
        }
    }
    eprintln!("never: skipped: this driver does not fail when it is told to");
}

/// Two streams of which one waits for each copy of the other: nothing is asked that is known, and no thread
/// is started to gather copies that come one by one.
#[test]
fn streams_joined_by_events_take_few_calls_of_the_driver() {
    lost::in_child("ends::joined", &[]);
}

#[test]
#[ignore = "run by streams_joined_by_events_take_few_calls_of_the_driver"]
fn joined() {
    let Some(gpu) = gpu("joined") else { return };
    let (first, second) = (stream(&gpu), stream(&gpu));
    let (there, near, back) = (device(&gpu, 64), locked(&gpu, &[0; 64]), locked(&gpu, &[0; 64]));
    let event = Event::new();
    let round = |number: u64| {
        // SAFETY: page-locked memory that nothing in flight uses.
        unsafe { ptr::write_bytes(near.base as *mut u8, number as u8, 64) };
        linear(&first, there.base, near.base, 64);
        event.record(&first).expect("recorded");
        second.wait_for(event.latest().expect("recorded")).expect("submitted");
        linear(&second, back.base, there.base, 64);
        second.synchronize(MINUTE).expect("done");
        assert!(read(&back) == [number as u8; 64], "round {number}");
    };
    (0..ROUNDS).for_each(round);
    let names = ["cuMemcpyAsync", "cuEventRecord", "cuStreamWaitEvent", "cuEventQuery", "cuLaunchKernel"];
    let Some([copies, events, waits, asked, launches]) = counted(names, || (0..ROUNDS).for_each(round))
    else {
        return;
    };
    assert_eq!([copies, waits, asked, launches], [2 * ROUNDS, ROUNDS, 0, 0]);
    // On a busy machine the stand-in may take its time, and the driver's event is waited for.
    assert!(events < 2 * ROUNDS, "{events} events");
    let threads = std::fs::read_dir("/proc/self/task").expect("a process has threads");
    let name = |thread: std::fs::DirEntry| std::fs::read_to_string(thread.path().join("comm")).ok();
    let names: Vec<_> = threads.flatten().filter_map(name).collect();
    assert!(!names.iter().any(|name| name.starts_with("ferry")), "no thread of ours: {names:?}");
}
