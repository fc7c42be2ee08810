//! What is captured: every task of a stream, with its arguments as they were and the bytes as they are when
//! the model runs.

use super::*;
use ferry_tests::code::*;
use ferry_tests::kind::{BUFFERED, D2H, H2D, INNER};
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

const LEN: usize = 256;

/// Runs a model, and says what is in `memory` then.
#[track_caller]
fn after(model: usize, stream: usize, memory: &Memory) -> Vec<u8> {
    run(model, stream);
    memory.read()
}

// proves: G13
#[test]
fn copies_of_every_form_are_captured_with_their_addresses_and_run_with_the_bytes_of_the_time() {
    own_context();
    let (stream, from, to) = (stream(), Memory::pinned(LEN), Memory::device(LEN));
    let inner = Memory::device(LEN);
    type Form = fn(&Memory, &Memory, &Memory, usize);
    let forms: [(&str, Form); 7] = [
        ("linear", |to, from, _, stream| ok(aclrtMemcpyAsync(to.addr, LEN, from.addr, LEN, H2D, stream))),
        ("default kind", |to, from, _, stream| copy(to, from, stream)),
        ("2-D", |to, from, _, stream| {
            for half in [0, 16] {
                ok(aclrtMemcpy2dAsync(to.addr + half, 32, from.addr + half, 32, 16, LEN / 32, H2D, stream));
            }
        }),
        ("condition", |to, from, inner, stream| {
            copy(inner, from, stream);
            ok(aclrtMemcpyAsyncWithCondition(to.addr, LEN, inner.addr, LEN, kind::D2D, stream));
        }),
        ("batch", |to, from, _, stream| {
            let items: Vec<_> = (0..4).map(|i| (to.addr + i * 64, from.addr + i * 64, 64)).collect();
            let mut batch = Batch::of(&items, HOST_TO_DEVICE);
            ok(batch.call(BatchForm::Async, stream).0);
            // The arrays are the caller's again.
            batch.dsts.fill(0);
        }),
        ("batch V2", |to, from, _, stream| {
            ok(Batch::of(&[(to.addr, from.addr, LEN)], HOST_TO_DEVICE).call(BatchForm::AsyncV2, stream).0);
        }),
        ("two copies", |to, from, inner, stream| {
            copy(inner, from, stream);
            copy(to, inner, stream);
        }),
    ];
    for (what, form) in forms {
        to.fill(0);
        let model = capture(stream, || form(&to, &from, &inner, stream));
        to.assert_all(0, what);
        for seed in [1, 2] {
            from.write(&pattern(LEN, seed));
            assert!(after(model, stream, &to) == pattern(LEN, seed), "{what}");
        }
        ok(aclmdlRIDestroy(model));
    }
}

// proves: G13
#[test]
fn fills_and_statuses_are_captured() {
    own_context();
    let (stream, memory, pinned) = (stream(), Memory::device(64), Memory::pinned(64));
    type Form = fn(&Memory, usize);
    let forms: [(&str, Form, [u8; 4]); 4] = [
        ("memset", |memory, stream| ok(aclrtMemsetAsync(memory.addr, 64, 7, 64, stream)), [7; 4]),
        (
            "D32",
            |memory, stream| ok(aclrtMemsetD32Async(memory.addr, 64, 0x0403_0201, 16, stream)),
            [1, 2, 3, 4],
        ),
        ("overflow", |memory, stream| ok(aclrtGetOverflowStatus(memory.addr, 64, stream)), [0; 4]),
        (
            "several",
            |memory, stream| {
                ok(aclrtResetOverflowStatus(stream));
                ok(aclrtCmoAsync(memory.addr, 64, 0, stream));
                ok(aclrtMemsetAsync(memory.addr, 64, 1, 64, stream));
                ok(aclrtMemsetAsync(memory.addr, 64, 2, 64, stream));
            },
            [2; 4],
        ),
    ];
    for (what, form, want) in forms {
        for memory in [memory, pinned] {
            if memory.home == Home::Pinned && ["overflow", "several"].contains(&what) {
                continue; // device memory only
            }
            memory.fill(0x77);
            let model = capture(stream, || form(&memory, stream));
            memory.assert_all(0x77, what);
            for _ in 0..2 {
                memory.fill(0x55);
                assert_eq!(after(model, stream, &memory), want.repeat(16), "{what} in {:?}", memory.home);
            }
            ok(aclmdlRIDestroy(model));
        }
    }
}

// proves: G13
#[test]
fn what_lies_in_device_memory_is_read_at_each_execution() {
    own_context();
    let stream = stream();
    let (to, one, two) = (Memory::device(LEN), Memory::device(LEN), Memory::device(LEN));
    one.fill(1);
    two.fill(2);
    let mut size = 0;
    ok(aclrtGetMemcpyDescSize(INNER, &mut size));
    let (desc, cells) = (Memory::device(size), [Memory::device(8), Memory::device(8)]);
    ok(aclrtSetMemcpyDesc(desc.addr, INNER, one.addr, to.addr, LEN, 0));
    cells[0].write(&to.addr.to_ne_bytes());
    let by_desc = capture(stream, || ok(aclrtMemcpyAsyncWithDesc(desc.addr, INNER, stream)));
    let by_cells = capture(stream, || {
        let [dst, src] = cells;
        ok(aclrtMemcpyAsyncWithOffset(dst.addr, LEN, 0, src.addr, LEN, 0, INNER, stream));
    });
    for (from, byte) in [(one, 1), (two, 2), (one, 1)] {
        cells[1].write(&from.addr.to_ne_bytes());
        to.fill(0);
        assert_eq!(after(by_cells, stream, &to), [byte; LEN], "the pointer of the time");
        ok(aclrtSetMemcpyDesc(desc.addr, INNER, from.addr, to.addr, LEN, 0));
        to.fill(0);
        assert_eq!(after(by_desc, stream, &to), [byte; LEN], "the descriptor of the time");
    }
    // The descriptor is written during a capture, too: that is no task.
    let model = capture(stream, || {
        ok(aclrtSetMemcpyDesc(desc.addr, INNER, two.addr, to.addr, LEN, 0));
        ok(aclrtMemcpyAsyncWithDesc(desc.addr, INNER, stream));
    });
    assert_eq!(after(model, stream, &to), [2; LEN]);
    [by_desc, by_cells, model].into_iter().for_each(|model| ok(aclmdlRIDestroy(model)));
}

// proves: G13
#[test]
fn the_staged_kind_takes_its_bytes_when_it_is_captured() {
    own_context();
    let (stream, heap, to) = (stream(), Memory::heap(LEN), Memory::device(LEN));
    heap.fill(1);
    let model = capture(stream, || {
        ok(aclrtMemcpyAsync(to.addr, LEN, heap.addr, LEN, BUFFERED, stream));
        heap.fill(2);
    });
    ok(heap.free());
    for _ in 0..3 {
        to.fill(0);
        assert_eq!(after(model, stream, &to), [1; LEN]);
    }
    ok(aclmdlRIDestroy(model));
}

// proves: G13
#[test]
fn reductions_add_up_from_execution_to_execution() {
    own_context();
    let (stream, sum, one) = (stream(), Memory::device(64), Memory::device(64));
    sum.write(&0i32.to_ne_bytes().repeat(16));
    one.write(&5i32.to_ne_bytes().repeat(16));
    let model = capture(stream, || ok(aclrtReduceAsync(sum.addr, one.addr, 64, 10, 3, stream, 0)));
    for want in [5i32, 10, 15] {
        assert_eq!(after(model, stream, &sum), want.to_ne_bytes().repeat(16));
    }
    one.write(&100i32.to_ne_bytes().repeat(16));
    assert_eq!(after(model, stream, &sum), 115i32.to_ne_bytes().repeat(16));
    ok(aclmdlRIDestroy(model));
}

#[test]
fn values_and_notifies_are_captured_and_work_at_each_execution() {
    own_context();
    let (stream, outside) = (stream(), stream());
    let (cell, done) = (Memory::device(8), Memory::device(64));
    cell.fill(0);
    let mut notify = 0;
    ok(aclrtCreateNotify(&mut notify, 0));
    let waits = capture(stream, || {
        ok(aclrtValueWait(cell.addr, 1, 1, stream));
        ok(aclrtValueWrite(cell.addr, 0, 0, stream));
        ok(aclrtWaitAndResetNotify(notify, stream, 0));
        ok(aclrtMemsetAsync(done.addr, 64, 1, 64, stream));
    });
    let records = capture(stream, || ok(aclrtRecordNotify(notify, stream)));
    for _ in 0..3 {
        done.fill(0);
        ok(aclmdlRIExecuteAsync(waits, stream));
        assert_eq!(stream_status(stream), STREAM_NOT_READY, "waits for the value");
        ok(aclrtValueWrite(cell.addr, 1, 0, outside));
        finish(outside);
        blocked::settle();
        assert_eq!(stream_status(stream), STREAM_NOT_READY, "waits for the notify");
        done.assert_all(0, "what is behind has not run");
        run(records, outside);
        finish(stream);
        done.assert_all(1, "what is behind has run");
        cell.assert_all(0, "the value was reset");
    }
    [waits, records].into_iter().for_each(|model| ok(aclmdlRIDestroy(model)));
}

/// Counts its calls.
unsafe extern "C" fn count(counter: *mut c_void) {
    // SAFETY: a leaked counter.
    unsafe { &*counter.cast::<AtomicU32>() }.fetch_add(1, SeqCst);
}

fn counter() -> &'static AtomicU32 {
    Box::leak(Box::new(AtomicU32::new(0)))
}

fn at(counter: &'static AtomicU32) -> usize {
    counter as *const AtomicU32 as usize
}

#[test]
fn host_functions_run_at_every_execution() {
    own_context();
    let (stream, calls) = (stream(), counter());
    let model = capture(stream, || {
        for _ in 0..1000 {
            ok(aclrtLaunchHostFunc(stream, Some(count), at(calls)));
        }
    });
    assert_eq!(calls.load(SeqCst), 0);
    for turn in 1..4 {
        run(model, stream);
        assert_eq!(calls.load(SeqCst), turn * 1000);
    }
    ok(aclmdlRIDestroy(model));
}

#[test]
fn callbacks_run_in_the_thread_that_is_subscribed_at_the_execution() {
    let context = own_context();
    let (stream, launcher, calls) = (stream(), stream(), counter());
    let done = Memory::device(64);
    let blocking = capture(stream, || {
        ok(aclrtLaunchCallback(Some(count), at(calls), 1, stream));
        ok(aclrtMemsetAsync(done.addr, 64, 1, 64, stream));
    });
    let free = capture(stream, || {
        ok(aclrtLaunchCallback(Some(count), at(calls), 0, stream));
        ok(aclrtMemsetAsync(done.addr, 64, 2, 64, stream));
    });
    ok(aclmdlRIExecuteAsync(blocking, launcher));
    refused("nobody", aclrtSynchronizeStream(launcher), STREAM_NO_CB_REG, &["aclrtSubscribeReport"]);
    assert_eq!(calls.load(SeqCst), 0);
    done.fill(0);
    // The order in which two models come to their callbacks is not that of their launches.
    let hold = block(launcher);
    ok(aclrtSubscribeReport(this_thread(), stream));
    ok(aclmdlRIExecuteAsync(blocking, launcher));
    ok(aclmdlRIExecuteAsync(free, stream));
    finish(stream);
    done.assert_all(2, "NO_BLOCK holds nothing");
    ok(aclrtProcessReport(60_000));
    assert_eq!(calls.load(SeqCst), 1, "though an earlier execution has not begun");
    hold.unblock();
    blocked::settle();
    assert_eq!(stream_status(launcher), STREAM_NOT_READY, "BLOCK holds what is behind");
    done.assert_all(2, "which has not run");
    ok(aclrtProcessReport(60_000));
    finish(launcher);
    done.assert_all(1, "which has run");
    assert_eq!(calls.load(SeqCst), 2);
    ok(aclrtUnSubscribeReport(this_thread(), stream));
    [blocking, free].into_iter().for_each(|model| ok(aclmdlRIDestroy(model)));
    ok(aclrtDestroyContext(context));
}

/// The id by which this thread subscribes.
fn this_thread() -> u64 {
    // SAFETY: takes no argument and cannot fail.
    unsafe { libc::pthread_self() }
}

#[test]
fn pageable_memory_is_not_captured_in_any_mode() {
    own_context();
    let (stream, heap, device) = (stream(), Memory::heap(64), Memory::device(64));
    let (h, d) = (heap.addr, device.addr);
    type Form = fn(usize, usize, usize) -> i32;
    let forms: [(&str, Form); 5] = [
        ("H2D", |h, d, stream| aclrtMemcpyAsync(d, 64, h, 64, H2D, stream)),
        ("D2H", |h, d, stream| aclrtMemcpyAsync(h, 64, d, 64, D2H, stream)),
        ("2-D", |h, d, stream| aclrtMemcpy2dAsync(d, 8, h, 8, 8, 8, H2D, stream)),
        ("batch", |h, d, stream| Batch::of(&[(d, h, 64)], HOST_TO_DEVICE).call(BatchForm::Async, stream).0),
        ("fill", |h, _, stream| aclrtMemsetAsync(h, 64, 1, 64, stream)),
    ];
    for mode in [GLOBAL, THREAD_LOCAL, RELAXED] {
        for (what, form) in forms {
            ok(aclmdlRICaptureBegin(stream, mode));
            exchange(RELAXED);
            refused(what, form(h, d, stream), CAPTURE_BLOCK_ASYNC, &["aclrtMallocHost", "aclrtHostRegister"]);
            exchange(GLOBAL);
            assert_eq!(status(stream), INVALIDATED, "{what}");
            end_without_model(what, stream, CAPTURE_INVALIDATED);
        }
    }
    ok(aclrtHostRegisterV2(heap.addr & !4095, 8192, 0x1000_0000));
    ok(aclmdlRIDestroy(capture(stream, || ok(aclrtMemcpyAsync(d, 64, h, 64, H2D, stream)))));
    ok(aclrtHostUnregister(heap.addr & !4095));
}

#[test]
fn executions_of_models_are_not_captured() {
    own_context();
    let (main, other, (one, two, _)) = (stream(), stream(), buffers(64));
    let model = capture(other, || copy(&one, &two, other));
    let outer = capture(main, || {
        refused("captured", aclmdlRIExecuteAsync(model, main), STREAM_CAPTURED, &["execut", "GLOBAL"]);
        assert_eq!(status(main), ACTIVE);
        run(model, other);
    });
    one.assert_all(2, "on another stream it runs during the capture");
    [model, outer].into_iter().for_each(|model| ok(aclmdlRIDestroy(model)));
}

#[test]
fn allocations_and_what_makes_streams_and_events_are_allowed_in_every_mode() {
    own_context();
    let stream = stream();
    for mode in [GLOBAL, THREAD_LOCAL, RELAXED] {
        ok(aclmdlRICaptureBegin(stream, mode));
        let all = move || {
            let (device, pinned, heap) =
                (Memory::device(64), Memory::pinned(64), Memory::new(Home::Mapped, 4096));
            ok(aclrtHostRegisterV2(heap.addr, 4096, 0x1000_0000));
            ok(aclrtHostUnregister(heap.addr));
            ok(aclrtPointerGetAttributes(device.addr, &mut aclrtPtrAttributes::default()));
            ok(aclrtGetMemInfo(1, &mut 0, &mut 0));
            let (mut other, mut flagged, mut context, mut now) = (0, 0, 0, 0);
            ok(aclrtCreateStreamWithConfig(&mut other, 0, 1));
            ok(aclrtCreateEventWithFlag(&mut flagged, 1));
            ok(aclrtDestroyEvent(flagged));
            ok(aclrtDestroyStream(other));
            ok(aclrtGetCurrentContext(&mut now));
            ok(aclrtSetDevice(0));
            ok(aclrtCreateContext(&mut context, 0));
            ok(aclrtDestroyContext(context));
            ok(aclrtSetCurrentContext(now));
            ok(aclrtSetStreamOverflowSwitch(stream, 1));
            [device, pinned, heap].into_iter().for_each(|memory| ok(memory.free()));
        };
        all();
        elsewhere(all);
        assert_eq!(status(stream), ACTIVE, "mode {mode}");
        ok(aclmdlRIDestroy(end(stream)));
    }
}
