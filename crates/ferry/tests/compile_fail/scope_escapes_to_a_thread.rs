// Gives the scope to a thread that may outlive it.
//@ error: E0521
use ferry::{DeviceBuffer, HostBuffer, Result, Stream};

fn misuse(stream: &Stream, there: DeviceBuffer<u8>, host: HostBuffer<u8>) -> Result<()> {
    stream.scope(|scope| {
        std::thread::spawn(move || scope.upload(&there, host).is_ok());
        Ok(())
    })?;
    Ok(())
}

fn main() {}
