// Copies to a part of a device buffer that was freed.
//@ error: E0505
use ferry::{DeviceBuffer, Result, Stream};

fn misuse(stream: &Stream, there: DeviceBuffer<u8>) -> Result<()> {
    let part = there.slice(..2)?;
    drop(there);
    stream.fill(part, 1)?;
    Ok(())
}

fn main() {}
