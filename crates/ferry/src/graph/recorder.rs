//! Capturing: the verbs of a branch, and the graph while its closure runs.

use super::{Graph, GraphSlice, Keepsake};
use crate::{
    Device, FillValue, HostBuffer, Kind, Result, Stream,
    extent::{Extent, KEY, join},
    memory::{Element, OnDevice},
    runtime::owner,
};
use ferry_backends::os::threads::as_here_each;
use ferry_core::{Branch, Capture, Error, Footprint, Op, Recorder as CoreRecorder};
use std::{any::Any, cell::RefCell, collections::HashMap, fmt, marker::PhantomData, sync::Arc};

/// Captures work of one branch of a graph: see [`Device::capture`].
///
/// ```
/// # let device = ferry::Runtime::new()?.device(0)?;
/// # let (stream, there) = (device.stream()?, device.alloc::<u8>(4)?);
/// let (graph, ()) = device.capture(|main: &ferry::Recorder<'_>| main.fill(&there, 7))?;
/// graph.launch(&stream)?.wait()?;
/// assert_eq!(stream.read_vec(&there)?, [7; 4]);
/// # Ok::<(), ferry::Error>(())
/// ```
pub struct Recorder<'g> {
    state: &'g OpenGraph,
    stream: Stream,
    branch: Branch,
    /// Neither longer nor shorter: a recorder of one capture cannot be given to another.
    capture: PhantomData<&'g mut &'g ()>,
}

impl Device {
    /// Captures what `body` asks of the recorder, without running it, and makes a graph of it. What `body`
    /// returns comes back beside the graph: the [`GraphSlice`]s, by which the program gets at its memory.
    ///
    /// A graph takes a stream of the device's number for each branch, for as long as it is there.
    ///
    /// # Errors
    /// What `body` returns. The buffers that were given to the graph are freed then.
    ///
    /// ```
    /// let device = ferry::Runtime::new()?.device(0)?;
    /// let (stream, there) = (device.stream()?, device.alloc_zeroed::<u8>(2)?);
    /// let host = device.runtime().alloc_host_from(b"ab")?;
    /// let (graph, input) = device.capture(|main| {
    ///     let input = main.keep(host);
    ///     main.upload(&there, input)?;
    ///     Ok(input)
    /// })?;
    /// assert_eq!(stream.read_vec(&there)?, [0, 0], "nothing has run");
    /// graph.launch(&stream)?.wait()?;
    /// assert_eq!(stream.read_vec(&there)?, *b"ab");
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn capture<R>(&self, body: impl for<'g> FnOnce(&Recorder<'g>) -> Result<R>) -> Result<(Graph, R)> {
        let state = OpenGraph::new(self);
        let made = body(&state.fork()?)?;
        Ok((state.finish(), made))
    }
}

impl<'g> Recorder<'g> {
    /// Gives page-locked memory to the graph, which owns it from here on.
    ///
    /// ```
    /// # let device = ferry::Runtime::new()?.device(0)?;
    /// let host = device.runtime().alloc_host_from(b"ab")?;
    /// let (graph, buffer) = device.capture(|main| Ok(main.keep(host)))?;
    /// assert_eq!(graph[buffer][..], *b"ab");
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn keep<T: Element + Send + Sync>(&self, host: HostBuffer<T>) -> GraphSlice<T> {
        let (base, len) = (host.as_ptr() as usize, host.len());
        let (graph, owner) = (self.state.number(), owner(&host.runtime().shared));
        let mut kept = self.state.host.borrow_mut();
        kept.push(HostUse { buffer: Box::new(host), writer: None, readers: Vec::new() });
        GraphSlice { graph, index: kept.len() - 1, base, owner, start: 0, len, elements: PhantomData }
    }

    /// Captures a copy of page-locked memory to a device. It reads the bytes that are there when it runs.
    ///
    /// # Errors
    /// The shapes differ, `dst` is of another runtime, or `src` was given to another graph.
    ///
    /// ```
    /// # let device = ferry::Runtime::new()?.device(0)?;
    /// # let (stream, there) = (device.stream()?, device.alloc::<u8>(2)?);
    /// # let host = device.runtime().alloc_host::<u8>(2)?;
    /// let (mut graph, input) = device.capture(|main| {
    ///     let input = main.keep(host);
    ///     main.upload(&there, input)?;
    ///     Ok(input)
    /// })?;
    /// graph[input].copy_from_slice(b"ab");
    /// graph.launch(&stream)?.wait()?;
    /// assert_eq!(stream.read_vec(&there)?, *b"ab");
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn upload<D: OnDevice>(&self, dst: D, src: GraphSlice<D::Elem>) -> Result<()> {
        self.is_kept(&src)?;
        self.read_behind(src.index);
        self.copy_rows(dst.extent(KEY), src.extent(), size_of::<D::Elem>())?;
        self.keep_device(&dst);
        Ok(())
    }

    /// Captures a copy of device memory to page-locked memory.
    ///
    /// # Errors
    /// As [`upload`](Self::upload).
    ///
    /// ```
    /// # let device = ferry::Runtime::new()?.device(0)?;
    /// # let (stream, there) = (device.stream()?, device.alloc_from(b"ab")?);
    /// # let host = device.runtime().alloc_host::<u8>(2)?;
    /// let (graph, output) = device.capture(|main| {
    ///     let output = main.keep(host);
    ///     main.download(output, &there)?;
    ///     Ok(output)
    /// })?;
    /// assert_eq!(graph.launch(&stream)?.wait()?[output][..], *b"ab");
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn download<S: OnDevice>(&self, dst: GraphSlice<S::Elem>, src: S) -> Result<()> {
        self.is_kept(&dst)?;
        self.write_behind(dst.index);
        self.copy_rows(dst.extent(), src.extent(KEY), size_of::<S::Elem>())?;
        self.keep_device(&src);
        Ok(())
    }

    /// Captures a [`Stream::copy`].
    ///
    /// ```
    /// # let device = ferry::Runtime::new()?.device(0)?;
    /// # let (stream, a, b) = (device.stream()?, device.alloc_from(b"ab")?, device.alloc::<u8>(2)?);
    /// let (graph, ()) = device.capture(|main| main.copy(&b, &a))?;
    /// graph.launch(&stream)?.wait()?;
    /// assert_eq!(stream.read_vec(&b)?, *b"ab");
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn copy<D: OnDevice>(&self, dst: D, src: impl OnDevice<Elem = D::Elem>) -> Result<()> {
        self.stream.copy(&dst, &src)?;
        self.keep_device(&dst);
        self.keep_device(&src);
        Ok(())
    }

    /// Captures a [`Stream::fill`].
    ///
    /// ```
    /// # let device = ferry::Runtime::new()?.device(0)?;
    /// # let (stream, there) = (device.stream()?, device.alloc::<f32>(2)?);
    /// let (graph, ()) = device.capture(|main| main.fill(&there, 2.5))?;
    /// graph.launch(&stream)?.wait()?;
    /// assert_eq!(stream.read_vec(&there)?, [2.5; 2]);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn fill<D: OnDevice<Elem: FillValue>>(&self, dst: D, value: D::Elem) -> Result<()> {
        self.stream.fill(&dst, value)?;
        self.keep_device(&dst);
        Ok(())
    }

    /// Captures a function, which every execution calls in the order of the branch, as [`Stream::call`]
    /// does.
    ///
    /// ```
    /// use std::sync::{Arc, atomic::{AtomicU32, Ordering}};
    ///
    /// # let device = ferry::Runtime::new()?.device(0)?;
    /// # let stream = device.stream()?;
    /// let count = Arc::new(AtomicU32::new(0));
    /// let counter = count.clone();
    /// let (graph, ()) = device.capture(|main| {
    ///     main.call(move || drop(counter.fetch_add(1, Ordering::Relaxed)));
    ///     Ok(())
    /// })?;
    /// graph.launch(&stream)?.launch(&stream)?.wait()?;
    /// assert_eq!(count.load(Ordering::Relaxed), 2);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn call(&self, function: impl Fn() + Send + Sync + 'static) {
        self.state.capture.call(self.branch, Arc::new(as_here_each(function)));
        self.state.has_work(self.branch);
    }

    /// Another branch, which begins behind what this one was given so far and then runs beside it. The graph
    /// ends when all of its branches have: there is none that is not joined. Where later work of a branch
    /// needs what another one does, it [waits](Self::wait_for) for it.
    ///
    /// # Errors
    /// `Kind::LimitReached` if the device has no stream left.
    ///
    /// ```
    /// # let device = ferry::Runtime::new()?.device(0)?;
    /// # let (stream, a, b) = (device.stream()?, device.alloc::<u8>(2)?, device.alloc::<u8>(2)?);
    /// let (graph, ()) = device.capture(|main| {
    ///     let side = main.fork()?;
    ///     main.fill(&a, 1)?;
    ///     side.fill(&b, 2)?; // beside the other fill
    ///     main.wait_for(&side);
    ///     main.copy(a.slice(1..)?, b.slice(1..)?)
    /// })?;
    /// graph.launch(&stream)?.wait()?;
    /// assert_eq!(stream.read_vec(&a)?, [1, 2]);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn fork(&self) -> Result<Recorder<'g>> {
        let side = self.state.fork()?;
        side.wait_for(self);
        Ok(side)
    }

    /// What this branch is given from here on runs behind what `other` was given so far.
    ///
    /// ```
    /// # let device = ferry::Runtime::new()?.device(0)?;
    /// # let (stream, there) = (device.stream()?, device.alloc::<u8>(2)?);
    /// # let host = device.runtime().alloc_host::<u8>(2)?;
    /// let (graph, output) = device.capture(|main| {
    ///     let (side, output) = (main.fork()?, main.keep(host));
    ///     main.fill(&there, 3)?;
    ///     side.wait_for(main);
    ///     side.download(output, &there)?;
    ///     Ok(output)
    /// })?;
    /// assert_eq!(graph.launch(&stream)?.wait()?[output][..], [3, 3]);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn wait_for(&self, other: &Recorder<'g>) {
        self.state.put_behind(self.branch, other.branch);
    }

    /// Refuses memory of another graph, and such that another runtime made.
    fn is_kept<T>(&self, buffer: &GraphSlice<T>) -> Result<()> {
        self.stream.is_ours(&buffer.extent())?;
        if buffer.graph == self.state.number() {
            return Ok(());
        }
        Err(Kind::BadRoute.because(format!("{buffer:?} was given to another graph than this one")))
    }

    fn copy_rows(&self, dst: Extent, src: Extent, size: usize) -> Result<()> {
        self.stream.is_ours(&dst)?;
        self.stream.is_ours(&src)?;
        // SAFETY: both ends are known memory, which the graph keeps; nothing is submitted before a launch.
        unsafe { self.stream.submit(join(dst, src, size)?) }.map(drop)
    }

    /// Work of the branch that reads the buffer comes behind what writes it in other branches.
    fn read_behind(&self, index: usize) {
        let mut host = self.state.host.borrow_mut();
        let HostUse { writer, readers, .. } = &mut host[index];
        if !readers.contains(&self.branch) {
            writer.iter().for_each(|writer| self.state.put_behind(self.branch, *writer));
            readers.push(self.branch);
        }
    }

    /// Work of the branch that writes the buffer comes behind what uses it in other branches.
    fn write_behind(&self, index: usize) {
        let mut host = self.state.host.borrow_mut();
        let HostUse { writer, readers, .. } = &mut host[index];
        let users = readers.drain(..).chain(writer.replace(self.branch));
        users.for_each(|user| self.state.put_behind(self.branch, user));
    }

    fn keep_device(&self, memory: &impl OnDevice) {
        let kept = memory.keepsake(KEY);
        self.state.device.borrow_mut().insert(Arc::as_ptr(&kept).cast::<()>() as usize, kept);
        self.state.has_work(self.branch);
    }
}

impl fmt::Debug for Recorder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recorder(branch {} on device {})", self.branch, self.state.device_of.id())
    }
}

/// A graph that is being captured.
struct OpenGraph {
    device_of: Device,
    capture: Arc<Capture>,
    branches: RefCell<Vec<OpenBranch>>,
    host: RefCell<Vec<HostUse>>,
    /// Device memory by the address of its handle: each once.
    device: RefCell<HashMap<usize, Keepsake>>,
}

struct OpenBranch {
    stream: Stream,
    /// The first branch waits for all of its work.
    is_joined: bool,
}

/// A page-locked buffer of the graph, and which branches use it.
struct HostUse {
    buffer: Box<dyn Any + Send + Sync>,
    writer: Option<Branch>,
    /// Branches that have read it since it was written.
    readers: Vec<Branch>,
}

impl OpenGraph {
    fn new(device: &Device) -> OpenGraph {
        OpenGraph {
            device_of: device.clone(),
            capture: Arc::new(Capture::new(device.shared().core.memory().clone())),
            branches: RefCell::default(),
            host: RefCell::default(),
            device: RefCell::default(),
        }
    }

    /// A branch that begins with the graph.
    fn fork(&self) -> Result<Recorder<'_>> {
        let stream = self.device_of.stream()?;
        let branch = self.capture.branch(stream.core().clone());
        let recorder = BranchOps { capture: self.capture.clone(), branch };
        stream.core().divert(Some(Arc::new(recorder)));
        self.branches.borrow_mut().push(OpenBranch { stream: stream.clone(), is_joined: true });
        Ok(Recorder { state: self, stream, branch, capture: PhantomData })
    }

    /// The number that tells the graph from others of its runtime.
    fn number(&self) -> u64 {
        self.branches.borrow()[0].stream.core().id()
    }

    fn has_work(&self, branch: Branch) {
        self.branches.borrow_mut()[branch].is_joined = false;
    }

    /// Work that `branch` is given later comes behind what `other` was given so far.
    fn put_behind(&self, branch: Branch, other: Branch) {
        if branch == other {
            return;
        }
        self.capture.wait(branch, self.capture.record(other));
        self.has_work(branch);
        if branch == 0 {
            self.branches.borrow_mut()[other].is_joined = true;
        }
    }

    fn finish(&self) -> Graph {
        let branches = self.branches.borrow().len();
        let is_joined = |branch: &Branch| self.branches.borrow()[*branch].is_joined;
        (1..branches).filter(|branch| !is_joined(branch)).for_each(|branch| self.put_behind(0, branch));
        self.undivert();
        let core = self.capture.finish().expect("every branch was joined");
        Graph {
            core,
            branches: self.branches.take().into_iter().map(|branch| branch.stream).collect(),
            host: self.host.take().into_iter().map(|used| used.buffer).collect(),
            _device: self.device.take().into_values().collect(),
        }
    }

    fn undivert(&self) {
        self.branches.borrow().iter().for_each(|branch| branch.stream.core().divert(None));
    }
}

impl Drop for OpenGraph {
    /// A body that fails or panics leaves streams whose recorders know the capture, which knows the streams.
    fn drop(&mut self) {
        self.undivert();
    }
}

/// Takes the ops of a branch.
struct BranchOps {
    capture: Arc<Capture>,
    branch: Branch,
}

impl CoreRecorder for BranchOps {
    fn record(&self, op: Op, footprint: Footprint) -> Result<()> {
        if self.capture.op(self.branch, op, footprint) { Ok(()) } else { Err(self.refusal()) }
    }

    fn refusal(&self) -> Error {
        Kind::Unsupported.because("this cannot be captured: a graph takes copies, fills and functions")
    }
}
