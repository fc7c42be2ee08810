//! What a way to reach devices must offer: three small traits. Backends trust what they are given: the core has checked it.

use crate::{
    Access, Block, DeviceId, Kind, Linear, Op, Origin, Request, Result, Shared, Sheet, Status, Ticket,
    sync::Arc,
};
use std::{
    any::Any,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

/// A way to reach devices: emulation on the host, a CUDA driver, a real NPU library.
pub trait Backend: Send + Sync {
    /// The name a user chooses it by.
    fn name(&self) -> &'static str;

    /// How many devices there are; they are numbered from 0.
    fn device_count(&self) -> usize;

    /// Free and total bytes of a device.
    fn memory(&self, device: DeviceId) -> Result<(usize, usize)>;

    /// Bytes of a device that this process has taken, in whole pages: now, and the most so far.
    fn usage(&self, device: DeviceId) -> Result<(usize, usize)> {
        Err(lacks(format!("telling what is used of device {device}")))
    }

    /// Makes memory. `base` is a multiple of the address table's granule, and no other block shares its last granule.
    fn alloc(&self, request: &Request) -> Result<Block>;

    /// Gives memory back: what `alloc`, `register` or `import` gave.
    ///
    /// # Safety
    /// `block` came from here and was not freed before, and every op that could reach it is complete.
    unsafe fn free(&self, block: &Block) -> Result<()>;

    /// Says what `len` bytes at `addr`, unknown to the address table, are: memory that some other library made on a device
    /// or page-locked (`Some`), or plain host memory that can be accessed that way now (`None`). Anything else, such as
    /// addresses that the backend has reserved for itself, is a `BadAddress`. An empty range needs no memory behind it.
    fn locate(&self, addr: usize, len: usize, access: Access) -> Result<Option<Block>>;

    /// Whether host and device memory are one: the CPU may touch what `alloc` gives of a device.
    fn is_unified(&self) -> bool {
        false
    }

    /// Page-locks memory of the user's, all of which can be read and written.
    fn register(&self, base: usize, len: usize) -> Result<Block> {
        Err(lacks(format!("page-locking {len} bytes at {base:#x}")))
    }

    /// Sets addresses aside, with nothing behind them and with nothing of ours next to them; a multiple of `align`, near `wish`
    /// if that can be.
    fn reserve(&self, len: usize, align: usize, wish: usize) -> Result<usize> {
        Err(lacks(format!("reserving {len} bytes of addresses, aligned to {align}, near {wish:#x}")))
    }

    /// Undoes `reserve`. Nothing is mapped there.
    fn release(&self, base: usize) {
        let _ = base;
    }

    /// Lets the CPU see `block`, which `alloc` or `host_pages` gave, at the reserved address `base` too, where it may touch such
    /// memory: host memory everywhere, a device's where memory is unified.
    fn show(&self, base: usize, block: &Block) -> Result<()> {
        let _ = (base, block);
        Ok(())
    }

    /// Undoes `show`.
    fn hide(&self, base: usize, block: &Block) {
        let _ = (base, block);
    }

    /// Page-locked host memory that can be shown at reserved addresses: pages of the memory node `node`, if one is named and the system
    /// allows the choice. `free` gives it back.
    fn host_pages(&self, len: usize, page: usize, node: Option<u32>) -> Result<Block> {
        Err(lacks(format!("{len} bytes of host memory to be mapped, in pages of {page}, of node {node:?}")))
    }

    /// The file behind a block that `alloc` gave, for another process to import.
    fn share(&self, block: &Block) -> Result<Shared> {
        Err(lacks(format!("sharing {block} with other processes")))
    }

    /// Memory that another process shares, as memory of a device.
    fn import(&self, shared: &Shared, device: DeviceId, origin: Origin) -> Result<Block> {
        Err(lacks(format!("{origin:?} memory of another process, {} bytes on device {device}", shared.len)))
    }

    /// What a descriptor that names memory of `block`, a block of the address table, keeps of it: where a device reads
    /// descriptors by itself, the stamp tells memory that is still there from memory that was freed. Backends that ask the core
    /// when the copy runs need none.
    fn stamp(&self, block: &Block) -> Result<u64> {
        let _ = block;
        Ok(0)
    }

    /// `block` has left the address table. It keeps its memory until `free`, for work that was submitted before.
    fn forgotten(&self, block: &Block) {
        let _ = block;
    }

    /// Memory for about so many lines of a plan, where the backend would rather read them than in ours.
    fn sheet(&self, lines: usize) -> Option<Box<dyn Sheet>> {
        let _ = lines;
        None
    }

    /// Says why reductions cannot be done, where they cannot; nobody submits one then.
    fn can_reduce(&self) -> Result<()> {
        Err(lacks("a reduction".into()))
    }

    /// Makes a queue on a device. Its work reports through `status`.
    fn queue(&self, device: DeviceId, options: QueueOptions, status: Arc<Status>) -> Result<Box<dyn Queue>>;

    /// Makes a queue over a stream of another library in the process, shared from the start as by [`Queue::share`]; the stream
    /// stays that library's.
    ///
    /// # Safety
    /// `native` is what the backend's driver calls a stream, and outlives the queue.
    unsafe fn adopt(&self, device: DeviceId, native: usize, status: Arc<Status>) -> Result<Box<dyn Queue>> {
        let _ = (device, status);
        Err(unshared(format!("adopting stream {native:#x}")))
    }
}

fn lacks(what: String) -> crate::Error {
    Kind::Unsupported.because(format!("this backend cannot do it yet: {what}"))
}

fn unshared(what: String) -> crate::Error {
    Kind::Unsupported.because(format!("no other library knows the streams of this backend: {what}"))
}

/// What a backend may know about the use of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueOptions {
    /// Whoever submits waits at once, as synchronous calls do: nobody else needs to be woken to do the work.
    pub waited: bool,
}

/// Runs ops in the order given; one per stream. Different queues run side by side.
pub trait Queue: Send + Sync {
    /// Returns once the op is queued; failures of the work itself go to the stream's `Status`. Ops and marks are numbered
    /// from 1 in the order they come, and the core brings one at a time.
    ///
    /// # Safety
    /// Every address in `op` stays valid until the status has passed the returned ticket.
    unsafe fn submit(&self, op: Op) -> Result<Ticket>;

    /// As `submit` for a copy in one piece, which most ops are: where it can be done in fewer steps.
    ///
    /// # Safety
    /// As `submit`.
    unsafe fn submit_linear(&self, copy: Linear) -> Result<Ticket> {
        // SAFETY: passed on from the caller.
        unsafe { self.submit(Op::Copy(copy.into())) }
    }

    /// A fence that is done when everything submitted so far is done. It need not remember when that was.
    fn fence(&self) -> Result<Arc<dyn Fence>>;

    /// A fence for work that was submitted before: done when `ticket` has passed. It may wait for later work of the device as
    /// well, but never for what the host has to do behind `ticket`: a function of the user's, a wait for another queue. There
    /// is always one, since whoever lends memory to a queue must be able to wait for it.
    fn fence_after(&self, ticket: Ticket) -> Arc<dyn Fence>;

    /// As `fence`, and it remembers when it was reached: what an event records. Takes a ticket, as an op does.
    fn mark(&self) -> Result<Arc<dyn Fence>>;

    /// Sends what was held back to be gathered.
    fn flush(&self) {}

    /// Shares the stream beneath with other libraries of the process, and says what the driver calls it. From here on everything
    /// is in that stream, in order, when `submit` returns, and nothing is held back: what another library puts there comes after
    /// it. A fence stands for what others put there before it, too. Nobody submits meanwhile.
    fn share(&self) -> Result<usize> {
        Err(unshared("a native handle".into()))
    }

    /// Drops what has not begun and stops what runs; returns when no byte of it moves any more. A function of the user's that
    /// runs is not waited for, and later work still comes after it. Fences of dropped work are done, and the status knows.
    fn abort(&self);

    /// The status is halted: drop what there is now, and not only when what the queue waits for is done. Called once, by a
    /// thread that may be at work on any queue.
    fn look(&self) {}
}

/// "Everything submitted so far." Events, futures, query and synchronise are views of it.
pub trait Fence: Any + Send + Sync {
    /// Whether the work has passed, whatever came of it.
    fn is_done(&self) -> bool;

    /// Waits, for ever or up to a limit (`Kind::Timeout`). The waiting thread may do some of the work.
    fn wait(&self, limit: Option<Duration>) -> Result<()>;

    /// Runs `then` once done, at once if it is done already: how a waiting queue, a future and a callback learn of it
    /// without polling. `then` must be short: it runs on a thread that has other work. If it panics, whoever called this
    /// has the panic where the fence was done already; otherwise nobody has.
    fn when_done(&self, then: Box<dyn FnOnce() + Send>);

    /// Whether a failure waited to be reported when the fence was reached. Only marks know.
    fn failed(&self) -> bool {
        false
    }

    /// Microseconds of the device's clock when this was reached, if it is a mark that is done and not dropped.
    fn reached_us(&self) -> Option<u64> {
        None
    }

    /// Milliseconds from when `since` was reached to when this was, if both are marks of one device that are done.
    fn elapsed_ms(&self, since: &dyn Fence) -> Option<f64>;
}

/// Runs what waited for a fence. One that panics, as a user's waker may, takes neither the others nor the thread with it.
pub fn tell<F: FnOnce()>(watchers: impl IntoIterator<Item = F>) {
    for then in watchers {
        // The panic hook has told of it.
        survives(then);
    }
}

/// Runs somebody's code, and says whether it came to its end. What a panic leaves behind is forgotten, since its destructor may
/// panic as well.
pub fn survives(code: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(code)).map_err(mem::forget).is_ok()
}
