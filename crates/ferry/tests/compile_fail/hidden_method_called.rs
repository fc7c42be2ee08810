// Calls the hidden method by which a copy takes the buffer out of a token.
//@ error: E0277
use ferry::{HostBuffer, HostRead, InFlight, Result};

fn misuse(token: InFlight<HostBuffer<u8>>) -> Result<()> {
    let host = HostRead::fly(token, None, 1, Default::default());
    println!("{:?}", host);
    Ok(())
}

fn main() {}
