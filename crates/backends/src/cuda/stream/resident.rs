//! The resident kernel: one for each direction, which stays on the GPU between batches and finds them in a
//! ring in pinned memory (`resident.cu` is its half).
//!
//! A kernel for each batch begins when multiprocessors are free, and beside a model that computes that is
//! when one of its kernels ends: one batch for each of those. The resident kernel waits once, and takes few
//! multiprocessors. To tell it of a batch takes no driver call.
//!
//! It ends by itself when all are done and none has come for a while, and is told to behind what it has after
//! some milliseconds, so that calls of other libraries that wait for all streams come to an end. Whether it
//! is still there is settled by a word in pinned memory: before it ends it says that it is closing and looks
//! once more; whoever has told of a batch then reads that word, and launches the kernel anew if it has
//! closed.
//!
//! Batches of one kernel begin in the order in which they were told. Which may overlap, and what a stream
//! has to do behind one, is the business of [`Stream`](super::Stream).

use crate::bytes::nontemporal;
use crate::cuda::{
    driver::{Current, ImplicitSync, KernelHandle, StreamHandle, arg},
    stream::doorbell::Completion,
    stream::list_slots::ListSlot,
    stream::planner::Direction,
    stream::settings::Constants,
};
use ferry_core::{
    Error, Kind, Result,
    sync::{Mutex, lock},
};
use std::{
    hint, ptr,
    sync::atomic::{AtomicU64, Ordering, fence},
    time::{Duration, Instant},
};

/// Threads of a block: as `THREADS` of resident.cu.
const THREADS: u32 = 512;
/// Batches that may be under way, as in resident.cu.
const BATCHES: usize = 64;
/// Words between one batch and the next in the ring.
const STRIDE: usize = 8;
/// Bytes of the ring and of what the kernel says of itself, which has a cache line of its own.
const RING_LEN: usize = (BATCHES + 1) * STRIDE * size_of::<u64>();
/// Bytes of `Progress` in resident.cu.
const PROGRESS_LEN: usize = 16 + BATCHES * (4 + 4 + 48);
/// Bits of a word of the ring below the number of its batch.
const TAG_AT: u32 = 48;
/// Parts of a batch's shape, as in resident.cu.
const LANES_AT: u32 = 13;
const ORDERED: u64 = 1 << 19;
const LAST: u64 = 1 << 20;
const PAUSE_AT: u32 = 21;
const PAUSE_MOST: usize = 15;
const BESIDE_AT: u32 = 25;
/// What the kernel says of itself, if it is not there for more.
const CLOSING: u64 = 2;
const CLOSED: u64 = 3;
const PHASES: u64 = 0xf;
const TAKEN_AT: u32 = 8;
const GENERATION_AT: u32 = 24;
/// Lists that come one after the other within this time come in a row.
const ROW_GAP: Duration = Duration::from_micros(100);
/// A kernel that is closing says within microseconds what came of it. After this time the driver is asked
/// whether it has failed.
const CLOSES_WITHIN: Duration = Duration::from_millis(2);
/// Bytes that a thread has under way at once.
const THREAD_BYTES: usize = 128;

/// The resident kernel of one direction.
#[derive(Default)]
pub struct Resident(Mutex<ResidentState>);

#[derive(Default)]
struct ResidentState {
    /// Made when first needed.
    memory: Option<ResidentMemory>,
    /// How many batches it was told of; the kernel counts likewise.
    count: u32,
    /// The number of the newest launch; 0 is none.
    generation: u32,
    /// When that was, unless it was told to end.
    launched: Option<Instant>,
    /// The batch that was told of last in each place of the ring: where its number comes, and the number.
    places: Vec<(usize, u64)>,
    /// When a list came last.
    newest_list: Option<Instant>,
    /// Whether it cannot be launched.
    is_off: bool,
    /// Whether blocks cannot be launched in pairs.
    no_pairs: bool,
}

/// What the host and the kernel share.
struct ResidentMemory {
    ring: usize,
    progress: usize,
    stream: StreamHandle,
}

/// A batch for the resident kernel.
pub struct Batch {
    /// Its list.
    pub slot: ListSlot,
    /// Bytes of all pieces.
    pub bytes: usize,
    /// What tells its stream that it is done.
    pub completion: Completion,
    /// Whether it must begin when all before it are done.
    pub is_ordered: bool,
}

/// Blocks of the kernel of this direction; 0 is no kernel.
pub fn blocks(direction: Direction, constants: &Constants) -> usize {
    match direction {
        Direction::In => constants.resident_in,
        Direction::Out => constants.resident_out,
        Direction::Within | Direction::Across => 0,
    }
}

/// What the resident kernel needs of its GPU.
#[derive(Clone, Copy)]
pub struct ResidentGpu<'a> {
    /// Its context is current.
    pub current: &'a Current<'a>,
    /// The planner's numbers.
    pub constants: &'a Constants,
    /// Streams that are held.
    pub sync: &'a ImplicitSync,
    /// The kernel, loaded when first needed.
    pub kernel: &'a dyn Fn() -> Result<KernelHandle>,
}

impl Resident {
    /// Whether it is there, as far as can be told without waiting.
    pub fn is_up(&self) -> bool {
        self.0.try_lock().is_ok_and(|state| state.is_up())
    }

    /// Whether so many bytes are for it, of pieces that could go with a launch of their own.
    pub fn is_better(&self, constants: &Constants, bytes: usize) -> bool {
        bytes >= constants.resident_from || self.is_up()
    }

    /// Whether a batch of so many bytes is for it: it is there, or one batch is reason enough to launch it.
    pub fn wants(&self, constants: &Constants, bytes: usize) -> bool {
        let (mut state, now) = (lock(&self.0), Instant::now());
        let comes_in_a_row = state.newest_list.replace(now).is_some_and(|last| now - last < ROW_GAP);
        !state.is_off && (comes_in_a_row || bytes >= constants.resident_from || state.is_up())
    }

    /// Takes a batch, or gives its slot back.
    pub fn take(
        &self,
        gpu: &ResidentGpu<'_>,
        direction: Direction,
        batch: Batch,
    ) -> std::result::Result<(), ListSlot> {
        let mut state = lock(&self.0);
        if state.is_off || !state.is_made(gpu) { Err(batch.slot) } else { state.take(gpu, direction, batch) }
    }

    /// Ends the kernel and gives its memory back. Nothing is told of it any more.
    pub fn close(&self, current: &Current<'_>) {
        let Some(memory) = lock(&self.0).memory.take() else { return };
        // It ends by itself soon. If it cannot be heard of, its memory stays.
        let is_over = current.synchronize(memory.stream, "the resident kernel").is_ok();
        // SAFETY: ours, and not used any more.
        unsafe { current.destroy_stream(memory.stream) };
        if is_over {
            // SAFETY: made by `make`, and no kernel uses it any more.
            unsafe { (current.free_own_pinned(memory.ring), current.free_own_device(memory.progress)) };
        }
    }

    /// The failure of its work, if it has failed.
    pub fn failure(&self, current: &Current<'_>) -> Result<()> {
        let stream = lock(&self.0).memory.as_ref().map(|memory| memory.stream);
        stream.map_or(Ok(()), |stream| current.is_idle(stream).map(drop))
    }
}

impl ResidentState {
    /// Whether there is memory for it, which is made when first needed.
    fn is_made(&mut self, gpu: &ResidentGpu<'_>) -> bool {
        if self.memory.is_none() {
            let made = gpu.sync.unless_held(|| ResidentMemory::new(gpu.current));
            self.is_off = matches!(&made, Some(Err(why)) if is_for_good(why));
            self.memory = made.and_then(Result::ok);
            self.places.resize(BATCHES, (0, 0));
        }
        self.memory.is_some()
    }

    /// What the newest kernel says of itself; 0 before it says anything, and `None` if there was none.
    fn phase(&self) -> Option<u64> {
        Some(self.word()? & PHASES)
    }

    /// The newest kernel's own word. One that was told to end may write one more after it.
    fn word(&self) -> Option<u64> {
        let memory = self.memory.as_ref().filter(|_| self.launched.is_some())?;
        let word = memory.state().load(Ordering::Acquire);
        Some(if word >> GENERATION_AT == u64::from(self.generation) { word } else { 0 })
    }

    fn take(
        &mut self,
        gpu: &ResidentGpu<'_>,
        direction: Direction,
        batch: Batch,
    ) -> std::result::Result<(), ListSlot> {
        let ResidentGpu { current, constants, .. } = *gpu;
        let ListSlot { back, number, .. } = batch.slot;
        if self.is_up() && self.is_old(constants) {
            // Its place is free when the batch behind it is done, which must have one, too.
            let (Some(place), Some(_)) = (self.free_place(0), self.free_place(1)) else {
                return Err(batch.slot);
            };
            self.tell([0, LAST, 0, 0, 0, 0]);
            if self.closed_before(current) {
                self.count = self.count.wrapping_sub(1);
            } else {
                self.places[place] = (back, number);
            }
            self.launched = None;
        }
        let Some(place) = self.free_place(0) else { return Err(batch.slot) };
        let pause = if direction == Direction::Out { constants.resident_pause.min(PAUSE_MOST) } else { 0 };
        let spread = Spread::of(batch.bytes / batch.slot.count().max(1) as usize);
        let shape = u64::from(batch.slot.count())
            | u64::from(spread.lanes) << LANES_AT
            | u64::from(spread.beside) << BESIDE_AT
            | if batch.is_ordered { ORDERED } else { 0 }
            | (pause as u64) << PAUSE_AT;
        let Completion { at, number: bell, .. } = batch.completion;
        // What the list was written with may be late otherwise.
        nontemporal::fence();
        self.places[place] = (back, number);
        let was_up = self.is_up();
        self.tell([batch.slot.list() as u64, shape, back as u64, number, at as u64, bell]);
        let must_launch = !was_up || self.closed_before(current);
        if let Some(Err(why)) = must_launch.then(|| self.launch(gpu, direction)) {
            // Nobody has read of it, and there is no kernel.
            self.launched = None;
            self.count = self.count.wrapping_sub(1);
            self.places[place] = (0, 0);
            self.is_off = is_for_good(&why);
            return Err(batch.slot);
        }
        batch.slot.sent();
        Ok(())
    }

    /// Whether there is a kernel, or was a moment ago.
    fn is_up(&self) -> bool {
        self.phase().is_some_and(|phase| phase != CLOSED)
    }

    /// Whether the newest kernel is to end. Its life begins with the kernel: one that still waits for
    /// multiprocessors would wait anew.
    fn is_old(&mut self, constants: &Constants) -> bool {
        let life = Duration::from_micros(constants.resident_life as u64);
        if self.phase() == Some(0) {
            self.launched = Some(Instant::now());
        }
        self.launched.is_some_and(|launched| launched.elapsed() > life)
    }

    /// The place of the ring so many behind the next one, if it is free.
    fn free_place(&self, behind: usize) -> Option<usize> {
        let place = (self.count as usize + behind) % BATCHES;
        let (at, number) = self.places[place];
        // SAFETY: the word of a list's slot, which stays where it is as long as the device.
        let is_free =
            at == 0 || unsafe { AtomicU64::from_ptr(at as *mut u64) }.load(Ordering::Acquire) >= number;
        is_free.then_some(place)
    }

    /// Tells the kernel of the next batch.
    fn tell(&mut self, words: [u64; 6]) {
        let Some(memory) = &self.memory else { return };
        let tag = u64::from(self.count.wrapping_add(1) & 0xffff) << TAG_AT;
        let place = memory.ring + self.count as usize % BATCHES * STRIDE * size_of::<u64>();
        for (number, word) in words.into_iter().enumerate() {
            debug_assert!(word >> TAG_AT == 0, "an address or a number is longer than {TAG_AT} bits");
            // SAFETY: a word of the ring; the kernel reads it as a whole, at any time.
            let at = unsafe { AtomicU64::from_ptr((place as *mut u64).add(number)) };
            at.store(tag | word, Ordering::Release);
        }
        self.count = self.count.wrapping_add(1);
        // From here on the kernel finds it whenever it looks once more, or has closed already and says so.
        fence(Ordering::SeqCst);
    }

    /// Whether the kernel has ended before it could take the newest batch. If it is about to end this waits
    /// for what comes of that.
    fn closed_before(&self, current: &Current<'_>) -> bool {
        let (newest, mut asked) = (u64::from(self.count.wrapping_sub(1) & 0xffff), Instant::now());
        loop {
            let word = self.word().unwrap_or_default();
            if word & PHASES != CLOSING {
                return word & PHASES == CLOSED && word >> TAKEN_AT & 0xffff == newest;
            }
            if asked.elapsed() > CLOSES_WITHIN {
                let stream = self.memory.as_ref().map(|memory| memory.stream);
                if stream.is_some_and(|stream| current.is_idle(stream).is_err()) {
                    return false; // and whoever waits for the batch hears of the failure
                }
                asked = Instant::now();
            }
            hint::spin_loop();
        }
    }

    /// Launches the kernel for the newest batch and those to come, perhaps behind one that was told to end.
    fn launch(&mut self, gpu: &ResidentGpu<'_>, direction: Direction) -> Result<()> {
        let Some(memory) = &self.memory else { return Ok(()) };
        let (kernel, constants) = ((gpu.kernel)()?, gpu.constants);
        let generation = self.generation + 1;
        memory.state().store(u64::from(generation) << GENERATION_AT, Ordering::SeqCst);
        let (state, first) = (memory.state().as_ptr() as usize, self.count.wrapping_sub(1));
        let idle_ns = (constants.resident_idle as u64).saturating_mul(1000);
        let mut args = [
            arg(&memory.ring),
            arg(&memory.progress),
            arg(&state),
            arg(&first),
            arg(&generation),
            arg(&idle_ns),
        ];
        let blocks = blocks(direction, constants) as u32;
        let (launched, pairs) = memory.launch(gpu.current, kernel, blocks, &mut args, self.no_pairs);
        self.no_pairs |= !pairs && launched.is_ok();
        launched?;
        (self.generation, self.launched) = (generation, Some(Instant::now()));
        Ok(())
    }
}

impl ResidentMemory {
    fn new(current: &Current<'_>) -> Result<ResidentMemory> {
        let stream = current.create_urgent_stream()?;
        let made = ResidentMemory::of_stream(current, stream);
        if made.is_err() {
            // SAFETY: ours, and nothing knows it.
            unsafe { current.destroy_stream(stream) };
        }
        made
    }

    fn of_stream(current: &Current<'_>, stream: StreamHandle) -> Result<ResidentMemory> {
        let ring = current.own_pinned(RING_LEN)?;
        // SAFETY: fresh memory of this length, which nothing else uses.
        unsafe { ptr::write_bytes(ring as *mut u8, 0, RING_LEN) };
        let cleared = current.own_device(PROGRESS_LEN).and_then(|progress| {
            // SAFETY: as above; the kernel comes later.
            let filled = unsafe { current.fill_bytes(progress, 0, PROGRESS_LEN, stream) };
            // SAFETY: as above, and no fill is on its way.
            filled.map(|()| progress).inspect_err(|_| unsafe { current.free_own_device(progress) })
        });
        // SAFETY: as above, and no kernel knows it.
        let progress = cleared.inspect_err(|_| unsafe { current.free_own_pinned(ring) })?;
        Ok(ResidentMemory { ring, progress, stream })
    }

    /// What the kernel says of itself.
    fn state(&self) -> &AtomicU64 {
        let at = self.ring + RING_LEN - STRIDE * size_of::<u64>();
        // SAFETY: a word behind the ring, which lives as long as this and is written as a whole.
        unsafe { AtomicU64::from_ptr(at as *mut u64) }
    }

    /// Launches the kernel, and says whether its blocks may be in pairs: then the two directions share no
    /// pair of multiprocessors, where one would wait for all that the other has under way.
    fn launch(
        &self,
        current: &Current<'_>,
        kernel: KernelHandle,
        blocks: u32,
        args: &mut [*mut std::ffi::c_void],
        no_pairs: bool,
    ) -> (Result<()>, bool) {
        let shape = (blocks, THREADS);
        if !no_pairs && blocks.is_multiple_of(2) {
            // SAFETY: the kernel takes these arguments, of these sizes; what they point at stays until it has
            // ended, and what batches point at until they are done.
            let done = unsafe { current.launch_in_pairs(kernel, shape, args, self.stream) };
            if done.is_ok() {
                return (done, true);
            }
        }
        // SAFETY: as above.
        (unsafe { current.launch(kernel, shape, args, self.stream) }, false)
    }
}

/// Whether what the kernel needs cannot be had later either: memory may be free then.
fn is_for_good(why: &Error) -> bool {
    why.kind != Kind::OutOfMemory && why.kind != Kind::Captured
}

/// How pieces go to the threads of a warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Spread {
    /// Threads for each piece: enough for whole packets of the link.
    lanes: u32,
    /// The power of two of pieces that each thread copies side by side.
    beside: u32,
}

impl Spread {
    /// For pieces of this length on average: as many bytes are under way whatever it is.
    fn of(len: usize) -> Spread {
        let lanes = (len.div_ceil(THREAD_BYTES).next_power_of_two() as u32).clamp(8, 32);
        let pieces = (lanes as usize * THREAD_BYTES / len.max(1)).clamp(1, 4);
        Spread { lanes, beside: pieces.ilog2() }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_shorter_pieces_are_the_more_are_copied_side_by_side() {
        for (len, lanes, beside) in [
            (0, 8, 2),
            (1, 8, 2),
            (256, 8, 2),
            (257, 8, 1),
            (512, 8, 1),
            (513, 8, 0),
            (1024, 8, 0),
            (1025, 16, 0),
            (2048, 16, 0),
            (4096, 32, 0),
            (1 << 20, 32, 0),
        ] {
            assert_eq!(Spread::of(len), Spread { lanes, beside }, "{len} bytes");
        }
    }
}
