// Swaps a buffer that was lent to a copy for another one.
//@ error: E0499
use ferry::{DeviceBuffer, HostBuffer, Result, Stream};

fn misuse(stream: &Stream, there: &DeviceBuffer<u8>, mut host: HostBuffer<u8>, mut other: HostBuffer<u8>) -> Result<()> {
    stream.scope(|scope| {
        scope.download(&mut host, there)?;
        std::mem::swap(&mut host, &mut other);
        Ok(())
    })?;
    Ok(())
}

fn main() {}
