// Writes a shared buffer, which copies may be reading.
//@ error: E0596
use ferry::{DeviceBuffer, Result, SharedBuffer, Stream};

fn misuse(stream: &Stream, there: &DeviceBuffer<u8>, shared: SharedBuffer<u8>) -> Result<()> {
    let token = stream.upload(there, shared.clone())?;
    shared[0] = 1;
    token.wait()?;
    Ok(())
}

fn main() {}
