//! Graphs: copies, fills and functions that are captured once and launched many times.
//!
//! A [`Graph`] owns what it uses: the page-locked buffers that were given to it, and a handle of each device
//! buffer. So nothing that it touches can be freed before it. A launch moves the graph into a token, which
//! gives it back when the execution is done: nobody reads or writes its host memory meanwhile.
//!
//! Each branch has a stream of its own, which is diverted to the capture while the closure runs. The verbs of
//! [`Stream`] plan and check as ever. Nothing here knows how an execution works: that is the core's. Arrows
//! point to streams, memory and tokens; no other module of this crate knows graphs.

mod recorder;

use crate::{
    Failed, HostBuffer, HostSlice, InFlight, Kind, Result, Stream,
    extent::{Extent, KEY, within},
    memory::Element,
    pending,
};
use ferry_core::{Error, Graph as CoreGraph, Ticket};
pub use recorder::Recorder;
use std::{
    any::Any,
    fmt,
    marker::PhantomData,
    ops::{Index, IndexMut, Range, RangeBounds},
    sync::Arc,
};

/// What a graph keeps allocated, whatever its type.
type Keepsake = Arc<dyn Any + Send + Sync>;

/// Work that was captured once, to be launched again and again: [`Device::capture`][capture]. A launch costs
/// one submission, however many copies there are; copies that follow each other run as one batch.
///
/// Addresses are those of the capture, bytes are those of the execution: between two launches the program
/// reads and writes the graph's page-locked memory by indexing with a [`GraphSlice`]. While an execution is
/// in flight the graph is inside the token, and there is no way to the bytes.
///
/// [capture]: crate::Device::capture
///
/// ```
/// let device = ferry::Runtime::new()?.device(0)?;
/// let stream = device.stream()?;
/// let (there, copy) = (device.alloc::<u32>(4)?, device.alloc::<u32>(4)?);
/// let (up, down) = (device.runtime().alloc_host::<u32>(4)?, device.runtime().alloc_host::<u32>(4)?);
///
/// let (mut graph, (input, output)) = device.capture(|main| {
///     let (input, output) = (main.keep(up), main.keep(down));
///     main.upload(&there, input)?;
///     main.copy(&copy, &there)?;
///     main.download(output, &copy)?;
///     Ok((input, output))
/// })?;
/// for step in 0..1000 {
///     graph[input].fill(step);
///     graph = graph.launch(&stream)?.wait()?;
///     assert_eq!(graph[output][..], [step; 4]);
/// }
/// # Ok::<(), ferry::Error>(())
/// ```
pub struct Graph {
    core: Arc<CoreGraph>,
    /// The stream of each branch; the first one also tells this graph from others.
    branches: Vec<Stream>,
    /// The page-locked buffers, each a `HostBuffer` of some type.
    host: Vec<Box<dyn Any + Send + Sync>>,
    /// The device memory of its copies.
    _device: Vec<Keepsake>,
}

/// Page-locked memory of a [`Graph`], or a part of it: what [`Recorder::keep`] gives. Captured copies take
/// it, and `graph[buffer]` is the memory itself, as a [`HostSlice`].
///
/// ```
/// # let device = ferry::Runtime::new()?.device(0)?;
/// # let (stream, there) = (device.stream()?, device.alloc_from(b"hat")?);
/// let host = device.runtime().alloc_host_from(b"a cat")?;
/// let (graph, word) = device.capture(|main| {
///     let all = main.keep(host);
///     main.download(all.slice(2..)?, &there)?;
///     Ok(all)
/// })?;
/// let graph = graph.launch(&stream)?.wait()?;
/// assert_eq!(graph[word][..], *b"a hat");
/// # Ok::<(), ferry::Error>(())
/// ```
pub struct GraphSlice<T> {
    /// The number of the graph's first stream.
    graph: u64,
    /// Which of the graph's buffers.
    index: usize,
    /// The address of the buffer's first element.
    base: usize,
    /// The runtime that made the buffer, as a number to compare.
    owner: usize,
    start: usize,
    len: usize,
    elements: PhantomData<fn() -> T>,
}

impl Graph {
    /// Launches an execution as one piece of work of `stream`: behind everything that was submitted there.
    /// The token owns the graph until the execution is done. [`InFlight::launch`] launches it again before
    /// that.
    ///
    /// # Errors
    /// The graph was captured in another runtime than the stream's. Nothing runs, and the graph comes back.
    /// What goes wrong in the execution is told by the token and by the stream.
    ///
    /// ```
    /// # let device = ferry::Runtime::new()?.device(0)?;
    /// # let (stream, there) = (device.stream()?, device.alloc::<u8>(2)?);
    /// let (graph, ()) = device.capture(|main| main.fill(&there, 7))?;
    /// let graph = graph.launch(&stream)?.wait()?;
    /// # drop(graph);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn launch(self, stream: &Stream) -> Result<InFlight<Graph>, Failed<Graph>> {
        match self.execute(stream) {
            Ok(ticket) => {
                let ends = self.ends();
                Ok(InFlight::new(self, Some(stream.core().clone()), ticket).beside(ends))
            }
            Err(error) => Err(Failed { error, buffer: self }),
        }
    }

    fn execute(&self, stream: &Stream) -> Result<Ticket> {
        if !Arc::ptr_eq(stream.runtime(), self.branches[0].runtime()) {
            let note = "the graph was captured in another runtime than the stream's";
            return Err(Kind::BadRoute.because(note));
        }
        // What was submitted before an error must not use the memory when the program has it back.
        let leave = |_: &Error| {
            pending::pass(stream.core(), stream.core().newest());
            self.ends().iter().for_each(|(stream, last)| pending::pass(stream, *last));
        };
        self.core.execute(stream.core()).inspect_err(leave)
    }

    /// The newest op of each branch. A launching stream that drops its work passes the execution whatever the
    /// branches do, so that a token asks them, too, before it gives the memory back.
    fn ends(&self) -> Vec<(pending::StreamHandle, Ticket)> {
        self.branches.iter().map(|branch| (branch.core().clone(), branch.core().newest())).collect()
    }

    /// The buffer that a handle is of, and which of its elements.
    ///
    /// # Panics
    /// If it is of another graph.
    fn find<T: Element>(&self, buffer: &GraphSlice<T>) -> (usize, Range<usize>) {
        let host = self.host.get(buffer.index).and_then(|host| host.downcast_ref::<HostBuffer<T>>());
        let is_ours = buffer.graph == self.branches[0].core().id()
            && host.is_some_and(|host| host.as_ptr() as usize == buffer.base);
        assert!(is_ours, "{buffer:?} was given to another graph");
        (buffer.index, buffer.start..buffer.start + buffer.len)
    }
}

impl<T: Element> Index<GraphSlice<T>> for Graph {
    type Output = HostSlice<T>;

    /// # Panics
    /// If the buffer is of another graph.
    fn index(&self, buffer: GraphSlice<T>) -> &HostSlice<T> {
        let (index, range) = self.find(&buffer);
        let host = self.host[index].downcast_ref::<HostBuffer<T>>();
        host.and_then(|host| host.slice(range).ok()).expect("a part of a buffer of this graph")
    }
}

impl<T: Element> IndexMut<GraphSlice<T>> for Graph {
    /// # Panics
    /// If the buffer is of another graph.
    fn index_mut(&mut self, buffer: GraphSlice<T>) -> &mut HostSlice<T> {
        let (index, range) = self.find(&buffer);
        let host = self.host[index].downcast_mut::<HostBuffer<T>>();
        host.and_then(|host| host.slice_mut(range).ok()).expect("a part of a buffer of this graph")
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let device = self.branches[0].device().id();
        write!(f, "Graph({} branches on device {device})", self.branches.len())
    }
}

impl InFlight<Graph> {
    /// Launches the graph once more, without waiting: executions of a graph run one after the other,
    /// whichever streams they are launched in. They all read what its page-locked memory held at the first
    /// launch, or what downloads have put there since.
    ///
    /// ```
    /// # let device = ferry::Runtime::new()?.device(0)?;
    /// # let (stream, other, there) = (device.stream()?, device.stream()?, device.alloc::<u8>(2)?);
    /// let (graph, ()) = device.capture(|main| main.fill(&there, 7))?;
    /// let mut token = graph.launch(&stream)?;
    /// for _ in 1..1000 {
    ///     token = token.launch(&other)?;
    /// }
    /// let graph = token.wait()?;
    /// # drop(graph);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn launch(mut self, stream: &Stream) -> Result<InFlight<Graph>, Failed<InFlight<Graph>>> {
        let launched = self.held(KEY).and_then(|graph| Ok((graph.execute(stream)?, graph.ends())));
        match launched {
            Ok((ticket, ends)) => {
                let other = (!self.uses(KEY).is_of(stream.core())).then(|| stream.core().clone());
                Ok(self.then(other, ticket).beside(ends))
            }
            Err(error) => Err(Failed { error, buffer: self }),
        }
    }
}

impl<T> GraphSlice<T> {
    /// The elements `range` of it.
    ///
    /// ```
    /// # let device = ferry::Runtime::new()?.device(0)?;
    /// let host = device.runtime().alloc_host_from(b"abc")?;
    /// let (graph, buffer) = device.capture(|main| Ok(main.keep(host)))?;
    /// assert_eq!(graph[buffer.slice(1..)?][..], *b"bc");
    /// assert!(buffer.slice(2..4).is_err());
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<GraphSlice<T>> {
        let range = within(range, self.len, "elements")?;
        Ok(GraphSlice { start: self.start + range.start, len: range.len(), ..*self })
    }

    /// The number of elements.
    ///
    /// ```
    /// # let device = ferry::Runtime::new()?.device(0)?;
    /// # let host = device.runtime().alloc_host_from(b"abc")?;
    /// let (graph, buffer) = device.capture(|main| Ok(main.keep(host)))?;
    /// assert_eq!(buffer.len(), 3);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    ///
    /// ```
    /// # let device = ferry::Runtime::new()?.device(0)?;
    /// # let host = device.runtime().alloc_host_from(b"abc")?;
    /// let (graph, buffer) = device.capture(|main| Ok(main.keep(host)))?;
    /// assert!(!buffer.is_empty());
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl<T> GraphSlice<T> {
    fn extent(&self) -> Extent {
        Extent::linear(self.base + self.start * size_of::<T>(), self.len, self.owner)
    }
}

impl<T> Clone for GraphSlice<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for GraphSlice<T> {}

impl<T> fmt::Debug for GraphSlice<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.start + self.len;
        write!(f, "GraphSlice(elements {}..{end} of buffer {})", self.start, self.index)
    }
}
