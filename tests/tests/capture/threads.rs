//! Captures that begin and end while other threads use streams of the same context.

use super::*;
use ferry_tests::code::*;
use ferry_tests::kind::H2D;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// G18: whatever the moment, work on the default stream runs or is refused, and neither waits for the other.
#[test]
fn captures_come_and_go_while_the_default_stream_is_used() {
    let context = own_context();
    let (source, device) = (Memory::pinned(64), Memory::device(64));
    let (is_over, refusals) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            ok(aclrtSetCurrentContext(context));
            while !is_over.load(Ordering::Relaxed) {
                let code = aclrtMemcpyAsync(device.addr, 64, source.addr, 64, H2D, 0);
                match code {
                    SUCCESS => {}
                    CAPTURE_IMPLICIT => drop(refusals.fetch_add(1, Ordering::Relaxed)),
                    other => panic!("{other}"),
                }
            }
        });
        for round in 0..2000 {
            let (stream, mut model) = (stream(), 0);
            let before = refusals.load(Ordering::Relaxed);
            ok(aclmdlRICaptureBegin(stream, GLOBAL));
            if round % 50 == 0 {
                eventually("a refusal", || refusals.load(Ordering::Relaxed) > before);
            }
            match aclmdlRICaptureEnd(stream, &mut model) {
                SUCCESS => ok(aclmdlRIDestroy(model)),
                code => assert_eq!((code, model), (CAPTURE_INVALIDATED, 0), "G4, G19"),
            }
            ok(aclrtDestroyStream(stream));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    finish(0);
}
