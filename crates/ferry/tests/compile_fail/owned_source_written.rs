// Writes the source of an upload while the copy is in flight.
//@ error: E0382
use ferry::{DeviceBuffer, HostBuffer, Result, Stream};

fn misuse(stream: &Stream, there: &DeviceBuffer<u8>, mut host: HostBuffer<u8>) -> Result<()> {
    let token = stream.upload(there, host)?;
    host[0] = 1;
    token.wait()?;
    Ok(())
}

fn main() {}
