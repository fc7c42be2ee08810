// Makes two views that could write the same elements.
//@ error: E0499
use ferry::{HostBuffer, Result};

fn misuse(mut host: HostBuffer<u8>) -> Result<()> {
    let left = host.slice_mut(..3)?;
    let right = host.slice_mut(2..)?;
    left[0] = right[0];
    Ok(())
}

fn main() {}
