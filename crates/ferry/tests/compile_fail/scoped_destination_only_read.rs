// Lends a buffer that may only be read to a download.
//@ error: E0277
use ferry::{DeviceBuffer, HostBuffer, Result, Stream};

fn misuse(stream: &Stream, there: &DeviceBuffer<u8>, host: HostBuffer<u8>) -> Result<()> {
    stream.scope(|scope| {
        scope.download(&*host, there)?;
        Ok(())
    })?;
    Ok(())
}

fn main() {}
