//! Blocks a stream: what is submitted behind the function stays in flight.

use ferry::Stream;
use ferry_blocker::Blocker;
use std::time::Duration;

/// How long a test looks whether something happens that must not. Too short only makes the test see less.
pub const A_WHILE: Duration = Duration::from_millis(30);

/// Blocks what is submitted to the stream from here on.
pub fn block(stream: &Stream) -> Blocker {
    let (blocker, function) = Blocker::new();
    stream.call(function).expect("a stream takes functions");
    blocker
}
