//! Virtual memory: reserved addresses, and physical memory mapped there piece by piece.

mod alone;
mod bad;
mod copies;
mod life;
mod threads;

/// The size of the smallest piece.
const PAGE: usize = 4096;
const POISON: u8 = 0xa5;
