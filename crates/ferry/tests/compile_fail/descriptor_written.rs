// Writes the words of a descriptor, by which a copy could be made to go to any address.
//@ error: E0599
use ferry::{Descriptor, Result, Stream};

fn misuse(stream: &Stream, descriptor: &Descriptor) -> Result<()> {
    stream.write(descriptor.as_slice(), &[0; 5])?;
    Ok(())
}

fn main() {}
