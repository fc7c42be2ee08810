// Looks at elements while a matrix that could write them is in use.
//@ error: E0502
use ferry::{HostBuffer, Result};

fn misuse(mut host: HostBuffer<u8>) -> Result<()> {
    let mut matrix = host.matrix_mut(2, 2)?;
    let slice = host.slice(..2)?;
    matrix.row_mut(0).expect("there are two")[0] = slice[1];
    Ok(())
}

fn main() {}
