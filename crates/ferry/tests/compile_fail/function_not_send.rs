// Gives the stream a function that cannot run on another thread.
//@ error: E0277
use ferry::{Result, Stream};

fn misuse(stream: &Stream) -> Result<()> {
    let count = std::rc::Rc::new(1);
    stream.call(move || println!("{count}"))?;
    Ok(())
}

fn main() {}
