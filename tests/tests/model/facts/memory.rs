//! What holds for memory: a block is known, forgotten and reused, in this order, and at an address there is
//! one block at a time.

use std::collections::BTreeMap;

use ferry_watch::fact::{Block, Origin};
use ferry_watch::{Fact, FactSource};

#[derive(Default)]
pub struct Blocks {
    /// Blocks that are known, by their first address.
    known: BTreeMap<u64, Block>,
    /// Blocks that were forgotten and not reused.
    forgotten: Vec<Block>,
}

impl Blocks {
    /// Takes all facts of a program; the first that breaks a rule is the error.
    pub fn take(&mut self, facts: &[(FactSource, Fact)]) -> Result<(), String> {
        let mut results = vec![];
        for (_, fact) in facts {
            match fact {
                Fact::Known { block, .. } => results.push(self.know(*block)),
                Fact::Forgotten { base, .. } => results.push(self.forget(*base)),
                Fact::Reused { base, at, .. } => results.push(self.reuse(*base, *at)),
                _ => {}
            }
        }
        results.into_iter().collect()
    }

    fn know(&mut self, block: Block) -> Result<(), String> {
        let below = self.known.range(..block.base + block.len).next_back().map(|(_, other)| *other);
        self.known.insert(block.base, block);
        match below {
            Some(other) if other.base + other.len > block.base => {
                Err(format!("{block:?} lies in {other:?}, which was not forgotten"))
            }
            _ => Ok(()),
        }
    }

    fn forget(&mut self, base: u64) -> Result<(), String> {
        let block = self.known.remove(&base).ok_or(format!("{base:#x} is forgotten and was not known"))?;
        self.forgotten.push(block);
        Ok(())
    }

    /// Physical memory is known where it is mapped, and reused under an address of its own. Registered memory
    /// is the program's, which may register it again while work in flight still uses it.
    fn reuse(&mut self, base: u64, at: u64) -> Result<(), String> {
        let has = |block: &Block| (block.at..block.at + block.len).contains(&at);
        let is_it = |block: &Block| (block.base, block.at) == (base, at);
        let known = self.known.values().find(|block| has(block) && block.origin != Origin::Registered);
        let forgotten = self.forgotten.iter().position(is_it);
        match (known, forgotten) {
            (Some(known), _) => Err(format!("{base:#x} at {at:#x} is reused, and {known:?} is known")),
            (None, Some(place)) => {
                self.forgotten.swap_remove(place);
                Ok(())
            }
            (None, None) => {
                let mapped: Vec<_> = self.forgotten.extract_if(.., |block| has(block)).collect();
                let other = mapped.iter().find(|block| block.origin != Origin::Mapped);
                other.map_or(Ok(()), |other| Err(format!("{base:#x} is reused, and it was {other:?}")))
            }
        }
    }
}
