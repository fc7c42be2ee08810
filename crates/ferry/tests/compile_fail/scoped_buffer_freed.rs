// Frees a buffer that was lent to a copy, before the scope ends.
//@ error: E0505
//@ error: E0597
use ferry::{DeviceBuffer, HostBuffer, Result, Stream};

fn misuse(stream: &Stream, there: &DeviceBuffer<u8>, host: HostBuffer<u8>) -> Result<()> {
    stream.scope(|scope| {
        scope.upload(there, &host)?;
        drop(host);
        Ok(())
    })?;
    Ok(())
}

fn main() {}
