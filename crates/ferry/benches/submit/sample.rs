//! What is measured, and with what.

use ferry::Result;
use std::{
    fmt,
    sync::mpsc::{self, Sender},
    time::{Duration, Instant},
};

/// Runs `body` and takes the time. `cargo xtask count` counts the instructions of `body` instead, which it
/// knows by this name.
pub fn measured<R>(body: impl FnOnce() -> R) -> (R, Duration) {
    let start = Instant::now();
    let result = counted(body);
    (result, start.elapsed())
}

#[inline(never)]
fn counted<R>(body: impl FnOnce() -> R) -> R {
    body()
}

/// Holds a stream until it is dropped: what is submitted meanwhile stays where it is, and nothing else
/// happens.
pub struct Hold {
    _let_go: Sender<()>,
}

impl Hold {
    /// `call` submits a function to the stream.
    pub fn new(call: impl FnOnce(Box<dyn FnOnce() + Send>) -> Result<()>) -> Hold {
        let (held, is_held) = mpsc::channel();
        let (let_go, go) = mpsc::channel::<()>();
        let wait = move || {
            held.send(()).expect("somebody waits for it");
            let _ = go.recv();
        };
        call(Box::new(wait)).expect("an open stream");
        is_held.recv().expect("the function says so");
        Hold { _let_go: let_go }
    }
}

/// What one side took for a piece, in nanoseconds: a cost for each sample, in the order they were taken.
#[derive(Default)]
pub struct Costs(Vec<f64>);

impl Costs {
    /// Adds a sample of `pieces` pieces.
    pub fn add(&mut self, took: Duration, pieces: usize) {
        self.0.push(took.as_secs_f64() * 1e9 / pieces as f64);
    }

    /// How many times as much as `other` this is: of the ratios of samples that were taken next to each
    /// other, the middle one.
    pub fn over(&self, other: &Costs) -> f64 {
        quantile(self.0.iter().zip(&other.0).map(|(this, other)| this / other), 0.5)
    }
}

/// The value that this share of them stays below.
fn quantile(values: impl Iterator<Item = f64>, share: f64) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * share).round() as usize]
}

impl fmt::Display for Costs {
    /// The median, and between what the middle half lies.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |share| quantile(self.0.iter().copied(), share);
        write!(f, "{:>8.1} {:>17}", at(0.5), format!("{:.1} to {:.1}", at(0.25), at(0.75)))
    }
}
