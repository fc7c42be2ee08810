//! Copies, fills and reductions.

use crate::{
    enter::{Out, enter, enter_fast, given, seen},
    types::{aclError, aclrtMemcpyBatchAttr, aclrtStream},
};
use ferry_acl::{
    Result,
    arguments::all_readable,
    functions::{self, ApiFunction},
    rules::{
        batch::{self, Attr, Batch, BatchRefusal, Location},
        copy::{self, Async},
        descriptor::{self, OffsetPointer},
        fill, reduce,
        target::On,
    },
    state::Here,
};
use std::ffi::c_void;

/// Copies before it returns; `kind` has no effect.
///
/// # Safety
/// Both ranges are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtMemcpy(
    dst: *mut c_void,
    destMax: usize,
    src: *const c_void,
    count: usize,
    _kind: i32,
) -> aclError {
    // SAFETY: the C contract.
    enter(&functions::aclrtMemcpy, |here| unsafe {
        copy::memcpy(here, dst as usize, destMax, src as usize, count)
    })
}

/// Copies in stream order; page-locked memory asynchronously, pageable memory before it returns.
///
/// # Safety
/// Both ranges stay valid until `stream` has passed this copy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtMemcpyAsync(
    dst: *mut c_void,
    destMax: usize,
    src: *const c_void,
    count: usize,
    kind: i32,
    stream: aclrtStream,
) -> aclError {
    let (dst, src, stream) = (dst as usize, src as usize, stream as usize);
    let copy = Async { dst, dest_max: destMax, src, count, kind, stream };
    // SAFETY: the C contract keeps both ranges alive until the copy is done.
    let (fast, whole) =
        (|here: &Here| unsafe { copy.try_fast(here) }, |here: &Here| unsafe { copy.submit(here) });
    enter_fast(&functions::aclrtMemcpyAsync, fast, whole)
}

/// Deprecated twin of aclrtMemcpyAsync.
///
/// # Safety
/// Both ranges stay valid until `stream` has passed this copy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtMemcpyAsyncWithCondition(
    dst: *mut c_void,
    destMax: usize,
    src: *const c_void,
    count: usize,
    kind: i32,
    stream: aclrtStream,
) -> aclError {
    let (dst, src, stream) = (dst as usize, src as usize, stream as usize);
    let copy = Async { dst, dest_max: destMax, src, count, kind, stream };
    // SAFETY: the C contract keeps both ranges alive until the copy is done.
    let (fast, whole) =
        (|here: &Here| unsafe { copy.try_fast(here) }, |here: &Here| unsafe { copy.submit(here) });
    enter_fast(&functions::aclrtMemcpyAsyncWithCondition, fast, whole)
}

/// Copies a matrix before it returns.
///
/// # Safety
/// Both matrices are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtMemcpy2d(
    dst: *mut c_void,
    dpitch: usize,
    src: *const c_void,
    spitch: usize,
    width: usize,
    height: usize,
    kind: i32,
) -> aclError {
    enter(&functions::aclrtMemcpy2d, |here| {
        let rows = copy::rows(dst as usize, dpitch, src as usize, spitch, width, height);
        // SAFETY: the C contract keeps both matrices alive during the call.
        unsafe { copy::memcpy_2d(here, rows, kind, On::ThisThread) }
    })
}

/// Copies a matrix in stream order; page-locked memory asynchronously, pageable memory before it returns.
///
/// # Safety
/// Both matrices stay valid until `stream` has passed this copy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtMemcpy2dAsync(
    dst: *mut c_void,
    dpitch: usize,
    src: *const c_void,
    spitch: usize,
    width: usize,
    height: usize,
    kind: i32,
    stream: aclrtStream,
) -> aclError {
    enter(&functions::aclrtMemcpy2dAsync, |here| {
        let rows = copy::rows(dst as usize, dpitch, src as usize, spitch, width, height);
        // SAFETY: the C contract keeps both matrices alive until the copy is done.
        unsafe { copy::memcpy_2d(here, rows, kind, On::Stream(stream as usize)) }
    })
}

/// Copies a batch before it returns.
///
/// # Safety
/// The arrays are as long as they say, and what they name is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtMemcpyBatch(
    dsts: *mut *mut c_void,
    destMaxs: *mut usize,
    srcs: *mut *mut c_void,
    sizes: *mut usize,
    numBatches: usize,
    attrs: *mut aclrtMemcpyBatchAttr,
    attrsIndexes: *mut usize,
    numAttrs: usize,
    failIndex: *mut usize,
) -> aclError {
    let arrays = Arrays { dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes, numAttrs };
    // SAFETY: the C contract.
    unsafe { arrays.copy_and_tell(&functions::aclrtMemcpyBatch, failIndex, On::ThisThread) }
}

/// Copies a batch in stream order; page-locked memory asynchronously, pageable memory before it returns.
///
/// # Safety
/// The arrays are as long as they say; what they name stays valid until `stream` has passed this copy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtMemcpyBatchAsync(
    dsts: *mut *mut c_void,
    destMaxs: *mut usize,
    srcs: *mut *mut c_void,
    sizes: *mut usize,
    numBatches: usize,
    attrs: *mut aclrtMemcpyBatchAttr,
    attrsIndexes: *mut usize,
    numAttrs: usize,
    failIndex: *mut usize,
    stream: aclrtStream,
) -> aclError {
    let arrays = Arrays { dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes, numAttrs };
    // SAFETY: the C contract.
    unsafe { arrays.copy_and_tell(&functions::aclrtMemcpyBatchAsync, failIndex, On::Stream(stream as usize)) }
}

/// aclrtMemcpyBatch without failIndex.
///
/// # Safety
/// As aclrtMemcpyBatch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtMemcpyBatchV2(
    dsts: *mut *mut c_void,
    destMaxs: *mut usize,
    srcs: *mut *mut c_void,
    sizes: *mut usize,
    numBatches: usize,
    attrs: *mut aclrtMemcpyBatchAttr,
    attrsIndexes: *mut usize,
    numAttrs: usize,
) -> aclError {
    let arrays = Arrays { dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes, numAttrs };
    enter(&functions::aclrtMemcpyBatchV2, |here| {
        // SAFETY: the C contract.
        unsafe { arrays.copy(here, On::ThisThread) }.map_err(|refusal| refusal.error)
    })
}

/// aclrtMemcpyBatchAsync without failIndex.
///
/// # Safety
/// As aclrtMemcpyBatchAsync.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtMemcpyBatchAsyncV2(
    dsts: *mut *mut c_void,
    destMaxs: *mut usize,
    srcs: *mut *mut c_void,
    sizes: *mut usize,
    numBatches: usize,
    attrs: *mut aclrtMemcpyBatchAttr,
    attrsIndexes: *mut usize,
    numAttrs: usize,
    stream: aclrtStream,
) -> aclError {
    let arrays = Arrays { dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes, numAttrs };
    enter(&functions::aclrtMemcpyBatchAsyncV2, |here| {
        // SAFETY: the C contract.
        unsafe { arrays.copy(here, On::Stream(stream as usize)) }.map_err(|refusal| refusal.error)
    })
}

/// The arrays of a batch as C gives them.
struct Arrays {
    dsts: *mut *mut c_void,
    destMaxs: *mut usize,
    srcs: *mut *mut c_void,
    sizes: *mut usize,
    numBatches: usize,
    attrs: *mut aclrtMemcpyBatchAttr,
    attrsIndexes: *mut usize,
    numAttrs: usize,
}

impl Arrays {
    /// # Safety
    /// As the C functions.
    #[inline(always)]
    unsafe fn copy_and_tell(&self, function: &ApiFunction, failIndex: *mut usize, on: On) -> aclError {
        enter(function, |here| {
            let out = Out::new("failIndex", failIndex)?;
            // SAFETY: passed on.
            let result = unsafe { self.copy(here, on) };
            out.set(result.as_ref().map_or_else(|refusal| refusal.fail_index, |()| usize::MAX));
            result.map_err(|refusal| refusal.error)
        })
    }

    /// # Safety
    /// As the C functions.
    unsafe fn copy(&self, here: &Here, on: On) -> Result<(), BatchRefusal> {
        batch::arrays_given([
            ("dsts", self.dsts as usize),
            ("destMaxs", self.destMaxs as usize),
            ("srcs", self.srcs as usize),
            ("sizes", self.sizes as usize),
            ("attrs", self.attrs as usize),
            ("attrsIndexes", self.attrsIndexes as usize),
        ])?;
        let (attrs, pieces) = (self.numAttrs, self.numBatches);
        all_readable([
            given("attrs", self.attrs, attrs),
            given("attrsIndexes", self.attrsIndexes, attrs),
            given("dsts", self.dsts, pieces),
            given("destMaxs", self.destMaxs, pieces),
            given("srcs", self.srcs, pieces),
            given("sizes", self.sizes, pieces),
        ])?;
        // SAFETY: just found readable, and the C contract keeps them as they are during the call.
        let (attrs, attrs_indexes, dsts, dest_maxs, srcs, sizes) = unsafe {
            (
                seen(self.attrs, attrs),
                seen(self.attrsIndexes, attrs),
                seen(self.dsts.cast(), pieces),
                seen(self.destMaxs, pieces),
                seen(self.srcs.cast(), pieces),
                seen(self.sizes, pieces),
            )
        };
        let attrs: Vec<Attr> = attrs.iter().map(attr).collect();
        let batch = Batch {
            dsts: &dsts,
            dest_maxs: &dest_maxs,
            srcs: &srcs,
            sizes: &sizes,
            attrs: &attrs,
            attrs_indexes: &attrs_indexes,
        };
        // SAFETY: the C contract keeps every piece alive until the copy is done.
        unsafe { batch::memcpy_batch(here, &batch, on) }
    }
}

fn attr(attr: &aclrtMemcpyBatchAttr) -> Attr {
    let location = |loc: crate::types::aclrtMemLocation| Location { id: loc.id, kind: loc.type_ };
    Attr { dst: location(attr.dstLoc), src: location(attr.srcLoc), reserved_is_zero: attr.rsv == [0; 16] }
}

/// Bytes that a copy descriptor needs.
///
/// # Safety
/// `descSize` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtGetMemcpyDescSize(kind: i32, descSize: *mut usize) -> aclError {
    enter(&functions::aclrtGetMemcpyDescSize, |_| {
        let out = Out::new("descSize", descSize)?;
        out.set(descriptor::size(kind)?);
        Ok(())
    })
}

/// Writes source, destination and length into a descriptor in device memory; `config` is reserved.
///
/// # Safety
/// No task in flight uses the descriptor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtSetMemcpyDesc(
    desc: *mut c_void,
    kind: i32,
    srcAddr: *mut c_void,
    dstAddr: *mut c_void,
    count: usize,
    _config: *mut c_void,
) -> aclError {
    enter(&functions::aclrtSetMemcpyDesc, |here| {
        // SAFETY: the C contract.
        unsafe { descriptor::set(here, desc as usize, kind, srcAddr as usize, dstAddr as usize, count) }
    })
}

/// Copies inside a device as the descriptor says when the task runs.
///
/// # Safety
/// What the descriptor names stays valid until `stream` has passed this copy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtMemcpyAsyncWithDesc(
    desc: *mut c_void,
    kind: i32,
    stream: aclrtStream,
) -> aclError {
    let (desc, stream) = (desc as usize, stream as usize);
    // SAFETY: the C contract.
    let (fast, whole) = (
        |here: &Here| unsafe { descriptor::try_fast(here, desc, kind, stream) },
        |here: &Here| unsafe { descriptor::memcpy_async(here, desc, kind, stream) },
    );
    enter_fast(&functions::aclrtMemcpyAsyncWithDesc, fast, whole)
}

/// Copies inside a device between addresses that are read from two pointers when the task runs.
///
/// # Safety
/// What the pointers name stays valid until `stream` has passed this copy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtMemcpyAsyncWithOffset(
    dst: *mut *mut c_void,
    destMax: usize,
    dstDataOffset: usize,
    src: *mut *const c_void,
    count: usize,
    srcDataOffset: usize,
    kind: i32,
    stream: aclrtStream,
) -> aclError {
    enter(&functions::aclrtMemcpyAsyncWithOffset, |here| {
        let dst = OffsetPointer { cell: dst as usize, offset: dstDataOffset };
        let src = OffsetPointer { cell: src as usize, offset: srcDataOffset };
        // SAFETY: the C contract.
        unsafe { descriptor::memcpy_async_with_offset(here, dst, destMax, src, count, kind, stream as usize) }
    })
}

/// Fills bytes before it returns.
///
/// # Safety
/// The range is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtMemset(
    devPtr: *mut c_void,
    maxCount: usize,
    value: i32,
    count: usize,
) -> aclError {
    // SAFETY: the C contract.
    enter(&functions::aclrtMemset, |here| unsafe {
        fill::memset(here, devPtr as usize, maxCount, value, count, On::ThisThread)
    })
}

/// Fills bytes in stream order.
///
/// # Safety
/// The range stays valid until `stream` has passed this fill.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtMemsetAsync(
    devPtr: *mut c_void,
    maxCount: usize,
    value: i32,
    count: usize,
    stream: aclrtStream,
) -> aclError {
    enter(&functions::aclrtMemsetAsync, |here| {
        // SAFETY: the C contract.
        unsafe { fill::memset(here, devPtr as usize, maxCount, value, count, On::Stream(stream as usize)) }
    })
}

/// Fills 32-bit words before it returns.
///
/// # Safety
/// The range is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtMemsetD32(ptr: *mut c_void, memSize: usize, value: u32, N: usize) -> aclError {
    enter(&functions::aclrtMemsetD32, |here| {
        // SAFETY: the C contract.
        unsafe { fill::memset_d32(here, ptr as usize, memSize, value, N, On::ThisThread) }
    })
}

/// Fills 32-bit words in stream order; host memory at once.
///
/// # Safety
/// The range stays valid until `stream` has passed this fill.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtMemsetD32Async(
    ptr: *mut c_void,
    memSize: usize,
    value: u32,
    N: usize,
    stream: aclrtStream,
) -> aclError {
    enter(&functions::aclrtMemsetD32Async, |here| {
        // SAFETY: the C contract.
        unsafe { fill::memset_d32(here, ptr as usize, memSize, value, N, On::Stream(stream as usize)) }
    })
}

/// Combines device memory with other memory of the device in stream order; `reserve` is reserved.
///
/// # Safety
/// Both ranges stay valid until `stream` has passed this reduction.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtReduceAsync(
    dst: *mut c_void,
    src: *const c_void,
    count: u64,
    kind: i32,
    r#type: i32,
    stream: aclrtStream,
    _reserve: *mut c_void,
) -> aclError {
    enter(&functions::aclrtReduceAsync, |here| {
        // SAFETY: the C contract.
        unsafe {
            reduce::reduce_async(
                here,
                dst as usize,
                src as usize,
                count as usize,
                kind,
                r#type,
                stream as usize,
            )
        }
    })
}
