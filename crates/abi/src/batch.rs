//! The arrays of a batch call, and its four forms.

use std::ffi::c_void;
use std::marker::PhantomData;

use crate::error::{Result, ensure};
use crate::library::Library;
use crate::memory::{Block, BlockPart};
use crate::stream::Stream;
use crate::types::{BatchAttribute, Location};

/// Host memory of any sort.
pub const HOST: Location = Location { id: 0, kind: 0 };
/// Host memory that the library did not allocate.
pub const UNREGISTERED: Location = Location { id: 0, kind: 2 };

/// Memory of that device.
pub fn device(id: usize) -> Location {
    Location { id: id as u32, kind: 1 }
}

/// Copies and the attributes that describe them.
#[derive(Default)]
pub struct Batch<'m> {
    dsts: Vec<*mut c_void>,
    rooms: Vec<usize>,
    srcs: Vec<*mut c_void>,
    sizes: Vec<usize>,
    attributes: Vec<BatchAttribute>,
    indexes: Vec<usize>,
    memory: PhantomData<&'m Block>,
}

/// What all forms of the call take.
struct Arguments {
    dsts: *mut *mut c_void,
    rooms: *mut usize,
    srcs: *mut *mut c_void,
    sizes: *mut usize,
    count: usize,
    attributes: *mut BatchAttribute,
    indexes: *mut usize,
    groups: usize,
}

impl<'m> Batch<'m> {
    /// These copies, each from its second span to its first; no attributes yet.
    pub fn new(copies: impl Iterator<Item = (BlockPart<'m>, BlockPart<'m>)>) -> Batch<'m> {
        let mut batch = Batch::default();
        for (dst, src) in copies {
            batch.dsts.push(dst.at());
            batch.rooms.push(dst.len());
            batch.srcs.push(src.at());
            batch.sizes.push(src.len());
        }
        batch
    }

    /// Says where the copies from `first` on go and come from.
    pub fn group(mut self, first: usize, dst: Location, src: Location) -> Batch<'m> {
        self.attributes.push(BatchAttribute { dst, src, reserved: [0; 16] });
        self.indexes.push(first);
        self
    }

    /// Bytes in all copies together.
    pub fn total(&self) -> usize {
        self.sizes.iter().sum()
    }

    fn arguments(&self) -> Arguments {
        Arguments {
            dsts: self.dsts.as_ptr().cast_mut(),
            rooms: self.rooms.as_ptr().cast_mut(),
            srcs: self.srcs.as_ptr().cast_mut(),
            sizes: self.sizes.as_ptr().cast_mut(),
            count: self.dsts.len(),
            attributes: self.attributes.as_ptr().cast_mut(),
            indexes: self.indexes.as_ptr().cast_mut(),
            groups: self.indexes.len(),
        }
    }

    /// aclrtMemcpyBatchAsync, which must succeed and then says that no copy failed.
    pub fn submit(&self, library: &Library, stream: &Stream) -> Result<()> {
        let (outcome, failed) = self.try_submit(library, stream);
        outcome?;
        ensure(failed == usize::MAX, "failIndex of a good batch", "SIZE_MAX", failed)
    }

    /// aclrtMemcpyBatchAsync: what it answered, and failIndex.
    pub fn try_submit(&self, library: &Library, stream: &Stream) -> (Result<()>, usize) {
        const UNTOUCHED: usize = 0x0BAD;
        let mut failed = UNTOUCHED;
        let call = library.functions.aclrtMemcpyBatchAsync;
        let Arguments { dsts, rooms, srcs, sizes, count, attributes, indexes, groups } = self.arguments();
        // SAFETY: the arrays are as long as said, and every span lies in memory that the library keeps, or
        // waits for.
        let code = unsafe {
            call(dsts, rooms, srcs, sizes, count, attributes, indexes, groups, &mut failed, stream.handle())
        };
        (library.check("aclrtMemcpyBatchAsync", code), failed)
    }

    /// aclrtMemcpyBatchAsyncV2.
    pub fn submit_v2(&self, library: &Library, stream: &Stream) -> Result<()> {
        let call = library.functions.aclrtMemcpyBatchAsyncV2;
        let Arguments { dsts, rooms, srcs, sizes, count, attributes, indexes, groups } = self.arguments();
        // SAFETY: as for `try_submit`.
        let code =
            unsafe { call(dsts, rooms, srcs, sizes, count, attributes, indexes, groups, stream.handle()) };
        library.check("aclrtMemcpyBatchAsyncV2", code)
    }

    /// aclrtMemcpyBatch.
    pub fn run(&self, library: &Library) -> Result<()> {
        let mut failed = 0;
        let call = library.functions.aclrtMemcpyBatch;
        let Arguments { dsts, rooms, srcs, sizes, count, attributes, indexes, groups } = self.arguments();
        // SAFETY: as for `try_submit`; the call is over before any borrow ends.
        let code = unsafe { call(dsts, rooms, srcs, sizes, count, attributes, indexes, groups, &mut failed) };
        library.check("aclrtMemcpyBatch", code)?;
        ensure(failed == usize::MAX, "failIndex of a good batch", "SIZE_MAX", failed)
    }

    /// aclrtMemcpyBatchV2.
    pub fn run_v2(&self, library: &Library) -> Result<()> {
        let call = library.functions.aclrtMemcpyBatchV2;
        let Arguments { dsts, rooms, srcs, sizes, count, attributes, indexes, groups } = self.arguments();
        // SAFETY: as for `run`.
        let code = unsafe { call(dsts, rooms, srcs, sizes, count, attributes, indexes, groups) };
        library.check("aclrtMemcpyBatchV2", code)
    }
}
