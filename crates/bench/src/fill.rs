//! Fills of device memory, beside memset of the C library (for words wmemset) on one thread and on two.

use std::hint::black_box;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use ferry_abi::error::ensure;
use ferry_abi::memory::{Block, Home};
use ferry_abi::session::Session;
use ferry_abi::stream::Stream;
use ferry_abi::{Error, Result, library};

use crate::sampling::Contender;
use crate::shape;

/// What every byte becomes in a fill with a byte.
const BYTE: u8 = 0x5A;
/// What every word becomes in a fill with words: no two of its bytes are alike.
const WORD: u32 = 0x1122_3344;
/// Bytes that a sample fills at least, and how often at most: small fills are repeated.
const LEAST: usize = 4 << 20;
const MOST_ROUNDS: usize = 256;
/// Bytes compared at a time.
const CHUNK: usize = 256 << 10;

/// Ferry and, on the host backend, the C library on one thread and on two.
pub fn contenders(session: &Session, len: usize, words: bool) -> Result<Vec<Box<dyn Contender>>> {
    let len = len.next_multiple_of(size_of::<u32>());
    let filler = |name, home, by| {
        let target = Block::new(session.library, home, len)?;
        Ok::<_, Error>(Box::new(FillContender { name, target, words, by }) as Box<dyn Contender>)
    };
    let mut all = vec![filler("ferry", Home::Device, FilledBy::Stream(session.stream()?))?];
    if library::backend_name() == "host" {
        let name = if words { "wmemset" } else { "memset" };
        all.push(filler(name, Home::Locked, FilledBy::ThisThread)?);
        all.push(filler("2 threads", Home::Locked, FilledBy::TwoThreads(HalfFiller::start()?))?);
    }
    Ok(all)
}

/// Fills its own memory again and again.
struct FillContender {
    name: &'static str,
    target: Block,
    words: bool,
    by: FilledBy,
}

/// Who fills.
enum FilledBy {
    Stream(Stream),
    ThisThread,
    TwoThreads(HalfFiller),
}

impl FillContender {
    fn fill(&self) -> Result<()> {
        let all = self.target.all();
        let whole = FillRange { start: all.at() as usize, len: all.len(), words: self.words };
        match &self.by {
            FilledBy::Stream(stream) => {
                match self.words {
                    true => stream.fill_words(all, WORD, all.len() / size_of::<u32>())?,
                    false => stream.fill(all, BYTE.into(), all.len())?,
                }
                stream.synchronise()
            }
            FilledBy::ThisThread => {
                // SAFETY: all of the block, which nothing else uses.
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
}

impl Contender for FillContender {
    fn name(&self) -> &'static str {
        self.name
    }

    fn sample(&mut self) -> Result<Duration> {
        let rounds = (LEAST / self.target.len().max(1)).clamp(1, MOST_ROUNDS);
        let begin = Instant::now();
        (0..rounds).try_for_each(|_| self.fill())?;
        Ok(begin.elapsed() / rounds as u32)
    }

    fn spoil(&mut self) -> Result<()> {
        shape::spoil(&self.target)
    }

    fn check(&mut self) -> Result<usize> {
        let len = self.target.len();
        let pattern = if self.words { WORD.to_ne_bytes() } else { [BYTE; 4] };
        let wanted: Vec<u8> = pattern.into_iter().cycle().take(CHUNK.min(len)).collect();
        let mut seen = vec![0; wanted.len()];
        for start in (0..len).step_by(CHUNK) {
            let part = CHUNK.min(len - start);
            self.target.read(start, &mut seen[..part])?;
            if let Some(at) = (0..part).find(|at| seen[*at] != wanted[*at]) {
                let what = format!("byte {} of what {} filled", start + at, self.name);
                ensure(false, &what, format!("{:#04x}", wanted[at]), format!("{:#04x}", seen[at]))?;
            }
        }
        Ok(len)
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
