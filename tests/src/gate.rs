//! A gate in a stream: work submitted behind it cannot run until a test opens it.

use std::ffi::c_void;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crate::{aclrtLaunchHostFunc, ok};

#[derive(Default)]
struct State {
    reached: bool,
    open: bool,
    given_up: bool,
}

/// How long a gate stays shut at most: a test that waits behind its own gate fails instead of hanging.
const LIMIT: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// Holds a stream with a host function that sleeps until the gate is opened or dropped.
pub struct Gate(Arc<Shared>);

impl Gate {
    /// Puts a closed gate into `stream`, which must belong to the current context.
    #[track_caller]
    pub fn on(stream: usize) -> Gate {
        let shared = Arc::new(Shared::default());
        let handed_over = Arc::into_raw(shared.clone());
        ok(aclrtLaunchHostFunc(stream, Some(hold), handed_over as usize));
        Gate(shared)
    }

    /// Returns once the stream has come to the gate and stands there, without anyone synchronising.
    pub fn wait_until_reached(&self) {
        let state = self.0.state.lock().unwrap();
        let (state, _) = self.0.changed.wait_timeout_while(state, LIMIT, |s| !s.reached).unwrap();
        assert!(state.reached, "the stream never came to its host function");
    }

    /// Lets the stream go on, and fails if it had to go on before.
    #[track_caller]
    pub fn open(&self) {
        assert!(!self.open_anyway(), "a call that should have come back waited behind the gate");
    }

    /// Opens and tells whether the gate had given up.
    pub(crate) fn open_anyway(&self) -> bool {
        // A failing assertion elsewhere must not keep the gate shut, so a poisoned lock is taken all the
        // same.
        let mut state = self.0.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        state.open = true;
        self.0.changed.notify_all();
        state.given_up
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        let given_up = self.open_anyway();
        assert!(
            !given_up || std::thread::panicking(),
            "a call that should have come back waited behind the gate"
        );
    }
}

/// # Safety
/// `shared` came from `Arc::into_raw` and is handed over once.
unsafe extern "C" fn hold(shared: *mut c_void) {
    // SAFETY: the stream runs a host function once, with the argument of its launch.
    let shared = unsafe { Arc::from_raw(shared as *const Shared) };
    let mut state = shared.state.lock().unwrap();
    state.reached = true;
    shared.changed.notify_all();
    let (mut state, _) = shared.changed.wait_timeout_while(state, LIMIT, |s| !s.open).unwrap();
    state.given_up = !state.open;
}
