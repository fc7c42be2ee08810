//! Copies so large that several threads do them together: every byte is where a plain loop puts it, also
//! where the ends overlap, beside other streams and with several threads that wait.

use std::sync::Arc;
use std::thread;

use ferry_tests::kind::{D2D, D2H, H2D};
use ferry_tests::*;

const LEN: usize = 9 << 20;

/// Bytes that repeat nowhere within a page's distance.
fn bytes(seed: usize) -> Vec<u8> {
    (0..LEN).map(|i| (i.wrapping_mul(2_654_435_761).wrapping_add(seed) >> 13) as u8).collect()
}

fn three() -> (Memory, Memory, Vec<u8>) {
    use_device();
    let want = bytes(1);
    let (device, host) = (Memory::device(LEN), Memory::holding(Home::Pinned, &want));
    device.fill(0xa5);
    (device, host, want)
}

#[test]
fn linear_at_any_alignment() {
    let (device, host, from) = three();
    let stream = stream();
    for (to, at, len) in
        [(0, 0, LEN), (1, 3, 5 << 20), (4095, 64, (7 << 20) + 1), (64, 4097, 1 << 20), (9, 0, (1 << 20) - 1)]
    {
        device.fill(0xa5);
        ok(aclrtMemcpyAsync(device.addr + to, len, host.addr + at, len, H2D, stream));
        finish(stream);
        let mut want = vec![0xa5; LEN];
        want[to..to + len].copy_from_slice(&from[at..at + len]);
        device.assert_holds(&want, &format!("{len} bytes from {at} to {to}"));
    }
}

#[test]
fn ends_that_overlap() {
    let (device, _, from) = three();
    let stream = stream();
    for (to, at) in [(0, 1000), (1000, 0), (64, 0), (0, 4096), (3 << 20, 0), (0, 3 << 20)] {
        let len = 6 << 20;
        device.write(&from);
        ok(aclrtMemcpyAsync(device.addr + to, len, device.addr + at, len, D2D, stream));
        finish(stream);
        let mut want = from.clone();
        want.copy_within(at..at + len, to);
        device.assert_holds(&want, &format!("from {at} to {to}"));
    }
}

#[test]
fn matrices_of_every_width() {
    let (device, host, from) = three();
    let stream = stream();
    for (width, dpitch, spitch) in [
        (16, 32, 48),
        (1, 3, 2),
        (64, 64, 128),
        (1000, 1001, 1003),
        (300_000, 400_000, 300_001),
        (3 << 20, 3 << 20, 4 << 20),
    ] {
        let height = (LEN - width) / dpitch.max(spitch) + 1;
        device.fill(0xa5);
        ok(aclrtMemcpy2dAsync(device.addr, dpitch, host.addr, spitch, width, height, H2D, stream));
        finish(stream);
        let mut want = vec![0xa5; LEN];
        for row in 0..height {
            want[row * dpitch..][..width].copy_from_slice(&from[row * spitch..][..width]);
        }
        device.assert_holds(&want, &format!("{height} rows of {width}"));
    }
}

#[test]
fn batches_of_small_and_large_pieces() {
    let (device, host, from) = three();
    let stream = stream();
    for sizes in [&[4096][..], &[1, 100_000, 7], &[2 << 20, 64, 3 << 20], &[333]] {
        device.fill(0xa5);
        let (mut items, mut want, mut to, mut at) = (Vec::new(), vec![0xa5; LEN], LEN, 0);
        // Forwards in the source, backwards in the destination, with gaps.
        for size in sizes.iter().cycle() {
            if at + size > LEN || to < size + 5 {
                break;
            }
            to -= size + 5;
            items.push((device.addr + to, host.addr + at, *size));
            want[to..to + size].copy_from_slice(&from[at..at + size]);
            at += size;
        }
        let mut batch = Batch::of(&items, HOST_TO_DEVICE);
        assert_eq!(batch.call(BatchForm::Async, stream).0, 0, "{:?}", message());
        finish(stream);
        device.assert_holds(&want, &format!("{} pieces of {sizes:?}", items.len()));
    }
}

#[test]
fn many_streams_and_many_who_wait() {
    use_device();
    let mut context = 0;
    ok(aclrtGetCurrentContext(&mut context));
    let sets: Arc<Vec<_>> = Arc::new(
        (0..3)
            .map(|seed| {
                let from = Memory::holding(Home::Pinned, &bytes(seed));
                (stream(), from, Memory::device(LEN), Memory::pinned(LEN))
            })
            .collect(),
    );
    let threads: Vec<_> = (0..6)
        .map(|number| {
            let sets = sets.clone();
            thread::spawn(move || {
                ok(aclrtSetCurrentContext(context));
                for round in 0..10 {
                    let (stream, from, device, back) = &sets[(number + round) % 3];
                    ok(aclrtMemcpyAsync(device.addr, LEN, from.addr, LEN, H2D, *stream));
                    ok(aclrtMemcpyAsync(back.addr, LEN, device.addr, LEN, D2H, *stream));
                    finish(*stream);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no thread panics"));
    for (seed, (stream, _, device, back)) in sets.iter().enumerate() {
        finish(*stream);
        device.assert_holds(&bytes(seed), "on the device");
        back.assert_holds(&bytes(seed), "back on the host");
    }
}
