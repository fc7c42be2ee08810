//! Ranges of the user's addresses that are no allocation of a backend: registered, reserved, imported, and
//! host memory that is made to be mapped.
//!
//! Each kind has a registry of its own, since each has its own rule for the moment when a range may go:
//! registered pages stay locked while another registration covers them, reserved addresses spend some time in
//! quarantine, imported bytes are mapped once for the engine however often they are imported. A backend has a
//! registry of each kind that the operating system serves for it (`cuda/` registers and imports by its
//! driver, and has those two not).
//!
//! Nothing here checks what the user gave: the core does. Arrows: `imported` uses `counted`; otherwise the
//! modules do not know each other, and build on `os/mapping.rs` alone.

mod counted;
mod imported;
mod pages;
mod registered;
mod reserved;

pub use counted::CountedRanges;
pub use imported::Imports;
pub use pages::HostPages;
pub use registered::PageLocks;
pub use reserved::Reservations;
