//! The CPU's accesses to page-locked memory that an op in flight owns, as facts.
//!
//! If the watching command wants them, page-locked memory of the host backend is mapped twice, and the
//! program's view is watched (`ferry_backends::os::trap`). An observer of each engine keeps what is in flight
//! (`flights.rs`): when an op is made, its pages are armed; when the host joins it, nothing is done, and the
//! next access opens them. The judge of accesses compares bytes, and writes a fact where an access collides
//! with an op (`report.rs`), with lines of Python where that runs (`lines.rs`, `python_frames.rs`). Forked
//! children get memory of their own (`forking.rs`).
//!
//! Where userfaultfd is not allowed, what accesses have left behind is seen when work is joined:
//! `compared.rs` says how, and `compare.rs` is its observer.
//!
//! Arrows: `flights.rs` is plain data and `report.rs` writes facts; this module knows both and the trap.
//! `ends.rs` and `spans.rs` know none of the others.

mod compare;
mod compared;
mod ends;
mod flights;
mod forking;
mod lines;
mod patience;
mod python_frames;
mod python_threads;
mod report;
mod spans;

use compare::CompareWatch;
use ends::{StreamNumbers, ends, is_late_bound};
use ferry_backends::{
    host::ViewWatch,
    os::{
        page::page_size,
        trap::{
            self, DevicePointer, Judge, OpenPages, Opening, PageFault, Trap, TrappedAccess, Verdict,
            place::ThreadPlace, tell_pointers,
        },
    },
};
use ferry_core::{Block, DeviceTime, Error, Fate, Home, JoinKind, Observer, Origin, Point, Seen};
use ferry_watch::{Fact, clock::ticks, stacks, writer::FactWriter};
use flights::{Flight, Flights, ViewPages};
use patience::SteppedLock;
use report::AccessReporter;
use std::{
    fmt, io,
    ops::Range,
    sync::{
        Arc, Mutex, MutexGuard, Once, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};

/// How often a thread is stepped over accesses to one page, until that is armed anew; and if the process has
/// been stepped more often than so, and so often more for each op. What is found does not depend on time.
const MOST_STEPS: u32 = 20_000;
const FEW_STEPS: u32 = 64;
const STEPS_AT_ONCE: u64 = 400_000;
const STEPS_PER_OP: u64 = 100;
/// An op of so many bytes has its new pages brought into memory before anything is locked: some hundred MiB
/// take longer than anybody waits.
const LARGE_OP: usize = 4 << 20;
/// So many bytes are armed at a time: half a millisecond.
const ARMED_AT_ONCE: usize = 16 << 20;

/// What the process knows of accesses.
pub(crate) struct AccessWatch {
    flights: SteppedLock<Flights>,
    reporter: Mutex<AccessReporter>,
    trap: OnceLock<Trap>,
    writer: &'static FactWriter,
    /// Accesses that collided with something in flight, or were beside it.
    steps: AtomicU64,
    /// Counts ops; changed with the lock of the flights.
    moment: AtomicU64,
    /// Whether pages were opened that the flights could not be told of.
    has_opened_untold: AtomicBool,
}

impl fmt::Debug for AccessWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessWatch")
    }
}

/// Tells observers what other processes have waited for, if AscendCL's layer knows of any.
static ASK_ELSEWHERE: OnceLock<fn()> = OnceLock::new();

/// Before an access is told, `ask` is called: it tells observers of joins by other processes
/// ([`JoinKind::Elsewhere`]). It must not wait for threads of the program.
pub fn ask_elsewhere_by(ask: fn()) {
    let _ = ASK_ELSEWHERE.set(ask);
}

/// Where device pointers are told, which are seen whether or not accesses are.
static WRITER: OnceLock<&'static FactWriter> = OnceLock::new();
static OPENED: OnceLock<Option<HostWatch>> = OnceLock::new();

/// How accesses of this process are seen.
pub(super) enum HostWatch {
    /// Each when it happens.
    Trapped(Arc<AccessWatch>),
    /// By what they have left behind, when work is joined.
    Compared(Arc<CompareWatch>),
}

impl HostWatch {
    /// Is told of the program's views.
    pub(super) fn views(&self) -> Arc<dyn ViewWatch> {
        match self {
            HostWatch::Trapped(watch) => watch.clone(),
            HostWatch::Compared(watch) => watch.clone(),
        }
    }

    /// An observer of the engine whose streams are counted from `first_stream`.
    pub(super) fn observer(&self, first_stream: u32) -> Arc<dyn Observer> {
        match self {
            HostWatch::Trapped(watch) => watch.observer(first_stream),
            HostWatch::Compared(watch) => watch.observer(first_stream),
        }
    }

    /// The whole pages of blocks that are mapped twice and that a child has to itself, with the engine's
    /// address of each; nothing in a forked child.
    fn pages(&self) -> Vec<(Range<usize>, usize)> {
        match self {
            // Not for ever: a signal handler that forks may have interrupted the holder of the lock.
            HostWatch::Trapped(watch) if watch.writer.is_here() => {
                let pages = watch.flights_soon().map_or_else(Vec::new, |it| it.pages().collect::<Vec<_>>());
                pages.into_iter().flat_map(|(user, at)| watch.own_parts(&user, at)).collect()
            }
            HostWatch::Compared(watch) => watch.pages(),
            HostWatch::Trapped(_) => Vec::new(),
        }
    }
}

/// The accesses of this process, if they are wanted.
pub(super) fn open(writer: &'static FactWriter) -> Option<&'static HostWatch> {
    OPENED.get_or_init(|| begin(writer)).as_ref()
}

fn begin(writer: &'static FactWriter) -> Option<HostWatch> {
    if !writer.wanted().accesses {
        return None;
    }
    if is_under_valgrind() {
        let reason = "accesses of the CPU: valgrind runs the program";
        writer.write(&Fact::Unseen { reason: reason.into() });
        return None;
    }
    let _ = WRITER.set(writer);
    lines::find();
    let _ = tell_pointers(pointer_touched, lines::dump);
    forking::watch();
    let why = match trapped(writer) {
        Ok(watch) => return Some(HostWatch::Trapped(watch)),
        Err(why) => why,
    };
    let watch = CompareWatch::new(writer);
    let reads = if watch.sees_pages() { "reads of less than a page of it" } else { "reads of it" };
    let reason = format!(
        "the lines that touch memory in flight, {reads}, writes that change nothing, and unmapping of \
         registered memory: userfaultfd: {why} \
         (it needs root, CAP_SYS_PTRACE, access to /dev/userfaultfd, or the sysctl \
         vm.unprivileged_userfaultfd=1; in a container --cap-add SYS_PTRACE)"
    );
    writer.write(&Fact::Unseen { reason });
    Some(HostWatch::Compared(watch))
}

/// Valgrind runs a program's threads by itself: a signal for one that waits for a page does not reach it.
fn is_under_valgrind() -> bool {
    std::env::var_os("LD_PRELOAD").is_some_and(|list| list.to_string_lossy().contains("vgpreload"))
}

fn trapped(writer: &'static FactWriter) -> io::Result<Arc<AccessWatch>> {
    if writer.wanted().compared {
        return Err(io::Error::other("not asked for"));
    }
    let (flights, reporter) = (SteppedLock::new(Flights::new(page_size())), Mutex::default());
    let (trap, steps) = (OnceLock::new(), AtomicU64::new(0));
    let (moment, has_opened_untold) = (AtomicU64::new(0), AtomicBool::new(false));
    let accesses =
        Arc::new(AccessWatch { flights, reporter, trap, writer, steps, moment, has_opened_untold });
    let trap = Trap::open(accesses.clone(), lines::dump)?;
    let _ = accesses.trap.set(trap);
    Ok(accesses)
}

/// The CPU touched a device's address.
fn pointer_touched(pointer: DevicePointer) {
    let Some(writer) = WRITER.get() else { return };
    let DevicePointer { thread, address, is_write, frames } = pointer;
    // Told before its rights were taken away.
    if trap::devices::is_watched(address) {
        return lines::discard();
    }
    let frames = lines::put_into(frames, writer);
    let (time, address) = (ticks(), address as u64);
    let stack = stacks::tell(writer, frames);
    writer.write(&Fact::DevicePointer { time, thread, address, is_write, stack });
}

impl AccessWatch {
    /// An observer of the engine whose streams are counted from `first_stream`.
    pub(crate) fn observer(self: &Arc<AccessWatch>, first_stream: u32) -> Arc<dyn Observer> {
        let (accesses, streams) = (self.clone(), StreamNumbers(first_stream));
        Arc::new(EngineFlights { accesses, streams, functions: AtomicUsize::new(0) })
    }

    fn flights(&self) -> MutexGuard<'_, Flights> {
        self.flights.lock()
    }

    /// For the monitor: a thread of the program's that has the lock may be waiting for it in turn.
    fn flights_soon(&self) -> Option<MutexGuard<'_, Flights>> {
        let flights = self.flights.lock_soon();
        if flights.is_none() {
            self.has_opened_untold.store(true, Ordering::Release);
        }
        flights
    }

    /// What a forked child has to itself of pages: what it shares with its parent stays so.
    fn own_parts(&self, user: &Range<usize>, at: usize) -> Vec<(Range<usize>, usize)> {
        let parts = self.trap.get().map_or_else(Vec::new, |trap| trap.own_parts(user));
        parts.into_iter().map(|part| (part.clone(), at + (part.start - user.start))).collect()
    }

    /// Where the op uses registered memory that the program has unmapped, it uses what is there now.
    fn renew(&self, what: Seen<'_>) {
        let Some(trap) = self.trap.get().filter(|trap| trap.is_lacking()) else { return };
        let mut unseen = Vec::new();
        match is_late_bound(what) {
            true => unseen.extend(trap.renew(&(0..usize::MAX))),
            false => ends(what, &mut |at, len, _| unseen.extend(trap.renew(&(at..at + len)))),
        }
        unseen.into_iter().for_each(|range| self.flights().unmapped(&range));
    }

    /// Once in a process.
    fn tell_not_doubled(&self, why: &str) {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            let reason = format!("accesses to some registered memory are not seen: {why}");
            self.writer.write(&Fact::Unseen { reason });
        });
    }

    /// Memory of the program's own is not registered any more. Where an op still owns it, the program keeps
    /// the mapping that it has, so that what the op delivers arrives.
    fn unregistered(&self, block: &Block) {
        let page = page_size();
        let user = block.base / page * page..(block.base + block.len).next_multiple_of(page);
        let is_free = {
            let mut flights = self.flights();
            let is_free = !flights.is_in_flight(block.base);
            flights.forgotten(block.base);
            flights.gone(&user);
            is_free
        };
        if let Some(trap) = self.trap.get().filter(|_| is_free) {
            trap.unite(&user);
        }
    }

    /// What an access collides with.
    fn hit(&self, access: &TrappedAccess) -> Option<Flight> {
        let bytes = access.address..access.address + access.len;
        if bytes.is_empty() {
            return None;
        }
        self.flights_soon()?.hit(&bytes, access.is_write, (access.thread, access.moment))
    }

    fn reporter(&self) -> MutexGuard<'_, AccessReporter> {
        self.reporter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often a thread may be stepped over accesses to one page now.
    fn most_steps(&self) -> u32 {
        let steps = self.steps.fetch_add(1, Ordering::Relaxed);
        let budget = STEPS_AT_ONCE + STEPS_PER_OP * self.moment();
        if steps <= budget { MOST_STEPS } else { FEW_STEPS }
    }

    fn arm(&self, pages: &[ViewPages]) {
        let Some(trap) = self.trap.get() else { return };
        for ViewPages { user, at, is_new, .. } in pages {
            for start in user.clone().step_by(ARMED_AT_ONCE) {
                let part = start..user.end.min(start + ARMED_AT_ONCE);
                if *is_new {
                    let first = at + (start - user.start);
                    trap::populate(&(first..first + part.len()));
                }
                trap.arm(&part);
                self.flights.step();
            }
        }
    }
}

impl ViewWatch for AccessWatch {
    fn viewed(&self, user: Range<usize>, at: usize) {
        let Some(trap) = self.trap.get() else { return };
        match trap.watch(&user, at) {
            Ok(()) => self.flights().viewed(user, at),
            Err(why) => {
                let reason = format!("accesses of the CPU to memory in flight are not seen: {why}");
                self.writer.write(&Fact::Unseen { reason });
            }
        }
    }

    fn reserved(&self, addresses: Range<usize>) {
        if let Some(trap) = self.trap.get() {
            trap.watch_device(&addresses);
        }
    }

    fn gone(&self, user: Range<usize>) {
        self.flights().gone(&user);
        if let Some(trap) = self.trap.get() {
            trap.leave(&user);
        }
    }

    fn double(&self, user: Range<usize>) -> Option<usize> {
        match self.trap.get()?.double(&user) {
            Ok(at) => {
                self.viewed(user, at);
                Some(at)
            }
            Err(why) => {
                self.tell_not_doubled(&why);
                None
            }
        }
    }
}

impl Judge for AccessWatch {
    fn moment(&self) -> u64 {
        self.moment.load(Ordering::SeqCst)
    }

    fn open_around(
        &self,
        fault: &PageFault,
        can_protect: bool,
        open: &dyn Fn(&Range<usize>, Opening) -> bool,
    ) -> Option<OpenPages> {
        let page = fault.address / page_size() * page_size();
        let Some(mut flights) = self.flights_soon() else {
            self.reporter().left_open(self.writer);
            let pages = page..page + page_size();
            return Some(OpenPages { pages, how: Opening::Whole, is_done: false });
        };
        let free = flights.free_around(fault.address).map(|pages| (pages, Opening::Whole));
        let (pages, how) = match free {
            None if fault.is_write || !can_protect => return None,
            None => (flights.readable_around(fault.address)?, Opening::ForReading),
            Some(free) => free,
        };
        // With the lock: an op that is made now arms its pages behind this.
        let is_done = open(&pages, how);
        Some(OpenPages { pages, how, is_done })
    }

    fn opened(&self, pages: &Range<usize>, how: Opening) {
        let (Some(flights), Some(trap)) = (self.flights_soon(), self.trap.get()) else { return };
        // With the lock: what was armed for an op since these pages were chosen is open now.
        flights.wrongly_open(pages, how).iter().for_each(|pages| trap.arm(pages));
    }

    fn judge(&self, access: &TrappedAccess) -> Verdict {
        let Some(mut flights) = self.flights_soon() else { return Verdict::default() };
        // The library asks so whether memory that it is given can be read; a program has no use for it.
        let is_probe = access.place.system_call.is_some_and(|call| call.number == libc::SYS_madvise);
        let passes = flights.count_pass(access.address);
        drop(flights);
        let hit = || self.hit(access).filter(|_| !is_probe);
        // Another process may have waited for the op and told the program.
        let hit = hit().and_then(|first| match ASK_ELSEWHERE.get() {
            Some(ask) => {
                ask();
                hit()
            }
            None => Some(first),
        });
        let (mut reporter, op) = (self.reporter(), hit.as_ref().map(|hit| hit.point));
        reporter.expects_nothing();
        let wants_stack = hit.is_some_and(|hit| reporter.expect(access, hit));
        let is_sweep = reporter.is_sweep(access, op);
        let is_often = passes > self.most_steps() || is_sweep;
        Verdict { wants_stack, keeps_armed: !is_often || self.writer.wanted().precise }
    }

    fn engine_distance(&self, bytes: Range<usize>) -> Option<usize> {
        self.flights_soon()?.engine_distance(&bytes)
    }

    fn happens(&self, access: &TrappedAccess, frames: Option<Vec<u64>>, is_open: bool) {
        // It may be shorter than it was taken for, or begin later.
        let mut reporter = self.reporter();
        if reporter.is_beside(access) {
            let hit = self.hit(access);
            reporter.expects_instead(access, hit);
        }
        reporter.happens(self.writer, access, frames, is_open);
    }

    fn pointer(&self, access: &TrappedAccess, frames: Option<Vec<u64>>) {
        self.reporter().pointer(self.writer, access, frames);
    }

    fn unmapping(&self, thread: i32, place: ThreadPlace, range: Range<usize>) {
        let hit = self.flights_soon().and_then(|flights| flights.newest_in(&range));
        if let Some(hit) = hit {
            self.reporter().unmapping(self.writer, &range, &hit, (thread, place));
        }
    }

    fn unmapped(&self, range: Range<usize>) {
        if let Some(mut flights) = self.flights_soon() {
            flights.unmapped(&range);
        }
    }

    fn closed(&self) {
        let reason = "accesses of the CPU after the program had closed all descriptors, those of the checker \
                      among them (close them before aclInit, or leave those that the program did not open)";
        self.writer.write(&Fact::Unseen { reason: reason.into() });
    }
}

/// Keeps what an engine has in flight.
struct EngineFlights {
    accesses: Arc<AccessWatch>,
    streams: StreamNumbers,
    /// How many host functions run.
    functions: AtomicUsize,
}

impl EngineFlights {
    /// In a forked child a thread that is not there may have the lock, and nothing is in flight.
    fn flights(&self) -> Option<MutexGuard<'_, Flights>> {
        self.accesses.writer.is_here().then(|| self.accesses.flights())
    }

    /// An op that may be a host function has passed or returned.
    fn function_over(&self, op: Point) {
        if self.functions.load(Ordering::Acquire) > 0
            && let Some(mut flights) = self.flights()
        {
            let count = flights.function_over(self.streams.point(op));
            self.functions.fetch_sub(count, Ordering::AcqRel);
        }
    }

    /// Has the new pages of a large op be in memory, without the lock, for which the monitor does not wait as
    /// long as that may take.
    fn populate_large(&self, what: Seen<'_>) {
        let mut bytes = 0;
        ends(what, &mut |_, len, _| bytes += len);
        if bytes < LARGE_OP {
            return;
        }
        let mut new = Vec::new();
        if let Some(flights) = self.flights() {
            ends(what, &mut |at, len, _| new.extend(flights.new_pages(at, len)));
        }
        new.iter().for_each(|pages| {
            trap::populate(pages);
        });
    }
}

impl Observer for EngineFlights {
    fn known(&self, block: &Block) {
        let user = block.base..block.base + block.len;
        if block.home != Home::Host || block.base == block.at || !self.accesses.writer.is_here() {
            return;
        }
        // Physical memory has a view of its own for each place where it is mapped.
        if block.origin == Origin::Mapped {
            self.accesses.viewed(user.clone(), block.at);
        }
        self.accesses.flights().known(user, block.at);
    }

    fn forgotten(&self, block: &Block) {
        if block.home != Home::Host || block.base == block.at {
            return;
        }
        if block.origin == Origin::Registered && self.accesses.writer.is_here() {
            self.accesses.unregistered(block);
        } else if let Some(mut flights) = self.flights() {
            flights.forgotten(block.base);
            drop(flights);
            if block.origin == Origin::Mapped {
                self.accesses.gone(block.base..block.base + block.len);
            }
        }
    }

    fn made(&self, op: Point, what: Seen<'_>) {
        lines::note_thread();
        trap::kept_files::keep_here();
        let (point, awaits, mut pages) = (self.streams.point(op), self.streams.awaits(what), Vec::new());
        if self.accesses.writer.is_here() {
            self.accesses.renew(what);
        }
        self.populate_large(what);
        let Some(mut flights) = self.flights() else { return };
        let moment = self.accesses.moment.fetch_add(1, Ordering::SeqCst) + 1;
        if self.accesses.has_opened_untold.swap(false, Ordering::AcqRel) {
            flights.forget_armed();
        }
        if trap::has_let_go() {
            flights.arm_all();
        }
        flights.submitted(point, &awaits, moment);
        ends(what, &mut |at, len, is_written| {
            flights.add(point, at, len, is_written, &mut pages);
            self.accesses.flights.step();
        });
        ViewPages::merge(&mut pages, page_size());
        // With the lock: an access to a page that is armed finds what is in flight there.
        self.accesses.arm(&pages);
    }

    fn refused(&self, op: Point, _: &Error) {
        if let Some(mut flights) = self.flights() {
            flights.refused(self.streams.point(op));
        }
    }

    fn stream_gone(&self, stream: u64) {
        if let Some(mut flights) = self.flights() {
            flights.joins().gone(self.streams.point(Point { stream, ticket: 0 }).stream);
        }
    }

    fn bound(&self, gate: u64, to: Option<Point>) {
        if let Some(mut flights) = self.flights() {
            flights.joins().bound(gate, to.map(|point| self.streams.point(point)));
        }
    }

    fn passed(&self, op: Point, _: Fate, _: Option<DeviceTime>) {
        self.function_over(op);
    }

    fn returned(&self, Point { stream, ticket }: Point) {
        self.function_over(Point { stream, ticket: ticket + 1 });
    }

    fn joined(&self, point: Point, how: JoinKind) {
        match how {
            JoinKind::Launch => return,
            // Also told by the monitor, which must neither wait for the lock nor for itself.
            JoinKind::Elsewhere => {
                let flights = self.accesses.writer.is_here().then(|| self.accesses.flights_soon()).flatten();
                flights.into_iter().for_each(|mut it| it.joins().joined(self.streams.point(point)));
                return;
            }
            _ => {}
        }
        // With the lock: what is opened is not armed again meanwhile.
        if let (Some(trap), Some(mut flights)) = (self.accesses.trap.get(), self.flights()) {
            if how == JoinKind::Abort {
                flights.joins().aborted(self.streams.point(point));
            }
            flights.joined(self.streams.point(point), |pages| {
                trap.open_pages(pages);
                self.accesses.flights.step();
            });
            if how == JoinKind::Function {
                let function = Point { ticket: point.ticket + 1, ..point };
                // SAFETY: asks for a number.
                flights.function_begun(unsafe { libc::gettid() }, self.streams.point(function));
                self.functions.fetch_add(1, Ordering::AcqRel);
            }
        }
    }

    fn following(&self, over: &[Point]) {
        self.streams.follow(over);
    }
}
