// Passes plain memory off as page-locked memory.
//@ error: E0624
use ferry::{DeviceBuffer, HostSlice, Result, Stream};

fn misuse(stream: &Stream, there: &DeviceBuffer<u8>) -> Result<()> {
    let words = [1_u8; 4];
    stream.scope(|scope| {
        scope.upload(there, HostSlice::new(&words))?;
        Ok(())
    })?;
    Ok(())
}

fn main() {}
