// Takes a future out of the scope that would lend something when it is polled.
//@ error: lifetime may not live long enough
use ferry::{DeviceBuffer, HostBuffer, Result, Stream};

async fn misuse(stream: &Stream, there: &DeviceBuffer<u8>, mut host: HostBuffer<u8>) -> Result<()> {
    let host = &mut host;
    let late = stream.scope(|scope| Ok(async move { scope.download(host, there).is_ok() }))?;
    late.await;
    Ok(())
}

fn main() {}
