//! Stands in for the list ring.

/// A copy of a list.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where to.
    pub dst: u64,
    /// Where from.
    pub src: u64,
    /// How many bytes.
    pub len: u64,
}
