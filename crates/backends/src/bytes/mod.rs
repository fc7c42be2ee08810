//! What a CPU does with bytes: copies, fills, reductions, and the arithmetic of ranges that they need.
//!
//! Both backends move bytes with the CPU: the host backend always, the cuda backend for host memory, for
//! pageable memory that goes through a staging buffer, and for the lists that its kernels read. There is one
//! copy loop, one fill loop, one writer of non-temporal stores, one test for every kind of overlap, one for
//! copies that meet each other and one cutter into portions, so that each is measured and tested once
//! (`benches/copy.rs`).
//!
//! Nothing here knows streams, devices or threads; who calls decides how much is done at a time, and on which
//! thread. Arrows: `copy/` and `reduce` use `overlap`, `nontemporal` and `os::fault`, which ends a loop that
//! meets memory that is gone; `portions` and `hazards` use nothing. Nothing here imports `host/` or `cuda/`.

#[doc(hidden)]
pub mod copy;
pub(crate) mod hazards;
pub(crate) mod nontemporal;
pub(crate) mod overlap;
pub(crate) mod portions;
pub(crate) mod reduce;
