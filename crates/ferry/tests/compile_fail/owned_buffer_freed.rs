// Frees a buffer while a copy of it is in flight.
//@ error: E0382
use ferry::{DeviceBuffer, HostBuffer, Result, Stream};

fn misuse(stream: &Stream, there: &DeviceBuffer<u8>, host: HostBuffer<u8>) -> Result<()> {
    let token = stream.upload(there, host)?;
    drop(host);
    token.wait()?;
    Ok(())
}

fn main() {}
