// Lends a buffer to an upload and to a function that writes it.
//@ error: E0502
use ferry::{DeviceBuffer, HostBuffer, Result, Stream};

fn misuse(stream: &Stream, there: &DeviceBuffer<u8>, mut host: HostBuffer<u8>) -> Result<()> {
    stream.scope(|scope| {
        scope.upload(there, &host)?;
        scope.call(|| host[0] = 1)
    })?;
    Ok(())
}

fn main() {}
