// Lends one buffer to two downloads at once.
//@ error: E0499
use ferry::{DeviceBuffer, HostBuffer, Result, Stream};

fn misuse(stream: &Stream, there: &DeviceBuffer<u8>, mut host: HostBuffer<u8>) -> Result<()> {
    stream.scope(|scope| {
        scope.download(&mut host, there)?;
        scope.download(&mut host, there)?;
        Ok(())
    })?;
    Ok(())
}

fn main() {}
