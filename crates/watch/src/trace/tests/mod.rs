//! Tests of the tracer as a whole: what it keeps, what its files say to readers that are not ours.

mod boxes;
mod findings;
mod keeps;
mod msprof;
mod page;
mod script;

use crate::fact::{Fact, FactReader, FactSource};

use super::{TraceLimits, Tracer};

/// A tracer that was given all these facts.
fn traced(facts: &[(FactSource, Fact)], limits: TraceLimits) -> Tracer {
    let mut tracer = Tracer::new(limits);
    facts.iter().for_each(|(source, fact)| tracer.take(*source, fact));
    tracer.finish();
    tracer
}
