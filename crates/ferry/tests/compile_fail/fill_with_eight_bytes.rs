// Fills memory with a value of eight bytes.
//@ error: E0277
use ferry::{Device, Result, Stream};

fn misuse(stream: &Stream, device: &Device) -> Result<()> {
    stream.fill(&device.alloc::<u64>(4)?, 1_u64)?;
    Ok(())
}

fn main() {}
