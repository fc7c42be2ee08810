//! Copies whose addresses are read when they run: through descriptors, by the GPU, and through pointer cells or where memory is
//! mapped, by the host.
//!
//! Descriptor copies that were submitted one after the other go to the GPU together; sealed.cu says how it does them.

use crate::cuda::{
    descriptors::late::{List, MOST, following},
    descriptors::reports::{Reports, Tray},
    order::queue::Lane,
    stream::commands::arg,
};
use ferry_core::{
    Indirect, Result, Ticket,
    indirect::{DESCRIPTOR_WORDS, MARK, Through},
    sync::lock,
};
use std::{
    ptr,
    sync::atomic::{AtomicU64, Ordering},
};

/// Addresses that travel in the parameters of a launch, stamps that are looked at together, facts of a turn and turns of reading:
/// the same in sealed.cu.
const FEW: usize = 480;
const STAMPS: usize = 1024;
const FACTS: usize = 9;
const READS: usize = MOST / 32;
/// Bytes of `Job` in sealed.cu.
pub const JOB_LEN: usize = JOB_ZEROES + FACTS * READS * 8 + MOST * (4 + 1) * 8;
/// How many of them are zero before the first launch: its counts and stamps.
pub const JOB_ZEROES: usize = 2 * 512 + STAMPS * 8;
/// Blocks that a few copies get: one of them may be large. More gain nothing, and are taken from what else runs on the GPU.
const LEAST_BLOCKS: usize = 32;
/// Copies that are worth a block more. Measured on an H200 with pieces of 64 bytes to 128 KiB.
const COPIES_OF_A_BLOCK: usize = 16;

/// A copy through a descriptor that the GPU will read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealedOp {
    pub ticket: Ticket,
    /// Where the descriptor is.
    pub at: usize,
    /// What it must be sealed with.
    pub key: u64,
}

/// The argument of the kernel: the same in sealed.cu.
#[repr(C)]
struct Launch {
    ticket: u64,
    mark: u64,
    key: u64,
    reports: u64,
    live: u64,
    job: u64,
    /// 0 if the addresses are here.
    list: u64,
    count: u32,
    /// Whether this is the second, the fourth, ... launch with this memory.
    odd: u32,
    at: [u64; FEW],
}

impl Launch {
    /// One that begins with `first`, without any addresses.
    fn of(first: &SealedOp, reports: &Reports, live: usize) -> Launch {
        let Tray { ring, job } = reports.tray();
        Launch {
            ticket: first.ticket,
            mark: MARK,
            key: first.key,
            reports: ring as u64,
            live: live as u64,
            job: job as u64,
            list: 0,
            count: 0,
            odd: u32::from(reports.is_odd()),
            at: [0; FEW],
        }
    }

    /// Takes up what is in the list, or as many of `ops` as there is room for. Says how many these are.
    fn hold(&mut self, ops: &[SealedOp], list: Option<(&List, usize)>) -> usize {
        if let Some((list, count)) = list {
            self.list = ptr::from_ref(list) as u64;
            return count;
        }
        let count = following(ops, self.ticket, self.key).min(FEW);
        self.at.iter_mut().zip(&ops[..count]).for_each(|(at, op)| *at = op.at as u64);
        self.count = count as u32;
        count
    }
}

impl Lane {
    /// The GPU will read the descriptor at `at` for op `ticket`, if it is [sent](Self::send_sealed). Its seal says that the core
    /// has checked what it names.
    pub fn expect_sealed(&self, ticket: Ticket, at: usize, through: Box<Indirect>) -> SealedOp {
        let key = through.resolver.seal_key();
        lock(&self.ledger).expect(ticket, at, through);
        SealedOp { ticket, at, key }
    }

    /// Puts copies into the stream, to be done as if one after the other. The context is current.
    pub fn send_sealed(&self, mut ops: &[SealedOp]) -> Result<()> {
        let reports = match self.reports.get() {
            Some(reports) => reports,
            None => self.reports.get_or_init({
                let made = Reports::new(&self.device, self.stream)?;
                || made
            }),
        };
        ops = &ops[reports.lists.add(ops, || self.is_empty().map(drop))?..];
        while !ops.is_empty() {
            ops = &ops[self.launch_sealed(reports, ops)?..];
        }
        Ok(())
    }

    /// Launches some of `ops`, and says how many. What comes behind other work goes into a list that may grow; what the GPU can begin
    /// with goes with the launch, which is faster by the way to the list and back.
    fn launch_sealed(&self, reports: &Reports, ops: &[SealedOp]) -> Result<usize> {
        let (kernel, live, lists) = (self.device.sealing()?, self.device.live()?, &reports.lists);
        let mut launch = Launch::of(&ops[0], reports, live);
        let is_behind = !self.is_shared && self.status.passed() + 1 < ops[0].ticket;
        let may_grow = is_behind && lists.may_grow(ops);
        let list = if may_grow || ops.len() > FEW { lists.fill(ops) } else { None };
        let count = launch.hold(ops, list);
        let open = list.map(|(list, _)| list).filter(|_| may_grow);
        let blocks = self.blocks_for(if open.is_some() { MOST } else { count });
        match (self.start_blocks(kernel, blocks, &mut [arg(&launch)]), list) {
            (Ok(()), _) => {
                reports.count_launch();
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

    fn blocks_for(&self, count: usize) -> u32 {
        match self.device.constants.blocks_within {
            0 => LEAST_BLOCKS as u32,
            most => most.min((count / COPIES_OF_A_BLOCK).max(LEAST_BLOCKS)) as u32,
        }
    }

    /// Where the descriptor is, if the GPU is to read it. In a shared stream it is: what is not for the GPU never comes there,
    /// whatever has changed since that was decided.
    pub fn sealed_at(&self, indirect: &Indirect) -> Option<usize> {
        match indirect.through {
            Through::Descriptor { at, .. } if self.is_shared || self.is_for_gpu(indirect) => Some(at),
            _ => None,
        }
    }

    /// The host reads cells; and descriptors too where memory is mapped, which the GPU does not know, and where a bad one stops all
    /// streams: then nothing behind it may run.
    pub fn is_for_gpu(&self, Indirect { through, resolver, .. }: &Indirect) -> bool {
        let is_descriptor = matches!(through, Through::Descriptor { .. });
        is_descriptor && !resolver.has_mappings() && !self.status.stops_all_on_failure()
    }

    /// The host's part of the op `ticket`: reads the addresses and puts the copy into the stream.
    pub fn copy_late(&self, ticket: Ticket, through: &Indirect) {
        if let Err(why) = self.copy_read(through) {
            self.fail(ticket, why);
            if self.status.stops_all_on_failure() {
                // Nothing of it is in the stream: told before what is behind it begins.
                self.settle(ticket);
            }
        }
    }

    /// Nothing vouches for a pointer in a cell, and a wrong one would break the GPU's context; and mapped memory is not where
    /// its addresses say. So the host reads the addresses when the stream gets here, and the core checks and translates them.
    /// The lane is held, so the stream is ours.
    fn copy_read(&self, through: &Indirect) -> Result<()> {
        let _here = self.device.enter()?;
        let at: Vec<usize> = match through.through {
            Through::Descriptor { at, .. } => (0..DESCRIPTOR_WORDS).map(|index| at + 8 * index).collect(),
            Through::Cells { dst, src, .. } => vec![dst.at, src.at],
        };
        let words: Vec<AtomicU64> = at.iter().map(|_| AtomicU64::new(0)).collect();
        for (word, at) in words.iter().zip(&at) {
            self.copy_row(word.as_ptr() as usize, *at, 8)?;
        }
        self.current().synchronize(self.stream, "reading the addresses of a copy")?;
        let word = |addr| at.iter().position(|at| *at == addr).map(|index| &words[index]);
        self.copy(&mut through.resolve(|addr| word(addr).expect("read above").load(Ordering::Relaxed))?)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_has_the_same_sizes() {
        assert_eq!(size_of::<Launch>(), 3904, "4,096 is what a kernel's parameters may take");
        let source = include_str!("../kernels/sealed.cu");
        for (name, value) in [("MOST", MOST), ("FEW", FEW), ("STAMPS", STAMPS), ("WORDS", DESCRIPTOR_WORDS)] {
            assert!(source.contains(&format!("#define {name} {value}\n")), "{name}");
        }
    }
}
