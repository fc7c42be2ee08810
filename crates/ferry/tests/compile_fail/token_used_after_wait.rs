// Waits for one token twice.
//@ error: E0382
use ferry::{DeviceBuffer, HostBuffer, Result, Stream};

fn misuse(stream: &Stream, there: &DeviceBuffer<u8>, host: HostBuffer<u8>) -> Result<()> {
    let token = stream.download(host, there)?;
    let host = token.wait()?;
    println!("{}", host[0]);
    token.wait()?;
    Ok(())
}

fn main() {}
