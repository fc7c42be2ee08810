//! Names for what facts are about, and what the checker knows of AscendCL's functions by their names.
//!
//! A fact names the function of its call and not what kind of call that is. The few kinds that matter are
//! told apart here and nowhere else.

use crate::blocks::BlockMap;
use crate::fact::CallSite;
use crate::symbols::Symbols;

/// What is looked for beyond the usual.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckOptions {
    /// Memory that is never freed.
    pub leaks: bool,
    /// Calls that would break a capture in another mode.
    pub capture_lint: bool,
    /// Each process has findings of its own, also for a mistake that another process makes at the same place:
    /// for those who ask while programs run ([`Checker::tell`](super::Checker::tell)).
    pub by_process: bool,
}

/// Names and memory, for the checks of one process.
pub struct CheckNames<'a> {
    pub(super) symbols: &'a Symbols,
    pub(super) blocks: &'a BlockMap,
    pub(super) options: CheckOptions,
    pub(super) process: u32,
}

impl CheckNames<'_> {
    /// The function of a call; empty if it is not known.
    pub fn function(&self, site: CallSite) -> &str {
        self.symbols.function(self.process, site.function).unwrap_or_default()
    }

    /// Whether the call is given the pieces of a batch.
    pub fn is_batch(&self, site: CallSite) -> bool {
        self.function(site).contains("Batch")
    }

    /// Whether a call that fails may tell of work which others have submitted.
    pub fn tells_of_work(&self, site: CallSite) -> bool {
        ["Synchronize", "Query"].iter().any(|word| self.function(site).contains(word))
    }

    /// Whether the call is given memory to end it.
    pub fn frees(&self, site: CallSite) -> bool {
        self.unregisters(site) || ["Free", "Unmap"].iter().any(|word| self.function(site).contains(word))
    }

    /// Whether the call is given memory that is the program's and registered.
    pub fn unregisters(&self, site: CallSite) -> bool {
        self.function(site).contains("Unregister")
    }

    /// Whether the library did it of its own accord, in a process that calls it by functions.
    pub fn is_by_library(&self, site: CallSite) -> bool {
        site.function == 0 && self.symbols.function(self.process, 1).is_some()
    }
}

/// Whether a function of this name executes a graph: a function that it submits will submit the tasks.
pub fn executes_graph(name: &str) -> bool {
    name.contains("RIExecute")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::{Fact, FactReader, FactSource};

    #[test]
    fn calls_are_told_apart_by_the_names_of_their_functions() {
        let functions = [
            ("aclrtMemcpyBatchAsyncV2", [true, false, false, false]),
            ("aclrtSynchronizeStreamWithTimeout", [false, true, false, false]),
            ("aclrtQueryEventStatus", [false, true, false, false]),
            ("aclrtStreamQuery", [false, true, false, false]),
            ("aclrtFreeHostWithDevSync", [false, false, true, false]),
            ("aclrtUnmapMem", [false, false, true, false]),
            ("aclrtHostUnregister", [false, false, true, true]),
            ("aclrtMemcpyAsync", [false; 4]),
        ];
        let (mut symbols, blocks) = (Symbols::default(), BlockMap::default());
        let all = functions.map(|(name, _)| name).join("\n");
        symbols.take(FactSource { process: 7, thread: 7 }, &Fact::Functions(all));
        let names =
            CheckNames { symbols: &symbols, blocks: &blocks, options: CheckOptions::default(), process: 7 };
        for (index, (name, want)) in functions.into_iter().enumerate() {
            let site = CallSite { function: index as u16 + 1, ..CallSite::default() };
            let is =
                [names.is_batch(site), names.tells_of_work(site), names.frees(site), names.unregisters(site)];
            assert_eq!((names.function(site), is), (name, want));
            assert!(!names.is_by_library(site));
        }
        assert!(names.is_by_library(CallSite::default()));
        assert_eq!(["aclmdlRIExecuteAsync", "aclrtMemcpyAsync"].map(executes_graph), [true, false]);
    }
}
