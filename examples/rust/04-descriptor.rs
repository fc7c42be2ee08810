//! 04: a copy whose addresses are read when it runs.
//!
//! A descriptor is a piece of device memory that says: from here, to there, so many bytes. The work that uses
//! it looks into it when its turn comes, not when it is submitted. So the same submitted copy can be pointed
//! elsewhere, by the program or by work that runs before it.

use ferry::Runtime;

const BYTES: usize = 256;

fn main() -> ferry::Result<()> {
    let device = Runtime::new()?.device(0)?;
    let stream = device.stream()?;

    // Memory to copy from and to, all of it on the device.
    let (first, second) = (device.alloc_from(&[1_u8; BYTES])?, device.alloc_from(&[2_u8; BYTES])?);
    let target = device.alloc_zeroed::<u8>(BYTES)?;

    // As everywhere in this crate, the destination comes first. What a descriptor names stays allocated as
    // long as the descriptor does. In C a descriptor is plain bytes, which a program sizes, allocates and may
    // copy; here it is a type of its own, since bytes that anybody can write would let a copy go anywhere.
    let descriptor = device.descriptor()?;
    descriptor.set(&target, &first)?;

    stream.run(&descriptor)?;
    assert_eq!(stream.read_vec(&target)?, [1; BYTES]);
    println!("copied what the descriptor pointed at");

    // Earlier work of the stream points it elsewhere, and the copy behind that goes where it says then.
    stream.set_descriptor(&descriptor, &target, &second)?;
    stream.run(&descriptor)?;
    assert_eq!(stream.read_vec(&target)?, [2; BYTES]);
    println!("copied what it pointed at when its turn came");

    println!("ok: one descriptor, two sources");
    Ok(())
}
