// Uploads plain memory without waiting.
//@ error: E0277
use ferry::{DeviceBuffer, Result, Stream};

fn misuse(stream: &Stream, there: &DeviceBuffer<u8>) -> Result<()> {
    let words = [1_u8; 4];
    stream.upload(there, &words[..])?.wait()?;
    Ok(())
}

fn main() {}
