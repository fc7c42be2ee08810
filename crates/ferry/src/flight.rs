//! Copies in flight: the token that holds a buffer until its copy has passed, and the error that gives one
//! back.

use crate::{
    Error, Kind, Result,
    extent::{Extent, Key},
    memory::{HostRead, HostWrite, sealed::Sealed},
    pending::{PendingUses, StreamHandle},
};
use ferry_core::Ticket;
use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

/// A copy that was handed over to a stream, and the buffer that it uses. Nobody can touch the buffer before
/// the copy is done: [`wait`](Self::wait) or `.await` gives it back.
///
/// A later copy takes the token in place of the buffer, without waiting: it runs after the token's copy,
/// whichever stream that is on (on the same stream that costs nothing, on another one a wait is put in
/// front).
///
/// As a future it wakes its task from a thread of the engine: a waker may do anything but wait for the
/// stream.
///
/// Dropping or forgetting a token detaches: the copy goes on, and the buffer's memory is used again only when
/// it has passed.
///
/// ```
/// let device = ferry::Runtime::new()?.device(0)?;
/// let stream = device.stream()?;
/// let there = device.alloc::<u8>(5)?;
/// let host = device.runtime().alloc_host_from(b"hello")?;
///
/// let token = stream.upload(&there, host)?;     // `host` is gone: nobody can change it now
/// let token = stream.download(token, &there)?;  // and back into it, without waiting
/// let host = token.wait()?;
/// assert_eq!(host[..], *b"hello");
/// # Ok::<(), ferry::Error>(())
/// ```
// The field order avoids a store-forwarding stall: a token is moved in pairs of words, and with `pending`
// behind the buffer's three words its last word, `upto`, which was stored just before, is moved by a load
// of its own width.
#[repr(C)]
pub struct InFlight<B> {
    /// Gone once a poll has handed it out.
    buffer: Option<B>,
    pending: PendingUses,
}

impl<B> InFlight<B> {
    /// The token of the op `ticket` of a stream, for a buffer that nothing else uses.
    #[inline]
    pub(crate) fn new(buffer: B, stream: Option<StreamHandle>, ticket: Ticket) -> InFlight<B> {
        let stream = stream.expect("what nothing uses is in use by no stream yet");
        InFlight { buffer: Some(buffer), pending: PendingUses::new(stream, ticket) }
    }

    /// Waits until the copy is done and gives the buffer back. The waiting thread may do some of the copying.
    ///
    /// # Errors
    /// The copy was dropped by [`Stream::abort`](crate::Stream::abort), or it failed, or work before it in
    /// the stream failed and nobody has called [`Stream::synchronize`](crate::Stream::synchronize) to hear of
    /// it. The buffer comes back all the same.
    ///
    /// # Panics
    /// If the token was polled as a future and has given its buffer out.
    ///
    /// ```
    /// # let device = ferry::Runtime::new()?.device(0)?;
    /// # let (stream, there) = (device.stream()?, device.alloc_from(&[7_u8; 3])?);
    /// let host = stream.download(device.runtime().alloc_host(3)?, &there)?.wait()?;
    /// assert_eq!(host[..], [7, 7, 7]);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn wait(mut self) -> Result<B, Failed<B>> {
        let waited = self.pending.wait();
        self.land(waited)
    }

    /// Waits for at most `limit`, and says whether the copy is done: then [`wait`](Self::wait) returns at
    /// once.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let device = ferry::Runtime::new()?.device(0)?;
    /// # let (stream, there) = (device.stream()?, device.alloc::<u8>(3)?);
    /// let token = stream.upload(&there, device.runtime().alloc_host(3)?)?;
    /// while !token.wait_timeout(Duration::from_millis(100)) {
    ///     eprintln!("still waiting");
    /// }
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn wait_timeout(&self, limit: Duration) -> bool {
        self.pending.wait_timeout(limit)
    }

    /// Whether the copy is done.
    ///
    /// ```
    /// # let device = ferry::Runtime::new()?.device(0)?;
    /// # let (stream, there) = (device.stream()?, device.alloc::<u8>(3)?);
    /// let token = stream.upload(&there, device.runtime().alloc_host(3)?)?;
    /// stream.synchronize()?;
    /// assert!(token.is_done());
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn is_done(&self) -> bool {
        self.pending.is_done()
    }

    pub(crate) fn ticket(&self) -> Ticket {
        self.pending.ticket()
    }

    /// What it holds, to be asked where it lies.
    #[inline]
    pub(crate) fn held(&mut self, _: Key) -> Result<&mut B> {
        self.buffer.as_mut().ok_or_else(given_out)
    }

    #[inline]
    pub(crate) fn uses(&self, _: Key) -> &PendingUses {
        &self.pending
    }

    /// The token of the op `ticket`, which uses the buffer after this one: of the same stream, or the other
    /// one is given.
    pub(crate) fn then(mut self, stream: Option<StreamHandle>, ticket: Ticket) -> InFlight<B> {
        self.pending.go_on(stream, ticket);
        self
    }

    /// Gives the buffer back only when these ops have passed, too. Their failures are told to the stream.
    pub(crate) fn beside(mut self, ops: Vec<(StreamHandle, Ticket)>) -> InFlight<B> {
        self.pending.beside(ops);
        self
    }

    fn land(&mut self, waited: Result<()>) -> Result<B, Failed<B>> {
        let buffer = self.buffer.take().expect("a token gives its buffer out once");
        match waited {
            Ok(()) => Ok(buffer),
            Err(error) => Err(Failed { error, buffer }),
        }
    }

    /// This copy in flight, with what `change` makes of what it holds.
    pub(crate) fn replace<C>(self, change: impl FnOnce(B) -> C) -> InFlight<C> {
        InFlight { buffer: self.buffer.map(change), pending: self.pending }
    }

    /// As [`replace`](Self::replace), if `change` succeeds. What it holds stays as inaccessible as before.
    pub(crate) fn map<C>(
        self,
        change: impl FnOnce(B) -> Result<C, Failed<B>>,
    ) -> Result<InFlight<C>, Failed<InFlight<B>>> {
        let InFlight { buffer, pending } = self;
        let Some(buffer) = buffer else {
            return Err(Failed { error: given_out(), buffer: InFlight { buffer: None, pending } });
        };
        match change(buffer) {
            Ok(changed) => Ok(InFlight { buffer: Some(changed), pending }),
            Err(Failed { error, buffer }) => {
                Err(Failed { error, buffer: InFlight { buffer: Some(buffer), pending } })
            }
        }
    }
}

#[cold]
fn given_out() -> Error {
    Kind::BadAddress.because("this token was awaited already, and has given its buffer out")
}

impl<B: Unpin> Future for InFlight<B> {
    type Output = Result<B, Failed<B>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.pending.poll(context).map(|waited| self.land(waited))
    }
}

impl<B> Sealed for InFlight<B> {}

impl<B: HostRead<Buffer = B>> HostRead for InFlight<B> {
    type Elem = B::Elem;
    type Buffer = B;

    #[inline]
    fn extent(&mut self, key: Key) -> Result<Extent> {
        self.held(key)?.extent(key)
    }

    #[inline]
    fn pending(&self, key: Key) -> Option<&PendingUses> {
        Some(self.uses(key))
    }

    // In place, and in two steps: a token that is taken apart and put together again is copied once more.
    #[inline(always)]
    fn go_on(&mut self, stream: &mut Option<StreamHandle>, ticket: Ticket, _: Key) {
        self.pending.go_on(stream.take(), ticket);
    }

    #[inline(always)]
    fn fly(self, _: Option<StreamHandle>, _: Ticket, _: Key) -> InFlight<B> {
        self
    }
}

impl<B: HostWrite<Buffer = B>> HostWrite for InFlight<B> {}

impl<B> fmt::Debug for InFlight<B> {
    /// The buffer is not shown: its bytes are in flight.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InFlight").field("is_done", &self.is_done()).finish_non_exhaustive()
    }
}

/// An [`Error`], and the buffer that was given to the call that failed. `?` turns it into the error alone.
///
/// ```
/// let device = ferry::Runtime::new()?.device(0)?;
/// let small = device.alloc::<u8>(3)?;
/// let host = device.runtime().alloc_host_from(b"hello")?;
///
/// let failed = device.stream()?.upload(&small, host).unwrap_err();
/// assert_eq!(failed.error.kind, ferry::Kind::BadShape);
/// let host = failed.buffer;
/// assert_eq!(host[..], *b"hello");
/// # Ok::<(), ferry::Error>(())
/// ```
pub struct Failed<B> {
    /// What went wrong.
    pub error: Error,
    /// What was given to the call.
    pub buffer: B,
}

impl<B> From<Failed<B>> for Error {
    fn from(failed: Failed<B>) -> Error {
        failed.error
    }
}

impl<B> fmt::Debug for Failed<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failed").field("error", &self.error).finish_non_exhaustive()
    }
}

impl<B> fmt::Display for Failed<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<B> std::error::Error for Failed<B> {}

/// What [`Stream::synchronized`](crate::Stream::synchronized) gives.
///
/// ```
/// # async fn example(stream: ferry::Stream) -> ferry::Result<()> {
/// let done: ferry::Synchronized = stream.synchronized();
/// done.await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a future does nothing unless it is awaited"]
pub struct Synchronized(pub(crate) PendingUses);

impl Future for Synchronized {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        self.0.poll(context).map(|waited| self.0.tell(waited))
    }
}

impl fmt::Debug for Synchronized {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Synchronized").field("is_done", &self.0.is_done()).finish()
    }
}
