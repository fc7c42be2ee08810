// Reads the rest of a buffer of which a copy is writing a part.
//@ error: E0382
use ferry::{DeviceBuffer, HostBuffer, Result, Stream};

fn misuse(stream: &Stream, there: &DeviceBuffer<u8>, host: HostBuffer<u8>) -> Result<()> {
    let token = stream.download(host.into_slice(..2)?, there.slice(..2)?)?;
    println!("{}", host[2]);
    token.wait()?;
    Ok(())
}

fn main() {}
