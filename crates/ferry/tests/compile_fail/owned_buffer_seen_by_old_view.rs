// Keeps looking through an old view at a buffer that a copy is writing.
//@ error: E0505
use ferry::{DeviceBuffer, HostBuffer, Result, Stream};

fn misuse(stream: &Stream, there: &DeviceBuffer<u8>, host: HostBuffer<u8>) -> Result<()> {
    let view = host.slice(..2)?;
    let token = stream.download(host, there)?;
    println!("{}", view[0]);
    token.wait()?;
    Ok(())
}

fn main() {}
