//! Memory that is allocated and given back: on the device, page-locked, and the program's own that is
//! registered. Ferry beside the CUDA driver; on the host backend there is nobody else to ask.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ferry_abi::error::ensure;
use ferry_abi::memory::{Block, Home};
use ferry_abi::session::Session;
use ferry_abi::{Library, Result, call, kind};

use crate::copiers::cuda::CudaDriver;
use crate::peers::Peers;
use crate::pieces::PieceSpec;
use crate::report::Row;
use crate::room::must_have;
use crate::sampling::{Contender, Figures, Sampling};
use crate::shape;

/// Of how many samples that are asked for one is taken of page-locking, which takes seconds.
const SAMPLES_PER_LOCK: usize = 3;
const PAGE: usize = 4096;

/// Allocations of device memory, then all are freed.
pub fn contenders(session: &Session, peers: &Peers, pieces: PieceSpec) -> Result<Vec<Box<dyn Contender>>> {
    let all = allocators(session, peers, MemorySort::Device, &pieces.lengths())?;
    Ok(all.into_iter().map(|one| Box::new(one) as Box<dyn Contender>).collect())
}

/// Page-locking `len` bytes and giving them back: a row for each of the two.
pub fn locked(
    session: &Session,
    peers: &Peers,
    (len, is_registered): (usize, bool),
    plan: Sampling,
    row: &Row,
    progress: &mut dyn FnMut(usize),
) -> Result<Vec<Row>> {
    must_have(if is_registered { 3 * len } else { 2 * len })?;
    let (sort, names) = match is_registered {
        true => (MemorySort::Registered, ["register", "unregister"]),
        false => (MemorySort::Locked, ["allocate", "free"]),
    };
    let mut all = allocators(session, peers, sort, &[len])?;
    let (mut times, mut verified) = (vec![[Vec::new(), Vec::new()]; all.len()], 0);
    let samples = plan.samples.div_ceil(SAMPLES_PER_LOCK);
    for sample in 0..samples {
        for (allocator, times) in all.iter_mut().zip(&mut times) {
            let (taken, compared) = allocator.take_and_give_back(plan.verify)?;
            times.iter_mut().zip(taken).for_each(|(times, time)| times.push(time));
            verified += compared;
        }
        progress((sample + 1) * plan.samples / samples);
    }
    let verified = verified / all.len();
    let rows = names.into_iter().enumerate().map(|(step, part)| {
        let figures =
            all.iter().zip(&times).map(|(one, times)| Figures::of(one.name, times[step].clone(), verified));
        Row { bytes: len, ..row.part(part, figures.collect()) }
    });
    Ok(rows.collect())
}

fn allocators(
    session: &Session,
    peers: &Peers,
    sort: MemorySort,
    lengths: &[usize],
) -> Result<Vec<AllocatingContender>> {
    let allocator = |name, by| {
        let plain = (sort == MemorySort::Registered).then(|| plain_memory(session.library, lengths[0]));
        Ok(AllocatingContender { name, by, sort, plain: plain.transpose()?, lengths: lengths.to_vec() })
    };
    let mut all = vec![allocator("ferry", AllocatedBy::Ferry(session.library))?];
    if let Some(cuda) = peers.cuda() {
        all.push(allocator("CUDA", AllocatedBy::Cuda(session.library, cuda.clone()))?);
    }
    Ok(all)
}

/// Memory of the program that is there in whole: it has been written to.
fn plain_memory(library: &'static Library, len: usize) -> Result<Block> {
    let block = Block::new(library, Home::Pageable, len + PAGE)?;
    shape::spoil(&block)?;
    Ok(block)
}

/// What is allocated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MemorySort {
    Device,
    Locked,
    /// Page-locked where it is.
    Registered,
}

/// Who allocates. The driver's memory is compared by copies of Ferry's, which take memory of any library.
enum AllocatedBy {
    Ferry(&'static Library),
    Cuda(&'static Library, Arc<CudaDriver>),
}

/// Allocates memory of these lengths, and gives all of it back.
struct AllocatingContender {
    name: &'static str,
    by: AllocatedBy,
    sort: MemorySort,
    /// What is registered.
    plain: Option<Block>,
    lengths: Vec<usize>,
}

impl AllocatingContender {
    /// Memory of this length: its address.
    fn take(&self, len: usize) -> Result<usize> {
        const HUGE_FIRST: i32 = 0;
        const PINNED: u32 = 0x1000_0000;
        let mut at = std::ptr::null_mut();
        let plain =
            || self.plain.as_ref().map_or(0, |block| (block.all().at() as usize).next_multiple_of(PAGE));
        match (&self.by, self.sort) {
            (AllocatedBy::Ferry(library), MemorySort::Device) => {
                // SAFETY: `at` is writable.
                unsafe { call!(library, aclrtMalloc(&mut at, len, HUGE_FIRST)) }?;
            }
            (AllocatedBy::Ferry(library), MemorySort::Locked) => {
                // SAFETY: `at` is writable.
                unsafe { call!(library, aclrtMallocHost(&mut at, len)) }?;
            }
            (AllocatedBy::Ferry(library), MemorySort::Registered) => {
                at = plain() as _;
                // SAFETY: the block lives, and has a page more than is registered.
                unsafe { call!(library, aclrtHostRegisterV2(at, len as u64, PINNED)) }?;
            }
            (AllocatedBy::Cuda(_, cuda), MemorySort::Device) => return cuda.allocate(len),
            (AllocatedBy::Cuda(_, cuda), MemorySort::Locked) => return cuda.allocate_locked(len),
            (AllocatedBy::Cuda(_, cuda), MemorySort::Registered) => {
                at = plain() as _;
                // SAFETY: as above.
                unsafe { cuda.register(at as usize, len) }?;
            }
        }
        Ok(at as usize)
    }

    /// Gives back what `take` has answered.
    fn give_back(&self, at: usize) -> Result<()> {
        // SAFETY: `take` has made it by the function that belongs to this one, nothing uses it, and it is
        // given back once.
        unsafe {
            match (&self.by, self.sort) {
                (AllocatedBy::Ferry(library), MemorySort::Device) => call!(library, aclrtFree(at as _)),
                (AllocatedBy::Ferry(library), MemorySort::Locked) => call!(library, aclrtFreeHost(at as _)),
                (AllocatedBy::Ferry(library), MemorySort::Registered) => {
                    call!(library, aclrtHostUnregister(at as _))
                }
                (AllocatedBy::Cuda(_, cuda), MemorySort::Device) => cuda.free(at),
                (AllocatedBy::Cuda(_, cuda), MemorySort::Locked) => cuda.free_locked(at),
                (AllocatedBy::Cuda(_, cuda), MemorySort::Registered) => cuda.unregister(at),
            }
        }
    }

    /// How long taking and giving back took, and how many bytes were compared in between.
    fn take_and_give_back(&self, verify: bool) -> Result<([Duration; 2], usize)> {
        let begin = Instant::now();
        let all: Vec<usize> = self.lengths.iter().map(|len| self.take(*len)).collect::<Result<_>>()?;
        let taken = begin.elapsed();
        let compared = if verify { self.try_out(&all)? } else { 0 };
        let begin = Instant::now();
        all.into_iter().try_for_each(|at| self.give_back(at))?;
        Ok(([taken, begin.elapsed()], compared))
    }

    /// Writes a number to both ends of each block, and fails unless all are there afterwards. How many bytes
    /// were compared.
    fn try_out(&self, blocks: &[usize]) -> Result<usize> {
        let ends = |(at, len): (&usize, &usize)| match len.checked_sub(2 * size_of::<u64>()) {
            Some(more) => vec![*at, *at + size_of::<u64>() + more],
            None => Vec::new(),
        };
        let places: Vec<usize> = blocks.iter().zip(&self.lengths).flat_map(ends).collect();
        for (number, at) in places.iter().enumerate() {
            self.write(*at, number as u64)?;
        }
        for (number, at) in places.iter().enumerate() {
            let seen = self.read(*at)?;
            ensure(seen == number as u64, "a number at an end of a block", number, seen)?;
        }
        Ok(places.len() * size_of::<u64>())
    }

    fn library(&self) -> &'static Library {
        let (AllocatedBy::Ferry(library) | AllocatedBy::Cuda(library, _)) = &self.by;
        library
    }

    fn write(&self, at: usize, number: u64) -> Result<()> {
        const LEN: usize = size_of::<u64>();
        let (library, src) = (self.library(), (&raw const number).cast());
        // SAFETY: the place lies in a block that was taken and not given back, and `number` lives; the call
        // returns when the copy is done. Places in host memory are aligned as the caller has them.
        unsafe {
            match self.sort {
                MemorySort::Device => {
                    call!(library, aclrtMemcpy(at as _, LEN, src, LEN, kind::HOST_TO_DEVICE))
                }
                MemorySort::Locked | MemorySort::Registered => {
                    (at as *mut u64).write_unaligned(number);
                    Ok(())
                }
            }
        }
    }

    fn read(&self, at: usize) -> Result<u64> {
        const LEN: usize = size_of::<u64>();
        let (library, mut number) = (self.library(), 0u64);
        let dst = (&raw mut number).cast();
        // SAFETY: as for `write`.
        unsafe {
            match self.sort {
                MemorySort::Device => {
                    call!(library, aclrtMemcpy(dst, LEN, at as _, LEN, kind::DEVICE_TO_HOST))?;
                }
                MemorySort::Locked | MemorySort::Registered => number = (at as *const u64).read_unaligned(),
            }
        }
        Ok(number)
    }
}

impl Contender for AllocatingContender {
    fn name(&self) -> &'static str {
        self.name
    }

    fn sample(&mut self) -> Result<Duration> {
        let ([taken, given_back], _) = self.take_and_give_back(false)?;
        Ok(taken + given_back)
    }

    fn spoil(&mut self) -> Result<()> {
        Ok(())
    }

    fn check(&mut self) -> Result<usize> {
        self.take_and_give_back(true).map(|(_, compared)| compared)
    }
}
