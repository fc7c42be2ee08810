// Lends a matrix that may only be read to a download.
//@ error: E0277
use ferry::{DeviceBuffer, HostBuffer, Result, Stream};

fn misuse(stream: &Stream, there: &DeviceBuffer<u8>, host: HostBuffer<u8>) -> Result<()> {
    let matrix = host.matrix(2, 2)?;
    stream.scope(|scope| {
        scope.download(matrix, there)?;
        Ok(())
    })?;
    Ok(())
}

fn main() {}
