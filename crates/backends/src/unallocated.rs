//! Addresses of a backend's own where nothing is allocated, or no more: what is said of a range that has some
//! of them.

use ferry_core::{Error, Home, Kind};

/// What memory of other processes is called.
pub const IMPORTED: &str = "memory imported from another process";

/// What memory is called that the library has for itself.
pub const OWN: &str = "memory that the library uses itself";

/// What memory is called, by where it is.
pub fn name(home: Home) -> String {
    match home {
        Home::Host => "page-locked memory".into(),
        Home::Device(device) => format!("device {device}"),
    }
}

/// The refusal of an address where nothing is allocated, in the same words on every backend.
pub fn refusal(addr: usize, len: usize, owner: &str) -> Error {
    let verb = if len > 0 { "reaches into" } else { "is one of" };
    Kind::BadAddress.because(format!("{addr:#x} {verb} the addresses of {owner}, where nothing is allocated"))
}
