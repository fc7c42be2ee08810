//! Copies and fills.

use crate::call::{Address, AnyKind, DataType, Int, Kind, Size, enter, functions, take};
use pyo3::prelude::*;

/// Adds the functions of this file.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    add_list_to(module)?;
    module.add_function(wrap_pyfunction!(memcpy_async_with_condition, module)?)?;
    module.add_function(wrap_pyfunction!(set_memcpy_desc, module)?)
}

functions! { "acl.rt":
    /// Copies count bytes from src to dst, before it returns.
    ///
    /// dst, src: addresses, of host or device memory. dest_max: bytes that dst has room for; a larger count
    /// is refused with 107000 (X10). kind: 0 host to host, 1 host to device, 2 device to host, 3 device to
    /// device, 4 by the addresses; it is ignored (N1): the addresses tell. Between two devices peer access
    /// comes first (N3).
    ///
    /// Blocks until the bytes are copied. Nothing else is waited for (N2): copies of streams may still be
    /// under way.
    ///
    /// Returns ret: 0, or an error code. C: aclrtMemcpy.
    fn memcpy(dst: Address, dest_max: Size, src: Address, count: Size, kind: AnyKind)
        = aclrtMemcpy(dst, dest_max, src, count, kind);

    /// Copies count bytes from src to dst in the order of the stream.
    ///
    /// dst, src: addresses. dest_max: bytes that dst has room for; a larger count is refused with 107000
    /// (X10). kind: 0 host to host (207000 on cards, N6), 1 host to device, 2 device to host, 3 device to
    /// device (N12), 4 by the addresses, 5 host to device by way of a buffer: the source may be changed when
    /// the call returns, 6 inside one device, 7 between two. A kind that contradicts the addresses is refused
    /// with 107000. stream: 0 is the default stream (N9).
    ///
    /// What blocks (N5): with page-locked memory (acl.rt.malloc_host), or inside a device, the call returns
    /// before the copy is done: synchronise before using either side, and keep both until then. With other
    /// host memory, such as that of bytes or a NumPy array, the call blocks until the copy is done, and so
    /// until the work before it in the stream is. 64-byte alignment is not asked for.
    ///
    /// Returns ret: 0 if the copy was handed over, or an error code; an error of the copy itself is returned
    /// by the next synchronise (X2). C: aclrtMemcpyAsync.
    fn memcpy_async(dst: Address, dest_max: Size, src: Address, count: Size, kind: Kind, stream: Address)
        = aclrtMemcpyAsync(dst, dest_max, src, count, kind, stream);

    /// Copies a matrix, row by row, before it returns.
    ///
    /// dst, src: addresses of the first rows. dpitch, spitch: bytes from one row to the next. width: bytes of
    /// a row, no more than the pitches (else 107000). height: rows; as many as there are. kind: 1 host to
    /// device or 2 device to host; any other is refused with 100000. Not on boards: 207000 (N16).
    ///
    /// Blocks until the bytes are copied. The bytes between two rows are left alone.
    ///
    /// Returns ret: 0, or an error code. C: aclrtMemcpy2d.
    fn memcpy2d(dst: Address, dpitch: Size, src: Address, spitch: Size, width: Size, height: Size, kind: Kind)
        = aclrtMemcpy2d(dst, dpitch, src, spitch, width, height, kind);

    /// Copies a matrix, row by row, in the order of the stream.
    ///
    /// dst, src: addresses of the first rows (R11). dpitch, spitch: bytes from one row to the next (R12).
    /// width: bytes of a row, no more than the pitches, and 5000000 at most (N13). height: rows, 5242880 at
    /// most (R14). What is more is refused with
    /// 107000. kind: 1 host to device, 2 device to host (R9); 3 device to device on Ascend910B, 910C and 950
    ///         (N14); any other is refused with 100000 (N15). Not on boards: 207000 (R10). stream: 0 is the
    ///         default stream.
    ///
    /// With page-locked memory (acl.rt.malloc_host) the call returns before the copy is done (R8):
    /// synchronise before using either side (R4). With other host memory, such as that of a NumPy array, it
    /// blocks until the copy is done (R7).
    ///
    /// Returns ret: 0 if the copy was handed over, or an error code (R17). C: aclrtMemcpy2dAsync.
    fn memcpy2d_async(dst: Address, dpitch: Size, src: Address, spitch: Size, width: Size, height: Size,
        kind: Kind, stream: Address)
        = aclrtMemcpy2dAsync(dst, dpitch, src, spitch, width, height, kind, stream);

    /// Tells how many bytes of device memory a copy descriptor needs.
    ///
    /// kind: 6, inside one device; any other is refused with 100000.
    ///
    /// Returns (desc_size, ret): 56 bytes here. C: aclrtGetMemcpyDescSize.
    fn get_memcpy_desc_size(kind: Kind) -> (desc_size: Size)
        = aclrtGetMemcpyDescSize(kind, desc_size);

    /// Copies inside a device as a descriptor says at the time the stream gets there.
    ///
    /// desc: device memory that acl.rt.set_memcpy_desc has filled in (R74), or that an earlier task of the
    /// stream fills in. kind: 6, inside one device (R75); any other is refused with 100000.
    ///
    /// Returns ret: 0 if the copy was handed over, or an error code; a descriptor that was never set makes
    /// the next synchronise return 107000. C: aclrtMemcpyAsyncWithDesc.
    fn memcpy_async_with_desc(desc: Address, kind: Kind, stream: Address)
        = aclrtMemcpyAsyncWithDesc(desc, kind, stream);

    /// Fills count bytes with a value, before it returns.
    ///
    /// dev_ptr: an address, of device or host memory. max_count: bytes that are there; a larger count is
    /// refused with 107000. value: its lowest byte is used.
    ///
    /// Returns ret: 0, or an error code. C: aclrtMemset.
    fn memset(dev_ptr: Address, max_count: Size, value: i32, count: Size)
        = aclrtMemset(dev_ptr, max_count, value, count);

    /// Fills count bytes with a value in the order of the stream. As memset.
    ///
    /// The memory is filled when the stream gets there; with host memory that is not page-locked the call
    /// blocks until then. stream: 0 is the default stream.
    ///
    /// Returns ret: 0 if the work was handed over, or an error code. C: aclrtMemsetAsync.
    fn memset_async(dev_ptr: Address, max_count: Size, value: i32, count: Size, stream: Address)
        = aclrtMemsetAsync(dev_ptr, max_count, value, count, stream);

    /// Combines count bytes at src with those at dst, element by element, into dst, in the order of the
    /// stream.
    ///
    /// dst, src: memory of the stream's device. count: bytes, whole elements. kind: 10 sum, 11 maximum, 12
    /// minimum. type: of the elements: 0 float32, 1 float16, 2 int8, 3 int32, 6 int16, 8 uint32, 27 bfloat16,
    /// as far as the product has it, else
    /// 207000. reserve: 0.
    ///
    /// Returns ret: 0 if the work was handed over, or an error code. C: aclrtReduceAsync.
    fn reduce_async(dst: Address, src: Address, count: u64, kind: Kind, r#type: DataType, stream: Address,
        reserve: Address)
        = aclrtReduceAsync(dst, src, count, kind, r#type, stream, reserve);
}

/// Copies count bytes from src to dst in the order of the stream; waits if host memory is not acl's own.
///
/// dst, src: addresses, each a multiple of 64 (R29), else 107008; what acl.rt.malloc and acl.rt.malloc_host
/// return is. dest_max: bytes that dst has room for. kind: 0 host to host, 1 host to device, 2 device to
/// host, 3 device to device, 4 by the addresses (R27). Host to host is refused with 207000 on cards (R30,
/// R31, R33); on a board, where the program runs on the device, kinds 0 to 2 are copies inside the device
/// (R32).
///
/// If host memory takes part that acl did not allocate, also if it is registered, the call blocks until the
/// copy is done (R23). Otherwise 0 means that the copy was handed over, not that it is done (R24):
/// synchronise before using either side (R25). The memory of bytes and of a NumPy array is seldom aligned:
/// acl.rt.memcpy_async takes any address.
///
/// Returns ret: 0, or an error code (R28). C: aclrtMemcpyAsyncWithCondition, which asks for less.
#[pyfunction]
#[pyo3(signature = (dst, dest_max, src, count, kind, stream, /))]
fn memcpy_async_with_condition(
    py: Python<'_>,
    dst: Int<Address>,
    dest_max: Int<Size>,
    src: Int<Address>,
    count: Int<Size>,
    kind: Int<Kind>,
    stream: Int<Address>,
) -> PyResult<i32> {
    let name = "acl.rt.memcpy_async_with_condition";
    take!(py, name, [dst, dest_max, src, count, kind, stream], |code| code);
    enter(py, |library| {
        let function = library.private.ferryMemcpyAsyncWithCondition;
        // SAFETY: the function refuses what it cannot use; what is promised about memory, the caller
        // promises.
        unsafe { function(dst as _, dest_max, src as _, count, kind, stream as _) }
    })
}

/// Writes source, destination and length into a copy descriptor.
///
/// desc: device memory of acl.rt.get_memcpy_desc_size(kind) bytes (R73). kind: 6, inside one device (R75).
/// src_addr, dst_addr: memory of that device; the source comes first here. count: bytes to copy. config: 0,
/// it is reserved.
///
/// A descriptor is plain bytes: it may be set again, or copied over, and holds what it says when
/// acl.rt.memcpy_async_with_desc runs (R72).
///
/// Returns (desc, ret): the descriptor's address again, and 0 or an error code. C: aclrtSetMemcpyDesc.
#[pyfunction]
#[pyo3(signature = (desc, kind, src_addr, dst_addr, count, config, /))]
fn set_memcpy_desc(
    py: Python<'_>,
    desc: Int<Address>,
    kind: Int<Kind>,
    src_addr: Int<Address>,
    dst_addr: Int<Address>,
    count: Int<Size>,
    config: Int<Address>,
) -> PyResult<(Address, i32)> {
    let name = "acl.rt.set_memcpy_desc";
    take!(py, name, [desc, kind, src_addr, dst_addr, count, config], |code| (0, code));
    let code = enter(py, |library| {
        let function = library.functions.aclrtSetMemcpyDesc;
        // SAFETY: the function refuses what it cannot use; what is promised about memory, the caller
        // promises.
        unsafe { function(desc as _, kind, src_addr as _, dst_addr as _, count, config as _) }
    })?;
    Ok((desc, code))
}
