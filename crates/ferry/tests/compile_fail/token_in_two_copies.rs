// Gives the token of one copy to two later copies.
//@ error: E0382
use ferry::{DeviceBuffer, HostBuffer, InFlight, Result, Stream};

fn misuse(stream: &Stream, there: &DeviceBuffer<u8>, token: InFlight<HostBuffer<u8>>) -> Result<()> {
    let first = stream.upload(there, token)?;
    let second = stream.download(token, there)?;
    first.wait()?;
    second.wait()?;
    Ok(())
}

fn main() {}
