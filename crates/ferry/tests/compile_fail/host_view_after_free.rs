// Reads a part of a host buffer that was freed.
//@ error: E0505
use ferry::{HostBuffer, Result};

fn misuse(host: HostBuffer<u8>) -> Result<()> {
    let part = host.slice(..2)?;
    drop(host);
    println!("{}", part[0]);
    Ok(())
}

fn main() {}
