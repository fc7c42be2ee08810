// Lends a buffer to a batch outside of a scope: nothing would wait before the borrow ends.
//@ error: E0597
use ferry::{Batch, DeviceBuffer, HostBuffer, Result, Stream};

fn misuse(stream: &Stream, there: &DeviceBuffer<u8>, host: HostBuffer<u8>) -> Result<()> {
    let mut batch = Batch::new(&host);
    batch.push(there, 0..4)?;
    stream.upload_batch(batch)?.wait()?;
    Ok(())
}

fn main() {}
