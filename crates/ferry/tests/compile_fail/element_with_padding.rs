// Copies a struct whose padding has no value.
//@ error: E0277
use ferry::{Device, Result};

#[derive(Clone, Copy)]
#[repr(C)]
struct Padded {
    small: u8,
    large: u32,
}

fn misuse(device: &Device) -> Result<()> {
    device.alloc_from(&[Padded { small: 1, large: 2 }])?;
    Ok(())
}

fn main() {}
