//! Launches of copies through descriptors: copies that were submitted one after the other go to the GPU
//! together, and sealed.cu says how it does them.

use crate::cuda::{
    descriptors::growing_list::{GrowingList, LIST_MAX, following},
    descriptors::queue_memory::{DeviceDescriptors, QueueBuffers, QueueMemory},
    driver::{Current, arg},
    order::progress::StreamProgress,
    order::window::DescriptorOp,
};
use ferry_core::{Result, indirect::MARK, sync::Arc};
use std::{ptr, sync::OnceLock};

/// Addresses that travel in the parameters of a launch: the same in sealed.cu, as the next three.
const INLINE_MAX: usize = 480;
/// Stamps of a launch that are checked together.
const STAMPS: usize = 1024;
/// Facts that a turn of reading finds.
const FACTS: usize = 9;
/// Turns in which descriptors are read, 32 descriptors each.
const READS: usize = LIST_MAX / 32;
/// Bytes of `Scratch` in sealed.cu.
pub const SCRATCH_LEN: usize = SCRATCH_ZEROES + FACTS * READS * 8 + LIST_MAX * (4 + 1) * 8;
/// How many of them are zero before the first launch: its counts and stamps.
pub const SCRATCH_ZEROES: usize = 2 * 512 + STAMPS * 8;
/// Blocks that a few copies get: one of them may be large. More gain nothing, and are taken from what else
/// runs on the GPU.
const LEAST_BLOCKS: usize = 32;
/// Copies that are worth a block more. Measured on an H200 with pieces of 64 bytes to 128 KiB.
const COPIES_OF_A_BLOCK: usize = 16;

/// The argument of the kernel: the same in sealed.cu.
#[repr(C)]
struct LaunchArgs {
    ticket: u64,
    mark: u64,
    key: u64,
    errors: u64,
    live: u64,
    scratch: u64,
    /// 0 if the addresses are here.
    list: u64,
    count: u32,
    /// Whether this is the second, the fourth, ... launch with this memory.
    odd: u32,
    at: [u64; INLINE_MAX],
}

impl LaunchArgs {
    /// One that begins with `first`, without any addresses.
    fn of(first: &DescriptorOp, memory: &QueueMemory, live: usize) -> LaunchArgs {
        let QueueBuffers { ring, scratch } = memory.buffers();
        LaunchArgs {
            ticket: first.ticket,
            mark: MARK,
            key: first.key,
            errors: ring as u64,
            live: live as u64,
            scratch: scratch as u64,
            list: 0,
            count: 0,
            odd: u32::from(memory.is_odd()),
            at: [0; INLINE_MAX],
        }
    }

    /// Takes up what is in the list, or as many of `ops` as there is room for. Says how many these are.
    fn take_up(&mut self, ops: &[DescriptorOp], list: Option<(&GrowingList, usize)>) -> usize {
        if let Some((list, count)) = list {
            self.list = ptr::from_ref(list) as u64;
            return count;
        }
        let count = following(ops, self.ticket, self.key).min(INLINE_MAX);
        self.at.iter_mut().zip(&ops[..count]).for_each(|(at, op)| *at = op.at as u64);
        self.count = count as u32;
        count
    }
}

/// Puts copies into the stream, to be done as if one after the other.
pub fn send(
    shared: &Arc<DeviceDescriptors>,
    memory: &OnceLock<Arc<QueueMemory>>,
    progress: &StreamProgress,
    current: &Current<'_>,
    mut ops: &[DescriptorOp],
) -> Result<()> {
    let stream = &progress.stream;
    let memory = match memory.get() {
        Some(memory) => memory,
        None => memory.get_or_init({
            let made = QueueMemory::new(shared, stream, current, SCRATCH_ZEROES, SCRATCH_LEN)?;
            || made
        }),
    };
    ops = &ops[memory.lists.add(ops, || stream.is_idle().map(drop))?..];
    while !ops.is_empty() {
        ops = &ops[launch(shared, memory, progress, current, ops)?..];
    }
    Ok(())
}

/// Launches some of `ops`, and says how many. What comes behind other work goes into a list that may grow;
/// what the GPU can begin with at once goes in the parameters of the launch, which saves the kernel
/// two accesses to pinned memory.
fn launch(
    shared: &DeviceDescriptors,
    memory: &QueueMemory,
    progress: &StreamProgress,
    current: &Current<'_>,
    ops: &[DescriptorOp],
) -> Result<usize> {
    let (stream, lists) = (&progress.stream, &memory.lists);
    let (kernel, live) = (shared.kernel(current)?, shared.liveness_at(current)?);
    let mut launch = LaunchArgs::of(&ops[0], memory, live);
    let is_behind = stream.kind().may_extend_launches() && progress.passed() + 1 < ops[0].ticket;
    let may_grow = is_behind && lists.may_grow(ops);
    let list = if may_grow || ops.len() > INLINE_MAX { lists.fill(ops) } else { None };
    let count = launch.take_up(ops, list);
    let open = list.map(|(list, _)| list).filter(|_| may_grow);
    let blocks_within = stream.device().constants.blocks_within;
    let blocks = blocks_for(if open.is_some() { LIST_MAX } else { count }, blocks_within);
    match (stream.launch(current, kernel, blocks, &mut [arg(&launch)]), list) {
        (Ok(()), _) => {
            memory.count_launch();
            lists.launched(open, &ops[..count]);
            Ok(count)
        }
        (Err(why), Some((list, _))) => {
            lists.unused(list);
            Err(why)
        }
        (Err(why), None) => Err(why),
    }
}

fn blocks_for(count: usize, most: usize) -> u32 {
    match most {
        0 => LEAST_BLOCKS as u32,
        most => most.min((count / COPIES_OF_A_BLOCK).max(LEAST_BLOCKS)) as u32,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use ferry_core::indirect::DESCRIPTOR_WORDS;

    #[test]
    fn the_kernel_has_the_same_sizes() {
        assert_eq!(size_of::<LaunchArgs>(), 3904, "4,096 is what a kernel's parameters may take");
        let source = include_str!("../kernels/sealed.cu");
        for (name, value) in [
            ("LIST_MAX", LIST_MAX),
            ("INLINE_MAX", INLINE_MAX),
            ("STAMPS", STAMPS),
            ("WORDS", DESCRIPTOR_WORDS),
        ] {
            assert!(source.contains(&format!("#define {name} {value}\n")), "{name}");
        }
    }
}
