//! Threads for users' functions, as many as are blocked.
//!
//! They know nothing of the engine: one that has nothing to do must not keep the memory of a runtime that is gone.

use crate::os::threads::{CALL_STACK, IDLE, spawn};
use ferry_core::sync::{Arc, Condvar, Mutex, lock};
use std::{collections::VecDeque, io};

type Function = Box<dyn FnOnce() + Send>;

/// The threads and what they share.
#[derive(Default)]
pub struct Calls {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    pending: VecDeque<Function>,
    idle: usize,
}

impl Calls {
    /// Runs a function on a thread where it may block for as long as it likes. Fails if there is no such thread to be had.
    pub fn call(self: &Arc<Self>, function: Function) -> io::Result<()> {
        let mut state = lock(&self.state);
        if state.idle > state.pending.len() {
            state.pending.push_back(function);
            drop(state);
            self.wake.notify_one();
            return Ok(());
        }
        drop(state);
        let calls = self.clone();
        let first = move || {
            function();
            calls.serve();
        };
        spawn("ferry-call".into(), CALL_STACK, first)
    }

    fn serve(&self) {
        let mut state = lock(&self.state);
        loop {
            if let Some(function) = state.pending.pop_front() {
                drop(state);
                function();
                state = lock(&self.state);
                continue;
            }
            state.idle += 1;
            let (guard, timeout) =
                self.wake.wait_timeout(state, IDLE).unwrap_or_else(|poisoned| poisoned.into_inner());
            state = guard;
            state.idle -= 1;
            if timeout.timed_out() && state.pending.is_empty() {
                return;
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{super::engine::Engine, *};
    use std::{
        thread,
        time::{Duration, Instant},
    };

    const LIMIT: Duration = Duration::from_secs(100);

    #[test]
    fn a_thread_with_nothing_to_do_keeps_no_memory() {
        let memory = Arc::new(());
        let engine = Engine::new(memory.clone(), 1);
        engine.call(Box::new(|| ())).expect("a thread");
        let end = Instant::now() + LIMIT;
        while lock(&engine.calls.state).idle == 0 {
            assert!(Instant::now() < end, "the thread does not come to rest");
            thread::yield_now();
        }
        drop(engine);
        assert_eq!(Arc::strong_count(&memory), 1);
    }
}
