//! Copies of many pieces in one call, which pyACL's documents do not have.

use crate::{
    buffer::{Buffer, SizeArray},
    call::{Address, Int, Size, Why, enter, refuse_as, take, type_name},
    dicts,
};
use ferry_abi::BatchAttribute;
use pyo3::{
    exceptions::PyTypeError,
    prelude::*,
    types::{PyList, PyTuple},
};
use std::ffi::c_void;

/// What fail_index is if no single piece is at fault.
const NONE: usize = usize::MAX;

/// Adds the functions of this file.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(memcpy_batch_async, module)?)
}

/// Copies many pieces, all from host to device or all from device to host, in the order of the stream.
///
/// Ferry's own: pyACL's documents have no batch copies. dsts, dest_maxs, srcs, sizes: one entry for each
/// piece; lists of ints, or one-dimensional integer arrays (NumPy, array, memoryview), which are read where
/// they lie. num_batches: how many pieces; the arrays may be longer. attrs: a list of {'dstLoc': {'id': int,
/// 'type': int}, 'srcLoc': {'id': int, 'type': int}}, with type 0 for host memory, 1 for memory of device id,
/// 2 for host memory that acl did not allocate (0 will do for that too). attrs_indexes: the piece from which
/// on each attribute holds, the first 0, each larger than the one before (R59 to R62); a list or an array
/// too. num_attrs: how many attributes. One for all pieces: attrs_indexes [0], num_attrs 1. stream: 0 is the
/// default stream.
///
/// With page-locked memory (acl.rt.malloc_host) the call returns before the copies are done (R45):
/// synchronise before using either side (R46). If other host memory takes part, it blocks until they are
/// (R44). The pieces are copied in no particular order (R55). The arrays themselves may change as soon as the
/// call is back.
///
/// Returns (fail_index, ret): the first piece that is at fault, or 18446744073709551615 if none is, and 0 or
/// an error code; if it is not 0, nothing is copied. C: aclrtMemcpyBatchAsync.
#[pyfunction]
#[pyo3(signature = (dsts, dest_maxs, srcs, sizes, num_batches, attrs, attrs_indexes, num_attrs, stream, /))]
#[allow(clippy::too_many_arguments)]
fn memcpy_batch_async(
    py: Python<'_>,
    dsts: &Bound<'_, PyAny>,
    dest_maxs: &Bound<'_, PyAny>,
    srcs: &Bound<'_, PyAny>,
    sizes: &Bound<'_, PyAny>,
    num_batches: Int<Size>,
    attrs: &Bound<'_, PyAny>,
    attrs_indexes: &Bound<'_, PyAny>,
    num_attrs: Int<Size>,
    stream: Int<Address>,
) -> PyResult<(Size, i32)> {
    let name = "acl.rt.memcpy_batch_async";
    let given = BatchArguments {
        dsts: array("dsts", dsts)?,
        dest_maxs: array("dest_maxs", dest_maxs)?,
        srcs: array("srcs", srcs)?,
        sizes: array("sizes", sizes)?,
        attrs: dicts::batch_attributes(attrs)?,
        attrs_indexes: array("attrs_indexes", attrs_indexes)?,
    };
    let refused = |code| (NONE, code);
    take!(py, name, [num_batches, num_attrs, stream], refused);
    let mut arrays = match given.check(num_batches, num_attrs) {
        Ok(arrays) => arrays,
        Err(Why::Type(error)) => return Err(error),
        Err(Why::Value(code, note)) => return Ok((NONE, refuse_as(py, name, code, note))),
    };
    let [dsts, dest_maxs, srcs, sizes, attrs_indexes] = arrays.addresses();
    let attrs = arrays.attrs.as_mut_ptr() as usize;
    let result = enter(py, |library| {
        let mut fail_index = NONE;
        let function = library.functions.aclrtMemcpyBatchAsync;
        // SAFETY: the arrays are as long as they say and stay for the time of the call, which only reads
        // them; it refuses what it cannot use, and what is promised about the pieces, the caller promises.
        let code = unsafe {
            function(
                dsts as *mut *mut c_void,
                dest_maxs as *mut usize,
                srcs as *mut *mut c_void,
                sizes as *mut usize,
                num_batches,
                attrs as *mut BatchAttribute,
                attrs_indexes as *mut usize,
                num_attrs,
                &mut fail_index,
                stream as _,
            )
        };
        (fail_index, code)
    });
    drop(arrays);
    result
}

type Array = Result<SizeArray, Why>;

/// The arguments, each of the right type.
struct BatchArguments {
    dsts: Array,
    dest_maxs: Array,
    srcs: Array,
    sizes: Array,
    attrs: dicts::Read<Vec<BatchAttribute>>,
    attrs_indexes: Array,
}

/// The arguments as C takes them.
struct Arrays {
    sizes: [SizeArray; 5],
    attrs: Vec<BatchAttribute>,
}

impl BatchArguments {
    /// Takes the arrays if their values fit and they are as long as is said.
    fn check(self, num_batches: usize, num_attrs: usize) -> Result<Arrays, Why> {
        let attrs = self.attrs.get("attrs")?;
        let long = |name: &str, len: usize, count_name: &str, count: usize| match len >= count {
            true => Ok(()),
            false => Err(Why::unfit(format!("{count_name} is {count}, but {name} has {len} entries"))),
        };
        let pieces = |name: &str, array: Array| {
            let array = array?;
            long(name, array.parts().1, "num_batches", num_batches).map(|()| array)
        };
        let (dsts, dest_maxs) = (pieces("dsts", self.dsts)?, pieces("dest_maxs", self.dest_maxs)?);
        let (srcs, sizes) = (pieces("srcs", self.srcs)?, pieces("sizes", self.sizes)?);
        let attrs_indexes = self.attrs_indexes?;
        long("attrs", attrs.len(), "num_attrs", num_attrs)?;
        long("attrs_indexes", attrs_indexes.parts().1, "num_attrs", num_attrs)?;
        Ok(Arrays { sizes: [dsts, dest_maxs, srcs, sizes, attrs_indexes], attrs })
    }
}

impl Arrays {
    fn addresses(&self) -> [usize; 5] {
        self.sizes.each_ref().map(|sizes| sizes.parts().0)
    }
}

/// A list or tuple of ints, or an integer array.
fn array(name: &str, object: &Bound<'_, PyAny>) -> PyResult<Array> {
    if let Ok(list) = object.cast::<PyList>() {
        return numbers(name, list.len(), list.iter());
    }
    if let Ok(tuple) = object.cast::<PyTuple>() {
        return numbers(name, tuple.len(), tuple.iter());
    }
    if Buffer::has_one(object) {
        return SizeArray::of_buffer(name, object);
    }
    Err(PyTypeError::new_err(format!(
        "argument '{name}': '{}' object is not a list or an integer array",
        type_name(object)
    )))
}

fn numbers<'py>(name: &str, count: usize, items: impl Iterator<Item = Bound<'py, PyAny>>) -> PyResult<Array> {
    let mut sizes = Vec::with_capacity(count);
    for (index, item) in items.enumerate() {
        match item.extract::<Int<usize>>()? {
            Int::Fits(value) => sizes.push(value),
            other => match other.get(&format!("{name}[{index}]")) {
                Ok(value) => sizes.push(value),
                Err(why) => return Ok(Err(why)),
            },
        }
    }
    Ok(Ok(SizeArray::Here(sizes)))
}
