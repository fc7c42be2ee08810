// Awaits inside a scope.
//@ error: E0728
use ferry::{DeviceBuffer, HostBuffer, Result, Stream};

async fn misuse(stream: &Stream, there: &DeviceBuffer<u8>, mut host: HostBuffer<u8>) -> Result<()> {
    stream.scope(|scope| {
        scope.download(&mut host, there)?.await?;
        Ok(())
    })?;
    Ok(())
}

fn main() {}
