//! What goes on while a shared stream is held: other devices, and the driver refusing things.

use super::{
    adopted::at_once,
    chunks::{USUAL, alloc_all, free},
    *,
};
use ferry_core::{
    Reduction,
    reduce::{Combine, Element},
};
use std::hint;

/// A stream that is shared with other libraries.
pub fn shared(gpu: &Runtime, device: u32) -> Arc<Stream> {
    let stream = gpu.stream(device, QueueOptions::default()).expect("a stream");
    stream.share().expect("shared");
    stream
}

/// A batch, and a sum if the kernels for that are there, on device 1.
fn use_another_device(gpu: &Runtime, stream: &Stream, has_kernels: bool) {
    let (bytes, there) = (noise(3, MIB), alloc(gpu, Home::Device(1), MIB));
    let (source, target) = (locked(gpu, &bytes), locked(gpu, &vec![0; MIB]));
    // Backwards: else they were one.
    let piece = |at: usize| Rows::linear(there.base + at, source.base + MIB - 1024 - at, 1024);
    copy(stream, &(0..MIB).step_by(1024).map(piece).collect::<Vec<_>>());
    if has_kernels {
        let plan = |memory: &ferry_core::Memory| {
            let ends = (there.base, there.base, MIB);
            Reduction::new(Combine::Max, Element::I8, ends, memory, |_| Ok(()))
                .map(|it| Op::Reduce(Box::new(it)))
        };
        // SAFETY: all of it is memory of the runtime's.
        unsafe { stream.submit::<Error>(plan) }.expect("submitted");
    }
    linear(stream, target.base, there.base, MIB);
    stream.synchronize(MINUTE).expect("done");
    assert!(read(&target) == bytes.rchunks(1024).flatten().copied().collect::<Vec<_>>());
}

/// The driver waits for the held stream if it loads kernels. Those of all devices are loaded before; a device
/// that is opened while a stream is held copies without.
#[test]
fn a_function_in_a_shared_stream_uses_another_device() {
    let test = "a_function_in_a_shared_stream_uses_another_device";
    for [is_first, is_shared] in [[true, false], [false, false], [false, true]] {
        if gpu(test).is_none() {
            return;
        }
        let options = CudaOptions { devices: Some(2), ..CudaOptions::default() };
        let gpu = Arc::new(Runtime::new(Cuda::open(&options).expect("there is a GPU"), Vec::new()));
        let other = is_first.then(|| gpu.stream(1, QueueOptions::default()).expect("a stream"));
        let (held, also) = (shared(&gpu, 0), gpu.clone());
        let (told, hear) = mpsc::channel();
        let function = move || {
            let fresh = || also.stream(1, QueueOptions::default()).expect("a stream");
            let stream = other.unwrap_or_else(fresh);
            if is_shared {
                stream.share().expect("shared");
            }
            use_another_device(&also, &stream, is_first);
            told.send(()).expect("heard");
        };
        held.call(function).expect("submitted");
        at_once("the other device", move || hear.recv()).expect("no panic");
        held.synchronize(MINUTE).expect("done");
        // By now they are loaded, or will be.
        use_another_device(&gpu, &shared(&gpu, 1), true);
    }
}

/// Where streams cannot be held none is shared, and that is said.
#[test]
fn a_stream_that_cannot_be_held_is_not_shared() {
    lost::in_child("held::no_waits", &[("STANDIN_NO_WAITS", "1")]);
}

#[test]
#[ignore = "run by a_stream_that_cannot_be_held_is_not_shared"]
fn no_waits() {
    let Some(gpu) = gpu("no_waits") else { return };
    let stream = gpu.stream(0, QueueOptions::default()).expect("a stream");
    let Err(why) = stream.share() else {
        stream.call(|| ()).and(stream.synchronize(MINUTE)).expect("it can be held");
        return eprintln!("no_waits: skipped: this driver holds streams");
    };
    assert_eq!(why.kind, Kind::Unsupported, "{why}");
    // SAFETY: the default stream, which is always there.
    let adopted = unsafe { gpu.adopt(None, 0, 0) }.map(drop).map_err(|why| why.kind);
    assert_eq!(adopted, Err(Kind::Unsupported));
    let (there, source) = (device(&gpu, 64), locked(&gpu, &[7; 64]));
    linear(&stream, there.base, source.base, 64);
    stream.synchronize(MINUTE).expect("it goes on as it was");
}

/// How long something is watched that must not happen.
const MOMENT: Option<Duration> = Some(Duration::from_millis(50));

/// The driver refuses to hold the stream: nobody sees the function as done before it is, and what comes later
/// comes behind it. What came before does not wait for it.
#[test]
fn an_op_for_which_the_stream_is_not_held_passes_when_the_host_is_through() {
    let fail = "cuStreamWaitValue64:2:1,cuStreamWaitValue64:3:1";
    lost::in_child("held::not_held", &[("STANDIN_FAIL", fail)]);
}

#[test]
#[ignore = "run by an_op_for_which_the_stream_is_not_held_passes_when_the_host_is_through"]
fn not_held() {
    let Some(gpu) = gpu("not_held") else { return };
    let (stream, there) = (shared(&gpu, 0), device(&gpu, 64));
    let fill = || Op::Fill(Fill { dst: there.at, len: 64, pattern: [1; 4], device: Some(0) });
    let first = block(&stream);
    submit(&stream, fill);
    let ((give, take), (told, hear)) = (mpsc::channel::<Arc<dyn Fence>>(), mpsc::channel());
    let (open, closed) = mpsc::channel::<()>();
    let function = move || {
        let before = take.recv().expect("a fence");
        told.send(before.wait(Some(Duration::from_secs(60)))).expect("heard");
        while closed.recv().is_ok() {}
    };
    // Not held for this one.
    stream.call(function).expect("submitted");
    let ticket = stream.newest();
    give.send(stream.fence_after(ticket - 1)).expect("taken");
    drop(first);
    hear.recv().expect("it runs").expect("what came before does not wait for the function");
    let fences =
        [stream.fence().expect("a fence"), stream.fence_after(ticket), stream.mark().expect("marked")];
    // SAFETY: all of it is memory of the runtime's.
    let later = unsafe { stream.submit::<Error>(|_| Ok(fill())) };
    submit(&stream, fill);
    let behind = stream.fence_after(stream.newest());
    for (index, fence) in fences.iter().chain([&behind]).enumerate() {
        assert_eq!(fence.wait(MOMENT).map_err(|why| why.kind), Err(Kind::Timeout), "fence {index}");
    }
    drop(open);
    fences.iter().chain([&behind]).for_each(|fence| fence.wait(MINUTE).expect("done"));
    match stream.synchronize(MINUTE).map_err(|why| why.kind) {
        Ok(()) => eprintln!("not_held: skipped: this driver does not fail when it is told to"),
        failed => assert!(failed == Err(Kind::Device) && later.is_err(), "{failed:?} {:?}", later.is_ok()),
    }
    stream.call(|| ()).expect("submitted");
    stream.synchronize(MINUTE).expect("it goes on");
}

/// A copy of pageable memory of which the driver takes only a part into the stream: whoever submits it does
/// not wait for that.
#[test]
fn a_copy_that_the_driver_refuses_halfway_is_submitted_at_once() {
    lost::in_child("held::halfway", &[("STANDIN_FAIL", "cuStreamWaitValue64:3:1")]);
}

#[test]
#[ignore = "run by a_copy_that_the_driver_refuses_halfway_is_submitted_at_once"]
fn halfway() {
    let Some(gpu) = gpu("halfway") else { return };
    let (stream, there, plain) = (shared(&gpu, 0), device(&gpu, MIB), noise(5, MIB));
    let (open, also, at) = (block(&stream), stream.clone(), plain.as_ptr() as usize);
    at_once("a copy", move || linear(&also, there.base, at, MIB));
    let behind = stream.fence().expect("a fence");
    assert_eq!(behind.wait(MOMENT).map_err(|why| why.kind), Err(Kind::Timeout));
    drop(open);
    behind.wait(MINUTE).expect("done");
    if stream.synchronize(MINUTE).is_ok() {
        return eprintln!("halfway: skipped: this driver does not fail when it is told to");
    }
    linear(&stream, there.base, at, MIB);
    stream.synchronize(MINUTE).expect("it goes on");
    assert!(fetch(&gpu, there.base, MIB) == plain);
}

/// The last wait of a copy of 32 portions to pageable memory is refused: who synchronises finds the host
/// through all the same.
#[test]
fn a_copy_whose_end_is_not_held_is_whole_when_it_has_passed() {
    let fail = (1..=4).map(|round| format!("cuStreamWaitValue64:{}:1", 31 * round)).collect::<Vec<_>>();
    lost::in_child("held::its_end", &[("STANDIN_FAIL", &fail.join(","))]);
}

#[test]
#[ignore = "run by a_copy_whose_end_is_not_held_is_whole_when_it_has_passed"]
fn its_end() {
    let Some(gpu) = gpu("its_end") else { return };
    let (stream, len) = (shared(&gpu, 0), 16 * MIB);
    let (there, source) = (device(&gpu, len), locked(&gpu, &vec![7; len]));
    linear(&stream, there.base, source.base, len);
    for round in 0..4 {
        let mut plain = vec![0_u8; len + 4096];
        // From a page on: else there is a portion more.
        let at = plain.as_ptr().align_offset(4096);
        linear(&stream, plain[at..].as_mut_ptr() as usize, there.base, len);
        let fence = stream.fence().expect("a fence");
        // Nobody sees it sooner.
        while !fence.is_done() {
            hint::spin_loop();
        }
        // SAFETY: the last byte of the copy, which comes last.
        let last = unsafe { ptr::read_volatile(&raw const plain[at + len - 1]) };
        let done = stream.synchronize(MINUTE);
        assert!(last == 7 && plain[at..at + len].iter().all(|byte| *byte == 7), "round {round}");
        if done.is_ok() {
            return eprintln!("its_end: skipped: this driver does not fail when it is told to");
        }
    }
}

/// Memory too large to rest does not go back to the driver while a stream is held, but as soon as none is.
#[test]
fn what_was_freed_while_a_stream_was_held_goes_back_by_itself() {
    let test = "what_was_freed_while_a_stream_was_held_goes_back_by_itself";
    let (Some(gpu), Some(other)) = (gpu(test), gpu(test)) else { return };
    let (held, large) = (shared(&gpu, 0), device(&gpu, 300 * MIB));
    let open = block(&held);
    // The other runtime knows only what the driver says.
    let is_there = move || other.memory().place(large.base, 1, Access::Read).is_ok();
    gpu.free(large.base, |_| Ok(())).expect("freed");
    assert!(is_there(), "it rests on");
    drop(open);
    held.synchronize(MINUTE).expect("done");
    at_once("giving back", move || while is_there() {});
}

#[test]
fn a_fence_before_a_hold_says_what_it_stands_for() {
    let Some(gpu) = gpu("a_fence_before_a_hold_says_what_it_stands_for") else { return };
    let (stream, there) = (shared(&gpu, 0), device(&gpu, 64));
    let first = block(&stream);
    submit(&stream, || Op::Fill(Fill { dst: there.at, len: 64, pattern: [1; 4], device: Some(0) }));
    let filled = stream.newest();
    let second = block(&stream);
    let fence = stream.fence_after(filled);
    assert_eq!(fence.point().map(|point| point.ticket), Some(filled));
    drop(first);
    fence.wait(MINUTE).expect("it does not wait for the second function");
    drop(second);
    stream.synchronize(MINUTE).expect("done");
}

/// The driver waits for a held stream to take memory back, so that is put off.
#[test]
fn blocks_come_and_go_while_a_stream_is_held() {
    let Some(gpu) = gpu_of("blocks_come_and_go_while_a_stream_is_held", 4096 * MIB) else { return };
    let gpu = Arc::new(gpu);
    let held = shared(&gpu, 0);
    let first = gpu.alloc(&USUAL).expect("memory");
    let before = gpu.memory_info(0).expect("asked");
    let (open, also) = (block(&held), gpu.clone());
    let come_and_go = move || {
        for _ in 0..3 {
            let blocks = alloc_all(&also, &USUAL, 100);
            blocks.iter().for_each(|block| free(&also, block));
        }
    };
    at_once("blocks come and go", come_and_go);
    assert_eq!(gpu.memory_info(0).expect("asked"), before);
    drop(open);
    held.synchronize(MINUTE).expect("done");
    free(&gpu, &first);
}

/// To unlock pages the driver waits for a held stream, too: a block that is too large to rest keeps them
/// until that is let go.
#[test]
fn large_page_locked_blocks_are_freed_while_a_stream_is_held() {
    let Some(gpu) = gpu("large_page_locked_blocks_are_freed_while_a_stream_is_held") else { return };
    let gpu = Arc::new(gpu);
    let held = shared(&gpu, 0);
    let large = alloc(&gpu, Home::Host, 257 * MIB);
    let (open, also) = (block(&held), gpu.clone());
    at_once("a free, and another block", move || {
        free(&also, &large);
        free(&also, &alloc(&also, Home::Host, 20 * MIB));
    });
    // SAFETY: it is mapped as long as the driver may use it.
    unsafe { ptr::read_volatile(large.base as *const u8) };
    assert!(gpu.memory().place(large.base, 1, Access::Read).is_err(), "the runtime's, and nobody's");
    drop(open);
    held.synchronize(MINUTE).expect("done");
}
