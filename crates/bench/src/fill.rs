//! Fills of device memory, beside memset of the C library (for words wmemset) on one thread and on two, or
//! beside the CUDA driver's.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use ferry_abi::error::ensure;
use ferry_abi::memory::{Block, Home};
use ferry_abi::session::Session;
use ferry_abi::stream::Stream;
use ferry_abi::{Error, Result, library};

use crate::copiers::cuda::{CudaDriver, CudaStream};
use crate::peers::Peers;
use crate::pieces::PieceSpec;
use crate::sampling::Contender;
use crate::shape::{self, BLANK};

/// What every byte becomes in a fill with a byte.
const BYTE: u8 = 0x5A;
/// What every word becomes in a fill with words: no two of its bytes are alike.
const WORD: u32 = 0x1122_3344;
/// Bytes that a sample fills at least, and how often at most: small fills are repeated.
const LEAST: usize = 4 << 20;
const MOST_ROUNDS: usize = 256;
/// Bytes compared at a time.
const CHUNK: usize = 256 << 10;

/// What one fill and wait does.
#[derive(Clone)]
struct FillSpec {
    /// Where each fill begins, and its length.
    ranges: Vec<(usize, usize)>,
    /// Bytes of the target.
    room: usize,
    words: bool,
}

/// One fill of `len` bytes: Ferry; on the host backend the C library on one thread and on two; the driver.
pub fn contenders(
    session: &Session,
    peers: &Peers,
    len: usize,
    words: bool,
) -> Result<Vec<Box<dyn Contender>>> {
    let len = len.next_multiple_of(size_of::<u32>());
    let spec = FillSpec { ranges: vec![(0, len)], room: len, words };
    let mut all = spec.contenders(session, peers)?;
    if library::backend_name() == "host" {
        all.push(spec.contender(session, "2 threads", FilledBy::TwoThreads(HalfFiller::start()?))?);
    }
    Ok(all)
}

/// A fill of each piece, with as many bytes between them that stay as they are, beside the same.
pub fn of_pieces(session: &Session, peers: &Peers, pieces: PieceSpec) -> Result<Vec<Box<dyn Contender>>> {
    let (mut ranges, mut room) = (Vec::new(), 0);
    for len in pieces.lengths() {
        ranges.push((room, len));
        room += 2 * len;
    }
    FillSpec { ranges, room, words: false }.contenders(session, peers)
}

impl FillSpec {
    /// Ferry, and the C library on one thread or the driver.
    fn contenders(&self, session: &Session, peers: &Peers) -> Result<Vec<Box<dyn Contender>>> {
        let mut all = vec![self.contender(session, "ferry", FilledBy::Stream(session.stream()?))?];
        if library::backend_name() == "host" {
            let name = if self.words { "wmemset" } else { "memset" };
            all.push(self.contender(session, name, FilledBy::ThisThread)?);
        }
        if let Some(cuda) = peers.cuda() {
            let by = FilledBy::Cuda(cuda.clone(), CudaStream::new(cuda)?);
            all.push(self.contender(session, "CUDA", by)?);
        }
        Ok(all)
    }

    fn contender(&self, session: &Session, name: &'static str, by: FilledBy) -> Result<Box<dyn Contender>> {
        let home = if by.is_the_host() { Home::Locked } else { Home::Device };
        let target = Block::new(session.library, home, self.room)?;
        Ok(Box::new(FillContender { name, target, spec: self.clone(), by }))
    }
}

/// Fills its own memory again and again.
struct FillContender {
    name: &'static str,
    target: Block,
    spec: FillSpec,
    by: FilledBy,
}

/// Who fills.
enum FilledBy {
    Stream(Stream),
    Cuda(Arc<CudaDriver>, CudaStream),
    ThisThread,
    TwoThreads(HalfFiller),
}

impl FilledBy {
    fn is_the_host(&self) -> bool {
        matches!(self, FilledBy::ThisThread | FilledBy::TwoThreads(_))
    }
}

impl FillContender {
    /// All ranges once, and the wait.
    fn fill(&self) -> Result<()> {
        self.spec.ranges.iter().try_for_each(|(offset, len)| self.fill_range(*offset, *len))?;
        match &self.by {
            FilledBy::Stream(stream) => stream.synchronise(),
            FilledBy::Cuda(_, stream) => stream.synchronise(),
            FilledBy::ThisThread | FilledBy::TwoThreads(_) => Ok(()),
        }
    }

    fn fill_range(&self, offset: usize, len: usize) -> Result<()> {
        let (part, words) = (self.target.part(offset, len), self.spec.words);
        let whole = FillRange { start: part.at() as usize, len, words };
        match &self.by {
            FilledBy::Stream(stream) if words => stream.fill_words(part, WORD, len / size_of::<u32>()),
            FilledBy::Stream(stream) => stream.fill(part, BYTE.into(), len),
            // SAFETY: part of a block of the device that lives until the wait; the context is current while a
            // sample is taken.
            FilledBy::Cuda(_, stream) => unsafe {
                match words {
                    true => stream.fill_words(whole.start, WORD, len / size_of::<u32>()),
                    false => stream.fill(whole.start, BYTE, len),
                }
            },
            FilledBy::ThisThread => {
                // SAFETY: part of the block, which nothing else uses.
                unsafe { whole.fill() };
                Ok(())
            }
            FilledBy::TwoThreads(second) => {
                let half = whole.len / 2 / size_of::<u32>() * size_of::<u32>();
                let rest = FillRange { start: whole.start + half, len: whole.len - half, ..whole };
                let gone = || Error::Setup("the second memset thread has ended".to_owned());
                second.jobs.send(rest).map_err(|_| gone())?;
                // SAFETY: the first half of the block; the other thread writes the second.
                unsafe { FillRange { len: half, ..whole }.fill() };
                second.done.recv().map_err(|_| gone())
            }
        }
    }

    fn sample_now(&self) -> Result<Duration> {
        let bytes: usize = self.spec.ranges.iter().map(|(_, len)| len).sum();
        let rounds = (LEAST / bytes.max(1)).clamp(1, MOST_ROUNDS);
        let begin = Instant::now();
        (0..rounds).try_for_each(|_| self.fill())?;
        Ok(begin.elapsed() / rounds as u32)
    }

    /// Fails unless each of these bytes is one of `wanted`, in turn.
    fn compare(&self, (offset, len): (usize, usize), wanted: &[u8]) -> Result<()> {
        let wanted: Vec<u8> = wanted.iter().copied().cycle().take(CHUNK.min(len)).collect();
        let mut seen = vec![0; wanted.len()];
        for start in (0..len).step_by(CHUNK) {
            let part = CHUNK.min(len - start);
            self.target.read(offset + start, &mut seen[..part])?;
            if let Some(at) = (0..part).find(|at| seen[*at] != wanted[*at]) {
                let what = format!("byte {} of what {} filled", offset + start + at, self.name);
                ensure(false, &what, format!("{:#04x}", wanted[at]), format!("{:#04x}", seen[at]))?;
            }
        }
        Ok(())
    }
}

impl Contender for FillContender {
    fn name(&self) -> &'static str {
        self.name
    }

    fn sample(&mut self) -> Result<Duration> {
        match &self.by {
            FilledBy::Cuda(cuda, _) => cuda.within(|| self.sample_now()),
            _ => self.sample_now(),
        }
    }

    fn spoil(&mut self) -> Result<()> {
        shape::spoil(&self.target)
    }

    fn check(&mut self) -> Result<usize> {
        let pattern = if self.spec.words { WORD.to_ne_bytes() } else { [BYTE; 4] };
        let mut next = 0;
        for (offset, len) in &self.spec.ranges {
            self.compare((next, offset - next), &[BLANK])?;
            self.compare((*offset, *len), &pattern)?;
            next = offset + len;
        }
        self.compare((next, self.spec.room - next), &[BLANK])?;
        Ok(self.spec.room)
    }
}

/// A range for the C library to fill. The address is a number, since raw pointers are not `Send`.
#[derive(Clone, Copy)]
struct FillRange {
    start: usize,
    len: usize,
    words: bool,
}

impl FillRange {
    /// # Safety
    /// The range is host memory that nothing else uses meanwhile, of whole and aligned words if it is filled
    /// with these.
    unsafe fn fill(self) {
        let start = self.start as *mut libc::c_void;
        // Functions that the compiler knows nothing about: it drops a memset that the next one writes over.
        let (bytes, words) = black_box((
            libc::memset as unsafe extern "C" fn(_, _, _) -> _,
            wmemset as unsafe extern "C" fn(_, _, _) -> _,
        ));
        // SAFETY: the caller's promise.
        unsafe {
            match self.words {
                true => drop(words(start.cast(), WORD as i32, self.len / size_of::<u32>())),
                false => drop(bytes(start, BYTE.into(), self.len)),
            }
        }
    }
}

unsafe extern "C" {
    /// `wchar_t` has 32 bits on Linux.
    fn wmemset(to: *mut i32, word: i32, count: usize) -> *mut i32;
}

/// A second thread that fills, which lives as long as the peer: starting it is not measured.
struct HalfFiller {
    jobs: Sender<FillRange>,
    done: Receiver<()>,
}

impl HalfFiller {
    fn start() -> Result<HalfFiller> {
        let ((jobs, incoming), (answer, done)) = (channel::<FillRange>(), channel());
        let work = move || {
            for part in incoming {
                // SAFETY: the sender waits for the answer and keeps the block until then.
                unsafe { part.fill() };
                if answer.send(()).is_err() {
                    return;
                }
            }
        };
        let started = thread::Builder::new().name("second memset".to_owned()).spawn(work);
        started.map_err(|error| Error::Setup(format!("cannot start a thread: {error}")))?;
        Ok(HalfFiller { jobs, done })
    }
}
