// Gives a scope an async block, which could be dropped half-way, as its body.
//@ error: E0308
use ferry::{DeviceBuffer, HostBuffer, Result, Stream};

fn misuse(stream: &Stream, there: &DeviceBuffer<u8>, mut host: HostBuffer<u8>) -> Result<()> {
    stream.scope(|scope| async {
        scope.download(&mut host, there)?;
        Ok(())
    })?;
    Ok(())
}

fn main() {}
