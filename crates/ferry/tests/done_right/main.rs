//! What the programs in `compile_fail` get wrong, done right: each test bears the name of the program that it
//! is the twin of.

mod graphs;
mod memory;
mod owned;
mod scoped;

use ferry::{Device, DeviceBuffer, HostBuffer, Result, Runtime, Stream};

/// What most copies need. The device holds 1, 2, 3, 4; the host holds zeros.
struct Set {
    device: Device,
    stream: Stream,
    there: DeviceBuffer<u8>,
    host: HostBuffer<u8>,
}

fn set() -> Result<Set> {
    let device = Runtime::new()?.device(0)?;
    let (stream, there) = (device.stream()?, device.alloc_from(&[1, 2, 3, 4])?);
    let host = device.runtime().alloc_host(4)?;
    Ok(Set { device, stream, there, host })
}
