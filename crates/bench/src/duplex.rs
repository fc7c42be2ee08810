//! Copies both ways at once, from one thread to a queue for each way.

use ferry_abi::Result;

use crate::bytes::Bytes;
use crate::copier::Copier;

/// The copiers of both ways as one: what it submits is a copy each way.
pub struct BothWays<C>(pub Vec<C>);

impl<C: Copier> Copier for BothWays<C> {
    fn name(&self) -> &'static str {
        self.0[0].name()
    }

    fn submit(&mut self) -> Result<()> {
        self.0.iter_mut().try_for_each(Copier::submit)
    }

    fn wait(&mut self) -> Result<()> {
        self.0.iter_mut().try_for_each(Copier::wait)
    }

    fn targets(&self) -> Vec<&dyn Bytes> {
        self.0.iter().flat_map(Copier::targets).collect()
    }

    fn enter(&mut self) -> Result<()> {
        self.0.iter_mut().try_for_each(Copier::enter)
    }

    fn leave(&mut self) -> Result<()> {
        self.0.iter_mut().try_for_each(Copier::leave)
    }
}
