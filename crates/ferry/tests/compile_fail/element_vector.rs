// Copies vectors, which are pointers and not the data behind them.
//@ error: E0277
use ferry::{Device, Result};

fn misuse(device: &Device) -> Result<()> {
    device.alloc::<Vec<u8>>(4)?;
    Ok(())
}

fn main() {}
