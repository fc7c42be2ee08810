// Takes a token out of the scope and frees the buffer that it would give back.
//@ error: E0505
use ferry::{DeviceBuffer, HostBuffer, Result, Stream};

fn misuse(stream: &Stream, there: &DeviceBuffer<u8>, mut host: HostBuffer<u8>) -> Result<()> {
    let token = stream.scope(|scope| Ok(scope.download(&mut host, there)?))?;
    drop(host);
    token.wait()?;
    Ok(())
}

fn main() {}
