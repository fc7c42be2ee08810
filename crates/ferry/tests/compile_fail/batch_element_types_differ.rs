// Puts memory of another type into a batch.
//@ error: E0277
use ferry::{Batch, DeviceBuffer, Result, Runtime, Stream};

fn misuse(stream: &Stream, there: &DeviceBuffer<u8>, runtime: &Runtime) -> Result<()> {
    let mut batch = Batch::new(runtime.alloc_host::<f32>(4)?);
    batch.push(there, 0..4)?;
    stream.upload_batch(batch)?.wait()?;
    Ok(())
}

fn main() {}
