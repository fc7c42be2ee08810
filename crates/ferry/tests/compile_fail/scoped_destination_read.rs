// Reads a buffer that was lent to a download, before the scope ends.
//@ error: E0502
use ferry::{DeviceBuffer, HostBuffer, Result, Stream};

fn misuse(stream: &Stream, there: &DeviceBuffer<u8>, mut host: HostBuffer<u8>) -> Result<()> {
    stream.scope(|scope| {
        scope.download(&mut host, there)?;
        println!("{}", host[0]);
        Ok(())
    })?;
    Ok(())
}

fn main() {}
