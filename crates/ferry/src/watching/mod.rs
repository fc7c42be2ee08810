//! Facts about what an engine does, written for a command that watches the process.
//!
//! `ferry trace`, `ferry stat` and `ferry record` start a program with `FERRY_WATCH` set to a file of
//! theirs. An engine that is opened in such a process has an observer more (`observer`), which turns
//! what the core tells into facts (`translate.rs`) and writes them. AscendCL's layer adds calls and names
//! of its own through [`writer`]. Without the variable nothing of this exists.
//!
//! Arrows: this folder knows the core's observers and the crate of facts, and of this crate its options
//! alone.

mod accesses;
pub mod alone;
mod contents;
mod translate;

use crate::{BackendName, Options};
pub use accesses::ask_elsewhere_by;
use alone::OwnFile;
use contents::ContentReader;
use ferry_backends::{host::ViewWatch, os::files::above};
use ferry_core::{
    Block, DeviceEngine, DeviceTime, Error, Fate, JoinKind, Linear, Observer, Point, Seen, Stream,
    observe::TaskId as EngineTask,
};
use ferry_watch::{
    Fact,
    clock::{Rate, Sample, epoch, ticks},
    fact::{Awaited, Captured, Join, Joined, Outcome, Passed, Started, StreamMade, SubmittedOp, Work},
    site,
    writer::FactWriter,
};
use std::{
    cell::RefCell,
    collections::HashMap,
    env,
    fs::OpenOptions,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};
use translate::{MAX_FIRST_PIECES, ShowOptions, Shown};

/// The file of facts, as the starting command names it.
pub const VARIABLE: &str = "FERRY_WATCH";

/// Streams of one engine have numbers below this; a process that opens several engines has several such
/// ranges.
const STREAMS_OF_AN_ENGINE: u32 = 1 << 24;

/// The writer of this process, if it is watched: the environment is read once.
pub fn writer() -> Option<&'static FactWriter> {
    static WRITER: OnceLock<Option<FactWriter>> = OnceLock::new();
    WRITER.get_or_init(open).as_ref()
}

/// A command that has ended, or a file that is none, leaves the program alone.
fn open() -> Option<FactWriter> {
    let given = env::var_os(VARIABLE)
        .and_then(|path| above(|| OpenOptions::new().read(true).write(true).open(path)).ok())
        .and_then(|file| FactWriter::open(&file).ok());
    let writer = given.or_else(|| OWN.get_or_init(OwnFile::from_env).as_ref()?.writer())?;
    writer.write(&Fact::Started(started()));
    site::switch_on();
    // SAFETY: the function is there until the process ends: the library is never unloaded.
    unsafe { libc::atexit(at_exit) };
    Some(writer)
}

/// The file of a process that is traced by the environment alone.
static OWN: OnceLock<Option<OwnFile>> = OnceLock::new();

/// The process ends in order. A forked child of it, which has the same function, does nothing.
extern "C" fn at_exit() {
    let Some(writer) = writer().filter(|writer| writer.is_here()) else { return };
    writer.write(&Fact::Ended { time: ticks() });
    if let Some(Some(own)) = OWN.get() {
        ferry_core::fence::survives(|| own.finish());
    }
}

/// What the environment asks for; a program may open another engine.
fn started() -> Started {
    let options = Options::from_env().unwrap_or_default();
    Started {
        time: ticks(),
        epoch: epoch(),
        // SAFETY: it only asks.
        parent: unsafe { libc::getppid() } as u32,
        devices: options.devices.unwrap_or_default() as u32,
        backend: options.backend.to_string(),
        command: env::args_os().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" "),
    }
}

/// What facts call a stream of the first engine of the process, which is AscendCL's.
pub fn stream_number(stream: &Stream) -> u32 {
    stream.id() as u32
}

/// What watches the program's views of host memory, if that is wanted and can be done.
pub(crate) fn views() -> Option<Arc<dyn ViewWatch>> {
    accesses::open(writer()?).map(accesses::HostWatch::views)
}

/// What watches an engine of this process, if the process is watched.
pub(crate) fn observers(backend: BackendName) -> Vec<Arc<dyn Observer>> {
    static ENGINES: AtomicU32 = AtomicU32::new(0);
    let Some(writer) = writer() else { return Vec::new() };
    let first_stream = ENGINES.fetch_add(1, Ordering::Relaxed) * STREAMS_OF_AN_ENGINE;
    let is_host = backend == BackendName::Host;
    let (contents, start) = (ContentReader::new(writer, is_host), Sample::now());
    let (devices, resolved) = Default::default();
    let watcher = EngineWatcher { writer, first_stream, start, contents, is_host, devices, resolved };
    let accesses = is_host.then(|| accesses::open(writer)).flatten();
    if !is_host && writer.wanted().accesses {
        let reason = format!(
            "accesses of the CPU to memory in flight: they are the host backend's, and this is {backend}"
        );
        writer.write(&Fact::Unseen { reason });
    }
    let accesses = accesses.map(|accesses| accesses.observer(first_stream));
    let watcher: Arc<dyn Observer> = Arc::new(watcher);
    [watcher].into_iter().chain(accesses).collect()
}

/// So many ticks later is another nanosecond.
const LATER_TICKS: u64 = 64;

thread_local! {
    /// The op that was made and not submitted yet.
    static MADE: RefCell<Option<(SubmittedOp, Shown)>> = const { RefCell::new(None) };
    /// What the ops of this thread come after and do not wait for.
    static OVER: RefCell<Vec<Awaited>> = const { RefCell::new(Vec::new()) };
}

/// Turns what an engine tells into facts.
struct EngineWatcher {
    writer: &'static FactWriter,
    first_stream: u32,
    start: Sample,
    contents: ContentReader,
    is_host: bool,
    /// The device of each stream.
    devices: Mutex<HashMap<u64, u32>>,
    /// Late-bound copies of a device that have not passed, and when their addresses were read.
    resolved: Mutex<Vec<(Point, u64)>>,
}

impl EngineWatcher {
    fn point(&self, point: Point) -> ferry_watch::fact::Point {
        ferry_watch::fact::Point { stream: self.stream(point.stream), ticket: point.ticket }
    }

    fn stream(&self, stream: u64) -> u32 {
        self.first_stream + stream as u32
    }

    /// Keeps an op until it was taken or refused.
    #[inline(never)]
    fn keep(&self, op: Point, what: Seen<'_>) {
        let (first_stream, all_pieces) = (self.first_stream, self.writer.wanted().pieces);
        let device = || self.device_of(op.stream);
        let mut shown = translate::show(what, ShowOptions { first_stream, device: &device, all_pieces });
        let _ = OVER.try_with(|over| shown.awaits.extend(over.borrow().iter().copied()));
        let (time, point, site, task) = (ticks(), self.point(op), site::current(), site::task());
        let op = SubmittedOp { time, point, site, task, ..SubmittedOp::default() };
        let _ = MADE.try_with(|made| made.replace(Some((op, shown))));
    }

    /// Ops of a device have passed, from the ticket `first` on, which share their times.
    #[cold]
    fn passed_on_device(&self, first: u64, last: Point, outcome: Outcome, when: DeviceTime) {
        let DeviceTime { begin_ns, end_ns, together, engine } = when;
        let engine = if engine == DeviceEngine::Copy { 1 } else { 2 };
        // One line for both, so that they keep their order.
        let rate = Rate::between(self.start, Sample::now());
        // The clock of a device is not so exact that it would show that they ended after the host's part.
        let end =
            rate.ticks(end_ns).max(self.take_resolved(first, last).map_or(0, |ticks| ticks + LATER_TICKS));
        let begin = rate.ticks(begin_ns).min(end);
        let point = self.point(last);
        self.writer.passed_together(first, &Passed { point, begin, end, outcome, together, engine });
    }

    /// When the host last read addresses for these ops.
    fn take_resolved(&self, first: u64, last: Point) -> Option<u64> {
        let mut resolved = self.resolved.lock().unwrap_or_else(PoisonError::into_inner);
        let is_of = |op: &Point| op.stream == last.stream && (first..=last.ticket).contains(&op.ticket);
        resolved.extract_if(.., |(op, _)| is_of(op)).map(|(_, ticks)| ticks).max()
    }

    fn device_of(&self, stream: u64) -> u32 {
        let devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        devices.get(&stream).copied().unwrap_or_default()
    }
}

impl Observer for EngineWatcher {
    fn wants_details(&self) -> bool {
        self.contents.is_wanted()
    }

    fn known(&self, block: &Block) {
        let (time, site, asked) = (ticks(), site::current(), site::take_asked());
        let block = translate::block(block, asked);
        self.writer.write(&Fact::Known { time, site, block });
    }

    fn forgotten(&self, block: &Block) {
        let base = block.base as u64;
        self.writer.write(&Fact::Forgotten { time: ticks(), site: site::current(), base });
    }

    fn reused(&self, block: &Block) {
        let (base, at) = (block.base as u64, block.at as u64);
        self.writer.write(&Fact::Reused { time: ticks(), base, at });
    }

    fn stream_made(&self, stream: u64, device: u32) {
        self.devices.lock().unwrap_or_else(PoisonError::into_inner).insert(stream, device);
        let stream = self.stream(stream);
        let made = StreamMade { time: ticks(), stream, device, ..StreamMade::default() };
        self.writer.write(&Fact::StreamMade(made));
    }

    fn stream_gone(&self, stream: u64) {
        self.devices.lock().unwrap_or_else(PoisonError::into_inner).remove(&stream);
        self.writer.write(&Fact::StreamGone { time: ticks(), stream: self.stream(stream) });
    }

    fn made(&self, op: Point, what: Seen<'_>) {
        self.contents.made(self.point(op), what);
        // A copy in one piece is shown again when it was taken.
        if !matches!(what, Seen::Linear(_)) {
            self.keep(op, what);
        }
    }

    #[inline]
    fn submitted(&self, op: Point, copy: Option<&Linear>) {
        if let Some(copy) = copy {
            let (route, piece) = translate::linear(copy);
            return self.writer.submitted_linear(self.point(op), route, piece);
        }
        let Ok(Some((op, shown))) = MADE.try_with(RefCell::take) else { return };
        let Shown { work, awaits, more } = shown;
        let point = op.point;
        self.writer.write(&Fact::Submitted(SubmittedOp { work, awaits, ..op }));
        if !more.is_empty() {
            self.writer.write_pieces(point, &more);
        }
    }

    fn refused(&self, op: Point, _: &Error) {
        self.contents.forget(self.point(op));
        let Ok(Some((made, shown))) = MADE.try_with(RefCell::take) else { return };
        let SubmittedOp { time, site, point, .. } = made;
        self.writer.write(&Fact::Refused { time, stream: point.stream, site, work: shown.work });
    }

    fn begun(&self, op: Point, at_once: bool) {
        let point = self.point(op);
        self.contents.begun(point);
        self.writer.begun(point, at_once);
    }

    fn suspended(&self, op: Point) {
        self.writer.suspended(self.point(op));
    }

    fn failed(&self, op: Point, why: &Error) {
        let message = why.to_string();
        self.writer.write(&Fact::WorkFailed { time: ticks(), point: self.point(op), message });
    }

    fn passed(&self, op: Point, fate: Fate, when: Option<DeviceTime>) {
        let outcome = match fate {
            Fate::Done => Outcome::Done,
            Fate::Failed => Outcome::Failed,
            Fate::Dropped => Outcome::Dropped,
        };
        let point = self.point(op);
        self.contents.passed(point, outcome);
        match when {
            None if self.is_host => self.writer.passed(point, outcome),
            None => {
                self.take_resolved(op.ticket, op);
                self.writer.passed(point, outcome);
            }
            Some(when) => self.passed_on_device(op.ticket, op, outcome, when),
        }
    }

    fn passed_together(&self, first: u64, last: Point, when: DeviceTime) {
        if self.contents.is_wanted() {
            let points = (first..=last.ticket).map(|ticket| self.point(Point { ticket, ..last }));
            points.for_each(|point| self.contents.passed(point, Outcome::Done));
        }
        self.passed_on_device(first, last, Outcome::Done, when);
    }

    fn resolved(&self, op: Point, (dst, src, len): (usize, usize, usize)) {
        let (point, piece) = (self.point(op), translate::piece(dst, src, len));
        self.contents.resolved(point, piece);
        let time = ticks();
        self.writer.write(&Fact::Resolved { time, point, piece });
        if !self.is_host {
            self.resolved.lock().unwrap_or_else(PoisonError::into_inner).push((op, time));
        }
    }

    fn bound(&self, promise: u64, to: Option<Point>) {
        let point = to.map(|point| self.point(point));
        self.writer.write(&Fact::Bound { time: ticks(), promise, point });
    }

    fn joined(&self, point: Point, how: JoinKind) {
        let how = match how {
            JoinKind::Wait => Join::Wait,
            JoinKind::Query => Join::Query,
            JoinKind::Elsewhere => Join::Elsewhere,
            JoinKind::Function | JoinKind::Launch => Join::Function,
            JoinKind::Abort => Join::Abort,
        };
        let (time, site, point) = (ticks(), site::current(), self.point(point));
        if matches!(how, Join::Wait | Join::Abort) {
            site::note_wait(time);
        }
        self.writer.joined(&Joined { time, point, site, how });
    }

    fn capture_begun(&self, graph: u32, stream: u64) {
        let stream = self.stream(stream);
        self.writer.write(&Fact::CaptureBegun { time: ticks(), site: site::current(), graph, stream });
    }

    fn captured(&self, task: EngineTask, branch: usize, what: Seen<'_>) {
        let options = ShowOptions { first_stream: self.first_stream, device: &|| 0, all_pieces: false };
        let work: Work = translate::show(what, options).work;
        let (time, site, task) = (ticks(), site::current(), translate::task(task));
        self.writer.write(&Fact::Captured(Captured { time, site, task, branch: branch as u32, work }));
    }

    fn capture_ended(&self, graph: u32, is_graph: bool) {
        self.writer.write(&Fact::CaptureEnded { time: ticks(), site: site::current(), graph, is_graph });
    }

    fn executing(&self, task: Option<EngineTask>) {
        site::set_task(task.map(translate::task));
    }

    fn following(&self, over: &[Point]) {
        let points = over.iter().map(|point| Awaited::Point(self.point(*point)));
        let _ = OVER.try_with(|over| *over.borrow_mut() = points.collect());
    }

    fn launched(&self, graph: u32, last: Point) {
        let point = self.point(last);
        self.writer.write(&Fact::Launched { time: ticks(), site: site::current(), graph, point });
    }
}

const _: () = assert!(MAX_FIRST_PIECES <= 1024, "a fact with pieces fits into a buffer");
