// Downloads to a shared buffer, which others may be reading.
//@ error: E0277
use ferry::{DeviceBuffer, Result, SharedBuffer, Stream};

fn misuse(stream: &Stream, there: &DeviceBuffer<u8>, shared: SharedBuffer<u8>) -> Result<()> {
    stream.download(shared, there)?.wait()?;
    Ok(())
}

fn main() {}
