//! Reductions: aclrtReduceAsync. Which kinds and types there are is documented product by product.

use super::{
    descriptor::device_of,
    target::{On, Target, between},
};
use crate::{Result, arguments::refuse, constants::*, error::fail, state::Here};
use ferry::products::{A2, A3, B200I, B950, INF, Product, TRN};
use ferry_core::{
    Ends, Kind, Memory, Op, Reduction,
    reduce::{Combine, Element},
};

/// The products that have more than sums.
const NOT_ONLY_SUMS: u8 = B950 | A3 | A2 | B200I;

/// aclrtReduceKind as far as it means something, and the products that have it.
const KINDS: [(i32, &str, Combine, u8); 3] = [
    (ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, "ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM", Combine::Sum, u8::MAX),
    (ACL_RT_MEMCPY_SDMA_AUTOMATIC_MAX, "ACL_RT_MEMCPY_SDMA_AUTOMATIC_MAX", Combine::Max, NOT_ONLY_SUMS),
    (ACL_RT_MEMCPY_SDMA_AUTOMATIC_MIN, "ACL_RT_MEMCPY_SDMA_AUTOMATIC_MIN", Combine::Min, NOT_ONLY_SUMS),
];

/// The types that can be reduced, and the products that can.
const TYPES: [(i32, &str, Element, u8); 7] = [
    (ACL_FLOAT, "ACL_FLOAT", Element::F32, u8::MAX),
    (ACL_FLOAT16, "ACL_FLOAT16", Element::F16, !TRN),
    (ACL_INT16, "ACL_INT16", Element::I16, !TRN),
    (ACL_INT8, "ACL_INT8", Element::I8, !(TRN | INF)),
    (ACL_INT32, "ACL_INT32", Element::I32, !(TRN | INF)),
    (ACL_BF16, "ACL_BF16", Element::Bf16, B950 | A3 | A2),
    (ACL_UINT32, "ACL_UINT32", Element::U32, B950),
];

/// aclrtReduceAsync: `count` bytes at `dst` become their combination with those at `src`. Both are memory of
/// the stream's device, so nothing makes the call wait.
///
/// # Safety
/// Page-locked memory, which takes part where host and device memory are one, is left alone until the
/// reduction is done.
pub unsafe fn reduce_async(
    here: &Here,
    dst: usize,
    src: usize,
    count: usize,
    kind: i32,
    data_type: i32,
    stream: usize,
) -> Result<()> {
    between(here, dst, src, || {
        let target = Target::find(here, On::Stream(stream))?;
        let product = target.engine.settings.options.product;
        let combine = combine_of(kind, product)?;
        let (name, element) = element_of(data_type, product)?;
        let size = element.size();
        if !count.is_multiple_of(size) {
            return Err(refuse(format!(
                "count is {count}, not a multiple of {size}, the bytes of an element of type {name}"
            )));
        }
        let device = target.device();
        let make = |memory: &Memory| {
            let fits = |ends: &Ends| on_device(memory, ends, device);
            let reduction = Reduction::new(combine, element, (dst, src, count), memory, fits)?;
            Ok::<_, ferry_core::Error>(Op::Reduce(Box::new(reduction)))
        };
        // SAFETY: no plain memory takes part.
        unsafe { target.stream().submit(make) }?;
        Ok(())
    })
}

fn combine_of(kind: i32, product: &Product) -> Result<Combine> {
    let here = |row: &&(_, _, _, u8)| row.3 & product.bit != 0;
    match KINDS.iter().find(|row| row.0 == kind) {
        Some(row) if here(&row) => Ok(row.2),
        Some((_, name, ..)) => {
            let names: Vec<_> = KINDS.iter().filter(here).map(|row| row.1).collect();
            Err(lacks(format!("kind is {name}: {} has {} only", product.soc, names.join(", "))))
        }
        None if kind == ACL_RT_MEMCPY_SDMA_AUTOMATIC_EQUAL => Err(lacks(
            "kind is ACL_RT_MEMCPY_SDMA_AUTOMATIC_EQUAL: no document says what it does; there are SUM, MAX \
             and MIN"
                .into(),
        )),
        None => Err(fail(
            ACL_ERROR_INVALID_PARAM,
            format!("kind is {kind}: not a member of aclrtReduceKind (10 to 13)"),
        )),
    }
}

fn element_of(data_type: i32, product: &Product) -> Result<(&'static str, Element)> {
    let here = |row: &&(_, _, _, u8)| row.3 & product.bit != 0;
    let found = TYPES.iter().filter(here).find(|row| row.0 == data_type);
    found.map(|row| (row.1, row.2)).ok_or_else(|| {
        let names: Vec<_> = TYPES.iter().filter(here).map(|row| row.1).collect();
        lacks(format!("type is {data_type}: {} reduces {} only", product.soc, names.join(", ")))
    })
}

fn lacks(note: String) -> crate::Error {
    fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, note)
}

/// Documented: both ends are memory of the stream's device.
fn on_device(memory: &Memory, ends: &Ends, device: u32) -> ferry_core::Result<()> {
    for (name, place) in [("dst", &ends.dst), ("src", &ends.src)] {
        if device_of(memory, place, device) != Some(device) {
            let note = format!("{name} must be memory of device {device}, as the stream is, but is {place}");
            return Err(Kind::BadRoute.because(note));
        }
    }
    Ok(())
}
