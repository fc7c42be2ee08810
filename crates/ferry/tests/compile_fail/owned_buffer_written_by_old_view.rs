// Keeps writing through an old view to a buffer that a copy is reading.
//@ error: E0505
use ferry::{DeviceBuffer, HostBuffer, Result, Stream};

fn misuse(stream: &Stream, there: &DeviceBuffer<u8>, mut host: HostBuffer<u8>) -> Result<()> {
    let view = host.slice_mut(..2)?;
    let token = stream.upload(there, host)?;
    view[0] = 1;
    token.wait()?;
    Ok(())
}

fn main() {}
