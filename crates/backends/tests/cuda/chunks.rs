//! Blocks of device memory are pieces of larger allocations of the driver's: the driver is asked seldom,
//! little is taken that nobody asked for, and nobody sees the neighbours of a block. The stand-in driver has
//! as little memory as it is told to, and fails when it is told to.

use super::{lost::in_child, *};
use ferry_core::{OpenFile, Origin, Shared};
use std::{
    fs::{File, OpenOptions},
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    process,
    sync::Barrier,
};

/// What aclrtMalloc of 4 MiB is by its usual policy: in pages of 2 MiB, and with 32 more bytes.
pub const USUAL: Request = Request { home: Home::Device(0), len: 4 * MIB + 32, page: 2 * MIB };
/// What that takes.
const TAKEN: usize = 6 * MIB;
const THREADS: usize = 16;

pub fn free(gpu: &Runtime, block: &Block) {
    gpu.free(block.base, |_| Ok(())).expect("freed");
}

pub fn alloc_all(gpu: &Runtime, request: &Request, count: usize) -> Vec<Block> {
    (0..count).map(|_| gpu.alloc(request).expect("memory")).collect()
}

/// Whether any byte of a range can be copied from.
fn is_known(gpu: &Runtime, addr: usize, len: usize) -> bool {
    gpu.memory().place(addr, len, Access::Read).is_ok()
}

#[test]
fn a_hundred_blocks_are_few_allocations() {
    for call in ["cuMemAlloc:16", "cuMemFree:16"] {
        in_child("chunks::a_hundred_blocks", &[("STANDIN_FAIL", &format!("{call}:1"))]);
    }
}

#[test]
#[ignore = "run by a_hundred_blocks_are_few_allocations"]
fn a_hundred_blocks() {
    let Some(gpu) = gpu_of("a_hundred_blocks", 4096 * MIB) else { return };
    let before = gpu.memory_info(0).expect("asked");
    let blocks = alloc_all(&gpu, &USUAL, 100);
    assert!(blocks.iter().all(|block| block.base % USUAL.page == 0 && block.len == USUAL.len));
    assert_eq!(gpu.memory_info(0).expect("asked"), (before.0 - 100 * TAKEN, before.1), "only what is used");
    let mut by_place = blocks.clone();
    by_place.sort_by_key(|block| block.base);
    assert!(by_place.windows(2).all(|pair| pair[0].base + TAKEN <= pair[1].base), "none meets another");
    blocks.iter().for_each(|block| free(&gpu, block));
    assert_eq!(gpu.memory_info(0).expect("asked"), before);
}

/// Another runtime sees what the driver has left.
#[test]
fn no_more_is_taken_than_a_part_of_what_is_used() {
    let Some(gpu) = gpu("no_more_is_taken_than_a_part_of_what_is_used") else { return };
    if std::env::var_os("LD_PRELOAD").is_none() {
        return eprintln!("skipped: other processes may use this GPU");
    }
    in_child("chunks::little_is_taken", &[("STANDIN_MAKING", "200")]);
    drop(gpu);
}

#[test]
#[ignore = "run by no_more_is_taken_than_a_part_of_what_is_used"]
fn little_is_taken() {
    let (Some(gpu), Some(other)) = (gpu("little_is_taken"), gpu("little_is_taken")) else { return };
    let left = || other.memory_info(0).expect("asked").0;
    let (before, mut blocks) = (left(), Vec::new());
    for (len, page) in [(1, 4096), (4 * MIB, 2 * MIB), (MIB, 4096), (20 * MIB, 2 * MIB), (40 * MIB, 2 * MIB)]
    {
        blocks.push(gpu.alloc(&Request { home: Home::Device(0), len, page }).expect("memory"));
    }
    let used: usize = blocks.iter().map(|block| block.len).sum();
    let idle = before - left() - used;
    assert!(idle < 64 * MIB, "{idle} bytes beside {used}");
    for count in 1..=600 {
        blocks.extend(alloc_all(&gpu, &USUAL, 1));
        let used = used + count * TAKEN;
        let idle = before - left() - used;
        assert!(idle <= 64 * MIB + used / 4, "{idle} bytes beside {used}");
    }
    blocks.iter().for_each(|block| free(&gpu, block));
    drop(gpu);
    assert_eq!(left(), before, "all of it came back");
    // However many threads begin at once.
    let (gpu, start) = (super::gpu("little_is_taken").expect("there was one"), Barrier::new(THREADS));
    let one = || {
        start.wait();
        gpu.alloc(&USUAL).expect("memory")
    };
    let mut blocks: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(one)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let idle = before - left() - THREADS * TAKEN;
    assert!(idle <= 64 * MIB, "{idle} bytes beside those of {THREADS} threads");
    // What is kept where nothing is used.
    blocks.extend(alloc_all(&gpu, &USUAL, 500));
    blocks.iter().for_each(|block| free(&gpu, block));
    let kept = before - left();
    assert!(kept <= 450 * MIB, "{kept} bytes though all was freed");
}

#[test]
fn neighbours_of_a_block_are_nobodys() {
    let Some(gpu) = gpu("neighbours_of_a_block_are_nobodys") else { return };
    let blocks = alloc_all(&gpu, &USUAL, 10);
    for block in &blocks {
        assert!(is_known(&gpu, block.base, block.len));
        for (addr, len) in [
            (block.base, block.len + 1),
            (block.base + block.len - 1, 2),
            (block.base + block.len, 1),
            (block.base + TAKEN - 1, 1),
            (block.base, TAKEN + 1),
        ] {
            let why = gpu.memory().place(addr, len, Access::Write).expect_err("not of the block");
            // In its last page an address is still said to be the block's.
            let is_near = addr < block.base + block.len + 4096 - 32;
            let want = if is_near { Kind::OutOfBounds } else { Kind::BadAddress };
            assert_eq!(why.kind, want, "{len} bytes at {addr:#x} of {block}: {why}");
        }
    }
    // What was freed is nobody's.
    free(&gpu, &blocks[3]);
    for addr in [blocks[3].base, blocks[3].base + TAKEN - 1] {
        assert!(!is_known(&gpu, addr, 1), "{addr:#x}");
    }
    blocks.iter().filter(|block| block.base != blocks[3].base).for_each(|block| free(&gpu, block));
}

#[test]
fn what_is_idle_beside_a_block_is_nobodys() {
    let Some(gpu) = gpu("what_is_idle_beside_a_block_is_nobodys") else { return };
    let block = gpu.alloc(&USUAL).expect("memory");
    // To the driver, all of it is one allocation.
    for addr in (block.base + TAKEN..).step_by(MIB).take(20) {
        let why = gpu.memory().place(addr, 1, Access::Read).expect_err("nothing is allocated there");
        assert!(why.note.contains("where nothing is allocated"), "{why}");
    }
    free(&gpu, &block);
}

#[test]
fn bytes_of_neighbours_stay_apart() {
    let Some(gpu) = gpu("bytes_of_neighbours_stay_apart") else { return };
    let (blocks, stream) = (alloc_all(&gpu, &USUAL, 12), stream(&gpu));
    for (number, block) in blocks.iter().enumerate() {
        let pattern = [number as u8 + 1; 4];
        submit(&stream, || Op::Fill(Fill { dst: block.at, len: block.len, pattern, device: Some(0) }));
    }
    stream.synchronize(MINUTE).expect("done");
    for (number, block) in blocks.iter().enumerate() {
        let ends = [fetch(&gpu, block.base, 64), fetch(&gpu, block.base + block.len - 64, 64)];
        assert!(ends.concat().iter().all(|byte| *byte == number as u8 + 1), "{block}");
    }
    blocks.iter().for_each(|block| free(&gpu, block));
}

#[test]
fn where_memory_is_short_pieces_make_room() {
    in_child("chunks::a_gpu_of_pieces", &[("STANDIN_MEMORY", "1073741824")]);
}

#[test]
#[ignore = "run by where_memory_is_short_pieces_make_room"]
fn a_gpu_of_pieces() {
    let Some(gpu) = gpu("a_gpu_of_pieces") else { return };
    let total = gpu.memory_info(0).expect("asked").1;
    if total != 1024 * MIB {
        return eprintln!("a_gpu_of_pieces: skipped: this driver does not fail when it is told to");
    }
    let request = Request { len: 2 * MIB, page: 4096, ..USUAL };
    let mut blocks = Vec::new();
    while let Ok(block) = gpu.alloc(&request) {
        blocks.push(block);
    }
    assert_eq!(blocks.len(), 512, "all of it is used");
    blocks.sort_by_key(|block| block.base);
    // Their neighbours are in use, so that nothing can go back to the driver. The one further up is freed
    // first.
    let apart = [blocks.remove(300), blocks.remove(100)];
    apart.iter().for_each(|block| free(&gpu, block));
    // A request that cannot be met ends the rest of nothing.
    let why = gpu.alloc(&Request { len: 3 * MIB, ..request }).expect_err("no room for that");
    assert_eq!(why.kind, Kind::OutOfMemory, "{why}");
    let again = alloc_all(&gpu, &request, 2);
    assert_eq!([again[0].base, again[1].base], [apart[0].base, apart[1].base], "the oldest first");
    blocks.extend(again);
    gpu.alloc(&request).expect_err("no room");
    blocks.iter().for_each(|block| free(&gpu, block));
    let whole = gpu.alloc(&Request { len: total, ..request }).expect("all of it");
    assert_eq!(gpu.memory_info(0).expect("asked"), (0, total));
    free(&gpu, &whole);
}

/// What one device has idle in its chunks is taken from its own part, but for crumbs.
#[test]
fn devices_that_share_a_gpu_have_their_parts() {
    in_child("chunks::two_parts", &[("STANDIN_MEMORY", "1073741824")]);
}

#[test]
#[ignore = "run by devices_that_share_a_gpu_have_their_parts"]
fn two_parts() {
    let Some(first) = gpu("two_parts") else { return };
    if first.memory_info(0).expect("asked").1 != 1024 * MIB {
        return eprintln!("two_parts: skipped: this driver does not fail when it is told to");
    }
    drop(first);
    let options = CudaOptions { devices: Some(2), ..CudaOptions::default() };
    let gpu = Runtime::new(Cuda::open(&options).expect("there is a GPU"), Vec::new());
    let mut blocks = Vec::new();
    // Lengths that leave something idle here and there.
    let request = |number| Request { home: Home::Device(0), len: (1 + number % 3) * 2 * MIB, page: 4096 };
    while let Ok(block) = gpu.alloc(&request(blocks.len())) {
        blocks.push(block);
    }
    let (left, part) = gpu.memory_info(0).expect("asked");
    assert!(left < 6 * MIB && part == 512 * MIB, "{left} of {part}");
    let most = part - 16 * MIB;
    gpu.alloc(&Request { home: Home::Device(1), len: most, page: 4096 }).expect("the other half");
    blocks.iter().for_each(|block| free(&gpu, block));
}

/// A file of another process, by its place there.
#[derive(Debug)]
struct Theirs(File);

impl OpenFile for Theirs {
    fn get(&self) -> io::Result<BorrowedFd<'_>> {
        Ok(self.0.as_fd())
    }
}

/// Blocks of one chunk, lent to another process: it sees each, and nothing between them.
#[test]
fn pieces_are_lent_one_by_one() {
    let Some(gpu) = gpu("pieces_are_lent_one_by_one") else { return };
    let blocks = alloc_all(&gpu, &USUAL, 3);
    let there = stream(&gpu);
    for (number, block) in blocks.iter().enumerate() {
        let pattern = [number as u8 + 1; 4];
        submit(&there, || Op::Fill(Fill { dst: block.at, len: block.len, pattern, device: Some(0) }));
    }
    there.synchronize(MINUTE).expect("done");
    let lent: Vec<_> = [0, 2].map(|number| gpu.export(blocks[number].base, USUAL.len).expect("lent")).into();
    let place = |(_, shared): &(_, Shared)| {
        let file = shared.file.get().expect("open").as_raw_fd();
        format!("/proc/{}/fd/{file}:{}", process::id(), shared.offset)
    };
    let places: Vec<_> = lent.iter().map(place).collect();
    in_child("chunks::borrows_two", &[("LENT", &places.join(" "))]);
    // Written by the child.
    assert!(fetch(&gpu, blocks[0].base, USUAL.len).iter().all(|byte| *byte == 9));
    assert!(fetch(&gpu, blocks[1].base, USUAL.len).iter().all(|byte| *byte == 2), "not lent");
    // What was lent is not used again as long as its neighbours are.
    drop(lent);
    free(&gpu, &blocks[0]);
    for _ in 0..100 {
        let other = gpu.alloc(&USUAL).expect("memory");
        assert_ne!(other.base, blocks[0].base);
        free(&gpu, &other);
    }
    blocks[1..].iter().for_each(|block| free(&gpu, block));
}

#[test]
#[ignore = "run by pieces_are_lent_one_by_one"]
fn borrows_two() {
    let (Some(gpu), Ok(lent)) = (gpu("borrows_two"), std::env::var("LENT")) else { return };
    let open = |place: &str| {
        let (path, offset) = place.split_once(':').expect("a place");
        let file = OpenOptions::new().read(true).write(true).open(path).expect("the other process's");
        let shared = Shared {
            file: Arc::new(Theirs(file)),
            offset: offset.parse().expect("a number"),
            len: USUAL.len,
        };
        gpu.import(&shared, 0, Origin::Imported, Box::new(())).expect("imported")
    };
    let blocks: Vec<_> = lent.split(' ').map(open).collect();
    for (block, byte) in blocks.iter().zip([1, 3]) {
        assert_eq!(block.base, block.at, "the GPU's own address");
        assert!(fetch(&gpu, block.base, block.len).iter().all(|found| *found == byte), "{block}");
        for addr in [block.base + block.len, block.base + TAKEN, block.base + TAKEN + 4096] {
            assert!(!is_known(&gpu, addr, 1), "{addr:#x} is beside {block}");
        }
    }
    let there = stream(&gpu);
    let fill = || Op::Fill(Fill { dst: blocks[0].at, len: USUAL.len, pattern: [9; 4], device: Some(0) });
    submit(&there, fill);
    there.synchronize(MINUTE).expect("done");
    gpu.end_import(blocks[0].base).expect("closed");
    assert!(!is_known(&gpu, blocks[0].base, 1), "opened for the other one, and nobody's");
    assert!(fetch(&gpu, blocks[1].base, 64).iter().all(|byte| *byte == 3));
    gpu.end_import(blocks[1].base).expect("closed");
}
