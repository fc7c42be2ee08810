//! 07: copies in tasks, with async/await.
//!
//! A token is a future: awaiting it gives the buffer back. Events and whole streams can be awaited too. Ferry
//! brings no executor of its own and asks for none: whoever polls is woken when the copy is done, so this
//! runs under tokio, smol or the twenty lines below. A copy that waits costs no thread; dropping a future
//! lets its copy go on and gives the buffer up, without waiting.

use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
};

use ferry::{DeviceBuffer, HostBuffer, Runtime, Stream};

/// The whole of an executor: polls, and sleeps until somebody says that it is worth polling again.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

const COPIES: usize = 1000;

/// There and back, as a task would do it. The buffer is away for two awaits, and the type of every line says
/// whether it is here.
async fn round_trip(
    stream: &Stream,
    there: &DeviceBuffer<u64>,
    host: HostBuffer<u64>,
) -> ferry::Result<HostBuffer<u64>> {
    let mut host = stream.upload(there, host)?.await?;
    host.fill(0);
    Ok(stream.download(host, there)?.await?)
}

fn main() -> ferry::Result<()> {
    let runtime = Runtime::new()?;
    let device = runtime.device(0)?;
    let stream = device.stream()?;

    let there = device.alloc::<u64>(100)?;
    let host = block_on(round_trip(&stream, &there, runtime.alloc_host_from(&[7; 100])?))?;
    assert_eq!(host[..], [7; 100]);
    println!("one buffer there and back");

    // Many at once: hand all of them over, then await them one after the other.
    let there = device.alloc::<u64>(COPIES)?;
    block_on(async {
        let mut tokens = Vec::new();
        for i in 0..COPIES {
            tokens.push(stream.upload(there.slice(i..i + 1)?, runtime.alloc_host_from(&[i as u64])?)?);
        }
        println!("{} copies are under way", tokens.len());
        for (i, token) in tokens.into_iter().enumerate() {
            assert_eq!(token.await?[..], [i as u64]);
        }
        Ok::<_, ferry::Error>(())
    })?;
    assert!(stream.read_vec(&there)?.iter().enumerate().all(|(i, number)| *number == i as u64));

    // A future that is dropped takes its copy along no longer than needed: the next line does not wait, and
    // the copy is made.
    drop(stream.upload(&there, runtime.alloc_host_from(&[9; COPIES])?)?);
    block_on(stream.synchronized())?;
    assert_eq!(stream.read_vec(&there)?, [9; COPIES]);

    println!("ok: {COPIES} copies awaited by one thread");
    Ok(())
}
