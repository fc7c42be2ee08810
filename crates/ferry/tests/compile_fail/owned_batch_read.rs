// Reads the buffer of a batch while the batch is in flight.
//@ error: E0382
use ferry::{Batch, DeviceBuffer, HostBuffer, Result, Stream};

fn misuse(stream: &Stream, there: &DeviceBuffer<u8>, host: HostBuffer<u8>) -> Result<()> {
    let mut batch = Batch::new(host);
    batch.push(there, 0..4)?;
    let token = stream.download_batch(batch)?;
    println!("{}", host[0]);
    token.wait()?;
    Ok(())
}

fn main() {}
