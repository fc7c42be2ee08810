// Downloads a batch to shared buffers, which others may be reading.
//@ error: E0277
use ferry::{Batch, Result, SharedBuffer, Stream};

fn misuse(stream: &Stream, shared: SharedBuffer<u8>) -> Result<()> {
    stream.download_batch(Batch::new(vec![shared]))?.wait()?;
    Ok(())
}

fn main() {}
