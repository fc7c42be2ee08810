//! A function in a stream that waits until it is let go: what comes after it stays in flight.

use ferry::Stream;
use std::{
    sync::mpsc::{Receiver, Sender, channel},
    time::Duration,
};

/// How long a test looks whether something happens that must not. Too short only makes the test see less.
pub const A_WHILE: Duration = Duration::from_millis(30);

/// Opens when it is dropped, so that a failed test does not hang.
pub struct Gate {
    _go: Sender<()>,
    reached: Receiver<()>,
}

impl Gate {
    /// Holds up what is submitted to the stream from here on.
    pub fn on(stream: &Stream) -> Gate {
        let (go, wait) = channel::<()>();
        let (tell, reached) = channel();
        let hold = move || {
            let _ = tell.send(());
            let _ = wait.recv();
        };
        stream.call(hold).expect("a stream takes functions");
        Gate { _go: go, reached }
    }

    /// Waits until the stream stands at the gate: an abort does not drop it any more.
    pub fn wait_until_reached(&self) {
        self.reached.recv().expect("the function runs");
    }

    pub fn open(self) {}
}
