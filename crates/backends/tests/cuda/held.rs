//! What goes on while a shared stream is held: other devices, and the driver refusing things.

use super::{adopted::at_once, *};
use ferry_core::{
    Reduction,
    reduce::{Combine, Element},
};

/// A stream that is shared with other libraries.
fn shared(gpu: &Runtime, device: u32) -> Arc<Stream> {
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

/// The driver waits for the held stream if it loads kernels. Those of all devices are loaded before; a device that is opened while a
/// stream is held copies without.
#[test]
fn a_function_in_a_shared_stream_uses_another_device() {
    let test = "a_function_in_a_shared_stream_uses_another_device";
    for [is_first, is_shared] in [[true, false], [false, false], [false, true]] {
        if gpu(test).is_none() {
            return;
        }
        let options = CudaOptions { devices: Some(2), ..CudaOptions::default() };
        let gpu = Arc::new(Runtime::new(Cuda::open(&options).expect("there is a GPU"), None));
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
