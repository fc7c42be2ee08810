// Frees a device buffer before the batch that names it is submitted.
//@ error: E0505
use ferry::{Batch, DeviceBuffer, HostBuffer, Result, Stream};

fn misuse(stream: &Stream, there: DeviceBuffer<u8>, host: HostBuffer<u8>) -> Result<()> {
    let mut batch = Batch::new(host);
    batch.push(&there, 0..4)?;
    drop(there);
    stream.upload_batch(batch)?.wait()?;
    Ok(())
}

fn main() {}
