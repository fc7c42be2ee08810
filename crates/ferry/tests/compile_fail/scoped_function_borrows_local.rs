// Gives the stream a function that borrows from the body, which ends before the scope does.
//@ error: E0597
use ferry::{Result, Stream};

fn misuse(stream: &Stream) -> Result<()> {
    stream.scope(|scope| {
        let mut done = false;
        let done = &mut done;
        scope.call(move || *done = true)
    })?;
    Ok(())
}

fn main() {}
