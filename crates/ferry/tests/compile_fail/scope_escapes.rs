// Keeps the scope, to lend something when it is over.
//@ error: E0521
use ferry::{DeviceBuffer, HostBuffer, Result, Scope, Stream};

fn misuse(stream: &Stream, there: &DeviceBuffer<u8>, mut host: HostBuffer<u8>) -> Result<()> {
    let mut kept: Option<&Scope> = None;
    stream.scope(|scope| {
        kept = Some(scope);
        Ok(())
    })?;
    if let Some(scope) = kept {
        scope.download(&mut host, there)?;
    }
    Ok(())
}

fn main() {}
