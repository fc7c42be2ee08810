//! Large blocks of page-locked memory are mapped by the backend and registered with the driver; where that is
//! refused they are the driver's. The stand-in driver fails when it is told to; a real one does not, and then
//! less is looked at.

use super::{chunks::free, lost::in_child, *};

const LARGE: usize = 20 * MIB + 4096;

/// What the system says of the mapping around an address, after its first line; nothing where there is none.
fn mapping(addr: usize) -> Option<(String, String)> {
    let maps = std::fs::read_to_string("/proc/self/smaps").expect("a list of mappings");
    let mut lines = maps.lines().peekable();
    while let Some(line) = lines.next() {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        let Some((start, end)) = range.and_then(|(start, end)| {
            Some((usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?))
        }) else {
            continue;
        };
        if (start..end).contains(&addr) {
            let is_more = |next: &&str| next.split(' ').next().is_some_and(|word| word.ends_with(':'));
            return Some((line.into(), lines.take_while(is_more).collect::<Vec<_>>().join("\n")));
        }
    }
    None
}

/// Whether the block's memory was mapped by the backend: nothing is behind it, and neither a child nor a core
/// dump has it.
fn is_mapped_here(block: &Block) -> bool {
    mapping(block.base).is_some_and(|(line, about)| {
        let name = line.split_whitespace().nth(5).unwrap_or("[anon:ferry:page-locked]");
        let flags = about.lines().find(|line| line.starts_with("VmFlags:"));
        let is_private = |flags: &str| flags.contains(" dc") && flags.contains(" dd");
        name == "[anon:ferry:page-locked]" && flags.is_some_and(is_private)
    })
}

#[test]
fn large_blocks_are_there_zero_and_alone() {
    let Some(gpu) = gpu("large_blocks_are_there_zero_and_alone") else { return };
    for len in [16 * MIB, LARGE, 70 * MIB + 1] {
        let block = alloc(&gpu, Home::Host, len);
        assert!(is_mapped_here(&block), "{block}");
        assert!(read(&block).iter().all(|byte| *byte == 0), "{block}");
        let end = block.base + len.next_multiple_of(4096);
        for guard in [block.base - 1, end] {
            let (line, _) = mapping(guard).expect("a page that nobody can touch");
            assert!(line.contains(" ---p "), "{line}");
        }
        for (addr, len) in [(block.base - 1, 1), (end, 1), (block.base, len + 1)] {
            assert!(gpu.memory().place(addr, len, Access::Read).is_err(), "{len} bytes at {addr:#x}");
        }
        free(&gpu, &block);
        let why = gpu.memory().place(block.base, 1, Access::Read).expect_err("it is freed");
        assert!(why.note.contains("page-locked memory, where nothing is allocated"), "{why}");
    }
    let small = alloc(&gpu, Home::Host, 16 * MIB - 4096);
    assert!(!is_mapped_here(&small), "{small}");
    free(&gpu, &small);
}

#[test]
fn copies_reach_all_of_a_large_block() {
    let Some(gpu) = gpu("copies_reach_all_of_a_large_block") else { return };
    let (stream, want) = (stream(&gpu), noise(3, LARGE));
    let (source, there, target) = (locked(&gpu, &want), device(&gpu, LARGE), alloc(&gpu, Home::Host, LARGE));
    linear(&stream, there.base, source.base, LARGE);
    linear(&stream, target.base, there.base, LARGE);
    stream.synchronize(MINUTE).expect("done");
    assert!(read(&target) == want);
    // In small pieces, as a kernel copies them, at odd addresses and over what others would have joints at.
    let piece = |at: usize| Rows::linear(there.base + at, source.base + LARGE - 1001 - at, 1001);
    let pieces: Vec<_> = (0..LARGE - 1001).step_by(9973).map(piece).collect();
    copy(&stream, &pieces);
    copy(
        &stream,
        &pieces
            .iter()
            .map(|rows| Rows::linear(target.base + rows.dst - there.base, rows.dst, 1001))
            .collect::<Vec<_>>(),
    );
    stream.synchronize(MINUTE).expect("done");
    let got = read(&target);
    for rows in &pieces {
        let (to, from) = (rows.dst - there.base, rows.src - source.base);
        assert!(got[to..][..1001] == want[from..][..1001], "{to} from {from}");
    }
    for block in [source, there, target] {
        free(&gpu, &block);
    }
}

#[test]
fn a_very_large_block_goes_back_at_once_and_others_rest() {
    // Nobody else may come to lie at its addresses.
    in_child("pinned::a_very_large_block", &[]);
}

#[test]
#[ignore = "run by a_very_large_block_goes_back_at_once_and_others_rest"]
fn a_very_large_block() {
    let Some(gpu) = gpu("a_very_large_block") else { return };
    let (resting, large) = (alloc(&gpu, Home::Host, LARGE), alloc(&gpu, Home::Host, 257 * MIB));
    assert!(is_mapped_here(&resting) && is_mapped_here(&large));
    free(&gpu, &resting);
    free(&gpu, &large);
    assert!(is_mapped_here(&resting) && !is_mapped_here(&large));
    // The first has rested when as many others have.
    for _ in 0..40 {
        let other = alloc(&gpu, Home::Host, LARGE);
        free(&gpu, &other);
    }
    assert!(gpu.memory().place(resting.base, 1, Access::Read).is_err(), "nobody has it now");
    drop(gpu);
    assert!(!is_mapped_here(&resting), "it went with the runtime");
}

#[test]
fn what_is_in_use_outlives_the_runtime() {
    let Some(gpu) = gpu("what_is_in_use_outlives_the_runtime") else { return };
    let block = locked(&gpu, &noise(5, LARGE));
    drop(gpu);
    assert!(read(&block) == noise(5, LARGE));
}

/// Nothing is left of the attempt, and the driver's memory is as good.
#[test]
fn where_registering_is_refused_the_memory_is_the_drivers() {
    for (fail, is_refused) in [
        ("cuMemHostRegister:1:2", false),
        ("cuMemHostRegister:1:1", false),
        ("cuMemHostRegister:1:2,cuMemHostAlloc:1:2,cuMemHostRegister:2:2,cuMemHostAlloc:2:2", true),
    ] {
        let wants = if is_refused { "an error" } else { "memory" };
        in_child("pinned::not_registered", &[("STANDIN_FAIL", fail), ("WANTS", wants)]);
    }
}

#[test]
#[ignore = "run by where_registering_is_refused_the_memory_is_the_drivers"]
fn not_registered() {
    let Some(gpu) = gpu("not_registered") else { return };
    let Ok(wants) = std::env::var("WANTS") else { return };
    let request = Request { home: Home::Host, len: LARGE, page: 4096 };
    let made = gpu.alloc(&request);
    if made.as_ref().is_ok_and(is_mapped_here) {
        return eprintln!("not_registered: skipped: this driver does not fail when it is told to");
    }
    if wants == "an error" {
        let why = made.expect_err("not a byte");
        assert_eq!(why.kind, Kind::OutOfMemory, "{why}");
        assert!(why.note.contains("page-locked memory were asked for: cuMemHostAlloc"), "{why}");
    } else {
        let block = made.expect("memory");
        assert!(read(&block).len() == LARGE);
        free(&gpu, &block);
    }
    let maps = std::fs::read_to_string("/proc/self/smaps").expect("a list of mappings");
    let large = |line: &&str| line.starts_with("Size:") && line.contains(&format!(" {} kB", LARGE >> 10));
    assert!(maps.lines().filter(large).count() <= 1, "the driver's, or none:\n{maps}");
    let again = gpu.alloc(&request).expect("memory");
    assert!(is_mapped_here(&again), "the next one is not refused");
    free(&gpu, &again);
}

/// The pages of the parent stay those that the driver has locked, whoever writes; the child has none.
#[test]
fn a_forked_child_has_no_large_block_and_the_parent_goes_on() {
    let Some(gpu) = gpu("a_forked_child_has_no_large_block") else { return };
    let (stream, source, there) = (stream(&gpu), locked(&gpu, &noise(1, LARGE)), device(&gpu, LARGE));
    linear(&stream, there.base, source.base, LARGE);
    stream.synchronize(MINUTE).expect("done");
    // SAFETY: the child makes one system call and ends.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let mut state = 0_u8;
        // SAFETY: nothing is touched, and there is room for the state of one page.
        let asked = unsafe { libc::mincore(source.base as *mut libc::c_void, 1, &mut state) };
        // SAFETY: ends the child without running anything that belongs to the parent.
        unsafe { libc::_exit(if asked == 0 { 1 } else { 0 }) };
    }
    let want = noise(2, LARGE);
    // SAFETY: page-locked memory of that length, which nothing in flight uses.
    unsafe { ptr::copy_nonoverlapping(want.as_ptr(), source.base as *mut u8, LARGE) };
    linear(&stream, there.base, source.base, LARGE);
    stream.synchronize(MINUTE).expect("done");
    let mut status = -1;
    // SAFETY: waits for the child just made and writes to a local.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    assert_eq!(status, 0, "something is mapped in the child");
    assert!(fetch(&gpu, there.base, LARGE) == want);
    for block in [source, there] {
        free(&gpu, &block);
    }
}
