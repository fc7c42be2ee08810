//! Chunks on their way up to a device and down again: one thread reads and sends them, another compares and
//! writes what came back, and the copies run meanwhile.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use ferry::{Device, DeviceBuffer, Event, HostBuffer, InFlight, Part, Stream};
use ferry_abi::{Error, Result};

use super::ends::End;

/// How far apart the bytes are that are made wrong before a chunk comes to them.
const SPOILT: usize = 4096;

/// The streams, and the memory for the chunks that are under way at a time.
pub struct Crossing {
    lanes: Lanes,
    boats: Vec<Boat>,
}

/// What came back, and how long the copies of either way took, where the backend can tell.
pub struct Tally {
    pub bytes: u64,
    pub ways: Option<(Duration, Duration)>,
}

struct Lanes {
    up: Stream,
    down: Stream,
}

/// What a chunk travels in. It is used again for another one when it is back.
struct Boat {
    sent: HostBuffer<u8>,
    there: DeviceBuffer<u8>,
    back: HostBuffer<u8>,
}

/// A boat under way. Nobody can touch the chunk before the copies are done.
struct Voyage {
    len: usize,
    sent: InFlight<Part<HostBuffer<u8>>>,
    there: DeviceBuffer<u8>,
    back: InFlight<Part<HostBuffer<u8>>>,
    up: Leg,
    down: Leg,
}

/// The moments before and after a copy.
struct Leg {
    start: Event,
    end: Event,
}

impl Crossing {
    /// Allocates all that will be needed.
    pub fn prepare(device: &Device, chunk: usize, depth: usize) -> ferry::Result<Crossing> {
        let lanes = Lanes { up: device.stream()?, down: device.stream()? };
        let boat = |_| {
            let host = || device.runtime().alloc_host(chunk);
            Ok(Boat { sent: host()?, there: device.alloc(chunk)?, back: host()? })
        };
        Ok(Crossing { lanes, boats: (0..depth).map(boat).collect::<ferry::Result<_>>()? })
    }

    /// Sends all of `src`, and gives what came back to `write`, in order.
    pub fn run(self, src: End, mut write: impl FnMut(&[u8]) -> Result<()>) -> Result<Tally> {
        let Crossing { lanes, boats } = self;
        let ((free, idle), (depart, arriving)) = (channel(), channel());
        for boat in boats {
            free.send(boat).expect("the other end is in this function");
        }
        // It is not waited for when writing fails: it may be reading from a terminal.
        let sender = thread::Builder::new()
            .spawn(move || send(src, &lanes, &idle, &depart))
            .map_err(|error| Error::Setup(format!("cannot start a thread: {error}")))?;

        let mut tally = Tally { bytes: 0, ways: Some(Default::default()) };
        for voyage in arriving {
            let boat = tally.land(voyage?, &mut write)?;
            // Where everything was sent, nobody needs it any more.
            let _ = free.send(boat);
        }
        sender.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok(tally)
    }
}

/// Reads and sends until there is no more, something fails, or nobody wants it. The failure comes after what
/// was sent.
fn send(mut src: End, lanes: &Lanes, idle: &Receiver<Boat>, depart: &Sender<Result<Voyage>>) {
    while let Ok(mut boat) = idle.recv() {
        let voyage = match src.fill(&mut boat.sent) {
            Ok(0) => return,
            Ok(len) => lanes.launch(boat, len).map_err(failed),
            Err(error) => Err(error),
        };
        let is_last = voyage.is_err();
        if depart.send(voyage).is_err() || is_last {
            return;
        }
    }
}

impl Lanes {
    /// Submits both copies of the first `len` bytes, and waits for neither.
    fn launch(&self, boat: Boat, len: usize) -> ferry::Result<Voyage> {
        let Boat { sent, there, mut back } = boat;
        spoil(&mut back[..len], &sent[..len]);
        let chunk = there.slice(..len)?;
        self.up.fill_bytes(chunk.slice(..len.min(SPOILT))?, !sent[0])?;

        let start = self.up.record()?;
        let sent = self.up.upload(chunk, sent.into_slice(..len)?)?;
        let up = Leg { start, end: self.up.record()? };

        self.down.wait_for(&up.end)?;
        let start = self.down.record()?;
        let back = self.down.download(back.into_slice(..len)?, chunk)?;
        let down = Leg { start, end: self.down.record()? };

        Ok(Voyage { len, sent, there, back, up, down })
    }
}

impl Tally {
    /// Waits for the chunk, compares it, and passes it on.
    fn land(&mut self, voyage: Voyage, write: &mut impl FnMut(&[u8]) -> Result<()>) -> Result<Boat> {
        let Voyage { len, sent, there, back, up, down } = voyage;
        let sent = sent.wait().map_err(failed)?.into_inner();
        let back = back.wait().map_err(failed)?.into_inner();
        compare(&sent[..len], &back[..len], self.bytes)?;
        write(&back[..len])?;

        self.bytes += len as u64;
        // The copy is done, but the moment after it may still be to come. It is the last of the four.
        down.end.wait().map_err(failed)?;
        let times = up.time().zip(down.time());
        self.ways = self.ways.zip(times).map(|((ups, downs), (up, down))| (ups + up, downs + down));
        Ok(Boat { sent, there, back })
    }
}

impl Leg {
    fn time(&self) -> Option<Duration> {
        self.end.duration_since(&self.start)
    }
}

fn failed(error: impl Into<ferry::Error>) -> Error {
    Error::Setup(format!("a copy failed: {}", error.into()))
}

/// Puts wrong bytes where right ones must come, so that a copy that did nothing is noticed even in a file of
/// zeros.
fn spoil(back: &mut [u8], sent: &[u8]) {
    for (back, sent) in back.chunks_mut(SPOILT).zip(sent.chunks(SPOILT)) {
        back[0] = !sent[0];
    }
}

/// Says where the first difference is; `before` bytes came earlier.
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
