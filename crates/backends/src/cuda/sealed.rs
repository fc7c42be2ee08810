//! Copies whose addresses are read when they run: through descriptors, by the GPU, and through pointer cells or where memory is
//! mapped, by the host.
//!
//! Descriptor copies that were submitted one after the other go to the GPU together; sealed.cu says how it does them.

use super::{
    commands::arg,
    queue::Lane,
    reports::{Reports, Tray},
};
use ferry_core::{
    Indirect, Result, Ticket,
    indirect::{DESCRIPTOR_WORDS, MARK, Through},
    sync::lock,
};
use std::sync::atomic::{AtomicU64, Ordering};

/// Descriptors of a launch, runs of them, and stamps that are looked at together: the same in sealed.cu.
const MOST: usize = 4096;
const RUNS: usize = 240;
const STAMPS: usize = 1024;
/// Bytes of `Job` in sealed.cu.
pub const JOB_LEN: usize = JOB_ZEROES + MOST * (3 + 1) * 8;
/// How many of them are zero before the first launch: its counts and stamps.
pub const JOB_ZEROES: usize = 2 * 512 + STAMPS * 8;
/// Blocks that a few copies get: one of them may be large. Each block more takes part in the counting, which costs time.
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

/// Descriptors `stride` bytes apart; `first` is the number of the one that lies at `at`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Run {
    at: u64,
    stride: i32,
    first: u32,
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
    count: u32,
    runs: u32,
    /// Whether this is the second, the fourth, ... launch with this memory.
    odd: u64,
    run: [Run; RUNS],
}

impl Launch {
    /// As many of `ops` as fit into one launch; there is at least one.
    fn of(ops: &[SealedOp], Tray { ring, job }: Tray, live: usize, odd: bool) -> Launch {
        let SealedOp { ticket, key, .. } = ops[0];
        let mut launch = Launch {
            ticket,
            mark: MARK,
            key,
            reports: ring as u64,
            live: live as u64,
            job: job as u64,
            count: 0,
            runs: 0,
            odd: u64::from(odd),
            run: [Run::default(); RUNS],
        };
        let follows = |(number, op): &(u64, &SealedOp)| (op.ticket, op.key) == (ticket + number, key);
        (0..).zip(ops).take(MOST).take_while(follows).all(|(_, op)| launch.add(op.at as u64));
        launch
    }

    /// Adds the descriptor at `at`. False if there is no room.
    fn add(&mut self, at: u64) -> bool {
        let runs = self.runs as usize;
        let is_next = runs > 0 && self.run[runs - 1].goes_on(self.count, at);
        if !is_next && runs == RUNS {
            return false;
        }
        if !is_next {
            self.run[runs] = Run { at, stride: 0, first: self.count };
            self.runs += 1;
        }
        self.count += 1;
        true
    }
}

impl Run {
    /// Whether the descriptor of this number may lie at `at`; the second one says how far they are apart.
    fn goes_on(&mut self, number: u32, at: u64) -> bool {
        let steps = i64::from(number - self.first);
        let apart = at.wrapping_sub(self.at).cast_signed();
        match i32::try_from(apart) {
            Ok(stride) if steps == 1 => self.stride = stride,
            _ => return apart == steps * i64::from(self.stride),
        }
        true
    }
}

impl Lane {
    /// The GPU will read the descriptor at `at` for op `ticket`, if it is [sent](Self::send_sealed). Its seal says that the core
    /// has checked what it names.
    pub(super) fn expect_sealed(&self, ticket: Ticket, at: usize, through: Box<Indirect>) -> SealedOp {
        let key = through.memory.seal_key();
        lock(&self.ledger).expect(ticket, at, through);
        SealedOp { ticket, at, key }
    }

    /// Puts copies into the stream, to be done as if one after the other. The context is current.
    pub(super) fn send_sealed(&self, mut ops: &[SealedOp]) -> Result<()> {
        let kernel = self.device.sealing()?;
        let reports = match self.reports.get() {
            Some(reports) => reports,
            None => self.reports.get_or_init({
                let made = Reports::new(&self.device, self.stream)?;
                || made
            }),
        };
        let live = self.device.live()?;
        while !ops.is_empty() {
            let launch = Launch::of(ops, reports.tray(), live, reports.is_odd());
            let count = launch.count as usize;
            self.start_blocks(kernel, self.blocks_for(count), &mut [arg(&launch)])?;
            reports.count_launch();
            ops = &ops[count..];
        }
        Ok(())
    }

    fn blocks_for(&self, count: usize) -> u32 {
        match self.device.constants.blocks_within {
            0 => LEAST_BLOCKS as u32,
            most => most.min((count / COPIES_OF_A_BLOCK).max(LEAST_BLOCKS)) as u32,
        }
    }

    /// Where the descriptor is, if the GPU is to read it. In a shared stream it is: what is not for the GPU never comes there,
    /// whatever has changed since that was decided.
    pub(super) fn sealed_at(&self, indirect: &Indirect) -> Option<usize> {
        match indirect.through {
            Through::Descriptor { at, .. } if self.is_shared || self.is_for_gpu(indirect) => Some(at),
            _ => None,
        }
    }

    /// The host reads cells; and descriptors too where memory is mapped, which the GPU does not know, and where a bad one stops all
    /// streams: then nothing behind it may run.
    pub(super) fn is_for_gpu(&self, Indirect { through, memory, .. }: &Indirect) -> bool {
        let is_descriptor = matches!(through, Through::Descriptor { .. });
        is_descriptor && !memory.has_mappings() && !self.status.stops_all_on_failure()
    }

    /// The host's part of the op `ticket`: reads the addresses and puts the copy into the stream.
    pub(super) fn copy_late(&self, ticket: Ticket, through: &Indirect) {
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
        // SAFETY: the stream is alive.
        let code = unsafe { (self.device.driver.calls.cuStreamSynchronize)(self.stream) };
        self.device.check("reading the addresses of a copy", code)?;
        let word = |addr| at.iter().position(|at| *at == addr).map(|index| &words[index]);
        self.copy(&through.resolve(|addr| word(addr).expect("read above").load(Ordering::Relaxed))?)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn ops(at: impl IntoIterator<Item = usize>) -> Vec<SealedOp> {
        (5..).zip(at).map(|(ticket, at)| SealedOp { ticket, at, key: 9 }).collect()
    }

    fn launch(ops: &[SealedOp]) -> Launch {
        Launch::of(ops, Tray { ring: 1, job: 2 }, 3, false)
    }

    /// Where the kernel will look for each: as `descriptor` in sealed.cu.
    fn addresses(launch: &Launch) -> Vec<usize> {
        let runs = &launch.run[..launch.runs as usize];
        let find = |number: u32| {
            let run = &runs[runs.partition_point(|run| run.first <= number) - 1];
            run.at.wrapping_add_signed(i64::from(number - run.first) * i64::from(run.stride)) as usize
        };
        (0..launch.count).map(find).collect()
    }

    #[test]
    fn every_descriptor_is_found_whatever_their_distances() {
        for (at, runs) in [
            (vec![0x1000], 1),
            (vec![0x1000, 0x1000, 0x1000], 1),
            ((0..4096).map(|number| 0x1000 + 64 * number).collect(), 1),
            ((0..100).map(|number| 0x9000 - 56 * number).collect(), 1),
            (vec![0, 8, 16, 100, 200, 300, 400, 7], 3),
            (vec![0, 1 << 40, 2 << 40], 3),
            (vec![0, usize::MAX >> 1], 2),
        ] {
            let launch = launch(&ops(at.iter().copied()));
            assert_eq!((addresses(&launch), launch.runs), (at, runs));
        }
    }

    #[test]
    fn a_launch_ends_where_it_is_full_or_the_next_op_is_no_neighbour() {
        let even = ops((0..MOST + 1).map(|number| 64 * number));
        assert_eq!(launch(&even).count as usize, MOST);
        let odd = ops((0..10_000).map(|number| number * number * number));
        let first = launch(&odd);
        assert_eq!(first.runs as usize, RUNS);
        assert_eq!(
            addresses(&first)[..],
            odd[..first.count as usize].iter().map(|op| op.at).collect::<Vec<_>>()
        );
        let mut apart = ops([0, 64, 128]);
        apart[2].ticket += 1;
        assert_eq!(launch(&apart).count, 2);
        apart[1].key += 1;
        assert_eq!(launch(&apart).count, 1);
    }

    #[test]
    fn the_kernel_has_the_same_sizes() {
        assert_eq!(size_of::<Launch>(), 3904, "4,096 is what a kernel's parameters may take");
        let source = include_str!("sealed.cu");
        for (name, value) in [("MOST", MOST), ("RUNS", RUNS), ("STAMPS", STAMPS), ("WORDS", DESCRIPTOR_WORDS)]
        {
            assert!(source.contains(&format!("#define {name} {value}\n")), "{name}");
        }
    }
}
