//! 08: lend memory to copies, instead of giving it away.
//!
//! An owned copy takes the buffer and gives it back through a token. Inside a scope copies borrow: parts of
//! one buffer can be in flight at the same time, the program keeps the buffer, and the scope waits at its end
//! for all that it lent. It waits also when its body fails or panics, as `std::thread::scope` does, so what
//! was lent is never left behind in flight.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ferry::{Runtime, Stream};

const LEN: usize = 1 << 16;

fn main() -> ferry::Result<()> {
    let runtime = Runtime::new()?;
    let device = runtime.device(0)?;
    let stream = device.stream()?;
    let there = device.alloc::<u32>(LEN)?;
    let mut host = runtime.alloc_host::<u32>(2 * LEN)?;
    for (i, number) in host.iter_mut().enumerate() {
        *number = i as u32;
    }

    // Two parts of one buffer: the left half goes up, the right half takes what comes down. While that goes
    // on the left half may be read, since the copy only reads it; the right half may not be touched, and the
    // compiler says so.
    let (left, right) = host.split_at_mut(LEN)?;
    let mut sum = 0_u64;
    stream.scope(|scope| {
        scope.upload(&there, &*left)?;
        scope.download(right, &there)?;
        // A function that borrows: it adds up what is only read, in its place behind the copies.
        let left = &*left;
        let sum = &mut sum;
        scope.call(move || *sum = left.iter().map(|number| u64::from(*number)).sum())
    })?;
    // The borrows are over: all of it is ours again.
    assert_eq!(host[..LEN], host[LEN..]);
    assert_eq!(sum, (0..LEN as u64).sum());
    println!("two halves of one buffer were in flight at the same time");

    // A token gives a borrow back before the end, for work that needs the bytes half-way.
    stream.scope(|scope| {
        let part = scope.download(host.slice_mut(..LEN)?, &there)?.wait()?;
        part.reverse();
        scope.upload(&there, part)?;
        Ok(())
    })?;
    assert_eq!(stream.read_vec(there.slice(..2)?)?, [LEN as u32 - 1, LEN as u32 - 2]);
    println!("one was changed half-way and sent on");

    // A panic in the body: the scope waits for its copies first, then the panic goes on.
    let panicked = catch_unwind(AssertUnwindSafe(|| forgetful(&stream, &there, &mut host)));
    assert!(panicked.is_err());
    assert_eq!(host[..2], [LEN as u32 - 1, LEN as u32 - 2], "the copy was done before the panic came out");
    println!("a panic found nothing in flight");

    println!("ok: lent, copied and given back");
    Ok(())
}

fn forgetful(stream: &Stream, there: &ferry::DeviceBuffer<u32>, host: &mut ferry::HostBuffer<u32>) {
    let _: ferry::Result<()> = stream.scope(|scope| {
        scope.download(host.slice_mut(..LEN)?, there)?;
        // Not the usual way to say it: the message of a panic would be in the way of this program's output.
        std::panic::resume_unwind(Box::new("something else went wrong"))
    });
}
