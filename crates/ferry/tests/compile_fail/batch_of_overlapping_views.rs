// Puts one buffer into a batch twice, for two downloads at once.
//@ error: E0499
use ferry::{Batch, HostBuffer, Result, Stream};

fn misuse(stream: &Stream, mut host: HostBuffer<u8>) -> Result<()> {
    let batch = Batch::new(vec![host.slice_mut(..3)?, host.slice_mut(2..)?]);
    stream.scope(|scope| Ok(scope.download_batch(batch).map(drop)?))?;
    Ok(())
}

fn main() {}
