//! Host memory that is made to be mapped at reserved addresses (physical memory handles of the host).

use crate::os::{machine::half_of_memory, mapping::Mapping};
use ferry_core::{
    Kind, Result,
    sync::{Mutex, lock},
};
use std::collections::HashMap;

/// Such memory, by the engine's address.
#[derive(Default)]
pub struct HostPages(Mutex<HashMap<usize, Mapping>>);

impl HostPages {
    /// Makes some, preferably on a memory node. It is neither locked nor known to anybody.
    pub fn make(len: usize, node: Option<u32>) -> Result<Mapping> {
        let most = 2 * half_of_memory();
        if len > most {
            let note =
                format!("{len} bytes of host memory were asked for, this machine lets a process have {most}");
            return Err(Kind::OutOfMemory.because(note));
        }
        let made = Mapping::pages("ferry:host-pages", len);
        let mapping = made.map_err(|error| Kind::OutOfMemory.because(error.note.clone()))?;
        if let Some(node) = node {
            mapping.prefer_node(node);
        }
        Ok(mapping)
    }

    /// Keeps what `make` made until it is taken by its address, which is returned.
    pub fn add(&self, mapping: Mapping) -> usize {
        let base = mapping.addr();
        lock(&self.0).insert(base, mapping);
        base
    }

    /// Takes memory that nothing uses any more; dropping it gives it back to the system.
    pub fn take(&self, base: usize) -> Option<Mapping> {
        lock(&self.0).remove(&base)
    }
}
