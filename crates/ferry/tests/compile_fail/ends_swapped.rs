// Names the source first.
//@ error: E0277
use ferry::{DeviceBuffer, HostBuffer, Result, Stream};

fn misuse(stream: &Stream, there: &DeviceBuffer<u8>, host: HostBuffer<u8>) -> Result<()> {
    stream.upload(host, there)?.wait()?;
    Ok(())
}

fn main() {}
