//! Threads that map, unmap, free and copy the same addresses: no crash, no torn bytes, and every refusal has
//! a code.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ferry_tests::code::*;
use ferry_tests::kind::{D2H, H2D};
use ferry_tests::*;

use crate::PAGE;

/// One thread maps now this and now that memory over a border; each memory holds one number only, and nothing
/// else is ever seen there, whether the copy was queued before a remap or after.
#[test]
fn copies_race_with_remaps() {
    use_device();
    let base = reserve(2 * PAGE);
    let filled: Vec<usize> = (1..5_u8)
        .map(|number| {
            let handle = physical(PAGE);
            ok(aclrtMapMem(base, PAGE, 0, handle, 0));
            Memory { addr: base, len: PAGE, home: Home::Device }.fill(number);
            ok(aclrtUnmapMem(base));
            handle
        })
        .collect();
    let (stop, copied) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                use_device();
                let (stream, host) = (stream(), Memory::pinned(2 * PAGE));
                while !stop.load(Ordering::Relaxed) {
                    let code = aclrtMemcpyAsync(host.addr, 2 * PAGE, base, 2 * PAGE, D2H, stream);
                    if code != 0 {
                        assert_eq!(code, RT_PARAM_INVALID, "{:?}", message());
                        continue;
                    }
                    finish(stream);
                    copied.fetch_add(1, Ordering::Relaxed);
                    for half in host.read().chunks(PAGE) {
                        assert!((1..5).contains(&half[0]), "a stranger's byte: {}", half[0]);
                        assert!(half.iter().all(|byte| *byte == half[0]), "two memories mixed");
                    }
                }
            });
        }
        let mut round = 0;
        while copied.load(Ordering::Relaxed) < 200 || round < 5000 {
            ok(aclrtMapMem(base, PAGE, 0, filled[round % 4], 0));
            ok(aclrtMapMem(base + PAGE, PAGE, 0, filled[(round / 3) % 4], 0));
            std::thread::yield_now();
            ok(aclrtUnmapMem(base + PAGE * (round % 2)));
            ok(aclrtUnmapMem(base + PAGE * (1 - round % 2)));
            round += 1;
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// Everyone does everything to the same few addresses and handles.
#[test]
fn everything_at_once() {
    use_device();
    let base = reserve(4 * PAGE);
    let handles: Vec<AtomicUsize> = (0..4).map(|_| AtomicUsize::new(physical(PAGE))).collect();
    let allowed = [0, RT_PARAM_INVALID, INVALID_HANDLE, MEMORY_ALLOCATION];
    std::thread::scope(|scope| {
        for thread in 0..4_usize {
            let handles = &handles;
            scope.spawn(move || {
                use_device();
                let (stream, host) = (stream(), Memory::pinned(4 * PAGE));
                for round in 0..2000_usize {
                    let dice = 2654435761_usize.wrapping_mul((thread + 1) * 4000 + round) >> 5;
                    let (piece, which) = (dice % 4, &handles[dice / 4 % 4]);
                    let addr = base + piece * PAGE;
                    let code = match dice / 16 % 6 {
                        0 | 1 => aclrtMapMem(addr, PAGE, 0, which.load(Ordering::Relaxed), 0),
                        2 => aclrtUnmapMem(addr),
                        3 => {
                            let old = which.swap(physical(PAGE), Ordering::Relaxed);
                            aclrtFreePhysical(old)
                        }
                        4 => aclrtMemcpyAsync(addr, PAGE, host.addr, PAGE, H2D, stream),
                        _ => aclrtReleaseMemAddress(base + PAGE),
                    };
                    assert!(allowed.contains(&code), "{code}: {:?}", message());
                }
                finish(stream);
            });
        }
    });
    for piece in 0..4 {
        // Some are mapped, some are not.
        let _ = aclrtUnmapMem(base + piece * PAGE);
    }
    ok(aclrtReleaseMemAddress(base));
}
