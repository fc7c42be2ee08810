// Lends a buffer to an outer scope that is freed before that one ends.
//@ error: E0597
use ferry::{DeviceBuffer, Result, Stream};

fn misuse(stream: &Stream, there: &DeviceBuffer<u8>, other: &Stream) -> Result<()> {
    stream.scope(|outer| {
        let host = stream.device().runtime().alloc_host::<u8>(4)?;
        other.scope(|_inner| {
            outer.upload(there, &host)?;
            Ok(())
        })
    })?;
    Ok(())
}

fn main() {}
