//! Virtual memory: reserved addresses, and physical memory mapped there piece by piece.

mod alone;
mod bad;
mod copies;
mod exact;
mod handles;
mod host_pages;
mod life;
mod threads;
mod twins;

/// The size of the smallest piece.
const PAGE: usize = 4096;
const POISON: u8 = 0xa5;

/// The child's part.
#[test]
#[ignore = "run by the tests of alone.rs and exact.rs"]
fn one_case() {
    ferry_tests::children::play(&[&alone::CASES[..], &exact::CASES].concat());
}
