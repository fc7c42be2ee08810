//! Memory of models that is freed, unregistered, unmapped, or allocated anew in the same place.

use super::*;
use ferry_tests::code::*;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

const LEN: usize = 4096;

/// Executes a model that uses memory which is gone: it does nothing and says so at the synchronise.
#[track_caller]
fn fails(what: &str, model: usize, stream: usize) {
    ok(aclmdlRIExecuteAsync(model, stream));
    refused(what, aclrtSynchronizeStream(stream), RT_PARAM_INVALID, &["task", "freed", "captured"]);
    let blocking = aclmdlRIExecute(model, -1);
    expect(what, blocking, RT_PARAM_INVALID);
}

// proves: G14
#[test]
fn memory_that_was_freed_is_found_out_also_where_other_memory_came_to_its_place() {
    own_context();
    let (stream, to) = (stream(), Memory::device(LEN));
    for home in [Home::Device, Home::Pinned] {
        let from = Memory::new(home, LEN);
        from.fill(1);
        to.fill(0);
        let model = capture(stream, || copy(&to, &from, stream));
        run(model, stream);
        to.assert_all(1, "as long as it is there");
        to.fill(0);
        ok(from.free());
        fails("freed", model, stream);
        // Allocations of the same size come to the same place soon.
        let again: Vec<_> = (0..64).map(|_| Memory::new(home, LEN)).collect();
        again.iter().for_each(|memory| memory.fill(2));
        let same = again.iter().any(|memory| memory.addr == from.addr);
        fails(if same { "other memory at the same address" } else { "freed long ago" }, model, stream);
        to.assert_all(0, "nothing was copied");
        // Frees of other memory are no reason to fail.
        let other = capture(stream, || copy(&to, &again[0], stream));
        ok(again[1].free());
        run(other, stream);
        to.assert_all(2, "all of its memory is there");
        [model, other].into_iter().for_each(|model| ok(aclmdlRIDestroy(model)));
    }
}

// proves: G14
#[test]
fn a_free_succeeds_and_executions_that_were_submitted_before_it_run() {
    own_context();
    let (stream, from, to) = (stream(), Memory::device(LEN), Memory::device(LEN));
    from.fill(7);
    let model = capture(stream, || copy(&to, &from, stream));
    let hold = block(stream);
    ok(aclmdlRIExecuteAsync(model, stream));
    ok(from.free());
    let reused: Vec<_> = (0..16).map(|_| Memory::device(LEN)).collect();
    reused.iter().for_each(|memory| memory.fill(9));
    hold.unblock();
    finish(stream);
    to.assert_all(7, "the bytes of before: the memory waits for the execution");
    fails("after it", model, stream);
    ok(aclmdlRIDestroy(model));
}

// proves: G14
#[test]
fn registered_memory_counts_until_it_is_unregistered() {
    own_context();
    let (stream, to, from) = (stream(), Memory::device(LEN), Memory::new(Home::Mapped, LEN));
    let register = || ok(aclrtHostRegisterV2(from.addr, LEN, 0x1000_0000));
    register();
    from.fill(1);
    let model = capture(stream, || copy(&to, &from, stream));
    run(model, stream);
    to.assert_all(1, "registered");
    ok(aclrtHostUnregister(from.addr));
    fails("unregistered", model, stream);
    register();
    fails("registered anew", model, stream);
    ok(aclrtHostUnregister(from.addr));
    ok(aclmdlRIDestroy(model));
    ok(from.free());
}

// proves: G14
#[test]
fn mapped_memory_counts_as_long_as_it_is_mapped_anywhere() {
    own_context();
    let (stream, to, handle) = (stream(), Memory::device(LEN), physical(2 << 20));
    let (first, alias) = (reserve(2 << 20), reserve(2 << 20));
    ok(aclrtMapMem(first, 2 << 20, 0, handle, 0));
    let from = Memory { addr: first, len: LEN, home: Home::Device };
    from.fill(1);
    let alone = capture(stream, || copy(&to, &from, stream));
    run(alone, stream);
    to.assert_all(1, "mapped");
    ok(aclrtUnmapMem(first));
    fails("unmapped", alone, stream);
    ok(aclrtMapMem(first, 2 << 20, 0, handle, 0));
    fails("mapped anew", alone, stream);
    ok(aclrtMapMem(alias, 2 << 20, 0, handle, 0));
    let twice = capture(stream, || copy(&to, &from, stream));
    ok(aclrtUnmapMem(alias));
    Memory { addr: first, ..from }.fill(4);
    run(twice, stream);
    to.assert_all(4, "an alias went, the mapping that was captured is there");
    [alone, twice].into_iter().for_each(|model| ok(aclmdlRIDestroy(model)));
    ok(aclrtUnmapMem(first));
    ok(aclrtFreePhysical(handle));
    [first, alias].into_iter().for_each(|base| ok(aclrtReleaseMemAddress(base)));
}

// proves: G14
#[test]
fn a_free_that_races_with_executions_costs_bytes_at_no_time() {
    let context = own_context();
    let (stream, to) = (stream(), Memory::pinned(LEN));
    for round in 0..40 {
        let from = Memory::device(LEN);
        from.fill(0x11);
        let model = capture(stream, || {
            for _ in 0..20 {
                copy(&to, &from, stream);
            }
        });
        let is_freed: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
        let freeing = std::thread::spawn(move || {
            ok(aclrtSetCurrentContext(context));
            ok(from.free());
            is_freed.store(true, SeqCst);
            let other = Memory::device(LEN);
            ok(aclrtMemset(other.addr, LEN, 0x99, LEN));
            ok(other.free());
        });
        let mut was_refused = false;
        for _ in 0..1000 {
            let after = is_freed.load(SeqCst);
            to.fill(0);
            ok(aclmdlRIExecuteAsync(model, stream));
            match aclrtSynchronizeStream(stream) {
                SUCCESS => {
                    assert!(!after, "round {round}: freed before it was launched");
                    to.assert_all(0x11, "right bytes, or a refusal");
                }
                code => {
                    assert_eq!(code, RT_PARAM_INVALID, "{}", message().unwrap_or_default());
                    was_refused = true;
                    break;
                }
            }
        }
        freeing.join().expect("no panic");
        drop(message());
        if !was_refused {
            fails("at the latest now", model, stream);
        }
        ok(aclmdlRIDestroy(model));
    }
}
