// Reads through the token of a part, as if it were the buffer.
//@ error: E0608
use ferry::{DeviceBuffer, HostBuffer, Result, Stream};

fn misuse(stream: &Stream, there: &DeviceBuffer<u8>, host: HostBuffer<u8>) -> Result<()> {
    let token = stream.download(host.into_slice(..2)?, there.slice(..2)?)?.into_inner();
    println!("{}", token[3]);
    token.wait()?;
    Ok(())
}

fn main() {}
