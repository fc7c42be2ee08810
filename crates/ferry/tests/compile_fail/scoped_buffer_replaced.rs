// Puts another buffer in the place of one that was lent to a copy, which would free the old one.
//@ error: E0506
use ferry::{DeviceBuffer, HostBuffer, Result, Stream};

type Buffer = HostBuffer<u8>;

fn misuse(stream: &Stream, there: &DeviceBuffer<u8>, mut host: Buffer, other: Buffer) -> Result<()> {
    stream.scope(|scope| {
        scope.upload(there, &host)?;
        host = other;
        Ok(())
    })?;
    Ok(())
}

fn main() {}
