//! Functions of a scope that use the scope themselves.

use ferry::{Kind, Result, Runtime};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::mpsc,
    time::Duration,
};

/// A copy that a function of the scope hands over, after the body is gone, is waited for too: else the borrow
/// would end with the copy in flight. Whether the body returned, failed or panicked.
#[test]
fn what_a_function_lends_is_waited_for() -> Result<()> {
    let device = Runtime::new()?.device(0)?;
    let there = device.alloc_zeroed::<u8>(4096)?;
    for end in ["returns", "fails", "panics"] {
        let stream = device.stream()?;
        stream.fill(&there, 7)?;
        let mut host = device.runtime().alloc_host::<u8>(4096)?;
        let (go, wait) = mpsc::channel::<()>();
        let (over, late) = mpsc::channel::<()>();
        let ended = catch_unwind(AssertUnwindSafe(|| {
            stream.scope(|scope| {
                let (host, there) = (&mut host, &there);
                scope.call(move || {
                    // Goes on when the body has dropped its end.
                    let _ = wait.recv();
                    // Gives a scope that ends too early the time to do so.
                    let stay = move || _ = late.recv_timeout(Duration::from_millis(100));
                    scope.stream().call(stay).expect("the stream takes it");
                    scope.download(host, there).map(drop).expect("room for all of it");
                })?;
                let _go = go;
                match end {
                    "returns" => Ok(()),
                    "fails" => Err(Kind::BadSetting.because("on purpose")),
                    _ => panic!("on purpose"),
                }
            })
        }));
        assert!(host.iter().all(|byte| *byte == 7), "the body {end}");
        drop(over);
        assert_eq!(ended.map(|result| result.is_ok()).ok(), (end != "panics").then_some(end == "returns"));
    }
    Ok(())
}

#[test]
fn a_fresh_stream_is_idle_and_synchronised() -> Result<()> {
    let stream = Runtime::new()?.device(0)?.stream()?;
    assert!(stream.is_idle());
    stream.synchronize()
}
