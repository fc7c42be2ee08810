// Downloads to a shared buffer through the token of an upload.
//@ error: E0277
use ferry::{DeviceBuffer, Result, SharedBuffer, Stream};

fn misuse(stream: &Stream, there: &DeviceBuffer<u8>, shared: SharedBuffer<u8>) -> Result<()> {
    let token = stream.upload(there, shared)?;
    stream.download(token, there)?.wait()?;
    Ok(())
}

fn main() {}
