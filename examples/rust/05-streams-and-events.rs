//! 05: two streams that work at the same time, and events that put one behind the other.
//!
//! The work of one stream runs piece after piece. The work of different streams runs whenever it can, unless
//! an event says otherwise: recorded in one stream it stands for everything submitted there so far, and a
//! stream that waits for it goes on when that is done. The program itself does not wait for any of this until
//! it wants the result.

use ferry::Runtime;

const CHUNKS: usize = 8;
const CHUNK: usize = 256 * 1024;
const BYTES: usize = CHUNKS * CHUNK;

fn main() -> ferry::Result<()> {
    let runtime = Runtime::new()?;
    let device = runtime.device(0)?;
    let (down, up) = (device.stream()?, device.stream()?);
    let there = device.alloc::<u8>(BYTES)?;
    let mut source = runtime.alloc_host::<u8>(BYTES)?;
    for (i, byte) in source.iter_mut().enumerate() {
        *byte = (i / 1000 + i) as u8;
    }
    // Eight copies read the source at the same time, so it is shared: a handle for each, and nobody writes it
    // any more.
    let source = source.share();
    let mut result = runtime.alloc_host::<u8>(BYTES)?;

    // Each chunk goes down in one stream and comes back in the other, as soon as it has arrived: while chunk
    // 3 comes back, chunk 4 goes down. The result is lent to the second stream, chunk by chunk, and the scope
    // waits for it at its end.
    let begin = down.record()?;
    let end = up.scope(|lent| {
        for (i, chunk) in result.chunks_mut(CHUNK).enumerate() {
            let range = i * CHUNK..(i + 1) * CHUNK;
            // Dropping the token of a shared buffer is fine: the copy goes on, and keeps the memory as long
            // as it needs it.
            drop(down.upload(there.slice(range.clone())?, source.clone().into_slice(range.clone())?)?);
            up.wait_for(&down.record()?)?;
            drop(lent.download(chunk, there.slice(range)?)?);
        }
        let end = down.record()?;
        // Functions of the program have their place in a stream too.
        down.call(|| println!("all chunks are on the device"))?;
        lent.call(|| println!("all chunks are back"))?;
        Ok(end)
    })?;
    assert!(result[..] == source[..], "the bytes that came back are not the ones that went");

    // The time between two events of a device, once both are done.
    down.synchronize()?;
    println!("going down took {:?}", end.duration_since(&begin).expect("both are done"));

    println!("ok: {BYTES} bytes down and up, chunk by chunk");
    Ok(())
}
