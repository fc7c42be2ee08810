// Lends one buffer to an upload and to a download at once.
//@ error: E0502
use ferry::{DeviceBuffer, HostBuffer, Result, Stream};

fn misuse(stream: &Stream, there: &DeviceBuffer<u8>, mut host: HostBuffer<u8>) -> Result<()> {
    stream.scope(|scope| {
        scope.upload(there, &host)?;
        scope.download(&mut host, there)?;
        Ok(())
    })?;
    Ok(())
}

fn main() {}
