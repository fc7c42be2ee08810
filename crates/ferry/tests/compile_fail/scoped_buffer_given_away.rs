// Gives a buffer to a thread while it is lent to a copy.
//@ error: E0505
//@ error: E0597
use ferry::{DeviceBuffer, HostBuffer, Result, Stream};

fn misuse(stream: &Stream, there: &DeviceBuffer<u8>, host: HostBuffer<u8>) -> Result<()> {
    stream.scope(|scope| {
        scope.upload(there, &host)?;
        std::thread::spawn(move || println!("{}", host[0]));
        Ok(())
    })?;
    Ok(())
}

fn main() {}
