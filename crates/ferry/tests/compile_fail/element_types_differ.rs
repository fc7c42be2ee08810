// Copies numbers to memory of another type.
//@ error: E0271
use ferry::{DeviceBuffer, Result, Runtime, Stream};

fn misuse(stream: &Stream, there: &DeviceBuffer<u8>, runtime: &Runtime) -> Result<()> {
    let numbers = runtime.alloc_host::<f32>(4)?;
    stream.upload(there, numbers)?.wait()?;
    Ok(())
}

fn main() {}
