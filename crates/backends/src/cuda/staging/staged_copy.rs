//! A copy of pageable memory on its way through staging buffers.
//!
//! The thread that does the copy takes part and stays until it is done; helpers come from the pool, and leave
//! when no portion is left.

use crate::bytes::copy::{self, Cursor};
use crate::cuda::{
    driver::Current,
    staging::buffers::{BUFFER, DoubleBuffer, StagingBuffer, StagingPool},
    staging::portions::{Portions, places, size_of},
    stream::Stream,
    stream::copies::StreamCopier,
    stream::planner::Direction,
};
use ferry_core::{
    Error, Pieces, Plan, Result, Route, Rows, Segment,
    sync::{Arc, AtomicUsize, Condvar, Mutex, Ordering, lock},
};

/// A thread is woken for so many bytes: some 40 us of its time, as many as it takes to wake it.
const EACH: usize = 512 << 10;
/// A portion is no smaller than this, unless the copy is: the driver's calls take some 2 us for each.
const MIN_PORTION: usize = 128 << 10;
/// Portions for each thread at least, so that the CPU and the device work at the same time, and a thread that
/// comes late finds some.
const PORTIONS_EACH: usize = 4;

/// A copy that is being staged.
pub struct StagedCopy {
    pool: Arc<StagingPool>,
    stream: Arc<Stream>,
    device_part: DevicePart,
    portions: Portions,
    /// The portion that is taken next.
    next: AtomicUsize,
    helpers: Mutex<Helpers>,
    changed: Condvar,
}

/// The threads that help.
#[derive(Default)]
struct Helpers {
    /// How many are working on portions.
    busy: usize,
    /// The first failure.
    failed: Option<Error>,
}

/// A helper that is working on portions; when this is dropped, by a panic too, the copy waits for it no more.
struct Helper<'a>(&'a StagedCopy);

impl Drop for Helper<'_> {
    fn drop(&mut self) {
        lock(&self.0.helpers).busy -= 1;
        self.0.changed.notify_one();
    }
}

impl StagedCopy {
    /// Copies a plan. `stream` has done all that came before, and when this returns everything is done.
    pub fn run(
        pool: &Arc<StagingPool>,
        stream: &Arc<Stream>,
        current: &Current<'_>,
        plan: &Plan,
    ) -> Result<()> {
        let (device_part, bytes) = (DevicePart::of(stream, current, plan), plan.bytes());
        let threads = bytes.div_ceil(EACH).clamp(1, pool.max_threads());
        let size = size_of(bytes, threads * PORTIONS_EACH).clamp(MIN_PORTION, BUFFER);
        let host = |rows: &Rows| host_end(rows, device_part.is_into).0;
        let portions = Portions::new(plan.pieces().iter(), size, host);
        let copy = Arc::new(StagedCopy {
            pool: pool.clone(),
            stream: stream.clone(),
            device_part,
            portions,
            next: AtomicUsize::new(0),
            helpers: Mutex::default(),
            changed: Condvar::new(),
        });
        for _ in 1..copy.portions.count().min(threads) {
            let copy = copy.clone();
            // Where there are no threads for help the copy is done without.
            let _ = pool.threads().run(Box::new(move || copy.help()));
        }
        let buffers = pool.wait(stream, current);
        copy.end(buffers.and_then(|buffers| copy.work(current, &buffers)))
    }

    /// On a thread of the pool.
    fn help(&self) {
        let Some(_helper) = self.join() else { return };
        let Ok(current) = self.stream.device().enter() else { return };
        let Some(buffers) = self.pool.try_take(&self.stream, &current) else { return };
        if let Err(error) = self.work(&current, &buffers) {
            self.fail(error);
        }
    }

    /// Takes part, if anything is left to do.
    fn join(&self) -> Option<Helper<'_>> {
        let mut helpers = lock(&self.helpers);
        let is_late = self.next.load(Ordering::Relaxed) >= self.portions.count();
        (!is_late).then(|| {
            helpers.busy += 1;
            Helper(self)
        })
    }

    /// No portion is taken any more; returns when the helpers are done with theirs.
    fn end(&self, done: Result<()>) -> Result<()> {
        if let Err(error) = done {
            self.fail(error);
        }
        let mut helpers = lock(&self.helpers);
        while helpers.busy > 0 {
            helpers = self.changed.wait(helpers).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        helpers.failed.take().map_or(Ok(()), Err)
    }

    /// Portions that are left are not taken any more.
    fn fail(&self, error: Error) {
        self.next.store(self.portions.count(), Ordering::Relaxed);
        lock(&self.helpers).failed.get_or_insert(error);
    }

    fn take(&self) -> Option<&[Rows]> {
        self.portions.get(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Does portions until none is left.
    fn work(&self, current: &Current<'_>, buffers: &DoubleBuffer) -> Result<()> {
        let is_into = self.device_part.is_into;
        let done = if is_into { self.send(current, buffers) } else { self.fetch(current, buffers) };
        match done {
            Ok(()) => buffers.wait(current),
            // What was put into the stream last may have no waypoint behind it.
            Err(_) => done.and(buffers.drain(current)),
        }
    }

    fn send(&self, current: &Current<'_>, buffers: &DoubleBuffer) -> Result<()> {
        for buffer in buffers.both().iter().cycle() {
            let Some(pieces) = self.take() else { break };
            buffer.wait(current)?;
            self.move_by_cpu(buffer, pieces)?;
            self.move_by_device(current, buffers, buffer, pieces)?;
        }
        Ok(())
    }

    fn fetch(&self, current: &Current<'_>, buffers: &DoubleBuffer) -> Result<()> {
        let mut begun: Option<(&StagingBuffer, &[Rows])> = None;
        for buffer in buffers.both().iter().cycle() {
            let next = self.take();
            if let Some(pieces) = next {
                self.move_by_device(current, buffers, buffer, pieces)?;
            }
            if let Some((buffer, pieces)) = begun {
                buffer.wait(current)?;
                self.move_by_cpu(buffer, pieces)?;
            }
            begun = next.map(|pieces| (buffer, pieces));
            if begun.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// Between the user's memory and the buffer, through the caches. With non-temporal stores it is slower
    /// with many threads: on an H200 45 against 44 GB/s in, but 29 against 43 out.
    fn move_by_cpu(&self, buffer: &StagingBuffer, pieces: &[Rows]) -> Result<()> {
        // SAFETY: one end is in the buffer, which the device does not use now, the other in the plan, whose
        // memory is valid until `run` has returned.
        unsafe { move_by_cpu(in_buffer(buffer.at(), pieces, !self.device_part.is_into)) }
    }

    /// Moves pieces between the buffer and the device, in the stream of the buffers.
    fn move_by_device(
        &self,
        current: &Current<'_>,
        buffers: &DoubleBuffer,
        buffer: &StagingBuffer,
        pieces: &[Rows],
    ) -> Result<()> {
        self.device_part.put(buffers.stream(), current, buffer.at(), pieces)?;
        buffer.mark(current, buffers.stream())
    }
}

/// What the device does of a copy that is staged, portion by portion.
#[derive(Clone, Copy)]
pub struct DevicePart {
    /// Into the device, not out of it.
    pub is_into: bool,
    /// The direction of all pieces, if kernels may do them: then those of a portion go as one list.
    direction: Option<Direction>,
}

impl DevicePart {
    /// Of a plan that `stream` was given.
    pub fn of(stream: &Stream, current: &Current<'_>, plan: &Plan) -> DevicePart {
        let direction = stream.direction_of_all(plan).filter(|_| stream.may_launch(current));
        DevicePart { is_into: is_into(plan), direction }
    }

    /// Has `stream` move the pieces of a portion between the buffer at `at` and the device.
    pub fn put(&self, stream: &Stream, current: &Current<'_>, at: usize, pieces: &[Rows]) -> Result<()> {
        let mut rows = in_buffer(at, pieces, self.is_into);
        let is_list = pieces.len() > 1 && pieces.iter().all(|rows| rows.height == 1);
        if let Some(direction) = self.direction.filter(|_| is_list) {
            let segments: Vec<_> = rows.map(|rows| Segment::of(&rows)).collect();
            return StreamCopier::new(stream, current, direction).send(&segments);
        }
        rows.try_for_each(|rows| stream.copy_rows(current, &rows))
    }
}

/// Whether a copy of pageable memory goes into the device, not out of it.
pub fn is_into(plan: &Plan) -> bool {
    matches!(plan.route(), Route::HostToDevice { .. })
}

/// Where the rows of a piece begin in the host's memory, and their pitch.
pub fn host_end(rows: &Rows, is_into: bool) -> (usize, usize) {
    if is_into { (rows.src, rows.src_pitch) } else { (rows.dst, rows.dst_pitch) }
}

/// Moves rows of a portion by the CPU.
///
/// # Safety
/// All of them are valid, or not mapped, which is the failure; and nothing else uses them now.
pub unsafe fn move_by_cpu(rows: impl Iterator<Item = Rows>) -> Result<()> {
    let rows: Vec<_> = rows.collect();
    let pieces = Pieces::Rows(&rows);
    // SAFETY: the caller's promise.
    let done = unsafe { copy::advance_part(pieces, &mut Cursor::default(), usize::MAX, BUFFER) };
    done.map(drop).map_err(|fault| fault.of_copy(pieces))
}

/// The pieces with one end in the staging buffer at `at`, where their rows touch: the source, or the
/// destination.
pub fn in_buffer(at: usize, pieces: &[Rows], is_source: bool) -> impl Iterator<Item = Rows> {
    places(pieces).map(move |(place, rows)| {
        if is_source {
            Rows { src: at + place, src_pitch: rows.width, ..*rows }
        } else {
            Rows { dst: at + place, dst_pitch: rows.width, ..*rows }
        }
    })
}
