//! Waypoints: points of a stream that the thread which puts work there waits for itself, as staging does
//! between two portions. A doorbell tells of one; where there is none, an event does.

use crate::cuda::{
    driver::Current,
    stream::{Stream, doorbell::Completion, events::Event},
};
use ferry_core::{Result, sync::Arc};
use std::time::Duration;

/// A point of a stream.
pub struct Waypoint {
    stream: Arc<Stream>,
    sign: Sign,
}

/// What tells that a waypoint is reached.
enum Sign {
    Doorbell(Completion),
    Event(Arc<Event>),
}

impl Waypoint {
    /// Behind everything that is in the stream. No other thread puts work there.
    pub fn put(stream: &Arc<Stream>, current: &Current<'_>) -> Result<Waypoint> {
        let sign = match stream.ring_behind(current) {
            Some(completion) => Sign::Doorbell(completion),
            None => Sign::Event(stream.record(current, false)?),
        };
        Ok(Waypoint { stream: stream.clone(), sign })
    }

    /// Blocks until it is reached; `work` names what is before it in the error if that has failed.
    pub fn wait(&self, current: &Current<'_>, work: &str) -> Result<()> {
        match &self.sign {
            Sign::Doorbell(completion) if completion.wait(Duration::MAX) => Ok(()),
            // It takes long, or has failed.
            Sign::Doorbell(_) => self.stream.synchronize_in(current, work),
            Sign::Event(event) => event.synchronize_in(current, work),
        }
    }
}
