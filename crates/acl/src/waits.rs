//! Waits of streams that no work of a stream ends: for a value in memory, and for an event no longer than a limit. One thread looks
//! after all of them; it starts with the first and ends when there has been none for a while. It also runs the user's function for
//! failures (`exceptions.rs`).

use crate::{
    Result,
    constants::ACL_ERROR_RT_DRV_INTERNAL_ERROR,
    error::fail,
    exceptions,
    state::{Engine, lock},
};
use ferry::engine::threads::{self, CALL_STACK};
use ferry_core::{Block, Error, Fence, Gate, Home, Op, Plan, QueueOptions, Request, Rows, Stream};
use std::{
    collections::{HashMap, hash_map::Entry},
    mem,
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// How long the thread sleeps between two looks: at first, and in the end if nothing happens.
const SHORTEST: Duration = Duration::from_micros(20);
const LONGEST: Duration = Duration::from_millis(1);

/// What a stream waits for.
pub(crate) enum Until {
    /// 64 bits of memory of the stream's device, by the user's address, are as the function says.
    Value(usize, Box<dyn Fn(u64) -> bool + Send>),
    /// The gate is opened by somebody else, at the latest so long after the stream came to it; else the stream's work fails.
    Limit(Duration, Error),
}

/// A stream that waits.
struct Wait {
    stream: Arc<Stream>,
    /// Done when the stream has come to the wait.
    before: Arc<dyn Fence>,
    gate: Arc<Gate>,
    /// Behind the wait: done with it still shut if the stream was aborted.
    passed: Arc<dyn Fence>,
    until: Until,
    since: Option<Instant>,
    engine: &'static Engine,
}

#[derive(Default)]
struct State {
    waits: Vec<Wait>,
    /// How many waits are about to be added.
    coming: usize,
    /// Something has happened that the thread may not have seen.
    has_news: bool,
    is_running: bool,
}

static STATE: Mutex<State> =
    Mutex::new(State { waits: Vec::new(), coming: 0, has_news: false, is_running: false });
static CHANGED: Condvar = Condvar::new();

/// Has later work of the stream wait, and gives the fence behind that. `gate` may be opened by others as well.
pub(crate) fn hold(
    engine: &'static Engine,
    stream: &Arc<Stream>,
    gate: Arc<Gate>,
    until: Until,
) -> Result<Arc<dyn Fence>> {
    start(1)?;
    let made = stream.fence().and_then(|before| {
        let passed = stream.wait_for(gate.clone())?;
        Ok(Wait { stream: stream.clone(), before, gate, passed, until, since: None, engine })
    });
    let mut state = lock(&STATE);
    state.coming -= 1;
    let wait = made?;
    let passed = wait.passed.clone();
    state.waits.push(wait);
    state.has_news = true;
    drop(state);
    CHANGED.notify_all();
    Ok(passed)
}

/// Has the thread look at once whether there is something to run.
pub(crate) fn nudge() {
    drop(start(0)); // without a thread, whoever is told of the failure has it run
    CHANGED.notify_all();
}

/// Starts the thread if it does not run, and keeps it for so many that are to come.
fn start(coming: usize) -> Result<()> {
    let mut state = lock(&STATE);
    if !state.is_running {
        threads::spawn("ferry-waits".into(), CALL_STACK, run)
            .map_err(|why| fail(ACL_ERROR_RT_DRV_INTERNAL_ERROR, format!("a thread for waits: {why}")))?;
        state.is_running = true;
    }
    state.coming += coming;
    state.has_news = true;
    Ok(())
}

fn run() {
    let (mut reader, mut pause) = (Reader::default(), SHORTEST);
    loop {
        exceptions::run_due();
        let mut waits = mem::take(&mut lock(&STATE).waits);
        let before = waits.len();
        waits.retain_mut(|wait| !wait.is_over(&mut reader));
        let mut state = lock(&STATE);
        let is_over = waits.len() < before;
        state.waits.append(&mut waits);
        if mem::take(&mut state.has_news) || is_over {
            pause = SHORTEST;
            continue;
        }
        pause = LONGEST.min(pause * 2);
        let is_idle = state.waits.is_empty() && state.coming == 0;
        let limit = if is_idle { threads::IDLE } else { pause };
        let (mut state, waited) = CHANGED.wait_timeout(state, limit).unwrap_or_else(PoisonError::into_inner);
        if is_idle && waited.timed_out() && !state.has_news {
            state.is_running = false;
            return;
        }
    }
}

impl Wait {
    /// Looks whether the wait is over, and lets the stream go on then.
    fn is_over(&mut self, reader: &mut Reader) -> bool {
        if self.passed.is_done() {
            return true;
        }
        if !self.before.is_done() {
            return false;
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        let failure = match &self.until {
            Until::Value(addr, holds) => match reader.read(self.engine, self.stream.device(), *addr) {
                Ok(value) if !holds(value) => return false,
                Ok(_) => None,
                Err(error) => {
                    Some(error.kind.because(format!("aclrtValueWait at {addr:#x}: {}", error.note)))
                }
            },
            Until::Limit(limit, _) if since.elapsed() < *limit => return self.gate.is_done(),
            Until::Limit(..) if self.gate.is_done() => return true,
            Until::Limit(_, error) => Some(error.clone()),
        };
        if let Some(failure) = failure {
            self.stream.status().fail(failure);
        }
        self.gate.open();
        true
    }
}

/// Reads memory of devices by copies of the thread's own, into page-locked memory that it gives back when it ends.
#[derive(Default)]
struct Reader {
    streams: HashMap<u32, Arc<Stream>>,
    cell: Option<(&'static Engine, Block)>,
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Some((engine, cell)) = self.cell.take() {
            drop(engine.runtime.free(cell.base, |_| Ok(())));
        }
    }
}

impl Reader {
    /// 64 bits at the user's address.
    fn read(&mut self, engine: &'static Engine, device: u32, addr: usize) -> ferry_core::Result<u64> {
        let runtime = &engine.runtime;
        let cell = match self.cell {
            Some((_, cell)) => cell,
            None => {
                let cell = runtime.alloc(&Request { home: Home::Host, len: 8, page: 4096 })?;
                self.cell.insert((engine, cell)).1
            }
        };
        let stream = match self.streams.entry(device) {
            Entry::Occupied(there) => there.into_mut(),
            Entry::Vacant(room) => room.insert(runtime.stream(device, QueueOptions { waited: true })?),
        };
        let rows = Rows::linear(cell.base, addr, 8);
        // SAFETY: both ends are memory that the runtime knows, or the plan is refused; it stays until the copy has passed.
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
