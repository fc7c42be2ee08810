//! Coalescing: small copies that follow each other become one launch.
//!
//! A launch costs as much as moving some 150 KiB, so small copies are kept back for a few microseconds in a
//! [`window`] and sent together, by the [`sender`], a thread that takes the driver's calls off the submitting
//! threads, or by whatever comes next in their queue. Copies of one launch run side by side: [`hazards`]
//! finds those that must not. [`coalescer`] decides for each copy whether it is kept back, and [`runs`] puts
//! what was kept back into the stream.
//!
//! Copies through descriptors are coalesced in the same way, which is why this imports `descriptors`. Tickets
//! are counted in the window, for the lane asks it through a trait of `order`. Arrows point down.

pub mod coalescer;
pub mod hazards;
pub mod runs;
pub mod sender;
pub mod spin_lock;
pub mod window;
