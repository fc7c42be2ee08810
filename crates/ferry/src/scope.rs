//! Scopes: host memory that is lent to a stream, and given back when the scope ends.

use crate::{
    Batch, Failed, InFlight, Result, Stream,
    batch::{HostPool, HostPoolMut},
    extent::Direction,
    memory::{HostRead, HostWrite, OnDevice},
    pending,
    stream::Notes,
};
use ferry_backends::os::threads::as_here;
use std::{
    fmt,
    marker::PhantomData,
    sync::{Arc, Condvar, Mutex, PoisonError},
};

/// Lends memory to a stream until the scope ends: see [`Stream::scope`].
///
/// ```
/// # let device = ferry::Runtime::new()?.device(0)?;
/// # let (stream, there) = (device.stream()?, device.alloc_from(b"ab")?);
/// # let mut host = device.runtime().alloc_host::<u8>(2)?;
/// stream.scope(|scope: &ferry::Scope<'_, '_>| {
///     scope.download(&mut host, &there)?;
///     Ok(())
/// })?;
/// assert_eq!(host[..], *b"ab");
/// # Ok::<(), ferry::Error>(())
/// ```
pub struct Scope<'scope, 'env: 'scope> {
    stream: Stream,
    /// The ops that were given something to use.
    notes: Notes,
    calls: Arc<ScopeCalls>,
    /// As in `std::thread::Scope`: neither lifetime may shrink or grow.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

impl Stream {
    /// Runs `body`, which may lend page-locked memory to copies instead of giving it away, and waits at the
    /// end until the copies are done: then the borrows end. As `std::thread::scope` does for threads; it
    /// waits also if `body` fails or panics. What `body` may lend lives longer than the call of `scope`.
    ///
    /// There are no scopes for tasks: a future that waits at its end can be leaked half-way, and the borrows
    /// would end with copies in flight. A task gives buffers away instead.
    ///
    /// # Errors
    /// What `body` returns; or that some of the scope's copies were dropped by [`abort`](Self::abort), or
    /// that work before them in the stream failed.
    ///
    /// ```
    /// let device = ferry::Runtime::new()?.device(0)?;
    /// let (stream, there) = (device.stream()?, device.alloc::<u8>(5)?);
    /// let host = device.runtime().alloc_host_from(b"hello")?;
    /// let mut back = device.runtime().alloc_host::<u8>(5)?;
    ///
    /// stream.scope(|scope| {
    ///     scope.upload(&there, &host)?;
    ///     scope.download(&mut back, &there)?;
    ///     println!("{:?} is on its way", &host[..]); // reading what is only read is fine
    ///     Ok(())
    /// })?;
    /// assert_eq!(back[..], host[..]);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn scope<'env, R>(
        &self,
        body: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> Result<R>,
    ) -> Result<R> {
        let scope = Scope {
            stream: self.clone(),
            notes: Notes::new(),
            calls: Arc::default(),
            scope: PhantomData,
            env: PhantomData,
        };
        let end = EndOfScope(&scope);
        let result = body(&scope);
        drop(end);
        result.and_then(|value| scope.verdict().map(|()| value))
    }
}

/// Waits when it is dropped, which it is whether the body returns or panics.
struct EndOfScope<'a, 'scope, 'env>(&'a Scope<'scope, 'env>);

impl Drop for EndOfScope<'_, '_, '_> {
    fn drop(&mut self) {
        // Functions first: one that borrows the scope may still be handing copies over. When all are gone
        // nobody can.
        self.0.calls.wait();
        // What went wrong is told later; here it only matters that nothing is in use any more.
        let _ = self.0.verdict();
    }
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// The stream that it lends to. What is given to the stream itself, and not to the scope, is not waited
    /// for at the end.
    ///
    /// ```
    /// # let device = ferry::Runtime::new()?.device(0)?;
    /// # let (stream, there) = (device.stream()?, device.alloc_from(b"ab")?);
    /// # let mut host = device.runtime().alloc_host::<u8>(1)?;
    /// stream.scope(|scope| {
    ///     scope.stream().copy(there.slice(..1)?, there.slice(1..)?)?;
    ///     scope.download(&mut host, there.slice(..1)?)?;
    ///     Ok(())
    /// })?;
    /// assert_eq!(host[..], *b"b");
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// As [`Stream::upload`], of memory that is lent: `&HostSlice`, `&HostBuffer`,
    /// [`HostMatrix`](crate::HostMatrix), or the token of an earlier copy.
    ///
    /// ```
    /// # let device = ferry::Runtime::new()?.device(0)?;
    /// # let (stream, there) = (device.stream()?, device.alloc::<u8>(5)?);
    /// let host = device.runtime().alloc_host_from(b"hello")?;
    /// stream.scope(|scope| {
    ///     scope.upload(there.slice(..2)?, host.slice(3..)?)?;
    ///     Ok(())
    /// })?;
    /// # assert_eq!(stream.read_vec(there.slice(..2)?)?, *b"lo");
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn upload<S>(
        &'scope self,
        dst: impl OnDevice<Elem = S::Elem>,
        src: S,
    ) -> Result<InFlight<S::Buffer>, Failed<S>>
    where
        S: HostRead + 'scope,
    {
        // SAFETY: what is borrowed for 'scope cannot be used otherwise before `Stream::scope` is over, which
        // ends when this copy has passed. What is owned, see `Stream::upload`.
        unsafe { self.stream.lend(Direction::Up, dst, src, Some(&self.notes)) }
    }

    /// As [`Stream::download`], to memory that is lent: `&mut HostSlice`, `&mut HostBuffer`,
    /// [`HostMatrixMut`](crate::HostMatrixMut), or the token of an earlier copy. The token gives the borrow
    /// back, if it is wanted before the scope ends.
    ///
    /// ```
    /// # let device = ferry::Runtime::new()?.device(0)?;
    /// # let (stream, there) = (device.stream()?, device.alloc_from(b"hello")?);
    /// let mut host = device.runtime().alloc_host::<u8>(5)?;
    /// stream.scope(|scope| {
    ///     let token = scope.download(&mut host, &there)?;
    ///     let host = token.wait()?;
    ///     host[0] = b'j';
    ///     scope.upload(&there, host)?;
    ///     Ok(())
    /// })?;
    /// assert_eq!(stream.read_vec(&there)?, *b"jello");
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn download<D>(
        &'scope self,
        dst: D,
        src: impl OnDevice<Elem = D::Elem>,
    ) -> Result<InFlight<D::Buffer>, Failed<D>>
    where
        D: HostWrite + 'scope,
    {
        // SAFETY: as in `upload`.
        unsafe { self.stream.lend(Direction::Down, src, dst, Some(&self.notes)) }
    }

    /// As [`Stream::upload_batch`], of memory that is lent.
    ///
    /// ```
    /// # let device = ferry::Runtime::new()?.device(0)?;
    /// # let (stream, there) = (device.stream()?, device.alloc::<u8>(4)?);
    /// let host = device.runtime().alloc_host_from(b"abcd")?;
    /// stream.scope(|scope| {
    ///     let mut batch = ferry::Batch::new(&host);
    ///     batch.push(there.slice(..2)?, 2..4)?;
    ///     batch.push(there.slice(2..)?, 0..2)?;
    ///     scope.upload_batch(batch)?;
    ///     Ok(())
    /// })?;
    /// assert_eq!(stream.read_vec(&there)?, *b"cdab");
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn upload_batch<'d, H>(
        &'scope self,
        batch: Batch<'d, H>,
    ) -> Result<InFlight<H::Buffer>, Failed<Batch<'d, H>>>
    where
        H: HostPool + 'scope,
    {
        // SAFETY: as in `upload`.
        unsafe { self.stream.lend_batch(Direction::Up, batch, Some(&self.notes)) }
    }

    /// As [`Stream::download_batch`], to memory that is lent.
    ///
    /// ```
    /// # let device = ferry::Runtime::new()?.device(0)?;
    /// # let (stream, there) = (device.stream()?, device.alloc_from(b"abcd")?);
    /// let mut host = device.runtime().alloc_host::<u8>(4)?;
    /// stream.scope(|scope| {
    ///     let mut batch = ferry::Batch::new(host.chunks_mut(2).collect::<Vec<_>>());
    ///     batch.push(there.slice(..2)?, (1, 0..2))?;
    ///     batch.push(there.slice(2..)?, (0, 0..2))?;
    ///     scope.download_batch(batch)?;
    ///     Ok(())
    /// })?;
    /// assert_eq!(host[..], *b"cdab");
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn download_batch<'d, H>(
        &'scope self,
        batch: Batch<'d, H>,
    ) -> Result<InFlight<H::Buffer>, Failed<Batch<'d, H>>>
    where
        H: HostPoolMut + 'scope,
    {
        // SAFETY: as in `upload`.
        unsafe { self.stream.lend_batch(Direction::Down, batch, Some(&self.notes)) }
    }

    /// As [`Stream::call`], of a function that borrows.
    ///
    /// ```
    /// # let stream = ferry::Runtime::new()?.device(0)?.stream()?;
    /// let mut done = false;
    /// stream.scope(|scope| scope.call(|| done = true))?;
    /// assert!(done);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn call<F: FnOnce() + Send + 'scope>(&'scope self, function: F) -> Result<()> {
        let job = ScopedFunction { function: Some(function), _call: ScopeCalls::begin(&self.calls) };
        let boxed: Box<dyn FnOnce() + Send + 'scope> = Box::new(move || job.run());
        // SAFETY: only the lifetime changes. The end of `Stream::scope` waits until the job is gone, and what
        // it borrows with it, run or not: whatever becomes of its place in the stream.
        let boxed: Box<dyn FnOnce() + Send + 'static> = unsafe { std::mem::transmute(boxed) };
        self.stream.core().call_then(as_here(boxed), |ticket| self.notes.add(ticket)).map(drop)
    }

    /// Waits for all that was lent to copies, and says what is known to be wrong with it.
    fn verdict(&self) -> Result<()> {
        match self.notes.span() {
            None => Ok(()),
            Some((first, last)) => pending::wait(self.stream.core(), first, last),
        }
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scope({:?})", self.stream)
    }
}

/// A function of a scope. Its fields go in this order: what it borrows, then the sign that it is there.
struct ScopedFunction<F> {
    function: Option<F>,
    _call: ScopeCall,
}

impl<F: FnOnce()> ScopedFunction<F> {
    fn run(mut self) {
        self.function.take().expect("run once")();
    }
}

/// The functions of a scope that are not gone yet. An abort lets the stream pass a function that still runs,
/// so tickets do not tell.
#[derive(Default)]
struct ScopeCalls {
    count: Mutex<usize>,
    gone: Condvar,
}

/// One of them.
struct ScopeCall(Arc<ScopeCalls>);

impl ScopeCalls {
    fn begin(calls: &Arc<ScopeCalls>) -> ScopeCall {
        *calls.count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        ScopeCall(calls.clone())
    }

    fn wait(&self) {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        while *count > 0 {
            count = self.gone.wait(count).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for ScopeCall {
    fn drop(&mut self) {
        *self.0.count.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.gone.notify_all();
    }
}
