// Downloads to plain memory without waiting.
//@ error: E0277
use ferry::{DeviceBuffer, Result, Stream};

fn misuse(stream: &Stream, there: &DeviceBuffer<u8>) -> Result<()> {
    stream.download(vec![0_u8; 4], there)?.wait()?;
    Ok(())
}

fn main() {}
