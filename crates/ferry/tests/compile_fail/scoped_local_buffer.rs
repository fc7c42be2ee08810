// Lends a buffer that is freed when the body ends, which is before the scope ends.
//@ error: E0597
use ferry::{DeviceBuffer, Result, Stream};

fn misuse(stream: &Stream, there: &DeviceBuffer<u8>) -> Result<()> {
    stream.scope(|scope| {
        let host = stream.device().runtime().alloc_host::<u8>(4)?;
        scope.upload(there, &host)?;
        Ok(())
    })?;
    Ok(())
}

fn main() {}
