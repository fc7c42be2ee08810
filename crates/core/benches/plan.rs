//! What it costs to look an address up and to plan a copy, by the number of allocations there are and of
//! blocks that a batch uses. By hand: `cargo bench -p ferry-core --bench plan`.

use divan::{Bencher, black_box, counter::ItemsCount};
use ferry_core::{
    Access, Backend, Block, DeviceId, DeviceMemory, Home, Kind, Memory, Origin, Plan, Queue, QueueOptions,
    Request, Result, Rows, Runtime, Status,
};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Pieces of a batch.
const PIECES: usize = 4096;
const BYTES: usize = 64;

fn main() {
    divan::main();
}

/// A device made of addresses.
struct Paper(AtomicUsize);

impl Backend for Paper {
    fn name(&self) -> &'static str {
        "paper"
    }
    fn device_count(&self) -> usize {
        1
    }
    fn memory(&self, _: DeviceId) -> Result<DeviceMemory> {
        Ok(DeviceMemory::default())
    }
    fn alloc(&self, request: &Request) -> Result<Block> {
        let Request { home, len, page } = *request;
        let base = self.0.fetch_add(len.next_multiple_of(page), Ordering::Relaxed);
        Ok(Block { base, len, home, at: base + (1 << 40), page, origin: Origin::Allocated })
    }
    unsafe fn free(&self, _: &Block) -> Result<()> {
        Ok(())
    }
    fn locate(&self, _: usize, _: usize, _: Access) -> Result<Option<Block>> {
        Ok(None)
    }
    fn queue(&self, _: DeviceId, _: QueueOptions, _: Arc<Status>) -> Result<Box<dyn Queue>> {
        Err(Kind::Unsupported.because("paper has no queues"))
    }
}

/// As many allocations of each home, by address, in an order that no prefetcher guesses.
fn paper(blocks: usize, len: usize) -> (Runtime, Vec<usize>, Vec<usize>) {
    let runtime = Runtime::new(Arc::new(Paper(AtomicUsize::new(1 << 30))), Vec::new());
    let [devices, hosts] = [Home::Device(0), Home::Host].map(|home| {
        let request = Request { home, len, page: 4096 };
        let all: Vec<_> =
            (0..blocks).map(|_| runtime.alloc(&request).expect("paper is patient").base).collect();
        (0..blocks).map(|index| all[index * 7919 % blocks]).collect::<Vec<_>>()
    });
    (runtime, devices, hosts)
}

fn plan(pieces: impl IntoIterator<Item = Rows>, memory: &Memory) -> Plan {
    Plan::new(pieces, memory, |_, _| Ok(())).expect("good pieces")
}

/// One address after the other, in as many blocks.
#[divan::bench(args = [1, 100, 10_000, 100_000], sample_size = 10_000)]
fn look_up(bencher: Bencher<'_, '_>, blocks: usize) {
    let (runtime, devices, _) = paper(blocks, BYTES);
    let (table, mut turn) = (runtime.memory().table(), devices.iter().cycle());
    bencher.bench_local(|| table.find(black_box(*turn.next().expect("a cycle"))));
}

/// A copy of one row, between as many blocks on each side.
#[divan::bench(args = [1, 100, 10_000, 100_000], sample_size = 10_000)]
fn plan_one_row(bencher: Bencher<'_, '_>, blocks: usize) {
    let (runtime, devices, hosts) = paper(blocks, BYTES);
    let mut turn = devices.iter().zip(&hosts).cycle();
    bencher.bench_local(|| {
        let (dst, src) = turn.next().expect("a cycle");
        Plan::new([Rows::linear(*dst, *src, BYTES)], runtime.memory(), |_, _| Ok(())).expect("a good copy")
    });
}

/// A rectangle.
#[divan::bench]
fn plan_rows(bencher: Bencher<'_, '_>) {
    let (runtime, devices, hosts) = paper(1, 1 << 20);
    let rows =
        Rows { dst: devices[0], dst_pitch: 128, src: hosts[0], src_pitch: 256, width: 64, height: 100 };
    bencher.bench_local(|| plan([black_box(rows)], runtime.memory()));
}

/// A batch whose pieces take turns among as many blocks on each side, and none of which goes on where the
/// last one ended.
#[divan::bench(args = [1, 8, 512])]
fn plan_batch(bencher: Bencher<'_, '_>, blocks: usize) {
    let (runtime, devices, hosts) = paper(blocks, PIECES * BYTES);
    let piece = |i: usize| {
        Rows::linear(devices[i % blocks] + i * BYTES, hosts[i % blocks] + i * 2531 % PIECES * BYTES, BYTES)
    };
    let pieces: Vec<_> = (0..PIECES).map(piece).collect();
    let bencher = bencher.counter(ItemsCount::new(PIECES));
    bencher.bench_local(|| plan(pieces.iter().copied(), runtime.memory()));
}

/// A batch whose pieces lie next to each other on both sides.
#[divan::bench]
fn plan_batch_in_a_row(bencher: Bencher<'_, '_>) {
    let (runtime, devices, hosts) = paper(1, PIECES * BYTES);
    let piece = |i: usize| Rows::linear(devices[0] + i * BYTES, hosts[0] + i * BYTES, BYTES);
    let pieces: Vec<_> = (0..PIECES).map(piece).collect();
    let bencher = bencher.counter(ItemsCount::new(PIECES));
    bencher.bench_local(|| plan(pieces.iter().copied(), runtime.memory()));
}
