//! Copies, events and streams as futures: under the executors people use, with wakers that come and go, and
//! dropped half-way. What thousands of them cost: `tasks_many.rs`.

mod drops;
mod executors;
mod kit;
mod races;
mod storm;
mod wakers;
