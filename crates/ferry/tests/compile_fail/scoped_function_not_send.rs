// Gives the stream a function that cannot run on another thread.
//@ error: E0277
use ferry::{Result, Stream};

fn misuse(stream: &Stream) -> Result<()> {
    let count = std::rc::Rc::new(std::cell::Cell::new(0));
    stream.scope(|scope| scope.call(|| count.set(1)))?;
    Ok(())
}

fn main() {}
