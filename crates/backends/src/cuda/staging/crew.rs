//! Copies of pageable memory. The driver stages these itself, with one thread at a fifth of what the link can do; so large ones
//! and those of many rows are staged here: several threads move portions of the copy into page-locked chunks or out of them,
//! while the device moves others.
//!
//! Whoever wants the copy takes part and stays until it is done; the others come from the device's workers, and go when no
//! portion is left. They start when the lane has passed all that came before, so that nobody at a desk ever waits for another
//! lane, whose copy may want a desk as well.

mod cut;
mod desk;

use crate::bytes::copy::{self, Cursor};
use crate::cuda::{
    device::Device, driver::Current, order::queue::Lane, stream::planner::Way, stream::ring::Entry,
};
pub use cut::Portions;
use cut::places;
pub use desk::Desks;
use desk::{CHUNK, Chunk, Desk};
use ferry_core::{
    Error, Kind, Pieces, Plan, Result, Route, Rows,
    sync::{Arc, AtomicUsize, Condvar, Mutex, Ordering, lock},
};

/// From here on a row is staged on its way in; below, the driver is as fast. On an H200: 11.5 GB/s against its 13.4 for 2 MiB,
/// 14.7 against 13.8 for 4.
const LEAST_INTO: usize = 4 << 20;
/// The same on its way out: 6.8 against 8.5 for 512 KiB, 10 against 8.7 for 1 MiB.
const LEAST_OUT: usize = 1 << 20;
/// More pieces than these are staged, however short: the driver waits for each.
const FEW: usize = 4;
/// A portion is no smaller than this, unless the copy is: waking somebody for less takes longer than it saves.
const LEAST_PORTION: usize = 512 << 10;
/// Portions for each thread at least, so that the CPU and the device work at the same time.
const PORTIONS_EACH: usize = 2;

impl Lane {
    /// A copy between pageable memory and a device, of which the host's part is done when this returns. The driver refuses ranges
    /// that are page-locked in part, and may have no page-locked memory for us: what one way cannot do the other may.
    pub fn copy_plain(self: &Arc<Self>, plan: &Plan) -> Result<()> {
        let done = self.try_plain(plan);
        // Several threads may have put things into the stream, in any order.
        self.bell.ends_with(None);
        done
    }

    fn try_plain(self: &Arc<Self>, plan: &Plan) -> Result<()> {
        if self.is_locked_from_before(plan) {
            return self.copy_staged(plan);
        }
        if is_better_staged(plan) {
            // Memory that is gone is gone for the driver as well, which does not recover from that.
            let is_gone = |why: &Error| why.kind == Kind::BadAddress;
            self.copy_staged(plan).or_else(|why| match is_gone(&why) {
                true => Err(why),
                false => self.copy_by_driver(plan).map_err(|_| why),
            })
        } else {
            self.copy_by_driver(plan).or_else(|why| self.copy_staged(plan).map_err(|_| why))
        }
    }

    /// Whether some of the memory is yet to be unlocked: it is plain to everybody but the driver, which would use the pages of before,
    /// and there may be others by now. Nobody waits for those who are in the driver with that.
    fn is_locked_from_before(&self, plan: &Plan) -> bool {
        let (Ok(pinned), host) = (self.device.pinned.try_lock(), host_end(is_into(plan))) else {
            return true;
        };
        plan.pieces().iter().any(|rows| {
            let (start, pitch) = host(&rows);
            pinned.meets(start, pitch * (rows.height - 1) + rows.width)
        })
    }

    fn copy_by_driver(&self, plan: &Plan) -> Result<()> {
        // SAFETY: whoever submitted keeps the rows valid until the op has passed.
        plan.pieces().iter().try_for_each(|rows| unsafe { self.current().copy_rows(&rows, self.stream) })
    }

    fn copy_staged(self: &Arc<Self>, plan: &Plan) -> Result<()> {
        self.current().synchronize(self.stream, "the GPU's work before a copy of pageable memory")?;
        Arc::new(Staged::new(self.clone(), plan)).run(&self.current())
    }
}

fn is_into(plan: &Plan) -> bool {
    matches!(plan.route(), Route::HostToDevice { .. })
}

/// Where the rows of a piece begin in the host's memory, and how far they are apart.
fn host_end(is_into: bool) -> impl Fn(&Rows) -> (usize, usize) {
    move |rows| if is_into { (rows.src, rows.src_pitch) } else { (rows.dst, rows.dst_pitch) }
}

/// Whether the driver would be slower. It is at its worst with rectangles.
fn is_better_staged(plan: &Plan) -> bool {
    let (pieces, least) = (plan.pieces(), if is_into(plan) { LEAST_INTO } else { LEAST_OUT });
    pieces.len() > FEW || pieces.iter().any(|rows| rows.height > 1 || rows.width >= least)
}

/// A copy that is being staged.
struct Staged {
    lane: Arc<Lane>,
    /// Into the device, not out of it.
    is_into: bool,
    /// How small pieces go together, if a kernel of the lane's can reach them.
    way: Option<Way>,
    portions: Portions,
    /// The portion that is taken next.
    next: AtomicUsize,
    crew: Mutex<Crew>,
    changed: Condvar,
}

#[derive(Default)]
struct Crew {
    /// How many helpers are at it.
    helpers: usize,
    failed: Option<Error>,
}

/// Somebody who helps. Whatever becomes of him, when this goes nobody waits for him any more.
struct Helper<'a>(&'a Staged);

impl Drop for Helper<'_> {
    fn drop(&mut self) {
        lock(&self.0.crew).helpers -= 1;
        self.0.changed.notify_one();
    }
}

impl Staged {
    fn new(lane: Arc<Lane>, plan: &Plan) -> Staged {
        let (is_into, way) = (is_into(plan), lane.way_of_all(plan));
        let each = plan.bytes() / (lane.device.desks.most() * PORTIONS_EACH);
        let size = each.next_multiple_of(4096).clamp(LEAST_PORTION, CHUNK);
        let host = host_end(is_into);
        let portions = Portions::new(plan.pieces().iter(), size, |rows| host(rows).0);
        let (next, crew, changed) = (AtomicUsize::new(0), Mutex::default(), Condvar::new());
        Staged { lane, is_into, way, portions, next, crew, changed }
    }

    fn device(&self) -> &Device {
        &self.lane.device
    }

    /// Does all of it, with help.
    fn run(self: Arc<Self>, current: &Current<'_>) -> Result<()> {
        for _ in 1..self.portions.count().min(self.device().desks.most()) {
            let staged = self.clone();
            // Without a thread there is less help.
            let _ = self.device().workers.run(Box::new(move || staged.help()));
        }
        let desk = self.device().desks.wait(self.device(), current);
        let done = desk.and_then(|desk| self.work(current, &desk));
        self.end(done)
    }

    /// On a thread of the workers.
    fn help(&self) {
        let Some(_helper) = self.join() else { return };
        let Ok(current) = self.device().enter() else { return };
        let Some(desk) = self.device().desks.try_take(self.device(), &current) else { return };
        if let Err(error) = self.work(&current, &desk) {
            self.fail(error);
        }
    }

    /// Takes part, if anything is left to do.
    fn join(&self) -> Option<Helper<'_>> {
        let mut crew = lock(&self.crew);
        let is_late = self.next.load(Ordering::Relaxed) >= self.portions.count();
        (!is_late).then(|| {
            crew.helpers += 1;
            Helper(self)
        })
    }

    /// No portion is taken any more; returns when the helpers are done with theirs.
    fn end(&self, done: Result<()>) -> Result<()> {
        if let Err(error) = done {
            self.fail(error);
        }
        let mut crew = lock(&self.crew);
        while crew.helpers > 0 {
            crew = self.changed.wait(crew).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        crew.failed.take().map_or(Ok(()), Err)
    }

    /// What is left is not worth doing.
    fn fail(&self, error: Error) {
        self.next.store(self.portions.count(), Ordering::Relaxed);
        lock(&self.crew).failed.get_or_insert(error);
    }

    fn take(&self) -> Option<&[Rows]> {
        self.portions.get(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Does portions until none is left.
    fn work(&self, current: &Current<'_>, desk: &Desk) -> Result<()> {
        let done = if self.is_into { self.send(current, desk) } else { self.fetch(current, desk) };
        if done.is_err() {
            // What went by way of the lane may have no event behind it.
            let _ = self.lane.drain();
        }
        done.and(desk.wait(current))
    }

    fn send(&self, current: &Current<'_>, desk: &Desk) -> Result<()> {
        for chunk in desk.chunks().iter().cycle() {
            let Some(pieces) = self.take() else { break };
            chunk.wait(current)?;
            self.move_by_cpu(chunk, pieces)?;
            self.move_by_device(current, desk, chunk, pieces)?;
        }
        Ok(())
    }

    fn fetch(&self, current: &Current<'_>, desk: &Desk) -> Result<()> {
        let mut begun: Option<(&Chunk, &[Rows])> = None;
        for chunk in desk.chunks().iter().cycle() {
            let next = self.take();
            if let Some(pieces) = next {
                self.move_by_device(current, desk, chunk, pieces)?;
            }
            if let Some((chunk, pieces)) = begun {
                chunk.wait(current)?;
                self.move_by_cpu(chunk, pieces)?;
            }
            begun = next.map(|pieces| (chunk, pieces));
            if begun.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// Between the user's memory and the chunk, through the caches. Past them it is slower with many threads: on an H200 45
    /// against 44 GB/s in, but 29 against 43 out.
    fn move_by_cpu(&self, chunk: &Chunk, pieces: &[Rows]) -> Result<()> {
        // SAFETY: one end is in the chunk, which the device does not use now, the other in the plan, whose memory is valid until
        // `run` has returned.
        unsafe { move_by_cpu(in_chunk(chunk.at(), pieces, !self.is_into)) }
    }

    /// Between the chunk and the device. The lane is held or locked, and has nothing in its stream but what is put there here.
    fn move_by_device(
        &self,
        current: &Current<'_>,
        desk: &Desk,
        chunk: &Chunk,
        pieces: &[Rows],
    ) -> Result<()> {
        let mut rows = in_chunk(chunk.at(), pieces, self.is_into);
        let is_list = pieces.len() > 1 && pieces.iter().all(|rows| rows.height == 1);
        if let Some(way) = self.way.filter(|_| is_list) {
            let entries: Vec<_> = rows.map(entry).collect();
            self.lane.send(&entries, way)?;
            return chunk.record(current, self.lane.stream);
        }
        // SAFETY: one end is in the chunk, the other in the plan; both stay valid until the desk's stream was waited for.
        rows.try_for_each(|rows| unsafe { current.copy_rows(&rows, desk.stream()) })?;
        chunk.record(current, desk.stream())
    }
}

/// Moves rows of a portion.
///
/// # Safety
/// All of them are valid, or nobody's, which is the failure; and nobody else uses them now.
pub unsafe fn move_by_cpu(rows: impl Iterator<Item = Rows>) -> Result<()> {
    let rows: Vec<_> = rows.collect();
    let pieces = Pieces::Rows(&rows);
    // SAFETY: the caller's promise.
    let done = unsafe { copy::advance_part(pieces, &mut Cursor::default(), usize::MAX, CHUNK) };
    done.map(drop).map_err(|fault| fault.of_copy(pieces))
}

/// A row as a piece for a kernel.
pub fn entry(rows: Rows) -> Entry {
    Entry { dst: rows.dst as u64, src: rows.src as u64, len: rows.width as u64 }
}

/// The pieces with one end in the chunk at `at`, where their rows touch: the source, or the destination.
pub fn in_chunk(at: usize, pieces: &[Rows], is_source: bool) -> impl Iterator<Item = Rows> {
    places(pieces).map(move |(place, rows)| {
        if is_source {
            Rows { src: at + place, src_pitch: rows.width, ..*rows }
        } else {
            Rows { dst: at + place, dst_pitch: rows.width, ..*rows }
        }
    })
}
