//! Memory that is unregistered when its copies have passed, mapped anew at the same address and registered
//! again, as a large `malloc` comes to lie again and again: copies move the new bytes, however busy other
//! streams are. A device uses the pages that were locked, whatever is mapped there later.

use ferry_tests::kind::{D2H, H2D, H2H};
use ferry_tests::*;

use crate::waits::{FORMS, Form};
use crate::{PAGE, PINNED, POISON, registered};

const LEN: usize = 16 * PAGE;

/// Maps fresh memory at a place, or anywhere if that is 0. It is shared: the stand-in for a driver can keep
/// only the pages of such.
fn pages(at: usize) -> Memory {
    let fixed = if at == 0 { 0 } else { libc::MAP_FIXED };
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS | fixed);
    // SAFETY: at a place the kernel picks, or where this test has mapped memory that nothing uses any more.
    let addr = unsafe { libc::mmap(at as *mut _, LEN, access, kind, -1, 0) };
    assert_ne!(addr, libc::MAP_FAILED);
    Memory { addr: addr as usize, len: LEN, home: Home::Mapped }
}

/// A stream that stands still before copies of other registered memory, of both the short way and the long
/// one.
fn busy() -> (usize, Blocker, [Memory; 3]) {
    let (stream, other, more, device) =
        (stream(), registered(LEN, PINNED), registered(LEN, PINNED), Memory::device(LEN));
    let gate = block(stream);
    queue_others(stream, other, more, device);
    (stream, gate, [other, more, device])
}

/// Copies between these, of the short way and the long one.
fn queue_others(stream: usize, other: Memory, more: Memory, device: Memory) {
    ok(aclrtMemcpyAsync(device.addr, LEN, other.addr, LEN, H2D, stream));
    ok(aclrtMemcpy2dAsync(device.addr, PAGE, other.addr, PAGE, PAGE, 9, H2D, stream));
    ok(aclrtMemcpyAsync(more.addr, LEN, device.addr, LEN, D2H, stream));
    let pieces = [(device.addr, other.addr, 64), (device.addr + PAGE, more.addr, 64)];
    ok(Batch::of(&pieces, HOST_TO_DEVICE).call(BatchForm::Async, stream).0);
}

/// Ends what `busy` began.
fn end((stream, gate, memories): (usize, Blocker, [Memory; 3])) {
    gate.unblock();
    finish(stream);
    ok(aclrtDestroyStream(stream));
    let [other, more, device] = memories;
    for memory in [other, more] {
        ok(aclrtHostUnregister(memory.addr));
        ok(memory.free());
    }
    ok(device.free());
}

/// Copies between registered memory and a device, and waits: the bytes must have come.
fn copy((name, call): Form, host: Memory, device: Memory, kind: i32, seed: u8, stream: usize) {
    let (dst, src) = if kind == H2D { (device, host) } else { (host, device) };
    let data = pattern(LEN, seed);
    src.write(&data);
    dst.fill(POISON);
    assert_eq!(call(dst.addr, src.addr, LEN, kind, stream), 0, "{name}");
    finish(stream);
    dst.assert_holds(&data, &format!("{name}, kind {kind}, number {seed}"));
}

#[test]
fn memory_mapped_anew_is_copied_though_other_streams_are_busy() {
    use_device();
    let (others, stream, device, memory) = (busy(), stream(), Memory::device(LEN), pages(0));
    for form in FORMS {
        for kind in [H2D, D2H] {
            for seed in 1..4 {
                pages(memory.addr);
                ok(aclrtHostRegisterV2(memory.addr, LEN, PINNED));
                copy(form, memory, device, kind, seed, stream);
                ok(aclrtHostUnregister(memory.addr));
            }
        }
    }
    end(others);
}

/// The same though the stream itself goes on, with copies of other memory, and stands still before them.
#[test]
fn memory_mapped_anew_is_copied_though_its_stream_is_busy_with_other_memory() {
    use_device();
    let (first, other, more, device) =
        (stream(), registered(LEN, PINNED), registered(LEN, PINNED), Memory::device(LEN));
    let (second, there, memory) = (stream(), Memory::device(LEN), pages(0));
    for form in FORMS {
        for kind in [H2D, D2H] {
            pages(memory.addr);
            ok(aclrtHostRegisterV2(memory.addr, LEN, PINNED));
            copy(form, memory, there, kind, 1, first);
            let gate = block(first);
            queue_others(first, other, more, device);
            ok(aclrtHostUnregister(memory.addr));
            pages(memory.addr);
            ok(aclrtHostRegisterV2(memory.addr, LEN, PINNED));
            copy(form, memory, there, kind, 2, second);
            ok(aclrtHostUnregister(memory.addr));
            gate.unblock();
            finish(first);
        }
    }
    for memory in [other, more] {
        ok(aclrtHostUnregister(memory.addr));
    }
}

#[test]
fn memory_is_mapped_anew_after_fills_copies_inside_the_host_and_batches_of_several() {
    use_device();
    let (others, stream, device, memory) = (busy(), stream(), Memory::device(LEN), pages(0));
    let half = LEN / 2;
    let calls: [(&str, &dyn Fn() -> i32); 3] = [
        ("aclrtMemsetAsync", &|| aclrtMemsetAsync(memory.addr, LEN, 9, LEN, stream)),
        ("inside the host", &|| aclrtMemcpy(memory.addr, half, memory.addr + half, half, H2H)),
        ("a batch", &|| {
            let pieces = [(device.addr, memory.addr, 64), (device.addr + PAGE, others.2[1].addr, 64)];
            Batch::of(&pieces, HOST_TO_DEVICE).call(BatchForm::Async, stream).0
        }),
    ];
    for (name, call) in calls {
        pages(memory.addr);
        ok(aclrtHostRegisterV2(memory.addr, LEN, PINNED));
        assert_eq!(call(), 0, "{name}");
        finish(stream);
        ok(aclrtHostUnregister(memory.addr));
        pages(memory.addr);
        ok(aclrtHostRegisterV2(memory.addr, LEN, PINNED));
        copy(FORMS[0], memory, device, H2D, 3, stream);
        ok(aclrtHostUnregister(memory.addr));
    }
    end(others);
}

/// As long as a copy of it is queued the memory stays what it is: it can be registered again at once, and
/// when all have passed it can be mapped anew like any other.
#[test]
fn memory_with_copies_in_flight_is_registered_again_at_once() {
    use_device();
    let (others, second, memory) = (busy(), stream(), pages(0));
    for form in FORMS {
        let (first, early, device) = (stream(), Memory::device(LEN), Memory::device(LEN));
        pages(memory.addr);
        ok(aclrtHostRegisterV2(memory.addr, LEN, PINNED));
        memory.write(&pattern(LEN, 1));
        let gate = block(first);
        assert_eq!(form.1(early.addr, memory.addr, LEN, H2D, first), 0, "{}", form.0);
        for _ in 0..3 {
            let again =
                move || (aclrtHostUnregister(memory.addr), aclrtHostRegisterV2(memory.addr, LEN, PINNED));
            assert_eq!(blocked::call(again).returned("registering again with copies queued"), (0, 0));
            assert_eq!(form.1(device.addr, memory.addr, LEN, H2D, second), 0, "{}", form.0);
            finish(second);
            device.assert_holds(&pattern(LEN, 1), form.0);
        }
        gate.unblock();
        finish(first);
        early.assert_holds(&pattern(LEN, 1), form.0);
        ok(aclrtHostUnregister(memory.addr));
        pages(memory.addr);
        ok(aclrtHostRegisterV2(memory.addr, LEN, PINNED));
        copy(form, memory, device, H2D, 2, second);
        ok(aclrtHostUnregister(memory.addr));
        ok(aclrtDestroyStream(first));
        ok(early.free());
        ok(device.free());
    }
    end(others);
}

/// Mapped anew and not registered again it is pageable, and copied right.
#[test]
fn memory_mapped_anew_is_copied_as_pageable_though_other_streams_are_busy() {
    use_device();
    let (others, stream, device, memory) = (busy(), stream(), Memory::device(LEN), pages(0));
    for kind in [H2D, D2H] {
        pages(memory.addr);
        ok(aclrtHostRegisterV2(memory.addr, LEN, PINNED));
        copy(FORMS[0], memory, device, kind, 1, stream);
        ok(aclrtHostUnregister(memory.addr));
        pages(memory.addr);
        for (seed, form) in FORMS.into_iter().enumerate() {
            copy(form, memory, device, kind, 2 + seed as u8, stream);
        }
    }
    end(others);
}
