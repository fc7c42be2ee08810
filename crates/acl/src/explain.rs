//! What an address belongs to, in words: the part of an error message that saves an hour.

use crate::{
    Error, Result,
    state::{Here, OpenedEngine, engine},
};
use ferry_core::{Access, Block, sync::lock};
use std::{collections::VecDeque, sync::Mutex};

/// How many freed allocations are remembered.
const MAX_FREED: usize = 1024;

/// The allocations that were freed last, the latest at the end.
static FREED: Mutex<VecDeque<FreedBlock>> = Mutex::new(VecDeque::new());

/// An allocation that was freed.
struct FreedBlock {
    block: Block,
    /// The number of the thread that freed it.
    thread: u64,
    /// How many calls that thread had made by then.
    call: u64,
}

/// Remembers a block that was just freed by a call of this thread.
pub(crate) fn remember_freed(here: &Here, block: Block) {
    let mut freed = lock(&FREED);
    if freed.len() == MAX_FREED {
        freed.pop_front();
    }
    freed.push_back(FreedBlock { block, thread: here.number, call: here.calls.get() });
}

/// When the block that `addr` was part of was freed, if it was.
fn freed(here: &Here, addr: usize) -> Option<String> {
    let freed = lock(&FREED);
    let found = freed.iter().rev().find(|freed| addr.wrapping_sub(freed.block.base) < freed.block.len)?;
    let who = match found.thread == here.number {
        true => format!("{} calls ago", here.calls.get() - found.call),
        false => "by another thread".into(),
    };
    Some(format!("freed {who} (it was {})", found.block))
}

/// `addr` in words.
fn describe(here: &Here, engine: &OpenedEngine, addr: usize) -> String {
    let memory = engine.runtime.memory();
    if let Some(block) = memory.table().find(addr) {
        return match addr - block.base {
            0 => block.to_string(),
            offset => format!("offset {offset} of {block}"),
        };
    }
    if let Some(freed) = freed(here, addr) {
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

/// Runs the body of a call; a refusal also says what the call's addresses, by their argument names, belong
/// to.
#[inline]
pub(crate) fn explaining<T, const N: usize>(
    here: &Here,
    addresses: [(&'static str, usize); N],
    body: impl FnOnce() -> Result<T>,
) -> Result<T> {
    body().map_err(|error| with_addresses(here, error, &addresses))
}

/// The error, and what each address belongs to.
#[cold]
pub(crate) fn with_addresses(here: &Here, error: Error, addresses: &[(&'static str, usize)]) -> Error {
    let Ok(engine) = engine() else { return error };
    let describe =
        |(name, addr): &(&str, usize)| format!("{name} {addr:#x} is {}", describe(here, engine, *addr));
    let given = addresses.iter().filter(|(_, addr)| *addr != 0);
    match given.map(describe).collect::<Vec<_>>().join("; ") {
        words if words.is_empty() => error,
        words => error.and(words),
    }
}
