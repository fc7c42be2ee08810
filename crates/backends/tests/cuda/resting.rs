//! Freed memory rests before it is handed out again, as long as there is room, and the driver is asked
//! seldom. The stand-in driver has as little memory as it is told to, and fails when it is told to; a real
//! one does not, and then less is looked at.

use super::{lost::in_child, *};

fn free(gpu: &Runtime, block: &Block) {
    gpu.free(block.base, |_| Ok(())).expect("freed");
}

#[test]
fn what_rests_is_given_back_oldest_first_where_memory_is_short() {
    in_child("resting::a_small_gpu", &[("STANDIN_MEMORY", "67108864")]);
}

#[test]
#[ignore = "run by what_rests_is_given_back_oldest_first_where_memory_is_short"]
fn a_small_gpu() {
    let Some(gpu) = gpu("a_small_gpu") else { return };
    let total = gpu.memory_info(0).expect("asked").1;
    let is_small = total == 64 * MIB;
    let blocks = [20, 20, 20].map(|mib| device(&gpu, mib * MIB));
    blocks.iter().for_each(|block| free(&gpu, block));
    if is_small {
        assert_eq!(gpu.memory_info(0), Ok((total, total)), "what rests is free");
    }
    let fresh = device(&gpu, 20 * MIB);
    assert!(!is_small || fresh.base == blocks[0].base, "the oldest made room: {fresh}, {blocks:?}");
    for block in &blocks[1..] {
        assert_ne!(fresh.base, block.base);
        assert!(gpu.memory().place(block.base, 1, Access::Read).is_err(), "{block} rests on");
    }
    free(&gpu, &fresh);
    // Whatever rests, all of the memory can be had.
    for round in 0..200 {
        let block = device(&gpu, (round * 7 % 63 + 1) * MIB);
        free(&gpu, &block);
    }
    let most = if is_small { total } else { MIB };
    let whole = device(&gpu, most);
    if is_small {
        assert_eq!(gpu.memory_info(0), Ok((0, total)));
        let why = gpu.alloc(&Request { home: Home::Device(0), len: 1, page: 4096 }).expect_err("no room");
        assert_eq!(why.kind, Kind::OutOfMemory, "{why}");
    }
    free(&gpu, &whole);
}

#[test]
fn page_locked_memory_that_rests_is_given_back_where_memory_is_short() {
    // The first one is for what the backend makes of its own accord; each of the others is tried again.
    for turn in ["2", "3", "4"] {
        in_child("resting::a_small_host", &[("STANDIN_FAIL", &format!("cuMemHostAlloc:{turn}:2"))]);
    }
}

#[test]
#[ignore = "run by page_locked_memory_that_rests_is_given_back_where_memory_is_short"]
fn a_small_host() {
    let Some(gpu) = gpu("a_small_host") else { return };
    for len in [4096, 3 * MIB, 5 * MIB, 7 * MIB] {
        let block = alloc(&gpu, Home::Host, len);
        free(&gpu, &block);
    }
}

#[test]
fn blocks_of_one_size_come_and_go_without_the_driver() {
    for call in ["cuMemAlloc", "cuMemFree", "cuMemHostAlloc", "cuMemFreeHost"] {
        in_child("resting::blocks_of_one_size", &[("STANDIN_FAIL", &format!("{call}:50:1"))]);
    }
}

#[test]
#[ignore = "run by blocks_of_one_size_come_and_go_without_the_driver"]
fn blocks_of_one_size() {
    let Some(gpu) = gpu("blocks_of_one_size") else { return };
    for home in [Home::Device(0), Home::Host] {
        let mut seen = Vec::new();
        for round in 0..300 {
            let block = alloc(&gpu, home, 4 * MIB);
            let last = seen.iter().rposition(|base| *base == block.base);
            assert!(
                last.is_none_or(|last| round - last > 16),
                "{block} of round {last:?} is back in {round}"
            );
            seen.push(block.base);
            free(&gpu, &block);
        }
    }
}
