// Lends a buffer to an upload outside of a scope: nothing would wait before the borrow ends.
//@ error: E0597
use ferry::{DeviceBuffer, HostBuffer, Result, Stream};

fn misuse(stream: &Stream, there: &DeviceBuffer<u8>, host: HostBuffer<u8>) -> Result<()> {
    let token = stream.upload(there, &host)?;
    token.wait()?;
    Ok(())
}

fn main() {}
