// Cuts two rectangles that may overlap out of a matrix to be written.
//@ error: E0382
use ferry::{HostBuffer, Result};

fn misuse(mut host: HostBuffer<u8>) -> Result<()> {
    let matrix = host.matrix_mut(2, 2)?;
    let left = matrix.rect(.., ..2)?;
    let right = matrix.rect(.., 1..)?;
    println!("{:?} {:?}", left, right);
    Ok(())
}

fn main() {}
