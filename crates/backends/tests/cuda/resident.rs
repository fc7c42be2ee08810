//! Batches that the resident kernel does: what must be as if each had a launch of its own.

use super::{lost::in_child, *};
use ferry_backends::cuda::settings::{Constants, Settings};
use std::ffi::{CStr, c_char};

const PIECE: usize = 4096;
/// As many as go to a list in memory.
const COUNT: usize = 300;
const LEN: usize = COUNT * PIECE;

/// A runtime whose batches are left to the resident kernel.
fn resident(test: &str, plan: &str) -> Option<Runtime> {
    take_turn();
    let constants: Constants = format!("resident_from=0,{plan}").parse().expect("a plan");
    let settings = Settings { constants, ..Settings::default() };
    match Cuda::open(&CudaOptions { settings, ..CudaOptions::default() }) {
        Ok(backend) => Some(Runtime::new(backend, Vec::new())),
        Err(why) => {
            eprintln!("{test}: skipped: {why}");
            None
        }
    }
}

/// How often a kernel was launched in this process, if the driver is one that says so.
fn launches(kernel: &CStr) -> Option<u64> {
    // SAFETY: the driver is loaded, and the name ends with a zero.
    let ask = unsafe {
        libc::dlsym(libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW), c"cuStandinLaunches".as_ptr())
    };
    if ask.is_null() {
        return None;
    }
    // SAFETY: the stand-in's function of this name has this type.
    let ask =
        unsafe { std::mem::transmute::<*mut libc::c_void, unsafe extern "C" fn(*const c_char) -> u64>(ask) };
    // SAFETY: the name ends with a zero.
    Some(unsafe { ask(kernel.as_ptr()) })
}

/// Pieces of two ranges, those of the target in another order for each turn.
fn pieces(dst: usize, src: usize, turn: usize) -> Vec<Rows> {
    let place = |at: usize| (at * 7 + turn) % COUNT * PIECE;
    (0..COUNT).map(|at| Rows::linear(dst + place(at), src + at * PIECE, PIECE)).collect()
}

/// What the target holds after that.
fn arranged(bytes: &[u8], turn: usize) -> Vec<u8> {
    let mut target = vec![0; LEN];
    for piece in pieces(0, 0, turn) {
        target[piece.dst..][..PIECE].copy_from_slice(&bytes[piece.src..][..PIECE]);
    }
    target
}

#[test]
fn batches_in_a_row_need_one_launch() {
    in_child("resident::many_batches", &[]);
}

/// Counts launches, of this process.
#[test]
#[ignore = "run by batches_in_a_row_need_one_launch"]
fn many_batches() {
    let plan = "resident_idle=1000000,resident_life=any";
    let Some(gpu) = resident("many_batches", plan).filter(|_| !are_shared()) else { return };
    let (stream, there, source) = (stream(&gpu), device(&gpu, LEN), locked(&gpu, &noise(1, LEN)));
    let target = locked(&gpu, &vec![0; LEN]);
    for (dst, src) in [(&there, &source), (&target, &there)] {
        for turn in 0..100 {
            copy(&stream, &pieces(dst.base, src.base, turn));
            if turn % 30 == 29 {
                stream.synchronize(MINUTE).expect("done");
            }
        }
        stream.synchronize(MINUTE).expect("done");
    }
    assert!(read(&target) == arranged(&arranged(&read(&source), 99), 99));
    if let [Some(kept), Some(own)] = [c"ferry_resident", c"ferry_pieces"].map(launches) {
        assert_eq!((kept, own), (2, 0), "one for each direction");
    }
}

/// The kernel ends after each batch, or in the middle of a row of them: none is lost, and none done twice.
#[test]
fn batches_find_a_kernel_that_is_about_to_end() {
    for plan in
        ["resident_idle=0", "resident_idle=30", "resident_life=0", "resident_idle=10,resident_life=100"]
    {
        let Some(gpu) = resident("batches_find_a_kernel_that_is_about_to_end", plan) else { return };
        let (stream, there, source) = (stream(&gpu), device(&gpu, LEN), locked(&gpu, &noise(2, LEN)));
        let target = locked(&gpu, &vec![0; LEN]);
        for turn in 0..300 {
            copy(&stream, &pieces(there.base, source.base, turn));
            if turn % 3 == 0 {
                stream.synchronize(MINUTE).expect("done");
            }
            if turn % 50 == 49 {
                copy(&stream, &pieces(target.base, there.base, 0));
                stream.synchronize(MINUTE).expect("done");
                assert!(read(&target) == arranged(&arranged(&read(&source), turn), 0), "{plan}, turn {turn}");
            }
        }
    }
}

/// Batches of both directions, single copies, fills and marks in one stream.
#[test]
fn other_work_keeps_its_place_between_batches() {
    let Some(gpu) = resident("other_work_keeps_its_place_between_batches", "") else { return };
    let (stream, there, source) = (stream(&gpu), device(&gpu, LEN), locked(&gpu, &noise(3, LEN)));
    let (one, two) = (locked(&gpu, &vec![0; LEN]), locked(&gpu, &vec![0; LEN]));
    for turn in 0..60 {
        copy(&stream, &pieces(there.base, source.base, turn));
        submit(&stream, || {
            Op::Fill(Fill { dst: there.base + PIECE, len: 100, pattern: [turn as u8; 4], device: Some(0) })
        });
        let mark = stream.mark().expect("a mark");
        copy(&stream, &pieces(one.base, there.base, 0));
        linear(&stream, there.base, source.base, 2 * PIECE);
        copy(&stream, &pieces(two.base, there.base, 0));
        assert!(turn % 2 == 0 || mark.wait(MINUTE).is_ok());
        stream.synchronize(MINUTE).expect("done");
        let mut want = arranged(&read(&source), turn);
        want[PIECE..][..100].fill(turn as u8);
        assert!(read(&one) == arranged(&want, 0), "turn {turn}");
        want[..2 * PIECE].copy_from_slice(&read(&source)[..2 * PIECE]);
        assert!(read(&two) == arranged(&want, 0), "turn {turn}");
    }
}

/// A stream waits for a batch of another one, by a fence that is taken at once or when more has come.
#[test]
fn streams_wait_for_batches_of_others() {
    let Some(gpu) = resident("streams_wait_for_batches_of_others", "") else { return };
    let (first, second) = (stream(&gpu), stream(&gpu));
    let (there, source, target) =
        (device(&gpu, LEN), locked(&gpu, &noise(4, LEN)), locked(&gpu, &vec![0; LEN]));
    for turn in 0..100 {
        copy(&first, &pieces(there.base, source.base, turn));
        let fence = match turn % 3 {
            0 => first.mark().expect("a mark"),
            _ => first.fence().expect("a fence"),
        };
        if turn % 3 == 2 {
            // Behind the fence: the same bytes once more.
            copy(&first, &pieces(there.base, source.base, turn));
        }
        second.wait_for(fence.clone()).expect("submitted");
        copy(&second, &pieces(target.base, there.base, 0));
        second.synchronize(MINUTE).expect("done");
        assert!(
            fence.is_done() && read(&target) == arranged(&arranged(&read(&source), turn), 0),
            "turn {turn}"
        );
        first.synchronize(MINUTE).expect("done");
    }
}

/// Threads with streams of their own share the kernel: more batches than the ring has places.
#[test]
fn threads_share_the_kernel() {
    let Some(gpu) = resident("threads_share_the_kernel", "resident_idle=20,resident_life=500") else {
        return;
    };
    thread::scope(|scope| {
        for seed in 0..4 {
            let gpu = &gpu;
            scope.spawn(move || {
                let (stream, there) = (stream(gpu), device(gpu, LEN));
                let (source, target) = (locked(gpu, &noise(seed, LEN)), locked(gpu, &vec![0; LEN]));
                for round in 0..10 {
                    (0..25).for_each(|turn| copy(&stream, &pieces(there.base, source.base, turn)));
                    (0..25).for_each(|turn| copy(&stream, &pieces(target.base, there.base, turn)));
                    stream.synchronize(MINUTE).expect("done");
                    assert!(read(&target) == arranged(&arranged(&read(&source), 24), 24), "{seed}, {round}");
                }
            });
        }
    });
}

/// A time between marks is that of the work between them, also if none of it was in the stream itself.
#[test]
fn marks_behind_batches_have_times() {
    let Some(gpu) = resident("marks_behind_batches_have_times", "") else { return };
    let (stream, there, source) = (stream(&gpu), device(&gpu, LEN), locked(&gpu, &noise(5, LEN)));
    let begin = stream.mark().expect("a mark");
    copy(&stream, &pieces(there.base, source.base, 1));
    let middle = stream.mark().expect("a mark");
    copy(&stream, &pieces(there.base, source.base, 2));
    let end = stream.mark().expect("a mark");
    stream.synchronize(MINUTE).expect("done");
    let times =
        [middle.elapsed_ms(&*begin), end.elapsed_ms(&*middle)].map(|ms| ms.expect("both were reached"));
    assert!(times.iter().all(|ms| (0.0..10_000.0).contains(ms)), "{times:?}");
}

/// A mark behind a batch comes before one behind the copy that follows, whatever others do.
#[test]
fn marks_of_a_stream_keep_their_order_between_batches_and_copies() {
    let test = "marks_of_a_stream_keep_their_order_between_batches_and_copies";
    let Some(gpu) = resident(test, "") else { return };
    let (one, other) = (stream(&gpu), stream(&gpu));
    let (there, source) = (device(&gpu, 2 * LEN), locked(&gpu, &noise(6, LEN)));
    let target = locked(&gpu, &vec![0; LEN]);
    for turn in 0..60 {
        (0..8).for_each(|turn| copy(&other, &pieces(target.base, there.base + LEN, turn)));
        other.mark().expect("a mark");
        copy(&one, &pieces(there.base, source.base, turn));
        let begin = one.mark().expect("a mark");
        linear(&one, there.base, source.base, PIECE);
        let end = one.mark().expect("a mark");
        one.synchronize(MINUTE).expect("done");
        let ms = end.elapsed_ms(&*begin);
        assert!(ms.as_ref().is_some_and(|ms| *ms >= 0.0), "turn {turn}: {ms:?}");
    }
    other.synchronize(MINUTE).expect("done");
}

/// A mark in a stream that has nothing to do is reached before the batch behind it is.
#[test]
fn a_mark_is_not_overtaken_by_the_batch_behind_it() {
    let Some(gpu) = resident("a_mark_is_not_overtaken_by_the_batch_behind_it", "") else { return };
    let (stream, there, source) = (stream(&gpu), device(&gpu, LEN), locked(&gpu, &noise(7, LEN)));
    copy(&stream, &pieces(there.base, source.base, 0));
    for turn in 0..300 {
        stream.synchronize(MINUTE).expect("done");
        let begin = stream.mark().expect("a mark");
        copy(&stream, &pieces(there.base, source.base, turn));
        let end = stream.mark().expect("a mark");
        copy(&stream, &pieces(there.base, source.base, turn));
        stream.synchronize(MINUTE).expect("done");
        let ms = end.elapsed_ms(&*begin);
        assert!(ms.as_ref().is_some_and(|ms| *ms > 0.0), "turn {turn}: {ms:?}");
    }
}
