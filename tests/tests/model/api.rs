//! The interfaces that programs are written for, and what programs in Rust may do with page-locked memory.
//!
//! The safe Rust API lacks some of what the C ABI has (virtual and registered memory, a second process,
//! copies that no stream carries out, resets, forced destruction, failures that stop everything): programs
//! for it do not ask for that.
//!
//! It also has a rule of its own. A copy owns the page-locked buffer that it uses, the whole of it, and what
//! is left is a token. A program in Rust does only what that allows:
//!
//! - A later copy of the buffer takes the token, and so comes after the copies before it, on whichever
//!   stream. The oracle is told: they are in order as if events were between them.
//! - Before the CPU looks at a buffer in flight, changes or shares it, or a batch takes it together with
//!   others, a step of its own takes it back ([`Act::Land`]), which waits. As everything that waits, it comes
//!   after the gates that the thread holds.
//! - Buffers that one batch took come back together; only another batch of just these takes their token.
//! - Memory of the host is one thread's between two barriers, except what is shared. A thread that waits with
//!   such memory in its hands could otherwise keep the other from opening a gate.
//! - Freeing a buffer in flight drops its token.

use std::collections::BTreeSet;

use crate::order::Point;
use crate::program::{Act, Form, Home, Program, Timing};

/// Which interface a program is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Api {
    #[default]
    C,
    Rust,
}

impl Api {
    /// Whether it has memory of this form.
    pub fn has(self, form: Form) -> bool {
        self == Api::C || form == Form::Plain
    }
}

/// Page-locked buffers that copies own, and the copies, the latest of which has the token.
#[derive(Clone)]
struct Flight {
    buffers: Vec<usize>,
    copies: Vec<Point>,
}

/// What has become of the page-locked buffers of a program in Rust. In C nobody owns them.
#[derive(Clone, Default)]
pub struct Lent {
    flights: Vec<Flight>,
    shared: BTreeSet<usize>,
}

impl Lent {
    pub fn is_shared(&self, buffer: usize) -> bool {
        self.shared.contains(&buffer)
    }

    pub fn is_in_flight(&self, buffer: usize) -> bool {
        self.flight(buffer).is_some()
    }

    /// The buffers that are in flight together with this one, if it is.
    pub fn together(&self, buffer: usize) -> Option<Vec<usize>> {
        self.flight(buffer).map(|flight| flight.buffers.clone())
    }

    fn flight(&self, buffer: usize) -> Option<&Flight> {
        self.flights.iter().find(|flight| flight.buffers.contains(&buffer))
    }

    /// Several buffers that are in flight together, if there are any.
    pub fn some_together(&self) -> Option<Vec<usize>> {
        self.flights.iter().map(|flight| flight.buffers.clone()).find(|buffers| buffers.len() > 1)
    }

    /// The buffers that a copy takes.
    pub fn taken(&self, program: &Program, act: &Act) -> Vec<usize> {
        let is_task = matches!(program.timing(act), Some(Timing::Task { .. }));
        if program.api == Api::C || !is_task {
            return vec![];
        }
        let owned = |b: &usize| program.home(*b) == Home::Pinned && !self.is_shared(*b);
        let all: BTreeSet<_> = act.buffers().into_iter().filter(owned).collect();
        all.into_iter().collect()
    }

    /// The copies whose token another copy of the same buffers takes, and comes after.
    pub fn copies(&self, buffers: &[usize]) -> &[Point] {
        let flight = buffers.first().and_then(|buffer| self.flight(*buffer));
        flight.map_or(&[], |flight| &flight.copies)
    }

    /// A copy has taken these buffers.
    pub fn launch(&mut self, buffers: &[usize], copy: Point) {
        let Some(first) = buffers.first() else { return };
        match self.flights.iter_mut().find(|flight| flight.buffers.contains(first)) {
            Some(flight) => flight.copies.push(copy),
            None => self.flights.push(Flight { buffers: buffers.to_vec(), copies: vec![copy] }),
        }
    }

    /// Takes a buffer back, and those that travel with it. All these copies are waited for: one that was
    /// dropped did not wait for the others.
    pub fn land(&mut self, buffer: usize) -> Vec<Point> {
        let at = self.flights.iter().position(|flight| flight.buffers.contains(&buffer));
        at.map_or(vec![], |at| self.flights.swap_remove(at).copies)
    }

    /// Takes a step that is not a copy.
    pub fn step(&mut self, act: &Act) {
        match act {
            Act::Free { buffer } => drop(self.land(*buffer)),
            Act::Share { buffer } => drop(self.shared.insert(*buffer)),
            _ => {}
        }
    }

    /// Buffers that have to be taken back before the step.
    pub fn in_the_way(&self, program: &Program, act: &Act) -> Option<Vec<usize>> {
        self.together(self.one_in_the_way(program, act)?)
    }

    fn one_in_the_way(&self, program: &Program, act: &Act) -> Option<usize> {
        let away = |b: &usize| self.is_in_flight(*b);
        match act {
            Act::Poke { .. } | Act::Share { .. } | Act::Check { .. } => act.buffers().into_iter().find(away),
            Act::Free { buffer } => self.flight(*buffer).filter(|f| f.buffers.len() > 1).map(|_| *buffer),
            _ if matches!(program.timing(act), Some(Timing::Staged { .. })) => {
                act.buffers().into_iter().find(away)
            }
            _ => {
                let taken = self.taken(program, act);
                let other = |b: &usize| self.flight(*b).is_some_and(|flight| flight.buffers != taken);
                taken.iter().copied().find(other)
            }
        }
    }
}
