// Writes a buffer that was lent to an upload, before the scope ends.
//@ error: E0502
use ferry::{DeviceBuffer, HostBuffer, Result, Stream};

fn misuse(stream: &Stream, there: &DeviceBuffer<u8>, mut host: HostBuffer<u8>) -> Result<()> {
    stream.scope(|scope| {
        scope.upload(there, &host)?;
        host[0] = 1;
        Ok(())
    })?;
    Ok(())
}

fn main() {}
