// Lends a buffer of a function of the scope, which is freed when the function returns.
//@ error: E0597
use ferry::{DeviceBuffer, Result, Stream};

fn misuse(stream: &Stream, there: DeviceBuffer<u8>) -> Result<()> {
    stream.scope(|scope| {
        scope.call(move || {
            let host = stream.device().runtime().alloc_host::<u8>(4).expect("memory");
            scope.upload(&there, &host).map(drop).expect("a copy");
        })
    })?;
    Ok(())
}

fn main() {}
