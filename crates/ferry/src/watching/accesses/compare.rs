//! The observer of [`ComparedMemory`]: feeds it what engines do, and writes what it tells as facts.

use super::{
    compared::{ComparedMemory, Touch},
    ends::{StreamNumbers, ends, is_function, is_wait_for_gate},
};
use ferry_backends::{
    host::ViewWatch,
    os::{page::page_size, trap::Presence},
};
use ferry_core::{Block, DeviceTime, Error, Fate, Home, JoinKind, Observer, Origin, Point, Seen};
use ferry_watch::{
    Fact,
    clock::ticks,
    fact::{self, TouchedBytes},
    site,
    writer::FactWriter,
};
use std::{
    fmt,
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError},
    time::Instant,
};

/// What the process knows of memory in flight.
pub(in crate::watching) struct CompareWatch {
    memory: Mutex<ComparedMemory>,
    writer: &'static FactWriter,
    sees_pages: bool,
}

impl fmt::Debug for CompareWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CompareWatch")
    }
}

impl CompareWatch {
    pub(super) fn new(writer: &'static FactWriter) -> Arc<CompareWatch> {
        let memory = ComparedMemory::new(Presence::open());
        let sees_pages = memory.sees_pages();
        Arc::new(CompareWatch { memory: Mutex::new(memory), writer, sees_pages })
    }

    /// Whether touched pages are told, and not only changed bytes.
    pub(super) fn sees_pages(&self) -> bool {
        self.sees_pages
    }

    pub(super) fn observer(self: &Arc<CompareWatch>, first_stream: u32) -> Arc<dyn Observer> {
        Arc::new(EngineComparison { watch: self.clone(), streams: StreamNumbers(first_stream) })
    }

    /// The whole pages of blocks that are mapped twice, with the engine's address of each.
    pub(super) fn pages(&self) -> Vec<(Range<usize>, usize)> {
        let since = Instant::now();
        // Not for ever: a signal handler that forks may have interrupted the holder of the lock.
        while self.writer.is_here() && since.elapsed() < super::patience::PATIENCE {
            match self.memory.try_lock() {
                Ok(memory) => return memory.pages(page_size()).collect(),
                Err(TryLockError::Poisoned(memory)) => {
                    return memory.into_inner().pages(page_size()).collect();
                }
                Err(TryLockError::WouldBlock) => std::thread::yield_now(),
            }
        }
        Vec::new()
    }

    /// In a forked child a thread that is not there may have the lock, and nothing is in flight.
    fn memory(&self) -> Option<MutexGuard<'_, ComparedMemory>> {
        self.writer.is_here().then(|| self.memory.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn tell(&self, all: Vec<Touch>) {
        for Touch { point, user, is_write, is_destination } in all {
            let (time, site) = (ticks(), site::current());
            let (address, len) = (user.start as u64, user.len() as u64);
            let touched = TouchedBytes { time, site, address, len, is_write, point, is_destination };
            self.writer.write(&Fact::Touched(touched));
        }
    }
}

impl ViewWatch for CompareWatch {
    fn viewed(&self, user: Range<usize>, at: usize) {
        if let Some(mut memory) = self.memory() {
            memory.viewed(user, at);
        }
    }

    fn gone(&self, user: Range<usize>) {
        if let Some(mut memory) = self.memory() {
            memory.gone(&user);
        }
    }

    /// Threads of the program's may use it all the time, and nothing could have them wait.
    fn double(&self, _: Range<usize>) -> Option<usize> {
        None
    }
}

/// Tells what an engine does.
struct EngineComparison {
    watch: Arc<CompareWatch>,
    streams: StreamNumbers,
}

impl EngineComparison {
    fn point(&self, point: Point) -> fact::Point {
        self.streams.point(point)
    }
}

impl Observer for EngineComparison {
    fn known(&self, block: &Block) {
        let is_own = matches!(block.origin, Origin::Allocated | Origin::Registered);
        if block.home == Home::Host
            && is_own
            && let Some(mut memory) = self.watch.memory()
        {
            memory.known(block.base..block.base + block.len, block.at);
        }
    }

    fn forgotten(&self, block: &Block) {
        let mut told = Vec::new();
        if block.home == Home::Host
            && let Some(mut memory) = self.watch.memory()
        {
            memory.forgotten(block.base, &mut told);
        }
        self.watch.tell(told);
    }

    fn made(&self, op: Point, what: Seen<'_>) {
        let (point, awaits, mut all) = (self.point(op), self.streams.awaits(what), Vec::new());
        ends(what, &mut |at, len, is_written| all.push((at, len, is_written)));
        if let Some(mut memory) = self.watch.memory() {
            memory.submitted(point, &awaits);
            // A callback is a function of the program's as well.
            if is_function(what) || is_wait_for_gate(what) {
                memory.function(point);
            }
            memory.add(point, &all, false);
        }
    }

    fn refused(&self, op: Point, _: &Error) {
        if let Some(mut memory) = self.watch.memory() {
            memory.refused(self.point(op));
        }
    }

    fn begun(&self, op: Point, _: bool) {
        if let Some(mut memory) = self.watch.memory() {
            memory.begun(self.point(op));
        }
    }

    fn passed(&self, op: Point, _: Fate, _: Option<DeviceTime>) {
        if let Some(mut memory) = self.watch.memory() {
            memory.passed(self.point(op));
        }
    }

    fn resolved(&self, op: Point, (dst, src, len): (usize, usize, usize)) {
        if let Some(mut memory) = self.watch.memory() {
            memory.add(self.point(op), &[(src, len, false), (dst, len, true)], true);
        }
    }

    fn stream_gone(&self, stream: u64) {
        if let Some(mut memory) = self.watch.memory() {
            memory.joins().gone(self.point(Point { stream, ticket: 0 }).stream);
        }
    }

    fn bound(&self, gate: u64, to: Option<Point>) {
        if let Some(mut memory) = self.watch.memory() {
            memory.joins().bound(gate, to.map(|point| self.point(point)));
        }
    }

    fn joined(&self, point: Point, how: JoinKind) {
        if how == JoinKind::Launch {
            return;
        }
        let mut told = Vec::new();
        if let Some(mut memory) = self.watch.memory() {
            if how == JoinKind::Abort {
                memory.joins().aborted(self.point(point));
            }
            memory.joined(self.point(point), &mut told);
        }
        // The program may have been told before, and what it did since then is no mistake.
        if how != JoinKind::Elsewhere {
            self.watch.tell(told);
        }
    }

    fn following(&self, over: &[Point]) {
        self.streams.follow(over);
    }
}
