//! What a way to reach devices must offer. Backends trust what they are given: the core has checked it.
//!
//! [`Backend`] holds what every backend needs: devices, memory and queues. What a backend may offer beyond
//! that is an object that it hands out, or `None`: addresses to map memory at, memory shared with other
//! processes, knowledge of blocks that come and go, streams of other libraries. So a new capability costs the
//! trait one method, and a backend that wraps another one forwards the object.

use crate::{
    Access, Block, DeviceId, Kind, Origin, Queue, QueueOptions, Request, Result, SegmentSink, Status,
    sync::Arc,
};
use std::{fmt::Debug, io, ops::Range, os::fd::BorrowedFd};

/// A way to reach devices: emulation on the host, a driver of the vendor's, a real NPU library.
pub trait Backend: Send + Sync {
    /// The name a user chooses it by.
    fn name(&self) -> &'static str;

    /// How many devices there are; they are numbered from 0.
    fn device_count(&self) -> usize;

    /// What its devices can do.
    fn features(&self) -> Features {
        Features::default()
    }

    /// How much memory a device has, and how much of it is taken.
    fn memory(&self, device: DeviceId) -> Result<DeviceMemory>;

    /// Makes memory. `base` is a multiple of the address table's granule, and no other block shares its last
    /// granule.
    fn alloc(&self, request: &Request) -> Result<Block>;

    /// Page-locks memory of the user's, all of which can be read and written.
    fn register(&self, base: usize, len: usize) -> Result<Block> {
        Err(lacks(format!("page-locking {len} bytes at {base:#x}")))
    }

    /// Gives memory back: what `alloc`, `register`, [`AddressSpace::host_pages`] or [`Sharing::import`] gave.
    ///
    /// # Safety
    /// `block` came from here and was not freed before, and every op that could reach it is complete.
    unsafe fn free(&self, block: &Block) -> Result<()>;

    /// Says what `len` bytes at `addr`, unknown to the address table, are: memory that some other library
    /// made on a device or page-locked (`Some`), or plain host memory that can be accessed that way now
    /// (`None`). Anything else, such as addresses that the backend has reserved for itself, is a
    /// `BadAddress`. An empty range needs no memory behind it.
    fn locate(&self, addr: usize, len: usize, access: Access) -> Result<Option<Block>>;

    /// For a call with many ranges of plain host memory: what answers for most of them in less time than
    /// [`locate`](Self::locate), if anything does.
    fn survey(&self) -> Option<Box<dyn Survey + '_>> {
        None
    }

    /// Makes a queue on a device. Its work reports through `status`.
    fn queue(&self, device: DeviceId, options: QueueOptions, status: Arc<Status>) -> Result<Box<dyn Queue>>;

    /// Memory for the list of a plan of about so many segments, where the device reads lists better than in
    /// memory of the core.
    fn segment_sink(&self, segments: usize) -> Option<Box<dyn SegmentSink>> {
        let _ = segments;
        None
    }

    /// Addresses at which memory can be mapped, if it can.
    fn address_space(&self) -> Option<&dyn AddressSpace> {
        None
    }

    /// Memory shared with other processes, if there can be any.
    fn sharing(&self) -> Option<&dyn Sharing> {
        None
    }

    /// What wants to know of blocks that leave the address table, if anything does.
    fn block_watch(&self) -> Option<&dyn BlockWatch> {
        None
    }

    /// Streams of other libraries in the process, if there can be any.
    fn native_streams(&self) -> Option<&dyn NativeStreams> {
        None
    }
}

/// What the devices of a backend can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Host and device memory are one: the CPU may access what `alloc` gives of a device.
    pub is_unified: bool,
    /// Queues take [`Op::Reduce`](crate::Op::Reduce).
    pub can_reduce: bool,
}

/// The memory of a device, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceMemory {
    /// What can still be allocated.
    pub free: usize,
    /// What there is in all.
    pub total: usize,
    /// What this process has allocated, in whole pages.
    pub used: usize,
    /// The largest value that `used` has had.
    pub peak: usize,
}

/// Some plain host memory: what a piece of a copy begins or ends in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlainRange {
    /// Its first byte.
    pub addr: usize,
    /// How many there are.
    pub len: usize,
}

/// Plain host memory as it is during one call, for calls that have many ranges of it.
pub trait Survey {
    /// A range around `addr` in which there is nothing but plain host memory that may be accessed that way;
    /// single pages of it may be missing. `None` if that cannot be said: [`Backend::locate`] can.
    fn around(&mut self, addr: usize, access: Access) -> Option<Range<usize>>;

    /// How many of these ranges, from the first on, are there with every page; each lies in a range that was
    /// said to be plain. Of the next one nothing can be said.
    fn count_there(&self, ranges: &[PlainRange]) -> usize;
}

/// Reserved addresses, at which the CPU sees memory that is mapped there.
pub trait AddressSpace: Send + Sync {
    /// Sets addresses aside, with nothing behind them and with nothing of ours next to them; a multiple of
    /// `align`, near `wish` if that can be.
    fn reserve(&self, len: usize, align: usize, wish: usize) -> Result<usize>;

    /// Undoes `reserve`. Nothing is mapped there.
    fn release(&self, base: usize);

    /// Lets the CPU see `block`, which `alloc` or `host_pages` gave, at the reserved address `base` too,
    /// where it may access such memory: host memory everywhere, a device's where memory is unified.
    fn show(&self, base: usize, block: &Block) -> Result<()>;

    /// Undoes `show`.
    fn hide(&self, base: usize, block: &Block);

    /// Page-locked host memory that can be shown at reserved addresses: pages of the memory node `node`, if
    /// one is named and the system allows the choice. [`Backend::free`] gives it back.
    fn host_pages(&self, len: usize, page: usize, node: Option<u32>) -> Result<Block>;
}

/// A file that is open for as long as this lives, unless the program closes its descriptor.
pub trait OpenFile: Debug + Send + Sync {
    /// Its descriptor, if that is still this file's.
    fn get(&self) -> io::Result<BorrowedFd<'_>>;
}

/// Where bytes lie that more than one process can map.
#[derive(Debug)]
pub struct Shared {
    /// The file behind them, which exists in memory only.
    pub file: std::sync::Arc<dyn OpenFile>,
    /// Where they start in it.
    pub offset: u64,
    /// How many they are.
    pub len: usize,
}

/// Memory that more than one process can map.
pub trait Sharing: Send + Sync {
    /// The file behind a block that `alloc` gave, for another process to import.
    fn share(&self, block: &Block) -> Result<Shared>;

    /// Memory that another process shares, as memory of a device. [`Backend::free`] gives it back.
    fn import(&self, shared: &Shared, device: DeviceId, origin: Origin) -> Result<Block>;
}

/// Knowledge of which blocks are in the address table, where a device reads descriptors by itself and has to
/// tell memory that is still there from memory that was freed. Backends that ask the core when the copy runs
/// need none.
pub trait BlockWatch: Send + Sync {
    /// What a descriptor that names memory of `block`, a block of the address table, keeps of it.
    fn stamp(&self, block: &Block) -> Result<u64>;

    /// `block` has left the address table. It keeps its memory until `free`, for work that was submitted
    /// before.
    fn forgotten(&self, block: &Block);
}

/// Streams that another library in the process made with the same driver.
pub trait NativeStreams: Send + Sync {
    /// Makes a queue over a stream of another library, shared from the start as by [`Queue::share`]; the
    /// stream stays that library's.
    ///
    /// # Safety
    /// `native` is what the backend's driver calls a stream, and outlives the queue.
    unsafe fn adopt(&self, device: DeviceId, native: usize, status: Arc<Status>) -> Result<Box<dyn Queue>>;
}

/// The error of a backend that lacks a capability.
pub(crate) fn lacks(what: String) -> crate::Error {
    Kind::Unsupported.because(format!("this backend cannot do it yet: {what}"))
}
