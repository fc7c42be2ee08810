//! A part of the tour, and how it can end.

use ferry_abi::{Error, Result};

use crate::ctx::Ctx;
use crate::proof::Proof;

/// One row of the tour.
pub struct TourPart {
    /// What is done, in words.
    pub what: &'static str,
    /// The requirements that would be broken if it failed.
    pub proves: &'static str,
    /// Whether every backend must do it; others may answer "not supported" on a backend other than `host`. A
    /// product that is chosen may lack anything.
    pub everywhere: bool,
    /// Does it.
    pub run: fn(&mut Ctx) -> Result<Proof>,
}

/// A part that a backend other than `host` may lack.
pub const fn part(what: &'static str, proves: &'static str, run: fn(&mut Ctx) -> Result<Proof>) -> TourPart {
    TourPart { what, proves, everywhere: false, run }
}

impl TourPart {
    /// The same where every backend must do it.
    pub const fn everywhere(self) -> TourPart {
        TourPart { everywhere: true, ..self }
    }
}

/// How a part ended.
pub enum PartOutcome {
    /// Done and right.
    Ok(Proof),
    /// This backend says that it does not do it, and why.
    NotYet(String),
    /// This machine, or the product that was chosen, lacks what it needs.
    NotHere(String),
    /// Wrong.
    Failed(Error),
}
