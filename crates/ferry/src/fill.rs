//! Fills of device memory, and the values that it can be filled with.

use crate::{Result, memory::sealed::Sealed};
use bytemuck::Pod;
use ferry_core::{Access, Fill, Memory, Op};

/// An element of 1, 2 or 4 bytes, which [`Stream::fill`](crate::Stream::fill) repeats. For others there is
/// [`Stream::fill_bytes`](crate::Stream::fill_bytes).
///
/// ```
/// # let device = ferry::Runtime::new()?.device(0)?;
/// # let (stream, there) = (device.stream()?, device.alloc::<i16>(3)?);
/// stream.fill(&there, -2_i16)?;
/// assert_eq!(stream.read_vec(&there)?, [-2; 3]);
/// # Ok::<(), ferry::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "device memory cannot be filled with `{Self}`",
    note = "a fill repeats a value of 1, 2 or 4 bytes; `Stream::fill_bytes` fills elements of any type with \
        one byte"
)]
pub trait FillValue: Pod + Sealed {
    #[doc(hidden)]
    fn pattern(self) -> [u8; 4];
}

macro_rules! values {
    ($($repeat:literal => $($name:ty),*;)*) => {$($(
        impl Sealed for $name {}

        impl FillValue for $name {
            fn pattern(self) -> [u8; 4] {
                bytemuck::must_cast([self; $repeat])
            }
        }
    )*)*};
}

values! {
    4 => u8, i8;
    2 => u16, i16;
    1 => u32, i32, f32;
}

/// A fill of known memory.
pub(crate) fn fill_op(memory: &Memory, addr: usize, len: usize, pattern: [u8; 4]) -> Result<Op> {
    let place = memory.place(addr, len, Access::Write)?;
    Ok(Op::Fill(Fill { dst: place.engine_address(addr), len, pattern, device: place.device() }))
}
