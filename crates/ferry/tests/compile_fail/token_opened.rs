// Takes the buffer out of the token without waiting.
//@ error: E0616
use ferry::{DeviceBuffer, HostBuffer, Result, Stream};

fn misuse(stream: &Stream, there: &DeviceBuffer<u8>, host: HostBuffer<u8>) -> Result<()> {
    let token = stream.download(host, there)?;
    let host = token.buffer;
    println!("{:?}", host);
    Ok(())
}

fn main() {}
