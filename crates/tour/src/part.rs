//! A part of the tour, and how it can end.

use ferry_abi::{Error, Result};

use crate::ctx::Ctx;
use crate::proof::Proof;

/// A part: one row of the table.
pub struct TourPart {
    /// What is done, in words.
    pub what: &'static str,
    /// The requirements that would be broken if it failed.
    pub proves: &'static str,
    /// Whether every backend must do it. Otherwise a backend other than `host` may answer "not supported". A
    /// product other than the default may lack anything.
    pub everywhere: bool,
    /// The function that does it.
    pub run: fn(&mut Ctx) -> Result<Proof>,
}

/// A part that a backend other than `host` may lack.
pub const fn part(what: &'static str, proves: &'static str, run: fn(&mut Ctx) -> Result<Proof>) -> TourPart {
    TourPart { what, proves, everywhere: false, run }
}

impl TourPart {
    /// This part, which every backend must do.
    pub const fn everywhere(self) -> TourPart {
        TourPart { everywhere: true, ..self }
    }
}

/// How a part ended.
pub enum PartOutcome {
    /// Done, and every byte was right.
    Ok(Proof),
    /// The backend answered "not supported", and why.
    NotYet(String),
    /// The machine or the chosen product lacks what it needs.
    NotHere(String),
    /// Something was wrong.
    Failed(Error),
}
