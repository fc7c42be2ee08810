// Copies from a device buffer that was freed.
//@ error: E0382
use ferry::{DeviceBuffer, Result, Stream};

fn misuse(stream: &Stream, there: DeviceBuffer<u8>) -> Result<()> {
    drop(there);
    stream.read_vec(&there)?;
    Ok(())
}

fn main() {}
