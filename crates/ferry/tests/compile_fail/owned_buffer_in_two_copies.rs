// Gives one buffer to two copies at once.
//@ error: E0382
use ferry::{DeviceBuffer, HostBuffer, Result, Stream};

fn misuse(stream: &Stream, there: &DeviceBuffer<u8>, host: HostBuffer<u8>) -> Result<()> {
    let first = stream.upload(there, host)?;
    let second = stream.download(host, there)?;
    first.wait()?;
    second.wait()?;
    Ok(())
}

fn main() {}
