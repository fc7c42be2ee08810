// Reads through the token, as if it were the buffer.
//@ error: E0608
use ferry::{DeviceBuffer, HostBuffer, Result, Stream};

fn misuse(stream: &Stream, there: &DeviceBuffer<u8>, host: HostBuffer<u8>) -> Result<()> {
    let token = stream.download(host, there)?;
    println!("{}", token[0]);
    token.wait()?;
    Ok(())
}

fn main() {}
