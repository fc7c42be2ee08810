//! Streams of another library. A second runtime of the process stands for that: the driver is all that the two share.

use super::*;

/// A stream of another library, and what the driver calls it.
fn theirs(other: &Runtime) -> (Arc<Stream>, usize) {
    let stream = other.stream(0, QueueOptions::default()).expect("a stream");
    let native = stream.share().expect("shared");
    (stream, native)
}

fn adopt(gpu: &Runtime, native: usize) -> Arc<Stream> {
    // SAFETY: every test keeps the other stream until it is done with this one.
    unsafe { gpu.adopt(None, 0, native) }.expect("adopted")
}

/// The driver gives the handle of a stream that is gone to the next one, or crashes. The stand-in ends the process.
#[test]
fn a_stream_that_its_owner_has_destroyed_is_never_asked() {
    let test = "a_stream_that_its_owner_has_destroyed_is_never_asked";
    let (Some(gpu), Some(other)) = (gpu(test), gpu(test)) else { return };
    let (their_stream, native) = theirs(&other);
    let ours = adopt(&gpu, native);
    let (slot, from, to) = (device(&gpu, DESCRIPTOR_LEN), device(&gpu, 4096), device(&gpu, 4096));
    let words = locked(&gpu, &descriptor(&gpu, to.base, from.base, 4096));
    submit(&ours, || Op::Fill(Fill { dst: from.at, len: 4096, pattern: [7; 4], device: Some(0) }));
    linear(&ours, slot.base, words.base, DESCRIPTOR_LEN);
    submit(&ours, || through(&gpu, Through::Descriptor { at: slot.at, user: slot.base }));
    ours.call(|| ()).expect("submitted");
    let (fence, mark, after) = (ours.fence().expect("a fence"), ours.mark().expect("marked"), ours.newest());
    ours.synchronize(MINUTE).expect("done");
    let behind = ours.fence_after(after - 1);
    drop(ours);
    drop((their_stream, other));
    // What is left of ours goes when the next stream comes.
    let next = stream(&gpu);
    linear(&next, to.base, from.base, 4096);
    next.wait_for(mark.clone()).expect("submitted");
    assert!(fence.is_done() && mark.is_done() && behind.is_done() && mark.reached_us().is_some());
    gpu.free(slot.base, |_| Ok(())).expect("freed");
    next.synchronize(MINUTE).expect("done");
    assert!(fetch(&gpu, to.base, 4096) == [7; 4096]);
}

/// Beside a stream that is held no kernel runs: it might come behind that stream on its way into the GPU.
#[test]
fn a_copy_that_meets_itself_needs_no_kernel_beside_a_shared_stream() {
    lost::in_child("adopted::meets_itself", &[("STANDIN_FAIL", "cuLaunchKernel:1:1")]);
}

#[test]
#[ignore = "run by a_copy_that_meets_itself_needs_no_kernel_beside_a_shared_stream"]
fn meets_itself() {
    let Some(gpu) = gpu("meets_itself") else { return };
    let (stream, cells) = (theirs(&gpu).0, alloc(&gpu, Home::Host, 16));
    for (len, from, to) in
        [(100_000, 0, 1), (100_000, 1, 0), (3 * MIB, 0, 64), (3 * MIB, 70_001, 0), (5, 0, 3), (9, 4, 4)]
    {
        let mut want = noise(len, len + from + to);
        let (start, there) = (locked(&gpu, &want), device(&gpu, want.len()));
        linear(&stream, there.base, start.base, want.len());
        // SAFETY: 16 bytes of page-locked memory that nothing in flight uses.
        unsafe { ptr::write(cells.base as *mut [usize; 2], [there.base; 2]) };
        let cell =
            |index: usize, offset| Cell { at: cells.at + 8 * index, user: cells.base + 8 * index, offset };
        submit(&stream, || through(&gpu, Through::Cells { dst: cell(0, to), src: cell(1, from), len }));
        stream.synchronize(MINUTE).expect("done");
        want.copy_within(from..from + len, to);
        assert!(fetch(&gpu, there.base, want.len()) == want, "{len} bytes from {from} to {to}");
    }
}
