// Gives the stream a function that borrows, outside of a scope.
//@ error: E0597
use ferry::{HostBuffer, Result, Stream};

fn misuse(stream: &Stream, mut host: HostBuffer<u8>) -> Result<()> {
    let view = &mut host;
    stream.call(move || view[0] = 1)?;
    stream.synchronize()?;
    Ok(())
}

fn main() {}
