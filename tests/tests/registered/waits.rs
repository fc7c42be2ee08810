//! Which copies of registered memory wait: proved by holding the stream.

use ferry_tests::code::*;
use ferry_tests::kind::{D2H, H2D};
use ferry_tests::*;

use crate::{MAPPED, PAGE, PINNED, POISON, mine, registered};

const LEN: usize = 64 * PAGE;

/// An asynchronous copy of `len` bytes from `src` to `dst`, whatever shape its function gives it.
pub type Form = (&'static str, fn(dst: usize, src: usize, len: usize, kind: i32, stream: usize) -> i32);

pub const FORMS: [Form; 5] = [
    ("aclrtMemcpyAsync", |d, s, n, kind, stream| aclrtMemcpyAsync(d, n, s, n, kind, stream)),
    ("aclrtMemcpyAsyncWithCondition", |d, s, n, kind, stream| {
        aclrtMemcpyAsyncWithCondition(d, n, s, n, kind, stream)
    }),
    ("aclrtMemcpy2dAsync", |d, s, n, kind, stream| aclrtMemcpy2dAsync(d, n, s, n, n, 1, kind, stream)),
    ("aclrtMemcpyBatchAsync", |d, s, n, kind, stream| batch(d, s, n, kind, BatchForm::Async, stream)),
    ("aclrtMemcpyBatchAsyncV2", |d, s, n, kind, stream| batch(d, s, n, kind, BatchForm::AsyncV2, stream)),
];

fn batch(dst: usize, src: usize, len: usize, kind: i32, form: BatchForm, stream: usize) -> i32 {
    let attr = if kind == H2D { HOST_TO_DEVICE } else { DEVICE_TO_HOST };
    Batch::of(&[(dst, src, len)], attr).call(form, stream).0
}

/// Copies `len` bytes at `offset` of `host` in every way and both directions behind a gate, and tells whether
/// the calls waited, which must be the same for all; the bytes must be right whichever it is.
fn waits(what: &str, host: Memory, offset: usize, len: usize) -> bool {
    let mut answers = Vec::new();
    for (name, call) in FORMS {
        for kind in [H2D, D2H] {
            let what = format!("{what}: {name}, kind {kind}");
            let (part, device, data) =
                (host.part(offset, len), Memory::device(len), pattern(len, kind as u8));
            let (dst, src) = if kind == H2D { (device, part) } else { (part, device) };
            src.write(&data);
            dst.fill(POISON);
            let stream = stream();
            let gate = block(stream);
            match blocked::call(move || call(dst.addr, src.addr, len, kind, stream)) {
                blocked::Outcome::Returned(code) => {
                    assert_eq!(code, 0, "{what}");
                    dst.assert_all(POISON, &what);
                    gate.unblock();
                    answers.push(false);
                }
                blocked::Outcome::Blocked(pending) => {
                    dst.assert_all(POISON, &what);
                    gate.unblock();
                    assert_eq!(pending.join(), 0, "{what}");
                    dst.assert_holds(&data, &format!("{what}: when the call came back"));
                    answers.push(true);
                }
            }
            finish(stream);
            dst.assert_holds(&data, &what);
            ok(device.free());
            ok(aclrtDestroyStream(stream));
        }
    }
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{what}: {answers:?}");
    answers[0]
}

// proves: N5 X3
#[test]
fn page_locked_by_registration_means_asynchronous() {
    use_device();
    for (flag, want) in [(PINNED, false), (PINNED | MAPPED, false), (MAPPED, true)] {
        let memory = registered(LEN, flag);
        assert_eq!(waits(&format!("flag {flag:#x}"), memory, 0, LEN), want, "flag {flag:#x}");
        assert_eq!(waits(&format!("flag {flag:#x}, a part"), memory, 77, LEN - 100), want, "flag {flag:#x}");
        ok(aclrtHostUnregister(memory.addr));
        assert!(waits("unregistered again", memory, 0, LEN), "after flag {flag:#x}");
    }
    let (memory, mut device) = (mine(LEN), 0);
    ok(aclrtHostRegister(memory.addr, LEN, 0, &mut device));
    assert!(waits("aclrtHostRegister", memory, 0, LEN), "aclrtHostRegister maps and does not page-lock");
    ok(aclrtHostUnregister(memory.addr));
}

// proves: X3
#[test]
fn memory_of_the_functions_with_settings_is_page_locked() {
    use_device();
    let mut addr = 0;
    ok(aclrtMallocHostWithCfg(&mut addr, LEN as u64, std::ptr::null_mut()));
    let memory = Memory { addr, len: LEN, home: Home::Pinned };
    assert!(!waits("aclrtMallocHostWithCfg", memory, 0, LEN));
    ok(memory.free());
}

/// A range of which some is registered and some is not is pageable, and copied right.
#[test]
fn ranges_that_are_partly_registered_wait() {
    use_device();
    let memory = mine(LEN);
    let (first, len) = (memory.addr + 16 * PAGE, 16 * PAGE + 100);
    ok(aclrtHostRegisterV2(first, len, PINNED));
    let rows = [
        ("inside", 16 * PAGE, 16 * PAGE + 100, false),
        ("a byte inside", 32 * PAGE + 99, 1, false),
        ("from before", 16 * PAGE - 1, 2, true),
        ("to after, on the last page", 32 * PAGE + 99, 2, true),
        ("behind it, on the last page", 32 * PAGE + 100, 64, true),
        ("to after, pages on", 20 * PAGE, 30 * PAGE, true),
        ("from before to after", 0, LEN, true),
        ("beside", 0, 16 * PAGE, true),
    ];
    for (what, offset, len, want) in rows {
        assert_eq!(waits(what, memory, offset, len), want, "{what}");
    }
    // Two that touch are still two: only what lies in one of them is page-locked as a whole.
    ok(aclrtHostRegisterV2(memory.addr, 16 * PAGE, PINNED));
    assert!(waits("over two registrations", memory, 15 * PAGE, 2 * PAGE));
    for base in [memory.addr, first] {
        ok(aclrtHostUnregister(base));
    }
}

#[test]
fn what_was_queued_is_done_though_the_memory_is_unregistered() {
    use_device();
    let (memory, device, stream) = (registered(LEN, PINNED), Memory::device(LEN), stream());
    let back = registered(LEN, PINNED);
    memory.write(&pattern(LEN, 9));
    let gate = block(stream);
    ok(aclrtMemcpyAsync(device.addr, LEN, memory.addr, LEN, H2D, stream));
    ok(aclrtMemcpyAsync(back.addr, LEN, device.addr, LEN, D2H, stream));
    let (one, two) = (memory.addr, back.addr);
    let call = blocked::call(move || (aclrtHostUnregister(one), aclrtHostUnregister(two)));
    assert_eq!(call.returned("aclrtHostUnregister with copies queued"), (0, 0));
    // Registered anew while the copies wait: what ends then is the old registration.
    ok(aclrtHostRegisterV2(memory.addr, LEN, PINNED));
    gate.unblock();
    finish(stream);
    back.assert_holds(&pattern(LEN, 9), "there and back");
    assert!(!waits("registered anew", memory, 0, LEN));
    ok(aclrtHostUnregister(memory.addr));
    expect("unregistered twice", aclrtHostUnregister(memory.addr), NOT_REGISTERED);
}
