//! Pageable memory: portions move through page-locked chunks while the device moves others.

pub mod crew;
