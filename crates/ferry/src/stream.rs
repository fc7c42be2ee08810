//! A stream: copies, fills, functions and events in the order they were submitted.
//!
//! The verbs that programs call are here and in the modules of what they take: batches, descriptors, scopes,
//! events. Each asks whether the memory belongs to the stream's runtime and hands an op to the core, which
//! checks bounds and routes; nothing here looks at bytes. `stream/lend.rs` is the one door for copies that
//! own or borrow host memory. Arrows point down, to memory, tokens and the runtime, never to scopes.

mod lend;

use crate::{
    Batch, Device, Event, Failed, HostBuffer, InFlight, Kind, Result, Runtime, Synchronized,
    batch::{HostPool, HostPoolMut},
    extent::{Direction, Extent, KEY, join},
    fill::{FillValue, fill_op},
    memory::{HostRead, HostWrite, OnDevice},
    pending::{self, PendingUses},
    runtime::{RuntimeInner, StreamQuota, owner},
};
use ferry_backends::os::threads::as_here;
use ferry_core::{Error, JoinKind, Memory, Op, Plan, QueueOptions, Rows, Stream as CoreStream, Ticket};
pub(crate) use lend::Notes;
use std::{fmt, sync::Arc, time::Duration};

/// Runs copies one after the other, in the order they were submitted, while the program goes on. Streams run
/// side by side, unless an [`Event`] puts one behind the other. A handle, cheap to clone; when the last one
/// is dropped the work still runs to its end.
///
/// Methods that copy name the destination first. Where they take device memory, they take a `&DeviceBuffer`,
/// a [`DeviceSlice`](crate::DeviceSlice) or a [`DeviceMatrix`](crate::DeviceMatrix).
///
/// ```
/// let device = ferry::Runtime::new()?.device(0)?;
/// let stream = device.stream()?;
/// let there = device.alloc::<f32>(3)?;
///
/// let sent = stream.upload(&there, device.runtime().alloc_host_from(&[1.0, 2.0, 3.0])?)?;
/// let back = stream.download(device.runtime().alloc_host::<f32>(3)?, &there)?;
/// // Nothing has been waited for yet.
/// assert_eq!(back.wait()?[..], [1.0, 2.0, 3.0]);
/// # sent.wait()?;
/// # Ok::<(), ferry::Error>(())
/// ```
#[derive(Clone)]
pub struct Stream {
    inner: Arc<Inner>,
}

struct Inner {
    core: Arc<CoreStream>,
    quota: StreamQuota,
}

impl Device {
    /// A new stream. A product has so many of them and no more (`Kind::LimitReached`).
    ///
    /// ```
    /// let device = ferry::Runtime::new()?.device(0)?;
    /// let (first, second) = (device.stream()?, device.stream()?);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn stream(&self) -> Result<Stream> {
        let place = StreamQuota::take(self.shared(), self.id())?;
        let core = self.shared().core.stream(self.id(), QueueOptions::default())?;
        Ok(Stream::new(core, place))
    }
}

impl Stream {
    pub(crate) fn new(core: Arc<CoreStream>, quota: StreamQuota) -> Stream {
        Stream { inner: Arc::new(Inner { core, quota }) }
    }

    #[inline]
    pub(crate) fn core(&self) -> &Arc<CoreStream> {
        &self.inner.core
    }

    #[inline]
    pub(crate) fn runtime(&self) -> &Arc<RuntimeInner> {
        &self.inner.quota.runtime
    }

    /// The device that it works on.
    ///
    /// ```
    /// let stream = ferry::Runtime::new()?.device(1)?.stream()?;
    /// assert_eq!(stream.device().id(), 1);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn device(&self) -> Device {
        Device::of(Runtime { shared: self.runtime().clone() }, self.core().device())
    }

    /// Copies page-locked memory to a device. The copy owns `src` until it is done: the token gives it back.
    ///
    /// # Errors
    /// The shapes differ, or the two ends belong to different runtimes. Nothing is copied, and `src` comes
    /// back with the error.
    ///
    /// ```
    /// let device = ferry::Runtime::new()?.device(0)?;
    /// let (stream, there) = (device.stream()?, device.alloc::<u8>(5)?);
    /// let host = device.runtime().alloc_host_from(b"hello")?;
    /// let host = stream.upload(&there, host)?.wait()?;
    /// # assert_eq!(stream.read_vec(&there)?, *b"hello");
    /// # Ok::<(), ferry::Error>(())
    /// ```
    #[inline(always)]
    pub fn upload<S>(
        &self,
        dst: impl OnDevice<Elem = S::Elem>,
        src: S,
    ) -> Result<InFlight<S::Buffer>, Failed<S>>
    where
        S: HostRead + 'static,
    {
        // SAFETY: what lives for ever is owned, and the memory of what is owned is used again only when the
        // copy has passed; or it is borrowed for ever.
        unsafe { self.lend(Direction::Up, dst, src, None) }
    }

    /// Copies device memory to page-locked memory. The copy owns `dst` until it is done: the token gives it
    /// back.
    ///
    /// # Errors
    /// As [`upload`](Self::upload).
    ///
    /// ```
    /// let device = ferry::Runtime::new()?.device(0)?;
    /// let (stream, there) = (device.stream()?, device.alloc_from(b"hello")?);
    /// let host = device.runtime().alloc_host(5)?;
    /// let host = stream.download(host, &there)?.wait()?;
    /// assert_eq!(host[..], *b"hello");
    /// # Ok::<(), ferry::Error>(())
    /// ```
    #[inline(always)]
    pub fn download<D>(
        &self,
        dst: D,
        src: impl OnDevice<Elem = D::Elem>,
    ) -> Result<InFlight<D::Buffer>, Failed<D>>
    where
        D: HostWrite + 'static,
    {
        // SAFETY: as in `upload`.
        unsafe { self.lend(Direction::Down, src, dst, None) }
    }

    /// Copies inside a device, or from one device to another. There is nothing to own: later work of this
    /// stream comes after it.
    ///
    /// # Errors
    /// The shapes differ, an end belongs to another runtime, or the product has no 2-D copies inside a
    /// device.
    ///
    /// ```
    /// let runtime = ferry::Runtime::new()?;
    /// let (near, far) = (runtime.device(0)?, runtime.device(1)?);
    /// let stream = near.stream()?;
    /// let (a, b) = (near.alloc_from(&[1, 2, 3])?, far.alloc::<i32>(3)?);
    /// stream.copy(&b, &a)?;
    /// assert_eq!(stream.read_vec(&b)?, [1, 2, 3]);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn copy<D: OnDevice>(&self, dst: D, src: impl OnDevice<Elem = D::Elem>) -> Result<()> {
        let (dst, src) = (dst.extent(KEY), src.extent(KEY));
        self.is_ours(&dst)?;
        self.is_ours(&src)?;
        let rows = join(dst, src, size_of::<D::Elem>())?;
        let product = self.runtime().options.product;
        if rows.height > 1 && !product.copies_2d_inside {
            let note = format!(
                "{} has no 2-D copies inside a device, and this one has {} rows",
                product.soc, rows.height
            );
            return Err(Kind::Unsupported.because(note));
        }
        // SAFETY: both ends are known memory, which stays until the op has passed.
        unsafe { self.submit(rows) }.map(drop)
    }

    /// Copies plain memory to a device, and waits until that is done: it is in its place in the stream,
    /// behind everything that was submitted before. Page-locked memory in a [`HostBuffer`](crate::HostBuffer)
    /// is copied without waiting by [`upload`](Self::upload).
    ///
    /// ```
    /// let device = ferry::Runtime::new()?.device(0)?;
    /// let (stream, there) = (device.stream()?, device.alloc::<u8>(5)?);
    /// let mut word = *b"hello";
    /// stream.write(&there, &word)?;
    /// word[0] = b'j'; // the copy is done
    /// assert_eq!(stream.read_vec(&there)?, *b"hello");
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn write<D: OnDevice>(&self, dst: D, src: &[D::Elem]) -> Result<()> {
        let dst = dst.extent(KEY);
        self.is_ours(&dst)?;
        let rows = join(dst, Extent::of_slice(src), size_of::<D::Elem>())?;
        // SAFETY: `src` is borrowed until the copy has passed.
        let ticket = unsafe { self.submit(rows) }?;
        self.wait_through(ticket)
    }

    /// Copies plain memory to a device without waiting for it: the bytes are taken into page-locked memory
    /// before this returns, and copied from there when the stream comes to it.
    ///
    /// ```
    /// let device = ferry::Runtime::new()?.device(0)?;
    /// let (stream, there) = (device.stream()?, device.alloc::<u8>(5)?);
    /// let mut word = *b"hello";
    /// stream.write_staged(&there, &word)?;
    /// word[0] = b'j'; // the copy has a buffer of its own
    /// assert_eq!(stream.read_vec(&there)?, *b"hello");
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn write_staged<D: OnDevice>(&self, dst: D, src: &[D::Elem]) -> Result<()> {
        let stage = HostBuffer::copied(self.runtime(), src)?;
        // Dropped in flight, its memory stays until the copy has passed.
        drop(self.upload(dst, stage)?);
        Ok(())
    }

    /// Copies device memory to plain memory, and waits until that is done, as [`write`](Self::write) does the
    /// other way.
    ///
    /// ```
    /// let device = ferry::Runtime::new()?.device(0)?;
    /// let (stream, there) = (device.stream()?, device.alloc_from(b"hello")?);
    /// let mut word = [0; 5];
    /// stream.read(&mut word, &there)?;
    /// assert_eq!(word, *b"hello");
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn read<S: OnDevice>(&self, dst: &mut [S::Elem], src: S) -> Result<()> {
        let src = src.extent(KEY);
        self.is_ours(&src)?;
        let dst = Extent::linear(dst.as_mut_ptr() as usize, dst.len(), 0);
        let rows = join(dst, src, size_of::<S::Elem>())?;
        // SAFETY: `dst` is borrowed until the copy has passed.
        let ticket = unsafe { self.submit(rows) }?;
        self.wait_through(ticket)
    }

    /// A vector with the elements of device memory, row by row. Waits for them.
    ///
    /// ```
    /// let device = ferry::Runtime::new()?.device(0)?;
    /// let there = device.alloc_from(&[1_u16, 2, 3, 4])?;
    /// assert_eq!(device.stream()?.read_vec(there.matrix(2, 2)?.rect(.., 1..)?)?, [2, 4]);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn read_vec<S: OnDevice>(&self, src: S) -> Result<Vec<S::Elem>> {
        let Extent { rows, cols, .. } = src.extent(KEY);
        let mut elements = vec![bytemuck::Zeroable::zeroed(); rows * cols];
        self.read(&mut elements, src)?;
        Ok(elements)
    }

    /// Sets every element of device memory to `value`, which has 1, 2 or 4 bytes.
    ///
    /// ```
    /// let device = ferry::Runtime::new()?.device(0)?;
    /// let (stream, there) = (device.stream()?, device.alloc_zeroed::<f32>(4)?);
    /// stream.fill(there.slice(1..3)?, 2.5)?;
    /// assert_eq!(stream.read_vec(&there)?, [0.0, 2.5, 2.5, 0.0]);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn fill<D: OnDevice<Elem: FillValue>>(&self, dst: D, value: D::Elem) -> Result<()> {
        self.fill_with(dst.extent(KEY), size_of::<D::Elem>(), value.pattern())
    }

    /// Sets every byte of device memory to `value`.
    ///
    /// ```
    /// let device = ferry::Runtime::new()?.device(0)?;
    /// let (stream, there) = (device.stream()?, device.alloc::<u64>(2)?);
    /// stream.fill_bytes(&there, 0xff)?;
    /// assert_eq!(stream.read_vec(&there)?, [u64::MAX; 2]);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn fill_bytes<D: OnDevice>(&self, dst: D, value: u8) -> Result<()> {
        self.fill_with(dst.extent(KEY), size_of::<D::Elem>(), [value; 4])
    }

    /// Copies many pieces to devices as one piece of work, in no particular order among themselves.
    ///
    /// ```
    /// use ferry::Batch;
    ///
    /// let device = ferry::Runtime::new()?.device(0)?;
    /// let (stream, cache) = (device.stream()?, device.alloc_zeroed::<u8>(6)?);
    /// let mut batch = Batch::new(device.runtime().alloc_host_from(b"abcdef")?);
    /// batch.push(cache.slice(4..6)?, 0..2)?;
    /// batch.push(cache.slice(0..2)?, 2..4)?;
    /// let host = stream.upload_batch(batch)?.wait()?;
    /// assert_eq!(stream.read_vec(&cache)?, *b"cd\0\0ab");
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn upload_batch<'d, H>(
        &self,
        batch: Batch<'d, H>,
    ) -> Result<InFlight<H::Buffer>, Failed<Batch<'d, H>>>
    where
        H: HostPool + 'static,
    {
        // SAFETY: as in `upload`.
        unsafe { self.lend_batch(Direction::Up, batch, None) }
    }

    /// Copies many pieces from devices as one piece of work, in no particular order among themselves.
    ///
    /// ```
    /// use ferry::Batch;
    ///
    /// let device = ferry::Runtime::new()?.device(0)?;
    /// let (stream, cache) = (device.stream()?, device.alloc_from(b"abcdef")?);
    /// let mut batch = Batch::new(device.runtime().alloc_host::<u8>(4)?);
    /// batch.push(cache.slice(4..6)?, 0..2)?;
    /// batch.push(cache.slice(0..2)?, 2..4)?;
    /// let host = stream.download_batch(batch)?.wait()?;
    /// assert_eq!(host[..], *b"efab");
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn download_batch<'d, H>(
        &self,
        batch: Batch<'d, H>,
    ) -> Result<InFlight<H::Buffer>, Failed<Batch<'d, H>>>
    where
        H: HostPoolMut + 'static,
    {
        // SAFETY: as in `upload`.
        unsafe { self.lend_batch(Direction::Down, batch, None) }
    }

    /// Runs `function` on a thread of its own when everything before it is done; what comes after waits for
    /// it. It may block. A panic in it is a failure of the stream. [`Scope::call`](crate::Scope::call) takes
    /// functions that borrow.
    ///
    /// What it may not do is wait for this very stream, by [`synchronize`](Self::synchronize),
    /// [`read`](Self::read) or a token of a later copy: the stream waits for it.
    ///
    /// ```
    /// let stream = ferry::Runtime::new()?.device(0)?.stream()?;
    /// let (tell, hear) = std::sync::mpsc::channel();
    /// stream.call(move || tell.send("everything before this is done").unwrap())?;
    /// println!("{}", hear.recv().unwrap());
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn call(&self, function: impl FnOnce() + Send + 'static) -> Result<()> {
        self.core().call(as_here(function)).map(drop)
    }

    /// The point that the stream's work has come to: everything submitted so far lies before it.
    ///
    /// ```
    /// let stream = ferry::Runtime::new()?.device(0)?.stream()?;
    /// stream.record()?.wait()?;
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn record(&self) -> Result<Event> {
        let mark = self.core().mark()?;
        Ok(Event::new(mark, owner(self.runtime()), self.core().clone()))
    }

    /// What is submitted from here on runs after `event`, which any stream may have recorded. The program
    /// does not wait.
    ///
    /// ```
    /// let device = ferry::Runtime::new()?.device(0)?;
    /// let (first, second) = (device.stream()?, device.stream()?);
    /// second.wait_for(&first.record()?)?;
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn wait_for(&self, event: &Event) -> Result<()> {
        self.core().wait_for(event.mark().clone()).map(drop)
    }

    /// Whether everything submitted so far is done.
    ///
    /// ```
    /// let stream = ferry::Runtime::new()?.device(0)?.stream()?;
    /// assert!(stream.is_idle());
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn is_idle(&self) -> bool {
        let newest = self.core().newest();
        let is_idle = self.core().has_passed(newest);
        if is_idle {
            self.core().tell_joined(newest, JoinKind::Query);
        }
        is_idle
    }

    /// Waits until everything submitted so far is done.
    ///
    /// # Errors
    /// The first failure of the stream's work that nobody was told of, or that an [`abort`](Self::abort)
    /// dropped some of it.
    ///
    /// ```
    /// # let device = ferry::Runtime::new()?.device(0)?;
    /// # let (stream, there) = (device.stream()?, device.alloc::<u8>(100)?);
    /// stream.fill(&there, 1)?;
    /// stream.synchronize()?;
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn synchronize(&self) -> Result<()> {
        pending::synchronize(self.core())
    }

    /// As [`synchronize`](Self::synchronize), for at most `limit` (`Kind::Timeout`).
    ///
    /// ```
    /// # use std::time::Duration;
    /// let stream = ferry::Runtime::new()?.device(0)?.stream()?;
    /// let (go, wait) = std::sync::mpsc::channel::<()>();
    /// stream.call(move || wait.recv().unwrap_or_default())?;
    /// let late = stream.synchronize_timeout(Duration::from_millis(1)).unwrap_err();
    /// assert_eq!(late.kind, ferry::Kind::Timeout);
    /// drop(go);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn synchronize_timeout(&self, limit: Duration) -> Result<()> {
        self.core().synchronize(Some(limit))
    }

    /// As [`synchronize`](Self::synchronize), for a task: what it gives is a future.
    ///
    /// ```
    /// # async fn example(stream: ferry::Stream) -> ferry::Result<()> {
    /// stream.synchronized().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn synchronized(&self) -> Synchronized {
        Synchronized(PendingUses::so_far(self.core().clone()))
    }

    /// Drops the work that has not run, and returns when no byte of it moves any more. Tokens and synchronise
    /// say `Kind::Aborted`; the stream can be used again. A function that runs goes on, and later work comes
    /// after it.
    ///
    /// ```
    /// # let device = ferry::Runtime::new()?.device(0)?;
    /// # let (stream, there) = (device.stream()?, device.alloc::<u8>(3)?);
    /// let (go, wait) = std::sync::mpsc::channel::<()>();
    /// stream.call(move || wait.recv().unwrap_or_default())?;
    /// let token = stream.upload(&there, device.runtime().alloc_host(3)?)?;
    /// stream.abort();
    /// assert_eq!(token.wait().unwrap_err().error.kind, ferry::Kind::Aborted);
    /// drop(go);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn abort(&self) {
        self.core().abort();
    }
}

impl Stream {
    /// Refuses what another runtime made: this one could not keep it from being used again in flight.
    #[inline]
    pub(crate) fn is_ours(&self, extent: &Extent) -> Result<()> {
        if extent.owner == 0 || extent.owner == owner(self.runtime()) { Ok(()) } else { Err(foreign()) }
    }

    /// # Safety
    /// Plain memory in `rows` stays valid until the stream has passed the ticket.
    #[inline]
    pub(crate) unsafe fn submit(&self, rows: Rows) -> Result<Ticket> {
        let make = |memory: &Memory| Plan::new(Some(rows), memory, |_, _| Ok(())).map(Op::Copy);
        // SAFETY: the caller's promise.
        unsafe { self.core().submit(make) }.map_err(|misfit| misfit.error)
    }

    fn fill_with(&self, dst: Extent, size: usize, pattern: [u8; 4]) -> Result<()> {
        self.is_ours(&dst)?;
        if dst.count() * size == 0 {
            return Ok(());
        }
        let is_dense = dst.pitch == dst.cols || dst.rows == 1;
        let (rows, width) =
            if is_dense { (1, dst.rows * dst.cols * size) } else { (dst.rows, dst.cols * size) };
        for row in 0..rows {
            let make = |memory: &Memory| fill_op(memory, dst.addr + row * dst.pitch * size, width, pattern);
            // SAFETY: the range is known memory, which stays until the op has passed.
            unsafe { self.core().submit(make) }?;
        }
        Ok(())
    }

    fn wait_through(&self, ticket: Ticket) -> Result<()> {
        pending::wait(self.core(), ticket, ticket)
    }
}

#[cold]
fn foreign() -> Error {
    Kind::BadRoute.because("the memory belongs to another runtime than the stream")
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({} on device {})", self.core().id(), self.core().device())
    }
}
