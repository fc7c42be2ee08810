//! What an address belongs to, in words: the part of an error message that saves an hour.

use crate::{
    Error, Result,
    state::{Engine, Here, engine, lock, with_here},
};
use ferry_core::{Access, Block};
use std::{collections::VecDeque, sync::Mutex};

const REMEMBERED: usize = 1024;

/// The allocations freed last, and who freed them when.
#[derive(Default)]
pub struct Graves(Mutex<VecDeque<Grave>>);

struct Grave {
    block: Block,
    thread: u64,
    call: u64,
}

impl Graves {
    /// Remembers a block that was just freed.
    pub fn dig(&self, block: Block, here: &Here) {
        let mut graves = lock(&self.0);
        if graves.len() == REMEMBERED {
            graves.pop_front();
        }
        graves.push_back(Grave { block, thread: here.number, call: here.calls.get() });
    }

    fn find(&self, addr: usize, here: &Here) -> Option<String> {
        let graves = lock(&self.0);
        let grave =
            graves.iter().rev().find(|grave| addr.wrapping_sub(grave.block.base) < grave.block.len)?;
        let who = match grave.thread == here.number {
            true => format!("{} calls ago", here.calls.get() - grave.call),
            false => "by another thread".into(),
        };
        Some(format!("freed {who} (it was {})", grave.block))
    }
}

/// `addr` in words.
fn describe(engine: &Engine, here: &Here, addr: usize) -> String {
    let memory = engine.runtime.memory();
    if let Some(block) = memory.table().find(addr) {
        return match addr - block.base {
            0 => block.to_string(),
            offset => format!("offset {offset} of {block}"),
        };
    }
    if let Some(freed) = engine.graves.find(addr, here) {
        return freed;
    }
    match (memory.place(addr, 0, Access::Read), memory.place(addr, 1, Access::Read)) {
        (Ok(_), Ok(place)) => format!("{place} that acl did not allocate"),
        (Ok(_), Err(_)) => {
            // The last address of all has none behind it, and is as unmapped as the one before.
            let start = addr.min(usize::MAX - 1);
            format!("unknown host memory, {}", ferry::engine::probe::why_not(start, start + 1, Access::Read))
        }
        (Err(error), _) => format!("nothing known: {error}"),
    }
}

/// Runs the body of a call; a refusal also says what the call's addresses, by their argument names, belong to.
#[inline]
pub fn explaining<T, const N: usize>(
    addresses: [(&'static str, usize); N],
    body: impl FnOnce() -> Result<T>,
) -> Result<T> {
    body().map_err(|error| with_addresses(error, &addresses))
}

/// The error, and what each address belongs to.
#[cold]
pub fn with_addresses(error: Error, addresses: &[(&'static str, usize)]) -> Error {
    let words = engine().and_then(|engine| {
        with_here(|here| {
            let word = |(name, addr): &(&str, usize)| {
                format!("{name} {addr:#x} is {}", describe(engine, here, *addr))
            };
            let given = addresses.iter().filter(|(_, addr)| *addr != 0);
            Ok(given.map(word).collect::<Vec<_>>().join("; "))
        })
    });
    match words {
        Ok(words) if !words.is_empty() => error.and(words),
        _ => error,
    }
}
