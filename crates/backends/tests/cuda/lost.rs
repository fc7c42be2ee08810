//! A GPU that is lost: what everybody is told, that nobody waits for it, and that others go on. The stand-in
//! driver fails when it is told to; a real one does not, and then the child says so.

use super::*;
use std::process::Command;

/// Runs the ignored test `child` in a process of its own, whose driver has these settings.
pub fn in_child(child: &str, settings: &[(&str, &str)]) {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", child, "--ignored", "--nocapture"]).envs(settings.iter().copied());
    // Sharing puts work into streams, and which piece of work fails is counted.
    command.env_remove("FERRY_TEST_SHARED");
    let done = command.output().expect("started");
    let said = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
    print!("{said}");
    assert!(done.status.success() && said.contains("1 passed"), "{child} {settings:?}");
    // The stand-in is preloaded; a child that skips itself there tests nothing.
    let is_standin = std::env::var("LD_PRELOAD").is_ok_and(|files| files.contains("libcuda.so.1"));
    assert!(!is_standin || !said.contains("does not fail when it is told to"), "{child} {settings:?}");
}

/// The note of an error that must be there, and of this kind.
fn note<T>(result: Result<T>, kind: Kind) -> String {
    let why = result.err().expect("it is lost");
    assert_eq!(why.kind, kind, "{why}");
    why.note.to_string()
}

#[test]
fn a_lost_device_is_told_of_at_once_and_others_go_on() {
    for (code, kind) in [("700", "Fault"), ("214", "BadMemory"), ("46", "Lost"), ("719", "Fault")] {
        let fail = format!("work:3:{code}");
        let settings = [("STANDIN_FAIL", fail.as_str()), ("STANDIN_DEVICES", "2"), ("LOST_KIND", kind)];
        in_child("lost::one_of_two", &settings);
    }
}

#[test]
#[ignore = "run by a_lost_device_is_told_of_at_once_and_others_go_on"]
fn one_of_two() {
    let Some(gpu) = gpu("one_of_two") else { return };
    let kinds = [("Fault", Kind::Fault), ("BadMemory", Kind::BadMemory), ("Lost", Kind::Lost)];
    let kind = std::env::var("LOST_KIND").ok().and_then(|name| kinds.into_iter().find(|row| row.0 == name));
    let (Some((_, kind)), 2..) = (kind, gpu.backend().device_count()) else {
        return eprintln!("one_of_two: skipped: one device, or not run by its parent");
    };
    let (there, source, target) =
        (device(&gpu, 4096), locked(&gpu, &noise(1, 4096)), locked(&gpu, &[0; 4096]));
    // Too large to rest: it goes back to the driver when it is freed.
    let large = device(&gpu, 300 * MIB);
    let (breaking, held, waits) = (stream(&gpu), stream(&gpu), stream(&gpu));
    // Work of other streams that is in flight when it happens: behind a function, and behind that stream.
    let open = block(&held);
    linear(&held, target.base, there.base, 4096);
    let behind = held.fence().expect("a fence");
    waits.wait_for(behind.clone()).expect("submitted");
    for _ in 0..8 {
        let plan = |memory: &ferry_core::Memory| {
            Plan::new([Rows::linear(there.base, source.base, 4096)], memory, |_, _| Ok(())).map(Op::Copy)
        };
        // SAFETY: all of it is known memory.
        let _ = unsafe { breaking.submit::<ferry_core::Misfit>(plan) };
    }
    let Err(first) = breaking.synchronize(MINUTE) else {
        return eprintln!("one_of_two: skipped: this driver does not fail when it is told to");
    };
    assert_eq!(first.kind, kind, "{first}");
    let text = first.note.split("CUDA_ERROR_").nth(1).expect("the driver's words").to_owned();
    everything_fails(&gpu, &breaking, kind, &text);
    drop(open);
    behind.wait(MINUTE).expect("nobody waits for a lost device");
    assert!(note(held.synchronize(MINUTE), kind).contains(&text));
    assert!(note(waits.synchronize(MINUTE), kind).contains(&text));
    for block in [large, there, source, target] {
        gpu.free(block.base, |_| Ok(())).expect("frees are quiet");
    }
    the_other_goes_on(&gpu);
}

fn everything_fails(gpu: &Runtime, lost: &Stream, kind: Kind, text: &str) {
    let says = |note: String| assert!(note.contains(text), "{note}: not as at first: {text}");
    says(note(lost.synchronize(MINUTE), kind));
    says(note(lost.mark(), kind));
    says(note(lost.call(|| panic!("it never comes to this")), kind));
    says(note(gpu.alloc(&Request { home: Home::Device(0), len: 64, page: 4096 }), kind));
    says(note(gpu.memory_info(0), kind));
    says(note(gpu.stream(0, QueueOptions::default()), kind));
    assert!(lost.fence().expect("a fence").is_done(), "nothing is in flight there");
    lost.abort();
}

fn the_other_goes_on(gpu: &Runtime) {
    let stream = gpu.stream(1, QueueOptions::default()).expect("a stream of the other device");
    for round in 0..20 {
        let want = noise(round, 4096);
        let there = alloc(gpu, Home::Device(1), 4096);
        let (source, target) = (locked(gpu, &want), locked(gpu, &[0; 4096]));
        linear(&stream, there.base, source.base, 4096);
        linear(&stream, target.base, there.base, 4096);
        stream.synchronize(MINUTE).expect("it is not lost");
        assert!(read(&target) == want, "round {round}");
        [there, source, target].iter().for_each(|block| {
            gpu.free(block.base, |_| Ok(())).expect("freed");
        });
    }
    gpu.memory_info(1).expect("asked");
}

/// What the driver refuses is told with the call and its addresses, and the stream goes on. A copy that it
/// calls invalid is done by a kernel instead.
#[test]
fn a_refused_copy_is_named() {
    in_child("lost::refused", &[("STANDIN_FAIL", "cuMemcpyAsync:2:801")]);
}

#[test]
#[ignore = "run by a_refused_copy_is_named"]
fn refused() {
    let Some(gpu) = gpu("refused") else { return };
    let (there, source, stream) = (device(&gpu, 1 << 20), locked(&gpu, &noise(1, 1 << 20)), stream(&gpu));
    linear(&stream, there.base, source.base, 1 << 20);
    linear(&stream, there.base, source.base, 1 << 19);
    let Err(why) = stream.synchronize(MINUTE) else {
        return eprintln!("refused: skipped: this driver does not fail when it is told to");
    };
    assert_eq!(why.kind, Kind::Unsupported, "{why}");
    let call =
        format!("524288 bytes from {:#x} to {:#x}: CUDA_ERROR_NOT_SUPPORTED (801)", source.base, there.base);
    assert!(why.note.contains(&call), "{why}");
    linear(&stream, there.base, source.base, 1 << 20);
    stream.synchronize(MINUTE).expect("it goes on");
}

/// Where the driver refuses to unlock some pages the others are unlocked all the same, and can be registered
/// again.
#[test]
fn pages_that_stay_locked_hold_up_no_others() {
    in_child("lost::stays_locked", &[("STANDIN_FAIL", "cuMemHostUnregister:1:1")]);
}

#[test]
#[ignore = "run by pages_that_stay_locked_hold_up_no_others"]
fn stays_locked() {
    let Some(gpu) = gpu("stays_locked") else { return };
    let (gpu, memory, page) = (Arc::new(gpu), vec![1_u8; 8 * 4096], 4096);
    let (backend, base) = (gpu.backend(), (memory.as_ptr() as usize).next_multiple_of(page));
    let inner = backend.register(base + page, page).expect("registered");
    let whole = backend.register(base, 3 * page).expect("registered, in three parts");
    // SAFETY: nothing uses them.
    let freed = unsafe { [backend.free(&inner), backend.free(&whole)] };
    if freed[1].is_ok() {
        return eprintln!("stays_locked: skipped: this driver does not fail when it is told to");
    }
    let (told, hear) = mpsc::channel();
    let also = gpu.clone();
    thread::spawn(move || told.send(also.backend().register(base + page, 2 * page)));
    let again = hear.recv_timeout(Duration::from_secs(60)).expect("nobody waits for pages for ever");
    again.expect("registered again");
    drop(memory);
}
