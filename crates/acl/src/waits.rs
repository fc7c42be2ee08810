//! Waits of streams that no work of a stream ends: for a value in memory, and for an event no longer than a
//! limit.
//!
//! One thread polls all of them. It starts with the first and ends when there has been none for a while. It
//! also runs errands for others, which must not run on the thread where they come up (`exceptions.rs`). It
//! knows the engine's runtime and nothing of AscendCL's objects.

use ferry::engine::threads::{self, CALL_STACK};
use ferry_core::{
    Block, Error, Fence, Gate, Home, Kind, Op, Plan, QueueOptions, Request, Result, Rows, Runtime, Stream,
    Ticket, sync::lock,
};
use std::{
    collections::{HashMap, hash_map::Entry},
    mem,
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// How long the thread sleeps between two polls at first.
const SHORTEST_PAUSE: Duration = Duration::from_micros(20);
/// How long it sleeps in the end, if nothing happens.
const LONGEST_PAUSE: Duration = Duration::from_millis(1);

/// What a stream waits for.
pub(crate) enum Until {
    /// 64 bits of memory of the stream's device, by the user's address, are as the function says.
    Value(usize, Box<dyn Fn(u64) -> bool + Send>),
    /// The gate is opened elsewhere, at the latest so long after the stream came to it; else the stream's
    /// work fails.
    Limit {
        /// The longest time.
        limit: Duration,
        /// What the work fails with.
        error: Error,
        /// Takes the wait back when the time is up; false if that cannot be done now, since the gate is
        /// being opened.
        withdraw: Box<dyn Fn() -> bool + Send>,
    },
}

/// A stream that waits.
struct StreamWait {
    stream: Arc<Stream>,
    /// Done when the stream has come to the wait.
    before: Arc<dyn Fence>,
    gate: Arc<Gate>,
    /// Behind the wait: done with it still shut if the stream was aborted.
    passed: Arc<dyn Fence>,
    until: Until,
    since: Option<Instant>,
    runtime: &'static Runtime,
}

/// What the thread has to do.
#[derive(Default)]
struct Duties {
    waits: Vec<StreamWait>,
    /// What is to run once, as soon as possible.
    errand: Option<fn()>,
    /// How many waits are about to be added.
    coming: usize,
    /// Something has happened that the thread may not have seen.
    has_news: bool,
    is_running: bool,
}

static DUTIES: Mutex<Duties> =
    Mutex::new(Duties { waits: Vec::new(), errand: None, coming: 0, has_news: false, is_running: false });
static CHANGED: Condvar = Condvar::new();

/// Has later work of the stream wait, and returns the fence behind the wait. `gate` may be opened elsewhere
/// as well.
pub(crate) fn block(
    runtime: &'static Runtime,
    stream: &Arc<Stream>,
    gate: Arc<Gate>,
    until: Until,
) -> Result<Ticket> {
    start(1)?;
    let made = stream.fence().and_then(|before| {
        let ticket = stream.wait_for(gate.clone())?;
        let passed = stream.fence_after(ticket);
        Ok((ticket, StreamWait { stream: stream.clone(), before, gate, passed, until, since: None, runtime }))
    });
    let mut duties = lock(&DUTIES);
    duties.coming -= 1;
    let (ticket, wait) = made?;
    duties.waits.push(wait);
    duties.has_news = true;
    drop(duties);
    CHANGED.notify_all();
    Ok(ticket)
}

/// Has the thread run this, once, as soon as possible. If there is no thread to be had, it does not run.
pub(crate) fn run_soon(errand: fn()) {
    lock(&DUTIES).errand = Some(errand);
    drop(start(0));
    CHANGED.notify_all();
}

/// Starts the thread if it does not run, and keeps it for so many waits that are to come.
fn start(coming: usize) -> Result<()> {
    let mut duties = lock(&DUTIES);
    if !duties.is_running {
        threads::spawn("ferry-waits".into(), CALL_STACK, run)
            .map_err(|why| Kind::Device.because(format!("a thread for waits: {why}")))?;
        duties.is_running = true;
    }
    duties.coming += coming;
    duties.has_news = true;
    Ok(())
}

fn run() {
    let (mut reader, mut pause) = (CellReader::default(), SHORTEST_PAUSE);
    loop {
        let errand = lock(&DUTIES).errand.take();
        errand.iter().for_each(|run| run());
        let mut waits = mem::take(&mut lock(&DUTIES).waits);
        let before = waits.len();
        waits.retain_mut(|wait| !wait.is_over(&mut reader));
        let mut duties = lock(&DUTIES);
        let is_over = waits.len() < before;
        duties.waits.append(&mut waits);
        if mem::take(&mut duties.has_news) || is_over {
            pause = SHORTEST_PAUSE;
            continue;
        }
        pause = LONGEST_PAUSE.min(pause * 2);
        let is_idle = duties.waits.is_empty() && duties.coming == 0;
        let limit = if is_idle { threads::IDLE } else { pause };
        let (mut duties, waited) =
            CHANGED.wait_timeout(duties, limit).unwrap_or_else(PoisonError::into_inner);
        if is_idle && waited.timed_out() && !duties.has_news {
            duties.is_running = false;
            return;
        }
    }
}

impl StreamWait {
    /// Whether the wait is over; if so, the stream goes on.
    fn is_over(&mut self, reader: &mut CellReader) -> bool {
        if self.passed.is_done() {
            return true;
        }
        if !self.before.is_done() {
            return false;
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        let failure = match &self.until {
            Until::Value(addr, is_met) => match reader.read(self.runtime, self.stream.device(), *addr) {
                Ok(value) if !is_met(value) => return false,
                Ok(_) => None,
                // The stream was aborted since it was asked for: then its memory may go.
                Err(_) if self.passed.is_done() => return true,
                Err(error) => {
                    Some(error.kind.because(format!("aclrtValueWait at {addr:#x}: {}", error.note)))
                }
            },
            Until::Limit { limit, .. } if since.elapsed() < *limit => return self.gate.is_done(),
            Until::Limit { withdraw, .. } if !withdraw() => return self.gate.is_done(),
            Until::Limit { .. } if self.gate.is_done() => return true,
            Until::Limit { error, .. } => Some(error.clone()),
        };
        if let Some(failure) = failure {
            self.stream.status().fail(failure);
        }
        self.gate.open();
        true
    }
}

/// Reads memory of devices by copies of the thread's own, into page-locked memory that it frees when it ends.
#[derive(Default)]
struct CellReader {
    streams: HashMap<u32, Arc<Stream>>,
    cell: Option<(&'static Runtime, Block)>,
}

impl Drop for CellReader {
    fn drop(&mut self) {
        if let Some((runtime, cell)) = self.cell.take() {
            drop(runtime.free(cell.base, |_| Ok(())));
        }
    }
}

impl CellReader {
    /// 64 bits at the user's address.
    fn read(&mut self, runtime: &'static Runtime, device: u32, addr: usize) -> Result<u64> {
        let cell = match self.cell {
            Some((_, cell)) => cell,
            None => {
                let cell = runtime.alloc(&Request { home: Home::Host, len: 8, page: 4096 })?;
                self.cell.insert((runtime, cell)).1
            }
        };
        let stream = match self.streams.entry(device) {
            Entry::Occupied(there) => there.into_mut(),
            Entry::Vacant(room) => room.insert(runtime.stream(device, QueueOptions { waited: true })?),
        };
        let rows = Rows::linear(cell.base, addr, 8);
        // SAFETY: both ends are memory that the runtime knows, or the plan is refused; it stays until the
        // copy has passed.
        unsafe {
            stream.submit(|memory| {
                let plan = Plan::new(Some(rows), memory, |_, _| Ok(()));
                plan.map(Op::Copy).map_err(|misfit| misfit.error)
            })?;
        }
        stream.synchronize(None)?;
        // SAFETY: page-locked memory of this reader's, which the copy that just ended has written.
        Ok(unsafe { (cell.at as *const u64).read_volatile() })
    }
}
