//! Coalescing: small copies that follow each other become one launch.
//!
//! A launch costs as much as moving some 150 KiB, so small copies are kept back for a few microseconds in a
//! window and sent together, by the [`sender`], a thread that takes the driver's calls off the submitting
//! threads, or by whatever comes next in their queue. [`coalescer`] decides for each copy whether it is kept
//! back. The window belongs to the lane, which sends what is in it before anything else: it is in `order`.
//!
//! Copies through descriptors are coalesced in the same way, which is why this imports `descriptors`. Arrows
//! point down.

pub mod coalescer;
pub mod sender;
