// Makes two tokens of one, to get the buffer back twice.
//@ error: E0599
use ferry::{HostBuffer, InFlight, Result};

fn misuse(token: InFlight<HostBuffer<u8>>) -> Result<()> {
    let first = token.clone().wait()?;
    let second = token.wait()?;
    println!("{:?} {:?}", first, second);
    Ok(())
}

fn main() {}
