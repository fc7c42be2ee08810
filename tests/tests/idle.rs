//! A process with no copies pending uses no CPU: the engine's threads sleep, and nothing wakes them.

use ferry_tests::kind::H2D;
use ferry_tests::*;

#[test]
fn without_work_every_thread_of_the_engine_sleeps() {
    use_device();
    let (device, host) = (Memory::device(8 * 4096), Memory::pinned(4096));
    let streams: Vec<_> = (0..8).map(|_| stream()).collect();
    for _ in 0..100 {
        for (own, stream) in streams.iter().enumerate() {
            ok(aclrtMemcpyAsync(device.addr + own * 4096, 4096, host.addr, 4096, H2D, *stream));
        }
    }
    streams.iter().for_each(|stream| finish(*stream));
    assert!(blocked::sleepers("ferry-") > 0, "the engine has threads");
}
