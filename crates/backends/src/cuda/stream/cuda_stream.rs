//! A CUDA stream: the only thing that puts work into one.
//!
//! Kernels, copies, fills, waits and events of a queue all go through its [`Stream`]. That is why it can say
//! what the last thing in the stream is: a kernel that rings a doorbell when it ends
//! ([`Stream::last_kernel`]), or anything else. Which thread may use the stream when is decided a floor
//! above; nothing here takes a lock for longer than a call.

use crate::bytes::portions;
use crate::cuda::{
    driver::{Current, KernelHandle, StreamCallback, StreamHandle},
    stream::bounce::{Bounce, CHUNK},
    stream::device::Device,
    stream::doorbell::{Completion, Doorbell},
    stream::events::Event,
    stream::list_slots::ListSlot,
    stream::planner::Direction,
    stream::resident::{Batch, Resident, ResidentGpu},
    stream::settings::Constants,
};
use ferry_core::{
    DeviceId, Error, Fill, Kind, Plan, Result, Route, Rows,
    sync::{Arc, AtomicBool, Mutex, Ordering, lock},
};
use std::{any::Any, ffi::c_void, mem, sync::OnceLock, thread};

/// Threads of a block: kernels.cu allows no more.
const THREADS: u32 = 1024;

/// What a stream is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKind {
    /// A stream of ours, for asynchronous work.
    Own,
    /// A stream of ours whose submitter waits for each op at once.
    Waited,
    /// A stream of ours that a shared stream waits for. Kernels are not used in it: they may not get past the
    /// shared stream on their way into the GPU.
    Beside,
    /// A stream that other libraries put work into as well: nothing may be held back.
    Shared {
        /// Whether it belongs to another library, which destroys it.
        is_theirs: bool,
    },
}

impl StreamKind {
    /// A stream of ours; whether its submitter waits for each op at once.
    pub fn of_ours(is_waited_for: bool) -> StreamKind {
        if is_waited_for { StreamKind::Waited } else { StreamKind::Own }
    }

    /// Whether small copies may be kept back for a while to be sent together: not where each is waited for,
    /// nor where work of others comes behind them.
    pub fn may_coalesce(self) -> bool {
        self == StreamKind::Own
    }

    /// Whether an op may be kept out of the stream until the host has done a part of it, or there is room:
    /// not where work of others would overtake it.
    pub fn may_hold_back(self) -> bool {
        !self.is_shared()
    }

    /// Whether a point at the end of the stream needs its event at once: work of others may come behind it
    /// any time.
    pub fn needs_event_at_once(self) -> bool {
        self.is_shared()
    }

    /// Whether ops may be added to a launch that is in the stream: not where work of others may stand behind
    /// it.
    pub fn may_extend_launches(self) -> bool {
        !self.is_shared()
    }

    /// Whether the stream may write numbers for threads that wait: not where work of others may come before
    /// them, or capture them, nor beside it.
    pub fn may_ring(self) -> bool {
        matches!(self, StreamKind::Own | StreamKind::Waited)
    }

    /// Whether the driver may copy for it in streams of its own: not where those may stand still behind work
    /// that waits for this one.
    pub fn may_copy_in_batches(self) -> bool {
        !self.is_shared()
    }

    /// Whether the resident kernel may do its batches: not where work of others waits for them, nor where
    /// kernels are not used.
    pub fn may_reside(self) -> bool {
        matches!(self, StreamKind::Own | StreamKind::Waited)
    }

    fn is_shared(self) -> bool {
        matches!(self, StreamKind::Shared { .. })
    }
}

/// A CUDA stream, its device, and the doorbell of its kernels.
pub struct Stream {
    device: Arc<Device>,
    device_id: DeviceId,
    pub(super) handle: StreamHandle,
    kind: StreamKind,
    doorbell: Doorbell,
    bounce: OnceLock<Bounce>,
    /// What a resident kernel does for it, which comes behind all that is in the CUDA stream. Nothing has
    /// been put there since.
    resident: Mutex<Option<ResidentWork>>,
    /// Whether the CUDA stream is known to have done all that was put there.
    is_empty: AtomicBool,
    /// Whether the driver could not be asked about work that counts as passed: it may be on its way.
    is_in_doubt: AtomicBool,
    /// Memory that work in the stream may use, which is kept until the stream has done that work.
    retained: Mutex<Vec<Arc<dyn Any + Send + Sync>>>,
    /// Whether all work in it is known to be done.
    is_done: AtomicBool,
}

/// The newest batch of a stream that a resident kernel was told of.
struct ResidentWork {
    completion: Completion,
    direction: Direction,
    /// The newest event that was recorded behind it, or behind one before it: outside of the CUDA stream, so
    /// what comes there next has to wait for it.
    mark: Option<Arc<Event>>,
}

/// Polls of a doorbell between two questions whether the GPU has failed.
const POLLS_PER_QUESTION: u32 = 1000;

impl Stream {
    /// A new stream of the device.
    pub fn new(device: &Arc<Device>, device_id: DeviceId, kind: StreamKind) -> Result<Arc<Stream>> {
        Ok(Stream::over(device, device_id, device.make_stream()?, kind))
    }

    /// Takes over a stream of the device; it is destroyed with this unless it is another library's.
    pub(super) fn over(
        device: &Arc<Device>,
        device_id: DeviceId,
        handle: StreamHandle,
        kind: StreamKind,
    ) -> Arc<Stream> {
        Arc::new(Stream {
            device: device.clone(),
            device_id,
            handle,
            kind,
            doorbell: Doorbell::default(),
            bounce: OnceLock::new(),
            resident: Mutex::default(),
            is_empty: AtomicBool::new(false),
            is_in_doubt: AtomicBool::new(false),
            retained: Mutex::default(),
            is_done: AtomicBool::new(false),
        })
    }

    /// The device that it is of.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// The number of the device.
    pub fn device_id(&self) -> DeviceId {
        self.device_id
    }

    /// What it is for.
    pub fn kind(&self) -> StreamKind {
        self.kind
    }

    /// The number that other libraries know it by.
    pub fn number(&self) -> usize {
        self.handle.number()
    }

    /// Whether the submitter waits for each op at once.
    pub fn is_waited_for(&self) -> bool {
        self.kind == StreamKind::Waited
    }

    /// The direction of a copy of this route, as seen from the stream's device.
    #[inline]
    pub fn direction(&self, route: Route) -> Direction {
        match route {
            Route::HostToDevice { to } if to == self.device_id => Direction::In,
            Route::DeviceToHost { from } if from == self.device_id => Direction::Out,
            Route::DeviceToDevice { from, to } if from == self.device_id && to == self.device_id => {
                Direction::Within
            }
            _ => Direction::Across,
        }
    }

    /// The direction of all pieces of a plan, if kernels can reach both ends.
    pub fn direction_of_all(&self, plan: &Plan) -> Option<Direction> {
        Some(self.direction(plan.route()))
            .filter(|direction| *direction != Direction::Across && plan.has_one_route())
    }

    /// Whether kernels may be launched in it for copies.
    pub fn may_launch(&self, current: &Current<'_>) -> bool {
        self.kind != StreamKind::Beside && !self.device.lacks_kernels(current)
    }

    /// The planner's numbers, for copies that kernels can reach or for others.
    pub fn constants(&self, has_kernels: bool) -> &Constants {
        if has_kernels { &self.device.constants } else { &Constants::NO_KERNELS }
    }

    /// Keeps memory that work in the stream uses until that work is done.
    pub fn retain(&self, memory: Arc<dyn Any + Send + Sync>) {
        lock(&self.retained).push(memory);
    }

    /// Nothing is put into the stream any more; whether all work in it is known to be done.
    pub fn close(&self, is_done: bool) {
        let is_known = !self.is_in_doubt.load(Ordering::Relaxed);
        self.is_done.store(is_done && is_known, Ordering::Relaxed);
    }
}

/// How far the stream is.
impl Stream {
    /// Blocks until all work in the stream is done; `work` names it in the error if it has failed.
    pub fn synchronize_in(&self, current: &Current<'_>, work: &str) -> Result<()> {
        while let Some(completion) = self.pending_batch() {
            if (0..POLLS_PER_QUESTION).any(|_| completion.is_done_soon()) {
                break;
            }
            self.device.failure_of_residents(current)?;
            thread::yield_now();
        }
        current.synchronize(self.handle, work)
    }

    /// Whether all work in the stream is done.
    pub fn is_idle(&self) -> Result<bool> {
        let current = self.device.enter()?;
        if self.pending_batch().is_some() {
            return self.device.failure_of_residents(&current).map(|()| false);
        }
        current.is_idle(self.handle)
    }

    /// All that was put into the CUDA stream so far counts as passed.
    pub fn found_empty(&self) {
        self.is_empty.store(!self.is_in_doubt.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Whether all that was put into the stream is known to be done, without asking the driver.
    pub fn is_known_empty(&self) -> bool {
        self.is_empty.load(Ordering::Relaxed) && self.pending_batch().is_none()
    }

    /// The driver could not say whether work is done, which counts as passed nevertheless. Until it says so
    /// the stream is not taken for empty.
    pub fn doubt(&self) {
        self.is_in_doubt.store(true, Ordering::Relaxed);
    }

    /// The newest batch of a resident kernel, if it is not done.
    fn pending_batch(&self) -> Option<Completion> {
        let completion = lock(&self.resident).as_ref().map(|work| work.completion);
        completion.filter(|completion| !completion.is_done())
    }

    /// An event at the end of the stream as it is now.
    pub fn record(&self, current: &Current<'_>, is_timed: bool) -> Result<Arc<Event>> {
        let mut resident = lock(&self.resident);
        match resident.as_mut().filter(|work| work.mark.is_some() || !work.completion.is_done()) {
            Some(work) => {
                let batch = (work.direction, work.completion);
                let event = self.device.record_behind(current, batch, work.mark.as_deref(), is_timed)?;
                work.mark = Some(event.clone());
                Ok(event)
            }
            None => {
                let event = Event::record(&self.device, current, self.handle, is_timed)?;
                // The next batch does not overtake it, nor does the event behind that.
                match resident.as_mut() {
                    Some(work) => work.mark = Some(event.clone()),
                    None => self.is_empty.store(false, Ordering::Relaxed),
                }
                Ok(event)
            }
        }
    }

    /// The end of the last thing in the stream, if that is a kernel which rings the doorbell, or a number.
    pub fn last_kernel(&self) -> Option<Completion> {
        self.doorbell.last()
    }

    /// Something else is the last thing in the stream, or may be.
    pub fn forget_last_kernel(&self) {
        self.doorbell.set_last(None);
    }
}

/// Putting work into the stream. Memory that it names stays valid until the op has passed: the contract of
/// [`Queue::submit`](ferry_core::Queue::submit), which all work comes by.
impl Stream {
    /// Something is about to be put into the CUDA stream, by a thread whose current context is the stream's.
    /// It comes behind what a resident kernel does for the stream.
    fn begin(&self, current: &Current<'_>) -> Result<StreamHandle> {
        debug_assert_eq!(current.context().handle(), self.device.handle(), "the context of another GPU");
        self.forget_last_kernel();
        self.is_empty.store(false, Ordering::Relaxed);
        let mut resident = lock(&self.resident);
        if let Some(ResidentWork { completion, mark, .. }) = &*resident {
            if !completion.is_done() {
                // SAFETY: doorbells stay where they are as long as the device.
                unsafe { current.wait_for_number(self.handle, completion.at, completion.number)? };
            }
            mark.as_ref().map_or(Ok(()), |mark| mark.wait_in(current, self.handle))?;
        }
        *resident = None;
        Ok(self.handle)
    }

    /// Has the resident kernel do a batch of this direction and so many bytes, which is written into the
    /// slot. Gives the slot back where it does not take it: where work is in the CUDA stream, which it could
    /// not wait for, and where a kernel of the batch's own is as good.
    pub fn launch_resident(
        &self,
        current: &Current<'_>,
        slot: ListSlot,
        direction: Direction,
        bytes: usize,
    ) -> Option<ListSlot> {
        let constants = &*self.device.constants;
        let resident = self.device.resident(direction).filter(|_| self.kind.may_reside());
        let Some(resident) = resident.filter(|resident| resident.wants(constants, bytes)) else {
            return Some(slot);
        };
        let mut work = lock(&self.resident);
        let is_ordered = match &*work {
            Some(last) if last.completion.is_done() => false,
            Some(last) if last.direction == direction => true,
            None if self.is_empty.load(Ordering::Relaxed) => false,
            // To ask takes less than a launch.
            None if matches!(current.is_idle(self.handle), Ok(true)) => {
                self.is_in_doubt.store(false, Ordering::Relaxed);
                false
            }
            _ => return Some(slot),
        };
        let completion = self.next_completion(current, 1);
        if completion.at == 0 || !self.device.can_record_behind(current, direction) {
            return Some(slot);
        }
        let (sync, kernel) = (&*self.device.sync, || self.device.resident_kernel(current));
        let gpu = ResidentGpu { current, constants, sync, kernel: &kernel };
        match resident.take(&gpu, direction, Batch { slot, bytes, completion, is_ordered }) {
            Err(slot) => Some(slot),
            Ok(()) => {
                let mark = work.take().and_then(|work| work.mark);
                *work = Some(ResidentWork { completion, direction, mark });
                self.doorbell.set_last(Some(completion));
                None
            }
        }
    }

    /// Whether the resident kernel of this direction is better for so many bytes than a launch that has the
    /// pieces in its parameters.
    pub fn may_reside(&self, direction: Direction, bytes: usize) -> bool {
        let is_better = |resident: &Resident| resident.is_better(&self.device.constants, bytes);
        self.kind.may_reside() && self.device.resident(direction).is_some_and(is_better)
    }

    /// Copies one row, by a copy engine.
    pub fn copy_row(&self, current: &Current<'_>, dst: usize, src: usize, len: usize) -> Result<()> {
        // SAFETY: a row of an op: both ranges stay valid until the op has passed.
        unsafe { current.copy(dst, src, len, self.begin(current)?) }
    }

    /// Copies a rectangle, by a copy engine; row by row where its pitch is more than the driver takes.
    pub fn copy_rows(&self, current: &Current<'_>, rows: &Rows) -> Result<()> {
        // SAFETY: a rectangle of an op: all rows stay valid until the op has passed.
        unsafe { current.copy_rows(rows, self.begin(current)?) }
    }

    /// Copies segments in one call of the driver, which then uses several copy engines. False if it has none
    /// or does not take them, such as ranges over joints: what it may have begun is in the stream, and is
    /// then done once more.
    pub fn copy_batch(&self, current: &Current<'_>, segments: [&[usize]; 3]) -> Result<bool> {
        if !self.kind.may_copy_in_batches() || !current.has_copy_batch() {
            return Ok(false);
        }
        // SAFETY: the segments of an op stay valid until the op has passed.
        unsafe { current.copy_batch(segments, self.begin(current)?) }
    }

    /// Fills device memory, in one call of the driver if the four bytes of the pattern are equal; else whole
    /// words, with single bytes before and after them.
    pub fn fill(&self, current: &Current<'_>, fill: &Fill) -> Result<()> {
        let Fill { dst, len, mut pattern, .. } = *fill;
        if pattern == [pattern[0]; 4] {
            return self.fill_bytes(current, dst, pattern[0], len);
        }
        let byte = |at: usize| self.fill_bytes(current, dst + at, fill.pattern[at % 4], 1);
        let head = (dst.next_multiple_of(4) - dst).min(len);
        let words = (len - head) / 4;
        (0..head).try_for_each(byte)?;
        if words > 0 {
            pattern.rotate_left(head % 4);
            let word = u32::from_ne_bytes(pattern);
            // SAFETY: part of a fill: it stays valid until the op has passed, and it is aligned to its words.
            unsafe { current.fill_words(dst + head, word, words, self.begin(current)?)? };
        }
        (head + 4 * words..len).try_for_each(byte)
    }

    /// Fills device memory with one byte.
    pub fn fill_bytes(&self, current: &Current<'_>, dst: usize, byte: u8, count: usize) -> Result<()> {
        if count == 0 {
            return Ok(());
        }
        // SAFETY: part of a fill: it stays valid until the op has passed.
        unsafe { current.fill_bytes(dst, byte, count, self.begin(current)?) }
    }

    /// Launches a kernel of ours, which takes arguments of these types.
    pub fn launch(
        &self,
        current: &Current<'_>,
        kernel: KernelHandle,
        blocks: u32,
        args: &mut [*mut c_void],
    ) -> Result<()> {
        // SAFETY: the kernel takes these arguments, of these sizes; what they point at stays valid until the
        // op has passed.
        unsafe { current.launch(kernel, (blocks, THREADS), args, self.begin(current)?) }
    }

    /// What the next kernel, of so many blocks, is to write when it ends.
    pub fn next_completion(&self, current: &Current<'_>, blocks: u32) -> Completion {
        self.doorbell.next(&self.device.doorbells, current, blocks)
    }

    /// Launches a kernel that was given `completion` among its arguments.
    pub fn launch_ringing(
        &self,
        current: &Current<'_>,
        kernel: KernelHandle,
        blocks: u32,
        args: &mut [*mut c_void],
        completion: Completion,
    ) -> Result<()> {
        self.launch(current, kernel, blocks, args)?;
        self.doorbell.set_last(Some(completion));
        Ok(())
    }

    /// Has the stream write a number behind all that is in it, for a thread that waits: it sees the number
    /// before it could hear of it from the driver. `None` if that cannot be, and the driver is to be asked.
    pub fn ring(&self, current: &Current<'_>) -> Option<Completion> {
        if let Some(completion) = self.pending_batch() {
            return Some(completion);
        }
        if !self.kind.may_ring() || !self.device.may_ring() {
            return None;
        }
        self.doorbell.ring(&self.device.doorbells, current, |at, number| {
            // SAFETY: a word of the doorbell, which stays where it is until the stream has written to it, or
            // for good.
            let put = unsafe { current.write_number(self.begin(current)?, at, number) };
            put.inspect_err(|why| {
                if why.kind == Kind::Unsupported {
                    self.device.refuse_numbers();
                }
            })
        })
    }

    /// As [`ring`](Self::ring), by the thread that may put work into the stream now, unless the last thing
    /// in it rings already: until the next work comes, [`last_kernel`](Self::last_kernel) is the number.
    pub fn ring_behind(&self, current: &Current<'_>) -> Option<Completion> {
        let rung = self.doorbell.last().or_else(|| self.ring(current));
        self.doorbell.set_last(rung);
        rung
    }

    /// The stream waits for an event of any stream.
    pub fn wait_for(&self, current: &Current<'_>, event: &Event) -> Result<()> {
        event.wait_in(current, self.begin(current)?)
    }

    /// The stream waits until the number at `at` is no less than `number`.
    ///
    /// # Safety
    /// There is a number of 64 bits in pinned memory at `at`, and it stays there until the stream has come
    /// past.
    pub unsafe fn wait_for_number(&self, current: &Current<'_>, at: usize, number: u64) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { current.wait_for_number(self.begin(current)?, at, number) }
    }

    /// Has the driver call `callback` when the stream gets here. If it refuses, the callback comes back.
    pub fn call_back<T: StreamCallback>(
        &self,
        current: &Current<'_>,
        callback: Box<T>,
    ) -> Result<(), (Error, Box<T>)> {
        match self.begin(current) {
            Ok(handle) => current.call_back(handle, callback),
            Err(why) => Err((why, callback)),
        }
    }

    /// The stream's bounce buffer, made when first needed: in a shared stream, and beside one, that is when
    /// the stream is shared, for later the driver may wait for that stream.
    pub fn bounce(&self, current: &Current<'_>) -> Result<&Bounce> {
        match self.bounce.get() {
            Some(bounce) => Ok(bounce),
            None => Ok(self.bounce.get_or_init({
                let made = Bounce::new(&self.device.bounces, current)?;
                || made
            })),
        }
    }

    /// Copies a row whose ends may share bytes, by copy engines and through the bounce buffer.
    pub fn copy_bounced(&self, current: &Current<'_>, dst: usize, src: usize, len: usize) -> Result<()> {
        let [chunk, _] = self.bounce(current)?.chunks();
        portions::steps(len, CHUNK, dst > src).try_for_each(|(skip, part)| {
            self.copy_row(current, chunk, src + skip, part)?;
            self.copy_row(current, dst + skip, chunk, part)
        })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let is_done = self.is_done.load(Ordering::Relaxed);
        self.doorbell.leave(&self.device.doorbells, is_done);
        let retained = mem::take(&mut *lock(&self.retained));
        let Ok(current) = self.device.enter() else { return };
        if let StreamKind::Shared { is_theirs: true } = self.kind {
            // The stream may be gone by now and cannot be asked. What may still be written to is not given
            // back.
            if !is_done {
                mem::forget((retained, self.bounce.take()));
            }
            return;
        }
        if !retained.is_empty() || self.bounce.get().is_some_and(Bounce::is_used) {
            // Its work may use memory that goes next. What became of the work is not asked any more.
            let _ = self.synchronize_in(&current, "the GPU's work");
        }
        // SAFETY: ours, and it goes with this.
        unsafe { current.destroy_stream(self.handle) };
    }
}
