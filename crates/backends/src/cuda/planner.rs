//! Stands in for the planner.

/// Which way a copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// To the device.
    In,
    /// From the device.
    Out,
    /// Inside the device.
    Within,
    /// Another device has a part in it.
    Across,
}
