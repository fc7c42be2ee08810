//! What encoder and decoder of records know of the records before: they go through the same states, so that
//! numbers can be stored as differences from those that came before.

use super::model::Location;
use super::varint::Malformed;
use crate::fact::Nanos;

/// What came before.
#[derive(Default)]
pub struct CodecState {
    /// The time of the record before.
    pub time: Nanos,
    /// The byte behind the last destination.
    pub dst: Location,
    /// The byte behind the last source.
    pub src: Location,
    /// The last ticket of each stream.
    tickets: Vec<u64>,
}

impl CodecState {
    /// The last ticket of a stream.
    pub fn ticket(&mut self, stream: u32) -> Result<&mut u64, Malformed> {
        let stream = stream as usize;
        if stream >= STREAMS {
            return Err(Malformed(format!("stream {stream}, and a recording has at most {STREAMS}")));
        }
        if stream >= self.tickets.len() {
            self.tickets.resize(stream + 1, 0);
        }
        Ok(&mut self.tickets[stream])
    }
}

/// More streams than this are damage, not a program.
const STREAMS: usize = 1 << 24;
