//! Several GPUs, several devices of one GPU, limits of their memory, and memory that is mapped.

use super::*;
use ferry_core::Purpose;

fn opened(test: &str, options: &CudaOptions) -> Option<Runtime> {
    gpu(test).map(|_| Runtime::new(Cuda::open(options).expect("there is a GPU"), Vec::new()))
}

#[test]
fn devices_of_one_gpu_have_memory_and_streams_of_their_own() {
    let options = CudaOptions { devices: Some(3), ..CudaOptions::default() };
    let Some(gpu) = opened("devices_of_one_gpu_have_memory_and_streams_of_their_own", &options) else {
        return;
    };
    assert_eq!(gpu.backend().device_count(), 3);
    let before = [0, 1].map(|id| gpu.memory_info(id).expect("asked"));
    let there = alloc(&gpu, Home::Device(1), MIB);
    assert_eq!(gpu.memory_info(0).expect("asked"), before[0], "another device");
    assert_eq!(gpu.memory_info(1).expect("asked"), (before[1].0 - MIB, before[1].1));
    let (source, here) = (locked(&gpu, &noise(4, MIB)), alloc(&gpu, Home::Device(2), MIB));
    let stream = gpu.stream(1, QueueOptions::default()).expect("a stream");
    linear(&stream, there.base, source.base, MIB);
    linear(&stream, here.base, there.base, MIB);
    stream.synchronize(MINUTE).expect("done");
    assert!(fetch(&gpu, here.base, MIB) == read(&source));
    gpu.free(there.base, |_| Ok(())).expect("freed");
    assert_eq!(gpu.memory_info(1).expect("asked"), before[1]);
}

/// The first copy that a copy engine is given fails: these batches go to kernels.
#[test]
fn a_batch_of_any_gpu_goes_to_a_kernel() {
    let settings = [("STANDIN_DEVICES", "2"), ("STANDIN_FAIL", "cuMemcpyAsync:1:1")];
    lost::in_child("devices::each_of_two", &settings);
}

#[test]
#[ignore = "run by a_batch_of_any_gpu_goes_to_a_kernel"]
fn each_of_two() {
    let Some(gpu) = two_gpus("each_of_two") else { return };
    for id in [1, 0] {
        let (source, back) =
            (locked(&gpu, &noise(id as usize, PIECES * 512)), locked(&gpu, &[0; PIECES * 512]));
        let there = alloc(&gpu, Home::Device(id), PIECES * 512);
        let stream = gpu.stream(id, QueueOptions::default()).expect("a stream");
        copy(&stream, &every_other(|_| there.base, |_| source.base));
        copy(&stream, &every_other(|_| back.base, |_| there.base));
        stream.synchronize(MINUTE).expect("done");
        assert!(every_other_byte(&read(&back)) == every_other_byte(&read(&source)), "GPU {id}");
    }
}

#[test]
fn a_batch_between_several_gpus_arrives() {
    lost::in_child("devices::both_of_two", &[("STANDIN_DEVICES", "2")]);
}

#[test]
#[ignore = "run by a_batch_between_several_gpus_arrives"]
fn both_of_two() {
    let Some(gpu) = two_gpus("both_of_two") else { return };
    let (source, back) = (locked(&gpu, &noise(3, PIECES * 512)), locked(&gpu, &[0; PIECES * 512]));
    let there = [0, 1].map(|id| alloc(&gpu, Home::Device(id), PIECES * 512).base);
    let on = |piece: usize| there[piece / 3 % 2];
    let stream = stream(&gpu);
    copy(&stream, &every_other(on, |_| source.base));
    copy(&stream, &every_other(|piece| there[1 - piece / 3 % 2], on));
    copy(&stream, &every_other(|_| back.base, |piece| there[1 - piece / 3 % 2]));
    stream.synchronize(MINUTE).expect("done");
    assert!(every_other_byte(&read(&back)) == every_other_byte(&read(&source)));
}

const PIECES: usize = 300;

/// Pieces of 256 bytes with gaps between them, between memory that depends on the number of the piece.
fn every_other(to: impl Fn(usize) -> usize, from: impl Fn(usize) -> usize) -> Vec<Rows> {
    (0..PIECES).map(|piece| Rows::linear(to(piece) + 512 * piece, from(piece) + 512 * piece, 256)).collect()
}

/// What such pieces move.
fn every_other_byte(bytes: &[u8]) -> Vec<u8> {
    bytes.chunks(512).flat_map(|chunk| chunk[..256].to_vec()).collect()
}

fn two_gpus(test: &str) -> Option<Runtime> {
    let gpu = gpu(test)?;
    let is_enough = gpu.backend().device_count() > 1;
    if !is_enough {
        eprintln!("{test}: skipped: one GPU");
    }
    is_enough.then_some(gpu)
}

#[test]
fn a_limit_of_device_memory_is_exact() {
    let options = CudaOptions { devices: Some(2), device_memory: Some(10 * MIB), ..CudaOptions::default() };
    let Some(gpu) = opened("a_limit_of_device_memory_is_exact", &options) else { return };
    assert_eq!(gpu.memory_info(1), Ok((10 * MIB, 10 * MIB)));
    let blocks = [1, 4096, 4097].map(|len| alloc(&gpu, Home::Device(1), len));
    assert_eq!(gpu.memory_info(1), Ok((10 * MIB - 4 * 4096, 10 * MIB)));
    let rest = Request { home: Home::Device(1), len: 10 * MIB - 3 * 4096, page: 4096 };
    let why = gpu.alloc(&rest).expect_err("a page too much");
    assert_eq!(why.kind, Kind::OutOfMemory);
    gpu.free(blocks[0].base, |_| Ok(())).expect("freed");
    gpu.alloc(&rest).expect("just fits");
    assert_eq!(gpu.memory_info(0), Ok((10 * MIB, 10 * MIB)), "another device");
}

#[test]
fn mapped_memory_is_copied_and_named_by_descriptors() {
    let Some(gpu) = gpu("mapped_memory_is_copied_and_named_by_descriptors") else { return };
    let (stream, len) = (stream(&gpu), 64 << 10);
    let base = gpu.reserve(4 * len, MIB, 0, Purpose::Mappings).expect("addresses");
    let pieces = [0, 1, 2, 3].map(|index| {
        let piece = gpu.physical(0, len, 4096).expect("memory");
        gpu.map(base + (index ^ 1) * len, &piece).expect("mapped");
        piece
    });
    let source = locked(&gpu, &noise(6, 4 * len));
    linear(&stream, base, source.base, 4 * len);
    let words = locked(&gpu, &descriptor(&gpu, base + 2 * len + 5, base + 7, 2 * len - 100));
    let slot = device(&gpu, DESCRIPTOR_LEN);
    linear(&stream, slot.base, words.base, DESCRIPTOR_LEN);
    submit(&stream, || through(Through::Descriptor { at: slot.at, user: slot.base }));
    stream.synchronize(MINUTE).expect("done");
    let mut want = read(&source);
    want.copy_within(7..7 + 2 * len - 100, 2 * len + 5);
    assert!(fetch(&gpu, base, 4 * len) == want);
    gpu.unmap(base).expect("unmapped");
    submit(&stream, || through(Through::Descriptor { at: slot.at, user: slot.base }));
    let why = stream.synchronize(MINUTE).expect_err("nothing is mapped there");
    assert_eq!(why.kind, Kind::BadDescriptor, "{why}");
    drop(pieces);
}

/// The driver locks no page twice, and refuses copies over the joint of what it has locked in parts.
#[test]
fn memory_registered_again_in_other_parts_is_copied_whole() {
    let Some(gpu) = gpu("memory_registered_again_in_other_parts_is_copied_whole") else { return };
    let (stream, len) = (stream(&gpu), 8 * 4096);
    let mut plain = noise(7, len + 4096);
    let base = (plain.as_mut_ptr() as usize).next_multiple_of(4096);
    let want = plain[base - plain.as_ptr() as usize..][..len].to_vec();
    let (there, small) = (device(&gpu, len), device(&gpu, 4096));
    let part = gpu.register(base + 4096, 2 * 4096).expect("registered");
    let open = block(&stream);
    linear(&stream, small.base, part.base, 4096);
    gpu.free(part.base, |_| Ok(())).expect("unregistered");
    let whole = gpu.register(base, len).expect("again, and more of it");
    linear(&stream, there.base, whole.base, len);
    copy(
        &stream,
        &[Rows {
            dst: there.base,
            dst_pitch: 5000,
            src: whole.base,
            src_pitch: 5000,
            width: 4999,
            height: 6,
        }],
    );
    linear(&stream, there.base + 4000, whole.base + 4000, 200);
    drop(open);
    stream.synchronize(MINUTE).expect("done");
    assert!(fetch(&gpu, there.base, len) == want && fetch(&gpu, small.base, 4096) == want[4096..8192]);
    gpu.free(whole.base, |_| Ok(())).expect("unregistered");
    drop(plain);
}
