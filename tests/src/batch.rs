//! The arguments of a batch copy as one value that a test can bend, and the four functions that take them.

use crate::{
    aclrtMemLocation, aclrtMemcpyBatch, aclrtMemcpyBatchAsync, aclrtMemcpyBatchAsyncV2, aclrtMemcpyBatchAttr,
    aclrtMemcpyBatchV2,
};

/// A pointer argument of a batch copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Arg {
    Dsts,
    DestMaxs,
    Srcs,
    Sizes,
    Attrs,
    AttrsIndexes,
    FailIndex,
}

/// One of the four functions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum BatchForm {
    Sync,
    SyncV2,
    Async,
    AsyncV2,
}

impl Arg {
    /// The arrays.
    pub const ARRAYS: [Arg; 6] =
        [Arg::Dsts, Arg::DestMaxs, Arg::Srcs, Arg::Sizes, Arg::Attrs, Arg::AttrsIndexes];
}

impl BatchForm {
    /// All of them.
    pub const ALL: [BatchForm; 4] =
        [BatchForm::Sync, BatchForm::SyncV2, BatchForm::Async, BatchForm::AsyncV2];

    /// Whether the function has a failIndex.
    pub fn tells_index(self) -> bool {
        matches!(self, BatchForm::Sync | BatchForm::Async)
    }

    /// Whether the function takes a stream.
    pub fn takes_stream(self) -> bool {
        matches!(self, BatchForm::Async | BatchForm::AsyncV2)
    }
}

/// A batch copy: what goes into the arrays, how long the caller says they are, and which pointer is
/// something else instead.
#[derive(Clone)]
#[allow(missing_docs)]
pub struct Batch {
    pub dsts: Vec<usize>,
    pub maxs: Vec<usize>,
    pub srcs: Vec<usize>,
    pub sizes: Vec<usize>,
    pub attrs: Vec<aclrtMemcpyBatchAttr>,
    pub indexes: Vec<usize>,
    pub num: usize,
    pub num_attrs: usize,
    pub instead: Option<(Arg, usize)>,
}

/// A location in an attribute: type 0 is host, 1 device, 2 memory not made by acl.
pub const fn location(type_: i32, id: u32) -> aclrtMemLocation {
    aclrtMemLocation { id, type_ }
}

/// The attribute of copies from any host memory to device 0.
pub const HOST_TO_DEVICE: aclrtMemcpyBatchAttr =
    aclrtMemcpyBatchAttr { dstLoc: location(1, 0), srcLoc: location(0, 0), rsv: [0; 16] };

/// The attribute of copies from device 0 to any host memory.
pub const DEVICE_TO_HOST: aclrtMemcpyBatchAttr =
    aclrtMemcpyBatchAttr { dstLoc: location(0, 0), srcLoc: location(1, 0), rsv: [0; 16] };

impl Batch {
    /// A batch of (destination, source, bytes) with one attribute for all.
    pub fn of(items: &[(usize, usize, usize)], attr: aclrtMemcpyBatchAttr) -> Batch {
        let sizes: Vec<usize> = items.iter().map(|i| i.2).collect();
        Batch {
            dsts: items.iter().map(|i| i.0).collect(),
            maxs: sizes.clone(),
            srcs: items.iter().map(|i| i.1).collect(),
            sizes,
            attrs: vec![attr],
            indexes: vec![0],
            num: items.len(),
            num_attrs: 1,
            instead: None,
        }
    }

    /// The same batch under these attributes, each from its index on.
    pub fn with_attrs(mut self, attrs: &[(usize, aclrtMemcpyBatchAttr)]) -> Batch {
        self.indexes = attrs.iter().map(|a| a.0).collect();
        self.attrs = attrs.iter().map(|a| a.1).collect();
        self.num_attrs = attrs.len();
        self
    }

    /// Makes the call: the code, and failIndex where the function has one. Before the call that holds a
    /// number no call gives.
    pub fn call(&mut self, form: BatchForm, stream: usize) -> (i32, Option<usize>) {
        const UNTOUCHED: usize = 0x5eed;
        let mut fail = UNTOUCHED;
        let instead = self.instead;
        let given = |arg, ptr: *mut usize| match instead {
            Some((other, addr)) if other == arg => addr as *mut usize,
            _ => ptr,
        };
        let dsts = given(Arg::Dsts, self.dsts.as_mut_ptr());
        let maxs = given(Arg::DestMaxs, self.maxs.as_mut_ptr());
        let srcs = given(Arg::Srcs, self.srcs.as_mut_ptr());
        let sizes = given(Arg::Sizes, self.sizes.as_mut_ptr());
        let attrs = given(Arg::Attrs, self.attrs.as_mut_ptr().cast()).cast();
        let indexes = given(Arg::AttrsIndexes, self.indexes.as_mut_ptr());
        let out = given(Arg::FailIndex, &raw mut fail);
        let (n, a) = (self.num, self.num_attrs);
        let code = match form {
            BatchForm::Sync => aclrtMemcpyBatch(dsts, maxs, srcs, sizes, n, attrs, indexes, a, out),
            BatchForm::SyncV2 => aclrtMemcpyBatchV2(dsts, maxs, srcs, sizes, n, attrs, indexes, a),
            BatchForm::Async => {
                aclrtMemcpyBatchAsync(dsts, maxs, srcs, sizes, n, attrs, indexes, a, out, stream)
            }
            BatchForm::AsyncV2 => {
                aclrtMemcpyBatchAsyncV2(dsts, maxs, srcs, sizes, n, attrs, indexes, a, stream)
            }
        };
        (code, form.tells_index().then_some(fail))
    }
}
