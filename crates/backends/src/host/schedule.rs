//! Which order the host backend runs work in, among those that the contract permits. Programs that wait as
//! they must see no difference; a program that forgot a wait behaves differently, and the same way each time.
//!
//! Here is what can be asked for and how it is written. `pacer.rs` does it.

use ferry_core::{Error, Kind, Result};
use std::{fmt, str::FromStr};

/// When work runs that may run at different times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunOrder {
    /// Only when somebody waits for it, asks about it or otherwise needs it.
    Late,
    /// Before the call that submits it returns, as far as it can begin by then.
    Early,
    /// At random times, in a random order, in random pieces: all drawn from the seed.
    Shuffle,
}

/// An order, and the seed that random choices start from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// When work runs.
    pub order: RunOrder,
    /// The same seed makes the same choices, as far as the program makes the same calls. Only
    /// [`RunOrder::Shuffle`] makes any.
    pub seed: u64,
}

impl RunOrder {
    /// All of them, by name.
    pub const ALL: [(&'static str, RunOrder); 3] =
        [("late", RunOrder::Late), ("early", RunOrder::Early), ("shuffle", RunOrder::Shuffle)];
}

impl FromStr for RunOrder {
    type Err = Error;
    fn from_str(name: &str) -> Result<RunOrder> {
        let found = RunOrder::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, order)| *order).ok_or_else(|| {
            Kind::BadSetting.because(format!(
                "'{name}' is not one of: {}",
                RunOrder::ALL.map(|(name, _)| name).join(", ")
            ))
        })
    }
}

impl fmt::Display for RunOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = RunOrder::ALL.iter().find(|(_, order)| order == self);
        f.pad(named.map_or("", |(name, _)| name))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn orders_are_known_by_their_names_alone() {
        for (name, order) in RunOrder::ALL {
            assert_eq!((name.parse(), order.to_string().as_str()), (Ok(order), name));
        }
        for wrong in ["", "Late", "late ", "random"] {
            let error = wrong.parse::<RunOrder>().expect_err(wrong);
            assert_eq!(error.kind, Kind::BadSetting);
            assert!(error.note.contains("late, early, shuffle"), "{error}");
        }
    }
}
