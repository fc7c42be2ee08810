//! A pipeline of chunks through device memory: one thread reads and uploads them, another compares and writes
//! what was downloaded, and the copies overlap with both.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use ferry::{Device, DeviceBuffer, Event, HostBuffer, InFlight, Part, Stream};
use ferry_abi::{Error, Result};

use super::endpoint::Endpoint;

/// How far apart the bytes are that are made wrong in a buffer before a chunk is copied into it.
const SPOILT_EVERY: usize = 4096;

/// The two streams, and the buffers for as many chunks as are in flight at a time.
pub struct Pipeline {
    streams: Streams,
    free_buffers: Vec<ChunkBuffers>,
}

/// What was copied, and how long it took.
pub struct Totals {
    /// Bytes that came back right.
    pub bytes: u64,
    /// How long all uploads took, and all downloads; `None` where the backend cannot tell.
    pub ways: Option<(Duration, Duration)>,
}

/// One stream for each direction, so that uploads and downloads overlap.
struct Streams {
    up: Stream,
    down: Stream,
}

/// The memory of one chunk: page-locked source, device memory, page-locked target. Reused for a later chunk.
struct ChunkBuffers {
    sent: HostBuffer<u8>,
    there: DeviceBuffer<u8>,
    back: HostBuffer<u8>,
}

/// A chunk whose copies are submitted. Its tokens keep the buffers until the copies are done.
struct ChunkInFlight {
    len: usize,
    sent: InFlight<Part<HostBuffer<u8>>>,
    there: DeviceBuffer<u8>,
    back: InFlight<Part<HostBuffer<u8>>>,
    up: CopySpan,
    down: CopySpan,
}

/// Events recorded before and after a copy.
struct CopySpan {
    start: Event,
    end: Event,
}

impl Pipeline {
    /// Allocates all buffers, `depth` chunks of `chunk` bytes.
    pub fn prepare(device: &Device, chunk: usize, depth: usize) -> ferry::Result<Pipeline> {
        let streams = Streams { up: device.stream()?, down: device.stream()? };
        let buffers = |_| {
            let host = || device.runtime().alloc_host(chunk);
            Ok(ChunkBuffers { sent: host()?, there: device.alloc(chunk)?, back: host()? })
        };
        Ok(Pipeline { streams, free_buffers: (0..depth).map(buffers).collect::<ferry::Result<_>>()? })
    }

    /// Copies all of `src` through the device, and gives what came back to `write`, in order.
    pub fn run(self, src: Endpoint, mut write: impl FnMut(&[u8]) -> Result<()>) -> Result<Totals> {
        let Pipeline { streams, free_buffers } = self;
        let ((free, idle), (submit, submitted)) = (channel(), channel());
        for buffers in free_buffers {
            free.send(buffers).expect("the other end is in this function");
        }
        // It is not waited for when writing fails: it may be reading from a terminal.
        let sender = thread::Builder::new()
            .spawn(move || upload_all(src, &streams, &idle, &submit))
            .map_err(|error| Error::Setup(format!("cannot start a thread: {error}")))?;

        let mut totals = Totals { bytes: 0, ways: Some(Default::default()) };
        for chunk in submitted {
            let buffers = totals.finish(chunk?, &mut write)?;
            // Refused when everything was submitted: the buffers are not needed any more.
            let _ = free.send(buffers);
        }
        sender.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok(totals)
    }
}

/// Reads and submits chunks until the source ends, something fails, or the receiver is gone. A failure
/// follows the chunks that were submitted before it.
fn upload_all(
    mut src: Endpoint,
    streams: &Streams,
    idle: &Receiver<ChunkBuffers>,
    submit: &Sender<Result<ChunkInFlight>>,
) {
    while let Ok(mut buffers) = idle.recv() {
        let chunk = match src.fill(&mut buffers.sent) {
            Ok(0) => return,
            Ok(len) => streams.submit(buffers, len).map_err(failed),
            Err(error) => Err(error),
        };
        let is_last = chunk.is_err();
        if submit.send(chunk).is_err() || is_last {
            return;
        }
    }
}

impl Streams {
    /// Submits both copies of the first `len` bytes, and waits for neither.
    fn submit(&self, buffers: ChunkBuffers, len: usize) -> ferry::Result<ChunkInFlight> {
        let ChunkBuffers { sent, there, mut back } = buffers;
        spoil(&mut back[..len], &sent[..len]);
        let chunk = there.slice(..len)?;
        self.up.fill_bytes(chunk.slice(..len.min(SPOILT_EVERY))?, !sent[0])?;

        let start = self.up.record()?;
        let sent = self.up.upload(chunk, sent.into_slice(..len)?)?;
        let up = CopySpan { start, end: self.up.record()? };

        self.down.wait_for(&up.end)?;
        let start = self.down.record()?;
        let back = self.down.download(back.into_slice(..len)?, chunk)?;
        let down = CopySpan { start, end: self.down.record()? };

        Ok(ChunkInFlight { len, sent, there, back, up, down })
    }
}

impl Totals {
    /// Waits for the chunk, compares it, and passes it on.
    fn finish(
        &mut self,
        chunk: ChunkInFlight,
        write: &mut impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<ChunkBuffers> {
        let ChunkInFlight { len, sent, there, back, up, down } = chunk;
        let sent = sent.wait().map_err(failed)?.into_inner();
        let back = back.wait().map_err(failed)?.into_inner();
        compare(&sent[..len], &back[..len], self.bytes)?;
        write(&back[..len])?;

        self.bytes += len as u64;
        // The copy is done, but the moment after it may still be to come. It is the last of the four.
        down.end.wait().map_err(failed)?;
        let times = up.time().zip(down.time());
        self.ways = self.ways.zip(times).map(|((ups, downs), (up, down))| (ups + up, downs + down));
        Ok(ChunkBuffers { sent, there, back })
    }
}

impl CopySpan {
    fn time(&self) -> Option<Duration> {
        self.end.duration_since(&self.start)
    }
}

fn failed(error: impl Into<ferry::Error>) -> Error {
    Error::Setup(format!("a copy failed: {}", error.into()))
}

/// Writes a wrong byte to every page of a target, so that a copy that did nothing is noticed even in a file
/// of zeros.
fn spoil(back: &mut [u8], sent: &[u8]) {
    for (back, sent) in back.chunks_mut(SPOILT_EVERY).zip(sent.chunks(SPOILT_EVERY)) {
        back[0] = !sent[0];
    }
}

/// Fails with the first difference; `before` bytes came earlier.
fn compare(sent: &[u8], back: &[u8], before: u64) -> Result<()> {
    if sent == back {
        return Ok(());
    }
    let mut wrong = sent.iter().zip(back).enumerate().filter(|(_, (sent, back))| sent != back);
    let (at, (expected, seen)) = wrong.next().expect("they are not equal");
    Err(Error::Wrong {
        what: format!("byte {} ({} bytes of this chunk are wrong)", before + at as u64, 1 + wrong.count()),
        expected: format!("{expected:#04x}"),
        seen: format!("{seen:#04x}"),
        code: None,
    })
}

#[cfg(test)]
mod tests {
    use super::{compare, spoil};

    #[test]
    fn a_wrong_byte_is_told_with_its_place_in_the_file() {
        assert!(compare(b"same", b"same", 100).is_ok());
        let error = compare(b"the ferry", b"the furrY", 4096).unwrap_err().to_string();
        assert_eq!(error, "byte 4101 (2 bytes of this chunk are wrong): expected 0x65, saw 0x75");
    }

    #[test]
    fn a_spoilt_buffer_differs_on_every_page() {
        for len in [1, 4096, 4097, 10_000] {
            let (sent, mut back) = (vec![0; len], vec![0; len]);
            spoil(&mut back, &sent);
            assert_ne!(back[0], 0);
            assert_eq!(back.chunks(4096).filter(|page| **page == vec![0; page.len()]).count(), 0, "{len}");
        }
    }
}
