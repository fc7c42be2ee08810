//! Virtual memory: reserved addresses, and physical memory mapped there piece by piece.

mod alone;
mod bad;
mod copies;
mod life;
mod threads;
mod twins;

/// The size of the smallest piece.
const PAGE: usize = 4096;
const POISON: u8 = 0xa5;

/// The child's part.
#[test]
#[ignore = "run by alone::each_case_in_a_process_of_its_own"]
fn one_case() {
    ferry_tests::children::play(&alone::CASES);
}
