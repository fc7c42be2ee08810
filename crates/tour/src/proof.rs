//! The result of a part: how many bytes were compared, and how fast they moved.

use std::time::Duration;

use ferry_terminal::figures;

/// The result of a part that succeeded.
pub struct Proof {
    /// Bytes compared with the mirror.
    pub verified: usize,
    /// A throughput or latency, where it means something.
    pub speed: Option<Speed>,
}

/// A measured speed.
pub enum Speed {
    /// Bytes moved in a time.
    Rate { bytes: usize, time: Duration },
    /// Calls made in a time.
    Calls { count: usize, time: Duration },
}

impl Speed {
    /// The speed with its unit.
    pub fn text(&self) -> String {
        match self {
            Speed::Rate { bytes, time } => {
                format!("{} GB/s", figures(*bytes as f64 / time.as_secs_f64() / 1e9))
            }
            Speed::Calls { count, time } => {
                format!("{} us/op", figures(time.as_secs_f64() * 1e6 / *count as f64))
            }
        }
    }
}
