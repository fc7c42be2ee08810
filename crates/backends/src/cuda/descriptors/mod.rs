//! Copies through descriptors: the addresses are read when the copy runs, by a kernel where that can be.
//!
//! A descriptor is memory of the user's that names the two ends of a copy, with a seal that says the core has
//! checked them. A kernel reads it when the stream gets there ([`launch`], kernels/sealed.cu), checks the
//! seal and the [`liveness`] of the memory it names, and reports what is wrong to a ring buffer in pinned
//! memory ([`queue_memory`]); [`in_flight`] keeps what is needed to explain that. Copies that come behind
//! other work wait in a list that grows while its launch is queued ([`growing_list`]).
//!
//! What the GPU cannot read is the host's part: pointer cells, mapped memory ([`copies`]). [`late_bound`]
//! brings all of them to a lane. Arrows point down to `order`, `stream` and `driver`; when such copies are
//! sent is not decided here.

pub mod copies;
pub mod growing_list;
pub mod in_flight;
pub mod late_bound;
pub mod launch;
pub mod liveness;
pub mod queue_memory;
