//! Batches and rectangles of every shape, by kernels and by copy engines, against a mirror of all bytes
//! around them.

use super::{MIB, MINUTE, alloc, copy, fetch, linear, locked, noise, read, stream};
use ferry_backends::cuda::{Cuda, CudaOptions, settings::Settings};
use ferry_core::{Block, Home, Rows, Runtime, Stream};
use std::{ptr, sync::mpsc};

/// Kernels wherever they can, whatever is faster; and never; and batches in one call of the driver.
const PLANS: [&str; 4] = [
    "",
    "list_from=1,list_from_within=1,engine_from=any,share_most=1K,share_least=256,\
     rows_in_most=any,rows_out_most=any,\
     rows_bytes=0,rows_within_bytes=0,rows_unit=1",
    "blocks_in=0,blocks_out=0,blocks_within=0,together_from=any",
    "together_size=1,together_from=1",
];

/// From which kind of memory to which.
const WAYS: [(Home, Home); 3] =
    [(Home::Device(0), Home::Host), (Home::Host, Home::Device(0)), (Home::Device(0), Home::Device(0))];

fn gpu(test: &str, plan: &str) -> Option<Runtime> {
    let settings = Settings { constants: plan.parse().expect("a plan"), ..Settings::default() };
    super::take_turn();
    match Cuda::open(&CudaOptions { settings, ..CudaOptions::default() }) {
        Ok(backend) => Some(Runtime::new(backend, Vec::new())),
        Err(why) => {
            eprintln!("{test}: skipped: {why}");
            None
        }
    }
}

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

/// Memory of a home that holds these bytes.
fn memory(runtime: &Runtime, home: Home, bytes: &[u8]) -> Block {
    let block = alloc(runtime, home, bytes.len());
    let here = locked(runtime, bytes);
    let stream = stream(runtime);
    match home {
        // SAFETY: page-locked memory of that length.
        Home::Host => unsafe {
            ptr::copy_nonoverlapping(here.base as *const u8, block.base as *mut u8, bytes.len())
        },
        Home::Device(_) => linear(&stream, block.base, here.base, bytes.len()),
    }
    stream.synchronize(MINUTE).expect("filled");
    runtime.free(here.base, |_| Ok(())).expect("freed");
    block
}

fn bytes_of(runtime: &Runtime, block: &Block) -> Vec<u8> {
    match block.home {
        Home::Host => read(block),
        Home::Device(_) => fetch(runtime, block.base, block.len),
    }
}

/// Copies rectangles that are given as offsets, and looks at every byte of the destination's block.
fn check(runtime: &Runtime, way: (Home, Home), len: usize, pieces: &[Rows], case: &str) {
    check_in(runtime, &stream(runtime), way, len, pieces, case);
}

fn check_in(runtime: &Runtime, stream: &Stream, way: (Home, Home), len: usize, pieces: &[Rows], case: &str) {
    check_after(runtime, stream, way, len, pieces, || (), case);
}

/// The same; `then` comes when all was submitted.
fn check_after(
    runtime: &Runtime,
    stream: &Stream,
    (dst, src): (Home, Home),
    len: usize,
    pieces: &[Rows],
    then: impl FnOnce(),
    case: &str,
) {
    let (mut want, from) = (vec![0xee; len], noise(len, len));
    let (to, at) = (memory(runtime, dst, &want), memory(runtime, src, &from));
    for rows in pieces {
        for row in 0..rows.height {
            let (dst, src) = (rows.dst + row * rows.dst_pitch, rows.src + row * rows.src_pitch);
            want[dst..dst + rows.width].copy_from_slice(&from[src..src + rows.width]);
        }
    }
    let placed = |rows: &Rows| Rows { dst: to.base + rows.dst, src: at.base + rows.src, ..*rows };
    copy(stream, &pieces.iter().map(placed).collect::<Vec<_>>());
    then();
    stream.synchronize(MINUTE).expect("done");
    let got = bytes_of(runtime, &to);
    let wrong = got.iter().zip(&want).position(|(got, want)| got != want);
    assert_eq!(wrong, None, "{case}: the first wrong byte");
    for block in [to, at] {
        runtime.free(block.base, |_| Ok(())).expect("freed");
    }
}

/// Pieces of lengths around `most`, at odd and even places, with gaps between them.
fn pieces(dice: &mut Dice, count: usize, most: usize, len: usize) -> Vec<Rows> {
    let mut dst = 0;
    let mut next = || {
        let piece = if dice.below(8) == 0 { 1 + dice.below(40) } else { 1 + dice.below(most) };
        dst += dice.below(20);
        let src = dice.below(len - piece - 32);
        let src = if dice.below(2) == 0 { src / 16 * 16 + dst % 16 } else { src };
        dst += piece;
        (dst <= len).then(|| Rows::linear(dst - piece, src, piece))
    };
    (0..count).map_while(|_| next()).collect()
}

#[test]
fn batches_of_any_shape_arrive_and_touch_nothing_else() {
    let test = "batches_of_any_shape_arrive_and_touch_nothing_else";
    for plan in PLANS {
        let Some(gpu) = gpu(test, plan) else { return };
        let mut dice = Dice(1);
        for (count, most) in [(2, 100), (5, 70_000), (160, 300), (161, 3000), (5000, 200), (40, 20_000)] {
            for way in WAYS {
                let batch = pieces(&mut dice, count, most, MIB);
                check(&gpu, way, MIB, &batch, &format!("{count} pieces up to {most} {way:?} plan '{plan}'"));
            }
        }
    }
}

/// The first and the second copy one by one are those that fill and fetch what is copied to; a third would
/// lose the GPU.
#[test]
fn large_pieces_are_copied_in_one_call() {
    super::lost::in_child("lists::taken", &[("STANDIN_FAIL", "cuMemcpyAsync:3:700")]);
}

#[test]
#[ignore = "run by large_pieces_are_copied_in_one_call"]
fn taken() {
    let Some(gpu) = gpu("taken", "") else { return };
    check(&gpu, WAYS[0], 8 * MIB, &[large(0), large(3 * MIB)], "two");
}

fn large(first: usize) -> Rows {
    Rows::linear(first, 5 * MIB - first, 2 * MIB)
}

/// Other streams may stand still behind one that is shared, so all of it stays there. A call for all would
/// lose the GPU.
#[test]
fn large_pieces_in_a_shared_stream_keep_to_it() {
    super::lost::in_child("lists::kept", &[("STANDIN_FAIL", "cuMemcpyBatchAsync:1:700")]);
}

#[test]
#[ignore = "run by large_pieces_in_a_shared_stream_keep_to_it"]
fn kept() {
    let Some(gpu) = gpu("kept", "") else { return };
    check_in(&gpu, &super::held::shared(&gpu, 0), WAYS[0], 8 * MIB, &[large(0), large(3 * MIB)], "shared");
}

/// What loses the GPU is no reason to try it in another way.
#[test]
fn a_gpu_that_is_lost_over_large_pieces_is_lost() {
    let fails = "cuMemcpyBatchAsync:1:700,cuMemcpyAsync:1:700";
    super::lost::in_child("lists::lost_over_them", &[("STANDIN_FAIL", fails)]);
}

#[test]
#[ignore = "run by a_gpu_that_is_lost_over_large_pieces_is_lost"]
fn lost_over_them() {
    let Some(gpu) = gpu("lost_over_them", "") else { return };
    let (to, at) = (alloc(&gpu, Home::Device(0), 8 * MIB), alloc(&gpu, Home::Host, 8 * MIB));
    let stream = stream(&gpu);
    copy(
        &stream,
        &[large(0), large(3 * MIB)].map(|rows| Rows {
            dst: to.base + rows.dst,
            src: at.base + rows.src,
            ..rows
        }),
    );
    let Err(why) = stream.synchronize(MINUTE) else {
        return eprintln!("lost_over_them: skipped: this driver does not fail when it is told to");
    };
    assert!(why.note.contains("cuMemcpyBatchAsync: CUDA_ERROR_ILLEGAL_ADDRESS (700)"), "{why}");
    gpu.memory_info(0).expect_err("the GPU is lost");
}

/// A list that waits is read by another thread than the one that wrote it.
#[test]
fn a_batch_that_waits_for_the_host_arrives() {
    let Some(gpu) = gpu("a_batch_that_waits_for_the_host_arrives", "") else { return };
    let mut dice = Dice(5);
    for round in 0..20 {
        let (stream, (go, gone)) = (stream(&gpu), mpsc::channel());
        stream.call(move || gone.recv().expect("told")).expect("submitted");
        let batch = pieces(&mut dice, 1000, 1000, MIB);
        let told = move || go.send(()).expect("it waits");
        check_after(&gpu, &stream, WAYS[round % 2], MIB, &batch, told, &format!("round {round}"));
    }
}

/// Not every driver takes a batch, nor every batch; and it may notice late.
#[test]
fn pieces_that_are_not_taken_together_go_one_by_one() {
    let late = "piece of cuMemcpyBatchAsync:2:1";
    let fails = format!("cuMemcpyBatchAsync:1:1,cuMemcpyBatchAsync:2:801,{late}");
    super::lost::in_child("lists::not_taken", &[("STANDIN_FAIL", &fails)]);
}

#[test]
#[ignore = "run by pieces_that_are_not_taken_together_go_one_by_one"]
fn not_taken() {
    for (round, plan) in ["", PLANS[2], "", ""].into_iter().enumerate() {
        let Some(gpu) = gpu("not_taken", &plan.replace("any", "2")) else { return };
        check(&gpu, WAYS[round % 2], 8 * MIB, &[large(0), large(3 * MIB)], &format!("round {round}"));
    }
}

#[test]
fn rectangles_of_any_shape_arrive_and_touch_nothing_else() {
    let test = "rectangles_of_any_shape_arrive_and_touch_nothing_else";
    for plan in PLANS {
        let Some(gpu) = gpu(test, plan) else { return };
        let mut dice = Dice(2);
        for width in [1, 2, 3, 4, 8, 12, 16, 20, 31, 48, 64, 100, 128, 255, 1000, 4096, 40_000] {
            for way in WAYS {
                let unit = 1 << dice.below(5);
                let aligned = |bytes: usize| bytes / unit * unit;
                let width = aligned(width).max(unit);
                let (dst_pitch, src_pitch) =
                    (width + aligned(dice.below(99)), width + aligned(dice.below(99)));
                let (dst, src) = (aligned(dice.below(64)), aligned(dice.below(64)) + dice.below(8) / 7);
                let height = (MIB / 4 / dst_pitch.max(src_pitch)).clamp(2, 3000);
                let rows = Rows { dst, dst_pitch, src, src_pitch, width, height };
                check(&gpu, way, MIB / 2, &[rows], &format!("{rows:?} {way:?} plan '{plan}'"));
            }
        }
    }
}

/// By default only rectangles of some size go to kernels.
#[test]
fn narrow_rectangles_of_many_rows_arrive() {
    let Some(gpu) = gpu("narrow_rectangles_of_many_rows_arrive", "") else { return };
    for (width, way) in [(16, WAYS[1]), (64, WAYS[0]), (64, WAYS[2]), (4, WAYS[1]), (1024, WAYS[2])] {
        let height = 5 * MIB / width;
        let rows = Rows { dst: 0, dst_pitch: 2 * width, src: width, src_pitch: width * 3 / 2, width, height };
        check(&gpu, way, 11 * MIB, &[rows], &format!("{rows:?} {way:?}"));
    }
}

#[test]
fn pieces_of_a_batch_whose_own_ends_overlap_are_moved() {
    let Some(gpu) = gpu("pieces_of_a_batch_whose_own_ends_overlap_are_moved", "") else { return };
    let bytes = noise(9, 64 * 4096);
    let block = memory(&gpu, Home::Device(0), &bytes);
    let mut want = bytes.clone();
    let moves: Vec<_> = (0..64).map(|page| (4096 * page + 8 * (page % 5), 4096 * page + 16, 2048)).collect();
    for (dst, src, len) in &moves {
        want.copy_within(*src..src + len, *dst);
    }
    let stream = stream(&gpu);
    let placed =
        |&(dst, src, len): &(usize, usize, usize)| Rows::linear(block.base + dst, block.base + src, len);
    copy(&stream, &moves.iter().map(placed).collect::<Vec<_>>());
    stream.synchronize(MINUTE).expect("done");
    assert!(bytes_of(&gpu, &block) == want);
}

/// More lists than are kept: some of them go another way, and all in order.
#[test]
fn batches_queued_without_end_stay_in_order() {
    let Some(gpu) = gpu("batches_queued_without_end_stay_in_order", "") else { return };
    const COUNT: usize = 200;
    let rounds: Vec<_> = (0..150).map(|round| noise(round, 64 * COUNT)).collect();
    let sources: Vec<_> = rounds.iter().map(|bytes| locked(&gpu, bytes)).collect();
    let target = memory(&gpu, Home::Device(0), &vec![0; 64 * COUNT]);
    let (large, there) = (alloc(&gpu, Home::Host, 256 * MIB), alloc(&gpu, Home::Device(0), 256 * MIB));
    let stream = stream(&gpu);
    // No list is read before these are done.
    (0..8).for_each(|_| linear(&stream, there.base, large.base, large.len));
    for source in &sources {
        // From the end, since neighbours would become one piece.
        let piece = |at| Rows::linear(target.base + 64 * (COUNT - 1 - at), source.base + 64 * at, 64);
        copy(&stream, &(0..COUNT).map(piece).collect::<Vec<_>>());
    }
    stream.synchronize(MINUTE).expect("done");
    let want: Vec<u8> = rounds[149].chunks(64).rev().flatten().copied().collect();
    assert!(bytes_of(&gpu, &target) == want);
}

/// The blocks of a list's kernel say when they are done; what came behind the kernel is waited for all the
/// same.
#[test]
fn a_wait_is_over_when_the_last_is_done_and_not_the_last_kernel() {
    let Some(gpu) = gpu("a_wait_is_over_when_the_last_is_done_and_not_the_last_kernel", "") else { return };
    const LEN: usize = 64 * MIB;
    let bytes: Vec<u8> = noise(3, LEN).iter().map(|byte| byte | 1).collect();
    let (from, to) = (memory(&gpu, Home::Device(0), &bytes), locked(&gpu, &vec![0; LEN]));
    let few = locked(&gpu, &vec![0; 64 * 200]);
    let stream = stream(&gpu);
    let list: Vec<_> =
        (0..200).map(|at| Rows::linear(few.base + 64 * (199 - at), from.base + 64 * at, 64)).collect();
    for round in 0..3 {
        copy(&stream, &list);
        linear(&stream, to.base, from.base, LEN);
        stream.synchronize(None).expect("done");
        // What was copied last is looked at first.
        // SAFETY: the last byte of page-locked memory, which a copy that was not waited for may still write.
        let last = unsafe { ptr::read_volatile((to.base + LEN - 1) as *const u8) };
        assert!(last == bytes[LEN - 1] && read(&to) == bytes, "round {round}: behind a kernel");
        copy(&stream, &list);
        stream.synchronize(None).expect("done");
        let want: Vec<u8> = bytes[..64 * 200].chunks(64).rev().flatten().copied().collect();
        assert!(read(&few) == want, "round {round}: a kernel");
        for block in [&to, &few] {
            // SAFETY: page-locked memory of that length, which nobody uses now.
            unsafe { ptr::write_bytes(block.base as *mut u8, 0, block.len) };
        }
    }
}
