// Makes up a token, around a buffer of its own choice.
//@ error: E0451
use ferry::{HostBuffer, InFlight, Result};

fn misuse(token: InFlight<HostBuffer<u8>>, host: HostBuffer<u8>) -> Result<()> {
    let copy = InFlight { buffer: Some(host), ..token };
    copy.wait()?;
    Ok(())
}

fn main() {}
