//! Points in a stream's work, as values.

use crate::{Result, pending::StreamHandle, wake::Watch};
use ferry_core::{DeviceId, JoinKind, Mark};
use std::{
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

/// A point in a stream's work: everything that was submitted before
/// [`Stream::record`](crate::Stream::record). A value that never changes, cheap to clone; another stream, a
/// thread or a task can wait for it.
///
/// ```
/// let device = ferry::Runtime::new()?.device(0)?;
/// let (first, second) = (device.stream()?, device.stream()?);
/// let there = device.alloc::<u8>(5)?;
///
/// let sent = first.upload(&there, device.runtime().alloc_host_from(b"hello")?)?;
/// second.wait_for(&first.record()?)?;
/// let back = second.download(device.runtime().alloc_host(5)?, &there)?.wait()?;
/// assert_eq!(back[..], *b"hello");
/// # sent.wait()?;
/// # Ok::<(), ferry::Error>(())
/// ```
#[derive(Clone)]
pub struct Event {
    mark: Arc<dyn Mark>,
    /// The runtime, as a number to compare.
    runtime: usize,
    stream: StreamHandle,
}

impl Event {
    pub(crate) fn new(mark: Arc<dyn Mark>, runtime: usize, stream: StreamHandle) -> Event {
        Event { mark, runtime, stream }
    }

    /// The calling thread has learnt that the stream has come to it.
    fn tell_joined(&self, how: JoinKind) {
        if let Some(point) = self.mark.point() {
            self.stream.tell_joined(point.ticket, how);
        }
    }

    /// Whose clock it is: of which runtime, and of which device.
    fn clock(&self) -> (usize, DeviceId) {
        (self.runtime, self.stream.device())
    }

    pub(crate) fn mark(&self) -> &Arc<dyn Mark> {
        &self.mark
    }

    /// Whether the stream has come to it.
    ///
    /// ```
    /// let stream = ferry::Runtime::new()?.device(0)?.stream()?;
    /// let event = stream.record()?;
    /// stream.synchronize()?;
    /// assert!(event.is_done());
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn is_done(&self) -> bool {
        let is_done = self.mark.is_done();
        if is_done {
            self.tell_joined(JoinKind::Query);
        }
        is_done
    }

    /// Waits until the stream has come to it. Failures of the work before it are told by
    /// [`Stream::synchronize`](crate::Stream::synchronize).
    ///
    /// ```
    /// let stream = ferry::Runtime::new()?.device(0)?.stream()?;
    /// stream.record()?.wait()?;
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn wait(&self) -> Result<()> {
        self.mark.wait(None).inspect(|()| self.tell_joined(JoinKind::Wait))
    }

    /// Waits for at most `limit`, and says whether the stream has come to it.
    ///
    /// ```
    /// # use std::time::Duration;
    /// let stream = ferry::Runtime::new()?.device(0)?.stream()?;
    /// while !stream.record()?.wait_timeout(Duration::from_millis(100)) {
    ///     eprintln!("still waiting");
    /// }
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn wait_timeout(&self, limit: Duration) -> bool {
        let has_come = || self.mark.wait(Some(limit)).inspect(|()| self.tell_joined(JoinKind::Wait)).is_ok();
        self.is_done() || has_come()
    }

    /// The time from `earlier` to this one, on the device's clock; zero if this one came first. `None` before
    /// both are done, and if they are not of one device. Wait for the later one first: that a token before it
    /// is done is not enough.
    ///
    /// ```
    /// # let device = ferry::Runtime::new()?.device(0)?;
    /// # let (stream, there) = (device.stream()?, device.alloc::<u8>(1 << 20)?);
    /// let start = stream.record()?;
    /// stream.fill(&there, 7)?;
    /// let end = stream.record()?;
    /// assert_eq!(end.duration_since(&end), end.is_done().then_some(Default::default()));
    /// end.wait()?;
    /// println!("filled in {:?}", end.duration_since(&start).expect("both are done"));
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn duration_since(&self, earlier: &Event) -> Option<Duration> {
        let is_one_clock = self.clock() == earlier.clock();
        let ms = self.mark.elapsed_ms(&*earlier.mark).filter(|_| is_one_clock)?;
        [earlier, self].into_iter().for_each(|event| event.tell_joined(JoinKind::Query));
        Some(Duration::try_from_secs_f64(ms / 1e3).unwrap_or_default())
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event").field("is_done", &self.is_done()).finish()
    }
}

/// What awaiting an [`Event`] does.
///
/// ```
/// # use std::future::IntoFuture;
/// let stream = ferry::Runtime::new()?.device(0)?.stream()?;
/// let reached: ferry::Reached = stream.record()?.into_future();
/// # Ok::<(), ferry::Error>(())
/// ```
#[must_use = "a future does nothing unless it is awaited"]
pub struct Reached {
    event: Event,
    watch: Option<Watch>,
}

impl IntoFuture for Event {
    type Output = ();
    type IntoFuture = Reached;

    fn into_future(self) -> Reached {
        Reached { event: self, watch: None }
    }
}

impl IntoFuture for &Event {
    type Output = ();
    type IntoFuture = Reached;

    fn into_future(self) -> Reached {
        self.clone().into_future()
    }
}

impl Future for Reached {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let is_done = match &self.watch {
            Some(watch) => watch.poll(context),
            None if self.event.is_done() => true,
            None => {
                self.watch = Some(Watch::new(self.event.mark.clone(), context));
                false
            }
        };
        if !is_done {
            return Poll::Pending;
        }
        self.event.tell_joined(JoinKind::Wait);
        Poll::Ready(())
    }
}

impl fmt::Debug for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reached").field("is_done", &self.event.is_done()).finish()
    }
}
