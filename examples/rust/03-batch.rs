//! 03: many copies as one piece of work.
//!
//! Ten pieces go to the device. Six of them come from one page-locked buffer and four from another, so the
//! batch is over a `Vec` of two buffers, and every piece says which of the two it means. The copies of a
//! batch run in no particular order. A batch is page-locked memory only: pieces of plain memory would each go
//! by `write` or `write_staged`.

use ferry::{Batch, Kind, Runtime};

const PIECES: usize = 10;
const FIRST: usize = 6;
const PIECE: usize = 100;

fn main() -> ferry::Result<()> {
    let runtime = Runtime::new()?;
    let device = runtime.device(0)?;
    let stream = device.stream()?;
    let there = device.alloc::<u8>(PIECES * PIECE)?;
    let mut buffers =
        vec![runtime.alloc_host::<u8>(FIRST * PIECE)?, runtime.alloc_host::<u8>((PIECES - FIRST) * PIECE)?];

    // Piece i is full of the number i, and goes to place i on the device.
    let spot = |i: usize| if i < FIRST { (0, i * PIECE) } else { (1, (i - FIRST) * PIECE) };
    for i in 0..PIECES {
        let (buffer, start) = spot(i);
        buffers[buffer][start..start + PIECE].fill(i as u8);
    }
    let mut batch = Batch::new(buffers);
    for i in 0..PIECES {
        let (buffer, start) = spot(i);
        batch.push(there.slice(i * PIECE..(i + 1) * PIECE)?, (buffer, start..start + PIECE))?;
    }

    // A mistake: a piece that has 100 elements here and 99 there. The message says so, and the batch stays as
    // it was.
    let wrong = batch.push(there.slice(..PIECE - 1)?, (0, 0..PIECE)).expect_err("a piece that fits nowhere");
    println!("with a mistake in a piece: {wrong}");
    assert_eq!((wrong.kind, batch.len()), (Kind::BadShape, PIECES));

    // One call. It takes both buffers, and the token gives both back.
    let sent = stream.upload_batch(batch)?;
    let back = stream.download(runtime.alloc_host::<u8>(PIECES * PIECE)?, &there)?.wait()?;
    for (i, piece) in back.chunks(PIECE).enumerate() {
        assert!(piece.iter().all(|byte| *byte == i as u8), "piece {i} is wrong");
    }
    println!("{PIECES} pieces arrived");
    assert_eq!(sent.wait()?.len(), 2);

    println!("ok: one call, {PIECES} copies");
    Ok(())
}
