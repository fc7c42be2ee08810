// Lends a part of a buffer to a download outside of a scope: nothing would wait before the borrow ends.
//@ error: E0597
use ferry::{DeviceBuffer, HostBuffer, Result, Stream};

fn misuse(stream: &Stream, there: &DeviceBuffer<u8>, mut host: HostBuffer<u8>) -> Result<()> {
    let token = stream.download(host.slice_mut(..)?, there)?;
    token.wait()?;
    Ok(())
}

fn main() {}
