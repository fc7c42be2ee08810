//! Proves without a clock that a call waits for a stream: it is made while the stream is blocked.

use std::sync::Arc;
use std::time::Duration;

use ferry_abi::Result;
use ferry_abi::error::ensure;
use ferry_abi::stream::{Blocker, Stream};

/// Makes `call` while `stream` is blocked, and fails if it comes back before the stream was let go.
pub fn must_wait(what: &str, stream: &Stream, call: impl FnOnce() -> Result<()>) -> Result<()> {
    let blocker = Arc::new(stream.block()?);
    unblock_once_i_sleep(&blocker);
    call()?;
    ensure(
        blocker.is_unblocked(),
        what,
        "to come back when its copy is done",
        "it back while its stream was held",
    )
}

/// Lets the stream go from another thread, once the calling thread sleeps (in the call that it makes next).
fn unblock_once_i_sleep(blocker: &Arc<Blocker>) {
    let blocker = blocker.clone();
    // SAFETY: takes no argument and cannot fail.
    let thread = unsafe { libc::gettid() };
    std::thread::spawn(move || {
        wait_until_asleep(thread);
        blocker.unblock();
    });
}

/// Polls the thread's state in /proc until it was asleep several times in a row. A backend whose waits spin
/// never sleeps, so this gives up after a while: unblocking early or late cannot turn a wrong answer into a
/// right one.
fn wait_until_asleep(thread: libc::pid_t) {
    const POLLS: usize = 200;
    const ASLEEP_IN_A_ROW: usize = 3;
    let mut asleep = 0;
    for _ in 0..POLLS {
        let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap_or_default();
        let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
        asleep = if state == Some('S') { asleep + 1 } else { 0 };
        if asleep == ASLEEP_IN_A_ROW {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
