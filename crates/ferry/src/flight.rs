//! Copies in flight: the token that holds a buffer until its copy has passed, and the error that gives one back.

use crate::{
    Error, Kind, Result,
    extent::{Extent, Key},
    memory::{HostRead, HostWrite, sealed::Sealed},
    wake::Watch,
};
use ferry_core::{Fence, Stream as CoreStream, Ticket};
use std::{
    fmt,
    future::Future,
    mem,
    ops::RangeBounds,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

/// A copy that was handed over to a stream, and the buffer that it uses. Nobody can touch the buffer before the copy is done:
/// [`wait`](Self::wait) or `.await` gives it back.
///
/// A later copy takes the token in place of the buffer, without waiting: it runs after the token's copy, whichever stream that is
/// on (on the same stream that costs nothing, on another one a wait is put in front).
///
/// As a future it wakes its task from a thread of the engine: a waker may do anything but wait for the stream.
///
/// Dropping or forgetting a token detaches: the copy goes on, and the buffer's memory is used again only when it has passed.
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
// In this order the last word is `upto`, and a processor that moves words in pairs moves it alone (a buffer has three words): what
// was written just now is not read again together with something else, which takes long.
#[repr(C)]
pub struct InFlight<B> {
    /// Gone once a poll has handed it out.
    buffer: Option<B>,
    course: Course,
}

/// A stream, as tokens hold it.
pub type Handle = Arc<CoreStream>;

/// Where work is: the ops of a stream that use some memory, of which the last is waited for.
#[repr(C)]
pub struct Course {
    /// What few need: a token is moved from hand to hand.
    rest: Option<Box<Rest>>,
    step: Step,
}

#[derive(Default)]
struct Rest {
    /// What other streams did with the memory before. This stream waits for it, but whoever is given the memory back must not find
    /// them at it, and wants to know what came of it.
    earlier: Vec<Step>,
    /// What is known to have gone wrong with steps that are done.
    wrong: Option<Error>,
    /// If anybody has polled.
    watch: Option<Watch>,
}

/// The ops `from..=upto` of a stream.
#[repr(C)]
struct Step {
    stream: Arc<CoreStream>,
    from: Ticket,
    upto: Ticket,
}

impl Step {
    fn is_done(&self) -> bool {
        self.stream.has_passed(self.upto)
    }

    fn fence(&self) -> Arc<dyn Fence> {
        self.stream.fence_after(self.upto)
    }

    /// What is known to be wrong with it, now that it is done.
    fn error(&self) -> Option<Error> {
        self.stream.status().error_within(self.from, self.upto)
    }
}

impl Course {
    /// The op `ticket`, which uses memory that nothing else uses.
    #[inline]
    fn new(stream: Arc<CoreStream>, ticket: Ticket) -> Course {
        Course { rest: None, step: Step { stream, from: ticket, upto: ticket } }
    }

    /// Everything that the stream has to do by now.
    pub(crate) fn so_far(stream: Arc<CoreStream>) -> Course {
        let (from, upto) = so_far(&stream);
        Course { rest: None, step: Step { stream, from, upto } }
    }

    /// The op `ticket` uses the memory as well, after this. It is of the same stream, or the other one is given.
    #[inline]
    fn go_on(&mut self, stream: Option<Arc<CoreStream>>, ticket: Ticket) {
        if stream.is_none() && self.rest.is_none() {
            self.step.upto = ticket;
        } else {
            self.go_elsewhere(stream, ticket);
        }
    }

    #[cold]
    fn go_elsewhere(&mut self, stream: Option<Arc<CoreStream>>, ticket: Ticket) {
        let Rest { mut earlier, mut wrong, .. } = self.rest.take().map(|rest| *rest).unwrap_or_default();
        let now = &mut self.step;
        now.upto = match stream {
            None => ticket,
            Some(stream) => {
                earlier.push(mem::replace(now, Step { stream, from: ticket, upto: ticket }));
                ticket
            }
        };
        earlier.retain(|step| {
            if Arc::ptr_eq(&step.stream, &now.stream) {
                now.from = now.from.min(step.from);
                return false;
            }
            let is_done = step.is_done();
            if is_done && let Some(error) = step.error() {
                wrong.get_or_insert(error);
            }
            !is_done
        });
        if !earlier.is_empty() || wrong.is_some() {
            self.rest = Some(Box::new(Rest { earlier, wrong, watch: None }));
        }
    }

    /// Whether the newest work is of `stream`.
    #[inline]
    pub(crate) fn is_of(&self, stream: &Arc<CoreStream>) -> bool {
        Arc::ptr_eq(&self.step.stream, stream)
    }

    /// Whether all the work is of `stream`.
    #[inline]
    pub(crate) fn is_only_of(&self, stream: &Arc<CoreStream>) -> bool {
        self.is_of(stream) && self.rest.is_none()
    }

    /// What the next copy on `stream` has to wait for: work of other streams that is not done.
    pub(crate) fn elsewhere(&self, stream: &Arc<CoreStream>) -> Vec<Arc<dyn Fence>> {
        let steps = self.earlier().iter().chain([&self.step]);
        steps.filter(|step| !Arc::ptr_eq(&step.stream, stream) && !step.is_done()).map(Step::fence).collect()
    }

    fn earlier(&self) -> &[Step] {
        self.rest.as_ref().map_or(&[], |rest| &rest.earlier)
    }

    /// A step that is not done.
    fn unfinished(&self) -> Option<&Step> {
        [&self.step].into_iter().chain(self.earlier()).find(|step| !step.is_done())
    }

    pub(crate) fn is_done(&self) -> bool {
        self.unfinished().is_none()
    }

    /// Waits until no byte of it moves any more, and says what is known to be wrong with it.
    pub(crate) fn wait(&self) -> Result<()> {
        pass(&self.step.stream, self.step.upto);
        self.earlier().iter().for_each(|step| pass(&step.stream, step.upto));
        self.verdict()
    }

    fn verdict(&self) -> Result<()> {
        let wrong = || self.rest.as_ref().and_then(|rest| rest.wrong.clone());
        let earlier = || self.earlier().iter().find_map(Step::error);
        self.step.error().or_else(wrong).or_else(earlier).map_or(Ok(()), Err)
    }

    pub(crate) fn wait_timeout(&self, limit: Duration) -> bool {
        let end = Instant::now().checked_add(limit);
        let left = || end.map_or(limit, |end| end.saturating_duration_since(Instant::now()));
        let mut steps = [&self.step].into_iter().chain(self.earlier());
        steps.all(|step| step.is_done() || step.fence().wait(Some(left())).is_ok())
    }

    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        loop {
            if let Some(rest) = &mut self.rest
                && let Some(watch) = &rest.watch
            {
                if !watch.poll(context) {
                    return Poll::Pending;
                }
                rest.watch = None;
            }
            let Some(next) = self.unfinished().map(Step::fence) else { return Poll::Ready(self.verdict()) };
            self.rest.get_or_insert_default().watch = Some(Watch::new(next, context));
        }
    }
}

/// The ops that `stream` has to do by now.
fn so_far(stream: &CoreStream) -> (Ticket, Ticket) {
    // An abort of what had passed before is no news.
    let from = stream.status().passed() + 1;
    (from, stream.newest())
}

/// Waits until everything submitted to `stream` so far is done, and tells what nobody was told.
pub(crate) fn settle(stream: &CoreStream) -> Result<()> {
    let (from, upto) = so_far(stream);
    tell(stream, wait(stream, from, upto))
}

/// What somebody who `waited` for everything is told: what nobody was told, or else what came of the waiting.
fn tell(stream: &CoreStream, waited: Result<()>) -> Result<()> {
    stream.status().take_error().map_or(waited, Err)
}

/// Waits until the ops `from..=upto` of `stream` have passed, and says what is known to be wrong with them.
pub(crate) fn wait(stream: &CoreStream, from: Ticket, upto: Ticket) -> Result<()> {
    pass(stream, upto);
    stream.status().error_within(from, upto).map_or(Ok(()), Err)
}

/// Waits until `stream` has passed `ticket`. Nothing may be given back before that, so there is no error.
fn pass(stream: &CoreStream, ticket: Ticket) {
    if stream.status().passed() < ticket {
        let fence = stream.fence_after(ticket);
        while !fence.is_done() {
            let _ = fence.wait(None);
        }
    }
}

impl<B> InFlight<B> {
    /// The token of the op `ticket` of a stream, for a buffer that nothing else uses.
    #[inline]
    pub(crate) fn new(buffer: B, stream: Option<Arc<CoreStream>>, ticket: Ticket) -> InFlight<B> {
        let stream = stream.expect("what nothing uses is in use by no stream yet");
        InFlight { buffer: Some(buffer), course: Course::new(stream, ticket) }
    }

    /// Waits until the copy is done and gives the buffer back. The waiting thread may do some of the copying.
    ///
    /// # Errors
    /// The copy was dropped by [`Stream::abort`](crate::Stream::abort), or it failed, or work before it in the stream failed
    /// and nobody has called [`Stream::synchronize`](crate::Stream::synchronize) to hear of it. The buffer comes back all the same.
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
        let waited = self.course.wait();
        self.land(waited)
    }

    /// Waits for at most `limit`, and says whether the copy is done: then [`wait`](Self::wait) returns at once.
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
        self.course.wait_timeout(limit)
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
        self.course.is_done()
    }

    pub(crate) fn ticket(&self) -> Ticket {
        self.course.step.upto
    }

    /// What it holds, to be asked where it lies.
    #[inline]
    pub(crate) fn held(&mut self, _: Key) -> Result<&mut B> {
        self.buffer.as_mut().ok_or_else(given_out)
    }

    #[inline]
    pub(crate) fn courses(&self, _: Key) -> &Course {
        &self.course
    }

    /// The token of the op `ticket`, which uses the buffer after this one: of the same stream, or the other one is given.
    pub(crate) fn then(mut self, stream: Option<Arc<CoreStream>>, ticket: Ticket) -> InFlight<B> {
        self.course.go_on(stream, ticket);
        self
    }

    fn land(&mut self, waited: Result<()>) -> Result<B, Failed<B>> {
        let buffer = self.buffer.take().expect("a token gives its buffer out once");
        match waited {
            Ok(()) => Ok(buffer),
            Err(error) => Err(Failed { error, buffer }),
        }
    }

    /// The same copy in flight with `change` made to what it holds, which stays as inaccessible as before.
    fn map<C>(
        self,
        change: impl FnOnce(B) -> Result<C, Failed<B>>,
    ) -> Result<InFlight<C>, Failed<InFlight<B>>> {
        let InFlight { buffer, course } = self;
        let Some(buffer) = buffer else {
            return Err(Failed { error: given_out(), buffer: InFlight { buffer: None, course } });
        };
        match change(buffer) {
            Ok(changed) => Ok(InFlight { buffer: Some(changed), course }),
            Err(Failed { error, buffer }) => {
                Err(Failed { error, buffer: InFlight { buffer: Some(buffer), course } })
            }
        }
    }
}

#[cold]
fn given_out() -> Error {
    Kind::BadAddress.because("this token was awaited already, and has given its buffer out")
}

impl<B: crate::part::Whole> InFlight<B> {
    /// The same token, of which the next copy uses the elements `range` only.
    ///
    /// ```
    /// # let device = ferry::Runtime::new()?.device(0)?;
    /// # let (stream, there) = (device.stream()?, device.alloc_from(&[1_u8, 2])?);
    /// let token = stream.upload(&there, device.runtime().alloc_host_from(&[8_u8, 9])?)?;
    /// let token = stream.download(token.into_slice(..1)?, there.slice(1..)?)?;
    /// let host = token.into_inner().wait()?;
    /// assert_eq!(host[..], [9, 9]);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn into_slice(
        self,
        range: impl RangeBounds<usize>,
    ) -> Result<InFlight<crate::Part<B>>, Failed<Self>> {
        self.map(|buffer| crate::part::slice(buffer, range))
    }

    /// The same token, of which the next copy uses `rows` rows of `cols` elements, `pitch` elements apart.
    ///
    /// ```
    /// # let device = ferry::Runtime::new()?.device(0)?;
    /// # let (stream, there) = (device.stream()?, device.alloc_from(&[1_u8, 2, 3, 4])?);
    /// let token = stream.upload(&there, device.runtime().alloc_host_from(&[0_u8; 4])?)?;
    /// stream.write(&there, &[1, 2, 3, 4])?;
    /// let token = stream.download(token.into_matrix(2, 1, 2)?, there.slice(..2)?)?;
    /// let host = token.into_inner().wait()?;
    /// assert_eq!(host[..], [1, 0, 2, 0]);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn into_matrix(
        self,
        rows: usize,
        cols: usize,
        pitch: usize,
    ) -> Result<InFlight<crate::Part<B>>, Failed<Self>> {
        self.map(|buffer| crate::part::matrix(buffer, rows, cols, pitch))
    }
}

impl<B> InFlight<crate::Part<B>> {
    /// The same token, of which the next copy uses a rectangle: these of its rows, and of each these columns.
    ///
    /// ```
    /// # let device = ferry::Runtime::new()?.device(0)?;
    /// # let (stream, there) = (device.stream()?, device.alloc_from(&[1_u8, 2])?);
    /// let picture = device.runtime().alloc_host::<u8>(6)?.into_matrix(2, 3, 3)?;
    /// let token = stream.download(picture.rect(.., ..1)?, &there)?;
    /// let token = token.into_inner().into_matrix(2, 3, 3)?.rect(.., 1..2)?;
    /// let host = stream.download(token, &there)?.into_inner().wait()?;
    /// assert_eq!(host[..], [1, 1, 0, 2, 2, 0]);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn rect(
        self,
        rows: impl RangeBounds<usize>,
        cols: impl RangeBounds<usize>,
    ) -> Result<InFlight<crate::Part<B>>, Failed<Self>> {
        self.map(|part| part.rect(rows, cols))
    }

    /// The token of the whole buffer.
    ///
    /// ```
    /// # let device = ferry::Runtime::new()?.device(0)?;
    /// # let (stream, there) = (device.stream()?, device.alloc_from(&[5_u8; 2])?);
    /// let part = device.runtime().alloc_host::<u8>(4)?.into_slice(1..3)?;
    /// let host = stream.download(part, &there)?.into_inner().wait()?;
    /// assert_eq!(host[..], [0, 5, 5, 0]);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn into_inner(self) -> InFlight<B> {
        InFlight { buffer: self.buffer.map(crate::Part::into_inner), course: self.course }
    }
}

impl<B: Unpin> Future for InFlight<B> {
    type Output = Result<B, Failed<B>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.course.poll(context).map(|waited| self.land(waited))
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
    fn course(&self, key: Key) -> Option<&Course> {
        Some(self.courses(key))
    }

    // In place, and in two steps: a token that is taken apart and put together again is copied once more.
    #[inline(always)]
    fn go_on(&mut self, stream: &mut Option<Arc<CoreStream>>, ticket: Ticket, _: Key) {
        self.course.go_on(stream.take(), ticket);
    }

    #[inline(always)]
    fn fly(self, _: Option<Arc<CoreStream>>, _: Ticket, _: Key) -> InFlight<B> {
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
pub struct Synchronized(pub(crate) Course);

impl Future for Synchronized {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        self.0.poll(context).map(|waited| tell(&self.0.step.stream, waited))
    }
}

impl fmt::Debug for Synchronized {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Synchronized").field("is_done", &self.0.is_done()).finish()
    }
}
