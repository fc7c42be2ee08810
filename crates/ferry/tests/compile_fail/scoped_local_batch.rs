// Lends a batch of a buffer that is freed when the body ends, which is before the scope ends.
//@ error: E0597
use ferry::{Batch, DeviceBuffer, Result, Stream};

fn misuse(stream: &Stream, there: &DeviceBuffer<u8>) -> Result<()> {
    stream.scope(|scope| {
        let mut host = stream.device().runtime().alloc_host::<u8>(4)?;
        let mut batch = Batch::new(&mut host);
        batch.push(there, 0..4)?;
        scope.download_batch(batch)?;
        Ok(())
    })?;
    Ok(())
}

fn main() {}
