// Swaps a buffer that was lent to a copy for another one.
//@ error: E0499
use ferry::{DeviceBuffer, HostBuffer, Result, Stream};

type Buffer = HostBuffer<u8>;

fn misuse(stream: &Stream, there: &DeviceBuffer<u8>, mut host: Buffer, mut other: Buffer) -> Result<()> {
    stream.scope(|scope| {
        scope.download(&mut host, there)?;
        std::mem::swap(&mut host, &mut other);
        Ok(())
    })?;
    Ok(())
}

fn main() {}
